from __future__ import annotations

import copy
import os
import pickle
import signal
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from ether import Runtime, Scale
from ether.cluster.cluster import Cluster, _settled
from ether.cluster.cluster_spec import AgentSpec, NodeSpec
from ether.errors import ProcessFailed
from ether_actors.restarts.tree import Lifecycle
from ether_broker.errors import AddressInUse, Closed, DuplicateAgent, InvalidSpec, UsageError
from tests.runtime.agents import Caller, Worker
from tests.support import process_is_alive, wait_until

WORKER = "tests.runtime.agents:Worker"
CALLER = "tests.runtime.agents:Caller"


def pids(cluster: Cluster) -> dict[str, int]:
    return {entry.name: entry.pid or 0 for entry in cluster.statistics()}


def test_a_cluster_runs_broker_and_nodes_in_processes_of_their_own_and_leaves_nothing():
    with Cluster(nodes=2, agents=[WORKER]) as cluster:
        running = pids(cluster)
        folder = Path(cluster.url.removeprefix("ipc://")).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        with Runtime.connect(cluster.url) as bus:
            seen = {agent["agent"]: agent["node"] for agent in bus.agents()}
            data = bus.delegate("work.alone", to="worker-2").result().unwrap().data

    assert list(running) == ["broker", "node-1", "node-2"]
    assert seen == {"worker": "node-1", "worker-2": "node-2"}
    assert data["pid"] == data["session"] == running["node-2"]
    assert len({os.getpid(), *running.values()}) == 4
    assert [pid for pid in running.values() if process_is_alive(pid)] == []
    assert not folder.exists()


def test_instances_on_a_cluster_come_and_go_and_a_process_that_dies_loses_none_for_good(tmp_path: Path):
    scaled = AgentSpec(WORKER, scale=Scale(max=4, min=2, per=1, cooldown=0.5))
    nodes = [NodeSpec("n1", [scaled]), NodeSpec("n2", [AgentSpec(CALLER)])]
    with Cluster(nodes=nodes) as cluster, Runtime.connect(cluster.url) as bus:

        def seen() -> list[str]:
            return [agent["agent"] for agent in bus.agents() if agent["node"] == "n1" and agent["condition"] == "up"]

        assert seen() == ["worker", "worker-2"]
        before = [bus.delegate("work.again", {"folder": str(tmp_path)}, timeout=60) for _ in range(6)]
        wait_until(lambda: len(seen()) == 4)
        os.kill(pids(cluster)["n1"], signal.SIGKILL)
        wait_until(lambda: len(seen()) == 4, 30.0)
        (tmp_path / "go").touch()
        done = [handle.result(30).unwrap().data["agent"] for handle in before]
        wait_until(lambda: len(seen()) == 2)

    assert len(done) == 6
    assert set(done) <= {"worker", "worker-2", "worker-3", "worker-4"}


SHADOWS = ("msgpack.py", "ormsgpack.py", "zmq.py", "pykka.py", "pydantic/__init__.py", "ruff/__init__.py", "json.py")
MINE = """
from ether import Agent, capability

class Mine(Agent):
    @capability("mine.libraries")
    def libraries(self) -> dict[str, str]:
        import json, msgpack, pydantic, ruff  # also when they are first needed now
        return {module.__name__: str(module.__file__) for module in (json, msgpack, pydantic, ruff)}
"""


def test_agents_come_from_the_working_directory_and_libraries_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in SHADOWS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('the working directory was imported from')")
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)

    cluster = Cluster(nodes=1, agents=["mine:Mine"], durability="journal", journal=tmp_path / "journal.db")
    with cluster, Runtime.connect(cluster.url) as bus:
        libraries = bus.delegate("mine.libraries", timeout=20).result().unwrap().data

    assert len(libraries) == 4
    assert [path for path in libraries.values() if path.startswith(str(tmp_path))] == []


def test_a_signal_to_a_process_that_is_not_there_is_an_error_and_not_a_kill_that_kills_nothing():
    cluster = Cluster(nodes=2, agents=[WORKER])
    with pytest.raises(UsageError, match=r"no process 'nod-1'\. Did you mean 'node-1'"):
        cluster.signal("nod-1", signal.SIGKILL)
    with pytest.raises(Closed):
        cluster.signal("node-1", signal.SIGKILL)


def test_nodes_and_agents_are_as_their_specs_say():
    nodes = [
        NodeSpec("left", (AgentSpec(WORKER, count=2), AgentSpec("tests.cli.agents:Greeter", name="host")), threads=2),
        NodeSpec("right", (AgentSpec(WORKER),)),
    ]
    with Cluster(nodes) as cluster, Runtime.connect(cluster.url) as bus:
        seen = {agent["agent"]: agent["node"] for agent in bus.agents()}

    assert seen == {"worker": "left", "worker-2": "left", "host": "left", "worker-3": "right"}


def test_names_that_others_have_are_left_to_them_and_kept_over_restarts(tmp_path: Path):
    bind = f"ipc://{tmp_path}/bus.sock"
    outside = Runtime.connect(bind, name="outside")
    events: list[str] = []

    def join(event: str) -> None:
        events.append(event.partition(" (")[0])
        if event.startswith("broker is up"):  # before the cluster's own nodes
            outside.open()
            outside.start(Worker)

    def nodes(bus: Runtime) -> dict[str, str]:
        return {agent["agent"]: agent["node"] for agent in bus.agents() if agent["condition"] == "up"}

    with (
        Cluster(nodes=2, agents=[WORKER], bind=bind, on_event=join) as cluster,
        Runtime.connect(cluster.url) as bus,
    ):
        before = nodes(bus)
        outside.close()  # its name is free now, and still nobody moves
        for node in ("node-1", "node-2"):
            cluster.signal(node, signal.SIGKILL)
            wait_until(lambda node=node: f"{node} is up again" in events)
        after = nodes(bus)

    assert before.pop("worker") == "outside"
    assert sorted(before.values()) == ["node-1", "node-2"]
    assert after == before


def test_a_name_that_was_given_and_is_another_nodes_is_told_with_whose_it_is(tmp_path: Path):
    bind = f"ipc://{tmp_path}/bus.sock"
    outside = Runtime.connect(bind, name="outside")

    def join(event: str) -> None:
        if event.startswith("broker is up"):
            outside.open()
            outside.start(Worker, name="ada")

    cluster = Cluster(nodes=1, agents=[AgentSpec(WORKER, name="ada")], bind=bind, on_event=join)
    with pytest.raises(DuplicateAgent, match="node-1: An agent named 'ada' lives on node 'outside'"):
        cluster.open()
    outside.close(0.0)


def test_what_is_told_of_a_cluster_may_raise_and_stops_nothing(caplog: pytest.LogCaptureFixture):
    def gone(*_: object) -> None:
        raise BrokenPipeError

    with Cluster(nodes=1, agents=[WORKER], on_event=gone, on_output=gone) as cluster:
        running = pids(cluster)
        with Runtime.connect(cluster.url) as bus:
            bus.delegate("work.print", {"text": "hello"}).result().unwrap()

    assert [pid for pid in running.values() if process_is_alive(pid)] == []
    assert any("was not taken" in record.message for record in caplog.records)


def test_what_a_process_prints_comes_out_with_its_name_and_nothing_that_it_left_runs_on():
    lines: list[tuple[str, str]] = []
    with (
        Cluster(agents=[WORKER], on_output=lambda *line: lines.append(line)) as cluster,
        Runtime.connect(cluster.url) as bus,
    ):
        bus.delegate("work.print", {"text": "hello\nthere"}).result().unwrap()
        wait_until(lambda: len(lines) >= 2)
        left = bus.delegate("work.spawn").result().unwrap().data
        assert process_is_alive(left)

    assert lines[:2] == [("node-1", "hello"), ("node-1", "there")]
    wait_until(lambda: not process_is_alive(left))


@pytest.mark.parametrize(
    ("start", "error", "says"),
    [
        ("tests.runtime.nowhere:Agent", InvalidSpec, "node-1: 'tests.runtime.nowhere:Agent' cannot be started"),
        ("tests.runtime.agents:Wroker", InvalidSpec, "Did you mean 'Worker'"),
        ("tests.runtime.agents:NoAgent", InvalidSpec, "is not an Agent"),
        ("os:abort", InvalidSpec, "os:abort is not an Agent"),
        ("os:environ", InvalidSpec, "os:environ is not an Agent"),
        ("tests.runtime.agents:Refuses", ProcessFailed, "node-1: ValueError: no key in the environment"),
    ],
)
def test_an_agent_that_cannot_start_is_told_with_its_own_error(start, error, says):
    cluster = Cluster(agents=[start], on_output=lambda *_: None)

    with pytest.raises(error, match=says):
        cluster.open()

    with pytest.raises(Closed):
        cluster.statistics()


@pytest.mark.parametrize(
    ("bind", "endpoint", "again", "url"),
    [
        ("ipc:///a/b", "ipc:///a/b", "ipc:///a/b", "ipc:///a/b"),
        ("tcp://*:*", "tcp://[::]:7421", "tcp://*:7421", "tcp://127.0.0.1:7421"),
        ("tcp://0.0.0.0:*", "tcp://0.0.0.0:7421", "tcp://0.0.0.0:7421", "tcp://127.0.0.1:7421"),
        ("tcp://10.0.0.7:*", "tcp://[::ffff:10.0.0.7]:7421", "tcp://10.0.0.7:7421", "tcp://10.0.0.7:7421"),
        ("tcp://eth0:7421", "tcp://[fe80::1]:7421", "tcp://eth0:7421", "tcp://[fe80::1]:7421"),
    ],
)
def test_the_port_that_was_found_is_kept_and_reached_from_here(bind: str, endpoint: str, again: str, url: str):
    assert _settled(bind, endpoint) == (again, url)


def test_a_long_temporary_folder_is_not_used_since_the_path_of_a_socket_is_short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 90)
    with Cluster(agents=[WORKER]) as cluster:
        assert cluster.url.startswith("ipc:///tmp/ether-")


def test_a_second_ctrl_c_while_the_cluster_drains_ends_it_at_once(tmp_path: Path):
    cluster = Cluster(agents=[WORKER], drain=60.0).open()
    running = list(pids(cluster).values())
    with Runtime.connect(cluster.url, drain=0.0) as bus:
        bus.delegate("work.stubborn", {"folder": str(tmp_path)})
        wait_until((tmp_path / "stubborn").exists)
        timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            cluster.close()
    timer.join()

    assert not any(process_is_alive(pid) for pid in running)


def test_a_port_in_use_is_told_as_such():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(AddressInUse, match=f"broker: tcp://127.0.0.1:{port} is taken"):
            Cluster(agents=[WORKER], bind=f"tcp://127.0.0.1:{port}").open()


def test_a_socket_of_a_living_broker_is_not_taken_over(tmp_path: Path):
    bind = f"ipc://{tmp_path}/broker.sock"
    with Runtime(bind=bind) as bus:
        with pytest.raises(AddressInUse):
            Cluster(agents=[WORKER], bind=bind).open()
        assert bus.agents() == []
        assert (tmp_path / "broker.sock").exists()


def test_a_second_node_joins_over_tcp_at_a_free_port_that_was_found():
    with Cluster(agents=[WORKER], bind="tcp://*:*", insecure=True) as cluster, Runtime.connect(cluster.url) as bus:
        host, _, port = cluster.url.rpartition(":")
        assert host == "tcp://127.0.0.1"
        assert int(port) > 1023
        bus.start(Caller)
        with Runtime.connect(cluster.url, name="elsewhere") as other:
            response = other.delegate("call.nested", {"text": "hi"}).result()

    assert response.unwrap().data == {"text": "hi", "from": "worker"}


def test_an_open_cluster_says_how_it_stands_and_opens_no_second_time():
    cluster = Cluster(agents=[WORKER])
    with pytest.raises(Closed):
        cluster.url
    with cluster:
        with pytest.raises(UsageError, match="open already"):
            cluster.open()
        states = [(entry.name, entry.state, entry.restarts) for entry in cluster.statistics()]
        groups = {os.getpgid(pid) for pid in pids(cluster).values()}
        assert cluster.failed is None
        assert not cluster.wait(0.0)
    cluster.close()

    assert states == [("broker", Lifecycle.RUNNING, 0), ("node-1", Lifecycle.RUNNING, 0)]
    assert os.getpgrp() not in groups  # so that Ctrl-C reaches the parent alone


def test_two_agents_that_share_a_name_are_refused_before_anything_starts():
    nodes = [NodeSpec("n1", (AgentSpec(WORKER, name="x"), AgentSpec(CALLER, name="x")))]

    with pytest.raises(InvalidSpec, match="both named 'x'"):
        Cluster(nodes)


def test_a_failure_survives_copying_and_pickling():
    error = ProcessFailed("what happened", "node-1", exit=-9, output=("a", "b"))

    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(again), again.process, again.exit, again.output) == ("what happened", "node-1", -9, ("a", "b"))
        assert again.retryable
