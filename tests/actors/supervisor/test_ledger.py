from __future__ import annotations

import itertools

import pytest

from ether_actors.supervisor.registry.registration import Choice, Registration
from ether_actors.supervisor.registry.registry import Registry
from ether_actors.supervisor.state.ledger import Entry, Ledger, State
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Kind, pack_envelope, read_header

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


def entry(number: int, *, parent: Entry | None = None, deadline: float = 9.0, to: Choice | None = None) -> Entry:
    envelope = pack_envelope(Kind.DELEGATION, request_id=number.to_bytes(16), source=b"d", capability=b"x.y")
    return Entry(
        read_header(envelope),
        envelope,
        SESSION,
        to or choice(),
        parent=parent,
        pinned=False,
        deadline=deadline,
        now=1.0,
    )


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
    assert (list(made.agent.work), [asked for _, asked in ledger.asked_by(made.source)]) == ([made], [made])

    ledger.advance(made, State.ENDED)

    assert (ledger.get(made.request_id), len(ledger), ledger.running) == (None, 0, [])
    assert (list(made.agent.work), list(ledger.asked_by(made.source))) == ([], [])
    assert made.is_over


def test_a_request_id_is_accepted_once_at_a_time():
    ledger = Ledger()
    opened(ledger, 1)

    with pytest.raises(AssertionError):
        opened(ledger, 1)


def test_its_deadline_is_watched_until_it_ends():
    ledger = Ledger()
    made = opened(ledger, 1, deadline=5.0)
    assert ledger.deadlines.due(4.9, 99) == []

    ledger.advance(made, State.ENDED)

    assert ledger.deadlines.due(9.0, 99) == []


def test_a_delegation_hangs_on_its_parent_until_it_ends():
    ledger = Ledger()
    root = opened(ledger, 1)
    child = opened(ledger, 2, parent=root)
    grandchild = opened(ledger, 3, parent=child)

    assert list(grandchild.ancestors()) == [grandchild, child, root]
    assert [entry.chain_length for entry in (root, child, grandchild)] == [1, 2, 3]
    assert list(root.children) == [child]

    ledger.advance(child, State.ENDED)

    assert (list(root.children), child.parent) == ([], None)


def test_what_waits_goes_to_another_agent_with_its_place_in_the_order_of_acceptance():
    ledger = Ledger()
    here, there = choice(), choice()
    first, second, third = (opened(ledger, number, to=to) for number, to in ((1, here), (2, there), (3, here)))

    ledger.move(first, there)

    assert (list(here.agent.work), list(there.agent.work)) == ([third], [second, first])
    assert there.agent.oldest_first == [first, second]


def test_what_ended_while_its_node_had_it_is_held_until_the_node_answers_or_is_gone():
    ledger = Ledger()
    to = choice()
    for number in (1, 2):
        made = opened(ledger, number, to=to)
        ledger.advance(made, State.SENT)
        made.holds_credit = True
        ledger.advance(made, State.ENDED)

    first, second = to.agent.ended_at_node.values()
    assert ledger.size == first.size + second.size
    ledger.forget(first)
    assert (list(to.agent.ended_at_node.values()), ledger.size) == ([second], second.size)
    ledger.forget_ended_at_node(to.agent)
    assert (to.agent.ended_at_node, ledger.size) == ({}, 0)
