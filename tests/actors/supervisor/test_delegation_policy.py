"""What the supervisor rules on delegations, one ruling a test; `test_supervisor_stateful` mixes them."""

from __future__ import annotations

import math

import pytest

from ether_actors.supervisor.delegation_policy import MAX_CHAIN
from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import DRAINS, Flag, Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.rulings_shell import ROOM, chain, pair

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
    assert [received.status for received in d.inbox] == [Status.COMPLETED] * 2, "the same outcome, once for each ask"
    assert bus.reasons() == ["duplicate", "duplicate"]


@pytest.mark.parametrize("parent", [7, 8], ids=["a parent that is unknown", "itself"])
def test_a_parent_that_is_not_known_is_refused(parent: int):
    bus, d, a = pair()

    d.delegate("d", number=8, parent=parent)
    bus.step()

    assert (refusal := d.outcome()).code == "unknown_parent"
    assert refusal.status is Status.REJECTED_CONTEXT
    assert a.work() == []


def test_what_a_request_sent_again_hears_is_for_its_delegator_only():
    bus, d, a = pair()
    other = bus.delegator("other")
    number = d.delegate("d")
    bus.step()
    a.respond("a", number)
    bus.step()

    other.delegate("other", number=number)
    bus.step()

    assert (refusal := other.outcome()).code == "duplicate_request"
    assert "to send that request again, connect under the name that it was sent from" in str(refusal.body["error"])
    assert bus.reasons() == ["duplicate"]


def test_a_response_says_of_its_names_and_flags_what_the_ledger_has():
    bus, d, a = pair()
    number = d.delegate("d")
    bus.step()

    a.send(
        Kind.RESPONSE, request_id=request_id(number), source=b"a", target=b"forged", capability=b"made.up",
        status=Status.COMPLETED, flags=int(Flag.UNCOLLECTED),
    )  # fmt: skip
    bus.step()

    header = d.outcome().header
    assert (header.target, header.capability, header.flags & Flag.UNCOLLECTED) == (b"d", b"x.y", 0)


def test_a_request_that_was_refused_has_had_its_outcome():
    bus, d, a = pair()
    number = d.delegate("d", "no.such")
    bus.step()
    assert d.outcome().status is Status.REJECTED_CAPABILITY

    d.delegate("d", number=number)
    bus.step()

    assert a.work() == []
    assert bus.reasons() == ["no_holder", "duplicate"]


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

    assert (d.refusal().code, a.work()) == ("invalid_envelope", [])


def test_a_full_mailbox_refuses_with_the_time_to_wait():
    bus, d, a = pair(Limits(mailbox_count=2, window=1))

    numbers = [d.delegate("d") for _ in range(4)]
    bus.step()

    refusal = d.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (numbers[3], Status.REJECTED_OVERLOAD, "mailbox_full")
    assert 0 < refusal.body["retry_after"] <= 30
    assert (a.work(), bus.reasons(), bus.agent("a").mailbox.waiting_count) == ([numbers[0]], ["overload"], 2)


def test_the_time_to_wait_follows_the_agents_pace():
    bus, d, a = pair(Limits(mailbox_count=1, window=1))
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
        a.send(Kind.UNREGISTER, source=b"a", flags=DRAINS)
    else:
        a.die()
        bus.pass_time(5.0)

    d.delegate("d", to="a")
    d.delegate("d")
    bus.step()

    assert [received.code for received in d.took(Kind.RESPONSE)] == [code, "agent_down"]


# -- chains ------------------------------------------------------------------------------------------------------


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
    peers["d"].send(Kind.UNREGISTER, source=b"d", flags=DRAINS)
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
    assert refusal.body["unexpected_fields"] == ["parent"]


def test_a_delegation_for_a_parent_that_has_ended_is_cancelled_at_once():
    bus, peers, parent = chain("d", "a")
    peers["a"].respond("a", parent)
    peers["a"].delegate("a", to="d", parent=parent)
    bus.step()

    refusal = peers["a"].outcome()
    assert (refusal.status, refusal.code) == (Status.CANCELLED, "parent_ended")


def test_a_recursion_without_end_is_stopped_by_its_depth():
    bus = Bus(Limits(mailbox_count=1000, window=1000))
    a = bus.node("na", "a", max_concurrency=1000)
    parent = 0
    for _ in range(MAX_CHAIN + 1):
        parent = a.delegate("a", to="a", parent=parent)
        bus.step()

    assert (refusal := a.outcome()).code == "too_deep"
    assert refusal.status is Status.FAILED_EXECUTION
