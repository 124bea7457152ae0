"""Who holds what: the machine behind the leases, without a supervisor."""

from __future__ import annotations

import pytest

from ether_actors.supervisor.state.lease_table import MOST_WAITING, Claim, Granted, LeaseTable, Released, Withdrawn
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.errors import LeaseDeadlock, LeaseHeld, TooManyLeases
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.memory_quota import MemoryQuota


class Family:
    """Leases among delegations a, b, c, … whose parents the test says."""

    def __init__(self, *, most: int = 1_000, **parents: str) -> None:
        self.parents = {child.encode(): parent.encode() for child, parent in parents.items()}
        self.leases = LeaseTable(self.parents.get, most=most)
        self.asks = 0

    def claim(
        self,
        holder: str,
        resource: str,
        *,
        wait: bool = True,
        deadline: float = 100.0,
        now: float = 0.0,
        agent: str = "",
    ) -> str:
        """The outcome in a word: granted, or waits."""
        self.asks += 1
        ask = self.asks.to_bytes(16)
        claim = Claim(ask, resource, agent or f"agent-{holder}", holder.encode(), deadline)
        effects = self.leases.claim(claim, now, may_wait=wait)
        assert [type(effect) for effect in effects] in ([], [Granted])
        return "granted" if effects else "waits"

    def holder(self, resource: str) -> str:
        held = self.leases.holder(resource)
        return "" if held is None else held.holder.decode()

    def line(self, resource: str) -> str:
        return "".join(claim.holder.decode() for claim in self.leases.line(resource))

    def release(self, holder: str, resource: str, now: float = 0.0) -> list[str]:
        held = self.leases.holder(resource)
        assert held is not None
        return told(self.leases.release(holder.encode(), held.token, now))


def told(effects) -> list[str]:
    words = []
    for effect in effects:
        match effect:
            case Granted(claim, held):
                words.append(f"{claim.holder.decode()} granted {held.resource}")
            case Released(held, reason):
                words.append(f"{held.holder.decode()} {reason} {held.resource}")
            case Withdrawn(claim, reason):
                words.append(f"{claim.holder.decode()} withdrawn {claim.resource}: {reason}")
    return words


def test_a_free_resource_is_granted_and_a_held_one_waited_for_in_line():
    world = Family()

    assert [world.claim(name, "r") for name in "abc"] == ["granted", "waits", "waits"]

    assert (world.holder("r"), world.line("r")) == ("a", "bc")
    assert world.release("a", "r") == ["a released r", "b granted r"]
    assert (world.holder("r"), world.line("r")) == ("b", "c")


def test_each_token_is_one_above_the_last_on_whatever_resource():
    world = Family()
    world.leases.begin_above(41)
    for number in range(3):
        world.claim("a", f"r{number}")
    world.leases.left(b"a", "ended", 0.0)
    world.claim("b", "r0")

    assert world.leases.holder("r0").token == 45
    assert world.leases.token == 45


def test_who_does_not_want_to_wait_is_told_who_holds_it():
    world = Family()
    world.claim("a", "r")

    with pytest.raises(LeaseHeld, match=r"agent-a.*'r'"):
        world.claim("b", "r", wait=False)

    assert world.line("r") == ""


def test_only_the_holder_releases_and_only_with_its_token():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "r")
    token = world.leases.holder("r").token

    assert world.leases.release(b"b", token, 0.0) == []
    assert world.leases.release(b"a", token + 1, 0.0) == []
    assert world.leases.release(b"nobody", token, 0.0) == []
    assert world.holder("r") == "a"


def test_what_ends_takes_its_leases_and_its_claims_with_it():
    world = Family()
    world.claim("a", "r")
    world.claim("a", "s")
    world.claim("b", "t")
    world.claim("a", "t")
    world.claim("c", "r")
    world.claim("d", "r")

    assert told(world.leases.left(b"a", "ended", 0.0)) == [
        "a withdrawn t: ended",
        "a ended r",
        "c granted r",
        "a ended s",
    ]
    assert world.leases.left(b"a", "ended", 0.0) == []
    assert (world.line("t"), world.line("r")) == ("", "d")


def test_a_claim_that_is_late_is_passed_over_and_never_granted_after_its_deadline():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "r", deadline=5.02)
    world.claim("c", "r", deadline=9.0)

    assert world.release("a", "r", now=5.03) == ["a released r", "c granted r"]
    assert world.line("r") == "b"  # until whoever made it withdraws it
    assert world.leases.looked_at == 1

    assert world.release("c", "r", now=5.04) == ["c released r"]
    assert world.claim("d", "r") == "granted"


def test_what_has_left_is_granted_nothing_while_not_all_has_been_taken_from_it():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "r")
    world.claim("c", "r")
    world.claim("b", "s")
    world.claim("b", "t")

    assert told(world.leases.left(b"b", "ended", 0.0, 0)) == []
    assert list(world.leases.ending) == [b"b"]
    assert world.release("a", "r") == ["a released r", "c granted r"]
    assert told(world.leases.left(b"b", "ended", 0.0, 2)) == ["b withdrawn r: ended", "b ended s"]
    assert world.holder("t") == "b"
    assert told(world.leases.left(b"b", "ended", 0.0, 2)) == ["b ended t"]
    assert not world.leases.ending


def test_a_claim_whose_own_delegation_has_ended_waits_no_more():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "r")
    world.claim("c", "r")
    ask = next(claim.ask for claim in world.leases.line("r") if claim.holder == b"b")
    assert world.leases.bound >= {ask, b"a", b"b", b"c"}

    assert world.leases.left(ask, "ended", 0.0) == []

    assert world.line("r") == "c"
    assert not world.leases.bound & {ask, b"b"}


@pytest.mark.parametrize(("gone", "left"), [("b", "cd"), ("c", "bd"), ("d", "bc")])
def test_a_claim_that_is_called_off_leaves_the_line_in_order(gone: str, left: str):
    world = Family()
    for name in "abcd":
        world.claim(name, "r")
    ask = next(claim.ask for claim in world.leases.line("r") if claim.holder == gone.encode())

    assert world.leases.left(ask, "ended", 0.0) == []

    assert world.leases.left(ask, "ended", 0.0) == []
    assert world.line("r") == left
    world.claim("e", "r")
    assert world.line("r") == left + "e"
    assert world.release("a", "r")[1] == f"{left[0]} granted r"


def test_two_that_wait_for_each_other_are_a_deadlock():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "s")
    world.claim("a", "s")

    with pytest.raises(LeaseDeadlock, match=r"agent-a.*waits for this delegation of agent-b"):
        world.claim("b", "r")

    assert world.release("b", "s") == ["b released s", "a granted s"]


def test_a_circle_of_three_is_a_deadlock_and_an_open_chain_is_none():
    world = Family()
    for name, resource in zip("abc", "rst", strict=True):
        world.claim(name, resource)
    assert world.claim("a", "s") == "waits"
    assert world.claim("b", "t") == "waits"

    with pytest.raises(LeaseDeadlock):
        world.claim("c", "r")


def test_a_delegation_does_not_wait_for_a_lease_of_its_delegators():
    world = Family(child="mother", grandchild="child")
    world.claim("mother", "r")

    with pytest.raises(LeaseDeadlock, match="release it before you delegate"):
        world.claim("grandchild", "r")
    with pytest.raises(LeaseHeld):
        world.claim("grandchild", "r", wait=False)


def test_a_delegation_waits_for_a_lease_of_its_sub_delegation():
    world = Family(child="mother")
    world.claim("child", "r")

    assert world.claim("mother", "r") == "waits"


def test_a_circle_through_sub_delegations_is_a_deadlock():
    world = Family(x="a", y="b")
    world.claim("a", "r")
    world.claim("b", "s")
    assert world.claim("x", "s") == "waits"

    with pytest.raises(LeaseDeadlock):
        world.claim("y", "r")


def test_a_circle_through_a_place_in_line_is_a_deadlock():
    # Given c holds t, and b, which waits for t, is ahead of whoever asks for r next
    world = Family()
    world.claim("a", "r")
    world.claim("c", "t")
    world.claim("b", "r")
    world.claim("b", "t")

    with pytest.raises(LeaseDeadlock):
        world.claim("c", "r")


def test_who_is_behind_in_line_keeps_nobody_waiting():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "s")
    world.claim("c", "r")
    world.claim("d", "r")

    assert world.claim("c", "s") == "waits"


def test_asking_twice_is_waiting_for_oneself():
    world = Family()
    world.claim("a", "r")
    world.claim("b", "r")

    with pytest.raises(LeaseDeadlock, match="holds the lease on 'r' already"):
        world.claim("a", "r")
    with pytest.raises(LeaseDeadlock):
        world.claim("b", "r")


def test_an_agent_has_so_many_leases_and_claims_and_no_more():
    world = Family(most=2)
    world.claim("a", "r", agent="x")
    world.claim("b", "r", agent="x")

    with pytest.raises(TooManyLeases, match="x holds and waits for 2 leases"):
        world.claim("c", "s", agent="x")

    assert world.claim("c", "s", agent="y") == "granted"
    world.leases.left(b"b", "ended", 0.0)
    assert world.claim("c", "t", agent="x") == "granted"


def test_so_many_wait_for_one_lease_and_no_more():
    world = Family()
    for number in range(1 + MOST_WAITING):
        world.claim(f"d{number}", "r")

    with pytest.raises(TooManyLeases, match="4,096 claims wait for the lease on 'r'"):
        world.claim("late", "r")

    assert world.claim("late", "s") == "granted"
    world.leases.left(b"d7", "ended", 0.0)
    assert world.claim("later", "r") == "waits"
    world.release("d0", "r")
    assert (world.holder("r"), world.line("r")[:4]) == ("d1", "d2d3")


def test_what_is_looked_through_for_a_circle_is_counted_and_bounded():
    world = Family(most=10**9)
    for number in range(3):
        world.claim("hub", f"r{number}")
        for waiter in range(1_500):
            world.claim(f"w{number}-{waiter}", f"r{number}")
    world.claim("other", "r")

    with pytest.raises(TooManyLeases, match="More than 4,096 leases and claims hang on what this delegation"):
        world.claim("hub", "r")
    assert world.leases.looked_at > MOST_WAITING

    world.release("hub", "r0")
    assert world.claim("w0-1", "r") == "waits"
    assert world.leases.looked_at == 1_499
    assert world.claim("hub", "r0") == "waits"


def test_restored_leases_are_held_and_tokens_go_on_above_them():
    world = Family()
    world.leases.restore("s", "x", b"b", 7)
    world.leases.restore("r", "y", b"c", 9)

    held = [(held.resource, held.holder, held.token) for held in world.leases.after(0)]
    assert held == [("s", b"b", 7), ("r", b"c", 9)]
    assert world.claim("d", "t") == "granted"
    assert world.leases.token == 10
    assert set(world.leases.stakes) == {b"b", b"c", b"d"}


def test_the_leases_of_an_account_take_half_of_the_memory_at_most():
    memory = MemoryQuota(1 << 20)
    table = LeaseTable(lambda _holder: None, most=10**6, memory=memory)

    def fill(owner: str, account: Account, name: str) -> int:
        for number in range(10_000):
            claim = Claim(new_id(), f"{number} {owner} {name}", f"a{number % 50}", owner.encode(), 1e9, account)
            try:
                table.claim(claim, 0.0)
                pack(claim.resource)  # as it is told, which leaves its other form in the text
            except TooManyLeases:
                return number
        raise AssertionError

    x, y = Account(), Account()
    first = fill("x", x, "\N{WINKING FACE}" * 500)  # two bytes a character in one plane, four in this
    assert (1 << 18) < memory.size <= 1 << 19
    assert fill("y", y, "\N{WINKING FACE}" * 500) == first
    assert memory.size == 2 * x.kept <= 1 << 20
    assert fill("z", Account(), "\N{WINKING FACE}" * 500) < 5

    table.left(b"x", "ended", 0.0, 10**6)
    table.left(b"y", "ended", 0.0, 10**6)
    table.left(b"z", "ended", 0.0, 10**6)
    assert (memory.size, x.kept, y.kept) == (0, 0, 0)
    assert fill("y", y, "\N{WINKING FACE}" * 500) == first
