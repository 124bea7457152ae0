"""What waits for the instances of an agent that scales is one queue, whoever comes, goes, crashes or is lost."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.supervisor.delegations.sharing import SHARED_PER_STEP, TELL
from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.mailbox_limits import Limits
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.wire.frame import DRAINS, Kind
from tests.actors.peers import Bus, Peer, request_id


def scale(peer: Peer, *agents: str, places: int = 1, scales: bool = True) -> None:
    """Register instances of an agent that scales."""
    declared = (Capability(name="x.y"),)
    manifest = Manifest(agent=agents[0], capabilities=declared, max_concurrency=places)
    packed = pack(manifest.model_dump(mode="json", exclude_defaults=True, exclude={"agent"}))
    body = {"agents": list(agents), "manifest": packed, "scales": scales}
    peer.send(Kind.REGISTER, request_id=request_id(peer.bus.next_id()), body=body)
    peer.bus.step()
    assert not [received.body for received in peer.took(Kind.ERROR)]
    peer.took(Kind.REGISTERED)


def ask(desk: Peer, count: int, **to: Any) -> list[int]:
    numbers = [desk.delegate("d", **to) for _ in range(count)]
    desk.bus.step()
    return numbers


def given(peer: Peer) -> list[tuple[int, str]]:
    """The delegations that came: (number, to whom)."""
    return [(received.number, received.header.target.decode()) for received in peer.took(Kind.DELEGATION)]


def told(peer: Peer) -> list[dict[str, int]]:
    """What a node was told that waits."""
    return [received.body["waiting"] for received in peer.took(Kind.SCALE)]


def started(*agents: str, places: int = 1, **options: Any) -> tuple[Bus, Peer, Peer]:
    bus = Bus(**options)
    desk, host = bus.delegator("d"), bus.node("host")
    scale(host, *agents, places=places)
    bus.pass_time(TELL)
    host.inbox.clear()
    return bus, desk, host


def test_what_waits_goes_to_an_instance_that_comes() -> None:
    bus, desk, host = started("a")
    first, second, third = ask(desk, 3)
    assert given(host) == [(first, "a")]

    scale(host, "a-2")

    assert given(host) == [(second, "a-2")]
    assert bus.agent("a").mailbox.waiting_count == 1
    host.respond("a-2", second)
    bus.step()
    assert given(host) == [(third, "a-2")]
    assert bus.agent("a").mailbox.waiting_count == 0


def test_an_agent_that_does_not_scale_keeps_what_waits_for_it() -> None:
    bus = Bus(Limits(window=1))
    desk, host = bus.delegator("d"), bus.node("host")
    scale(host, "a", scales=False)
    ask(desk, 3)
    scale(host, "a-2", scales=False)

    assert bus.agent("a").mailbox.waiting_count == 2


def test_a_node_has_no_more_than_its_instances_have_places_for() -> None:
    bus, desk, host = started("a", "a-2", places=2)
    ask(desk, 9)

    assert sorted(agent for _, agent in given(host)) == ["a", "a", "a-2", "a-2"]
    assert bus.agent("a").mailbox.waiting_count + bus.agent("a-2").mailbox.waiting_count == 5


def test_what_names_an_instance_waits_for_it_and_others_pass_it() -> None:
    bus, desk, host = started("a")
    [running, named] = ask(desk, 2, to="a")
    [free] = ask(desk, 1)
    given(host)

    scale(host, "a-2")

    assert given(host) == [(free, "a-2")]
    host.respond("a", running)
    bus.step()
    assert given(host) == [(named, "a")]


@pytest.mark.parametrize("goes", [{"flags": DRAINS}, {"body": {"condition": "gone", "reason": "stopped"}}])
def test_what_waits_for_an_instance_that_goes_is_given_to_another_and_ends_once(goes: dict[str, Any]) -> None:
    bus, desk, host = started("a", "a-2")
    numbers = ask(desk, 4)
    [(first, one), (second, other)] = given(host)

    host.send(Kind.UNREGISTER, source=one.encode(), **goes)
    bus.step()
    host.respond(other, second)
    bus.step()
    [(third, to)] = given(host)
    host.respond(other, third)
    bus.step()
    [(fourth, last)] = given(host)
    host.respond(other, fourth)
    if "flags" in goes:
        host.respond(one, first)
    bus.step()

    outcomes = desk.outcomes()
    assert (to, last) == (other, other)
    assert sorted(outcomes) == numbers
    assert [outcomes[number] for number in (second, third, fourth)] == [Status.COMPLETED] * 3
    assert outcomes[first] == (Status.COMPLETED if "flags" in goes else Status.FAILED_EXECUTION)


def test_what_nobody_had_room_for_when_an_instance_went_is_given_on_when_one_is_free() -> None:
    bus, desk, host = started("a", "a-2", limits=Limits(mailbox_count=2))
    numbers = ask(desk, 6)
    [begun] = [number for number, agent in given(host) if agent == "a"]
    sharing, agent = bus.supervisor.sharing, bus.agent("a")
    bus.state.registry.condition(agent, Condition.DRAINING)
    leaving = sharing._reassignment.drained(agent)
    assert [next(leaving), next(leaving)] == [1, 1], "all that waits was looked at, and is not back in the mailbox yet"
    assert sharing._reassignment.share(agent) is None
    sharing._backlog.clear()
    assert next(leaving, None) is None

    for _ in numbers[1:]:
        at_work = [number for number in numbers if (entry := bus.entry(number)) and entry.holds_credit]
        [number] = {*at_work} - {begun}
        host.respond("a-2", number)
        bus.step()

    assert agent.mailbox.waiting_count == 0
    assert desk.outcomes() == dict.fromkeys({*numbers} - {begun}, Status.COMPLETED)


def test_what_waits_for_instances_of_a_node_that_is_lost_goes_to_those_of_another() -> None:
    bus, desk, host = started("a")
    begun, waiting = ask(desk, 2)
    given(host)
    host.die()
    bus.pass_time(40.0)
    [late] = [number for number in (begun, waiting) if bus.entry(number)] or [0]
    second = bus.node("second")
    scale(second, "a-2")
    fresh = desk.delegate("d")
    bus.step()

    assert late == 0, "both had a deadline of ten seconds"
    assert given(second) == [(fresh, "a-2")]


def test_what_waits_is_shared_while_a_node_is_away_and_none_is_given_twice() -> None:
    bus, desk, host = started("a")
    begun = desk.delegate("d", timeout=100.0)
    waiting = desk.delegate("d", timeout=100.0)
    bus.step()
    given(host)
    host.die()
    bus.pass_time(40.0)
    assert desk.outcomes() == {begun: Status.FAILED_EXECUTION}

    second = bus.node("second")
    scale(second, "a-2")

    assert given(second) == [(waiting, "a-2")]
    assert bus.agent("a").condition is Condition.DOWN
    second.respond("a-2", waiting)
    bus.step()
    assert desk.outcomes() == {waiting: Status.COMPLETED}


def test_nodes_are_told_how_much_waits_at_most_four_times_a_second() -> None:
    bus, desk, host = started("a")
    ask(desk, 1)
    assert told(host) == [], "it has begun"

    ask(desk, 3)
    assert told(host) == [{"a": 3}]
    ask(desk, 2)
    assert told(host) == []
    bus.pass_time(TELL)
    assert told(host) == [{"a": 5}]


def test_a_node_is_told_when_what_waited_was_sent_and_nothing_else_changes() -> None:
    bus, desk, host = started("a")
    first, second = ask(desk, 2)
    assert told(host) == [{"a": 1}]

    host.respond("a", first)
    bus.pass_time(TELL)

    assert given(host)[-1] == (second, "a")
    assert told(host) == [{"a": 0}]
    bus.pass_time(5.0)
    assert told(host) == []


def test_an_instance_that_registers_anew_is_told_anew() -> None:
    bus, desk, host = started("a")
    ask(desk, 3)
    assert told(host) == [{"a": 2}]

    bus.pass_time(1.0)
    scale(host, "a")
    bus.pass_time(TELL)

    assert told(host) == [{"a": 2}]


def test_a_node_is_told_that_nothing_waits_for_an_instance_that_has_just_registered() -> None:
    """What it was told of an earlier one of that name may have come after this one had begun."""
    bus, desk, host = started("a")
    ask(desk, 2)
    host.took(Kind.SCALE)
    host.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone", "reason": "stopped"})
    bus.step()

    scale(host, "a")
    bus.pass_time(TELL)

    assert told(host) == [{"a": 0}]


def test_sharing_is_done_a_share_in_a_step() -> None:
    bus, desk, host = started("a")
    ask(desk, 60)
    scale(host, *(f"a-{number}" for number in range(2, 52)), places=1)

    shared = [len(bus.events("reassigned"))]
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
        shared.append(len(bus.events("reassigned")))

    assert shared == [SHARED_PER_STEP, 2 * SHARED_PER_STEP, 3 * SHARED_PER_STEP, 50]
    assert bus.agent("a").mailbox.waiting_count == 9


def test_observers_are_told_of_another_number_of_instances() -> None:
    bus, _, host = started("a")
    host.send(Kind.SCALE, source=b"a", body={"before": 1, "instances": 3, "why": "9 wait"})
    bus.step()

    [event] = bus.events("agent_scaled")
    known = {key: event[key] for key in ("agent", "node", "before", "instances", "why")}
    assert known == {"agent": "a", "node": "host", "before": 1, "instances": 3, "why": "9 wait"}


@pytest.mark.parametrize(
    "body", [{}, {"before": 1, "instances": -1}, {"before": True, "instances": 1}, {"before": "1" * 99, "instances": 1}]
)
def test_numbers_that_are_none_are_refused(body: dict[str, Any]) -> None:
    bus, _, host = started("a")
    host.send(Kind.SCALE, source=b"a", body=body)
    bus.step()

    assert [received.code for received in host.took(Kind.ERROR)] == ["invalid_envelope"]
    assert bus.events("agent_scaled") == []


def test_a_node_tells_of_no_agent_that_it_may_not_host() -> None:
    access = Access(
        delegate=[DelegateRule(who="*")],
        observe="*",
        read="*",
        change="*",
        register=[RegisterRule("host", "a*"), RegisterRule("nd", "d")],
    )
    bus, _, host = started("a", access=access)
    host.send(Kind.SCALE, source=b"b", body={"before": 1, "instances": 2})
    bus.step()

    assert [received.code for received in host.took(Kind.ERROR)] == ["access_denied"]
    assert bus.events("agent_scaled") == []
