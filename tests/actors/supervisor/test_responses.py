"""What the supervisor rules on responses and on work that is handed back."""

from __future__ import annotations

import pytest

from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import DRAINS, Kind
from tests.actors.rulings_shell import pair

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


def test_the_answer_of_a_node_that_was_lost_meanwhile_is_late():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()
    a.die()
    bus.pass_time(5.0)
    again = bus.node("na2", "a")

    again.respond("a", number)
    bus.step()

    assert d.outcomes() == {number: Status.FAILED_EXECUTION}
    assert bus.reasons() == ["node_lost", "late"]


def test_a_late_outcome_that_comes_twice_gives_one_credit_back():
    bus, d, a = pair()
    late, running = d.delegate("d", timeout=1.0), d.delegate("d", timeout=60.0)
    bus.step()
    bus.pass_time(1.2)

    a.respond("a", late)
    a.respond("a", late)
    bus.step()

    assert (bus.agent("a").mailbox.in_flight, bus.reasons()) == (1, ["late", "late"])
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

    assert (bus.agent("a").mailbox.in_flight, bus.reasons()) == (1, ["late"])


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
    assert bus.reasons() == ["late"]


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
    bus, d, a = pair(Limits(mailbox_count=9, window=1))
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
    a.send(Kind.UNREGISTER, source=b"a", flags=DRAINS)
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
