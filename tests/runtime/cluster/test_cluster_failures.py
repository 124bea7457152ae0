"""What a cluster does when its processes die: each test kills real ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ether import Handle, Observation, Observer, Response, Runtime, Status, as_completed
from ether.cluster import Cluster
from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NodeSpec
from ether.cluster.node_main import ESCALATED
from ether.errors import ProcessFailed
from ether.observers import Probe
from ether_actors.backoff import Backoff
from ether_actors.restarts.supervisor_spec import Restart
from ether_actors.restarts.tree import Lifecycle
from ether_broker.errors import EtherError
from tests.support import process_is_alive, wait_until

WORKER = "tests.runtime.agents:Worker"
AT_ONCE = Backoff(initial=0.0)
SOON = Backoff(initial=0.02, maximum=0.02)


class Bus:
    """A cluster, a runtime on it, and a folder that the handlers of its workers look into."""

    def __init__(self, cluster: Cluster, bus: Runtime, folder: Path, events: list[str]) -> None:
        self.cluster = cluster
        self.bus = bus
        self.folder = folder
        self.events = events

    def pid(self, name: str) -> int | None:
        return next(entry.pid for entry in self.cluster.statistics() if entry.name == name)

    def restarts(self, name: str) -> int:
        return next(entry.restarts for entry in self.cluster.statistics() if entry.name == name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        pid = self.pid(name)
        assert pid is not None
        os.kill(pid, number)
        return pid

    def begin(self, capability: str, **options: object) -> Handle:
        """Delegate work that runs until `go`."""
        return self.bus.delegate(capability, {"folder": str(self.folder)}, **options)  # type: ignore[arg-type]

    def attempts(self, handle: Handle) -> int:
        return len(list(self.folder.glob(f"{handle.id}.*")))

    def wait_running(self, *handles: Handle, attempt: int = 1) -> None:
        wait_until(lambda: all(self.attempts(handle) >= attempt for handle in handles), what="the handlers run")

    def go(self) -> None:
        (self.folder / "go").touch()

    def node_of(self, agent: str) -> str | None:
        known = {entry["agent"]: entry["node"] for entry in self.bus.agents() if entry["condition"] == "up"}
        return known.get(agent)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Bus]:
    """One worker on each of two nodes."""
    events: list[str] = []
    with (
        Cluster(nodes=2, agents=[WORKER], drain=5.0, on_event=events.append) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        yield Bus(cluster, bus, tmp_path, events)


def outcome(handle: Handle, timeout: float = 10.0) -> Response:
    return handle.result(timeout)


def code(response: Response) -> str | None:
    return response.error.code if response.error else None


# -- a node ------------------------------------------------------------------------------------------------------


def test_a_killed_nodes_idempotent_work_runs_again_elsewhere_and_other_work_ends_as_lost(two: Bus):
    once = two.begin("work.once", to="worker-2")
    two.wait_running(once)
    other = two.begin("work.again", to="worker")
    two.wait_running(other)
    two.kill("node-2")
    response = outcome(once)
    two.go()

    assert (response.status, code(response)) == (Status.FAILED_EXECUTION, "node_lost")
    assert outcome(other).unwrap().data["attempt"] == 1
    assert two.attempts(once) == 1


def test_idempotent_work_is_redelivered_with_its_attempt_number(two: Bus):
    handle = two.begin("work.again")
    two.wait_running(handle)
    holder = int(next(two.folder.glob(f"{handle.id}.1")).read_text())
    node = next(entry.name for entry in two.cluster.statistics() if entry.pid == holder)
    two.kill(node)
    two.wait_running(handle, attempt=2)
    two.go()
    data = outcome(handle).unwrap().data

    assert data["attempt"] == 2
    assert data["pid"] != holder


def test_a_killed_node_comes_back_under_its_name_with_its_agents_and_their_mail(two: Bus):
    running = two.begin("work.once", to="worker-2")
    two.wait_running(running)
    named = two.bus.delegate("work.alone", to="worker-2")
    before = two.kill("node-2")
    wait_until(lambda: two.restarts("node-2") == 1 and two.node_of("worker-2"), what="the node is back")
    after = two.pid("node-2")

    assert after != before
    assert not any("did not start" in event for event in two.events)
    assert outcome(running).status is Status.FAILED_EXECUTION
    assert code(outcome(named)) in {None, "node_lost"}  # it may have been in the dead node's hands already
    assert outcome(two.bus.delegate("work.alone", to="worker-2")).unwrap().data["pid"] == after
    assert "node-2 went down (killed by SIGKILL)" in two.events


def test_a_node_that_is_told_to_end_finishes_what_runs_and_hands_back_what_waits(two: Bus):
    first = two.begin("work.once", to="worker-2")
    two.wait_running(first)
    waiting = [two.begin("work.once") for _ in range(6)]
    pid = two.pid("node-2")
    two.kill("node-2", signal.SIGTERM)
    wait_until(lambda: two.node_of("worker-2") is None, what="the node drains")
    two.go()
    done = [outcome(handle).unwrap().data for handle in waiting]

    assert outcome(first).unwrap().data["pid"] == pid
    assert {data["agent"] for data in done} <= {"worker", "worker-2"}
    assert all(data["pid"] != pid for data in done)
    assert all(data["attempt"] == 1 for data in done)
    assert all(two.attempts(handle) == 1 for handle in waiting)
    wait_until(lambda: "node-2 went down (exit code 0)" in two.events)


def test_work_that_outlasts_the_drain_is_ruled_as_lost(tmp_path: Path):
    with (
        Cluster(nodes=1, agents=[WORKER], drain=0.3) as cluster,
        Runtime.connect(cluster.url) as connected,
    ):
        bus = Bus(cluster, connected, tmp_path, [])
        handle = bus.begin("work.once")
        bus.wait_running(handle)
        bus.kill("node-1", signal.SIGTERM)
        response = outcome(handle)

    assert (response.status, code(response)) == (Status.FAILED_EXECUTION, "node_lost")


def test_a_second_signal_ends_a_node_at_once(two: Bus):
    handle = two.begin("work.once", to="worker-2")
    two.wait_running(handle)
    pid = two.kill("node-2", signal.SIGTERM)
    wait_until(lambda: two.node_of("worker-2") is None, what="the node drains")
    assert process_is_alive(pid)
    os.kill(pid, signal.SIGTERM)

    assert code(outcome(handle)) == "node_lost"
    wait_until(lambda: "node-2 went down (exit code 143)" in two.events)


def test_an_agent_that_crashes_too_often_leaves_the_bus_and_nobody_else_does(tmp_path: Path):
    said: list[str] = []
    node = NodeSpec("n1", (AgentSpec(WORKER, "loop", backoff=AT_ONCE), AgentSpec(WORKER, "neighbour")))
    with (
        Cluster([node], intensity=0, on_output=lambda _name, line: said.append(line)) as cluster,
        Runtime.connect(cluster.url) as connected,
    ):
        probe = connected.observe(Probe())
        bus = Bus(cluster, connected, tmp_path, [])
        for _ in range(4):
            assert code(outcome(connected.delegate("work.crash", to="loop"))) == "agent_crash"
        wait_until(lambda: [agent["agent"] for agent in connected.agents()] == ["neighbour"])

        refused = outcome(connected.delegate("work.alone", to="loop"))
        assert (refused.status, code(refused)) == (Status.REJECTED_CAPABILITY, "unknown_agent")
        assert outcome(connected.delegate("work.alone")).unwrap().data["agent"] == "neighbour"
        assert bus.restarts("n1") == 0
        assert cluster.failed is None
        wait_until(lambda: any("loop gave up: more than 3 restarts in 5 s" in line for line in said))
        gone = probe.expect(event="agent_down", where=lambda seen: seen.event["agent"] == "loop")
        assert "more than 3 restarts in 5 s" in gone.event["reason"]


def test_an_agent_that_escalates_ends_its_node_which_is_started_again(tmp_path: Path):
    events: list[str] = []
    nodes = [NodeSpec("n1", (AgentSpec(WORKER),)), NodeSpec("n2", (AgentSpec(WORKER, intensity=0, escalate=True),))]
    with Cluster(nodes, on_event=events.append) as cluster, Runtime.connect(cluster.url) as connected:
        two = Bus(cluster, connected, tmp_path, events)
        outcome(connected.delegate("work.crash", to="worker-2"))
        wait_until(lambda: f"n2 went down (exit code {ESCALATED})" in two.events, what="one crash is one too many")
        wait_until(lambda: two.restarts("n2") == 1 and two.node_of("worker-2"), what="the node is back")

        assert two.restarts("n1") == 0
        assert not any("did not start" in event for event in two.events)


@pytest.mark.parametrize("how", ["error", "exit", "rejected"])
def test_an_agent_that_does_not_start_with_its_restarted_node_is_started_again_and_keeps_no_other_away(
    tmp_path: Path, how: str
):
    started = tmp_path / "started"
    broken = AgentSpec(
        "tests.runtime.agents:StartsWith", kwargs={"folder": str(tmp_path)}, intensity=1000, backoff=SOON
    )
    with (
        Cluster([NodeSpec("n1", (broken, AgentSpec(WORKER)))], intensity=1) as cluster,
        Runtime.connect(cluster.url) as connected,
    ):
        bus = Bus(cluster, connected, tmp_path, [])
        (tmp_path / "broken").write_text(how)
        bus.kill("n1")
        wait_until(lambda: bus.restarts("n1") == 1 and bus.node_of("worker"), what="the node is back")
        assert bus.node_of("starts-with") is None
        wait_until(lambda: started.stat().st_size >= 4, what="it is started again and again")
        (tmp_path / "broken").unlink()
        wait_until(lambda: bus.node_of("starts-with"), what="it has started")

        assert outcome(connected.delegate("starts.with")).ok
        assert bus.restarts("n1") == 1


def test_an_agent_that_never_starts_with_its_restarted_node_is_gone_or_takes_the_node_along(tmp_path: Path):
    options = {"kwargs": {"folder": str(tmp_path)}, "intensity": 2, "backoff": AT_ONCE}
    specs = [
        AgentSpec("tests.runtime.agents:StartsWith", restart=word, **options) for word in ("permanent", "temporary")
    ]
    with (
        Cluster([NodeSpec("n1", (*specs, AgentSpec(WORKER)))], intensity=1) as cluster,
        Runtime.connect(cluster.url) as connected,
    ):
        bus = Bus(cluster, connected, tmp_path, [])
        (tmp_path / "broken").touch()
        bus.kill("n1")
        wait_until(lambda: bus.restarts("n1") == 1 and bus.node_of("worker"), what="the node is back")
        wait_until(lambda: len(connected.agents()) == 1 or bus.node_of("starts-with") is None)
        assert cluster.failed is None


def test_an_agent_that_hangs_as_it_starts_with_its_restarted_node_does_not_keep_the_node_away(tmp_path: Path):
    slow = AgentSpec("tests.runtime.agents:StartsWith", kwargs={"folder": str(tmp_path)})
    with (
        Cluster([NodeSpec("n1", (slow, AgentSpec(WORKER)))], intensity=1, start_timeout=4.0) as cluster,
        Runtime.connect(cluster.url) as connected,
    ):
        bus = Bus(cluster, connected, tmp_path, [])
        (tmp_path / "hangs").touch()
        bus.kill("n1")
        wait_until(lambda: bus.restarts("n1") == 1 and bus.node_of("worker"), 20.0, what="the node is back")
        (tmp_path / "hangs").unlink()
        wait_until(lambda: bus.node_of("starts-with"), what="it has started")
        assert cluster.failed is None


def test_a_temporary_agent_that_crashes_stays_away():
    nodes = [NodeSpec("n1", (AgentSpec(WORKER, restart=Restart.TEMPORARY),))]
    with Cluster(nodes) as cluster, Runtime.connect(cluster.url) as bus:
        bus.delegate("work.crash").result()
        wait_until(lambda: bus.agents() == [])

        assert code(outcome(bus.delegate("work.alone"))) == "no_holder"


def test_a_crash_loop_ends_the_cluster_and_says_why():
    told: list[ProcessFailed] = []
    cluster = Cluster(
        agents=["tests.runtime.agents:EndsAtOnce"], intensity=1, period=60.0, backoff=Backoff(initial=0.0),
        on_failed=told.append,
    )  # fmt: skip
    with cluster:
        assert cluster.wait(20.0)
        failed = cluster.failed
        assert failed is not None
        assert "node-1 ended more than 1 times in 60 s, the last time with: exit code 3" in str(failed)
        assert (failed.process, failed.exit) == ("node-1", 3)
        assert [entry.pid for entry in cluster.statistics()] == [None, None]

    assert told == [failed]


@pytest.mark.filterwarnings("ignore:loop gave up, and the others go on:RuntimeWarning")
def test_a_node_that_crashes_again_and_again_takes_no_other_down_and_is_started_by_a_reload():
    loop = NodeSpec("loop", (AgentSpec("tests.runtime.agents:EndsAtOnce", name="it"),))
    good = NodeSpec("good", (AgentSpec(WORKER),))
    spec = ClusterSpec((loop, good), intensity=1, period=60.0, backoff=AT_ONCE)
    said: list[str] = []
    with Cluster(spec, on_event=said.append) as cluster, Runtime.connect(cluster.url) as bus:
        before = {entry.name: entry.pid for entry in cluster.statistics()}
        wait_until(lambda: any("loop gave up, and the others go on: it ended more than 1" in line for line in said))
        assert bus.delegate("work.alone", to="worker").result().ok
        wait_until(lambda: {agent["agent"]: agent["condition"] for agent in bus.agents()}["it"] == "down")
        assert code(outcome(bus.delegate("loop.turn", to="it"))) == "agent_down"

        report = cluster.reload(replace(spec, nodes=(replace(loop, agents=(AgentSpec(WORKER, "it"),)), good)))
        assert report.started == ("loop", "loop/it")
        assert bus.delegate("work.alone", to="it").result().ok
        after = {entry.name: (entry.pid, entry.restarts) for entry in cluster.statistics()}
        assert (after["broker"], after["good"]) == ((before["broker"], 0), (before["good"], 0))
        assert cluster.failed is None


def test_a_cluster_that_escalates_ends_with_a_node_that_crashes_again_and_again():
    nodes = (NodeSpec("loop", (AgentSpec("tests.runtime.agents:EndsAtOnce"),)), NodeSpec("good", (AgentSpec(WORKER),)))
    with Cluster(nodes, intensity=1, period=60.0, backoff=Backoff(initial=0.0), escalate=True) as cluster:
        assert cluster.wait(20.0)
        assert cluster.failed is not None
        assert cluster.failed.process == "loop"


def test_leaving_ends_a_handler_that_does_not_listen(tmp_path: Path):
    with Cluster(agents=[WORKER], drain=0.2) as cluster, Runtime.connect(cluster.url, drain=0.0) as bus:
        bus.delegate("work.stubborn", {"folder": str(tmp_path)})
        wait_until((tmp_path / "stubborn").exists)
        pids = [entry.pid for entry in cluster.statistics()]

    assert not any(process_is_alive(pid) for pid in pids if pid)


# -- the broker --------------------------------------------------------------------------------------------------


class Sees(Observer):
    """Notes every event and every gap."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.events: list[str] = []
        self.gaps: list[tuple[int, int]] = []

    def on_message(self, observation: Observation) -> None:
        self.seen.append(observation.number)
        super().on_message(observation)

    def on_event(self, observation: Observation) -> None:
        self.events.append(observation.event["event"])

    def on_gap(self, first: int, last: int) -> None:
        self.gaps.append((first, last))


@pytest.mark.parametrize("bind", [None, "tcp://127.0.0.1:*"])
def test_a_killed_broker_comes_back_and_everybody_joins_it_again(tmp_path: Path, bind: str | None):
    with (
        Cluster(nodes=2, agents=[WORKER], bind=bind) as cluster,
        Runtime.connect(cluster.url, name="delegator") as connected,
    ):
        two = Bus(cluster, connected, tmp_path, [])
        url = cluster.url
        observer = two.bus.observe(Sees())
        monitor = two.bus.monitor("worker")
        running = [two.begin("work.once", to="worker"), two.begin("work.again", to="worker-2")]
        two.wait_running(*running)
        waiting = two.begin("work.once", to="worker")
        before = two.kill("broker")
        lost = [outcome(handle) for handle in as_completed([*running, waiting], 15.0)]

        assert {(response.status, code(response)) for response in lost} == {(Status.FAILED_EXECUTION, "broker_lost")}
        assert two.restarts("broker") == 1
        assert two.pid("broker") != before
        assert cluster.url == url
        assert monitor.wait(5.0)
        assert monitor.reason == "broker_lost"

        # Those who worked have been cancelled, and everything is in place for new work.
        wait_until(lambda: two.node_of("worker") == "node-1" and two.node_of("worker-2") == "node-2")
        data = [outcome(two.bus.delegate("work.alone", to=name)).unwrap().data for name in ("worker", "worker-2")]
        assert [entry["pid"] for entry in data] == [two.pid("node-1"), two.pid("node-2")]
        assert two.attempts(waiting) == 0

        # The observer has seen everything of the new broker, from its first message on.
        assert two.bus.settle(observer)
        numbers = observer.seen[observer.seen.index(1) :]
        assert numbers == list(range(1, len(numbers) + 1))
        assert observer.gaps == []
        assert two.bus.statistics()["open"] == 0


@pytest.mark.slow
def test_the_broker_is_never_waited_for_as_long_as_a_node_is():
    backoff = Backoff(initial=0.01, factor=10_000.0, maximum=100.0)
    with Cluster(nodes=1, agents=[WORKER], intensity=10, backoff=backoff) as cluster:
        for _ in range(3):  # the second of these restarts waits a hundredth of a second, the third a hundred

            def pid() -> int | None:
                return cluster.statistics()[0].pid if cluster.statistics()[0].state is Lifecycle.RUNNING else None

            before = wait_until(pid)
            cluster.signal("broker", signal.SIGKILL)
            wait_until(lambda pid=pid, before=before: pid() not in {None, before}, what="the broker is back")


def test_work_delegated_while_there_is_no_broker_ends_typed(two: Bus):
    two.kill("broker")
    handles = [two.bus.delegate("work.alone", timeout=10.0) for _ in range(20)]
    responses = [outcome(handle, 15.0) for handle in handles]

    assert all(response.ok or code(response) == "broker_lost" for response in responses)
    assert wait_until(lambda: two.node_of("worker") and two.node_of("worker-2"))


def test_a_draining_node_ends_soon_when_what_it_works_for_was_lost_with_the_broker(tmp_path: Path):
    events: list[str] = []
    with (
        Cluster(nodes=2, agents=[WORKER], drain=60.0, on_event=events.append) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        two = Bus(cluster, bus, tmp_path, events)
        handle = two.begin("work.once", to="worker-2")
        two.wait_running(handle)
        two.kill("node-2", signal.SIGTERM)
        wait_until(lambda: two.node_of("worker-2") is None, what="the node drains")
        two.kill("broker")

        assert code(outcome(handle, 20.0)) == "broker_lost"
        wait_until(lambda: "node-2 went down (exit code 0)" in events, 20.0, "its handler was cancelled")


def test_a_node_that_stood_still_for_too_long_is_let_in_again_and_its_old_run_says_nothing(two: Bus):
    pid = two.pid("node-2")
    assert pid is not None
    running = two.begin("work.again", to="worker-2")
    two.wait_running(running)
    os.kill(pid, signal.SIGSTOP)  # longer than a node may be silent
    wait_until(lambda: two.node_of("worker-2") is None, what="the node is given up")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: two.node_of("worker-2"), what="the node is back")
    two.wait_running(running, attempt=2)
    two.go()

    assert outcome(running).unwrap().data["attempt"] == 2
    assert two.pid("node-2") == pid


def test_a_node_that_cannot_start_does_not_cost_the_broker_its_orderly_end(tmp_path: Path):
    events: list[str] = []
    journal = tmp_path / "journal.db"
    cluster = Cluster(
        nodes=[NodeSpec("n", agents=[AgentSpec("os:system")])], durability="journal", journal=journal,
        on_event=events.append,
    )  # fmt: skip

    with pytest.raises(EtherError, match="system"):
        cluster.open()

    assert [event for event in events if event.startswith("broker")][-1] == "broker has ended (exit code 0)"
    assert [path.name for path in tmp_path.iterdir()] == [journal.name]
