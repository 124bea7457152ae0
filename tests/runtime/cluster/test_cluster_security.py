"""Clusters with keys: real processes over loopback TCP."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ether import Runtime
from ether.cluster import Cluster
from ether.cluster.file.file_loader import load
from ether_broker.errors import (
    AuthenticationFailed,
    BrokerUnavailable,
    InsecureEndpoint,
    InvalidKey,
    InvalidSpec,
    NodeRefused,
)
from ether_broker.security.keyring import Keyring
from tests.support import wait_until

WORKER = "tests.runtime.agents:Worker"
pytestmark = pytest.mark.slow


@pytest.fixture
def office(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "office", "office")


def secure(office: Keyring, **fields: object) -> Cluster:
    return Cluster(agents=[WORKER], bind="tcp://127.0.0.1:*", keys=office.folder, on_output=lambda *_: None, **fields)


def test_the_nodes_of_a_cluster_have_keys_of_their_own_that_are_in_no_file(office):
    with secure(office) as cluster, Runtime.connect(cluster.url, keys=office) as bus:
        keys = {node["node"]: node["key"] for node in bus.nodes()}
        assert bus.delegate("work.alone").result(10.0).ok

    assert keys[bus.name] == office.own.fingerprint
    assert keys["node-1"] not in {office.own.fingerprint, *(entry.fingerprint for entry in office.allowed)}
    assert sorted(path.name for path in office.folder.iterdir()) == ["allowed", "own.key", "own.key_secret"]


def test_no_key_no_entry_and_no_key_of_a_cluster_is_in_a_command_line(office):
    with secure(office) as cluster:
        with pytest.raises((AuthenticationFailed, BrokerUnavailable), match="wants keys"):
            Runtime.connect(cluster.url, timeout=3.0).open()
        for entry in cluster.statistics():
            seen = b"".join(Path(f"/proc/{entry.pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
            assert not [pair for pair in cluster._pairs.values() if pair.secret.encode() in seen]


def test_a_node_that_was_killed_comes_back_with_its_key(office):
    with secure(office) as cluster, Runtime.connect(cluster.url, keys=office) as bus:
        (before,) = [node for node in bus.nodes() if node["node"] == "node-1"]
        os.kill(before["pid"], signal.SIGKILL)

        def again() -> dict[str, object] | None:
            found = [node for node in bus.nodes() if node["node"] == "node-1" and node["pid"] != before["pid"]]
            return found[0] if found else None

        assert wait_until(again, 20.0)["key"] == before["key"]
        wait_until(lambda: [agent["condition"] for agent in bus.agents()] == ["up"], 10.0)
        assert bus.delegate("work.alone").result(15.0).ok


def test_the_keys_of_one_node_are_no_good_for_another_name(office):
    with secure(office) as cluster, pytest.raises(NodeRefused, match="may be the node 'node-1'"):
        pair = cluster._pairs["node-1"]
        Runtime.connect(cluster.url, keys=pair, server_key=office.own.public, name="boss").open()


def test_the_nodes_of_a_cluster_outlive_a_rotation_and_the_brokers_restart(office):
    with secure(office) as cluster:
        office.switch()
        broker = cluster.statistics()[0].pid
        os.kill(broker, signal.SIGKILL)
        wait_until(lambda: cluster.statistics()[0].pid not in (None, broker), 10.0)
        with Runtime.connect(cluster.url, keys=office, timeout=15.0) as bus:
            wait_until(lambda: [agent["condition"] for agent in bus.agents()] == ["up"], 20.0)

            assert bus.delegate("work.alone").result(15.0).ok


def test_a_cluster_that_others_reach_needs_keys(office):
    with pytest.raises(InsecureEndpoint, match="ether keys new"):
        Cluster(agents=[WORKER], bind="tcp://*:*", on_output=lambda *_: None).open()
    with Cluster(agents=[WORKER], bind="tcp://*:*", keys=office.folder, on_output=lambda *_: None) as cluster:
        Runtime.connect(cluster.url, keys=office).open().close()


def test_keys_that_are_missing_are_told_before_anything_runs(tmp_path):
    cluster = Cluster(agents=[WORKER], bind="tcp://127.0.0.1:*", keys=tmp_path / "none")

    with pytest.raises(InvalidKey, match="ether keys new"):
        cluster.open()


def test_keys_on_an_address_of_the_machine_are_not_needed(tmp_path):
    with Cluster(agents=[WORKER], keys=tmp_path / "none") as cluster, Runtime.connect(cluster.url) as bus:
        assert "key" not in bus.nodes()[0]


def test_a_cluster_file_names_its_keys_from_where_it_is(tmp_path, monkeypatch):
    file = tmp_path / "sub" / "bus.yaml"
    file.parent.mkdir()
    file.write_text(
        f'security: {{keys: keys, insecure: false}}\nnodes: [{{name: n, agents: [{{start: "{WORKER}"}}]}}]\n'
    )
    monkeypatch.chdir(tmp_path)

    assert load(file, environ={}).keys == str(tmp_path / "sub" / "keys")
    assert load(file, {"security.keys": "/elsewhere", "security.insecure": True}, environ={}).insecure is True
    assert load(file, environ={"ETHER_SECURITY__KEYS": "here"}).keys == "here"


def test_a_wrong_word_in_a_cluster_files_security_is_pointed_at(tmp_path):
    file = tmp_path / "bus.yaml"
    file.write_text(f'security: {{kesy: keys}}\nnodes: [{{name: n, agents: [{{start: "{WORKER}"}}]}}]\n')

    with pytest.raises(InvalidSpec, match="Did you mean 'keys'"):
        load(file, environ={})
