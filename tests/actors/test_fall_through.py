"""Who gets what names an agent that does not take it, and what an agent's interface keeps away."""

from __future__ import annotations

import pytest

from ether_broker.manifest import Capability, Interface, Manifest
from ether_broker.status import Status
from ether_broker.wire import Flag, Kind
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
    assert [(event["named"], event["agent"], event["capability"]) for event in bus.events("fell_through")] == [
        ("analyzer", "llm-executor", "code.analyze"),
        ("analyzer", "holder", "code.analyze"),
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
        named.send(Kind.UNREGISTER, source=b"analyzer", flags=int(Flag.HANDED_BACK))
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
