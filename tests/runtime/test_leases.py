"""One writer a file (G5) on real buses: in one process, and over processes of which one is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ether import ArtifactMismatch, Handle, Runtime, Status, as_completed
from ether.cluster import Cluster
from ether.cluster.cluster_spec import AgentSpec, NodeSpec
from tests.runtime.agents import Writer
from tests.support import wait_until

WRITER = "tests.runtime.agents:Writer"
NODES = [NodeSpec(name=f"node-{name}", agents=(AgentSpec(start=WRITER, name=name),)) for name in ("ann", "bob")]


def begin(bus: Runtime, folder: Path, to: str, word: str) -> Handle:
    return bus.delegate("write.line", {"folder": str(folder), "word": word}, to=to)


def holds(folder: Path, word: str) -> bool:
    return (folder / f"{word}.holds").exists()


def go(folder: Path, *words: str) -> None:
    for word in words:
        (folder / f"{word}.go").touch()


def test_many_writers_of_one_file_lose_no_line(tmp_path: Path) -> None:
    with Runtime() as bus:
        bus.start_many(Writer, 3)
        words = [f"word-{number}" for number in range(40)]
        handles = [bus.delegate("write.race", {"folder": str(tmp_path), "word": word}) for word in words]
        tokens = [handle.result(30.0).unwrap().data for handle in as_completed(handles)]

        assert bus.leases() == []

    assert sorted((tmp_path / "race.md").read_text().split()) == sorted(words)
    assert len(set(tokens)) == len(words)


def test_an_artifact_that_was_changed_after_its_response_is_found_out(tmp_path: Path) -> None:
    with Runtime() as bus:
        bus.start(Writer)
        go(tmp_path, "a")
        response = begin(bus, tmp_path, "writer", "a").result(10.0).unwrap()

    assert response.verify().artifacts[0].read() == b"a\n"
    (tmp_path / "report.md").write_text("b\n")
    with pytest.raises(ArtifactMismatch):
        response.verify()


@pytest.mark.slow
def test_the_lease_of_a_killed_node_goes_to_the_one_who_waits(tmp_path: Path) -> None:
    with Cluster(nodes=NODES, drain=1.0) as cluster, Runtime.connect(cluster.url, name="delegator") as bus:
        first = begin(bus, tmp_path, "ann", "first")
        wait_until(lambda: holds(tmp_path, "first"), what="ann holds the lease")
        second = begin(bus, tmp_path, "bob", "second")
        (lease,) = wait_until(lambda: [lease for lease in bus.leases() if lease["waiting"]], what="bob waits")
        assert (lease["agent"], lease["waiting"][0]["agent"]) == ("ann", "bob")
        assert not holds(tmp_path, "second")

        go(tmp_path, "second")
        os.kill(int((tmp_path / "first.holds").read_text()), signal.SIGKILL)

        lost = first.result(10.0)
        assert (lost.status, lost.error.code if lost.error else "") == (Status.FAILED_EXECUTION, "node_lost")
        done = second.result(10.0).unwrap()
        assert done.data["token"] > lease["token"]
        assert done.verify().artifacts[0].read() == b"second\n"
        assert bus.leases() == []


@pytest.mark.slow
def test_a_node_that_was_given_up_and_wakes_again_writes_nothing(tmp_path: Path) -> None:
    with Cluster(nodes=NODES, drain=1.0) as cluster, Runtime.connect(cluster.url, name="delegator") as bus:
        first = begin(bus, tmp_path, "ann", "first")
        wait_until(lambda: holds(tmp_path, "first"), what="ann holds the lease")
        pid = int((tmp_path / "first.holds").read_text())
        go(tmp_path, "second")
        os.kill(pid, signal.SIGSTOP)
        try:
            second = begin(bus, tmp_path, "bob", "second")
            assert second.result(20.0).unwrap().ok
            go(tmp_path, "first")
        finally:
            os.kill(pid, signal.SIGCONT)

        assert first.result(10.0).status is Status.FAILED_EXECUTION
        wait_until(lambda: "ann" in {agent["agent"] for agent in bus.agents() if agent["condition"] == "up"})
        third = begin(bus, tmp_path, "ann", "third")
        go(tmp_path, "third")
        third.result(10.0).unwrap()

    assert (tmp_path / "report.md").read_text() == "second\nthird\n"


def test_a_bus_that_runs_on_writes_after_another_that_came_and_went(tmp_path: Path) -> None:
    go(tmp_path, "a", "b", "c")
    with Runtime() as bus:
        bus.start(Writer)
        begin(bus, tmp_path, "writer", "a").result(10.0).unwrap()
        with Runtime() as other:
            other.start(Writer)
            begin(other, tmp_path, "writer", "b").result(10.0).unwrap()
        begin(bus, tmp_path, "writer", "c").result(10.0).unwrap()
