"""What waits for the instances of an agent that scales is one queue, whoever comes, goes, crashes or is lost."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

import pytest

from ether_actors.supervisor.delegations.rebalancing import REBALANCED_PER_STEP
from ether_actors.supervisor.delegations.scale_reports import TELL
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.state.job_schedule import OWN
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.transport.sessions.cost import REBALANCED
from ether_broker.wire.frame import DRAINS, Flag, Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.stored_journal import Disk, StoredJournal


def scale(
    peer: Peer, *agents: str, places: int = 1, scales: bool = True, capability: str = "x.y", idempotent: bool = False,
    **fields: Any,
) -> None:  # fmt: skip
    """Register instances of an agent that scales."""
    declared = (Capability(name=capability, idempotent=idempotent),)
    manifest = Manifest(agent=agents[0], capabilities=declared, max_concurrency=places, **fields)
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


def listed(**reached: str) -> Access:
    """An access list that says whom delegators reach; nodes `host…` may have agents `a…` and `b…`."""
    rules = [DelegateRule(who=who, to=to) for who, to in reached.items()]
    return Access(delegate=rules, register=[RegisterRule("n?", "?"), RegisterRule("host*", ["a*", "b*"])])


def given(peer: Peer) -> list[tuple[int, str]]:
    """The delegations that came: (number, to whom)."""
    return [(received.number, received.header.target.decode()) for received in peer.took(Kind.DELEGATION)]


def told(peer: Peer) -> list[dict[str, int]]:
    """How much a node was told that its instances have to do."""
    return [received.body["outstanding"] for received in peer.took(Kind.SCALE)]


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
    rebalancing, agent = bus.supervisor.rebalancing, bus.agent("a")
    bus.state.registry.condition(agent, Condition.DRAINING)
    leaving = rebalancing._reassignment.drained(agent)
    assert [next(leaving), next(leaving)] == [1, 1], "all that waits was looked at, and is not back in the mailbox yet"
    assert agent.mailbox.next_movable is None, "it is not given to anybody meanwhile"
    rebalancing._instances[agent].waiting.clear()
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


def test_what_waits_is_rebalanced_while_a_node_is_away_and_none_is_given_twice() -> None:
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


def test_what_waits_for_lost_instances_counts_for_one_that_comes_but_what_names_them() -> None:
    """Or its node would not start more for it."""
    bus, desk, host = started("a", "a-2")
    [named] = ask(desk, 1, to="a-2", timeout=500.0)
    begun, *waiting = ask(desk, 40, timeout=500.0)
    [also_named] = ask(desk, 1, to="a-2", timeout=500.0)
    assert given(host) == [(named, "a-2"), (begun, "a")]
    host.die()
    bus.pass_time(40.0)
    assert desk.outcomes() == dict.fromkeys([named, begun], Status.FAILED_EXECUTION)

    second = bus.node("second")
    scale(second, "b")
    bus.pass_time(TELL)

    assert told(second)[-1] == {"b": len(waiting)}
    assert [bus.agent(name).mailbox.waiting_count for name in ("a-2", "b")] == [1, len(waiting) - 1]
    order = []
    while work := given(second):
        [(number, _)] = work
        order.append(number)
        second.respond("b", number)
        bus.step()
    assert order == waiting
    assert bus.agent("a-2").work.keys() == {bus.entry(also_named)}


def test_what_waits_for_a_lost_instance_stays_until_another_has_room() -> None:
    bus, desk, host = started("a", limits=Limits(mailbox_count=4))
    second = bus.node("second")
    scale(second, "b")
    begun = ask(desk, 2, timeout=500.0)
    waiting = ask(desk, 8, timeout=500.0)
    given(host), given(second)

    host.die()
    bus.pass_time(40.0)

    assert [bus.agent(name).mailbox.waiting_count for name in ("a", "b")] == [4, 4]
    assert bus.supervisor.rebalancing.job.at > bus.now, "it does not look again and again"
    scale(second, "c")
    assert [bus.agent(name).mailbox.waiting_count for name in ("a", "b", "c")] == [0, 4, 3]
    second.respond("b", begun[1])
    bus.step()
    while work := given(second):
        for number, agent in work:
            second.respond(agent, number)
        bus.step()
    assert desk.outcomes() == {
        begun[0]: Status.FAILED_EXECUTION,
        **dict.fromkeys([begun[1], *waiting], Status.COMPLETED),
    }


def test_what_waits_for_a_lost_instance_is_not_given_to_one_that_waits_for_it() -> None:
    """But to the next one that comes."""
    bus, desk, host = started("a")
    [above] = ask(desk, 1, timeout=500.0)
    given(host)
    second = bus.node("second")
    scale(second, "b")
    ask(desk, 1, timeout=500.0)
    child = host.delegate("a", parent=above, timeout=500.0)
    bus.step()
    given(second)

    second.die()
    bus.pass_time(40.0)
    assert [bus.agent(name).mailbox.waiting_count for name in ("a", "b")] == [0, 1]
    scale(host, "a-2")

    assert given(host) == [(child, "a-2")]


def test_nodes_are_told_how_much_waits_and_runs_at_most_four_times_a_second() -> None:
    bus, desk, host = started("a")
    ask(desk, 4)
    assert told(host) == [{"a": 4}]
    ask(desk, 2)
    assert told(host) == []
    bus.pass_time(TELL)
    assert told(host) == [{"a": 6}]
    bus.pass_time(5.0)
    assert told(host) == []


def test_a_node_is_told_the_most_that_its_instances_had_together_since_it_was_told() -> None:
    """So that none is taken away because all that they had came and went between two words."""

    def most(peer: Peer) -> list[tuple[dict[str, int], dict[str, int]]]:
        return [(one.body["outstanding"], one.body["most"]) for one in peer.took(Kind.SCALE)]

    bus, desk, host = started("a", "a-2")

    def burst(count: int, later: float) -> None:
        """Have some done by both instances within so many seconds."""
        numbers = ask(desk, count)
        bus.now += later
        while numbers:
            for number, agent in given(host):
                host.respond(agent, number)
                numbers.remove(number)
            bus.step()

    burst(5, TELL / 8)
    most(host)  # which tells the first few at once
    bus.pass_time(TELL)
    assert {peak for _, peaks in most(host) for peak in peaks.values()} == {5}
    burst(4, TELL / 8)
    burst(3, TELL / 8)
    bus.pass_time(TELL)
    ((outstanding, peaks),) = most(host)
    assert set(outstanding.values()) == {0}
    assert peaks == {"a": 4, "a-2": 4}
    bus.pass_time(5.0)
    assert most(host) == []

    burst(6, 0.0)  # which takes no time
    bus.pass_time(TELL)
    assert not any(peaks for _, peaks in most(host))
    ask(desk, 2)
    bus.pass_time(TELL)
    assert most(host) == [({"a": 1, "a-2": 1}, {})]
    host.send(Kind.UNREGISTER, source=b"a-2", body={"condition": "gone"})
    bus.step()
    loads = bus.supervisor.rebalancing._reports._loads
    assert {session.node: list(load.instances) for (_, session), load in loads.items()} == {"host": [bus.agent("a")]}


def test_a_node_is_told_of_all_its_instances_at_one_moment() -> None:
    """So that what moves is counted once, and nothing that runs is counted besides where it waited before."""
    bus, desk, host = started("a")
    numbers = ask(desk, 6)
    assert told(host) == [{"a": 6}]

    scale(host, "a-2", "a-3")
    bus.pass_time(TELL)
    assert told(host) == [{"a": 4, "a-2": 1, "a-3": 1}]
    host.respond("a-2", numbers[1])
    bus.pass_time(TELL)
    assert told(host) == [{"a": 3, "a-2": 1}]


def test_a_node_is_told_how_much_waits_while_what_is_rebalanced_waits_for_the_journal() -> None:
    """Its instances come and go by that, and a journal may be slow for longer than their cooldown."""
    bus, many = Bus(), 4 * OWN
    bus.restart(journal := StoredJournal(Disk(), synced=False))
    desk, host = bus.delegator("d"), bus.node("host")
    scale(host, "a")
    ask(desk, many)
    journal.sync()
    scale(host, "a-2", places=many)
    bus.pass_time(2 * TELL)
    job = bus.supervisor.rebalancing.job
    assert job in bus.state.schedule.paused, "it has given so many that the journal has to write them first"
    assert sum(told(host)[-1].values()) == many

    ask(desk, 3, to="a")
    bus.pass_time(TELL)

    assert told(host) == [{"a": bus.agent("a").mailbox.outstanding}]
    assert job in bus.state.schedule.paused


def test_an_instance_that_registers_anew_is_told_anew() -> None:
    bus, desk, host = started("a")
    ask(desk, 3)
    assert told(host) == [{"a": 3}]

    bus.pass_time(1.0)
    scale(host, "a")
    bus.pass_time(TELL)

    assert told(host) == [{"a": 3}]


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


def test_rebalancing_is_done_a_share_in_a_step() -> None:
    bus, desk, host = started("a")
    ask(desk, 60)
    scale(host, *(f"a-{number}" for number in range(2, 52)), places=1)

    moved = [len(bus.events("reassigned"))]
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
        moved.append(len(bus.events("reassigned")))

    assert moved == [REBALANCED_PER_STEP, 2 * REBALANCED_PER_STEP, 3 * REBALANCED_PER_STEP, 50]
    assert bus.agent("a").mailbox.waiting_count == 9


@pytest.mark.parametrize("capability", ["*", "x.y.z"])
def test_what_waits_goes_to_nobody_else_who_would_take_it(capability: str) -> None:
    """A fallback agent, or one of a capability below it, would be chosen if the instances were away."""
    bus, desk, host = started("a")
    other = bus.node("other")
    other.register("other", capability)
    bus.step()
    other.inbox.clear()

    first, _, _ = ask(desk, 3)

    assert (given(host), given(other)) == ([(first, "a")], [])
    assert bus.agent("a").mailbox.waiting_count == 2


def test_what_an_instance_has_handed_back_is_not_given_to_it_again() -> None:
    bus, desk, host = started("a")
    other = bus.node("other")
    scale(other, "b")
    numbers = ask(desk, 30)
    given(host)

    for _ in numbers:
        for number, agent in given(other):
            other.hand_back(agent, number)
        bus.step()

    returns = Counter(event["request_id"] for event in bus.events("reassigned") if event["returns"])
    assert set(returns.values()) == {1}
    assert desk.outcomes() == {}
    assert bus.agent("a").mailbox.waiting_count == 29


@pytest.mark.parametrize("flag", [Flag.FALLTHROUGH, Flag.ROUTED])
def test_what_names_an_instance_waits_for_that_instance_whatever_its_flags_say(flag: Flag) -> None:
    bus, desk, host = started("a")
    [running, named] = ask(desk, 2, to="a", flags=flag)
    given(host)

    scale(host, "a-2")

    assert given(host) == []
    host.respond("a", running)
    bus.step()
    assert given(host) == [(named, "a")]


def test_what_names_another_agent_and_fell_through_is_rebalanced() -> None:
    _, desk, host = started("a")
    ask(desk, 1)
    [fallen] = ask(desk, 1, to="nobody", flags=Flag.FALLTHROUGH)
    given(host)

    scale(host, "a-2")

    assert given(host) == [(fallen, "a-2")]


@pytest.mark.parametrize("many", [1, 7, 8, 40])
def test_however_many_name_an_instance_what_waits_behind_them_goes_to_others(many: int) -> None:
    _, desk, host = started("a")
    ask(desk, 1)
    ask(desk, many, to="a")
    free = ask(desk, 3)
    given(host)

    scale(host, "a-2", "a-3", "a-4")

    assert given(host) == [(free[0], "a-2"), (free[1], "a-3"), (free[2], "a-4")]


@pytest.mark.parametrize("many", [1, 20])
def test_what_a_node_registers_whom_nobody_reaches_holds_up_nothing(many: int) -> None:
    """However alike it is to an agent that scales: its instances, on all nodes, share what waits as if it were not there."""
    bus, desk, host = started("a", access=listed(d="a*"))
    strangers = [bus.node(f"stranger{number}") for number in range(many)]
    for number, stranger in enumerate(strangers):
        scale(stranger, f"stranger{number}")
    numbers, before = ask(desk, 7), host.session.input.tag
    assert given(host) == [(numbers[0], "a")]
    assert host.session.input.tag == before, "no look is charged"

    second = bus.node("host-2")
    scale(host, "a-2")
    scale(second, "a-3")
    order = []
    while work := [(peer, number, agent) for peer in (host, second) for number, agent in given(peer)]:
        for peer, number, agent in work:
            peer.respond(agent, number)
            order.append((number, agent))
            bus.step()

    assert [number for number, _ in order] == numbers[1:]
    assert {agent for _, agent in order} == {"a-2", "a-3"}
    assert [given(stranger) for stranger in strangers] == [[]] * many


def test_agents_of_two_teams_with_rules_of_their_own_do_not_hold_up_each_other() -> None:
    bus, desk, host = started("a", access=listed(d="a*", e="b*"))
    scale(host, "b")
    other = bus.delegator("e")
    first, ours = ask(desk, 2)
    assert given(host) == [(first, "a")]
    scale(host, "a-2", "a-3")
    assert given(host) == [(ours, "a-2")]
    second, theirs = [other.delegate("e") for _ in range(2)]
    bus.step()
    assert given(host) == [(second, "b")]
    scale(host, "b-2")
    assert given(host) == [(theirs, "b-2")]


@pytest.mark.parametrize(
    ("capability", "ours", "theirs"),
    [
        ("x.y", {}, {"interface": ("chained",)}),
        ("x.y", {"idempotent": True}, {}),
        ("*", {}, {"exclusions": ("x",)}),
    ],
)
def test_instances_that_declare_something_else_hold_up_nothing(
    capability: str, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    """Whoever may register the name of an instance does not have to declare the same."""
    bus = Bus(access=listed(d="a*"))
    desk, host, other = bus.delegator("d"), bus.node("host"), bus.node("host-2")
    scale(host, "a", capability=capability, **ours)
    first, second = ask(desk, 2)
    assert given(host) == [(first, "a")]
    scale(other, *(f"a-{number}" for number in range(10, 30)), capability=capability, **theirs)

    scale(host, "a-2", capability=capability, **ours)

    assert (given(host), given(other)) == ([(second, "a-2")], [])


def test_instances_of_two_versions_share_what_waits() -> None:
    _, desk, host = started("a")
    first, second = ask(desk, 2)
    assert given(host) == [(first, "a")]

    scale(host, "a-2", version="2.0.0")

    assert given(host) == [(second, "a-2")]


def test_an_instance_that_a_rule_names_by_itself_has_a_queue_of_its_own_and_holds_up_no_other() -> None:
    bus, desk, host = started("a", access=listed(p="a", d="*"))
    alone = ask(desk, 2)
    bound = bus.delegator("p").delegate("p")
    bus.step()
    scale(host, "a-2")
    shared = ask(desk, 4)
    scale(host, "a-3")

    assert given(host) == [(alone[0], "a"), (shared[0], "a-2"), (shared[1], "a-3")]
    for before, number in ((alone[0], alone[1]), (alone[1], bound)):
        host.respond("a", before)
        bus.step()
        assert given(host) == [(number, "a")]


def test_an_instance_of_many_places_is_given_what_waits_for_many_of_one() -> None:
    _, desk, host = started("large", places=20)
    ask(desk, 3, to="large")
    small = [f"small-{number}" for number in range(8)]
    scale(host, *small)
    for name in small:
        ask(desk, 1, to=name)
    given(host)

    numbers = ask(desk, 12)

    assert sorted(given(host)) == [(number, "large") for number in numbers]


def test_the_oldest_of_all_that_wait_is_given_first_and_a_high_priority_before() -> None:
    bus, desk, host = started("a", "b")
    ask(desk, 2)
    given(host)
    numbers = ask(desk, 6)
    [low] = ask(desk, 1, flags=Flag.LOW)
    [high] = ask(desk, 1, flags=Flag.HIGH)
    for number in numbers:
        entry = bus.entry(number)
        assert entry is not None
        if entry.agent.name == b"a":
            desk.cancel("d", number)
    bus.step()
    left = [number for number in numbers if bus.entry(number)]
    later = ask(desk, 2)

    scale(host, "c")
    order = []
    for _ in range(6):
        [(number, agent)] = given(host)
        order.append(number)
        host.respond(agent, number)
        bus.step()

    assert order[:5] == [high, *left, later[0]]
    assert low not in order


def test_instances_of_one_agent_do_not_hold_up_those_of_another() -> None:
    """However fast they answer: what waits for each agent has its turn."""
    bus, desk, host = started("a")
    busy = bus.node("busy")
    scale(busy, "b", capability="v.w")
    ask(desk, 200, capability="v.w", timeout=1000.0)
    scale(busy, *(f"b-{number}" for number in range(2, 50)), capability="v.w")
    numbers = ask(desk, 2)
    given(host)

    scale(host, "a-2")

    assert given(host) == [(numbers[1], "a-2")]


def test_an_agent_of_which_many_kinds_wait_does_not_hold_up_another_node() -> None:
    bus, desk, host = started("a")
    busy, kinds = bus.node("busy"), [f"v.w{number}" for number in range(200)]
    for number, kind in enumerate(kinds):
        scale(busy, f"b{number}", capability=kind)
        ask(desk, 2, capability=kind)
    numbers = ask(desk, 2)
    given(host)
    job = bus.supervisor.rebalancing.job
    run, job.run = job.run, lambda: inf
    for number, kind in enumerate(kinds):
        manifest = Manifest(agent="c", capabilities=(Capability(name=kind),))
        packed = pack(manifest.model_dump(mode="json", exclude_defaults=True, exclude={"agent"}))
        body = {"agents": [f"c{number}"], "manifest": packed, "scales": True}
        busy.send(Kind.REGISTER, request_id=request_id(bus.next_id()), body=body)
    bus.step()
    scale(host, "a-2")
    assert given(host) == []

    job.run = run
    job.wake()
    bus.step()

    assert given(host) == [(numbers[1], "a-2")]
    assert job.at <= bus.now, "the others wait for their turn"


def test_of_more_nodes_than_one_step_looks_at_each_has_its_turn() -> None:
    bus = Bus()
    desk, count = bus.delegator("d"), REBALANCED_PER_STEP + 4
    nodes = [bus.node(f"n{number}") for number in range(count)]
    job = bus.supervisor.rebalancing.job
    run, job.run = job.run, lambda: inf
    for number, node in enumerate(nodes):
        scale(node, f"a{number}", capability=f"v.w{number}")
        ask(desk, 6, capability=f"v.w{number}")
        scale(node, f"b{number}", places=5, capability=f"v.w{number}")
        given(node)
    job.run = run
    job.wake()

    bus.step()
    bus.step()

    counts = [len(given(node)) for node in nodes]
    assert sum(counts) == 2 * REBALANCED_PER_STEP
    assert min(counts) == 1


def test_a_look_in_vain_is_one_of_the_step_s_and_charged_to_the_node_of_what_waits() -> None:
    """What another access list let an agent have stays with it."""
    bus = Bus()
    journal = StoredJournal(Disk())
    bus.restart(journal)
    desk, bound, host = bus.delegator("d"), bus.delegator("p"), bus.node("host")
    scale(host, "a")
    for _ in range(2 * REBALANCED_PER_STEP + 1):
        bound.delegate("p", timeout=500.0)
    bus.step()
    free = desk.delegate("d", timeout=500.0)
    bus.step()
    host.die()
    bus.pass_time(40.0)
    bus.restart(journal.crash(), access=listed(d="*", p="b*"))
    other, session = bus.node("host-2"), bus.agent("a").session
    before = session.input.tag

    scale(other, "a-2")

    assert given(other) == []
    assert session.input.tag - before == REBALANCED * REBALANCED_PER_STEP
    bus.step()
    bus.step()
    assert given(other) == [(free, "a-2")]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_waits_for_a_lost_instance_is_rebalanced_by_a_broker_that_was_restarted_too(*, is_restarted: bool) -> None:
    bus = Bus()
    journal = StoredJournal(Disk())
    bus.restart(journal)
    desk, host = bus.delegator("d"), bus.node("host")
    scale(host, "a")
    _, *waiting = [desk.delegate("d", timeout=500.0) for _ in range(4)]
    bus.step()
    host.die()
    bus.pass_time(40.0)
    if is_restarted:
        bus.restart(journal.crash())
    other = bus.node("other")

    scale(other, *(f"a-{number}" for number in range(2, 5)))

    assert given(other) == [(number, f"a-{position}") for position, number in enumerate(waiting, 2)]


def test_a_broker_that_was_restarted_takes_no_more_as_begun_than_an_instance_has_places_for() -> None:
    bus = Bus()
    journal = StoredJournal(Disk())
    bus.restart(journal)
    desk, host = bus.delegator("d"), bus.node("host")
    scale(host, "a", places=2)
    for _ in range(50):
        desk.delegate("d", timeout=500.0)
    bus.step()

    bus.restart(journal.crash())

    mailbox = bus.agent("a").mailbox
    assert (mailbox.in_flight, mailbox.waiting_count) == (2, 48)


def test_what_an_instance_had_before_it_scaled_is_taken_as_begun() -> None:
    bus = Bus()
    journal = StoredJournal(Disk())
    bus.restart(journal)
    desk, host = bus.delegator("d"), bus.node("host")
    scale(host, "a", scales=False)
    for _ in range(50):
        desk.delegate("d", timeout=500.0)
    bus.step()
    scale(host, "a")
    assert bus.agent("a").mailbox.in_flight == 50

    bus.restart(journal.crash())

    assert bus.agent("a").mailbox.in_flight == 50


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


@pytest.mark.parametrize("agent", [b"", b"a", b"a-2", b"ether", b"node:host", b"nobody", b"plain"])
def test_a_node_tells_of_no_agent_of_which_it_has_no_instances(agent: bytes) -> None:
    bus, _, _ = started("a")
    other = bus.node("other", "plain")
    scale(other, "b")
    other.send(Kind.SCALE, source=agent, body={"before": 1, "instances": 2})
    bus.step()

    assert [received.code for received in other.took(Kind.ERROR)] == ["access_denied"]
    assert bus.events("agent_scaled") == []


def test_a_node_tells_of_an_agent_whose_first_name_another_node_has_until_its_last_instance_left() -> None:
    bus, _, _ = started("a")
    other = bus.node("other")
    scale(other, "a-2", "a-3")
    for name in (b"a-2", b"a-3", b""):
        other.send(Kind.SCALE, source=b"a", body={"before": 1, "instances": 2})
        bus.step()
        if name:
            assert other.took(Kind.ERROR) == []
            other.send(Kind.UNREGISTER, source=name, body={"condition": "gone", "reason": "stopped"})
            bus.pass_time(1.0)

    assert [received.code for received in other.took(Kind.ERROR)] == ["access_denied"]
    assert len(bus.events("agent_scaled")) == 2


def test_nothing_is_left_of_instances_that_have_gone() -> None:
    bus, desk, host = started("a", "b")
    ask(desk, 4)
    for name in (b"a", b"b"):
        host.send(Kind.UNREGISTER, source=name, body={"condition": "gone", "reason": "stopped"})
    bus.pass_time(20.0)
    rebalancing = bus.supervisor.rebalancing
    reports = rebalancing._reports

    assert [len(table) for table in (rebalancing._instances, rebalancing._alike)] == [0] * 2
    assert [
        len(table) for table in (reports._names, reports._told, reports._untold, reports._loads, reports._load)
    ] == [0] * 5
