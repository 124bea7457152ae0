"""What the supervisor rules on its own: deadlines, cancellation, lost nodes; and the order in which all is served."""

from __future__ import annotations

import pytest

from ether_actors.supervisor.delegations.reassignment import MAX_ATTEMPTS, MAX_RETURNS
from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import Flag, Kind
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer
from tests.actors.rulings_shell import ROOM, chain, pair

# -- deadlines and cancelling ------------------------------------------------------------------------------------


def test_work_that_passes_its_deadline_is_timed_out_and_its_node_told_to_stop():
    bus, d, a = pair()
    number = d.delegate("d", timeout=2.0)
    bus.step()
    deadline = bus.now + 2.0

    bus.pass_time(1.99)
    assert d.outcomes() == {}
    bus.pass_time(0.25)

    refusal = d.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (number, Status.TIMEOUT, "deadline")
    assert deadline <= bus.now <= deadline + 0.25
    assert [received.number for received in a.took(Kind.CANCEL)] == [number]


def test_work_that_waited_until_its_deadline_was_never_started_and_can_be_redriven():
    bus, d, a = pair(Limits(window=1))
    d.delegate("d", timeout=60.0)
    number = d.delegate("d", timeout=2.0)
    bus.step()
    bus.pass_time(2.2)

    assert (refusal := d.outcome()).code == "expired"
    assert refusal.number == number
    assert (a.took(Kind.CANCEL), bus.reasons(), bus.agent("a").mailbox.waiting_count) == ([], ["expired"], 0)


def test_work_that_expired_is_not_sent_though_its_timeout_has_not_been_ruled_yet():
    bus, d, a = pair(Limits(window=1))
    first = d.delegate("d", timeout=60.0)
    d.delegate("d", timeout=2.01)
    bus.step()
    assert a.work() == [first]

    bus.now += 2.02
    a.respond("a", first)
    bus.step()

    assert a.work() == []
    assert d.outcomes()[first] is Status.COMPLETED
    assert bus.agent("a").mailbox.in_flight == 0


def test_a_parent_and_its_child_with_the_same_deadline_both_end_at_it():
    bus, peers, parent = chain("d", "a", "b")

    bus.pass_time(30.2)

    assert peers["d"].outcome().status is Status.TIMEOUT
    assert peers["a"].outcome().status in (Status.TIMEOUT, Status.CANCELLED)
    assert len(bus.state.ledger) == 0
    assert bus.entry(parent) is None


def test_all_that_is_due_at_once_ends_whatever_its_kinship():
    bus = Bus(ROOM)
    d, a = bus.delegator("d"), bus.node("na", "a", max_concurrency=9)
    root = d.delegate("d", timeout=5.0)
    bus.step()
    for _ in range(3):
        a.delegate("a", parent=root, timeout=5.0)
    alone = d.delegate("d", timeout=5.0)
    bus.step()

    bus.pass_time(5.2)

    assert set(d.outcomes()) == {root, alone}
    assert len(a.outcomes()) == 3
    assert len(bus.state.ledger) == 0


def test_cancelling_reaches_the_specialists_of_the_delegation_and_of_what_it_delegated():
    bus, peers, child = chain("d", "a", "b")
    parent = child - 1

    peers["d"].cancel("d", parent)
    bus.step()

    assert peers["d"].outcomes() == {parent: Status.CANCELLED}
    assert peers["a"].outcomes() == {child: Status.CANCELLED}
    assert [received.number for received in peers["a"].took(Kind.CANCEL)] == [parent]
    assert [received.number for received in peers["b"].took(Kind.CANCEL)] == [child]


def test_an_outcome_calls_off_the_children_that_still_run():
    bus, peers, child = chain("d", "a", "b")

    peers["a"].respond("a", child - 1)
    bus.step()

    assert peers["d"].outcomes() == {child - 1: Status.COMPLETED}
    assert peers["a"].outcome().code == "parent_ended"
    assert [received.number for received in peers["b"].took(Kind.CANCEL)] == [child]


def test_only_the_delegator_may_cancel():
    bus, d, _a = pair()
    other = bus.delegator("o")
    number = d.delegate("d")
    bus.step()

    other.cancel("o", number)
    other.cancel("d", number)
    bus.step()

    assert (bus.entry(number).state, bus.reasons()) == (State.SENT, ["forged", "forged"])


def test_cancelling_what_has_ended_or_never_was_changes_nothing():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    a.respond("a", number)
    bus.step()

    d.cancel("d", number)
    d.cancel("d", 999)
    bus.step()

    assert (d.outcomes(), bus.reasons()) == ({number: Status.COMPLETED}, [])


# -- lost nodes --------------------------------------------------------------------------------------------------


def test_work_that_may_not_run_twice_ends_with_its_node():
    bus, d, a = pair()
    number = d.delegate("d", timeout=60.0)
    bus.step()
    bus.node("nb", "b")
    a.die()
    bus.pass_time(5.0)

    refusal = d.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (number, Status.FAILED_EXECUTION, "node_lost")
    assert bus.reasons() == ["node_lost"]


def test_idempotent_work_goes_to_another_holder_with_its_attempt_number():
    bus, d, a = pair(idempotent=True)
    number = d.delegate("d", timeout=60.0)
    bus.step()
    other = bus.node("nb", "b", idempotent=True)
    a.die()
    bus.pass_time(5.0)

    (received,) = other.took(Kind.DELEGATION)
    assert (received.number, received.header.attempt) == (number, 2)
    assert received.header.flags & Flag.REDELIVERED
    other.respond("b", number)
    bus.step()
    assert d.outcomes() == {number: Status.COMPLETED}


def test_idempotent_work_is_not_given_to_a_holder_that_may_run_it_once_only():
    bus, d, a = pair(idempotent=True)
    number = d.delegate("d", timeout=60.0)
    bus.step()
    other = bus.node("nb", "b", idempotent=False)
    a.die()
    bus.pass_time(5.0)

    assert (other.work(), bus.entry(number).state) == ([], State.QUEUED)


def test_idempotent_work_waits_for_its_agent_to_come_back_where_nobody_else_holds_it():
    bus, d, a = pair(idempotent=True)
    number = d.delegate("d", timeout=60.0)
    bus.step()
    a.die()
    bus.pass_time(5.0)

    again = bus.node("na2")
    again.register("a", idempotent=True)
    bus.step()

    assert again.work() == [number]
    assert bus.agent("a").mailbox.in_flight == 1


def test_work_that_waits_for_a_lost_agent_waits_until_its_deadline_and_is_not_given_to_who_joins_later():
    bus, d, a = pair(idempotent=True)
    numbers = [d.delegate("d", timeout=2_000.0) for _ in range(2)]
    bus.step()
    a.die()
    bus.pass_time(1_000.0)
    later = bus.node("nb", "b", idempotent=True)
    fresh = d.delegate("d", timeout=60.0)
    bus.step()
    assert later.work() == [fresh]
    later.respond("b", fresh)
    bus.pass_time(900.0)

    assert later.work() == []
    assert [bus.entry(number).agent is bus.agent("a") for number in numbers] == [True, True]
    bus.pass_time(200.0)
    assert d.outcomes() == {fresh: Status.COMPLETED} | dict.fromkeys(numbers, Status.TIMEOUT)


def test_work_that_kills_its_nodes_is_given_up_after_some_attempts():
    bus, d, _ = pair(idempotent=True)
    number = d.delegate("d", timeout=600.0)
    bus.step()
    for attempt in range(2, MAX_ATTEMPTS + 2):
        bus.peers[-1].die()
        bus.pass_time(5.0)
        bus.node(f"na{attempt}").register("a", idempotent=True)
        bus.step()

    assert (refusal := d.outcome()).code == "node_lost"
    assert (refusal.number, bus.entry(number)) == (number, None)


def test_what_waited_for_a_lost_agent_goes_to_others_in_order_and_only_once():
    bus, d, a = pair(Limits(mailbox_count=9, window=1))
    first, *waiting = [d.delegate("d", timeout=60.0) for _ in range(3)]
    bus.step()
    a.die()
    other = Peer(bus, "nb")
    bus.peers.append(other)
    other.hello()
    other.register("b")
    bus.pass_time(5.0)
    again = bus.node("na2", "a")

    answered = []
    for _ in range(2):
        (number,) = other.work()
        answered.append(number)
        other.respond("b", number)
        bus.step()

    assert (answered, again.work()) == (waiting, [])
    assert d.outcomes() == {first: Status.FAILED_EXECUTION} | dict.fromkeys(waiting, Status.COMPLETED)


def test_the_work_of_a_lost_agent_is_shared_among_all_that_hold_its_capability():
    bus = Bus()
    d, lost, *others = bus.delegator("d"), *(bus.node(f"n{name}", name, idempotent=True) for name in "abc")
    for _ in range(30):
        d.delegate("d")
    bus.step()
    assert len(lost.work()) == 10

    lost.die()
    bus.pass_time(5.0)

    assert [len(other.work()) for other in others] == [15, 15]


def test_a_parent_and_its_child_on_one_lost_node_each_end_once():
    bus = Bus(ROOM)
    d, a = bus.delegator("d"), bus.node("na", "a", max_concurrency=5)
    parent = d.delegate("d", timeout=60.0)
    bus.step()
    for _ in range(2):
        a.delegate("a", to="a", parent=parent, timeout=60.0)
    bus.step()

    a.die()
    bus.pass_time(5.0)

    assert d.outcomes() == {parent: Status.FAILED_EXECUTION}
    assert (len(bus.state.ledger), "node_down" in [event["event"] for event in bus.events()]) == (0, True)


def test_what_an_agent_that_left_still_had_is_answered_at_once():
    bus, d, a = pair(Limits(mailbox_count=9, window=1))
    running, waiting = d.delegate("d", timeout=60.0), d.delegate("d", timeout=60.0)
    bus.step()

    a.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    bus.step()

    found = {received.number: received.code for received in d.took(Kind.RESPONSE)}
    assert found == {running: "node_lost", waiting: "agent_gone"}


def test_idempotent_work_of_an_agent_that_left_is_answered_at_once_where_nobody_else_holds_it():
    bus, d, a = pair(idempotent=True)
    number = d.delegate("d", timeout=60.0)
    bus.step()

    a.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    bus.step()

    outcome = d.outcome()
    assert (outcome.number, outcome.status, outcome.code) == (number, Status.FAILED_EXECUTION, "node_lost")
    assert len(bus.state.ledger) == 0


def test_redelivered_parents_and_waiting_children_of_an_agent_that_left_each_end_once():
    bus = Bus(Limits(mailbox_count=9, window=1))
    d = bus.delegator("d")
    a = bus.node("na", "a", idempotent=True, max_concurrency=3)
    parent = d.delegate("d", timeout=60.0)
    bus.step()
    children = [a.delegate("a", to="a", parent=parent, timeout=60.0) for _ in range(2)]
    bus.step()

    a.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    bus.step()

    assert d.outcomes() == {parent: Status.FAILED_EXECUTION}
    assert set(a.outcomes()) == set(children)
    assert (len(bus.state.ledger), bus.state.session_table.refused) == (0, 0)


def test_what_waits_for_an_agent_that_comes_back_with_less_is_not_given_to_it():
    bus, d, a = pair(Limits(mailbox_count=9, window=1))
    running, waiting = d.delegate("d", to="a", timeout=60.0), d.delegate("d", to="a", timeout=60.0)
    bus.step()
    a.die()
    bus.pass_time(5.0)
    d.took(Kind.RESPONSE)

    again = bus.node("na2")
    again.register("a", "z")
    bus.step()

    assert again.work() == []
    assert (refusal := d.outcome()).number == waiting
    assert (refusal.status, refusal.code) == (Status.REJECTED_CAPABILITY, "not_declared")
    assert running != waiting


# -- order -------------------------------------------------------------------------------------------------------


def test_each_sender_is_served_first_in_first_out():
    bus = Bus(Limits(mailbox_count=99, window=2))
    d, e, a = bus.delegator("d"), bus.delegator("e"), bus.node("na", "a")
    sent = [(peer, peer.delegate(name)) for _ in range(5) for peer, name in ((d, "d"), (e, "e"))]
    bus.step()

    served = []
    while numbers := a.work():
        served += numbers
        for number in numbers:
            a.respond("a", number)
        bus.step()

    for peer in (d, e):
        mine = [number for owner, number in sent if owner is peer]
        assert [number for number in served if number in mine] == mine


def test_an_earlier_attempts_late_outcome_does_not_count_for_the_attempt_under_way():
    bus, d, a = pair(idempotent=True)
    number = d.delegate("d", timeout=30.0)
    bus.step()
    assert a.work() == [number]
    a.die()
    bus.pass_time(5.0)
    again = bus.node("na2")
    again.register("a", idempotent=True)
    bus.step()
    assert again.work() == [number]

    again.attempts[number] = 1
    again.respond("a", number)
    bus.step()
    assert d.outcomes() == {}
    assert bus.reasons() == ["late"]

    again.attempts[number] = 2
    again.respond("a", number)
    bus.step()
    assert d.outcomes() == {number: Status.COMPLETED}


@pytest.mark.parametrize("holders", [1, 2])
def test_what_its_holders_hand_back_again_and_again_is_refused_in_the_end(holders: int):
    bus = Bus()
    d, *workers = bus.delegator("d"), *(bus.node(f"n{number}", f"w{number}") for number in range(holders))
    number = d.delegate("d", timeout=1e6)
    bus.step()

    for turn in range(MAX_RETURNS):
        assert d.outcomes() == {}
        assert differences(bus.supervisor, bus.history) == []
        worker = workers[turn % holders]
        assert worker.work() == [number]
        worker.hand_back(f"w{turn % holders}", number)
        bus.step()

    refusal = d.outcome()
    assert (refusal.status, refusal.code) == (Status.REJECTED_OVERLOAD, "handed_back")
    assert refusal.body["retry_after"] > 0
    assert [(worker.work(), worker.took(Kind.CANCEL)) for worker in workers] == [([], [])] * holders
    assert [agent.mailbox.outstanding for agent in bus.state.registry.agents] == [0] * (holders + 1)
    assert differences(bus.supervisor, bus.history) == []
