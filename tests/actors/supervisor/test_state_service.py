"""The states that agents save: whose, which of two, how much, and what a broker that is restarted knows of them."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.supervisor.delegations.reassignment import MAX_ATTEMPTS
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.state import agent_states
from ether_actors.supervisor.state.agent_states import AgentStates
from ether_broker.encoding.bounded import MOST_STATE
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Flag, Kind, join_frame, pack_envelope
from ether_broker.wire.saved_state import BroughtState, SavedState, join_state
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.stored_journal import Disk, StoredJournal


def answer(
    peer: Peer, agent: str, number: int, state: BroughtState, flags: Flag = Flag.NONE, *, attempt: int = 1
) -> None:
    """Answer a delegation, with a state."""
    answered = pack_envelope(
        Kind.RESPONSE, request_id=request_id(number), source=agent.encode(), target=b"desk", capability=b"x.y",
        status=Status.COMPLETED, flags=flags, attempt=attempt, body=b"\x80",
    )  # fmt: skip
    peer.raw(join_frame([join_state(answered, state)], peer.said_session))


A, B = b"a" * 16, b"b" * 16
"""Incarnations of an agent."""


def state(base: int, data: bytes, origin: bytes = A, incarnation: bytes = A) -> BroughtState:
    return BroughtState(base, origin if base else b"", incarnation, 1, data)


def saved(bus: Bus, agent: str = "w") -> tuple[int, bytes] | None:
    state = bus.state.agent_states.get(agent)
    return None if state is None else (state.number, state.data)


@pytest.fixture
def world() -> tuple[Bus, Peer, Peer]:
    bus = Bus()
    return bus, bus.delegator("desk"), bus.node("n", "w")


def begin(bus: Bus, desk: Peer, worker: Peer, **options: Any) -> int:
    number = desk.delegate("desk", to="w", **options)
    bus.step()
    worker.work()
    return number


def test_it_is_saved_with_the_outcome_which_passes_without_it(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    number = begin(bus, desk, worker)
    answer(worker, "w", number, state(0, b"one"))
    bus.step()

    (told,) = desk.took(Kind.RESPONSE)
    assert (told.header.status, told.header.flags & Flag.STATE) == (Status.COMPLETED.code, 0)
    assert told.envelope.endswith(b"\x80")
    assert saved(bus) == (1, b"one")
    kinds = [one.header.kind for one in bus.tapped[-2:]]
    assert kinds == [Kind.EVENT, Kind.RESPONSE]
    assert differences(bus.supervisor, bus.history) == []


def test_peers_and_journals_of_earlier_versions_know_its_incarnation_as_instance(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    answer(worker, "w", begin(bus, desk, worker), state(0, b"one", incarnation=B))
    bus.step()

    (event,) = bus.events("agent_state")
    assert event["instance"] == B
    told = {"number": 1, "instance": B, "version": 1, "state": b"one"}
    assert SavedState.of(told) == SavedState(1, B, 1, b"one")
    assert SavedState(1, B, 1, b"one").told() == told


def test_one_that_comes_again_changes_nothing(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    numbers = [begin(bus, desk, worker) for _ in range(2)]
    for number, brought in (
        *zip(numbers, (state(0, b"one"), state(1, b"two")), strict=True),
        (numbers[0], state(0, b"one")),
    ):
        answer(worker, "w", number, brought)
        bus.step()

    assert saved(bus) == (2, b"two")


@pytest.mark.parametrize(
    "brought", [state(0, b"other", incarnation=B), state(1, b"other", B, B), state(2, b"other", B, B)]
)
def test_one_that_was_made_of_another_fails_its_delegation_and_the_node_is_told(
    world: tuple[Bus, Peer, Peer], brought: BroughtState
) -> None:
    bus, desk, worker = world
    answer(worker, "w", begin(bus, desk, worker), state(0, b"one"))
    bus.step()
    number = begin(bus, desk, worker)
    answer(worker, "w", number, brought)
    bus.step()

    (told,) = [one for one in desk.took(Kind.RESPONSE) if one.number == number]
    assert (told.header.status, told.body["error"]["code"]) == (Status.FAILED_EXECUTION.code, "state_stale")
    assert saved(bus) == (1, b"one")
    (reset,) = worker.took(Kind.STATE)
    assert (reset.header.target, reset.body["saved"]["number"], reset.body["saved"]["state"]) == (b"w", 1, b"one")
    assert bus.agent("w").mailbox.in_flight == 0
    assert differences(bus.supervisor, bus.history) == []


def test_where_nothing_is_saved_what_was_made_of_something_fails_its_delegation(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    number = begin(bus, desk, worker)
    answer(worker, "w", number, state(3, b"of three"))
    bus.step()

    assert desk.outcomes()[number] is Status.FAILED_EXECUTION
    (reset,) = worker.took(Kind.STATE)
    assert reset.body == {"saved": None, "refused": A}
    assert saved(bus) is None


def test_the_state_of_an_answer_that_is_sent_again_after_it_was_refused_is_not_saved(
    world: tuple[Bus, Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, desk, worker = world
    number = begin(bus, desk, worker)
    with monkeypatch.context() as full:
        full.setattr(agent_states, "MOST_STATES", 10)
        answer(worker, "w", number, state(0, b"one"))
        bus.step()
    answered = pack_envelope(
        Kind.RESPONSE, request_id=request_id(number), source=b"w", target=b"desk", capability=b"x.y",
        status=Status.COMPLETED, flags=Flag.RESENT, body=b"\x80",
    )  # fmt: skip
    worker.raw(join_frame([join_state(answered, state(0, b"one"))], worker.said_session))
    bus.step()

    assert saved(bus) is None


def test_a_state_comes_with_an_outcome(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    number = begin(bus, desk, worker)
    accepted = pack_envelope(
        Kind.RESPONSE, request_id=request_id(number), source=b"w", target=b"desk", capability=b"x.y",
        status=Status.ACCEPTED, body=b"\x80",
    )  # fmt: skip
    worker.raw(join_frame([join_state(accepted, state(0, b"one"))], worker.said_session))
    bus.step()

    assert saved(bus) is None


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_runs_again_counts_once_unless_its_first_run_comes_back(comes_back: bool) -> None:
    """As docs/state.md says of methods that are idempotent."""
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("n", "w", idempotent=True)
    number = begin(bus, desk, worker, timeout=60.0)
    worker.die()
    bus.pass_time(10.0)
    if comes_back:
        worker.is_dead = False
        worker.hello()
        worker.register("w", idempotent=True)
        answer(worker, "w", number, state(0, b"first"), Flag.RESENT)
    else:
        worker = bus.node("n2", "w", idempotent=True)
    bus.step()
    assert saved(bus) == ((1, b"first") if comes_back else None)
    assert desk.outcomes() == {}  # it was an earlier attempt's

    answer(worker, "w", number, state(1, b"second") if comes_back else state(0, b"second"), attempt=2)
    bus.step()
    assert desk.outcomes() == {number: Status.COMPLETED}
    assert saved(bus) == (2 if comes_back else 1, b"second")


@pytest.mark.parametrize("is_refused", [True, False])
def test_that_of_an_answer_to_what_nobody_has_delegated_or_was_refused_is_not_saved(
    world: tuple[Bus, Peer, Peer], is_refused: bool
) -> None:
    bus, desk, worker = world
    number = desk.delegate("desk", to="nobody") if is_refused else 77
    bus.step()
    before = len(bus.tapped)
    answer(worker, "w", number, state(0, b"x" * 1000))
    bus.step()

    assert saved(bus) is None
    assert sum(len(one.envelope) for one in bus.tapped[before:]) < 1000
    assert differences(bus.supervisor, bus.history) == []


@pytest.mark.parametrize("age", [30.0, 90.0])
def test_that_of_what_a_broker_before_may_have_given_is_saved_while_its_nodes_come_back(age: float) -> None:
    bus = Bus()
    bus.supervisor.recover(bus.now, bus.wall)
    bus.pass_time(age)
    bus.delegator("desk")
    worker = bus.node("n")
    worker.send(Kind.RESUME, body={"awaiting": []})
    worker.register("w")
    bus.step()
    for number in range(3):
        answer(worker, "w", 70 + number, state(number, b"changed"))
        bus.step()

    assert saved(bus) == ((3, b"changed") if age < 60.0 else None)


@pytest.mark.parametrize("has_journal", [True, False])
def test_that_of_a_late_answer_is_saved_though_its_delegation_is_not_remembered_any_more(*, has_journal: bool) -> None:
    bus = Bus()
    if has_journal:
        bus.state.journal = StoredJournal(Disk())
    bus.state.ended._most = bus.state.ended._due = 4
    desk, worker, other = bus.delegator("desk"), bus.node("n", "w"), bus.node("m", "o")
    number = begin(bus, desk, worker, timeout=1.0)
    bus.pass_time(2.0)
    for _ in range(20):
        desk.delegate("desk", to="o")
        bus.step()
        for done in other.work():
            other.respond("o", done)
        bus.step()
    assert request_id(number) not in bus.state.ended
    answer(worker, "w", number, state(0, b"late"))
    bus.step()
    assert saved(bus) == (1, b"late")
    if has_journal:
        answer(worker, "w", 7_000, state(1, b"nobody's"))
        bus.step()
        assert saved(bus) == (1, b"late")


def test_a_delegation_with_two_runs_that_are_late_has_both_saved() -> None:
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("n", "w", idempotent=True)
    number = begin(bus, desk, worker, timeout=20.0)
    entry = bus.entry(number)
    assert entry is not None
    entry.attempt = 2  # it runs again
    answer(worker, "w", number, state(0, b"first"), attempt=1)
    bus.step()
    bus.pass_time(21.0)
    answer(worker, "w", number, state(1, b"second"), attempt=2)
    bus.step()

    assert saved(bus) == (2, b"second")


def test_who_answers_anothers_delegation_late_keeps_no_state_of_that_away(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    other = bus.node("other", "o")
    number = begin(bus, desk, worker, timeout=1.0)
    bus.pass_time(2.0)
    answer(other, "o", number, state(0, b"own", incarnation=B))
    bus.step()
    answer(worker, "w", number, state(0, b"late"))
    bus.step()

    assert saved(bus) == (1, b"late")


def test_an_open_delegation_of_another_agent_brings_one_state(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    other = bus.node("other", "o")
    number = begin(bus, desk, worker)
    for attempt in range(1, 40):
        answer(other, "o", number, state(attempt - 1, b"own"), attempt=attempt)
        bus.step()

    found = saved(bus, "o")
    assert found is not None
    assert found[0] <= MAX_ATTEMPTS


def test_nobody_spends_all_numbers(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    for base, expected in ((0, 1), (9, 10), (1 << 52, 10)):
        answer(worker, "w", begin(bus, desk, worker), state(base, b"data"))
        bus.step()
        found = saved(bus)
        assert found is not None
        assert found[0] == expected


def test_that_of_a_late_answer_is_saved_and_that_of_another_node_is_not(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    number = begin(bus, desk, worker, timeout=1.0)
    other = bus.node("other", "o")
    answer(other, "w", number, state(8, b"stolen"))
    bus.step()
    assert saved(bus) is None
    bus.pass_time(2.0)
    answer(worker, "w", number, state(0, b"late"))
    bus.step()

    assert saved(bus) == (1, b"late")
    assert desk.outcomes()[number] is Status.TIMEOUT
    answer(worker, "w", number, state(1, b"once more"))
    bus.step()
    assert saved(bus) == (1, b"late")


def test_nothing_is_saved_of_an_incarnation_that_was_told_to_begin_anew(
    world: tuple[Bus, Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    bus, desk, worker = world
    number = begin(bus, desk, worker, timeout=1.0)
    bus.pass_time(2.0)
    with monkeypatch.context() as full:
        full.setattr(agent_states, "MOST_STATES", 10)
        answer(worker, "w", number, state(0, b"late"))
        bus.step()
    assert len(worker.took(Kind.STATE)) == 1
    answer(worker, "w", number, state(0, b"late"), Flag.RESENT)
    bus.step()
    assert saved(bus) is None

    answer(worker, "w", begin(bus, desk, worker), state(0, b"next", incarnation=B))
    bus.step()
    assert saved(bus) == (1, b"next")


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
def test_that_of_a_late_answer_which_a_lost_session_made_come_again_is_saved_once(
    world: tuple[Bus, Peer, Peer], how: str
) -> None:  # fmt: skip
    bus, desk, worker = world
    number = begin(bus, desk, worker, timeout=1.0)
    if how == "cancelled":
        desk.cancel("desk", number)
        bus.step()
    else:
        bus.pass_time(2.0)
    for _ in range(2):
        answer(worker, "w", number, state(0, b"late"), Flag.RESENT)
        bus.step()
    assert saved(bus) == (1, b"late")
    answer(worker, "w", begin(bus, desk, worker), state(1, b"next"))
    bus.step()

    assert saved(bus) == (2, b"next")
    assert worker.took(Kind.STATE) == []


def test_one_that_is_too_large_or_for_which_there_is_no_room_fails_the_delegation(
    world: tuple[Bus, Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, desk, worker = world
    monkeypatch.setattr(agent_states, "MOST_STATES", 3 * MOST_STATE)
    for base, size, status in ((0, MOST_STATE, Status.COMPLETED), (1, MOST_STATE + 1, Status.FAILED_EXECUTION)):
        number = begin(bus, desk, worker)
        answer(worker, "w", number, state(base, bytes(size)))
        bus.step()
        assert desk.outcomes()[number] is status
    monkeypatch.setattr(agent_states, "MOST_STATES", MOST_STATE)
    number = begin(bus, desk, worker)
    answer(worker, "w", number, state(1, bytes(MOST_STATE), incarnation=B))
    bus.step()
    (told,) = desk.took(Kind.RESPONSE)

    assert told.body["error"]["code"] == "state_full"
    assert bus.agent("w").mailbox.in_flight == 0
    assert differences(bus.supervisor, bus.history) == []


def test_what_is_no_state_is_refused_and_the_delegation_goes_on(world: tuple[Bus, Peer, Peer]) -> None:
    bus, desk, worker = world
    number = begin(bus, desk, worker)
    worker.send(
        Kind.RESPONSE, request_id=request_id(number), source=b"w", target=b"desk", capability=b"x.y", status=Status.COMPLETED,
        flags=Flag.STATE, body=b"\0\0\0\x02\xc0\xc0\x80",
    )  # fmt: skip
    bus.step()
    assert [unpack(one.envelope[one.header.body :])["code"] for one in worker.took(Kind.ERROR)] == ["malformed_frame"]
    answer(worker, "w", number, state(0, b"one"))
    bus.step()

    assert desk.outcomes()[number] is Status.COMPLETED


def test_a_checkpoint_has_them() -> None:
    history = History()
    history.states.put("w", SavedState(3, A, 2, b"data", "key"))

    assert History.of(history.pack()).states.get("w") == SavedState(3, A, 2, b"data", "key")


def test_the_nodes_of_one_key_have_half_of_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_states, "MOST_STATES", 10_000)
    states = AgentStates()
    states.put("a", SavedState(1, A, 1, bytes(4_500), "alice"))

    assert not states.has_room("b", SavedState(1, A, 1, bytes(1_000), "alice"))
    assert states.has_room("b", SavedState(1, A, 1, bytes(1_000), "bob"))
    assert states.has_room("a", SavedState(2, A, 1, bytes(4_700), "alice"))
    states.put("c", SavedState(1, A, 1, bytes(4_400), "bob"))
    assert not states.has_room("a", SavedState(2, A, 1, bytes(1_000), "bob")), "it would be all bob's"
    assert states.discard("a")
    assert states.has_room("b", SavedState(1, A, 1, bytes(4_700), "alice"))
