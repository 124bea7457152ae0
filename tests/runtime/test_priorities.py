"""Priorities: which of the delegations that wait for one agent go first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ether import Agent, InvalidEnvelope, Limits, Runtime, Task, capability
from ether.testing import TestRuntime

PATIENCE = 20.0


class Worker(Agent):
    """Notes in which order it works, once it is let."""

    begun: threading.Event
    go_on: threading.Event
    order: list[int]

    @capability("work.hold")
    def hold(self) -> None:
        Worker.begun.set()
        Worker.go_on.wait(PATIENCE)

    @capability("work.do")
    def do(self, n: int) -> None:
        Worker.order.append(n)

    @capability("work.priority")
    def priority(self, task: Task) -> str:
        return task.delegation.priority

    @capability("work.part")
    def part(self, task: Task) -> str:
        return task.delegate("other.priority").result(PATIENCE).unwrap().data


class Other(Agent):
    """Says with which priority it was asked."""

    @capability("other.priority")
    def priority(self, task: Task) -> str:
        return task.delegation.priority


@pytest.fixture(params=[1, 2, 128])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    """The window decides whether they wait at the broker or at the node."""
    Worker.begun, Worker.go_on, Worker.order = threading.Event(), threading.Event(), []
    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url, name="host", limits=Limits(window=request.param)), Runtime.connect(url, name="desk") as made:
        yield made


def hold(bus: Runtime) -> Any:
    handle = bus.delegate("work.hold")
    assert Worker.begun.wait(PATIENCE)
    return handle


def test_what_is_urgent_goes_first_and_nothing_starves(bus: Runtime) -> None:
    bus.start(Worker)
    hold(bus)
    handles = [bus.delegate("work.do", {"n": n}, priority="low") for n in range(100, 110)]
    handles += [bus.delegate("work.do", {"n": n}) for n in range(200, 210)]
    handles += [bus.delegate("work.do", {"n": n}, priority="high") for n in range(300, 340)]
    bus.statistics()  # which comes behind them
    Worker.go_on.set()
    for handle in handles:
        handle.result(PATIENCE).unwrap()

    order = Worker.order[2:]  # the first two may have been at the node before any other
    for first, last in ((100, 110), (200, 210), (300, 340)):
        own = [n for n in order if first <= n < last]
        assert own == sorted(own)
    urgent = [place for place, n in enumerate(order) if n >= 300]
    patient = [place for place, n in enumerate(order) if n < 200]
    assert sum(urgent) / len(urgent) < sum(patient) / len(patient)
    assert min(patient) < max(urgent)


def test_a_sub_delegation_has_the_priority_of_its_parent(bus: Runtime) -> None:
    bus.start(Worker)
    bus.start(Other)
    for priority in ("low", "normal", "high"):
        assert bus.delegate("work.part", priority=priority).result(PATIENCE).data == priority
    assert bus.delegate("work.priority").result(PATIENCE).data == "normal"


def test_a_priority_that_is_none_is_refused() -> None:
    with TestRuntime() as bus, pytest.raises(InvalidEnvelope, match="priority"):
        bus.delegate("work.do", {"n": 1}, priority="urgent")  # type: ignore[arg-type]
