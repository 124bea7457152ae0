"""Nothing rules on, moves or tells more than a share in one step, and whoever causes it pays: counted, not timed."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest

from ether_actors.supervisor.membership.departures import POINTS_PER_STEP
from ether_actors.supervisor.membership.monitors import CLEARED
from ether_actors.supervisor.membership.monitors import TOLD_PER_STEP as TOLD
from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.transport.sessions.cost import ANSWER, MOVED
from ether_broker.wire.frame import DRAINS, Kind
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.work_counter import WorkCounter

FEW: Final = 2 * POINTS_PER_STEP
MANY: Final = 3 * FEW
MOST: Final = POINTS_PER_STEP + POINTS_PER_STEP // 2
"""Of a step: what is done at once for those who say REGISTER or UNREGISTER, and `Departures.serve`."""
RULED: Final = MOST // 16 + 4
"""Of it delegations, each of which counts for 16; and the one more that each agent's turn may have."""


class World:
    """A delegator, and a node `w` whose agents do `x.y`."""

    def __init__(self, *agents: str, limits: Limits | None = None, **registration: object) -> None:
        self.bus = Bus(limits or Limits(window=8))
        self.d = self.bus.delegator("d")
        self.w = self.bus.node("w", *agents, **registration)
        self.ended: list[int] = []
        """Delegations that each step ended."""
        self.moved: list[int] = []
        """Delegations that each step gave to others."""

    def give(self, count: int, *, to: str = "", capability: str = "x.y") -> list[int]:
        numbers = [self.d.delegate("d", capability, to=to, timeout=900.0) for _ in range(count)]
        self.bus.step()
        assert self.d.outcomes() == {}
        return numbers

    def step(self) -> None:
        """One step, and what recovery would make of it."""
        bus, before, events = self.bus, len(self.bus.state.ledger), len(self.bus.events("reassigned"))
        self.serve()
        assert differences(bus.supervisor, bus.history) == []
        self.ended.append(before - len(bus.state.ledger))
        self._hear()
        self.moved.append(len(bus.events("reassigned")) - events)

    def serve(self) -> None:
        """Have the supervisor take what has arrived."""
        self.bus.supervisor.step(self.bus.take_arrivals(), self.bus.now, self.bus.now + 1e9)

    def _hear(self) -> None:
        """Give the peers what has left, without a step."""
        step, self.bus.supervisor.step = self.bus.supervisor.step, lambda *_args: None
        held, waiting = self.bus.state.session_table.turns.blocked, self.bus.state.session_table.turns.waiting
        self.bus.state.session_table.turns.blocked, self.bus.state.session_table.turns.waiting = [], []
        self.bus.step()
        self.bus.supervisor.step = step
        self.bus.state.session_table.turns.blocked, self.bus.state.session_table.turns.waiting = held, waiting

    def run(self) -> None:
        """Step until nothing is left to do."""
        self.step()
        while self.bus.supervisor.next_wake() <= self.bus.now:
            self.step()


class CountedWorld(World):
    """One whose steps are counted, and take some twenty times as long."""

    def __init__(self, *agents: str, limits: Limits | None = None, **registration: object) -> None:
        self.costs: list[int] = []
        """Of each step."""
        super().__init__(*agents, limits=limits, **registration)

    def serve(self) -> None:
        with WorkCounter() as counter:
            super().serve()
        self.costs.append(counter.work)


def several_leave(count: int) -> CountedWorld:
    world = CountedWorld("a", "b", "c")
    for name in "abc":
        world.give(count // 3, to=name)
    for name in "abc":
        world.w.send(Kind.UNREGISTER, source=name.encode(), body={"condition": "gone"})
    world.run()
    assert len(world.d.outcomes()) == count // 3 * 3
    return world


def one_leaves_and_another_takes_its_work(count: int) -> CountedWorld:
    world = CountedWorld("a", idempotent=True)
    world.give(count)
    world.w.register("b", idempotent=True)
    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    world.run()
    assert world.bus.agent("b").mailbox.outstanding == count
    return world


def several_drain(count: int) -> CountedWorld:
    world = CountedWorld("a", "b", "c")
    world.give(count)
    world.w.register("e")
    world.w.send(Kind.UNREGISTER, flags=DRAINS, source=b"a")
    world.w.send(Kind.UNREGISTER, flags=DRAINS, source=b"b")
    world.w.send(Kind.UNREGISTER, flags=DRAINS, source=b"c")
    world.run()
    assert world.bus.agent("e").mailbox.outstanding == count - 3 * 8
    return world


def one_comes_back_without_what_waits_for_it(count: int) -> CountedWorld:
    world = CountedWorld("a")
    world.give(count)
    world.w.register("a", "z.z")
    world.run()
    assert len(world.d.outcomes()) == count - 8
    return world


def a_node_is_lost(count: int) -> CountedWorld:
    world = CountedWorld("a", limits=Limits(window=4 * MANY))
    world.give(count)
    world.bus.state.session_table.unreachable(world.w.session.receiver)
    world.run()
    assert set(world.d.outcomes().values()) == {Status.FAILED_EXECUTION}
    return world


def a_run_that_has_children_is_lost(count: int) -> CountedWorld:
    world = CountedWorld("p", idempotent=True)
    x = world.bus.node("x")
    x.register("c", "child.work")
    parent = world.d.delegate("d", timeout=900.0)
    world.bus.step()
    for _ in range(count):
        world.w.delegate("p", "child.work", parent=parent, timeout=900.0)
    world.bus.step()
    standby = world.bus.node("standby", "q", idempotent=True)
    world.bus.state.session_table.unreachable(world.w.session.receiver)
    world.run()
    assert [work.number for work in standby.took(Kind.DELEGATION)] == [parent]
    entry = world.bus.entry(parent)
    assert entry is not None
    assert (entry.attempt, len(world.bus.state.ledger)) == (2, 1)
    return world


GOES: Final = {
    run.__name__.replace("_", " "): run
    for run in (
        several_leave, one_leaves_and_another_takes_its_work, several_drain, one_comes_back_without_what_waits_for_it,
        a_node_is_lost, a_run_that_has_children_is_lost,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", GOES)
def test_what_a_step_does_for_those_who_go_is_a_share_however_much_they_have(name: str) -> None:
    run: Callable[[int], CountedWorld] = GOES[name]
    few, many = run(FEW), run(MANY)

    assert len(many.costs) >= MANY // MOST
    assert max(many.ended) <= RULED
    assert max(many.moved) <= RULED
    assert max(many.costs) <= 2 * max(few.costs)  # for thrice as many: what a node was sent is listed once


@pytest.mark.parametrize("kind", [Kind.UNREGISTER, Kind.BYE])
def test_saying_again_that_all_agents_drain_or_leave_costs_nothing_for_each_of_them(kind: Kind) -> None:
    costs = []
    for count in (FEW + POINTS_PER_STEP, 8 * FEW):
        world = CountedWorld(*(f"a{number}" for number in range(count)))
        world.w.send(kind)
        world.step()
        world.w.send(kind)
        world.step()
        costs.append(world.costs[1])
    assert costs[1] <= 1.1 * costs[0]


def test_an_agent_that_was_registered_since_drains_and_leaves_too_when_its_node_says_so_again() -> None:
    world = World("a")
    world.w.send(Kind.UNREGISTER)
    world.run()
    world.w.register("b")
    world.step()
    world.give(1)
    world.w.register("a")
    world.w.send(Kind.UNREGISTER)
    world.run()
    assert {world.bus.agent(name).condition for name in "ab"} == {Condition.DRAINING}
    world.w.register("c")
    world.run()
    world.w.send(Kind.BYE)
    world.run()

    assert len(world.w.took(Kind.BYE)) == 1
    assert [agent.name for agent in world.bus.state.registry.agents if agent.session is world.w.session] == []


def test_an_agent_that_comes_while_its_node_leaves_goes_when_that_says_so_again() -> None:
    for kind in (Kind.BYE, Kind.UNREGISTER):
        world = World(*(f"a{number}" for number in range(MANY)))
        world.w.send(Kind.BYE)
        world.step()
        world.w.register("late")
        world.step()
        world.w.send(kind)
        world.run()

        assert len(world.w.took(Kind.BYE)) == 1
        assert not world.w.session.agents


def test_an_agent_that_registers_again_as_it_was_is_not_asked_what_waits_for_it() -> None:
    costs = []
    for count in (20, MANY):
        world = CountedWorld("a")
        world.give(count)
        world.w.register("a")
        world.step()
        costs.append(world.costs[0])

        assert len(world.w.took(Kind.REGISTERED)) == 1
        assert world.bus.supervisor.next_wake() > world.bus.now
        assert world.bus.agent("a").mailbox.waiting_count == count - 8
    assert costs[1] <= 1.1 * costs[0]


def test_an_agent_that_restarts_gets_what_waited_for_it_when_it_is_back() -> None:
    world = World("a")
    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    numbers = world.give(20)
    world.w.register("a")
    world.step()

    assert world.w.work() == numbers[:8]


def test_monitors_are_told_a_share_a_step_and_those_of_others_do_not_wait_for_them() -> None:
    world = World("a", "b")
    watcher, other = world.bus.node("watcher"), world.bus.node("other")
    for number in range(4 * TOLD):
        watcher.send(Kind.MONITOR, request_id=request_id(9_000 + number), target=b"a")
    other.send(Kind.MONITOR, request_id=request_id(1), target=b"b")
    world.bus.step()
    for name in "ab":
        world.w.send(Kind.UNREGISTER, source=name.encode(), body={"condition": "restarting"})

    before = world.w.session.input.tag
    told: list[tuple[int, int]] = []
    while watcher.session.monitors:
        world.step()
        told.append((len(watcher.took(Kind.DOWN)), len(other.took(Kind.DOWN))))

    assert told == [(TOLD, 0), (TOLD - 1, 1), (TOLD, 0), (TOLD, 0), (1, 0)]  # a node that pays has its turn later
    assert world.w.session.input.tag - before >= 2 * TOLD
    assert other.session.monitors == {}


def test_a_monitor_that_is_taken_back_before_its_turn_is_told_nothing() -> None:
    world = World("a")
    watcher = world.bus.node("watcher")
    for number in range(3 * TOLD):
        watcher.send(Kind.MONITOR, request_id=request_id(9_000 + number), target=b"a")
    world.bus.step()
    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    world.step()
    first = {down.number for down in watcher.took(Kind.DOWN)}
    late = next(number for number in range(9_000, 9_000 + 3 * TOLD) if number not in first)
    watcher.send(Kind.MONITOR, request_id=request_id(late), target=b"a", body={"stop": True})
    world.run()

    assert late not in {down.number for down in watcher.took(Kind.DOWN)}
    assert watcher.session.monitors == {}


def test_the_monitors_of_lost_nodes_are_forgotten_a_share_a_step_and_nobody_is_told_of_them() -> None:
    world = World("a")
    watchers = [world.bus.node(f"watcher{number}") for number in range(3)]
    for watcher in watchers:
        for number in range(2 * CLEARED):
            watcher.send(Kind.MONITOR, request_id=request_id(9_000 + number), target=b"a")
    world.bus.step()
    while world.bus.supervisor.next_wake() <= world.bus.now:
        world.bus.step()
    sessions = [watcher.session for watcher in watchers]
    left = [sum(len(session.monitors) for session in sessions)]
    assert left == [6 * CLEARED]

    for watcher, session in zip(watchers, sessions, strict=True):
        watcher.die()
        world.bus.state.session_table.close(session, "lost")
    while left[-1]:
        world.step()
        left.append(sum(len(session.monitors) for session in sessions))

    assert all(before - now <= CLEARED for before, now in pairwise(left))
    assert world.bus.supervisor._membership.monitors._watched == {}
    assert world.bus.supervisor._membership.monitors.job.at == math.inf


# -- a name is taken ---------------------------------------------------------------------------------------------


def test_who_takes_a_name_waits_until_the_work_of_its_former_holder_has_ended_and_nobody_else_does() -> None:
    world = World("a")
    numbers = world.give(MANY)
    standby, other = world.bus.node("standby"), world.bus.node("other")
    world.bus.state.session_table.unreachable(world.w.session.receiver)
    world.step()
    standby.register("a", "z.z")
    standby.register("later", "z.z")
    steps = 0
    while world.bus.agent("a").session.node == "w":
        steps += 1
        other.register(f"o{steps}", "z.z")
        world.step()
        assert len(other.took(Kind.REGISTERED)) == 1
        if world.bus.agent("a").session.node == "w":
            assert world.bus.state.registry.get(b"later") is None
    world.run()

    assert steps > 2
    assert len(standby.took(Kind.REGISTERED)) == 2
    assert {*world.d.outcomes()} == {*numbers}
    told = [(event["event"], event["node"]) for event in world.bus.events() if event.get("agent") == "a"]
    assert [(name, node) for name, node in told if name.startswith("agent_")] == [
        ("agent_up", "w"), ("agent_down", "w"), ("agent_up", "standby"),
    ]  # fmt: skip


def test_who_takes_a_name_waits_for_the_work_of_its_former_holder_and_not_for_that_of_others() -> None:
    # Given a lost node whose agents all have as much work to be ruled on
    work, names = 40, [f"a{number}" for number in range(12)]
    world = World(*names)
    for name in names:
        world.give(work, to=name)
    standby = world.bus.node("standby")
    world.bus.state.session_table.unreachable(world.w.session.receiver)
    world.step()

    # When another node takes the name of the last one
    standby.register(names[-1], "z.z")
    steps = 0
    while world.bus.agent(names[-1]).session.node == "w":
        steps += 1
        world.step()

    # Then every other turn is that agent's, at least
    assert 1 < steps <= work * 16 // (POINTS_PER_STEP // 2) + 2


def test_an_agent_that_left_with_much_to_answer_for_may_come_back_at_once() -> None:
    world = World("a")
    numbers = world.give(MANY)
    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone", "reason": "tired"})
    world.w.register("a")
    again = world.d.delegate("d", timeout=900.0)
    world.run()

    assert max(world.ended) <= MOST
    assert [event["reason"] for event in world.bus.events("agent_down")] == ["tired"]
    assert {*world.d.outcomes()} - {again} == {*numbers}
    assert world.bus.agent("a").condition == "up"


def test_a_node_speaks_no_more_for_an_agent_that_left_and_has_much_to_be_answered_for() -> None:
    world = World("a", "b")
    world.give(MANY, to="a")
    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    world.step()
    assert world.bus.agent("a").work
    world.w.delegate("a", to="b")
    world.w.send(Kind.BYE)
    world.run()

    assert world.w.outcome().code == "forged_sender"
    assert len(world.w.took(Kind.BYE)) == 1
    assert len(world.d.outcomes()) == MANY
    assert [*world.bus.state.registry.agents] == [world.bus.agent("d")]


def test_a_node_that_is_lost_while_it_waits_for_a_name_does_not_get_it() -> None:
    world = World("a")
    world.give(MANY)
    standby = world.bus.node("standby")
    world.bus.state.session_table.unreachable(world.w.session.receiver)
    world.step()
    standby.register("a")
    world.step()
    assert world.bus.state.session_table.turns.blocked != []
    world.bus.state.session_table.close(standby.session, "its connection is gone")
    world.run()

    assert world.bus.agent("a").session.node == "w"
    assert world.bus.state.session_table.turns.blocked == []


# -- who pays, and what finds no room ----------------------------------------------------------------------------


def paid(peer: Peer, run: Callable[[], None]) -> int:
    session = peer.session
    before = session.input.tag
    run()
    return session.input.tag - before


def test_the_node_whose_agent_leaves_pays_for_the_outcomes_and_its_delegators_do_not() -> None:
    world = World("a")
    world.give(FEW)
    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    before = world.d.session.input.tag

    assert paid(world.w, world.run) >= ANSWER * FEW
    assert world.d.session.input.tag == before


def test_the_node_whose_agent_drains_pays_for_what_is_moved() -> None:
    world = World("a")
    world.give(FEW)
    world.w.register("b")
    world.w.send(Kind.UNREGISTER, source=b"a", flags=DRAINS)

    assert paid(world.w, world.run) >= MOVED * (FEW - 8)


def test_work_that_is_moved_keeps_to_the_bound_of_a_mailbox_and_the_rest_stays_where_it_is() -> None:
    world = World("a", "b", limits=Limits(mailbox_count=20, window=2))
    world.give(2 * 15)
    world.w.register("e")
    for name in "ab":
        world.w.send(Kind.UNREGISTER, source=name.encode(), flags=DRAINS)
    world.run()

    waiting = {name: world.bus.agent(name).mailbox.waiting_count for name in "abe"}
    assert waiting["e"] == 20
    assert waiting["a"] + waiting["b"] == 30 - 20 - 2 * 3

    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    world.run()
    refused = [outcome for outcome in world.d.took(Kind.RESPONSE) if outcome.code == "mailbox_full"]
    assert len(refused) == waiting["a"]
    assert {outcome.status for outcome in refused} <= {Status.REJECTED_OVERLOAD}
    assert all(outcome.body["error"]["retryable"] and outcome.body["retry_after"] > 0 for outcome in refused)


def test_what_expires_in_mailboxes_is_ended_a_share_a_step_however_many_are_given_room() -> None:
    world = World(*"abcef", limits=Limits(window=1))
    numbers = [world.d.delegate("d", to=name, timeout=2.0) for name in "abcef" for _ in range(2 * POINTS_PER_STEP)]
    world.bus.step()
    given = world.w.took(Kind.DELEGATION)
    world.bus.now += 2.1
    for work in given:
        world.w.respond(work.header.target.decode(), work.number)
    world.run()

    outcomes = world.d.outcomes()
    assert max(world.ended) <= len(given) + 3 * POINTS_PER_STEP
    assert outcomes.keys() == {*numbers}
    assert sorted(outcomes.values()).count(Status.COMPLETED) == len(given) == 5


def test_what_ran_for_an_agent_that_left_is_not_ended_by_its_node_while_what_waited_is_ruled_on():
    world = World("a", limits=Limits(window=8), max_concurrency=8)
    running = world.give(8)
    world.give(2 * FEW)

    world.w.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    while world.bus.state.registry.get(b"a") is not None:
        world.step()
        for stopped in world.w.took(Kind.CANCEL):
            world.w.respond("a", stopped.number, Status.CANCELLED)

    codes = {received.number: received.code for received in world.d.took(Kind.RESPONSE)}
    assert {codes[number] for number in running} == {"node_lost"}


@pytest.mark.parametrize("idempotent", [False, True])
def test_what_waited_is_as_idempotent_as_the_manifest_under_which_it_is_begun(idempotent: bool):
    world = World("a", limits=Limits(window=1), idempotent=not idempotent)
    first, second = world.give(2)
    bus = world.bus
    world.w.register("a", idempotent=idempotent)
    bus.step()
    world.w.respond("a", first)
    bus.step()
    assert world.w.work() == [first, second]
    world.w.die()
    bus.pass_time(5.0)

    outcomes = [received.code for received in world.d.took(Kind.RESPONSE) if received.number == second]
    assert outcomes == ([] if idempotent else ["node_lost"])
    assert differences(bus.supervisor, bus.history) == []
