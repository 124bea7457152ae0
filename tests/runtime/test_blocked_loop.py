"""A handler that blocks the event loop of its node: it is named, others are not held up, and at last it is given up."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ether import Observation, Observer, Runtime, Status
from ether.cluster import Cluster
from ether.cluster.cluster_spec import AgentSpec, NodeSpec
from tests.runtime.agents import Blocker, Passer, Worker
from tests.support import wait_until

PATIENCE = 20.0
AGENTS = "tests.runtime.agents:"


class Events(Observer):
    """Keeps what was told of blocked loops."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, object]] = []

    def on_event(self, observation: Observation) -> None:
        if observation.event["event"] == "loop_blocked":
            self.seen.append(observation.event)


def load(bus: Runtime, agent: str) -> dict[str, Any]:
    return next(row["load"] for row in bus.agents() if row["agent"] == agent)


def blocking(bus: Runtime) -> dict[str, Any]:
    return load(bus, "blocker").get("blocking", {})


@pytest.mark.alone
def test_who_blocks_the_loop_is_named_with_the_place_and_everything_else_goes_on(tmp_path: Path, caplog):
    gate = tmp_path / "gate"
    with Runtime() as bus, caplog.at_level(logging.WARNING, "ether.loop"):
        bus.start(Blocker)
        bus.start(Passer)
        bus.start(Worker)
        handle = bus.delegate("block.until", {"gate": str(gate)}, timeout=PATIENCE)
        began = time.monotonic()
        wait_until(lambda: "blocks the event loop" in caplog.text)
        assert time.monotonic() - began < 1.0 + 0.5  # and half a second for a machine that is busy
        told = wait_until(lambda: blocking(bus))
        passed = bus.delegate("pass.by", timeout=PATIENCE)
        assert bus.delegate("work.alone", timeout=PATIENCE).result().status is Status.COMPLETED
        assert not passed.done

        gate.touch()

        assert handle.result().data == "late"
        assert passed.result().status is Status.COMPLETED
        wait_until(lambda: not blocking(bus))

    assert told["capability"] == "block.until"
    assert told["request_id"] == handle.id
    assert str(told["at"]).startswith("agents.py:")
    assert "time.sleep(0.01)" in caplog.text
    assert f"blocker (block.until, request {handle.id})" in caplog.text


@contextlib.contextmanager
def no_logging() -> Iterator[Callable[[], str]]:
    """A program that has set up no logging; gives what it was warned of."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as seen:
        patch.setattr(logging.getLogger(), "handlers", [])
        warnings.simplefilter("always")
        yield lambda: "\n".join(str(one.message) for one in seen)


def test_a_program_without_logging_is_warned(tmp_path: Path):
    gate = tmp_path / "gate"
    with no_logging() as warned, Runtime() as bus:
        bus.start(Blocker)
        handle = bus.delegate("block.until", {"gate": str(gate)}, timeout=PATIENCE)

        wait_until(lambda: "blocks the event loop at agents.py" in warned())
        gate.touch()
        handle.result()


def test_an_agent_that_is_given_up_is_warned_of_where_nobody_reads_the_log():
    with no_logging() as warned, Runtime() as bus:
        bus.start(Worker)
        for _ in range(5):
            bus.delegate("work.crash", timeout=1.0).result()

        wait_until(lambda: "worker gave up and is gone from the bus" in warned())


def test_a_loop_whose_handler_goes_on_after_its_end_is_given_up_and_another_takes_its_place(tmp_path: Path):
    gate = tmp_path / "gate"
    with Runtime() as bus:
        bus.start(Blocker)
        bus.start(Passer)
        first = bus.delegate("pass.by").result().data
        slow = bus.delegate("pass.slowly", timeout=PATIENCE)
        wait_until(lambda: load(bus, "passer").get("running"))
        handle = bus.delegate("block.until", {"gate": str(gate)}, timeout=1.0)
        wait_until(lambda: blocking(bus))

        passed = bus.delegate("pass.by", {"seconds": 0.2}, timeout=PATIENCE).result()

        assert handle.result().status is Status.TIMEOUT
        assert passed.status is Status.COMPLETED
        assert passed.data != first
        assert slow.result().error.code == "agent_restarted"
        gate.touch()
        late = wait_until(lambda: [letter for letter in bus.dead_letters() if letter.reason == "late"])
        assert late[0].request_id == handle.id
        assert bus.delegate("block.until", {"gate": str(gate)}).result().data == "late"


@pytest.mark.slow
def test_a_node_whose_loop_is_blocked_shows_life_and_others_work_on(tmp_path: Path):
    gate = tmp_path / "gate"
    nodes = [
        NodeSpec("left", (AgentSpec(AGENTS + "Blocker"), AgentSpec(AGENTS + "Worker", name="neighbour"))),
        NodeSpec("right", (AgentSpec(AGENTS + "Passer"),)),
    ]
    with Cluster(nodes) as cluster, Runtime.connect(cluster.url) as bus:
        events = Events()
        bus.observe(events)
        handle = bus.delegate("block.until", {"gate": str(gate)}, timeout=PATIENCE)
        wait_until(lambda: events.seen)
        long_enough = time.monotonic() + 3.5  # more than the silence after which a node counts as lost
        while time.monotonic() < long_enough:
            assert bus.delegate("pass.by", timeout=2.0).result().status is Status.COMPLETED
            assert bus.delegate("work.alone", to="neighbour", timeout=2.0).result().status is Status.COMPLETED
            assert next(row for row in bus.agents() if row["agent"] == "blocker")["stalled_for"] == 0.0
            assert blocking(bus)["capability"] == "block.until"
        gate.touch()

        assert handle.result().data == "late"
        assert (events.seen[0]["agent"], events.seen[0]["node"]) == ("blocker", "left")
        assert events.seen[0]["request_id"] == handle.id
        assert len(events.seen) == 1
