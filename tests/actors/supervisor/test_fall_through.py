"""Who gets what names an agent that does not take it, and what an agent's interface keeps away."""

from __future__ import annotations

import pytest

from ether_broker.envelope.manifest.manifest import Capability, Interface, Manifest
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import DRAINS, Flag, Kind
from tests.actors.peers import Bus, Peer

FALLTHROUGH = int(Flag.FALLTHROUGH)


def start(
    bus: Bus, agent: str, *capabilities: str, interface: tuple[Interface, ...] = tuple(Interface), places: int = 4
) -> Peer:
    peer = bus.node(f"n{agent}")
    declared = tuple(Capability(name=name) for name in capabilities)
    peer.register_manifest(Manifest(agent=agent, capabilities=declared, interface=interface, max_concurrency=places))
    bus.step()
    peer.inbox.clear()
    return peer


def ask(bus: Bus, asking: Peer, capability: str, *, to: str = "analyzer", flags: int = FALLTHROUGH) -> int:
    number = asking.delegate(asking.name[1:], capability, to=to, flags=flags)
    bus.step()
    return number


def found(bus: Bus) -> list[tuple[str | None, str, str, str]]:
    """Who got what fell through, and which step of the look-up found it."""
    events = bus.events("fell_through")
    return [(event["named"], event["found"], event["agent"], event["capability"]) for event in events]


# -- falling through ---------------------------------------------------------------------------------------------


def test_the_id_comes_first_then_the_capability_then_the_fallback():
    bus = Bus()
    desk = bus.delegator("desk")
    executor = start(bus, "llm-executor", "*")

    first = ask(bus, desk, "code.analyze")
    holder = start(bus, "holder", "code.analyze")
    second = ask(bus, desk, "code.analyze")
    named = start(bus, "analyzer", "code.analyze")
    third = ask(bus, desk, "code.analyze")

    assert (executor.work(), holder.work(), named.work()) == ([first], [second], [third])
    assert found(bus) == [
        ("analyzer", "fallback", "llm-executor", "code.analyze"),
        ("analyzer", "capability", "holder", "code.analyze"),
    ]


def test_what_names_nobody_and_reaches_a_fallback_agent_is_told_too():
    bus = Bus()
    desk = bus.delegator("desk")
    executor = start(bus, "llm-executor", "*")
    numbers = [ask(bus, desk, "code.analyze", to="", flags=0), ask(bus, desk, "*", to="", flags=0)]
    ask(bus, desk, "code.analyze", to="llm-executor")
    start(bus, "holder", "code.analyze")
    ask(bus, desk, "code.analyze", to="", flags=0)

    assert executor.work()[:2] == numbers
    assert found(bus) == [
        (None, "fallback", "llm-executor", "code.analyze"),
        (None, "fallback", "llm-executor", "*"),
    ]


def test_without_being_asked_for_a_name_stays_exact():
    bus = Bus()
    desk = bus.delegator("desk")
    holder = start(bus, "holder", "code.analyze")
    ask(bus, desk, "code.analyze", flags=0)

    refusal = desk.outcome()
    assert (refusal.status, refusal.code) == (Status.REJECTED_CAPABILITY, "unknown_agent")
    assert refusal.body["alternative_agent"] == "holder"
    assert holder.work() == []
    assert bus.events("fell_through") == []


def test_a_last_word_that_several_capabilities_of_an_agent_have_is_told_as_such():
    bus = Bus()
    desk = bus.delegator("desk")
    start(bus, "clerk", "orders.list", "people.list", "people.find")
    ask(bus, desk, "list", to="clerk", flags=0)

    refusal = desk.outcome()
    assert refusal.code == "not_declared"
    told = "clerk declares several that end so: orders.list, people.list. Name one of them."
    assert refusal.body["error"]["message"] == told


@pytest.mark.parametrize("why", ["does not declare it", "is down", "takes no such delegation"])
def test_what_the_named_agent_does_not_take_falls_through_too(why: str):
    bus = Bus()
    desk = bus.delegator("desk")
    interface = (Interface.CHAINED,) if why == "takes no such delegation" else tuple(Interface)
    named = start(
        bus, "analyzer", "other.work" if why == "does not declare it" else "code.analyze", interface=interface
    )
    holder = start(bus, "holder", "code.analyze")
    if why == "is down":
        named.send(Kind.UNREGISTER, source=b"analyzer", flags=int(DRAINS))
        bus.step()

    number = ask(bus, desk, "code.analyze")

    assert holder.work() == [number]


def test_when_nobody_takes_it_the_refusal_is_of_the_agent_that_was_named():
    bus = Bus()
    desk = bus.delegator("desk")
    ask(bus, desk, "code.analyze")

    assert desk.outcome().code == "unknown_agent"


def test_what_fell_through_goes_to_another_holder_when_its_own_is_lost():
    bus = Bus()
    desk = bus.delegator("desk")
    first, second = start(bus, "a", "code.analyze"), start(bus, "b", "code.analyze")
    number = ask(bus, desk, "code.analyze")
    (begun, other) = (first, second) if first.work() else (second, first)

    begun.hand_back(begun.name[1:], number)
    bus.step()

    assert other.work() == [number]
    assert bus.entry(number).pinned is False
    assert len(bus.events("fell_through")) == 1


def test_who_names_an_agent_and_no_capability_gets_what_it_does():
    bus = Bus()
    desk = bus.delegator("desk")
    named = start(bus, "analyzer", "code.analyze")
    start(bus, "llm-executor", "*")

    number = ask(bus, desk, "*")

    (work,) = named.took(Kind.DELEGATION)
    assert (work.number, work.header.capability) == (number, b"code.analyze")


# -- the named agent goes ------------------------------------------------------------------------------------------


def idempotent(bus: Bus, agent: str) -> Peer:
    return bus.node(f"n{agent}", agent, idempotent=True, max_concurrency=4)


@pytest.mark.parametrize("end", ["leaves", "drains", "is lost", "hands it back"])
@pytest.mark.parametrize("flags", [FALLTHROUGH, 0])
def test_what_waits_for_a_named_agent_that_goes_falls_through_and_without_the_flag_does_not(end: str, flags: int):
    bus = Bus(limits=Limits(window=1))
    desk = bus.delegator("desk")
    named, other = idempotent(bus, "analyzer"), idempotent(bus, "other")
    begun = ask(bus, desk, "x.y", flags=0)
    number = ask(bus, desk, "x.y", flags=flags)
    if end == "leaves":
        named.send(Kind.UNREGISTER, source=b"analyzer")
    elif end == "drains":
        named.send(Kind.UNREGISTER, source=b"analyzer", flags=int(DRAINS))
    elif end == "hands it back":
        named.respond("analyzer", begun)
        bus.step()
        named.hand_back("analyzer", number)
    else:
        named.die()
        bus.pass_time(4.0)
    bus.step()

    assert other.work() == ([number] if flags else [])
    assert [event["agent"] for event in bus.events("reassigned")].count("other") == bool(flags)


def test_what_a_lost_named_agent_had_begun_runs_again_elsewhere_if_it_may():
    bus = Bus()
    desk = bus.delegator("desk")
    named, other = idempotent(bus, "analyzer"), idempotent(bus, "other")
    number = ask(bus, desk, "x.y")
    assert named.work() == [number]
    named.respond("analyzer", number, Status.ACCEPTED)
    named.die()
    bus.pass_time(4.0)

    assert other.work() == [number]


def test_who_waited_for_an_agent_that_left_is_told_who_else_takes_it_and_may_try_again():
    bus = Bus(limits=Limits(window=1))
    desk = bus.delegator("desk")
    named, other = start(bus, "analyzer", "x.y"), start(bus, "other", "x.y")
    alternatives = []
    for _ in range(2):
        ask(bus, desk, "x.y", flags=0)
        ask(bus, desk, "x.y", flags=0)
        named.send(Kind.UNREGISTER, source=b"analyzer")
        bus.step()
        refusal = next(received for received in desk.took(Kind.RESPONSE) if received.code == "agent_gone")
        assert refusal.body["error"]["retryable"] is True
        alternatives.append((refusal.body.get("alternative_agent"), refusal.body["error"]["message"]))
        other.send(Kind.UNREGISTER, source=b"other")
        named.register("analyzer")
        bus.step()

    assert alternatives == [
        ("other", "analyzer has left; other takes 'x.y'."),
        (None, "analyzer has left; nobody else takes 'x.y' now."),
    ]


# -- interfaces --------------------------------------------------------------------------------------------------

SINGLE = (Interface.SINGLE,)
CHAINED = (Interface.CHAINED,)


def chained(bus: Bus, to: str = "") -> tuple[Peer, int]:
    """A delegation that a handler makes."""
    desk, middle = bus.delegator("desk"), start(bus, "middle", "m.m")
    parent = desk.delegate("desk", "m.m")
    bus.step()
    assert middle.work() == [parent]
    number = middle.delegate("middle", to=to, parent=parent)
    bus.step()
    return middle, number


def test_an_agent_for_single_delegations_refuses_chained_ones():
    bus = Bus()
    start(bus, "one", "x.y", interface=SINGLE)
    middle, number = chained(bus, to="one")

    refusal = middle.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (number, Status.REJECTED_CAPABILITY, "not_in_interface")
    assert (
        refusal.body["error"]["message"]
        == "one takes delegations of single, and no chained ones, made for another delegation."
    )


def test_an_agent_for_chained_delegations_refuses_single_ones():
    bus = Bus()
    desk = bus.delegator("desk")
    start(bus, "one", "x.y", interface=CHAINED)
    ask(bus, desk, "x.y", to="one", flags=0)

    assert desk.outcome().code == "not_in_interface"


@pytest.mark.parametrize("interface", [SINGLE, (Interface.SINGLE, Interface.CHAINED), (Interface.DUAL_PHASE,), ()])
def test_single_delegations_go_to_whoever_takes_them(interface: tuple[Interface, ...]):
    bus = Bus()
    desk = bus.delegator("desk")
    peer = start(bus, "one", "x.y", interface=interface)
    number = ask(bus, desk, "x.y", to="one", flags=0)

    assert peer.work() == [number]


@pytest.mark.parametrize("interface", [CHAINED, (Interface.SINGLE, Interface.CHAINED), (Interface.DUAL_PHASE,), ()])
def test_chained_delegations_go_to_whoever_takes_them(interface: tuple[Interface, ...]):
    bus = Bus()
    others = [start(bus, f"other{number}", "x.y", interface=SINGLE) for number in range(3)]
    peer = start(bus, "one", "x.y", interface=interface)
    _middle, number = chained(bus)

    assert peer.work() == [number]
    assert [other.work() for other in others] == [[], [], []]


def test_when_all_holders_are_for_other_delegations_it_is_refused_as_that():
    bus = Bus()
    start(bus, "one", "x.y", interface=SINGLE)
    middle, _number = chained(bus)

    assert middle.outcome().code == "not_in_interface"


def test_work_is_given_again_only_to_who_takes_it():
    bus = Bus()
    start(bus, "other", "x.y", interface=SINGLE)
    peer = start(bus, "one", "x.y")
    _middle, number = chained(bus)
    assert peer.work() == [number]

    peer.hand_back("one", number)
    bus.step()

    assert peer.work() == [number]
