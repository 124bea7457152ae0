"""What each operation costs the supervisor grows as it says here, and with nothing else: counted, not timed.

Each is done on a bus with so many of everything (`tests.actors.crowd`), and again on one with eight times as many. One that
is for several, such as the agents of a node that leaves, is done for eight and for 64 of them too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from enum import Enum, unique
from functools import cache
from itertools import count
from typing import Any, Final

import pytest

from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.wire.frame import DRAINS, Kind
from tests.actors.crowd import _FAR, Crowd
from tests.actors.peers import Peer, request_id
from tests.actors.work_counter import WorkCounter

SMALL: Final = 200
LARGE: Final = 8 * SMALL
FEW: Final = 8
MANY: Final = 8 * FEW
TIMES: Final = 3
"""Of which the cheapest counts: a table that happens to grow does so once."""

Run = Callable[[Crowd, int], int]
_numbers = count(1)


@unique
class Growth(Enum):
    """What the work grows with."""

    ONE = "nothing"
    LOG = "the logarithm of how many there are"
    EACH = "how many it is for, each of which may cost the logarithm of that, and nothing else"


OPERATIONS: Final[dict[str, tuple[Growth, Run]]] = {}


def operation(growth: Growth) -> Callable[[Run], Run]:
    """Enter an operation into the table under its name in words."""

    def enter(run: Run) -> Run:
        OPERATIONS[run.__name__.replace("_", " ")] = growth, run
        return run

    return enter


# -- nodes and agents --------------------------------------------------------------------------------------------


@operation(Growth.ONE)
def a_step_in_which_nothing_happens(crowd: Crowd, _many: int) -> int:
    return crowd.cost()


@operation(Growth.ONE)
def a_second_in_which_nothing_happens(crowd: Crowd, _many: int) -> int:
    return crowd.cost(seconds=1.0)


@operation(Growth.ONE)
def a_node_that_joins(crowd: Crowd, _many: int) -> int:
    peer = Peer(crowd.bus, f"new-{next(_numbers)}")
    crowd.bus.peers.append(peer)
    cost = crowd.cost(peer.hello)
    crowd.leave(peer)
    return cost


@operation(Growth.LOG)
def registering_an_agent_of_a_kind_that_many_have(crowd: Crowd, _many: int) -> int:
    return registering(crowd, "idle.work")


@operation(Growth.LOG)
def registering_an_agent_of_a_new_kind(crowd: Crowd, _many: int) -> int:
    return registering(crowd, "new.work")


def registering(crowd: Crowd, capability: str) -> int:
    peer = crowd.join("other.work", 0)
    cost = crowd.cost(lambda: crowd.register(peer, f"new.{next(_numbers)}", capability))
    assert len(peer.took(Kind.REGISTERED)) == 1
    crowd.leave(peer)
    return cost


@operation(Growth.LOG)
def an_agent_that_leaves(crowd: Crowd, _many: int) -> int:
    return condition(crowd, "gone")


@operation(Growth.LOG)
def an_agent_that_restarts(crowd: Crowd, _many: int) -> int:
    return condition(crowd, "restarting")


@operation(Growth.LOG)
def an_agent_that_is_back(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("idle.work", 1)
    peer.send(Kind.UNREGISTER, source=peer.agents[0].encode(), body={"condition": "restarting"})
    crowd.settle()
    cost = crowd.cost(lambda: crowd.register(peer, peer.agents[0], "idle.work"))
    crowd.leave(peer)
    return cost


def condition(crowd: Crowd, said: str) -> int:
    peer = crowd.join("idle.work", 1)
    source = peer.agents[0].encode()
    cost = crowd.cost(lambda: peer.send(Kind.UNREGISTER, source=source, body={"condition": said}))
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def a_heartbeat_that_tells_of_busy_agents(crowd: Crowd, many: int) -> int:
    return crowd.cost(lambda: crowd.agents_told(crowd.idle, many))


@operation(Growth.EACH)
def a_node_that_leaves_with_its_agents_and_their_work(crowd: Crowd, many: int) -> int:
    peer = working(crowd, "own.work", many)
    cost = crowd.cost(lambda: peer.send(Kind.BYE))
    assert len(crowd.boss.outcomes()) == many
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def a_node_that_leaves_while_others_can_do_its_work(crowd: Crowd, many: int) -> int:
    twin = crowd.join("again.work", 2)
    peer = crowd.join("again.work", many)
    for name in peer.agents:
        crowd.give("again.work", to=name)
    cost = crowd.cost(lambda: peer.send(Kind.BYE))
    crowd.leave(peer, twin)
    return cost


@operation(Growth.EACH)
def a_node_that_falls_silent(crowd: Crowd, many: int) -> int:
    peer = working(crowd, "own.work", many)
    peer.die()
    crowd.pass_time(2.0)
    cost = crowd.cost(seconds=1.5)
    assert len(crowd.boss.outcomes()) == many
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def a_node_that_drains(crowd: Crowd, many: int) -> int:
    peer = working(crowd, "own.work", many)
    cost = crowd.cost(lambda: peer.send(Kind.UNREGISTER, flags=DRAINS))
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def a_node_that_says_what_it_holds(crowd: Crowd, many: int) -> int:
    peer = crowd.join("own.work", 1)
    numbers = [crowd.bus.next_id() for _ in range(many)]
    cost = crowd.cost(lambda: crowd.hold(peer, {peer.agents[0]: numbers}))
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def a_node_that_says_what_it_waits_for(crowd: Crowd, many: int) -> int:
    ids = [request_id(crowd.bus.next_id()) for _ in range(many)]
    cost = crowd.cost(lambda: crowd.boss.send(Kind.RESUME, body={"awaiting": ids}))
    crowd.settle()
    return cost


def working(crowd: Crowd, capability: str, agents: int) -> Peer:
    """A node whose agents have a delegation each."""
    peer = crowd.join(capability, agents)
    for name in peer.agents:
        crowd.give(capability, to=name)
    crowd.boss.inbox.clear()
    assert len(peer.work()) == agents
    return peer


# -- agents that scale -------------------------------------------------------------------------------------------


@operation(Growth.LOG)
def an_answer_of_one_of_many_agents_that_scale_for_each_of_which_something_waits(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("other.work", 0)
    agents = [f"{peer.name}.{number}" for number in range(crowd.size)]
    for agent in agents:
        scaling(crowd, peer, [agent], agent)
    crowd.settle()
    for agent in agents:
        crowd.boss.delegate("boss", agent, timeout=_FAR)
        crowd.boss.delegate("boss", agent, timeout=_FAR)
    crowd.settle()
    [number] = [
        received.number for received in peer.took(Kind.DELEGATION) if received.header.target == agents[0].encode()
    ]
    cost = crowd.cost(lambda: peer.respond(agents[0], number))
    assert len(peer.work()) == 1
    crowd.leave(peer)
    return cost


@operation(Growth.LOG)
def an_instance_that_is_free_while_much_waits_that_names_another(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("other.work", 0)
    agents, kind = [f"{peer.name}.{number}" for number in range(2)], f"{peer.name}.kind"
    scaling(crowd, peer, agents[:1], kind)
    crowd.settle()
    crowd.give(kind, crowd.size, to=agents[0])
    crowd.give(kind, 2)
    peer.inbox.clear()
    cost = crowd.cost(lambda: scaling(crowd, peer, agents[1:], kind))
    assert len(peer.work()) == 1
    crowd.leave(peer)
    return cost


def scaling(crowd: Crowd, peer: Peer, agents: list[str], capability: str) -> None:
    """Say REGISTER of instances of an agent that scales."""
    manifest = pack({"capabilities": [{"name": capability}]})
    body = {"agents": agents, "manifest": manifest, "scales": True}
    peer.send(Kind.REGISTER, request_id=request_id(crowd.bus.next_id()), body=body)


# -- delegations -------------------------------------------------------------------------------------------------


@operation(Growth.LOG)
def a_delegation_by_name(crowd: Crowd, _many: int) -> int:
    return delegation(crowd, "idle.work", crowd.idle, to=crowd.idle.agents[0])


@operation(Growth.LOG)
def a_delegation_to_one_of_many_that_are_idle(crowd: Crowd, _many: int) -> int:
    return delegation(crowd, "idle.work", crowd.idle)


@operation(Growth.LOG)
def a_delegation_to_one_of_many_that_are_busy(crowd: Crowd, _many: int) -> int:
    return delegation(crowd, "busy.work", crowd.busy)


@operation(Growth.LOG)
def a_delegation_while_agents_of_its_kind_come(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("busy.work", 1)
    crowd.give("busy.work", to=peer.agents[0])
    cost = delegation(crowd, "busy.work", crowd.busy)
    crowd.leave(peer)
    return cost


@operation(Growth.LOG)
def a_delegation_that_an_access_list_lets_to_half_of_many(crowd: Crowd, _many: int) -> int:
    listed = crowd_of(crowd.size, is_listed=True)
    delegator = next((peer for peer in listed.bus.peers if peer.name == "nhalf"), None) or listed.bus.delegator("half")
    delegation(listed, "busy.work", listed.busy, by=delegator)
    peer = listed.join("busy.work", 1)
    cost = delegation(listed, "busy.work", listed.busy, by=delegator)
    listed.leave(peer)
    return cost


def delegation(crowd: Crowd, capability: str, peer: Peer, *, to: str = "", by: Peer | None = None) -> int:
    delegator = by or crowd.boss
    cost = crowd.cost(lambda: delegator.delegate(delegator.name.removeprefix("n"), capability, to=to, timeout=10.0))
    (given,) = peer.took(Kind.DELEGATION)
    peer.respond(given.header.target.decode(), given.number)
    crowd.settle()
    assert list(delegator.outcomes().values()) == [Status.COMPLETED]
    return cost


@operation(Growth.ONE)
def a_monitor_of_what_an_access_list_does_not_let_a_node_of_many_agents_see(crowd: Crowd, _many: int) -> int:
    listed = crowd_of(crowd.size, is_listed=True)
    token = request_id(listed.bus.next_id())
    cost = listed.cost(lambda: listed.idle.send(Kind.MONITOR, request_id=token, target=b"hidden"))
    assert [down.body["reason"] for down in listed.idle.took(Kind.DOWN)] == ["access_denied"]
    return cost


@operation(Growth.LOG)
def a_delegation_that_waits_behind_many(crowd: Crowd, _many: int) -> int:
    numbers: list[int] = []
    cost = crowd.cost(lambda: numbers.append(crowd.boss.delegate("boss", "hub.work", timeout=10.0)))
    crowd.boss.cancel("boss", numbers[0])
    crowd.settle()
    assert list(crowd.boss.outcomes().values()) == [Status.CANCELLED]
    return cost


@operation(Growth.ONE)
def a_delegation_that_nobody_can_do(crowd: Crowd, _many: int) -> int:
    cost = crowd.cost(lambda: crowd.boss.delegate("boss", "nobody.can", timeout=10.0))
    assert crowd.boss.outcome().code == "no_holder"
    return cost


@operation(Growth.ONE)
def a_delegation_to_a_name_that_nobody_has(crowd: Crowd, _many: int) -> int:
    cost = crowd.cost(lambda: crowd.boss.delegate("boss", "idle.work", to="nobody", timeout=10.0))
    assert crowd.boss.outcome().code == "unknown_agent"
    return cost


@operation(Growth.ONE)
def a_delegation_that_came_before(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give()
    cost = crowd.cost(lambda: crowd.boss.delegate("boss", "hand.work", number=number, timeout=10.0))
    crowd.answer(number)
    return cost


@operation(Growth.EACH)
def a_delegation_at_the_end_of_a_chain(crowd: Crowd, many: int) -> int:
    peer = crowd.join("deep.work", many + 1)
    (parent,) = crowd.give("deep.work", to=peer.agents[0])
    for asks, does in zip(peer.agents[:-2], peer.agents[1:-1], strict=True):
        parent = peer.delegate(asks, "deep.work", to=does, parent=parent)
        crowd.settle()
    cost = crowd.cost(lambda: peer.delegate(peer.agents[-2], "deep.work", to=peer.agents[-1], parent=parent))
    assert len(peer.work()) == many + 1
    crowd.leave(peer)
    return cost


@operation(Growth.ONE)
def an_answer(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give()
    crowd.hands.inbox.clear()
    cost = crowd.cost(lambda: crowd.hands.respond(crowd.hands.agents[0], number))
    assert list(crowd.boss.outcomes().values()) == [Status.COMPLETED]
    return cost


@operation(Growth.LOG)
def an_answer_that_makes_room_for_the_next_in_line(crowd: Crowd, _many: int) -> int:
    number = crowd.hub_work.pop(0)
    cost = crowd.cost(lambda: crowd.hub.respond(crowd.hub.agents[0], number))
    crowd.hub_work += crowd.hub.work()
    crowd.give("hub.work")
    assert list(crowd.boss.outcomes().values()) == [Status.COMPLETED]
    return cost


@operation(Growth.ONE)
def a_sign_of_progress(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give()
    cost = crowd.cost(lambda: crowd.hands.respond(crowd.hands.agents[0], number, Status.PROGRESS))
    crowd.answer(number)
    return cost


@operation(Growth.LOG)
def work_that_is_handed_back(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("idle.work", 1)
    (number,) = crowd.give("idle.work", to=peer.agents[0])
    cost = crowd.cost(lambda: peer.hand_back(peer.agents[0], number))
    crowd.leave(peer)
    return cost


@operation(Growth.ONE)
def an_answer_to_what_nobody_asked(crowd: Crowd, _many: int) -> int:
    cost = crowd.cost(lambda: crowd.hands.respond(crowd.hands.agents[0], crowd.bus.next_id()))
    crowd.hands.inbox.clear()
    return cost


@operation(Growth.LOG)
def calling_off_what_waits_behind_many(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give("hub.work")
    cost = crowd.cost(lambda: crowd.boss.cancel("boss", number))
    assert list(crowd.boss.outcomes().values()) == [Status.CANCELLED]
    return cost


@operation(Growth.EACH)
def calling_off_what_has_sub_delegations(crowd: Crowd, many: int) -> int:
    peer, number = parent_of(crowd, many)
    cost = crowd.cost(lambda: crowd.boss.cancel("boss", number))
    assert len(peer.outcomes()) == many
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def an_answer_that_leaves_sub_delegations_behind(crowd: Crowd, many: int) -> int:
    peer, number = parent_of(crowd, many)
    cost = crowd.cost(lambda: peer.respond(peer.agents[0], number))
    assert len(peer.outcomes()) == many
    crowd.leave(peer)
    return cost


def parent_of(crowd: Crowd, many: int) -> tuple[Peer, int]:
    """A delegation whose specialist has delegated to so many."""
    peer = crowd.join("child.work", many + 1)
    (number,) = crowd.give("child.work", to=peer.agents[0])
    for name in peer.agents[1:]:
        peer.delegate(peer.agents[0], "child.work", to=name, parent=number)
    crowd.settle()
    assert len(peer.work()) == many + 1
    return peer, number


@operation(Growth.EACH)
def deadlines_that_pass(crowd: Crowd, many: int) -> int:
    peer = crowd.join("late.work", many)
    for name in peer.agents:
        crowd.give("late.work", to=name, timeout=0.05)
    cost = crowd.cost(seconds=0.5)
    assert set(crowd.boss.outcomes().values()) == {Status.TIMEOUT}
    crowd.leave(peer)
    return cost


# -- leases, monitors, observers, dead letters -------------------------------------------------------------------


@operation(Growth.LOG)
def claiming_a_lease(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give()
    cost = crowd.cost(lambda: claim(crowd, number, "/free"))
    assert crowd.hands.outcomes().popitem()[1] is Status.COMPLETED
    crowd.answer(number)
    return cost


@operation(Growth.EACH)
def the_end_of_a_delegation_that_holds_leases(crowd: Crowd, many: int) -> int:
    (number,) = crowd.give()
    for index in range(many):
        claim(crowd, number, f"/free/{index}")
    crowd.settle()
    cost = crowd.cost(lambda: crowd.hands.respond(crowd.hands.agents[0], number))
    crowd.hands.inbox.clear()
    crowd.boss.inbox.clear()
    return cost


@operation(Growth.LOG)
def waiting_for_a_lease(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give()
    cost = crowd.cost(lambda: claim(crowd, number, "/0"))
    assert crowd.hands.outcomes() == {}
    crowd.answer(number)
    return cost


@operation(Growth.LOG)
def a_lease_that_goes_to_the_next_in_line(crowd: Crowd, _many: int) -> int:
    number, other = crowd.give(count=2)
    claim(crowd, number, "/free")
    claim(crowd, other, "/free")
    crowd.settle()
    cost = crowd.cost(lambda: crowd.hands.respond(crowd.hands.agents[0], number))
    assert len(crowd.hands.outcomes()) == 2  # both claims
    crowd.answer(other)
    return cost


def claim(crowd: Crowd, holder: int, resource: str) -> None:
    crowd.ask("ether.lease", {"resource": resource}, of=crowd.hands, by=crowd.hands.agents[0], parent=holder)


@operation(Growth.LOG)
def releasing_a_lease(crowd: Crowd, _many: int) -> int:
    (number,) = crowd.give()
    claim(crowd, number, "/free")
    crowd.settle()
    token = unpack(crowd.hands.outcome().body["data"])["token"]
    name = crowd.hands.agents[0]
    cost = crowd.cost(lambda: crowd.ask("ether.release", {"token": token}, of=crowd.hands, by=name, parent=number))
    assert crowd.hands.outcome().status is Status.COMPLETED
    crowd.answer(number)
    return cost


@operation(Growth.LOG)
def watching_an_agent(crowd: Crowd, _many: int) -> int:
    target = crowd.idle.agents[0].encode()
    return crowd.cost(lambda: crowd.boss.send(Kind.MONITOR, request_id=request_id(crowd.bus.next_id()), target=target))


@operation(Growth.EACH)
def telling_those_who_watch_an_agent(crowd: Crowd, many: int) -> int:
    peer = crowd.join("own.work", 1)
    target = peer.agents[0].encode()
    for _ in range(many):
        crowd.boss.send(Kind.MONITOR, request_id=request_id(crowd.bus.next_id()), target=target)
    crowd.settle()
    cost = crowd.cost(lambda: peer.send(Kind.UNREGISTER, source=target, body={"condition": "gone"}))
    assert len(crowd.boss.took(Kind.DOWN)) == many
    crowd.leave(peer)
    return cost


@operation(Growth.ONE)
def an_observer_that_comes(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("own.work", 0)
    cost = crowd.cost(lambda: peer.send(Kind.OBSERVE, request_id=request_id(crowd.bus.next_id()), body={"from": 0}))
    crowd.leave(peer)
    return cost


@operation(Growth.EACH)
def a_message_that_observers_see(crowd: Crowd, many: int) -> int:
    peer = crowd.join("own.work", 0)
    tokens = [request_id(crowd.bus.next_id()) for _ in range(many)]
    for token in tokens:
        peer.send(Kind.OBSERVE, request_id=token, body={"from": 0})
    crowd.settle()
    (number,) = crowd.give()
    cost = crowd.cost(lambda: crowd.hands.respond(crowd.hands.agents[0], number, Status.PROGRESS))
    assert peer.took(Kind.TAP)
    crowd.answer(number)
    crowd.leave(peer)
    return cost


@operation(Growth.ONE)
def an_observers_receipt(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("own.work", 0)
    token = request_id(crowd.bus.next_id())
    peer.send(Kind.OBSERVE, request_id=token, body={"from": 0})
    crowd.settle()
    number = crowd.bus.state.tap.next
    cost = crowd.cost(lambda: peer.send(Kind.TAP_ACK, request_id=token, body=number.to_bytes(8)))
    crowd.leave(peer)
    return cost


# -- questions to the bus ----------------------------------------------------------------------------------------


@operation(Growth.LOG)
def asking_for_one_agent(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.agents", {"agent": crowd.idle.agents[1]})


@operation(Growth.LOG)
def asking_for_a_page_of_agents(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.agents", {"limit": 5})


@operation(Growth.LOG)
def asking_for_a_page_of_agents_behind_many(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.agents", {"limit": 5, "after": f"{crowd.idle.name}.{crowd.size // 2}"})


@operation(Growth.LOG)
def asking_for_a_page_of_capabilities(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.capabilities", {"limit": 5, "after": crowd.busy.name})


@operation(Growth.LOG)
def asking_for_manifests(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.manifests", {"agents": crowd.idle.agents[:5]})


@operation(Growth.LOG)
def asking_for_a_page_of_nodes(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.nodes", {"limit": 5})


@operation(Growth.ONE)
def asking_for_statistics(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.statistics", {})


@operation(Growth.LOG)
def asking_for_one_lease(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.leases", {"resource": "/1"})


@operation(Growth.LOG)
def asking_for_a_page_of_leases_behind_many(crowd: Crowd, _many: int) -> int:
    middle = crowd.first_token + crowd.size // 2
    return question(crowd, "ether.leases", {"limit": 5, "after": middle})


@operation(Growth.LOG)
def asking_for_the_newest_dead_letters(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.dead-letters", {"limit": 5})


@operation(Growth.LOG)
def asking_for_the_dead_letters_behind_many(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.dead-letters", {"limit": 5, "after": crowd.size // 2})


@operation(Growth.LOG)
def asking_for_a_dead_letter(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.dead-letter", {"number": newest(crowd)})


@operation(Growth.LOG)
def discarding_a_dead_letter(crowd: Crowd, _many: int) -> int:
    return question(crowd, "ether.dead-letter", {"number": newest(crowd), "discard": True})


def newest(crowd: Crowd) -> int:
    """The number of a dead letter that is there."""
    crowd.give("nobody.does.this")
    crowd.boss.inbox.clear()
    return next(number for number, letter in crowd.bus.state.dead_letters.below() if letter is not None)


@operation(Growth.EACH)
def asking_for_what_an_earlier_life_is_owed(crowd: Crowd, many: int) -> int:
    peer = crowd.join("own.work", 1)
    for _ in range(many):
        peer.delegate(peer.agents[0], "hand.work", timeout=10.0)
    crowd.settle()
    given = crowd.hands.work()
    peer.die()
    crowd.pass_time(2.0)
    crowd.pass_time(2.0)
    again = crowd.join("own.work", 0)
    crowd.register(again, peer.agents[0], "own.work")
    crowd.settle()
    cost = crowd.cost(lambda: crowd.ask("ether.outcomes", {}, of=again, by=peer.agents[0]))
    assert again.outcome().status is Status.COMPLETED
    for number in given:
        crowd.hands.respond(crowd.hands.agents[0], number)
    crowd.leave(peer, again)
    return cost


@operation(Growth.LOG)
def asking_for_a_page_of_what_an_earlier_life_is_owed(crowd: Crowd, _many: int) -> int:
    peer = crowd.join("own.work", 1)
    name, quarter = peer.agents[0], crowd.size // 4
    for _ in range(4 * quarter):
        peer.delegate(name, "hand.work", timeout=1e6)
    crowd.settle()
    peer.die()
    crowd.pass_time(2.0)
    crowd.pass_time(2.0)
    given: list[int] = []
    answer(crowd, given, 2 * quarter)  # those are ended and not collected, the others open
    again = crowd.join("own.work", 0)
    crowd.register(again, name, "own.work")
    crowd.settle()
    params: dict[str, Any] = {}

    def ask(limit: int) -> int:
        params["limit"] = min(limit, 250)
        cost = crowd.cost(lambda: crowd.ask("ether.outcomes", params, of=again, by=name))
        page = unpack(again.outcome().body["data"])
        params["after"] = page["next"]
        assert len(page["items"]) == params["limit"]
        return cost

    cost = 0
    for _ in range(4):
        cost += ask(5)
        for listed in range(5, quarter, 250):
            ask(quarter - listed)
    assert params["after"] is None
    answer(crowd, given, 2 * quarter)
    crowd.leave(peer, again)
    return cost


def answer(crowd: Crowd, given: list[int], count: int) -> None:
    """Let `hands` do so much, in order; what else it has been given is taken into the list."""
    for _ in range(count):
        given += crowd.hands.work()
        crowd.hands.respond(crowd.hands.agents[0], given.pop(0))
        crowd.settle()


def question(crowd: Crowd, capability: str, params: dict[str, Any]) -> int:
    cost = crowd.cost(lambda: crowd.ask(capability, params))
    assert crowd.boss.outcome().status is Status.COMPLETED
    return cost


# -- the test ----------------------------------------------------------------------------------------------------


@cache
def crowd_of(size: int, *, is_listed: bool = False) -> Crowd:
    if not is_listed:
        return Crowd(size)
    half = [f"node-1.{digit}*" for digit in range(0, 10, 2)]
    rules = [DelegateRule("boss"), DelegateRule("half", what="busy.work", to=half)]
    register = [RegisterRule("*", "*")]
    return Crowd(size, Access(delegate=rules, register=register, read="*", change="*"))


def least(run: Run, size: int, many: int) -> int:
    crowd = crowd_of(size)
    crowd.forget()
    run(crowd, many)  # caches are warm, and modules loaded
    return min(run(crowd, many) for _ in range(TIMES))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_work_of_an_operation_grows_with_what_it_says(name: str):
    growth, run = OPERATIONS[name]
    few = least(run, SMALL, FEW)
    beside_more = least(run, LARGE, FEW)
    for_more = least(run, SMALL, MANY) if growth is Growth.EACH else 0

    print(f"{name}: {few} | {beside_more / few:.2f} | {for_more / few:.2f}")
    assert beside_more <= few * (1.3 if growth is Growth.LOG else 1.1) + 100, f"{few} units, beside more {beside_more}"
    assert for_more <= few * 9.5, f"{few} units for {FEW}, and {for_more} for {MANY}"


@pytest.fixture(scope="module")
def collected() -> Iterator[Crowd]:
    """A crowd such that a collection looks at it, at what came after, and at nothing older: that would take a second each."""
    gc.collect()
    gc.freeze()
    yield Crowd(SMALL)
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_leaves_nothing_to_the_garbage_collector(collected: Crowd, name: str):
    """In a broker's process, what one full collection has seen is not looked at by the next: it must be in no circle."""
    crowd, (_, run) = collected, OPERATIONS[name]
    crowd.forget()
    run(crowd, FEW)
    crowd.forget()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.disable()
    try:
        run(crowd, FEW)
        crowd.forget()
        gc.collect()
        left = [item for item in gc.garbage if type(item).__module__.startswith("ether_")]
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.garbage.clear()

    assert left == []


def test_the_counter_sees_loops_copies_and_searches():
    few, many = list(range(100)), list(range(10_000))

    def work(call: Callable[[list[int]], object], items: list[int]) -> int:
        with WorkCounter() as counter:
            call(items)
        return counter.work

    for call in (
        lambda items: [item for item in items if item < 0],
        list,
        sorted,
        set,
        lambda items: items.index(items[-1]),
    ):
        assert work(call, many) > 20 * work(call, few)
    assert work(len, many) <= work(len, few) + 1
