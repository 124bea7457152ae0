"""What survives with a journal: each test kills real processes, and then asks for everything that was accepted."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import Agent, Observation, Observer, Runtime, Status, UsageError, capability
from ether.cluster import Cluster
from ether_broker.envelope.payload import unpack
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import Kind
from tests.runtime.agents import Worker
from tests.runtime.cluster.test_cluster_failures import WORKER, Bus, code, outcome
from tests.support import child_environment, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Bus]:
    """A worker on each of two nodes, a broker with a journal, and a delegator."""
    events: list[str] = []
    journal = tmp_path / "state" / "journal.db"
    with (
        Cluster(nodes=2, agents=[WORKER], drain=5.0, on_event=events.append, journal=str(journal)) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        yield Bus(cluster, bus, tmp_path, events)


class Numbers(Observer):
    """Notes the number of each message."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def on_message(self, observation: Observation) -> None:
        self.seen.append(observation.number)


def test_what_runs_goes_on_when_its_broker_is_killed(kept: Bus):
    running = [kept.begin("work.once", timeout=60.0), kept.begin("work.again", timeout=60.0)]
    waiting = [kept.begin("work.once", timeout=60.0) for _ in range(20)]
    kept.wait_running(*running)
    numbers = kept.bus.observe(Numbers(), since=1)

    kept.kill("broker")
    later = kept.begin("work.once", timeout=60.0)  # while nobody is there to take it
    kept.go()

    handles = [*running, *waiting, later]
    assert {outcome(handle, 30.0).status for handle in handles} == {Status.COMPLETED}
    assert [kept.attempts(handle) for handle in handles] == [1] * len(handles)
    assert kept.bus.settle(numbers)
    assert numbers.missed == 0
    assert numbers.seen == list(range(1, len(numbers.seen) + 1))


@pytest.fixture
def draining(tmp_path: Path) -> Iterator[Bus]:
    """As `kept`, with time for a broker to be restarted while a node drains."""
    events: list[str] = []
    journal = str(tmp_path / "journal.db")
    with (
        Cluster(nodes=2, agents=[WORKER], drain=30.0, on_event=events.append, journal=journal) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        yield Bus(cluster, bus, tmp_path, events)


def condition_of(kept: Bus, agent: str) -> str | None:
    return next((entry["condition"] for entry in kept.bus.agents() if entry["agent"] == agent), None)


def test_what_ends_while_its_node_drains_is_delivered_to_a_restarted_broker(draining: Bus):
    running = draining.begin("work.once", timeout=60.0, to="worker-2")
    draining.wait_running(running)
    draining.kill("node-2", signal.SIGTERM)
    wait_until(lambda: condition_of(draining, "worker-2") == "draining", what="the node drains")

    draining.kill("broker")
    wait_until(lambda: condition_of(draining, "worker-2") == "draining", 20.0, "it drains at the new broker")
    refused = draining.begin("work.once", timeout=60.0, to="worker-2")
    others = [draining.begin("work.once", timeout=60.0) for _ in range(3)]
    assert code(outcome(refused)) == "agent_draining"
    draining.go()

    assert {outcome(handle, 30.0).unwrap().data["agent"] for handle in others} == {"worker"}
    assert outcome(running, 30.0).unwrap().data["agent"] == "worker-2"
    assert draining.attempts(running) == 1
    wait_until(lambda: "node-2 went down (exit code 0)" in draining.events, 20.0)


@pytest.mark.parametrize("drains_first", [True, False], ids=["drains", "broker-ends"])
def test_what_ends_in_a_draining_node_while_there_is_no_broker_is_delivered_to_the_next(kept: Bus, drains_first: bool):
    with Runtime.connect(kept.cluster.url, name="host", drain=30.0) as host:
        host.start(Worker, name="here")
        running = kept.begin("work.once", timeout=60.0, to="here")
        kept.wait_running(running)
        node, closing = host.node, threading.Thread(target=host.close)
        if drains_first:
            closing.start()
            wait_until(lambda: condition_of(kept, "here") == "draining", what="the node drains")
        kept.kill("broker")
        if not drains_first:
            closing.start()
            wait_until(lambda: node._session_state.is_draining, what="the node drains")
        kept.go()

        assert outcome(running, 40.0).unwrap().data["agent"] == "here"
        closing.join(20.0)
        assert not closing.is_alive()
    wait_until(lambda: condition_of(kept, "here") is None, what="it has left")


def test_an_agent_that_is_being_stopped_drains_on_at_a_restarted_broker(kept: Bus):
    with Runtime.connect(kept.cluster.url, name="host") as host:
        host.start(Worker, name="here")
        running = kept.begin("work.once", timeout=60.0, to="here")
        kept.wait_running(running)
        stopping = threading.Thread(target=lambda: host.stop("here", timeout=30.0))
        stopping.start()
        wait_until(lambda: condition_of(kept, "here") == "draining", what="the agent drains")

        kept.kill("broker")
        wait_until(lambda: condition_of(kept, "here") == "draining", 20.0, "it drains at the new broker")
        refused = kept.begin("work.once", timeout=60.0, to="here")
        assert code(outcome(refused)) == "agent_draining"
        kept.go()

        assert outcome(running, 30.0).unwrap().data["agent"] == "here"
        stopping.join(20.0)
        assert not stopping.is_alive()
        assert condition_of(kept, "here") is None
        host.start(Worker, name="here")
        assert outcome(kept.begin("work.once", timeout=20.0, to="here"), 20.0).ok


def test_a_draining_node_that_was_given_up_drains_on_where_it_is_let_in_again(draining: Bus):
    running = draining.begin("work.again", timeout=60.0, to="worker-2")
    draining.wait_running(running)
    pid = draining.kill("node-2", signal.SIGTERM)
    wait_until(lambda: condition_of(draining, "worker-2") == "draining", what="the node drains")

    os.kill(pid, signal.SIGSTOP)  # longer than a node may be silent
    wait_until(lambda: condition_of(draining, "worker-2") == "down", 20.0, "the node is given up")
    os.kill(pid, signal.SIGCONT)

    wait_until(lambda: "node-2 went down (exit code 0)" in draining.events, 20.0, "its handler was cancelled")
    draining.go()
    assert code(outcome(running, 30.0)) == "node_lost"
    assert draining.attempts(running) == 1


def test_deadlines_go_on_over_a_restart(kept: Bus):
    handle = kept.begin("work.once", timeout=3.0)
    kept.wait_running(handle)

    kept.kill("broker")

    response = outcome(handle, 20.0)
    assert (response.status, code(response)) == (Status.TIMEOUT, "deadline")


def test_a_delegator_that_died_collects_its_outcomes(kept: Bus):
    script = (
        "import os, sys\n"
        "from ether import Runtime\n"
        "bus = Runtime.connect(sys.argv[1], name='desk').open()\n"
        "handles = [bus.delegate('work.once', {'folder': sys.argv[2]}, timeout=60) for _ in range(3)]\n"
        "bus.agents()\n"  # answered behind them: they are accepted
        "print(*(handle.id for handle in handles))\n"
        "sys.stdout.flush()\n"
        "os._exit(9)\n"
    )
    command = [sys.executable, "-c", script, kept.cluster.url, str(kept.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=child_environment({}), check=False)
    ids = done.stdout.split()
    assert len(ids) == 3, done.stderr

    kept.kill("broker")
    kept.go()
    with joined_again(kept.cluster.url, "desk") as desk:
        handles = desk.collect()
        assert sorted(handle.id for handle in handles) == sorted(ids)
        assert {outcome(handle, 20.0).status for handle in handles} == {Status.COMPLETED}
        assert desk.collect() == []
        assert [handle.id for handle in desk.collect([ids[2], ids[0]])] == [ids[2], ids[0]]
        [once_more] = desk.collect([ids[0]])
        assert outcome(once_more).status is Status.COMPLETED
        [unknown] = desk.collect(["018f6b1e-0000-7000-8000-000000000000"])
        assert code(outcome(unknown)) == "broker_lost"
        assert "knows nothing of it: it never arrived, or the broker" in outcome(unknown).explain()


@pytest.mark.parametrize("others", [("first", "third"), ()], ids=["others", "alone"])
def test_an_agent_whose_name_was_taken_meanwhile_is_told_and_keeps_no_other_of_its_class_from_coming_back(
    kept: Bus, others: tuple[str, ...]
):
    script = (
        "import sys, threading\n"
        "from ether import Runtime\n"
        "from tests.runtime.agents import Worker\n"
        "with Runtime.connect(sys.argv[1], name='far') as bus:\n"
        f"    for name in {('second', *others)}:\n"
        "        bus.start(Worker, name=name)\n"
        "    print('up', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, kept.cluster.url]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment({})
        ) as far,
        Runtime.connect(kept.cluster.url, name="near") as near,
    ):
        assert far.stdout is not None
        assert far.stdout.readline() == b"up\n"
        far.send_signal(signal.SIGSTOP)  # longer than a node may be silent
        wait_until(lambda: condition_of(kept, "second") == "down", 20.0, "the node is given up")
        near.start(Worker, name="second")

        far.send_signal(signal.SIGCONT)

        for name in others:
            wait_until(lambda name=name: condition_of(kept, name) == "up", 20.0, f"{name} is back")  # type: ignore[misc]
        kept.go()
        assert all(outcome(kept.begin("work.once", timeout=20.0, to=name), 20.0).ok for name in ("second", *others))
        assert {entry["node"] for entry in kept.bus.agents() if entry["agent"] == "second"} == {"near"}
        assert far.stderr is not None
        said = b""
        while b"Stop them (bus.stop)" not in said and (line := far.stderr.readline()):
            said += line
        far.communicate(timeout=20.0)
        assert b"RuntimeWarning: agents that run on, but not on the bus: second. Stop them (bus.stop)" in said


def joined_again(url: str, name: str) -> Runtime:
    """A runtime under the name of one that died, as soon as the broker knows that it did."""
    opened: list[Runtime] = []

    def is_free() -> bool:
        from ether import NodeRefused

        try:
            opened.append(Runtime.connect(url, name=name).open())
        except NodeRefused:
            return False
        return True

    wait_until(is_free, 15.0, "the name is free")
    opened[0].close(0.0)
    return Runtime.connect(url, name=name)


@pytest.mark.parametrize("is_kept", [True, False], ids=["journal", "memory"])
def test_agents_start_and_observers_join_though_the_broker_dies_meanwhile(tmp_path: Path, is_kept: bool):
    journal = str(tmp_path / "journal.db") if is_kept else None
    with (
        Cluster(agents=[WORKER], journal=journal, intensity=9) as cluster,
        Runtime.connect(cluster.url, name="desk") as bus,
    ):

        class Opens(Agent):
            def on_start(self) -> None:
                cluster.signal("broker", signal.SIGKILL)

            @capability("opens.say")
            def say(self) -> str:
                return "here"

        bus.start(Opens)
        assert outcome(bus.delegate("opens.say")).data == "here"

        wait_until(lambda: cluster.signal("broker", signal.SIGKILL), what="the broker runs")
        numbers = bus.observe(Numbers())
        assert outcome(bus.delegate("opens.say")).data == "here"
        assert bus.settle(numbers)
        assert numbers.seen


class Slow(Agent):
    """Has much waiting."""

    @capability("slow.work")
    def work(self, folder: str) -> None:
        (Path(folder) / "begun").touch()
        wait_until((Path(folder) / "go").exists, 60.0, "it is told to go on")


def test_an_agent_that_is_stopped_for_good_is_gone_though_the_broker_is_killed_before_all_of_its_work_is_ruled_on(
    kept: Bus,
):
    with Runtime.connect(kept.cluster.url, name="host") as host:
        host.start(Slow, name="slow")
        params = {"folder": str(kept.folder)}
        handles = [kept.bus.delegate("slow.work", params, to="slow", timeout=120.0) for _ in range(6_000)]
        wait_until((kept.folder / "begun").exists, what="the handler runs")
        assert code(outcome(kept.begin("work.unknown"))) == "no_holder"  # answered behind them: they are accepted

        stopping = threading.Thread(target=host.stop, args=("slow", 0.0))
        stopping.start()
        wait_until(
            lambda: sum(handle.done for handle in handles) > 500, what="its node has heard that it may forget it"
        )
        kept.kill("broker")
        ended = sum(handle.done for handle in handles)
        stopping.join()
        outcomes = Counter(code(outcome(handle, 20.0)) for handle in handles)
        kept.go()

        assert ended < len(handles)
        assert outcomes.keys() == {"node_lost", "agent_gone"}
        assert outcomes["node_lost"] <= 2 * 128  # its node may have had those, and then these
        wait_until(lambda: not list(kept.bus.iter_agents(["slow"])), what="it has left")
    kept.bus.close()
    kept.cluster.close()
    with JournalReader(kept.folder / "state" / "journal.db") as reader:
        bodies = [unpack(record.envelope[record.header.body :]) for record in reader.entries(kind=Kind.EVENT)]
    of_slow = [body["event"] for body in bodies if body.get("agent") == "slow" and "reason" in body]
    assert [name for name in of_slow if name.startswith("agent_")] == ["agent_leaving", "agent_down"]


def test_a_journal_that_cannot_be_written_is_said_and_service_resumes(kept: Bus, tmp_path: Path):
    path = tmp_path / "state" / "journal.db"
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        wait_until(lambda: refusal(kept) == "journal_unavailable", 30.0, "work is refused")
        other.execute("ROLLBACK")
    other.close()

    kept.go()
    wait_until(lambda: outcome(kept.begin("work.once", timeout=20.0), 30.0).status is Status.COMPLETED, 30.0)
    kept.bus.close()
    kept.cluster.close()
    assert JournalReader(path).verify().problem is None


def refusal(kept: Bus) -> str | None:
    """What becomes of work now; the first that is sent may have been accepted before the trouble was noticed."""
    return code(outcome(kept.begin("work.once", timeout=0.5), 10.0))


def test_a_delegation_may_ask_for_less_than_its_bus_keeps(kept: Bus):
    kept.go()
    handle = kept.bus.delegate("work.once", {"folder": str(kept.folder)}, durability="memory", timeout=20.0)

    assert outcome(handle).status is Status.COMPLETED
    assert outcome(kept.begin("work.once", durability="journal", timeout=20.0)).status is Status.COMPLETED


def test_a_bus_without_a_journal_says_so_to_who_asks_for_one():
    with Runtime() as bus, pytest.raises(UsageError, match="keeps no journal"):
        bus.delegate("work.once", {}, durability="journal")


def test_an_embedded_bus_takes_up_its_journal(tmp_path: Path):
    path = tmp_path / "journal.db"
    with Runtime(name="desk", journal=path) as bus:
        first = bus.delegate("work.once", {})
        assert code(outcome(first)) == "no_holder"
        last = bus.statistics()["tap_next"]

    with Runtime(name="desk", journal=path) as bus:
        assert bus.statistics()["tap_next"] > last
        [again] = bus.collect([first.id])
        assert code(outcome(again)) == "no_holder"
