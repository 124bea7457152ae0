"""A broker that is restarted goes on with what its journal tells."""

from __future__ import annotations

import threading
from math import inf

import pytest

from ether_actors.supervisor.delegations import delivery
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.journal.journal_maintenance import fold_here
from ether_actors.supervisor.membership import departures
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.state import broker_state
from ether_actors.supervisor.state.ledger import State
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.journal.journal import Replayed
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.wire.frame import DRAINS, Flag, Kind, pack_envelope, read_header
from ether_broker.wire.saved_state import BroughtState, join_state
from tests.actors.peers import request_id, uncollected
from tests.actors.recovery_world import Asked, Life, World
from tests.actors.stored_journal import Disk, StoredJournal


def pair(world: World) -> tuple[Life, Life]:
    """A delegator and a specialist that have joined."""
    d, a = world.life("d"), world.life("na", "a")
    world.settle()
    return d, a


def back(world: World, *lives: Life) -> None:
    """Let these come back to the new broker."""
    for life in lives:
        life.greet()
    world.settle()


@pytest.mark.parametrize("said_hello", [True, False])
def test_a_broker_that_stands_still_while_nodes_come_back_loses_nobody_for_that(said_hello: bool):
    # Given a broker that was restarted, and 24 nodes that have work
    world = World()
    d = world.life("d")
    nodes = [world.life(f"n{number}", f"a{number}") for number in range(24)]
    world.settle(40)
    asked = [d.ask("once", to=f"a{number}", timeout=1000.0) for number in range(24)]
    world.settle(20)
    for node, work in zip(nodes, asked, strict=True):
        node.answer(work.number, Status.ACCEPTED)
    world.settle(20)
    world.crash(clock=None)
    world.step()

    # When it stands still for longer than they have to come back, and what they say waits at its socket
    for life in world.lives if said_hello else []:
        life.greet()
    world.wall += 2 * DEFAULT_TIMING.reclaim
    world.step()
    back(world, *([] if said_hello else world.lives))
    for _ in range(20):
        world.pass_time(1.0)

    # Then the work goes on
    assert [work.outcomes for work in asked] == [[]] * 24
    for node, work in zip(nodes, asked, strict=True):
        node.answer(work.number)
    world.settle(40)
    assert [work.outcomes for work in asked] == [[(Status.COMPLETED, "")]] * 24


def test_a_node_that_does_not_come_back_to_a_broker_that_stood_still_is_lost_in_the_end():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a", timeout=1000.0)
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.settle()
    world.crash(clock=None)
    a.is_dead = True
    back(world, d)
    world.wall += 2 * DEFAULT_TIMING.reclaim
    world.settle()
    assert asked.outcomes == []

    for _ in range(int(DEFAULT_TIMING.reclaim) + 1):
        world.pass_time(1.0)

    assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]


def test_what_waits_for_a_delegator_that_is_back_is_not_let_go_because_the_broker_stood_still():
    # Given a delegator that is back and has not said yet what it waits for
    world = World()
    d, _ = pair(world)
    d.ask("once", to="a", timeout=1000.0)
    world.settle()
    world.crash(clock=None)
    back(world, d)
    ((_, before),) = world.supervisor._membership._reconnection._back

    # When the broker stands still for longer than it may take
    world.wall += 2 * DEFAULT_TIMING.reclaim
    world.step()

    assert before.is_expected
    for _ in range(int(DEFAULT_TIMING.reclaim) + 1):
        world.pass_time(1.0)
    assert not before.is_expected


def test_work_that_runs_goes_on_and_its_outcome_reaches_who_asked():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.settle()

    world.crash()
    back(world, d, a)
    a.answer(asked.number)
    world.settle()

    assert asked.outcomes == [(Status.COMPLETED, "")]
    assert asked.given == [1]


@pytest.mark.parametrize("who_first", [0, 1])
def test_an_outcome_that_was_given_while_there_was_no_broker_arrives(who_first: int):
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.settle()
    world.crash()
    a.answer(asked.number)

    for life in ((d, a), (a, d))[who_first]:
        back(world, life)

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_what_was_accepted_and_never_sent_is_sent_to_its_node_when_that_is_back():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.step()
    assert a.inbound  # and it is lost with the broker
    world.crash()

    back(world, d, a)

    assert list(a.works) == [asked.number]


def test_what_a_node_asked_for_counts_as_its_own_after_a_restart_too():
    world = World()
    d, a = pair(world)
    for _ in range(5):
        d.ask("once", to="a")
    world.settle()
    kept = world.supervisor.state.ledger.size
    assert kept == world.supervisor.state.session_table.account("d").size > 0
    world.crash()

    back(world, d, a)

    assert world.supervisor.state.ledger.size == kept
    assert world.supervisor.state.session_table.account("d").size == kept
    (session,) = [one for one in world.supervisor.state.session_table.sessions if one.node == "d"]
    assert session.account.size == kept


def test_what_an_agent_published_counts_as_its_nodes_after_a_restart_too():
    world = World()
    d, a = world.life("d"), world.life("na", "a", "b", topics=["x.*"])
    world.settle()
    a.is_mute = True
    d.ask("ether.publish", params={"topic": "x.y", "data": pack("data")})
    world.settle()
    kept = world.supervisor.state.ledger.size
    assert kept == world.supervisor.state.session_table.account("d", of_events=True).size > 0

    world.crash()

    assert world.supervisor.state.ledger.size == kept
    assert world.supervisor.state.session_table.account("d", of_events=True).size == kept


def test_what_was_not_committed_is_sent_again_by_its_delegator_and_runs_once():
    world = World(synced=False)
    d, a = pair(world)
    asked = d.ask("once", to="a")
    for _ in range(3):
        world.step()
        a.hear()
    assert a.works == {}  # nothing leaves before the commit
    world.crash()
    assert world.supervisor.state.ledger.running == []

    back(world, d, a)
    a.answer(asked.number)
    world.settle()

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_what_was_committed_and_not_acknowledged_folds_into_the_first():
    world = World(synced=False)
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.step()
    world.journal.sync()
    world.crash()

    back(world, d, a)

    assert list(a.works) == [asked.number]
    assert len(world.supervisor.state.dead_letters) == 0


@pytest.mark.parametrize("capability", ["once", "twice"])
def test_a_node_that_does_not_come_back_is_lost_with_its_work(capability: str):
    world = World()
    d, a = pair(world)
    b = world.life("nb", "b")
    world.settle()
    asked = d.ask(capability, to="", timeout=60.0)
    world.settle()
    holder = next(life for life in (a, b) if life.works)
    other = b if holder is a else a
    holder.is_dead = True
    world.crash()
    back(world, d, other)
    world.pass_time(DEFAULT_TIMING.reclaim - 1.0)
    assert (asked.outcomes, asked.given) == ([], [1])
    world.pass_time(2.0)

    if capability == "once":
        assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
        assert asked.given == [1]
    else:
        assert asked.given == [1, 2]
        assert list(other.works) == [asked.number]


@pytest.mark.parametrize("flags", [int(Flag.FALLTHROUGH), 0])
def test_what_falls_through_goes_to_another_when_the_agent_that_it_names_does_not_come_back(flags: int):
    world = World(window=1)
    d, a = pair(world)
    b = world.life("nb", "b")
    world.settle()
    begun = d.ask("once", to="a", timeout=60.0)
    asked = d.ask("once", to="a", timeout=60.0, flags=flags)
    world.settle()
    a.is_dead = True
    world.crash()
    back(world, d, b)
    world.pass_time(DEFAULT_TIMING.reclaim + 1.0)

    assert begun.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    assert list(b.works) == ([asked.number] if flags else [])


def test_a_node_that_is_not_let_in_while_much_waits_for_the_disk_keeps_its_work(monkeypatch: pytest.MonkeyPatch):
    # Given a broker that cannot write, and as much waits as may, when the nodes of the one before come back
    world = World()
    delegator, specialist = world.life("d"), world.life("na", "a")
    world.settle()
    asked = delegator.ask("once", to="a", timeout=600.0)
    world.settle()
    specialist.answer(asked.number, Status.ACCEPTED)
    world.settle()
    world.crash(clock=None)
    world.journal.fail()
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", -1)
    for life in (delegator, specialist):
        life.greet()

    # When that lasts for longer than they have to come back
    world.pass_time(2 * DEFAULT_TIMING.reclaim)
    world.journal.mend()
    world.pass_time(3.0)
    specialist.answer(asked.number)
    world.pass_time(3.0)

    # Then they are back with their work
    assert asked.outcomes == [(Status.COMPLETED, "")]
    assert asked.given == [1]


def test_a_node_has_the_time_to_come_back_though_nobody_was_let_in_for_long(monkeypatch: pytest.MonkeyPatch):
    # Given a broker that was behind its journal for longer than nodes have to come back
    world = World()
    delegator, specialist = world.life("d"), world.life("na", "a")
    world.settle()
    asked = delegator.ask("once", to="a", timeout=600.0)
    world.settle()
    specialist.answer(asked.number, Status.ACCEPTED)
    world.settle()
    world.crash(clock=None)
    world.step()
    world.journal.fail()
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", -1)
    world.pass_time(2 * DEFAULT_TIMING.reclaim)
    world.journal.mend()

    # When a node comes later than its silence after that, and within the time that it has
    world.pass_time(DEFAULT_TIMING.silence + 1.0)
    for life in (delegator, specialist):
        life.greet()
    world.pass_time(3.0)
    specialist.answer(asked.number)
    world.pass_time(3.0)

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_what_an_agent_had_begun_that_its_node_does_not_hold_any_more_is_another_attempt():
    world = World()
    d, a = pair(world)
    asked = d.ask("twice", to="a", timeout=600.0)
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.settle()
    del a.works[asked.number]

    world.crash()
    back(world, d, a)

    assert asked.given == [1, 2]


def test_what_is_run_again_after_a_restart_has_no_sub_delegations_of_the_run_before():
    world = World()
    d, a, b = world.life("d"), world.life("na", "a"), world.life("nb", "b")
    world.settle()
    parent = d.ask("twice", to="a", timeout=600.0)
    world.settle()
    a.answer(parent.number, Status.ACCEPTED)
    child = a.ask("once", to="b", source="a", parent=parent.number, timeout=600.0)
    world.settle()
    del a.works[parent.number]

    world.crash()
    back(world, d, a, b)

    assert parent.given == [1, 2]
    assert child.outcomes == [(Status.CANCELLED, "parent_ended")]


def test_what_is_run_again_after_a_restart_had_a_claim_that_ends_with_the_lease_of_a_sub_delegation():
    # Given a delegation that waits for a lease, which a sub-delegation of it has
    world = World()
    d, a, b = world.life("d"), world.life("na", "a"), world.life("nb", "b")
    world.settle()
    parent, other = d.ask("twice", to="a", timeout=600.0), d.ask("twice", to="a", timeout=600.0)
    world.settle()
    for begun in (parent, other):
        a.answer(begun.number, Status.ACCEPTED)
    child = a.ask("once", to="b", source="a", parent=parent.number, timeout=600.0)
    world.settle()
    b.ask("ether.lease", source="b", parent=child.number, params={"resource": "x"}, timeout=600.0)
    world.settle()
    claim = a.ask("ether.lease", source="a", parent=parent.number, params={"resource": "x"}, timeout=600.0)
    world.settle()
    del a.works[parent.number], a.works[other.number]

    # When the broker is restarted, and the agent's incarnation is no more
    world.crash()
    back(world, d, b, a)
    world.pass_time(1.0)

    # Then both run again
    assert child.outcomes == [(Status.CANCELLED, "parent_ended")]
    assert claim.outcomes
    assert [asked.given for asked in (parent, other)] == [[1, 2], [1, 2]]


def begun_with_children(world: World, count: int) -> tuple[Life, Life, Life, Asked, list[Asked]]:
    """A delegator, an agent that has begun and asked for so many sub-delegations, and who has those; the broker crashes."""
    d, a, b = world.life("d"), world.life("na", "a"), world.life("nb", "b")
    world.settle()
    parent = d.ask("twice", to="a", timeout=600.0)
    world.settle()
    a.answer(parent.number, Status.ACCEPTED)
    children = [a.ask("once", to="b", source="a", parent=parent.number, timeout=600.0) for _ in range(count)]
    world.settle(count)
    del a.works[parent.number]
    world.crash()
    back(world, d, b)
    return d, a, b, parent, children


@pytest.mark.parametrize("then", ["stays", "drains", "registers"])
def test_the_sub_delegations_of_an_earlier_run_end_a_share_a_step_and_the_next_run_begins_after_them(then: str):
    # Given an agent that had begun, and asked for 200 sub-delegations, when the broker was restarted
    world = World()
    _, a, _, parent, children = begun_with_children(world, 200)
    ledger = world.supervisor.state.ledger
    resume = a._resume

    def resume_and_go_on(left: list[bytes]) -> list[bytes]:
        said = resume(left)
        if then == "drains":
            said.append(pack_envelope(Kind.UNREGISTER, flags=int(DRAINS), body=pack({})))
        elif then == "registers":
            a.capabilities = {"twice": True}
            said += a._registrations()
        return said

    a._resume = resume_and_go_on  # type: ignore[method-assign]

    # When its node is back and knows nothing of it
    a.greet()
    open_before, most, given_with = len(ledger), 0, 0
    for _ in range(200):
        world.step()
        a.hear()
        most = max(most, open_before - len(ledger))
        open_before = len(ledger)
        if len(parent.given) == 2 and not given_with:
            given_with = len(ledger)

    # Then no step ends more than a share, and it runs again when all have ended, or waits
    assert 1 <= most <= 16
    assert given_with == (0 if then == "drains" else 1)
    assert [child.outcomes for child in children] == [[(Status.CANCELLED, "parent_ended")]] * 200


@pytest.mark.parametrize("end", ["leave", "drain", "again", "die"])
def test_an_agent_of_which_something_else_becomes_while_it_comes_back_loses_no_work(end: str):
    # Given an agent that is back, of whose earlier run not all sub-delegations have ended yet
    world = World()
    _, a, _, parent, children = begun_with_children(world, 200)
    a.greet()
    while all(not child.outcomes for child in children):
        world.step()
        for life in world.lives:
            life.hear()
    assert parent.given == [1]

    # When it leaves, drains and leaves, registers once more, or its node dies
    if end == "drain":
        a.say(pack_envelope(Kind.UNREGISTER, source=b"a", flags=int(DRAINS), body=pack({"condition": "gone"})))
        world.step()
    if end == "again":
        a.register_anew({"twice": True})
    elif end == "die":
        a.is_dead = True
    else:
        a.leave("a")
    world.settle(100)
    world.pass_time(30.0)

    # Then nothing of the earlier run is left, and the other run waits, has begun, or cannot be
    ledger = world.supervisor.state.ledger
    assert [entry.number for entry in ledger.running] == ([] if end in {"leave", "drain"} else [1])
    if end == "again":
        assert parent.given == [1, 2]
    elif end == "die":
        assert ledger.running[0].state is State.QUEUED
    else:
        assert parent.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]


def test_what_waits_behind_others_of_its_node_to_be_run_again_is_run_though_its_agent_registers_once_more():
    # Given a node with two agents that had begun, one of them with more sub-delegations than end in a step
    world = World()
    d, a, b = world.life("d"), world.life("na", "a", "e"), world.life("nb", "b")
    world.settle()
    parent, second = d.ask("twice", to="a", timeout=600.0), d.ask("twice", to="e", timeout=600.0)
    world.settle()
    for asked in (parent, second):
        a.answer(asked.number, Status.ACCEPTED)
    for _ in range(200):
        a.ask("once", to="b", source="a", parent=parent.number, timeout=600.0)
    world.settle(200)
    a.works.clear()
    world.crash()
    back(world, d, b)

    # When the other registers twice
    a.greet()
    world.step()
    a.hear()
    a.agents = ["e"]
    a.register_anew({"twice": True})
    a.agents = ["a", "e"]
    world.settle(100)

    # Then both run again
    assert (parent.given, second.given) == ([1, 2], [1, 2])


@pytest.mark.parametrize("window", [1, 2])
def test_what_ends_before_it_is_run_again_holds_no_credit(window: int):
    # Given an agent that is back, of whose earlier run not all sub-delegations have ended yet
    world = World(window=window)
    d, a, b = world.life("d"), world.life("na", "a"), world.life("nb", "b")
    world.settle()
    parent = d.ask("twice", to="a", timeout=600.0)
    world.settle()
    a.answer(parent.number, Status.ACCEPTED)
    children = [a.ask("once", to="b", source="a", parent=parent.number, timeout=600.0) for _ in range(40)]
    world.settle(60)
    del a.works[parent.number]
    world.crash()
    back(world, d, b)
    a.greet()
    while all(not child.outcomes for child in children):
        world.step()
        for life in world.lives:
            life.hear()

    # When it is cancelled, and others come
    d.cancel(parent.number)
    others = [d.ask("once", to="a", timeout=600.0) for _ in range(window + 2)]
    world.settle(40)

    # Then as many are given as may be, and each answer counts
    assert parent.outcomes == [(Status.CANCELLED, "cancelled")]
    assert len(a.works) == window
    while a.works:
        for number in list(a.works):
            a.answer(number)
        world.settle()
    assert [other.outcomes for other in others] == [[(Status.COMPLETED, "")]] * len(others)
    agent = world.supervisor.state.registry.get(b"a")
    assert agent is not None
    assert agent.mailbox.in_flight == 0


def test_what_was_handed_back_before_its_agent_is_registered_again_is_not_cancelled_when_it_is_given_again():
    # Given an agent that hands back, and a node that says so before it registers the agent again
    world = World()
    d, a = pair(world)
    asked = d.ask("once", timeout=600.0)
    world.settle()
    a.hand_back(asked.number)
    resume = a._resume

    def resume_in_that_order(left: list[bytes]) -> list[bytes]:
        said = resume(left)
        registering = [
            envelope for envelope in said if read_header(envelope).source == b"a" and envelope[0] == Kind.REGISTER
        ]
        return [*(envelope for envelope in said if envelope not in registering), *registering]

    a._resume = resume_in_that_order  # type: ignore[method-assign]  # another order

    # When the broker is restarted
    world.crash()
    back(world, d, a)

    # Then the work is with it
    assert (asked.outcomes, list(a.works)) == ([], [asked.number])


def test_a_node_whose_session_breaks_as_it_registers_its_agents_is_waited_for_once_more():
    # Given a node that has registered one of its two agents again when its session breaks
    world = World()
    d, a = world.life("d"), world.life("na", "a", "e")
    world.settle()
    asked = d.ask("once", to="e", timeout=600.0)
    world.settle()
    world.crash()
    back(world, d)
    resume = a._resume
    a._resume = lambda left: [  # type: ignore[method-assign]  # the rest does not arrive
        envelope for envelope in resume(left) if envelope[0] != Kind.REGISTER or read_header(envelope).source != b"e"
    ]
    back(world, a)
    a._resume = resume  # type: ignore[method-assign]
    table = world.supervisor.state.session_table
    session = table.find("na")
    assert session is not None
    table.close(session, "broken")
    world.settle()

    # When the other has answered and left meanwhile, and the node is back once more
    a.answer(asked.number)
    a.leave("e")
    back(world, a)
    world.pass_time(20.0)

    # Then both count
    assert asked.outcomes == [(Status.COMPLETED, "")]
    assert world.supervisor.state.registry.get(b"e") is None


@pytest.mark.parametrize("windows", [(4, 2), (4, 1, 1), (4, 8, 2)])
def test_what_was_sent_under_a_larger_window_is_not_sent_again_by_a_broker_with_a_smaller_one(windows: tuple[int, ...]):
    # Given an agent that has four delegations, of which the journal says only that they were accepted
    world = World(window=windows[0])
    d, a = pair(world)
    asked = [d.ask("once", to="a", timeout=600.0) for _ in range(4)]
    world.settle()
    assert len(a.works) == 4

    # When brokers with other windows follow, of which only the last sees the nodes
    for window in windows[1:]:
        world.limits = Limits(mailbox_count=1000, window=window)
        world.crash()
        world.step()
    back(world, d, a)

    # Then each goes on where it is
    assert not any(work.is_called_off for work in a.works.values())
    for number in list(a.works):
        a.answer(number)
    world.settle()
    assert [(one.outcomes, one.given) for one in asked] == [([(Status.COMPLETED, "")], [1])] * 4


def test_a_smaller_window_keeps_more_at_the_broker_though_older_work_goes_on():
    # Given a broker with a smaller window than the one before, under which something is open still
    world = World(window=8)
    d, a, z = world.life("d"), world.life("na", "a"), world.life("nz", "z")
    world.settle()
    old = d.ask("once", to="z", timeout=600.0)
    world.settle()
    world.limits = Limits(mailbox_count=1000, window=1)
    world.crash()
    back(world, d, a, z)
    asked = [d.ask("once", to="a", timeout=600.0) for _ in range(6)]
    world.settle()
    assert [one.given for one in asked] == [[1], [], [], [], [], []]

    # When a node is lost over the next restart
    a.is_dead = True
    world.crash()
    back(world, d, z)
    world.pass_time(20.0)

    # Then only what it may have had is
    assert [one.outcomes for one in asked] == [[(Status.FAILED_EXECUTION, "node_lost")], [], [], [], [], []]
    assert old.outcomes == []


def test_a_checkpoint_of_an_older_ether_says_no_window_and_the_largest_by_default_is_taken():
    history = History()
    history.begin("boot", 0.0, 0.0, window=2)
    body = unpack(history.pack())
    del body["window"]

    assert History.of(pack(body)).window == Limits().window
    assert History.of(history.pack()).window == 2


def test_a_node_whose_session_breaks_has_as_long_again_when_it_is_back():
    # Given a node that registers one of two agents, breaks, and is back when its time is nearly over
    world = World()
    d, a = world.life("d"), world.life("na", "a", "e")
    world.settle()
    asked = d.ask("once", to="e", timeout=600.0)
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.settle()
    world.crash()
    back(world, d)
    resume = a._resume
    a._resume = lambda left: [  # type: ignore[method-assign]  # the rest comes later
        envelope for envelope in resume(left) if envelope[0] != Kind.REGISTER or read_header(envelope).source != b"e"
    ]
    back(world, a)
    table = world.supervisor.state.session_table
    session = table.find("na")
    assert session is not None
    table.close(session, "broken")
    a.is_mute = True
    world.pass_time(DEFAULT_TIMING.reclaim - 1.0)
    a.is_mute = False

    # When it registers the other some seconds after that
    back(world, a)
    world.pass_time(3.0)
    a.say(next(envelope for envelope in a._registrations() if read_header(envelope).source == b"e"))
    world.settle()

    # Then its work goes on
    assert asked.outcomes == []
    a.answer(asked.number)
    world.settle()
    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_a_node_that_breaks_again_and_again_as_it_registers_its_agents_is_not_waited_for_without_end():
    # Given a node that registers one of its two agents each time that it comes back, and breaks
    world = World()
    d, a = world.life("d"), world.life("na", "a", "e")
    world.settle()
    asked = d.ask("once", to="e", timeout=600.0)
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.settle()
    world.crash()
    back(world, d)
    resume = a._resume
    a._resume = lambda left: [  # type: ignore[method-assign]  # the rest never arrives
        envelope for envelope in resume(left) if envelope[0] != Kind.REGISTER or read_header(envelope).source != b"e"
    ]

    # When that goes on for longer than it has to come back
    table = world.supervisor.state.session_table
    for _ in range(int(6 * DEFAULT_TIMING.reclaim / 4)):
        back(world, a)
        world.pass_time(4.0)
        session = table.find("na")
        if session is not None:
            table.close(session, "broken")

    # Then the other's work is lost
    assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]


@pytest.mark.parametrize("comes_again", [False, True])
@pytest.mark.parametrize("has_answered", [False, True])
def test_what_was_said_of_an_agent_before_it_left_counts_after_a_restart(has_answered: bool, comes_again: bool):
    # Given an agent that answers, or hands back, and leaves, and a broker that dies before it has read that
    world = World()
    d, a = pair(world)
    asked = d.ask("once", timeout=600.0)
    world.settle()
    other = world.life("nb", "b")
    world.settle()
    if has_answered:
        a.answer(asked.number, Status.ACCEPTED)
        world.settle()
        a.answer(asked.number)
    a.leave("a")
    if comes_again:
        a.add("a")

    # When they are back
    world.crash()
    back(world, d, a, other)
    world.pass_time(20.0)

    # Then the answer is the outcome, and what was handed back is with another
    assert asked.outcomes == ([(Status.COMPLETED, "")] if has_answered else [])
    assert list(other.works) == ([] if has_answered else [asked.number])


def test_what_an_incarnation_had_begun_five_times_is_not_run_again_after_a_restart():
    world = World()
    d, a = pair(world)
    asked = d.ask("twice", to="a", timeout=600.0)
    for _ in range(6):
        world.settle()
        if asked.outcomes:
            break
        a.answer(asked.number, Status.ACCEPTED)
        world.settle()
        del a.works[asked.number]
        world.crash()
        back(world, d, a)

    assert asked.given == [1, 2, 3, 4, 5]
    assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_node_whose_registrations_wait_for_their_turn_keeps_its_work(is_blocked: bool):
    # Given a node that is back, and whose frames wait behind those of very many others
    world = World()
    d, a = pair(world)
    absent = world.life("nb", "b")
    world.settle()
    asked, of_absent = d.ask("once", to="a", timeout=600.0), d.ask("once", to="b", timeout=600.0)
    world.settle()
    for node, work in ((a, asked), (absent, of_absent)):
        node.answer(work.number, Status.ACCEPTED)
    world.settle()
    absent.is_dead = True
    world.crash()
    back(world, d)
    a.greet()
    a.is_mute = True
    world.step()
    session = world.supervisor.state.session_table.find("na")
    assert session is not None
    session.channel.received += 1
    session.input.is_waiting = True
    session.input.blocked = (lambda: False) if is_blocked else None
    session.heard = inf  # its heartbeats are read

    # When the time is over in which it has to register its agents
    world.pass_time(2 * DEFAULT_TIMING.reclaim)

    # Then it is waited for until what had come by then is handled, whereas one that is not back has lost its work
    assert asked.outcomes == []
    assert of_absent.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    session.channel.received += 1
    session.handled += 1
    world.pass_time(1.0)
    assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]


@pytest.mark.parametrize("capability", ["once", "twice"])
def test_a_node_that_comes_back_as_another_process_has_lost_its_work(capability: str):
    world = World()
    d, a = pair(world)
    asked = d.ask(capability, to="a")
    world.settle()
    a.is_dead = True
    world.crash()

    again = world.life("na", "a")
    back(world, d)

    if capability == "once":
        assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    else:
        assert list(again.works) == [asked.number]
        assert asked.given == [1, 2]


def test_what_only_waited_is_kept_for_another_process_of_that_agent():
    world = World(window=1)
    d, a = pair(world)
    first, second, third = (d.ask("once", to="a") for _ in range(3))
    world.settle()
    assert list(a.works) == [first.number]
    a.is_dead = True
    world.crash()

    again = world.life("na", "a")
    back(world, d)

    assert first.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    assert list(again.works) == [second.number]
    again.answer(second.number)
    world.settle()
    assert list(again.works) == [third.number]


def test_a_mailbox_keeps_its_order():
    world = World(window=2)
    d, a = pair(world)
    asked = [d.ask("once", to="a") for _ in range(6)]
    world.step()  # the first two are under way, and get lost
    world.crash()
    back(world, d, a)

    for one in asked:
        assert one.number in a.works
        a.answer(one.number)
        world.settle()
    assert world.first_runs[d.incarnation, "a"] == [one.number for one in asked]


def test_work_moved_out_of_turn_is_not_given_twice():
    """What was moved to an agent's front is with its node though it came last."""
    world = World(window=1)
    d = world.life("d")
    b = world.life("nb", "b")
    world.settle()
    moved = [d.ask("twice", timeout=90.0), d.ask("once", timeout=90.0)]  # nobody else is there: b has one, one waits
    world.settle()
    a = world.life("na", "a")
    world.settle()
    fixed = [d.ask("once", to="a", timeout=90.0), d.ask("once", to="a", timeout=90.0)]
    world.settle()
    b.is_dead = True
    world.pass_time(4.0)
    assert [one.outcomes for one in moved] == [[], []]
    a.answer(fixed[0].number)
    world.settle()
    held = list(a.works)
    assert held[0] in [one.number for one in moved]
    world.crash()

    back(world, d, a)

    assert list(a.works) == held
    assert not a.works[held[0]].is_called_off
    for _ in range(3):
        a.answer(next(iter(a.works)))
        world.settle()
    assert all(one.outcomes == [(Status.COMPLETED, "")] for one in moved + fixed)


def test_a_shuffled_mailbox_is_still_shuffled_when_its_agent_has_come_back_in_another_process():
    world = World(window=1)
    d, b = world.life("d"), world.life("nb", "b")
    world.settle()
    a = world.life("na", "a")
    world.settle()
    first = d.ask("once", to="a", timeout=90.0)
    older = d.ask("once", to="a", timeout=90.0)
    moved = d.ask("twice", timeout=90.0)
    world.settle()
    assert list(b.works) == [moved.number]
    b.is_dead = True
    world.pass_time(4.0)  # goes before `older` at a
    a.is_dead = True
    world.pass_time(4.0)
    again = world.life("na2", "a")
    world.settle()
    assert list(again.works) == [moved.number]
    world.crash()
    again.is_dead = True
    last = world.life("na3", "a")
    back(world, d)

    assert first.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    assert (list(last.works), moved.given) == ([moved.number], [1, 2, 3])
    assert older.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]  # nobody can tell that it had not been sent


def test_a_deadline_holds_by_the_time_that_passed_meanwhile():
    world = World()
    d, a = pair(world)
    over = d.ask("once", to="a", timeout=5.0)
    left = d.ask("once", to="a", timeout=20.0)
    world.settle()
    world.crash(down=6.0, clock=77.0)
    entry = world.supervisor.state.ledger.get(left.number.to_bytes(16))
    assert entry is not None
    assert entry.deadline == pytest.approx(77.0 + 14.0)

    back(world, d, a)

    assert over.outcomes == [(Status.TIMEOUT, "deadline")]
    assert a.works[over.number].is_called_off
    assert (left.outcomes, a.works[left.number].is_called_off) == ([], False)


def test_a_clock_that_was_set_back_gives_nobody_more_time():
    world = World()
    d, _ = pair(world)
    asked = d.ask("once", to="a", timeout=5.0)
    world.settle()
    world.crash(down=1.0, clock=77.0, jump=-3600.0)

    entry = world.supervisor.state.ledger.get(asked.number.to_bytes(16))

    assert entry is not None
    assert entry.deadline == pytest.approx(82.0)


def test_an_agent_whose_node_is_not_back_is_told_as_down_and_its_work_waits():
    world = World()
    d, a = pair(world)
    d.ask("once", to="a")
    world.settle()
    a.is_dead = True
    world.crash()
    back(world, d)
    asked = d.ask("ether.agents")
    later = d.ask("once", to="a")
    world.settle()
    (told,) = unpack(d.data[asked.number]["data"])["items"]

    assert (told["agent"], told["condition"]) == ("a", "down")
    assert later.outcomes == []


def test_what_ended_while_its_node_was_away_is_called_off_there():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.settle()
    world.crash()
    back(world, d)
    d.cancel(asked.number)
    world.settle()
    assert asked.outcomes == [(Status.CANCELLED, "cancelled")]

    back(world, a)

    assert a.works[asked.number].is_called_off
    a.answer(asked.number, Status.CANCELLED)
    world.settle()
    assert world.supervisor.state.registry.get(b"a").mailbox.in_flight == 0  # type: ignore[union-attr]


def test_a_crash_at_any_commit_loses_nothing_and_runs_nothing_twice():
    for commits in range(12):
        world = World(synced=False)
        d, a = pair(world)
        asked = [d.ask("once", to="a", timeout=30.0) for _ in range(3)]
        for _ in range(commits):
            world.step()
            world.journal.sync(1)
            a.hear(1)
            d.hear(1)
            for number, work in list(a.works.items()):
                a.answer(number) if work.is_started else a.answer(number, Status.ACCEPTED)
        world.crash()
        back(world, d, a)
        for number in list(a.works):
            a.answer(number)
            world.settle()
        for number in list(a.works):
            a.answer(number)
            world.settle()

        assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * 3, commits


# -- outcomes that nobody was there for --------------------------------------------------------------------------


def test_a_new_life_of_a_delegator_collects_what_the_old_one_was_owed():
    world = World()
    d, a = pair(world)
    done, open_still = d.ask("once", to="a", timeout=60.0), d.ask("once", to="a", timeout=60.0)
    world.settle()
    d.is_dead = True
    world.pass_time(4.0)
    a.answer(done.number)
    world.settle()
    world.crash()
    back(world, a)
    again = world.life("d")
    world.settle()

    question = again.collect()
    world.settle()
    claimed = again.claim(question)
    world.settle()

    assert claimed == [open_still, done]
    assert done.outcomes == [(Status.COMPLETED, "")]
    a.answer(open_still.number)
    world.settle()
    assert open_still.outcomes == [(Status.COMPLETED, "")]
    question = again.collect()
    world.settle()
    assert again.claim(question) == []


def test_outcomes_of_others_cannot_be_fetched():
    world = World()
    d, a = pair(world)
    thief = world.life("thief")
    done, running = d.ask("once", to="a", timeout=60.0), d.ask("once", to="a", timeout=60.0)
    world.settle()
    d.is_dead = True
    world.pass_time(4.0)
    a.answer(done.number)
    world.settle()

    for _ in range(2):
        thief.await_again([done.number, running.number, 999_999])
        world.settle()
        assert {(number, code) for number, _, code in thief.other} == {
            (done.number, "delegator_gone"), (running.number, "delegator_gone"), (999_999, "broker_lost"),
        }  # fmt: skip
        thief.other.clear()
        world.crash()
        back(world, a, thief)
    a.answer(running.number)
    world.settle()
    assert thief.other == []
    again = world.life("d")
    world.settle()
    question = again.collect()
    world.settle()
    again.claim(question)
    world.settle()
    assert (done.outcomes, running.outcomes) == ([(Status.COMPLETED, "")], [(Status.COMPLETED, "")])


@pytest.mark.parametrize("has_ended", [True, False])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("crashes", [True, False])
@pytest.mark.parametrize("is_in_checkpoint", [True, False])
def test_a_node_has_what_an_agent_asked_for_that_left_it(
    *, has_ended: bool, leaves: bool, crashes: bool, is_in_checkpoint: bool
) -> None:
    world = World()
    a, b = world.life("a", "x"), world.life("b", "w")
    world.settle()
    asked = a.ask("once", to="w", source="x", timeout=60.0)
    world.settle()
    if has_ended:
        b.answer(asked.number)
        world.settle()
    if is_in_checkpoint:
        world.journal.disk.checkpoint = (world.journal.next - 1, world.journal.live.pack())
    if leaves:
        a.leave("x")
        world.settle()
    if crashes:
        world.crash()
        back(world, a, b)
    asked.outcomes.clear()
    assert a.other == []
    a.await_again([asked.number])
    world.settle()
    if not has_ended:
        b.answer(asked.number)
        world.settle()

    assert [*asked.outcomes, *((status, code) for _, status, code in a.other)] == [(Status.COMPLETED, "")]


def moved_asker(world: World) -> tuple[Life, Life, Life, Asked]:
    """A process whose agent has asked and left it, the one that has the agent now, the specialist's, and what was asked."""
    a, w = world.life("a", "x"), world.life("n", "w")
    world.settle()
    asked = a.ask("once", to="w", source="x", timeout=60.0)
    world.settle()
    a.leave("x")
    world.settle()
    c = world.life("c", "x")
    world.settle()
    return a, c, w, asked


@pytest.mark.parametrize("has_ended", [True, False])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_node_has_what_its_agent_asked_for_though_that_was_at_another_since(
    *, has_ended: bool, crashes: bool
) -> None:
    world = World()
    b = world.life("b")
    a, other, w, asked = moved_asker(world)
    if has_ended:
        w.answer(asked.number)
        world.settle()
    other.leave("x")
    world.settle()
    if crashes:
        world.crash()
        back(world, a, b, w, other)
    for life in (a, b, other):
        life.other.clear()
    asked.outcomes.clear()
    for life in (b, a):
        life.await_again([asked.number])
    world.settle()
    if not has_ended:
        w.answer(asked.number)
        world.settle()

    assert [*asked.outcomes, *((status, code) for _, status, code in a.other)] == [(Status.COMPLETED, "")]
    assert {code for _, _, code in b.other} == {"delegator_gone"}


@pytest.mark.parametrize("order", ["ac", "ca"])
@pytest.mark.parametrize("crashes", [True, False])
def test_of_two_processes_that_wait_for_one_outcome_each_hears_something(order: str, *, crashes: bool) -> None:
    world = World()
    a, c, w, asked = moved_asker(world)
    if crashes:
        world.crash()
        back(world, a, c, w)
    a.pending.pop(asked.number, None)
    for life in order:
        {"a": a, "c": c}[life].await_again([asked.number])
        world.settle()
    w.answer(asked.number)
    world.settle()

    told = {life.name: life.other[-1][2] for life in (a, c)}
    assert told == {"a": "delegator_gone", "c": ""}, "whose agent it is now"


@pytest.mark.parametrize("how", ["stays", "asks-again", "crash", "away", "crash-after"])
def test_a_process_that_has_collected_open_work_has_it_though_its_agent_has_left_it_since(how: str) -> None:
    world = World()
    a, c, w, asked = moved_asker(world)
    a.pending.pop(asked.number, None)
    c.await_again([asked.number])
    world.settle()
    c.leave("x")
    world.settle()
    if how == "crash":
        world.crash()
        back(world, a, c, w)
    if how == "away":
        c.is_mute = True
        world.pass_time(4.0)
    w.answer(asked.number)
    world.settle()
    if how == "crash-after":
        world.crash()
        back(world, a, c, w)
    if how == "away":
        c.is_mute = False
        back(world, c)
    if how != "stays":
        c.await_again([asked.number])
    world.settle()

    assert {code for _, _, code in a.other} == {"delegator_gone"}
    assert {(status, code) for _, status, code in c.other} == {(Status.COMPLETED, "")}


def test_an_outcome_that_was_under_way_to_a_lost_node_is_there_when_it_is_back():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a", timeout=60.0)
    world.settle()
    d.is_mute = True
    a.answer(asked.number)
    world.pass_time(4.0)
    assert "d" not in [session.node for session in world.supervisor.state.session_table.sessions]
    d.is_mute = False

    back(world, d)

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_an_outcome_that_waited_for_the_journal_when_its_node_was_lost_is_kept():
    world = World(synced=False)
    d, a = pair(world)
    asked = d.ask("once", to="a", timeout=60.0)
    world.settle()
    a.answer(asked.number)
    world.step()
    session_table = world.supervisor.state.session_table
    session = next(session for session in session_table.sessions if session.node == "d")
    session_table.close(session, "its connection is gone")
    world.journal.sync()
    world.settle()

    assert uncollected(world.supervisor.state.ended, b"d") == [asked.number.to_bytes(16)]


def test_a_refusal_that_its_delegator_has_not_seen_is_said_again_and_nothing_is_begun():
    world = World(synced=False)
    d, a = pair(world)
    a.is_dead = True
    world.pass_time(5.0)
    asked = d.ask("once", to="a", timeout=60.0)
    world.step()
    world.journal.sync()
    world.crash()
    b = world.life("nb", "a")

    back(world, d)

    assert [status for status, _ in asked.outcomes] == [Status.REJECTED_CAPABILITY]
    assert b.works == {}
    outcomes = [
        header for header in map(read_header, world.journal.disk.envelopes)
        if header.kind == Kind.RESPONSE and int.from_bytes(header.request_id) == asked.number
    ]  # fmt: skip
    assert len(outcomes) == 1


def test_a_question_to_the_bus_that_is_sent_again_is_answered_once():
    world = World()
    d, _ = pair(world)
    asked = d.ask("ether.agents")
    world.crash()

    back(world, d)

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_a_refusal_in_the_same_step_as_its_repetition_is_the_one_outcome():
    world = World()
    d, _ = pair(world)
    asked = d.ask("no.such")
    world.crash()

    back(world, d)

    assert asked.outcomes == [(Status.REJECTED_CAPABILITY, "no_holder")]


# -- the journal cannot be written -------------------------------------------------------------------------------


def test_work_is_refused_while_the_journal_cannot_be_written_and_is_not_begun_later():
    world = World()
    d, a = pair(world)
    world.journal.fail()
    asked = d.ask("once", to="a")
    world.settle()
    assert asked.outcomes == [(Status.REJECTED_OVERLOAD, "journal_unavailable")]

    world.journal.mend()
    world.settle()
    later = d.ask("once", to="a")
    world.settle()

    assert list(a.works) == [later.number]
    world.crash()
    back(world, d, a)
    assert list(a.works) == [later.number]


def test_an_outcome_that_came_while_the_journal_could_not_be_written_leaves_when_it_can():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.settle()
    world.journal.fail()
    a.answer(asked.number)
    world.settle()
    assert asked.outcomes == []

    world.journal.mend()
    world.settle()

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_volatile_work_does_not_wait_for_the_journal():
    world = World(synced=False)
    d, a = pair(world)
    asked = d.ask("once", to="a", flags=Flag.VOLATILE)
    world.step()
    a.hear()
    assert list(a.works) == [asked.number]
    a.answer(asked.number)
    world.step()
    d.hear()

    assert asked.outcomes == [(Status.COMPLETED, "")]
    assert world.journal.pending


@pytest.mark.parametrize("ahead", [0.0, 1.5, 60.0, 1e7])
@pytest.mark.parametrize("jump", [0.0, -1.0, -3600.0, 3600.0])
@pytest.mark.parametrize("set_right", [False, True])
@pytest.mark.parametrize("late", [0.0, 5.0, 90.0])
def test_volatile_work_that_may_have_run_is_not_given_out_again_whatever_the_clocks_show(ahead, jump, set_right, late):
    world = World(synced=False)
    a, d = world.life("na", "a"), world.life("nd")
    world.settle()
    d.ahead = ahead
    asked = d.ask("once", to="a", timeout=1000.0, flags=Flag.VOLATILE)
    world.step()
    a.hear()
    assert list(a.works) == [asked.number]
    d.ahead = 0.0 if set_right else ahead
    world.crash(clock=None, jump=jump)

    d.is_mute = True
    world.pass_time(late)
    d.is_mute = False
    world.pass_time(10.0)

    assert asked.given == [1]
    assert asked.outcomes == [(Status.FAILED_EXECUTION, "broker_lost")]


def test_what_an_agent_that_moves_hands_back_and_what_never_reached_it_wait_in_their_order():
    world = World(window=4)
    d, a = pair(world)
    asked = [d.ask("once", to="a", timeout=1000.0) for _ in range(2)]
    world.settle()
    asked += [d.ask("once", to="a", timeout=1000.0)]
    for _ in range(3):
        world.step()  # it is on the wire to the node when the broker dies, and so is what the node says
    a.leave("a", moves=True)
    world.crash(clock=None)
    back(world, d, a)

    b = world.life("nb", "a")
    world.settle()

    assert list(b.works) == [work.number for work in asked]


@pytest.mark.parametrize("is_known", [True, False], ids=["refused when it was sent again", "unknown"])
def test_an_agent_of_before_saves_the_state_that_volatile_work_has_changed(is_known: bool):
    world = World(synced=False, window=4)
    a, d = world.life("na", "a"), world.life("nd")
    world.settle()
    asked = d.ask("once", to="a", timeout=1000.0, flags=Flag.VOLATILE)
    world.step()
    a.hear()
    d.is_mute = not is_known
    world.crash(clock=None)
    world.pass_time(5.0)
    assert (asked.outcomes == [(Status.FAILED_EXECUTION, "broker_lost")]) is is_known

    def say(number: int, base: int) -> int:
        brought = BroughtState(base, b"i" * 16 if base else b"", b"i" * 16, 1, b"changed")
        a.say(join_state(pack_envelope(
            Kind.RESPONSE, request_id=request_id(number), source=b"a", target=b"nd", status=Status.COMPLETED, attempt=1,
            body=pack({"summary": "done"}),
        ), brought))  # fmt: skip
        world.settle()
        saved = world.supervisor.state.agent_states.get("a")
        return 0 if saved is None else saved.number

    assert say(asked.number, 0) == 1
    assert say(asked.number, 1) == 1, "a delegation brings one"
    assert [say(900_001 + late, 1 + late) for late in range(6)] == [2, 3, 4, 5, 6, 7], "also of what nobody knows"
    d.is_mute = False
    world.pass_time(5.0)
    later = d.ask("once", to="a", timeout=1000.0)
    world.pass_time(1.0)
    assert say(later.number, 15) == 16, "one that counts follows, though some between were lost"
    world.pass_time(1.0)
    assert later.outcomes == [(Status.COMPLETED, "")]


def test_volatile_work_of_a_delegator_whose_clock_is_ahead_runs_once():
    test_volatile_work_that_may_have_run_is_not_given_out_again_whatever_the_clocks_show(60.0, 0.0, False, 0.0)


@pytest.mark.parametrize("ahead", [0.0, -3600.0, 3600.0])
def test_volatile_work_that_only_this_broker_can_have_seen_begins_though_its_session_was_lost(ahead):
    world = World()
    a, d = world.life("na", "a"), world.life("nd")
    d.ahead = ahead
    world.settle()
    world.crash(clock=None)
    world.pass_time(5.0)
    d.ahead = 0.0
    asked = d.ask("once", to="a", timeout=1000.0, flags=Flag.VOLATILE)
    world.lose_frames(d, both=True)
    d.is_mute = True
    world.pass_time(6.0)
    d.is_mute = False
    world.pass_time(10.0)

    assert list(a.works) == [asked.number]


# -- what recovery makes of the state ----------------------------------------------------------------------------


def test_agents_are_known_before_their_nodes_are_back_and_take_work():
    world = World()
    d, a = pair(world)
    world.crash()
    state = world.supervisor.state
    assert [(agent.name, agent.condition) for agent in state.registry.agents] == [
        (name, Condition.RESTARTING) for name in (b"d", b"na", b"a")
    ]
    back(world, d)
    asked = d.ask("once")
    world.settle()
    assert asked.outcomes == []

    back(world, a)

    assert list(a.works) == [asked.number]


def test_a_second_crash_before_anybody_is_back_changes_nothing():
    world = World(window=1)
    d, a = pair(world)
    first, second = d.ask("once", to="a", timeout=60.0), d.ask("once", to="a", timeout=60.0)
    world.settle()
    a.answer(first.number, Status.ACCEPTED)
    world.settle()
    for clock in (1.0, 1e6, 50.0):
        world.crash(clock=clock)
        entries = world.supervisor.state.ledger.running
        assert [entry.state for entry in entries] == [State.RUNNING, State.QUEUED]
        world.step()
    back(world, d, a)
    a.answer(first.number)
    world.settle()
    a.answer(second.number)
    world.settle()

    assert [asked.outcomes for asked in (first, second)] == [[(Status.COMPLETED, "")]] * 2


@pytest.mark.parametrize("declared", ["another", "once.more"])
@pytest.mark.parametrize("is_started", [True, False])
def test_work_that_its_agent_was_given_goes_on_though_it_declares_it_no_more(declared: str, is_started: bool):
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a")
    world.settle()
    if is_started:
        a.answer(asked.number, Status.ACCEPTED)
    a.register_anew({declared: False})
    world.settle()

    world.crash()
    back(world, d, a)
    a.answer(asked.number)
    world.settle()

    assert asked.outcomes == [(Status.COMPLETED, "")]
    assert asked.given == [1]


def test_work_that_its_agent_declares_no_more_is_not_run_again_when_its_node_is_lost_with_the_broker():
    world = World()
    d, a = pair(world)
    asked = d.ask("twice", to="a", timeout=60.0)
    world.settle()
    a.register_anew({"another": False})
    world.settle()
    a.is_dead = True

    world.crash()
    back(world, d)
    world.pass_time(DEFAULT_TIMING.reclaim + 1.0)

    assert asked.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]


def test_what_a_recovery_ends_itself_is_told_and_remembered():
    """A journal in which an agent is gone and its work is not; no broker leaves it so."""
    world = World()
    d, _ = pair(world)
    asked = d.ask("once", to="a")
    world.settle()
    journal, gone = world.journal, {"event": "agent_down", "agent": "a", "node": "na", "reason": "left"}
    event = pack_envelope(Kind.EVENT, request_id=bytes(16), body=pack(gone))
    journal.append(journal.next, world.now, world.wall, [event])

    world.crash()
    back(world, d)

    assert asked.outcomes == [(Status.REJECTED_CAPABILITY, "agent_gone")]
    assert request_id(asked.number) in world.supervisor.state.ended


def test_what_a_recovery_drops_of_the_endings_is_still_known_as_one_that_may_have_ended():
    """All of the journal is in the checkpoint, so no step of it is replayed that tells the time."""
    history, wall = History(remembered=2), 1e9
    done, *left = ((int(wall * 1000) << 80 | 7 << 76 | number).to_bytes(16) for number in range(9))
    work = [pack_envelope(Kind.DELEGATION, request_id=id_, source=b"d", target=b"gone") for id_ in (done, *left)]
    outcome = pack_envelope(Kind.RESPONSE, request_id=done, source=b"gone", target=b"d", status=Status.COMPLETED)
    commit = Replayed(1, 1000.0, wall, [*work, outcome])
    history.apply(*commit)
    journal = StoredJournal(Disk(commits=[commit], checkpoint=(history.next, history.pack())))
    supervisor = Supervisor(journal=journal, remembered=2)

    supervisor.recover(1001.0, wall + 1.0)
    supervisor.step([], 1001.0, wall + 1.0)

    ended = supervisor.state.ended
    assert done not in ended
    assert ended.may_know(done)
    assert all(journal.outcome(id_) for id_ in (done, *left))


def test_children_that_were_still_to_be_called_off_are_so_after_a_restart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delivery, "ENDED_PER_STEP", 2)
    world = World()
    d, a = pair(world)
    w = world.life("nw", "w")
    world.settle()
    parent = d.ask("once", to="a")
    world.settle()
    children = [a.ask("once", to="w", source="a", parent=parent.number) for _ in range(20)]
    world.settle()
    d.cancel(parent.number)
    world.step()
    world.crash()
    assert len(world.supervisor.state.ledger) < 20

    back(world, d, a, w)

    assert parent.outcomes == [(Status.CANCELLED, "cancelled")]
    assert {outcome for child in children for outcome in child.outcomes} == {(Status.CANCELLED, "parent_ended")}
    assert all(len(child.outcomes) == 1 for child in children)
    assert all(work.is_called_off for work in w.works.values())


def test_the_children_of_a_run_that_was_lost_with_its_node_are_called_off_before_it_runs_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 4)
    world = World()
    d, a = pair(world)
    again, w = world.life("nb", "b"), world.life("nw", "w")
    world.settle()
    parent = d.ask("twice", timeout=100.0)
    world.settle()
    runs = a if parent.number in a.works else again if parent.number in again.works else w
    others = next(life for life in (a, again, w) if life is not runs)
    source = runs.works[parent.number].agent
    children = [runs.ask("once", to=others.agents[0], source=source, parent=parent.number) for _ in range(9)]
    world.settle()

    runs.is_dead = True
    world.supervisor.state.session_table.close(world.supervisor.state.session_table.find(runs.name), "gone")
    world.step()
    world.step()
    world.journal.sync()
    world.crash()

    ledger = world.supervisor.state.ledger
    waiting = [child for child in children if ledger.get(request_id(child.number)) is not None]
    assert 0 < len(waiting) < 9  # and so the run that was lost is still the one that the bus knows
    assert parent.given == [1]

    back(world, d, *(life for life in (a, again, w) if life is not runs))
    world.pass_time(DEFAULT_TIMING.reclaim + 1.0)
    assert [ledger.get(request_id(child.number)) for child in children] == [None] * 9
    assert parent.given == [1, 2]


def test_the_nodes_have_their_time_to_come_back_from_the_first_step_on_however_long_the_journal_took_to_read():
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a", timeout=100.0)
    world.settle()
    world.crash()
    world.wall += DEFAULT_TIMING.reclaim + 1.0

    back(world, d, a)
    a.answer(asked.number)
    world.settle()

    assert asked.outcomes == [(Status.COMPLETED, "")]


@pytest.mark.parametrize("crashes", [1, 2])
def test_nodes_that_keep_the_longer_timing_of_a_broker_before_are_waited_for_as_long_as_that_takes_them(crashes: int):
    world = World(timing=Timing(heartbeat=20.0, silence=60.0, patience=2.0))
    d, a = pair(world)
    asked = d.ask("once", to="a", timeout=500.0)
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.timing = DEFAULT_TIMING
    for _ in range(crashes):
        world.crash()
        world.pass_time(20.0)  # the nodes have nothing to say before their next heartbeat

    back(world, d, a)
    a.answer(asked.number)
    world.settle()

    assert asked.outcomes == [(Status.COMPLETED, "")]


def test_a_longer_timing_expires_though_the_broker_is_restarted_again_and_again():
    history = History()
    history.begin("boot", 0.0, 0.0, silence=60.0)
    history.begin("boot", 10.0, 10.0, silence=3.0)
    kept = []
    for now in (50.0, 100.0, 180.0, 200.0):
        history.clock = now
        history.begin("boot", now, now, silence=3.0)
        kept.append(history.longest_silence)

    assert kept == [60.0, 60.0, 60.0, 3.0]


def test_what_is_answered_while_a_broker_recovers_is_no_dead_letter_of_a_delegator_that_is_expected_back():
    # Given a delegation that has ended with more leases than one step passes on, which others wait for
    world = World()
    d, a, b = world.life("d"), world.life("na", "a"), world.life("nb", "b")
    world.settle()
    holds, waits = d.ask("once", to="a", timeout=60.0), d.ask("once", to="b", timeout=60.0)
    world.settle()
    names = [f"r{number}" for number in range(300)]
    for life, agent, work in ((a, "a", holds), (b, "b", waits)):
        claims = []
        for name in names:
            params = {"resource": name, "wait": 50.0}
            claims.append(life.ask("ether.lease", source=agent, parent=work.number, params=params, timeout=60.0))
        world.settle(30)
    a.answer(holds.number)
    world.step()
    world.journal.sync()
    assert world.supervisor.state.leases.ending

    world.crash()

    assert len(world.supervisor.state.dead_letters) == 0
    back(world, d, a, b)
    world.settle(40)
    assert [claim.outcomes for claim in claims] == [[(Status.COMPLETED, "")]] * 300


def test_a_longer_timing_of_long_ago_is_waited_for_no_more_however_young_the_checkpoint_is():
    # Given a broker whose nodes have all taken its shorter timing, and a checkpoint made while it ran
    world = World(timing=Timing(heartbeat=20.0, silence=60.0, patience=2.0))
    d, a = pair(world)
    world.timing = DEFAULT_TIMING
    world.crash(clock=None)
    back(world, d, a)
    for agent in range(4):
        world.pass_time(60.0)
        d.add(f"later{agent}")
        world.settle()
    made = fold_here(world.journal, threading.Event())
    assert made is not None
    world.journal.put_checkpoint(*made)
    world.journal.sync()

    world.crash(clock=None)
    assert world.supervisor._membership._reconnection._reclaim == DEFAULT_TIMING.reclaim


@pytest.mark.parametrize("crashes", [False, True])
def test_progress_for_a_delegator_that_was_lost_before_is_not_held_for_it_by_a_broker_that_is_restarted(
    *, crashes: bool
):
    world = World()
    d, a = world.life("d", "b"), world.life("na", "a")
    world.settle()
    asked = d.ask("once", to="a", timeout=200.0, source="b")
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.pass_time(60.0)
    d.is_dead = True
    world.pass_time(DEFAULT_TIMING.silence + DEFAULT_TIMING.heartbeat)
    if crashes:
        world.crash(clock=None)
        back(world, a)

    a.answer(asked.number, Status.PROGRESS)
    world.pass_time(1.0)

    said = [read_header(envelope).status for envelope in world.journal.disk.envelopes]
    assert said.count(Status.PROGRESS.code) == 1
    assert a.channel.session
    assert [session.progress_waiting for session in world.supervisor.state.session_table.sessions] == [0]


@pytest.mark.parametrize("is_dead", [True, False])
def test_progress_waits_no_longer_for_a_delegator_that_does_not_come_back_or_does_not_ask(*, is_dead: bool):
    world = World()
    d, a = pair(world)
    asked = d.ask("once", to="a", timeout=200.0)
    world.settle()
    a.answer(asked.number, Status.ACCEPTED)
    world.settle()
    d.is_dead = is_dead
    world.crash()
    d.pending.clear()
    back(world, *(life for life in (d, a) if not life.is_dead))

    a.answer(asked.number, Status.PROGRESS)
    world.pass_time(1.0)
    held = [read_header(envelope).status for envelope in world.journal.disk.envelopes].count(Status.PROGRESS.code)
    world.pass_time(DEFAULT_TIMING.reclaim + 1.0)
    said = [read_header(envelope).status for envelope in world.journal.disk.envelopes].count(Status.PROGRESS.code)

    assert (held, said) == (0, 1)


@pytest.mark.parametrize("says_so", [True, False])
def test_an_agent_with_which_its_node_does_not_come_back_is_lost_and_the_node_is_not(*, says_so: bool):
    world = World()
    d, a = pair(world)
    begun, waits = d.ask("once", to="a", timeout=60.0), d.ask("once", to="a", timeout=60.0)
    world.settle()
    a.answer(begun.number, Status.ACCEPTED)
    world.settle()

    world.crash()
    a.works.clear()
    a.agents.remove("a")
    back(world, d, a)
    if says_so:
        a.say(pack_envelope(Kind.UNREGISTER, source=b"a", body=pack({"condition": "gone"})))
    world.pass_time(1.0 if says_so else DEFAULT_TIMING.reclaim + 1)

    told = [
        unpack(raw[header.body :])
        for raw in world.journal.disk.envelopes
        if (header := read_header(raw)).kind == Kind.EVENT
    ]
    assert [event["agent"] for event in told if event["event"] == "agent_down"] == ["a"]
    assert "node_down" not in {event["event"] for event in told}
    assert begun.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    assert waits.outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    assert [session.node for session in world.supervisor.state.session_table.sessions] == ["d", "na"]


def test_a_node_that_is_back_has_its_time_for_each_of_its_agents():
    world = World()
    d = world.life("d")
    a = world.life("na", *(f"a{number}" for number in range(4)))
    world.settle()
    asked = [d.ask("once", to=agent, timeout=100.0) for agent in a.agents]
    world.settle()
    world.crash()
    registering = world.supervisor._membership.registering
    register, waiting = registering.register, []
    registering.register = lambda *said: waiting.append(said) if said[0].node == "na" else register(*said)
    back(world, d, a)

    while waiting:
        world.pass_time(DEFAULT_TIMING.reclaim - 1.0)
        register(*waiting.pop(0))
        world.settle()
    for one in asked:
        a.answer(one.number)
    world.settle()

    assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * 4


# -- departures --------------------------------------------------------------------------------------------------


def told(world: World, *names: str) -> list[tuple[str, str, str]]:
    """The events of these names that the journal has: (event, agent or node, reason)."""
    bodies = [unpack(raw[read_header(raw).body :]) for raw in world.journal.disk.envelopes if raw[0] == Kind.EVENT]
    return [
        (body["event"], body.get("agent", body["node"]), body.get("reason", ""))
        for body in bodies
        if body["event"] in names
    ]


@pytest.fixture
def one_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step rules on one delegation of an agent that goes."""
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 4)


@pytest.mark.usefixtures("one_a_step")
@pytest.mark.parametrize("crashes", [[0], [1], [2], [8], [10], [1, 1, 1], [3, 0, 6]])
def test_an_agent_that_left_for_good_has_left_though_brokers_die_before_all_it_had_is_ruled_on(crashes: list[int]):
    world = World(window=2)
    d, a = pair(world)
    given, waiting = ([d.ask("once", to="a", timeout=900.0) for _ in range(count)] for count in (2, 8))
    world.settle()
    begun = given[0]
    a.answer(begun.number, Status.ACCEPTED)
    world.settle()
    a.works.clear()
    a.agents.remove("a")
    a.say(pack_envelope(Kind.UNREGISTER, source=b"a", body=pack({"condition": "gone", "reason": "tired"})))

    for steps in crashes:
        world.step()  # which takes UNREGISTER, if it is the first
        for _ in range(steps):
            world.step()
        a.channel.acknowledge(a.channel.last)  # its node says no more of it
        world.crash()
    assert len(world.supervisor.state.ledger) > 0
    back(world, d, a)
    world.settle(20)

    assert [asked.outcomes for asked in given] == [[(Status.FAILED_EXECUTION, "node_lost")]] * 2
    assert [asked.outcomes for asked in waiting] == [[(Status.REJECTED_CAPABILITY, "agent_gone")]] * 8
    assert told(world, "agent_leaving", "agent_down") == [("agent_leaving", "a", "tired"), ("agent_down", "a", "tired")]
    assert world.supervisor.state.registry.get(b"a") is None
    world.pass_time(DEFAULT_TIMING.reclaim + 1.0)
    assert [session.node for session in world.supervisor.state.session_table.sessions] == ["d", "na"]
    assert told(world, "node_down") == []

    a.add("a")
    again = d.ask("once", to="a")
    world.settle()
    assert list(a.works) == [again.number]


@pytest.mark.usefixtures("one_a_step")
def test_who_takes_the_name_of_an_agent_that_left_waits_until_the_next_broker_has_ruled_on_its_work():
    world = World()
    d, a = pair(world)
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(20)]
    world.settle()
    a.leave("a")
    world.step()
    a.hear()
    a.add("a")
    world.crash()

    back(world, d, a)
    world.settle(40)
    again = d.ask("once", to="a")
    world.settle()

    assert {code for one in asked for _, code in one.outcomes} == {"node_lost", "agent_gone"}
    assert all(len(one.outcomes) == 1 for one in asked)
    assert list(a.works) == [again.number]


@pytest.mark.usefixtures("one_a_step")
@pytest.mark.parametrize("steps", [1, 4, 12])
def test_a_node_that_said_bye_has_left_with_all_its_agents_though_its_broker_dies(steps: int):
    world = World(window=1)
    d = world.life("d")
    a = world.life("na", *(f"a{number}" for number in range(6)))
    world.settle()
    given, waiting = ([d.ask("once", to=agent, timeout=900.0) for agent in a.agents] for _ in range(2))
    world.settle()
    a.bye()
    for _ in range(steps):
        world.step()
    a.is_dead = True
    world.crash()
    assert len(world.supervisor.state.ledger) > 0

    back(world, d)
    world.settle(20)

    assert [asked.outcomes for asked in given] == [[(Status.FAILED_EXECUTION, "node_lost")]] * 6
    assert [asked.outcomes for asked in waiting] == [[(Status.REJECTED_CAPABILITY, "agent_gone")]] * 6
    assert [agent.name for agent in world.supervisor.state.registry.agents] == [b"d"]
    assert told(world, "node_leaving") == [("node_leaving", "na", "")]
    assert {reason for _, _, reason in told(world, "agent_down")} == {"left"}
    world.pass_time(DEFAULT_TIMING.reclaim + 1.0)
    assert told(world, "node_down") == []


def test_an_agent_that_comes_behind_the_bye_of_its_node_in_the_same_step_stays_though_the_broker_dies():
    world = World(window=1)
    a = world.life("na", *(f"a{number}" for number in range(6)))
    d = world.life("d")
    world.settle()
    for agent in a.agents:
        d.ask("once", to=agent, timeout=900.0)
    world.settle()
    a.bye()
    a.add("late")
    world.step()  # where `World.step` compares what recovery would make of it

    assert "late" in {agent.manifest.agent for agent in world.supervisor.state.registry.agents}


def test_what_is_ruled_on_in_the_step_in_which_it_leaves_is_told_of_once():
    world = World()
    _, a = pair(world)
    b = world.life("nb", "b")
    world.settle()

    a.leave("a")
    b.bye()
    world.settle()

    assert told(world, "agent_leaving", "node_leaving") == []
    assert [agent for _, agent, _ in told(world, "agent_down")] == ["a", "b", "nb"]


@pytest.mark.parametrize("comes", [True, False])
def test_a_node_of_the_broker_before_is_told_as_down_unless_another_process_of_its_name_is_in(comes: bool):
    world = World()
    d, a = pair(world)
    world.crash(clock=None)
    a.is_dead = True
    if comes:
        world.life("na", "a2")
    back(world, d)
    for _ in range(3 * int(DEFAULT_TIMING.reclaim)):
        world.pass_time(1.0)

    assert [node for _, node, _ in told(world, "node_down")] == ([] if comes else ["na"])


@pytest.mark.parametrize(
    ("comes", "reason"),
    [
        ("it", None),
        ("another", "another process has its name after the broker was restarted"),
        ("nobody", "it did not come back after the broker was restarted"),
    ],
)
@pytest.mark.parametrize("target", ["na", "nb"], ids=["with an agent", "without agents"])
def test_a_node_of_the_broker_before_counts_as_there_for_who_monitors_it_until_it_is_lost(
    target: str, comes: str, reason: str | None
):
    world = World()
    d, a = pair(world)
    b = world.life("nb")
    world.settle()
    world.crash(clock=None)
    it, other = (a, b) if target == "na" else (b, a)
    it.is_dead = True
    back(world, d, other)

    d.monitor(f"node:{target}")
    d.monitor("node:nowhere")
    world.settle()
    assert d.down == [("node:nowhere", "unknown")]
    if comes == "it":
        it.is_dead = False
        back(world, it)
    elif comes == "another":
        world.life(target)
        world.settle()
        assert d.down[1:] == [(f"node:{target}", reason)]
        d.monitor(f"node:{target}")  # that one is not lost with the one before
    for _ in range(3 * int(DEFAULT_TIMING.reclaim)):
        world.pass_time(1.0)

    assert d.down[1:] == ([] if reason is None else [(f"node:{target}", reason)])
    if comes == "it":
        it.is_dead = True
        for _ in range(3 * int(DEFAULT_TIMING.silence)):
            world.pass_time(1.0)
        assert [name for name, _ in d.down[1:]] == [f"node:{target}"]
