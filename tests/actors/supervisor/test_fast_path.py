"""The fast path rules as the general one does: of two supervisors that hear the same, one has it, and both do the same."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ether_actors.supervisor.delegations.fast_path import FastPath
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.state.ledger import State
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.transport.address import Address
from ether_broker.wire.frame import Flag, Kind, Message
from tests.actors.peers import Bus, Peer
from tests.actors.supervisor.test_supervisor_stateful import OUTCOMES, Supervision
from tests.actors.supervisor_books import Books
from tests.simulation.world import simulate


def _ids() -> Callable[[], bytes]:
    numbers = itertools.count(1)
    return lambda: (1 << 100 | next(numbers)).to_bytes(16)


def kept(supervisor: Supervisor) -> dict[str, Any]:
    """What a supervisor knows, owes and has to do."""
    state = supervisor.state
    agents = sorted(state.registry.agents, key=lambda agent: agent.turn)
    return {
        "entries": [
            (
                entry.request_id, entry.source, entry.agent.name, entry.capability, entry.idempotent, entry.pinned,
                entry.chain_length, entry.number, entry.deadline, entry.slot, entry.opened, entry.attempt, entry.returns,
                entry.envelope, entry.size, entry.state, entry.holds_credit, entry.is_volatile,
                entry.asking_session.node, [child.request_id for child in entry.children or ()],
            )
            for entry in state.ledger.running
        ],
        "ledger": (state.ledger.size, {slot: list(due) for slot, due in state.ledger.deadlines.slots.items() if due}),
        "agents": [
            (
                agent.name, agent.condition, agent.mailbox.in_flight, agent.mailbox.waiting_count,
                agent.mailbox.waiting_bytes, [entry.request_id for entry in agent.work], list(agent.ended_at_node),
                agent.ended, list(agent.recent or ()),
            )
            for agent in agents
        ],
        "ended": state.ended.pack(),
        "counts": (state.accepted, state.outcomes, state.tap.next, state.durable),
        "letters": [(number, letter and letter.reason) for number, letter in state.dead_letters.below()],
        "sessions": [
            (
                session.node, session.heard, session.handled, list(session.outbox), session.outbox_bytes, session.fresh,
                session.input.tag,
            )
            for session in state.session_table.sessions
        ],
        "wake": (supervisor.next_wake(), state.schedule.next),
    }  # fmt: skip


class TwinBus(Bus):
    """A bus whose supervisor has a twin without the fast path."""

    def __init__(self, limits: Limits | None = None, **options: Any) -> None:
        super().__init__(limits, make_id=_ids(), **options)
        self.twin = Supervisor(limits=limits, make_id=_ids(), fast_path=False, **options)
        step, outgoing = self.supervisor.step, self.state.session_table.outgoing

        def both(arrivals: list[tuple[Address, Message]], now: float, wall: float) -> None:
            step(arrivals, now, wall)
            self.twin.step(arrivals, now, wall)
            found, expected = kept(self.supervisor), kept(self.twin)
            for what, value in expected.items():
                assert found[what] == value, what

        def same() -> Iterator[tuple[Address, Message]]:
            found = list(outgoing())
            assert found == list(self.twin.state.session_table.outgoing())
            return iter(found)

        self.supervisor.step = both  # type: ignore[method-assign]  # as every test steps it
        self.state.session_table.outgoing = same  # type: ignore[method-assign]


class TwinBooks(Books):
    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.bus = TwinBus(limits)


class TwinSupervision(Supervision):
    books_type = TwinBooks


TestTheSame = TwinSupervision.TestCase
TestTheSame.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class OrdinaryWork(RuleBasedStateMachine):
    """Mostly ordinary work for agents with a capability of their own, and whatever makes some of it not ordinary."""

    @initialize(window=st.integers(1, 3), count=st.integers(0, 2), size=st.sampled_from([300, 1 << 20]))
    def a_bus(self, window: int, count: int, size: int) -> None:
        self.bus = TwinBus(Limits(window=window, mailbox_count=count, mailbox_bytes=size))
        self.asker = self.bus.delegator("asker")
        self.homes: dict[str, Peer] = {}
        self.work: list[tuple[Peer, str, int]] = []
        self.asked: list[int] = []
        for name in "abc":
            self.an_agent_comes(name)
            self.asks(name, is_named=True, timeout=20.0)
            self.answers(Status.COMPLETED)

    def step(self) -> None:
        self.bus.step()
        for name, peer in self.homes.items():
            self.work += [
                (peer, name, number) for number in peer.work() if self.bus.agent(name).session is peer.session
            ]
        self.asker.inbox.clear()

    @rule(name=st.sampled_from("abc"))
    def an_agent_comes(self, name: str) -> None:
        known = self.bus.state.registry.get(name.encode())
        if known is None or known.condition is Condition.DOWN:
            self.homes[name] = self.bus.node(f"n{len(self.bus.peers)}", name)
        self.homes[name].register(name, f"own.{name}", "shared", idempotent=name == "a")
        self.step()

    @rule(name=st.sampled_from("abcdd"), is_named=st.booleans(), timeout=st.sampled_from([0.0, 0.3, 20.0, 20.0, 20.0]))
    def asks(self, name: str, is_named: bool, timeout: float) -> None:
        capability, to = ("shared", "") if name == "d" else (f"own.{name}", name if is_named else "")
        self.asked.append(self.asker.delegate("asker", capability, to=to, timeout=timeout, params={"n": 1}))
        self.step()

    @rule(
        names=st.lists(st.sampled_from("abc"), min_size=1, max_size=6), is_named=st.booleans(), answered=st.booleans()
    )
    def all_is_ordinary(self, names: list[str], is_named: bool, answered: bool) -> None:
        if answered:
            self.all_answer()
        for name in names:
            known = self.bus.state.registry.get(name.encode())
            if known is None or known.condition is not Condition.UP:
                self.an_agent_comes(name)
            self.asks(name, is_named, 20.0)
            if answered:
                self.answers(Status.COMPLETED)

    @rule(count=st.integers(2, 5), name=st.sampled_from("abc"), is_answered=st.booleans())
    def asks_several_at_once(self, count: int, name: str, is_answered: bool) -> None:
        self.asked += [self.asker.delegate("asker", f"own.{name}") for _ in range(count)]
        if is_answered:
            self.all_answer()
        self.step()

    @precondition(lambda self: self.asked)
    @rule(
        data=st.data(), flags=st.sampled_from([Flag.NONE, Flag.RESENT]), capability=st.sampled_from(["own.a", "own.b"])
    )
    def asks_again(self, data: st.DataObject, flags: Flag, capability: str) -> None:
        self.asker.delegate("asker", capability, number=data.draw(st.sampled_from(self.asked)), flags=flags)
        self.step()

    @precondition(lambda self: self.work)
    @rule(data=st.data(), name=st.sampled_from("abc"), is_volatile=st.booleans())
    def a_handler_asks(self, data: st.DataObject, name: str, is_volatile: bool) -> None:
        peer, agent, number = data.draw(st.sampled_from(self.work))
        peer.delegate(agent, f"own.{name}", parent=number, flags=Flag.VOLATILE if is_volatile else Flag.NONE)
        self.step()

    @precondition(lambda self: self.work)
    @rule(
        status=st.sampled_from([*OUTCOMES, *[Status.COMPLETED] * 12, Status.ACCEPTED, Status.PROGRESS, Status.TIMEOUT])
    )
    def answers(self, status: Status) -> None:
        if self.work:
            peer, agent, number = self.work[0] if not status.is_terminal else self.work.pop(0)
            if not peer.is_dead:
                peer.respond(agent, number, status)
        self.step()

    @precondition(lambda self: self.work)
    @rule()
    def all_answer(self) -> None:
        for peer, agent, number in self.work:
            if not peer.is_dead:
                peer.respond(agent, number, data=b"x")
        self.work.clear()
        self.step()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancels(self, data: st.DataObject) -> None:
        self.asker.cancel("asker", data.draw(st.sampled_from(self.asked[-4:])))
        self.step()

    @rule(name=st.sampled_from("abc"), what=st.sampled_from(["restarting", "drains", "gone", "dies"]))
    def an_agent_goes(self, name: str, what: str) -> None:
        peer = self.homes[name]
        if peer.is_dead:
            return
        if what == "dies":
            peer.die()
        elif what == "drains":
            peer.send(Kind.UNREGISTER, source=name.encode(), flags=Flag.HANDED_BACK)
        else:
            peer.send(Kind.UNREGISTER, source=name.encode(), body={"condition": what})
        self.step()

    @rule()
    def the_delegator_is_replaced(self) -> None:
        self.asker.send(Kind.BYE)
        self.bus.step()
        self.asker = self.bus.node(f"n{len(self.bus.peers)}")
        self.asker.register_manifest(Manifest(agent="asker"))
        self.step()

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.bus.pass_time(seconds)
        self.step()


TestOrdinaryWork = OrdinaryWork.TestCase
TestOrdinaryWork.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


# -- what is ordinary, and what is not ---------------------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, bool]]:
    """How many envelopes of each kind the fast path took, and left to the general one."""
    counts: Counter[tuple[int, bool]] = Counter()
    take = FastPath.take

    def counted(self: FastPath, session: Any, envelope: bytes) -> bool:
        is_taken = take(self, session, envelope)
        counts[envelope[0], is_taken] += 1
        return is_taken

    monkeypatch.setattr(FastPath, "take", counted)
    return counts


def a_pair(**options: Any) -> tuple[TwinBus, Peer, Peer]:
    """A bus, a delegator, and a specialist whose capability has been asked for once."""
    bus = TwinBus(**options)
    asker, worker = bus.delegator("asker"), bus.node("w", "worker")
    bus.step()
    first = asker.delegate("asker")
    bus.step()
    worker.work()
    worker.respond("worker", first)
    bus.step()
    assert asker.outcomes() == {first: Status.COMPLETED}
    return bus, asker, worker


@pytest.mark.parametrize("to", ["", "worker"])
def test_a_first_delegation_and_its_outcome_are_ordinary(taken: Counter[tuple[int, bool]], to: str) -> None:
    bus, asker, worker = a_pair()
    taken.clear()

    number = asker.delegate("asker", to=to)
    bus.step()
    assert worker.work() == [number]
    entry = bus.entry(number)
    assert entry is not None
    assert entry.state is State.SENT
    assert entry.pinned == bool(to)
    worker.respond("worker", number)
    bus.step()

    assert asker.outcomes() == {number: Status.COMPLETED}
    assert taken == {(Kind.DELEGATION, True): 1, (Kind.RESPONSE, True): 1}


@pytest.mark.parametrize(
    "asked",
    [
        {"timeout": None}, {"timeout": -1.0}, {"timeout": 1e9}, {"deadline": float("nan")}, {"attempt": 2},
        {"flags": Flag.RESENT}, {"flags": Flag.VOLATILE}, {"parent": 77}, {"status": 1}, {"capability": "x"},
        {"capability": "ether.agents"}, {"capability": "é"}, {"capability": "no.body"}, {"to": "nobody"},
        {"source": "forged"}, {"source": ""}, {"to": "asker"}, {"number": (1 << 128) - 1},
        {"body": b"x" * (1 << 20)},
    ],
)  # fmt: skip
def test_whatever_is_out_of_the_ordinary_is_left_to_the_general_path(
    taken: Counter[tuple[int, bool]], asked: dict[str, Any]
) -> None:
    bus, asker, worker = a_pair()
    taken.clear()

    asker.delegate(**{"source": "asker", **asked})
    bus.step()

    assert taken[Kind.DELEGATION, True] == 0
    worker.work()


@pytest.mark.parametrize("condition", ["restarting", "drains", "gone", "lost"])
def test_an_agent_that_is_not_up_is_left_to_the_general_path(taken: Counter[tuple[int, bool]], condition: str) -> None:
    bus, asker, worker = a_pair()
    if condition == "lost":
        worker.die()
        bus.pass_time(4.0)
    elif condition == "drains":
        worker.send(Kind.UNREGISTER, source=b"worker", flags=Flag.HANDED_BACK)
    else:
        worker.send(Kind.UNREGISTER, source=b"worker", body={"condition": condition})
    bus.step()
    taken.clear()

    asker.delegate("asker")
    asker.delegate("asker", to="worker")
    bus.step()

    assert taken == {(Kind.DELEGATION, False): 2}


def test_what_waits_and_what_is_for_one_of_several_is_ordinary_and_what_is_refused_is_not(
    taken: Counter[tuple[int, bool]],
) -> None:
    bus, asker, worker = a_pair(limits=Limits(window=2, mailbox_count=1))
    taken.clear()

    numbers = [asker.delegate("asker") for _ in range(4)]
    bus.step()
    assert taken == {(Kind.DELEGATION, True): 3, (Kind.DELEGATION, False): 1}
    assert asker.outcomes() == {numbers[3]: Status.REJECTED_OVERLOAD}
    assert worker.work() == numbers[:2]
    for number in numbers[:2]:
        worker.respond("worker", number)
    bus.step()
    assert worker.work() == numbers[2:3]
    assert taken[Kind.RESPONSE, True] == 2

    others = [bus.node(f"v{number}", f"other{number}") for number in range(20)]
    for _ in range(25):
        asker.delegate("asker")
        bus.step()
    taken.clear()
    for _ in range(5):
        asker.delegate("asker")
        bus.step()
    assert taken[Kind.DELEGATION, True] == 5
    assert sum(len(other.work()) for other in others) == 29


def test_answers_of_others_late_and_repeated_ones_are_left_to_the_general_path(
    taken: Counter[tuple[int, bool]],
) -> None:
    bus, asker, worker = a_pair()
    other = bus.node("o", "other", idempotent=True)
    number = asker.delegate("asker", to="worker")
    bus.step()
    worker.work()
    taken.clear()

    other.respond("other", number)
    other.respond("worker", number)
    worker.respond("worker", number, Status.ACCEPTED)
    worker.respond("worker", number, Status.TIMEOUT)
    worker.respond("worker", number, 99)
    worker.send(Kind.RESPONSE, request_id=number.to_bytes(16), source=b"worker", status=2, attempt=7, body={})
    bus.step()
    assert taken == {(Kind.RESPONSE, False): 6}
    worker.respond("worker", number)
    worker.respond("worker", number)
    bus.step()

    assert [received.status for received in asker.took(Kind.RESPONSE)] == [Status.ACCEPTED, Status.COMPLETED]
    assert bus.reasons().count("duplicate") == 1


def test_with_an_access_list_nothing_is_ordinary(taken: Counter[tuple[int, bool]]) -> None:
    bus = TwinBus(access=Access(delegate=[DelegateRule("*")], register=[RegisterRule("*", "*")]))
    asker = bus.delegator("asker")
    bus.node("w", "worker")
    taken.clear()

    asker.delegate("asker")
    bus.step()

    assert taken[Kind.DELEGATION, True] == 0


def test_an_agent_of_sub_delegations_alone_is_left_to_the_general_path(taken: Counter[tuple[int, bool]]) -> None:
    bus, asker, worker = a_pair()
    manifest = worker.session.agents[b"worker"].manifest
    worker.register_manifest(Manifest(agent="worker", capabilities=manifest.capabilities, interface=("chained",)))
    bus.step()
    taken.clear()

    asker.delegate("asker", to="worker")
    asker.delegate("asker")
    bus.step()

    assert taken == {(Kind.DELEGATION, False): 2}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_simulated_world_is_the_same_with_it_and_without(seed: int) -> None:
    assert simulate(seed) == simulate(seed, has_fast_path=False)


def test_a_fast_path_that_rules_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = FastPath.take

    def forgetful(self: FastPath, session: Any, envelope: bytes) -> bool:
        is_taken = take(self, session, envelope)
        if is_taken and envelope[0] == Kind.RESPONSE:
            self._state.outcomes.clear()
        return is_taken

    monkeypatch.setattr(FastPath, "take", forgetful)
    with pytest.raises(AssertionError, match="counts"):
        a_pair()[0].step()
