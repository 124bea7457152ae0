from __future__ import annotations

import itertools

import pytest

from ether_actors.ledger import Entry, Ledger, State
from ether_actors.registry import Choice, Registration, Registry
from ether_broker.ids import NO_ID
from ether_broker.mailbox import Limits
from ether_broker.manifest import Capability, Manifest
from ether_broker.router import Session
from ether_broker.wire import Kind, pack_envelope, read_header

SESSION = Session("n", bytes(16), 0.0)
ALLOWED = {
    (State.QUEUED, State.SENT),
    (State.QUEUED, State.ENDED),
    (State.SENT, State.RUNNING),
    (State.SENT, State.ENDED),
    (State.SENT, State.QUEUED),
    (State.RUNNING, State.RUNNING),
    (State.RUNNING, State.ENDED),
    (State.RUNNING, State.QUEUED),
}
WAYS = {
    State.QUEUED: (),
    State.SENT: (State.SENT,),
    State.RUNNING: (State.SENT, State.RUNNING),
    State.ENDED: (State.ENDED,),
}


def choice() -> Choice:
    registry = Registry(Limits())
    agent: Registration = registry.register(Manifest(agent="a", capabilities=(Capability(name="x.y"),)), SESSION)
    found = registry.resolve(agent, b"x.y")
    assert found is not None
    return found


def entry(number: int, *, parent: int = 0, deadline: float = 9.0, to: Choice | None = None) -> Entry:
    envelope = pack_envelope(
        Kind.DELEGATION, request_id=number.to_bytes(16), source=b"d", capability=b"x.y", parent=parent.to_bytes(16)
    )
    return Entry(read_header(envelope), envelope, SESSION, to or choice(), pinned=False, deadline=deadline, now=1.0)


def opened(ledger: Ledger, number: int, **fields: object) -> Entry:
    made = entry(number, **fields)
    ledger.open(made)
    return made


@pytest.mark.parametrize(("state", "to"), [*itertools.product(State, State)])
def test_only_the_steps_of_the_drawing_are_allowed(state: State, to: State):
    ledger = Ledger()
    made = opened(ledger, 1)
    for step in WAYS[state]:
        ledger.advance(made, step)

    if (state, to) in ALLOWED:
        ledger.advance(made, to)
        assert made.state is to
    else:
        with pytest.raises(AssertionError):
            ledger.advance(made, to)
        assert made.state is state


def test_a_delegation_is_open_from_acceptance_to_its_outcome():
    ledger = Ledger()
    made = opened(ledger, 1)
    assert (ledger.get(made.request_id), len(ledger), ledger.running) == (made, 1, [made])
    assert not ledger.has_ended(made.request_id)

    ledger.advance(made, State.ENDED)

    assert (ledger.get(made.request_id), len(ledger), ledger.running) == (None, 0, [])
    assert ledger.has_ended(made.request_id)
    assert made.is_over


def test_a_request_id_is_accepted_once_at_a_time():
    ledger = Ledger()
    opened(ledger, 1)

    with pytest.raises(AssertionError):
        opened(ledger, 1)


def test_its_deadline_is_watched_until_it_ends():
    ledger = Ledger()
    made = opened(ledger, 1, deadline=5.0)
    assert ledger.deadlines.due(4.9) == []

    ledger.advance(made, State.ENDED)

    assert ledger.deadlines.due(9.0) == []


def test_ended_ids_are_remembered_for_a_while_and_then_forgotten():
    ledger = Ledger(remembered=2)
    for number in range(1, 6):
        ledger.advance(opened(ledger, number), State.ENDED)

    known = [number for number in range(1, 6) if ledger.has_ended(number.to_bytes(16))]

    assert known[-2:] == [4, 5]
    assert 1 not in known


def test_the_chain_goes_from_a_delegation_to_its_root_through_what_is_open():
    ledger = Ledger()
    root, child, grandchild = opened(ledger, 1), opened(ledger, 2, parent=1), opened(ledger, 3, parent=2)

    assert ledger.chain(grandchild.request_id) == [grandchild, child, root]
    assert ledger.chain(NO_ID) == []
    assert root.children == [child.request_id]


def test_what_ended_while_its_node_had_it_is_held_until_the_node_answers_or_is_gone():
    ledger = Ledger()
    to = choice()
    for number in (1, 2):
        made = opened(ledger, number, to=to)
        ledger.advance(made, State.SENT)
        made.holds_credit = True
        ledger.advance(made, State.ENDED)

    first = ledger.held((1).to_bytes(16))
    assert first.request_id == (1).to_bytes(16)
    ledger.forget(first)
    assert ledger.held((1).to_bytes(16)) is None
    ledger.forget_held(to.agent)
    assert ledger.held((2).to_bytes(16)) is None
