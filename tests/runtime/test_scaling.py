"""Agents that scale: instances come with what waits, go when one fewer was enough, and lose nothing by it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ether import (
    Agent,
    AgentCrash,
    Closed,
    DuplicateAgent,
    Runtime,
    Scale,
    Status,
    Task,
    UnknownAgent,
    UsageError,
    capability,
)  # fmt: skip
from ether.node.agents.scaled_agent import ScaledAgent
from ether.observers import Probe
from ether.testing import TestRuntime
from ether_actors.execution.cell import CellState
from ether_broker.wire.frame import DRAINS, Kind, read_header
from tests.support import wait_until

PATIENCE = 20.0


class Worker(Agent):
    """Works for a while, and notes who does what."""

    runs: Counter[int]
    begun: list[str]
    starts: list[float]
    failing = 0
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def on_start(self) -> None:
        Worker.starts.append(Worker.clock())
        if Worker.failing:
            Worker.failing -= 1
            raise RuntimeError("no licence is left")

    @capability("work.do")
    async def do(self, n: int, seconds: float = 1.0) -> str:
        Worker.runs[n] += 1
        Worker.begun.append(str(self.agent_name))
        await asyncio.sleep(seconds)
        return str(self.agent_name)

    @capability("work.crash")
    def crash(self) -> None:
        raise AgentCrash("on demand")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Worker.runs, Worker.begun, Worker.starts, Worker.failing = Counter(), [], [], 0


@pytest.fixture
def double() -> Iterator[TestRuntime]:
    with TestRuntime(name="desk") as made:
        yield made


def instances(bus: Runtime) -> list[str]:
    return sorted(agent["agent"] for agent in bus.agents() if agent["condition"] == "up")


def changes(probe: Probe) -> list[tuple[int, int]]:
    """How many instances there were, and how many then."""
    events = [seen.event for seen in probe.events if seen.event["event"] == "agent_scaled"]
    return [(event["before"], event["instances"]) for event in events]


def ask(bus: Runtime, count: int, seconds: float = 1.0, **options: Any) -> list[Any]:
    return [
        bus.delegate("work.do", {"n": n, "seconds": seconds}, timeout=1_000.0, **options) for n in range(count)
    ]  # fmt: skip


def test_instances_come_with_what_waits_and_go_one_by_one_when_it_is_done(double: TestRuntime) -> None:
    probe = double.observe(Probe())
    refs = double.start_many(Worker, scale=Scale(max=4, per=2, cooldown=10.0))
    assert [ref.name for ref in refs] == ["worker"]
    handles = ask(double, 20)
    double.advance(0.5)
    assert instances(double) == ["worker", "worker-2", "worker-3", "worker-4"]

    double.advance(5.0)
    assert [handle.done for handle in handles] == [True] * 20
    assert sorted(Worker.runs.values()) == [1] * 20
    assert len(set(Worker.begun)) == 4, "what waited for the first was shared among all"
    double.advance(7.0)
    assert len(instances(double)) == 4
    double.advance(60.0)

    assert instances(double) == ["worker"]
    assert changes(probe) == [(1, 4), (4, 3), (3, 2), (2, 1)]
    said = [seen.event.get("why") for seen in probe.events]
    assert "20 delegations wait or run, more than 2 for each of 1" in said
    assert "0 delegations wait or run, and one fewer was enough for 10 s" in said


def test_other_bounds_are_taken_while_instances_run(double: TestRuntime) -> None:
    def bounds(most: int, least: int = 1) -> ScaledAgent:
        names = [f"worker-{number}" for number in range(1, 9)]
        return ScaledAgent("crew", lambda: names, Scale(most, least, per=1, cooldown=5.0), lambda _: None)

    probe = double.observe(Probe())
    double.start_many(Worker, scale=Scale(max=2, per=1))
    handles = ask(double, 8, seconds=30.0)
    double.advance(1.0)
    assert not double.node.scaling.rescale("crew", bounds(4))
    assert double.node.scaling.rescale("worker", bounds(4))
    double.advance(1.0)
    assert instances(double) == ["worker", "worker-1", "worker-2", "worker-3"]
    assert double.node.scaling.rescale("crew", bounds(1))
    double.advance(1.0)
    assert [agent["condition"] for agent in double.agents()].count("draining") == 3
    double.advance(300.0)
    assert len(instances(double)) == 1
    assert double.node.scaling.rescale("crew", bounds(3, 3))
    double.advance(1.0)

    assert len(instances(double)) == 3
    assert [handle.result(0).status for handle in handles] == [Status.COMPLETED] * 8
    assert sorted(Worker.runs.values()) == [1] * 8
    assert changes(probe) == [(1, 2), (2, 4), (4, 1), (1, 3)]
    assert "at most 1" in [seen.event.get("why") for seen in probe.events]


def test_agents_that_are_released_stay_and_those_that_drain_end(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=2, per=4, cooldown=2.0))
    ask(double, 5, seconds=3.0)
    double.advance(1.0)
    slow = ask(double, 2, seconds=100.0)
    double.advance(12.0)
    [draining] = [agent["agent"] for agent in double.agents() if agent["condition"] == "draining"]
    cells, late = double.node.scaling.release(["worker"], 1.0, 5.0)
    assert late == [draining]
    assert [cell.name for cell in cells] == instances(double)
    ask(double, 20)
    double.advance(200.0)

    assert len(instances(double)) == 1, "it does not scale any more"
    assert sorted(handle.result(0).status is Status.COMPLETED for handle in slow) == [False, True]


def test_a_steady_load_has_a_steady_number_of_instances(double: TestRuntime) -> None:
    probe = double.observe(Probe())
    double.start_many(Worker, scale=Scale(max=8, per=2, cooldown=3.0))
    running = ask(double, 6, seconds=4.0)
    for _ in range(60):
        double.advance(1.0)
        running = [handle for handle in running if not handle.done]
        running += ask(double, 6 - len(running), seconds=4.0)

    assert changes(probe) == [(1, 3)]


def test_there_is_no_instance_more_than_the_scale_has_while_some_go(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=3, per=1, cooldown=1.0))
    long = ask(double, 3, seconds=100.0)
    double.advance(1.0)
    assert len(instances(double)) == 3
    long[0].cancel()
    double.advance(10.0)
    assert len(instances(double)) == 2

    more = ask(double, 9)
    for _ in range(20):
        double.advance(1.0)
        assert len(double.agents()) <= 3
    assert [handle.done for handle in more] == [True] * 9


def test_an_instance_that_goes_ends_what_it_runs_and_hands_on_the_rest(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=2, per=4, cooldown=2.0))
    first = ask(double, 5, seconds=3.0)
    double.advance(1.0)
    assert len(instances(double)) == 2
    slow = [double.delegate("work.do", {"n": 100 + n, "seconds": 30.0}, timeout=900.0) for n in range(2)]
    double.advance(12.0)
    draining = [agent["agent"] for agent in double.agents() if agent["condition"] == "draining"]
    assert len(draining) == 1, "both have work for a long time, and one of them takes nothing new"
    late, before = ask(double, 20), len(Worker.begun)
    for _ in range(5):
        double.advance(1.0)
        assert len(double.agents()) == 2, "one that drains counts"
        assert len(Worker.begun) == before, "the one that stays is busy, and the other takes nothing new"
    double.advance(100.0)

    assert {handle.result(0).status for handle in (*first, *slow, *late)} == {Status.COMPLETED}
    assert Worker.runs[100] == Worker.runs[101] == 1
    assert instances(double) == ["worker"] or instances(double) == ["worker-2"]


def test_those_with_the_least_to_do_go_and_not_the_newest_that_works(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=3, per=1, cooldown=2.0))
    ask(double, 3, seconds=3.0)
    double.advance(1.0)
    assert instances(double) == ["worker", "worker-2", "worker-3"]
    works = double.delegate("work.do", {"n": 100, "seconds": 60.0}, to="worker-3", timeout=900.0)
    double.advance(30.0)

    assert instances(double) == ["worker-3"]
    double.advance(40.0)
    assert works.result(0).ok


def test_what_names_an_instance_that_goes_is_refused_when_it_has_gone_and_may_be_asked_again(
    double: TestRuntime,
) -> None:
    double.start_many(Worker, scale=Scale(max=2, per=4, cooldown=2.0))
    busy = ask(double, 5, seconds=60.0)
    double.advance(1.0)
    named = {name: double.delegate("work.do", {"n": 9}, to=name, timeout=500.0) for name in instances(double)}
    for handle in busy:
        if not Worker.runs[busy.index(handle)]:
            handle.cancel()
    double.advance(5.0)
    [gone] = set(named) - set(instances(double))
    [stays] = instances(double)
    double.advance(70.0)

    refused = named[gone].result(0)
    assert refused.status is Status.REJECTED_CAPABILITY
    assert refused.error.retryable
    assert refused.alternative_agent == stays == named[stays].result(0).data
    assert Counter(handle.result(0).status for handle in busy)[Status.COMPLETED] == 2


def test_an_instance_that_is_taken_away_while_it_is_restarted_does_not_come_back(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=3, per=1, cooldown=1.0))
    handles = ask(double, 3)
    double.advance(0.5)
    assert len(instances(double)) == 3
    for name in instances(double):
        double.delegate("work.crash", to=name, timeout=100.0)
    double.advance(60.0)

    assert len(instances(double)) == 1
    assert all(handle.done for handle in handles)


def test_the_name_of_an_instance_that_went_is_as_good_as_new(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=2, per=1, cooldown=1.0))
    for _ in range(3):
        handles = ask(double, 4)
        double.advance(20.0)
        assert [handle.result(0).status for handle in handles] == [Status.COMPLETED] * 4
        assert instances(double) == ["worker"]


def test_an_agent_that_left_does_not_bar_its_name_by_a_late_drain(double: TestRuntime) -> None:
    double.start(Worker)
    host = double.node.agent_host
    cell = host.cell("worker")
    double.stop("worker")
    host.begin_draining([cell])
    double.start(Worker)
    host.begin_draining([cell])
    handles = ask(double, 1)
    double.advance(2.0)

    assert handles[0].result(0).unwrap().data == "worker"


@pytest.mark.filterwarnings("ignore:.*did not start or gave up:RuntimeWarning")
def test_instances_that_do_not_start_are_tried_with_growing_pauses_and_what_waits_is_done(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=2, per=1, cooldown=5.0))
    Worker.clock, Worker.failing = double.clock.monotonic, 5
    handles = ask(double, 60)
    double.advance(70.0)

    gaps = [round(later - at) for at, later in itertools.pairwise(Worker.starts[1:])]
    assert gaps == [1, 2, 4, 8, 16]
    assert [handle.result(0).status for handle in handles] == [Status.COMPLETED] * 60
    assert sorted(Worker.runs.values()) == [1] * 60


@pytest.mark.filterwarnings("ignore:.*gave up:RuntimeWarning")
def test_an_instance_that_gave_up_is_replaced_when_there_are_too_few(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=2, min=1))
    for _ in range(100):
        if not instances(double):
            break
        double.delegate("work.crash", timeout=100.0)
        double.advance(0.4)
    double.advance(70.0)

    assert len(instances(double)) == 1


def test_an_instance_that_is_stopped_by_hand_is_replaced_when_there_are_too_few(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=4, min=2))
    double.stop("worker")
    double.advance(1.0)

    assert instances(double) == ["worker", "worker-2"]


def test_nothing_is_decided_by_the_word_of_a_broker_that_is_gone(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=4, per=1))
    node, now = double.node, double.clock.monotonic()
    node.agent_host.cell("worker").outstanding = 50
    heard, node._session_state.heard = node._session_state.heard, now - 1_000.0
    node.scaling.ticked(now)
    double.run()
    assert len(Worker.starts) == 1

    node._session_state.heard = heard
    node.scaling.ticked(now)
    double.run()
    assert len(Worker.starts) == 4


@pytest.mark.parametrize("least", [1, 3])
def test_an_agent_that_scales_on_two_nodes_has_other_names_on_the_second(double: TestRuntime, least: int) -> None:
    probe = double.observe(Probe())
    double.start_many(Worker, scale=Scale(max=4, min=2))
    with double.join("other") as other:
        refs = other.start_many(Worker, scale=Scale(max=4, min=least, per=1))
        assert [ref.name for ref in refs] == [f"worker-{number}" for number in range(3, 3 + least)]
        other.delegate("work.do", {"n": 1, "seconds": 1.0}, to="worker-3", timeout=100.0)
        ask(double, 20)
        double.advance(0.6)
        nodes = {seen.event["node"] for seen in probe.events if seen.event["event"] == "agent_scaled"}

    assert "other" in nodes, "it tells how many, by the name that the other node's first has"


def test_on_a_second_node_those_are_stopped_that_started_before_one_failed(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=4, min=2))
    with double.join("other") as other:
        start = other.node.agent_host.start_agents

        def last_fails(names: list[str], *args: Any) -> Any:
            if names == ["worker-4"]:
                raise RuntimeError("no licence is left")
            return start(names, *args)

        other.node.agent_host.start_agents = last_fails  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="no licence"):
            other.start_many(Worker, scale=Scale(max=4, min=2))
        assert instances(double) == ["worker", "worker-2"]
        other.node.agent_host.start_agents = start  # type: ignore[method-assign]
        assert len(other.start_many(Worker, scale=Scale(max=4, min=2))) == 2


def test_no_more_start_once_nothing_waits_for_them(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=20, min=2, per=1))
    node = double.node
    group = node.scaling._scaled[0]
    for cell in group.cells:
        cell.outstanding = 10
    start = group.start

    def done_meanwhile(names: list[str]) -> None:
        start(names)
        if len(group.cells) == 3:
            for cell in group.cells:
                cell.outstanding = 0

    group.start = done_meanwhile
    node.scaling.ticked(double.clock.monotonic())
    double.run()

    assert len(instances(double)) == 4, "one had started when it was seen"


def test_what_one_that_goes_still_runs_is_counted(double: TestRuntime) -> None:
    probe = double.observe(Probe())
    double.start_many(Worker, scale=Scale(max=8, per=2, cooldown=2.0))
    running: list[Any] = []
    for seconds, load in ((10, 8), (100, 5)):
        for _ in range(2 * seconds):
            running = [handle for handle in running if not handle.done]
            running += ask(double, load - len(running), seconds=20.0)
            double.advance(0.5)

    assert changes(probe) == [(1, 4), (4, 3)]


def test_no_instance_goes_between_two_bursts_that_are_shorter_than_the_looks_of_the_node(double: TestRuntime) -> None:
    probe = double.observe(Probe())
    double.start_many(Worker, scale=Scale(max=4, per=2, cooldown=2.0))
    ask(double, 8)
    double.advance(1.5)
    for _ in range(40):
        ask(double, 1, seconds=0.01)  # which the node is told of at once, and of what comes next a little later
        double.advance(0.05)
        ask(double, 8, seconds=0.01)
        double.advance(0.68)

    assert changes(probe) == [(1, 4)]
    double.advance(10.0)
    assert changes(probe) == [(1, 4), (4, 3), (3, 2), (2, 1)]


def test_a_peak_that_was_told_is_kept_until_the_node_looks(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=4))
    host, group = double.node.agent_host, double.node.scaling._scaled[0]
    host.note_outstanding({"worker": 1}, {"worker": 9})
    host.note_outstanding({"worker": 1}, {"worker": 3})
    host.note_outstanding({"worker": 1}, {})

    assert [group.take_most() for _ in range(2)] == [9, 0]
    host.note_outstanding({"worker": 0}, {})


def test_the_cooldown_begins_anew_when_no_broker_was_heard_meanwhile(double: TestRuntime) -> None:
    double.start_many(Worker, scale=Scale(max=4, per=1, cooldown=10.0))
    handles = ask(double, 4)
    double.advance(5.0)
    assert [handle.done for handle in handles] == [True] * 4
    node, looked = double.node, double.clock.monotonic()
    for later in (0.0, 11.0, 12.0, 13.0):
        node._session_state.heard = looked + later
        node.scaling.ticked(looked + later)
        double.run()

    assert [agent["condition"] for agent in double.agents()] == ["up"] * 4


@pytest.mark.parametrize("leaves", [lambda bus: bus.stop("worker-2"), lambda bus: bus.close(0.0)])
def test_what_is_handed_back_comes_to_the_broker_after_the_word_that_its_agent_drains(
    double: TestRuntime, leaves: Callable[[Runtime], object]
) -> None:
    """Else it would come again, and be handed back again."""
    with double.join("other") as other:
        other.start_many(Worker, 2)
        host, sent = other.node.agent_host, []
        send, state = host._sender.send, other.node._session_state

        def noted(envelope: bytes) -> None:
            header = read_header(envelope)
            if header.kind == Kind.UNREGISTER and header.flags & DRAINS:
                sent.append(state.is_draining or bool(host._leaving))
            send(envelope)

        host._sender.send = noted  # type: ignore[method-assign]
        leaves(other)
        host._sender.send = send  # type: ignore[method-assign]

    assert sent[:1] == [False]


def test_names_that_are_taken_are_passed_over(double: TestRuntime) -> None:
    double.start(Worker)
    with double.join("other") as other:
        other.start(Worker, name="worker-3")
        double.start_many(Worker, scale=Scale(max=3, per=1))
        handles = ask(double, 30)
        double.advance(3.0)

        assert instances(double) == ["worker", "worker-2", "worker-3", "worker-4", "worker-5"]
        double.advance(30.0)
        assert {handle.result(0).status for handle in handles} == {Status.COMPLETED}


def test_names_that_others_are_known_to_have_are_not_tried(double: TestRuntime) -> None:
    started = list[str]()

    def start(names: list[str]) -> None:
        started.extend(names)
        double.node.agent_host.start_agents(names, Worker, Worker)

    names = ["crew", "crew-2", "crew-3"]
    double.node.scaling.add(ScaledAgent("crew", lambda: names, Scale(max=2, min=2), start), foreign_names=["crew"])
    assert started == instances(double) == ["crew-2", "crew-3"]
    with pytest.raises(DuplicateAgent, match="Others on the bus have all names that the agent 'more' may have"):
        double.node.scaling.add(ScaledAgent("more", lambda: ["more"], Scale(max=1), start), foreign_names=["more"])
    assert instances(double) == ["crew-2", "crew-3"]


def test_all_instances_are_stopped_together(double: TestRuntime) -> None:
    double.start_many(Worker, name="crew", scale=Scale(max=3, per=1))
    handles = ask(double, 3)
    double.advance(0.5)
    with pytest.raises(DuplicateAgent, match="'crew' scales on this node already: give another name, or stop it"):
        double.start_many(Worker, name="crew", scale=Scale(max=3))
    with pytest.raises(UnknownAgent, match=r"No agent 'crw' scales on this node\. Did you mean 'crew'\?"):
        double.stop_many("crw")
    with pytest.raises(
        UnknownAgent, match=r"'crew-2' is an instance of 'crew': bus\.stop_many\('crew'\) stops all of them"
    ):
        double.stop_many("crew-2")
    double.stop_many("crew", 0.0)
    double.advance(30.0)

    assert instances(double) == []
    assert all(handle.done for handle in handles)
    double.start_many(Worker, name="crew", scale=Scale(max=3))
    assert instances(double) == ["crew"]


class Total(BaseModel):
    done: int = 0


class Keeping(Agent):
    state: Total

    @capability("keep.it")
    def keep(self) -> int:
        return self.state.done


def test_what_cannot_scale_leaves_nothing_behind(double: TestRuntime) -> None:
    for make in (Keeping, partial(Keeping)):
        with pytest.raises(UsageError, match="Keeping cannot scale: it has a state"):
            double.start_many(make, scale=Scale(max=2))
    with pytest.raises(UsageError, match=r"start_many takes how many, .* or scale=Scale\(max=8\): one of the two"):
        double.start_many(Worker)
    with pytest.raises(UsageError, match="only one of the two"):
        double.start_many(Worker, 2, scale=Scale(max=2))
    with pytest.raises(UsageError, match=r"start_many: scale is 2; give a Scale, as in Scale\(max=8\)"):
        double.start_many(Worker, scale=2)  # type: ignore[arg-type]
    Worker.failing = 1
    with pytest.raises(RuntimeError, match="no licence"):
        double.start_many(Worker, scale=Scale(max=2))

    assert instances(double) == []
    double.start_many(Worker, scale=Scale(max=2))
    assert instances(double) == ["worker"]


class Slow(Agent):
    """Works until it is let go, in a thread; the starts after the first wait too."""

    go_on: threading.Event
    starting: threading.Event
    stopped: list[str]
    starts = 0
    waits_at_start = False

    def on_start(self) -> None:
        Slow.starts += 1
        if Slow.waits_at_start and Slow.starts > 1:
            Slow.starting.set()
            assert Slow.go_on.wait(PATIENCE)

    def on_stop(self) -> None:
        Slow.stopped.append(str(self.agent_name))

    @capability("slow.do")
    def do(self, task: Task) -> str:
        while not Slow.go_on.wait(0.01) and not task.cancelled:
            pass
        return str(self.agent_name)


@pytest.fixture(params=["embedded", "joined"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    Slow.go_on, Slow.starting, Slow.stopped, Slow.starts = threading.Event(), threading.Event(), [], 0
    Slow.waits_at_start = False
    if request.param == "embedded":
        with Runtime(name="desk", threads=8) as made:
            yield made
    else:
        url = f"ipc://{tmp_path}/bus.sock"
        with Runtime(bind=url, name="host"), Runtime.connect(url, name="desk", threads=8) as made:
            yield made


def test_on_a_bus_with_threads_they_come_and_go_and_each_delegation_is_done_once(bus: Runtime) -> None:
    bus.start_many(Slow, scale=Scale(max=4, per=2, cooldown=0.3))
    handles = [bus.delegate("slow.do", timeout=60) for _ in range(12)]
    wait_until(lambda: len(instances(bus)) == 4)
    Slow.go_on.set()
    done = [handle.result(PATIENCE).unwrap().data for handle in handles]
    wait_until(lambda: instances(bus) == ["slow"])

    assert len(done) == 12
    assert len(set(done)) == 4
    wait_until(lambda: len(Slow.stopped) == 3)


def test_a_bus_that_closes_while_an_instance_starts_leaves_none(bus: Runtime) -> None:
    Slow.waits_at_start = True
    bus.start_many(Slow, scale=Scale(max=2, per=1))
    handles = [bus.delegate("slow.do", timeout=60) for _ in range(4)]
    assert Slow.starting.wait(PATIENCE)
    node = bus.node
    closing = threading.Thread(target=bus.close, args=(0.1,))
    closing.start()
    wait_until(lambda: node._session_state.is_draining)
    Slow.go_on.set()
    closing.join(PATIENCE)

    assert not closing.is_alive()
    assert all(handle.done for handle in handles)
    wait_until(lambda: {cell.state for cell in node.agent_host.cells} <= {CellState.STOPPED})


def test_an_instance_that_starts_too_late_for_a_release_ends_when_it_has(bus: Runtime) -> None:
    Slow.waits_at_start = True
    bus.start_many(Slow, scale=Scale(max=2, per=1))
    handles = [bus.delegate("slow.do", timeout=60) for _ in range(4)]
    assert Slow.starting.wait(PATIENCE)
    cells, late = bus.node.scaling.release(["slow"], 0.05, 0.0)
    assert ([cell.name for cell in cells], late) == (["slow"], [])
    Slow.go_on.set()

    assert {handle.result(PATIENCE).unwrap().data for handle in handles} >= {"slow"}
    wait_until(lambda: Slow.stopped == ["slow-2"])
    assert instances(bus) == ["slow"]


@pytest.mark.parametrize("patience", [0.05, PATIENCE])
def test_an_agent_that_is_released_before_its_first_instance_has_failed_does_not_go_on(
    bus: Runtime, patience: float
) -> None:
    Slow.waits_at_start, Slow.starts, failures = True, 1, []

    class Broken(Slow):
        def on_start(self) -> None:
            super().on_start()
            raise RuntimeError("it is broken")

    def start() -> None:
        with pytest.raises(Closed, match="'broken' was stopped while it started") as failure:
            bus.start_many(Broken, scale=Scale(max=2))
        failures.append(failure.value)

    starting = threading.Thread(target=start)
    starting.start()
    assert Slow.starting.wait(PATIENCE)
    releasing = threading.Thread(target=bus.node.scaling.release, args=(["broken"], patience, 0.0))
    releasing.start()
    wait_until(lambda: not bus.node.scaling._scaled)
    Slow.go_on.set()
    starting.join(PATIENCE)
    releasing.join(PATIENCE)

    assert len(failures) == 1
    assert bus.node.agent_host.agent_names == set()


def test_no_more_are_started_than_bounds_allow_that_change_meanwhile(bus: Runtime) -> None:
    Slow.waits_at_start = True
    bus.start_many(Slow, scale=Scale(max=4, per=1))
    handles = [bus.delegate("slow.do", timeout=60) for _ in range(8)]
    assert Slow.starting.wait(PATIENCE)
    names = ["slow", "slow-2", "slow-3", "slow-4"]
    assert bus.node.scaling.rescale("slow", ScaledAgent("slow", lambda: names, Scale(max=2, per=1), lambda _: None))
    Slow.go_on.set()

    assert {handle.result(PATIENCE).unwrap().data for handle in handles} <= {"slow", "slow-2"}
    assert Slow.starts == 2


def test_scaling_that_is_ended_while_an_instance_starts_ends_that_too(bus: Runtime) -> None:
    Slow.waits_at_start = True
    bus.start_many(Slow, scale=Scale(max=2, per=1))
    handles = [bus.delegate("slow.do", timeout=60) for _ in range(4)]
    assert Slow.starting.wait(PATIENCE)
    stopping = threading.Thread(target=bus.stop_many, args=("slow", 0.2))
    stopping.start()
    stopping.join(PATIENCE)
    Slow.go_on.set()

    wait_until(lambda: sorted(Slow.stopped) == ["slow", "slow-2"])
    assert [handle.result(PATIENCE) for handle in handles]
    assert instances(bus) == []
