"""What the supervisor rules on delegations, one ruling a test; `test_supervisor_stateful` mixes them."""

from __future__ import annotations

import itertools
import math

import pytest

from ether_actors.ledger import State
from ether_actors.rulings import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, MAX_ATTEMPTS, MAX_DEPTH
from ether_broker.mailbox import Limits
from ether_broker.status import Status
from ether_broker.wire import Flag, Kind
from tests.actors.peers import Bus, Peer

ROOM = Limits(count=100, window=8)


def pair(limits: Limits = ROOM, **registration: object) -> tuple[Bus, Peer, Peer]:
    """A bus, a node with the delegator `d`, and one with the specialist `a`."""
    bus = Bus(limits)
    return bus, bus.delegator("d"), bus.node("na", "a", **registration)


# -- accepting ---------------------------------------------------------------------------------------------------


def test_a_delegation_goes_to_the_holder_under_its_full_name_and_with_its_deadline():
    bus, d, a = pair()

    number = d.delegate("d", "y", timeout=7.0, params={"k": 1})
    bus.step()

    (received,) = a.took(Kind.DELEGATION)
    assert (received.number, received.header.target, received.header.capability) == (number, b"a", b"x.y")
    assert received.header.deadline == bus.now + 7.0
    assert bus.entry(number).state is State.SENT


def test_a_delegation_without_a_deadline_gets_the_buss_own():
    bus, d, a = pair()

    number = d.delegate("d", timeout=None)
    bus.step()

    assert bus.entry(number).deadline == bus.now + DEFAULT_TIMEOUT
    assert a.took(Kind.DELEGATION)[0].header.deadline == bus.now + DEFAULT_TIMEOUT


@pytest.mark.parametrize("deadline", [1.0, -math.inf, math.nan, 999.9999])
def test_a_delegation_that_arrives_after_its_deadline_is_not_started(deadline: float):
    bus, d, a = pair()

    d.delegate("d", deadline=deadline)
    bus.step()

    assert (refusal := d.outcome()).status is Status.TIMEOUT
    assert refusal.code == "expired"
    assert a.work() == []
    assert bus.reasons() == ["expired"]


@pytest.mark.parametrize("deadline", [math.inf, 1e300, 1e308])
def test_a_deadline_beyond_all_measure_is_brought_down_to_one_that_can_be_kept(deadline: float):
    bus, d, _ = pair()

    number = d.delegate("d", deadline=deadline)
    bus.step()

    assert bus.entry(number).deadline == bus.now + LONGEST_TIMEOUT
    assert bus.supervisor.next_wake() < math.inf


def test_the_same_request_again_folds_into_the_first_while_it_runs_and_after_it_ended():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    d.delegate("d", number=number)
    a.respond("a", number)
    bus.step()
    d.delegate("d", number=number)
    bus.step()

    assert a.work() == [number]
    assert d.outcomes() == {number: Status.COMPLETED}
    assert bus.reasons() == ["duplicate", "duplicate"]


def test_a_request_that_was_refused_may_be_sent_again():
    bus, d, a = pair()
    number = d.delegate("d", "no.such")
    bus.step()
    assert d.outcome().status is Status.REJECTED_CAPABILITY

    d.delegate("d", number=number)
    bus.step()

    assert a.work() == [number]


# -- refusing ----------------------------------------------------------------------------------------------------


def test_a_sender_that_its_connection_did_not_register_is_refused():
    bus, d, a = pair()

    d.delegate("a")
    bus.step()

    assert (refusal := d.outcome()).code == "forged_sender"
    assert refusal.status is Status.REJECTED_CAPABILITY
    assert (a.work(), bus.reasons()) == ([], ["forged"])


def test_an_unknown_agent_is_refused_with_the_nearest_name_and_an_alternative():
    bus, d, _a = pair()

    d.delegate("d", to="aa")
    bus.step()

    refusal = d.outcome()
    assert (refusal.status, refusal.code) == (Status.REJECTED_CAPABILITY, "unknown_agent")
    assert refusal.body["alternative_agent"] == "a"
    assert bus.reasons() == ["unknown_agent"]


def test_a_capability_that_nobody_holds_is_refused_with_the_nearest_one():
    bus, d, _ = pair()

    d.delegate("d", "x.yy")
    bus.step()

    refusal = d.outcome()
    assert (refusal.code, bus.reasons()) == ("no_holder", ["no_holder"])
    assert "Did you mean 'x.y'?" in refusal.body["error"]["message"]


def test_an_agent_gets_nothing_that_it_does_not_declare():
    bus, d, a = pair()

    d.delegate("d", "z", to="a")
    bus.step()

    assert (d.outcome().code, a.work()) == ("not_declared", [])


def test_an_agent_gets_nothing_that_it_excludes_not_even_as_the_fallback():
    bus = Bus(ROOM)
    d, a = bus.delegator("d"), Peer(bus, "na")
    bus.peers.append(a)
    a.hello()
    a.register("a", "*", exclusions=("secret",))
    bus.step()

    d.delegate("d", "secret.deep", to="a")
    d.delegate("d", "secret")
    bus.step()

    assert [received.code for received in d.took(Kind.RESPONSE)] == ["not_declared", "no_holder"]
    assert a.work() == []


def test_the_fallback_agent_is_told_what_was_asked():
    bus = Bus(ROOM)
    d, a = bus.delegator("d"), bus.node("na")
    a.register("a", "*")
    d.delegate("d", "write.poem")
    bus.step()

    (received,) = a.took(Kind.DELEGATION)
    assert received.header.capability == b"write.poem"


@pytest.mark.parametrize("name", [b"two words", b"\xff", b".a", b"a\n", b"x" * 201])
def test_what_is_no_capabilitys_name_reaches_no_fallback_agent(name: bytes):
    bus = Bus(ROOM)
    d, a = bus.delegator("d"), bus.node("na")
    a.register("a", "*")
    d.send(Kind.DELEGATION, request_id=bytes(15) + b"\x99", source=b"d", capability=name, body={})
    bus.step()

    assert (d.outcome().code, a.work()) == ("no_holder", [])


def test_a_full_mailbox_refuses_with_the_time_to_wait():
    bus, d, a = pair(Limits(count=2, window=1))

    numbers = [d.delegate("d") for _ in range(4)]
    bus.step()

    refusal = d.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (numbers[3], Status.REJECTED_OVERLOAD, "mailbox_full")
    assert 0 < refusal.body["retry_after"] <= 30
    assert (a.work(), bus.reasons(), len(bus.agent("a").mailbox)) == ([numbers[0]], ["overload"], 2)


def test_the_time_to_wait_follows_the_agents_pace():
    bus, d, a = pair(Limits(count=1, window=1))
    first = d.delegate("d", timeout=50.0)
    bus.step()
    bus.pass_time(4.0)
    a.respond("a", first)
    bus.step()
    d.took(Kind.RESPONSE)

    for _ in range(3):
        d.delegate("d")
    bus.step()

    assert d.outcome().body["retry_after"] == pytest.approx(4.0, abs=0.01)


@pytest.mark.parametrize(("condition", "code"), [("draining", "agent_draining"), ("down", "agent_down")])
def test_an_agent_that_drains_or_is_down_takes_nothing_new(condition: str, code: str):
    bus, d, a = pair()
    if condition == "draining":
        a.send(Kind.UNREGISTER, source=b"a", flags=Flag.HANDED_BACK)
    else:
        a.die()
        bus.pass_time(5.0)

    d.delegate("d", to="a")
    d.delegate("d")
    bus.step()

    assert [received.code for received in d.took(Kind.RESPONSE)] == [code, "agent_down"]


# -- chains ------------------------------------------------------------------------------------------------------


def chain(*names: str, **registration: object) -> tuple[Bus, dict[str, Peer], int]:
    """Agents that each delegate to the next; the number of the last delegation."""
    bus = Bus(ROOM)
    peers = {name: bus.node(f"n{name}", name, **registration) for name in dict.fromkeys(names)}
    parent = 0
    for source, to in itertools.pairwise(names):
        parent = peers[source].delegate(source, to=to, parent=parent, timeout=30.0)
        bus.step()
    return bus, peers, parent


def test_a_childs_deadline_is_never_after_its_parents():
    bus, peers, parent = chain("d", "a")

    number = peers["a"].delegate("a", to="d", parent=parent, timeout=999.0)
    shorter = peers["a"].delegate("a", to="d", parent=parent, timeout=3.0)
    bus.step()

    # `d` delegates and so is busy with nothing: it may well be asked.
    assert bus.entry(number).deadline == bus.entry(parent).deadline == bus.now + 30.0
    assert bus.entry(shorter).deadline == bus.now + 3.0


def test_a_cycle_is_answered_at_once_naming_it():
    bus, peers, parent = chain("d", "a", "b")

    peers["b"].delegate("b", to="a", parent=parent)
    bus.step()

    refusal = peers["b"].outcome()
    assert (refusal.status, refusal.code) == (Status.FAILED_EXECUTION, "call_cycle")
    assert "d → a → b → a is a cycle" in refusal.body["error"]["message"]


def test_an_agent_that_calls_itself_with_its_only_place_taken_is_a_cycle():
    bus, peers, parent = chain("d", "a")

    peers["a"].delegate("a", to="a", parent=parent)
    bus.step()

    assert peers["a"].outcome().code == "call_cycle"


def test_an_agent_with_a_free_place_may_be_called_from_below():
    bus, peers, parent = chain("d", "a", "b", max_concurrency=2)

    number = peers["b"].delegate("b", to="a", parent=parent)
    bus.step()

    assert bus.entry(number).state is State.SENT
    assert peers["a"].work()[-1] == number


def test_a_delegation_by_capability_goes_round_a_cycle_where_another_holder_can():
    bus, peers, parent = chain("d", "a", "b")
    other = bus.node("nc", "c")
    peers["d"].send(Kind.UNREGISTER, source=b"d", flags=Flag.HANDED_BACK)
    bus.step()

    number = peers["b"].delegate("b", parent=parent)
    bus.step()

    assert other.work() == [number]


def test_a_parent_that_was_given_to_another_is_refused():
    bus, peers, parent = chain("d", "a", "b")

    peers["d"].delegate("d", to="b", parent=parent)
    bus.step()

    refusal = peers["d"].outcome()
    assert (refusal.status, refusal.code) == (Status.REJECTED_CONTEXT, "not_your_parent")
    assert refusal.body["required_fields"] == ["parent"]


def test_a_delegation_for_a_parent_that_has_ended_is_cancelled_at_once():
    bus, peers, parent = chain("d", "a")
    peers["a"].respond("a", parent)
    peers["a"].delegate("a", to="d", parent=parent)
    bus.step()

    refusal = peers["a"].outcome()
    assert (refusal.status, refusal.code) == (Status.CANCELLED, "parent_ended")


def test_a_recursion_without_end_is_stopped_by_its_depth():
    bus = Bus(Limits(count=1000, window=1000))
    a = bus.node("na", "a", max_concurrency=1000)
    parent = 0
    for _ in range(MAX_DEPTH + 1):
        parent = a.delegate("a", to="a", parent=parent)
        bus.step()

    assert (refusal := a.outcome()).code == "too_deep"
    assert refusal.status is Status.FAILED_EXECUTION


# -- responses ---------------------------------------------------------------------------------------------------


def test_accepted_and_progress_reach_the_delegator_and_only_an_outcome_ends_it():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    a.respond("a", number, Status.ACCEPTED)
    a.respond("a", number, Status.PROGRESS, progress=0.5)
    bus.step()
    assert [received.status for received in d.took(Kind.RESPONSE)] == [Status.ACCEPTED, Status.PROGRESS]
    assert bus.entry(number).state is State.RUNNING

    a.respond("a", number)
    bus.step()

    assert d.outcomes() == {number: Status.COMPLETED}
    assert (bus.entry(number), bus.agent("a").mailbox.in_flight) == (None, 0)


@pytest.mark.parametrize("status", [Status.TIMEOUT, 0, 99])
def test_a_status_that_is_not_the_specialists_to_say_is_illegal_and_changes_nothing(status: int):
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()

    a.respond("a", number, status)
    bus.step()

    assert (d.outcomes(), bus.reasons(), bus.entry(number).state) == ({}, ["illegal"], State.SENT)


def test_a_second_outcome_is_a_duplicate_and_changes_nothing():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    a.respond("a", number)
    a.respond("a", number, Status.FAILED_EXECUTION)
    bus.step()

    assert (d.outcomes(), bus.reasons()) == ({number: Status.COMPLETED}, ["duplicate"])


def test_an_outcome_from_an_agent_that_was_not_asked_changes_nothing():
    bus, d, _a = pair()
    other = bus.node("nb", "b")
    number = d.delegate("d", to="a")
    bus.step()

    other.respond("b", number)
    other.respond("a", number)
    bus.step()

    assert (d.outcomes(), bus.reasons()) == ({}, ["not_the_specialist", "forged"])


def test_an_outcome_of_what_was_never_asked_is_kept():
    bus, _, a = pair()

    a.respond("a", 999)
    a.respond("nobody", 999)
    bus.step()

    assert bus.reasons() == ["unknown_request", "forged"]


def test_a_late_outcome_gives_the_credit_back_and_changes_nothing_else():
    bus, d, a = pair()
    number = d.delegate("d", timeout=1.0)
    bus.step()
    bus.pass_time(1.2)
    assert d.outcome().status is Status.TIMEOUT
    assert bus.agent("a").mailbox.in_flight == 1

    a.respond("a", number)
    bus.step()

    assert (d.outcomes(), bus.reasons(), bus.agent("a").mailbox.in_flight) == ({}, ["late"], 0)


def test_a_late_outcome_that_comes_twice_gives_one_credit_back():
    bus, d, a = pair()
    late, running = d.delegate("d", timeout=1.0), d.delegate("d", timeout=60.0)
    bus.step()
    bus.pass_time(1.2)

    a.respond("a", late)
    a.respond("a", late)
    bus.step()

    assert (bus.agent("a").mailbox.in_flight, bus.reasons()) == (1, ["late", "duplicate"])
    assert bus.entry(running) is not None


def test_what_a_lost_node_never_answered_gives_the_new_one_no_credit():
    bus, d, a = pair()
    late = d.delegate("d", timeout=1.0)
    bus.step()
    bus.pass_time(1.2)
    a.die()
    bus.pass_time(5.0)
    again = bus.node("na2", "a")
    d.delegate("d", timeout=60.0)
    bus.step()

    again.respond("a", late)
    bus.step()

    assert (bus.agent("a").mailbox.in_flight, bus.reasons()) == (1, ["duplicate"])


def test_a_strangers_late_outcome_does_not_take_the_credit_that_the_specialists_own_gives_back():
    bus, d, a = pair()
    other = bus.delegator("b")
    number = d.delegate("d", timeout=1.0)
    bus.step()
    bus.pass_time(1.2)

    other.respond("b", number)
    bus.step()
    a.respond("a", number, Status.CANCELLED)
    bus.step()

    assert bus.agent("a").mailbox.in_flight == 0
    assert bus.reasons() == ["duplicate"]


def test_progress_that_crossed_the_outcome_is_dropped_without_a_word():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    d.cancel("d", number)
    a.respond("a", number, Status.PROGRESS)
    bus.step()

    assert (d.outcomes(), bus.reasons()) == ({number: Status.CANCELLED}, [])


def test_an_outcome_whose_delegator_is_gone_is_kept():
    bus, d, a = pair()
    number = d.delegate("d", timeout=60.0)
    bus.step()
    d.die()
    bus.pass_time(5.0)

    a.respond("a", number)
    bus.step()

    assert (bus.entry(number), bus.reasons()) == (None, ["unreachable"])


# -- handed back -------------------------------------------------------------------------------------------------


def test_work_that_is_handed_back_goes_to_another_holder():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    other = bus.node("nb", "b")

    a.hand_back("a", number)
    bus.step()

    assert other.work() == [number]
    assert (bus.agent("a").mailbox.in_flight, bus.agent("b").mailbox.in_flight) == (0, 1)


def test_what_waits_for_an_agent_that_handed_work_back_does_not_wait_for_ever():
    bus, d, a = pair(Limits(count=9, window=1))
    first, second = d.delegate("d", to="a"), d.delegate("d", to="a")
    unpinned = d.delegate("d")
    bus.step()
    a.respond("a", first)
    a.respond("a", second)
    bus.step()
    last = d.delegate("d", to="a")
    bus.node("nb", "b")

    a.hand_back("a", unpinned)
    bus.step()

    assert a.work()[-1] == last


def test_named_work_that_is_handed_back_is_kept_for_the_agent_that_was_named():
    bus, d, a = pair()
    number = d.delegate("d", to="a")
    bus.step()
    other = bus.node("nb", "b")
    a.send(Kind.UNREGISTER, source=b"a", flags=Flag.HANDED_BACK)
    a.hand_back("a", number)
    bus.step()

    assert (other.work(), bus.entry(number).state) == ([], State.QUEUED)


def test_work_that_was_begun_cannot_be_handed_back():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    a.respond("a", number, Status.ACCEPTED)
    bus.node("nb", "b")

    a.hand_back("a", number)
    bus.step()

    assert (bus.entry(number).state, bus.reasons()) == (State.RUNNING, ["illegal"])


def test_work_that_had_ended_when_it_was_handed_back_gives_its_credit_back():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    d.cancel("d", number)
    bus.step()

    a.hand_back("a", number)
    bus.step()

    assert (bus.agent("a").mailbox.in_flight, bus.reasons()) == (0, [])


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
    assert (a.took(Kind.CANCEL), bus.reasons(), len(bus.agent("a").mailbox)) == ([], ["expired"], 0)


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
    assert len(bus.records.ledger) == 0
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
    assert len(bus.records.ledger) == 0


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
    bus, d, a = pair(Limits(count=9, window=1))
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
    assert (len(bus.records.ledger), "node_down" in [event["event"] for event in bus.events()]) == (0, True)


def test_what_an_agent_that_left_still_had_is_answered_at_once():
    bus, d, a = pair(Limits(count=9, window=1))
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

    assert (refusal := d.outcome()).code == "agent_gone"
    assert (refusal.number, len(bus.records.ledger)) == (number, 0)


def test_redelivered_parents_and_waiting_children_of_an_agent_that_left_each_end_once():
    bus = Bus(Limits(count=9, window=1))
    d = bus.delegator("d")
    a = bus.node("na", "a", idempotent=True, max_concurrency=3)
    parent = d.delegate("d", timeout=60.0)
    bus.step()
    children = [a.delegate("a", to="a", parent=parent, timeout=60.0) for _ in range(2)]
    bus.step()

    a.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    bus.step()

    assert d.outcomes() == {parent: Status.REJECTED_CAPABILITY}
    assert set(a.outcomes()) == set(children)
    assert (len(bus.records.ledger), bus.records.router.refused) == (0, 0)


def test_what_waits_for_an_agent_that_comes_back_with_less_is_not_given_to_it():
    bus, d, a = pair(Limits(count=9, window=1))
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
    bus = Bus(Limits(count=99, window=2))
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
