"""What the bus itself was asked and had not answered when its broker ended: the next one goes on with it."""

from __future__ import annotations

import logging

import pytest

from ether_actors.supervisor.capabilities import administration
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.journal.journal_maintenance import Done
from ether_actors.supervisor.recovery import read_history
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.journal.journal import Removed
from ether_broker.transport.address import Address
from ether_broker.transport.sessions.admission_control import AdmissionControl
from ether_broker.wire.frame import Kind, pack_envelope, read_header
from tests.actors.fold import differences
from tests.actors.peers import request_id
from tests.actors.recovery_world import Asked, Life, World


def folded(world: World) -> History:
    """What the journal tells now."""
    return read_history(world.journal)


def back(world: World) -> None:
    """Let everybody come back to the new broker."""
    for life in world.lives:
        life.greet()
    world.settle()


class Writers:
    """A delegator, and three specialists that each work on a delegation and want the same lease."""

    def __init__(self) -> None:
        self.world = World()
        self.d = self.world.life("d")
        self.lives = {name: self.world.life(f"n{name}", name) for name in "abc"}
        self.world.settle()
        self.work = {name: self.d.ask("once", to=name, timeout=60.0) for name in "abc"}
        self.world.settle()
        self.claims = {name: self.claim(name) for name in "abc"}

    def claim(self, name: str, **params: object) -> Asked:
        claim = self.lives[name].ask(
            "ether.lease", source=name, parent=self.work[name].number, params={"resource": "r", **params}, timeout=60.0
        )
        self.world.settle()
        return claim

    def outcomes(self) -> dict[str, list[Status]]:
        return {name: [status for status, _ in claim.outcomes] for name, claim in self.claims.items()}


def events(world: World, name: str) -> list[dict[str, object]]:
    found = []
    for envelope in world.journal.disk.envelopes:
        if envelope[0] == Kind.EVENT:
            body = unpack(envelope[read_header(envelope).body :])
            found += [body] if body["event"] == name else []
    return found


def test_claims_go_on_waiting_in_their_order():
    writers = Writers()
    world = writers.world
    assert writers.outcomes() == {"a": [Status.COMPLETED], "b": [], "c": []}

    world.crash()
    back(world)
    assert [claim.agent for claim in world.supervisor.state.leases.line("r")] == ["b", "c"]
    assert differences(world.supervisor, folded(world)) == []

    writers.lives["a"].answer(writers.work["a"].number)
    world.settle()
    assert writers.outcomes() == {"a": [Status.COMPLETED], "b": [Status.COMPLETED], "c": []}
    writers.lives["b"].answer(writers.work["b"].number)
    world.settle()
    assert writers.outcomes()["c"] == [Status.COMPLETED]
    tokens = [unpack(life.data[writers.claims[name].number]["data"])["token"] for name, life in writers.lives.items()]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("has_keys", [False, True])
def test_the_memory_of_leases_is_the_same_owners_after_restarts(has_keys: bool, monkeypatch: pytest.MonkeyPatch):
    if has_keys:

        def enter(self: AdmissionControl, address: Address) -> str:
            self._inside["office"] += 1
            return "office"

        monkeypatch.setattr(AdmissionControl, "enter", enter)
    writers = Writers()
    world = writers.world

    def sizes() -> dict[str, int]:
        accounts = {name: world.supervisor.state.registry.get(name.encode()).session.account for name in "abc"}
        return {name: account.kept for name, account in accounts.items()}

    one = world.supervisor.state.memory.size
    assert sizes() == dict.fromkeys("abc", one) if has_keys else {"a": one, "b": 0, "c": 0}
    for number in (2, 3):
        world.crash()
        back(world)
        writers.claim("a", resource=f"{number}")
        assert world.supervisor.state.memory.size == number * one
        assert sizes() == (dict.fromkeys("abc", number * one) if has_keys else {"a": number * one, "b": 0, "c": 0})

    writers.lives["a"].answer(writers.work["a"].number)
    world.settle()
    assert sizes() == (dict.fromkeys("abc", one) if has_keys else {"a": 0, "b": one, "c": 0})


def test_a_claim_waits_no_longer_than_it_said_over_a_restart():
    writers = Writers()
    writers.claim("a", resource="s")
    late = writers.claim("b", resource="s", wait=5.0)
    writers.world.pass_time(3.0)
    writers.world.crash(down=1.0)
    back(writers.world)
    assert late.outcomes == []

    writers.world.pass_time(2.0)

    assert late.outcomes == [(Status.TIMEOUT, "lease_held")]


def test_a_claim_is_called_off_after_a_restart():
    writers = Writers()
    writers.world.crash()
    back(writers.world)

    claim = writers.claims["b"]
    writers.lives["b"].say(pack_envelope(Kind.CANCEL, request_id=request_id(claim.number), source=b"b"))
    writers.world.settle()

    assert claim.outcomes == [(Status.CANCELLED, "cancelled")]
    assert [claim.agent for claim in writers.world.supervisor.state.leases.line("r")] == ["c"]


class JournalMaintenance:
    def __init__(self) -> None:
        self.asked: list[tuple[float, Done]] = []

    def collect(self, older_than: float, done: Done) -> None:
        self.asked.append((older_than, done))


def gc_world() -> tuple[World, Life, Asked, JournalMaintenance]:
    world, maintenance = World(), JournalMaintenance()
    world.supervisor.journal_gc.attach(maintenance)  # type: ignore[arg-type]  # its double
    d = world.life("d")
    world.settle()
    asked = d.ask("ether.journal-gc", params={"older_than": 7.5}, timeout=60.0)
    world.settle()
    return world, d, asked, maintenance


def test_giving_up_the_journals_old_part_is_begun_again():
    world, d, asked, before = gc_world()
    assert [when for when, _ in before.asked] == [7.5]
    world.crash()
    world.supervisor.journal_gc.attach(after := JournalMaintenance())  # type: ignore[arg-type]  # its double
    assert [when for when, _ in after.asked] == [7.5]
    back(world)

    after.asked[0][1](Removed(1, 2, 3, 4))
    world.settle()

    assert [status for status, _ in asked.outcomes] == [Status.COMPLETED]
    assert unpack(d.data[asked.number]["data"])["envelopes"] == 2
    assert differences(world.supervisor, folded(world)) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_the_lease_of_a_holder_that_is_gone_after_a_restart_is_released(is_there: bool):
    writers = Writers()
    world = writers.world
    journal = world.journal
    held = {
        "event": "lease_granted", "resource": "s", "agent": "a", "token": 10**18,
        "request_id": "00000000-0000-7000-8000-00000000ffff",
    }  # fmt: skip
    if not is_there:
        event = pack_envelope(Kind.EVENT, request_id=request_id(1), body=pack(held))
        journal.append(journal.next, world.now, world.wall, [event])
    world.crash()
    back(world)

    released = [event for event in events(world, "lease_released") if event["resource"] == "s"]
    assert [event["reason"] for event in released] == ([] if is_there else ["ended"])
    assert set(folded(world).leases) == {"r"}
    assert differences(world.supervisor, folded(world)) == []


ODD = [[1], {"a": 1}, True, 7, "x", b"x", [[]], {}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    ("capability", "params"),
    [
        ("ether.journal-gc", {"older_than": 0.0, "journal": 1}),
        ("ether.journal-gc", {"older_than": 1}),
        ("ether.lease", {"resource": 1}),
        ("ether.lease", {"resource": "r", "wait": 1}),
        ("ether.release", {"token": 1}),
        ("ether.publish", {"topic": 1, "data": b""}),
        ("ether.publish", {"topic": "a.b", "data": 1, "timeout": 1}),
        ("ether.agents", {"agents": 1, "after": 1, "limit": 1}),
        ("ether.states", {"agents": 1}),
        ("ether.statistics", {"discard": 1}),
    ],
)
def test_a_question_with_an_odd_value_ends_and_keeps_no_broker_from_starting(
    capability: str, params: dict[str, object], odd: object
):
    for name in params:
        world, d, _, maintenance = gc_world()
        asked = d.ask(capability, params={**params, name: odd}, timeout=20.0)
        world.settle()
        world.crash()
        world.supervisor.journal_gc.attach(maintenance)  # type: ignore[arg-type]  # its double
        back(world)
        world.pass_time(25.0)
        world.settle()
        assert len(asked.outcomes) == 1


def test_a_question_that_the_bus_cannot_do_fails_and_so_it_does_when_the_next_broker_begins_with_it(
    monkeypatch: pytest.MonkeyPatch,
):
    def breaks(*_: object) -> None:
        raise TypeError("unhashable")

    world, d, waiting, _ = gc_world()
    monkeypatch.setitem(administration._ACTIONS, "ether.journal-gc", breaks)
    logging.getLogger("ether.supervisor").disabled = True
    try:
        broken = d.ask("ether.journal-gc", params={"older_than": 7.5}, timeout=60.0)
        world.settle()
        world.crash()
        back(world)
    finally:
        logging.getLogger("ether.supervisor").disabled = False

    assert broken.outcomes == waiting.outcomes == [(Status.FAILED_EXECUTION, "exception")]
    assert differences(world.supervisor, folded(world)) == []
