from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from ether import Runtime
from ether.cluster import Cluster
from ether.cluster_spec import AgentSpec, NodeSpec
from ether.errors import ProcessFailed
from ether_actors.tree import Lifecycle
from ether_broker.errors import AddressInUse, Closed, InvalidSpec, UsageError
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


def test_nodes_and_agents_are_as_their_specs_say():
    nodes = [
        NodeSpec("left", (AgentSpec(WORKER, count=2), AgentSpec("tests.cli.agents:Greeter", name="host")), threads=2),
        NodeSpec("right", (AgentSpec(WORKER),)),
    ]
    with Cluster(nodes) as cluster, Runtime.connect(cluster.url) as bus:
        seen = {agent["agent"]: agent["node"] for agent in bus.agents()}

    assert seen == {"worker": "left", "worker-2": "left", "host": "left", "worker-3": "right"}


def test_what_a_process_prints_comes_out_with_its_name():
    lines: list[tuple[str, str]] = []
    with (
        Cluster(agents=[WORKER], on_output=lambda *line: lines.append(line)) as cluster,
        Runtime.connect(cluster.url) as bus,
    ):
        bus.delegate("work.print", {"text": "hello\nthere"}).result().unwrap()
        wait_until(lambda: len(lines) >= 2)

    assert lines[:2] == [("node-1", "hello"), ("node-1", "there")]


@pytest.mark.parametrize(
    ("start", "error", "says"),
    [
        ("tests.runtime.nowhere:Agent", InvalidSpec, "node-1: 'tests.runtime.nowhere:Agent' cannot be started"),
        ("tests.runtime.agents:Wroker", InvalidSpec, "Wroker"),
        ("tests.runtime.agents:NoAgent", InvalidSpec, "is not an Agent"),
        ("tests.runtime.agents:Refuses", ProcessFailed, "node-1: ValueError: no key in the environment"),
    ],
)
def test_an_agent_that_cannot_start_is_told_with_its_own_error(start, error, says):
    cluster = Cluster(agents=[start], on_output=lambda *_: None)

    with pytest.raises(error, match=says):
        cluster.open()

    with pytest.raises(Closed):
        cluster.statistics()


def test_an_agent_that_does_not_come_up_in_time_is_given_up():
    with pytest.raises(ProcessFailed, match="node-1 was not up after 1 s") as raised:
        Cluster(agents=["tests.runtime.agents:Slow"], start_timeout=1.0).open()

    assert raised.value.process == "node-1"


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


def test_a_free_port_is_found_and_named():
    with Cluster(agents=[WORKER], bind="tcp://*:*") as cluster, Runtime.connect(cluster.url) as bus:
        host, _, port = cluster.url.rpartition(":")
        assert host == "tcp://127.0.0.1"
        assert int(port) > 1023
        assert bus.delegate("work.alone").result().ok


def test_a_second_node_joins_over_tcp():
    from tests.runtime.agents import Caller

    with Cluster(agents=[WORKER], bind="tcp://127.0.0.1:*") as cluster, Runtime.connect(cluster.url) as bus:
        bus.start(Caller)
        with Runtime.connect(cluster.url, name="elsewhere") as other:
            response = other.delegate("call.nested", {"text": "hi"}).result()

    assert response.unwrap().data == {"text": "hi", "from": "worker"}


def test_a_cluster_opens_once_and_closes_as_often_as_one_likes():
    cluster = Cluster(agents=[WORKER])
    with pytest.raises(Closed):
        cluster.url  # noqa: B018
    with cluster:
        with pytest.raises(UsageError, match="open already"):
            cluster.open()
    cluster.close()


def test_what_an_agent_left_running_ends_with_its_node():
    with Cluster(agents=[WORKER]) as cluster, Runtime.connect(cluster.url) as bus:
        left = bus.delegate("work.spawn").result().unwrap().data
        assert process_is_alive(left)

    wait_until(lambda: not process_is_alive(left))


def test_each_process_stands_in_the_statistics():
    with Cluster(agents=[WORKER]) as cluster:
        states = [(entry.name, entry.state, entry.restarts) for entry in cluster.statistics()]

    assert states == [("broker", Lifecycle.RUNNING, 0), ("node-1", Lifecycle.RUNNING, 0)]


def test_two_agents_that_share_a_name_are_refused_before_anything_starts():
    nodes = [NodeSpec("n1", (AgentSpec(WORKER, name="x"), AgentSpec(CALLER, name="x")))]

    with pytest.raises(InvalidSpec, match="both named 'x'"):
        Cluster(nodes)


def test_signals_to_the_terminals_group_do_not_reach_the_processes():
    with Cluster(agents=[WORKER]) as cluster:
        groups = {os.getpgid(pid) for pid in pids(cluster).values()}
        assert os.getpgrp() not in groups
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
