"""How the supervisor gives leases: what is asked on the wire, and what comes of it when delegations and nodes end."""

from __future__ import annotations

from typing import Any

import pytest

from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.rulings_shell import ROOM


class Writers:
    """A delegator `d`, and specialists on nodes of their own that each work on a delegation of the same number."""

    def __init__(self, *names: str, **registration: Any) -> None:
        self.bus = Bus(ROOM)
        self.d = self.bus.delegator("d")
        self.peers: dict[str, Peer] = {}
        self.work: dict[str, int] = {}
        for name in names or ("a", "b", "c"):
            self.peers[name] = self.bus.node(f"n{name}", name, **registration)
            self.work[name] = self.d.delegate("d", to=name, timeout=30.0)
        self.bus.step()

    def ask(self, name: str, resource: Any = "r", *, parent: int | None = None, **params: Any) -> int:
        """Ask for a lease for the agent's delegation; the number of the asking."""
        header = {key: params.pop(key) for key in ("timeout", "number") if key in params}
        number = self.peers[name].delegate(
            name, "ether.lease", parent=self.work[name] if parent is None else parent,
            params={"resource": resource, **params}, **header,
        )  # fmt: skip
        self.bus.step()
        return number

    def release(self, name: str, token: int) -> bool:
        self.peers[name].delegate(name, "ether.release", parent=self.work[name], params={"token": token})
        self.bus.step()
        return self.answer(name)["released"]

    def responses(self, name: str) -> list[Any]:
        return [read_response(got.header, got.envelope) for got in self.peers[name].took(Kind.RESPONSE)]

    def response(self, name: str) -> Any:
        (response,) = self.responses(name)
        return response

    def answer(self, name: str) -> Any:
        """The data of the one answer that came, which is COMPLETED."""
        response = self.response(name)
        assert response.status is Status.COMPLETED, response.explain()
        return response.data

    def refusal(self, name: str) -> tuple[Status, str]:
        response = self.response(name)
        return response.status, response.error.code

    def events(self) -> list[str]:
        names = {request_id(number).hex(): name for name, number in self.work.items()}
        told = []
        for event in self.bus.events():
            what, name = event["event"], names.get(str(event.get("request_id", "")).replace("-", ""))
            if what.startswith("lease_"):
                told.append(f"{name} {what.removeprefix('lease_')} {event.get('reason', '')}".strip())
        return told

    @property
    def leases(self) -> Any:
        return self.bus.supervisor.lease_service.leases


def test_a_free_lease_is_granted_at_once_and_told_to_observers():
    world = Writers()

    world.ask("a")

    granted = world.answer("a")
    (event,) = world.bus.events("lease_granted")
    assert granted["resource"] == "r"
    assert event == {
        "event": "lease_granted",
        "resource": "r",
        "agent": "a",
        "request_id": event["request_id"],
        "token": granted["token"],
    }


def test_a_held_lease_is_answered_when_it_is_released():
    world = Writers()
    world.ask("a")
    first = world.answer("a")["token"]
    world.ask("b")
    assert world.responses("b") == []

    assert world.release("a", first) is True

    assert world.answer("b")["token"] == first + 1
    assert world.events() == ["a granted", "a released released", "b granted"]
    assert world.release("a", first) is False


@pytest.mark.parametrize("outcome", [Status.COMPLETED, Status.FAILED_EXECUTION, Status.PARTIAL])
def test_a_lease_ends_with_its_delegation_whatever_the_outcome(outcome: Status):
    world = Writers()
    world.ask("a")
    world.ask("b")

    world.peers["a"].respond("a", world.work["a"], outcome)
    world.bus.step()

    assert world.answer("b")["resource"] == "r"
    assert world.events() == ["a granted", "a released ended", "b granted"]
    *_, released, granted, told, outcome = world.bus.tapped
    assert (released.body["event"], granted.body["event"]) == ("lease_released", "lease_granted")
    assert (told.header.target, outcome.number) == (b"b", world.work["a"])


def test_a_lease_ends_with_a_timeout_and_with_a_cancellation():
    world = Writers()
    world.ask("a", "r")
    world.ask("b", "r", timeout=60.0)
    world.ask("b", "s")
    world.ask("c", "s")

    world.d.cancel("d", world.work["a"])
    world.bus.step()
    assert len(world.responses("b")) == 2

    world.bus.pass_time(30.5)
    assert not list(world.leases.after(0))
    assert not world.leases.stakes
    assert world.refusal("c")[0] in (Status.CANCELLED, Status.TIMEOUT)


def test_a_lost_node_leaves_its_leases_to_those_who_wait():
    world = Writers()
    world.ask("a")
    first = world.answer("a")["token"]
    world.ask("b")

    world.peers["a"].die()
    world.bus.pass_time(4.0)

    assert world.answer("b")["token"] > first
    assert world.events() == ["a granted", "a released ended", "b granted"]


def test_a_redelivered_attempt_does_not_inherit_and_the_old_one_gets_nothing_more():
    # Given a holds the lease for work that may run twice
    world = Writers("a", "b", idempotent=True)
    work = world.d.delegate("d", timeout=30.0, to="")
    world.bus.step()
    (holder,) = [name for name in "ab" if work in world.peers[name].work()]
    other = "b" if holder == "a" else "a"
    world.work[holder] = world.work[other] = work
    world.ask(holder, attempt=1)
    first = world.answer(holder)["token"]

    # When its node is lost, and the work is given to the other
    world.peers[holder].die()
    world.bus.pass_time(4.0)
    assert work in world.peers[other].work()
    assert not list(world.leases.after(0))

    # Then that asks again, with the attempt that it is
    world.ask(other, attempt=1)
    assert world.refusal(other) == (Status.CANCELLED, "parent_ended")
    world.ask(other, attempt=2)
    assert world.answer(other)["token"] > first


def test_waiting_ends_with_its_patience_its_deadline_and_its_delegation():
    world = Writers("a", "b", "c", "e", "f")
    world.ask("a")
    world.ask("b", wait=1.0)
    world.ask("c", timeout=2.0)
    world.ask("e", timeout=20.0)
    late = world.ask("f")

    world.bus.pass_time(1.25)
    response = world.response("b")
    assert (response.status, response.error.code) == (Status.TIMEOUT, "lease_held")
    assert "a holds it" in response.error.message
    world.bus.pass_time(1.0)
    assert world.refusal("c") == (Status.TIMEOUT, "lease_held")
    world.peers["e"].respond("e", world.work["e"])
    world.bus.step()
    assert world.refusal("e") == (Status.CANCELLED, "parent_ended")

    assert [claim.ask for claim in world.leases.line("r")] == [request_id(late)]


def test_without_patience_the_answer_is_who_holds_it():
    world = Writers()
    world.ask("a")
    world.ask("b", wait=0)

    response = world.response("b")

    assert response.status is Status.REJECTED_OVERLOAD
    assert (response.error.code, response.error.retryable) == ("lease_held", True)
    assert "a (delegation" in response.error.message


def test_a_deadlock_is_refused_to_who_would_close_the_circle():
    world = Writers()
    world.ask("a", "r")
    world.ask("b", "s")
    world.ask("a", "s")
    world.responses("b")

    world.ask("b", "r")

    assert world.refusal("b") == (Status.FAILED_EXECUTION, "lease_deadlock")


def test_a_sub_delegation_does_not_wait_for_its_delegator():
    world = Writers("a", "b")
    world.ask("a")
    world.work["b"] = world.peers["a"].delegate("a", to="b", parent=world.work["a"])
    world.peers["b"].respond("b", 0)
    world.bus.step()

    world.ask("b")

    assert world.refusal("b") == (Status.FAILED_EXECUTION, "lease_deadlock")


def test_who_asked_may_call_its_claim_off_and_nobody_else():
    world = Writers()
    world.ask("a")
    number = world.ask("b")

    world.peers["c"].cancel("b", number)
    world.peers["c"].cancel("c", number)
    world.bus.step()
    assert world.responses("b") == []

    world.peers["b"].cancel("b", number)
    world.bus.step()
    assert world.refusal("b") == (Status.CANCELLED, "cancelled")
    assert list(world.leases.line("r")) == []
    assert world.bus.entry(world.work["b"]) is not None


def test_the_same_asking_again_while_it_waits_is_a_duplicate():
    world = Writers()
    world.ask("a")
    number = world.ask("b")

    world.ask("b", number=number)

    assert world.responses("b") == []
    assert world.bus.reasons() == ["duplicate"]


@pytest.mark.parametrize(
    ("who", "parent", "refused"),
    [
        ("a", 0, (Status.REJECTED_CONTEXT, "no_parent")),
        ("a", 9_999, (Status.REJECTED_CONTEXT, "unknown_parent")),
        ("b", "a", (Status.REJECTED_CONTEXT, "not_your_parent")),
    ],
)
def test_only_the_specialist_of_an_open_delegation_holds_leases(who: str, parent: Any, refused: tuple[Status, str]):
    world = Writers()

    world.ask(who, parent=world.work[parent] if isinstance(parent, str) else parent)

    assert world.refusal(who) == refused
    assert not list(world.leases.after(0))


def test_a_lease_is_not_released_by_another_agent_or_node():
    world = Writers()
    world.ask("a")
    token = world.answer("a")["token"]

    world.peers["b"].delegate("b", "ether.release", parent=world.work["a"], params={"token": token})
    world.bus.step()
    assert world.refusal("b") == (Status.REJECTED_CONTEXT, "not_your_parent")
    world.peers["b"].delegate("a", "ether.release", parent=world.work["a"], params={"token": token})
    world.bus.step()

    assert world.refusal("b") == (Status.REJECTED_CAPABILITY, "forged_sender")
    assert len(list(world.leases.after(0))) == 1


@pytest.mark.parametrize(
    ("capability", "params"),
    [
        ("ether.lease", {}),
        ("ether.lease", {"resource": ""}),
        ("ether.lease", {"resource": 7}),
        ("ether.lease", {"resource": "r\x1b[2J"}),
        ("ether.lease", {"resource": "x" * 4_097}),
        ("ether.lease", {"resource": "r", "wait": -1}),
        ("ether.lease", {"resource": "r", "wait": float("nan")}),
        ("ether.lease", {"resource": "r", "wait": True}),
        ("ether.release", {}),
        ("ether.release", {"token": "1"}),
        ("ether.release", {"token": True}),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(capability: str, params: dict[str, Any]):
    world = Writers()

    world.peers["a"].send(
        Kind.DELEGATION, request_id=request_id(9_999), source=b"a", capability=capability.encode(),
        parent=request_id(world.work["a"]), deadline=world.bus.now + 5.0, body={"params": pack(params)},
    )  # fmt: skip
    world.bus.step()

    assert world.refusal("a") == (Status.REJECTED_CONTEXT, "invalid_envelope")
    assert not list(world.leases.after(0))


def test_a_claim_that_comes_after_its_deadline_gets_nothing():
    world = Writers()

    world.ask("a", timeout=-1.0)

    assert world.refusal("a") == (Status.TIMEOUT, "expired")


def test_leases_tells_who_holds_what_and_who_waits():
    world = Writers()
    world.ask("a", "r")
    world.ask("a", "s")
    world.bus.pass_time(1.0)
    world.ask("b", "r")
    world.ask("c", "r")

    def asked(params: dict[str, Any]) -> Any:
        world.d.took(Kind.RESPONSE)
        world.d.delegate("d", "ether.leases", params=params)
        world.bus.step()
        (got,) = world.d.took(Kind.RESPONSE)
        response = read_response(got.header, got.envelope)
        return response.data["items"] if response.ok else response.error.code

    first, second = asked({})
    assert (first["resource"], first["agent"], first["node"], first["held_for"]) == ("r", "a", "na", 1.0)
    assert [claim["agent"] for claim in first["waiting"]] == ["b", "c"]
    assert second["resource"] == "s"
    assert asked({"resource": "s"}) == [second]
    assert asked({"resource": "q"}) == []
    assert asked({"resource": 7}) == "invalid_envelope"


def test_tokens_rise_over_a_restart_of_a_broker_that_forgets():
    first, second = Writers(), Writers()
    second.bus.now += 1.0

    first.ask("a")
    second.ask("a")

    assert second.answer("a")["token"] > first.answer("a")["token"]


def test_work_that_still_waits_in_a_mailbox_holds_nothing():
    world = Writers("a")
    for _ in range(ROOM.window):
        number = world.d.delegate("d", to="a", timeout=30.0)
    world.bus.step()

    world.ask("a", parent=number)

    assert world.refusal("a") == (Status.REJECTED_CONTEXT, "not_your_parent")


def test_a_token_is_above_all_that_another_bus_has_granted_before():
    world = Writers()
    world.ask("a")
    first = world.answer("a")["token"]
    world.bus.pass_time(2.0)
    world.ask("b", "another")
    second = world.answer("b")["token"]
    assert second >= first + 2_000_000, "in microseconds"

    world.ask("c")
    world.bus.pass_time(1.0)
    world.release("a", first)
    assert world.answer("c")["token"] >= second + 1_000_000


def test_the_leases_of_a_key_or_node_take_so_much_memory_and_the_others_get_theirs():
    world = Writers()
    memory = world.bus.state.memory
    memory._most = 1 << 20
    world.ask("a", "r")
    assert world.answer("a")["resource"] == "r"
    account = world.peers["a"].session.account
    memory.add(account, 1 << 19)
    world.ask("a", "s")
    assert world.refusal("a") == (Status.REJECTED_OVERLOAD, "too_many_leases")
    world.ask("b", "s")
    assert world.answer("b")["resource"] == "s"
    memory.add(account, -(1 << 19))


def test_the_name_of_a_lease_is_paid_by_its_length():
    w = Writers("a")

    def paid(resource: str) -> int:
        before = w.peers["a"].session.input.tag
        w.ask("a", resource)
        return w.peers["a"].session.input.tag - before

    assert paid("s" * 4_000) - paid("t") >= 4_000 >> 8
