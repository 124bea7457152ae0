"""Work that ends while it waits for an agent that takes long: its node answers for it at once, and keeps nothing of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ether import Agent, Limits, Runtime, Status, capability
from ether.testing import TestRuntime
from tests.actors.worker import Worker
from tests.support import wait_until

WINDOW = 128
PATIENCE = 20.0


class Slow(Agent):
    """Holds its first delegation until it is let go on, and notes what it does besides."""

    begun: threading.Event
    go_on: threading.Event
    done: list[str]

    @capability("slow.hold")
    def hold(self) -> str:
        Slow.begun.set()
        Slow.go_on.wait(PATIENCE)
        return "held"

    @capability("slow.do")
    def do(self, what: str) -> str:
        Slow.done.append(what)
        return what


@pytest.mark.parametrize("priority", ["normal", "low"])
def test_a_node_has_answered_for_all_that_ended_while_its_agent_still_works_at_the_first(tmp_path: Path, priority: Any):
    Slow.begun, Slow.go_on, Slow.done = threading.Event(), threading.Event(), []
    url = f"ipc://{tmp_path}/bus.sock"
    with (
        Runtime(bind=url, name="host"),
        Runtime.connect(url, name="worker") as node,
        Runtime.connect(url, name="desk") as desk,
    ):

        def waits(**counts: int) -> None:
            wait_until(lambda: counts.items() <= desk.agents()[0].items(), PATIENCE, str(counts))

        node.start(Slow)
        first = desk.delegate("slow.hold")
        assert Slow.begun.wait(PATIENCE)
        cancelled = [desk.delegate("slow.do", {"what": "cancelled"}, priority=priority) for _ in range(WINDOW + 40)]
        waits(in_flight=WINDOW, queued=41)
        late = [desk.delegate("slow.do", {"what": "late"}, priority=priority, timeout=0.5) for _ in range(40)]
        for handle in cancelled:
            handle.cancel()

        assert {handle.result(PATIENCE).status for handle in cancelled} == {Status.CANCELLED}
        assert {handle.result(PATIENCE).status for handle in late} == {Status.TIMEOUT}
        waits(in_flight=1, queued=0)
        assert list(node.node.agent_host.cell("slow").works) == [first.key]
        new = [desk.delegate("slow.do", {"what": "new"}, priority=priority) for _ in range(2)]
        waits(in_flight=3, queued=0)
        assert not Slow.done
        Slow.go_on.set()

        assert [handle.result(PATIENCE).data for handle in (first, *new)] == ["held", "new", "new"]
        assert Slow.done == ["new", "new"]
        waits(in_flight=0, queued=0)
        assert desk.statistics()["dead_letters"] == {}


def test_a_node_whose_agents_take_long_is_not_lost_for_what_ended_meanwhile():
    """It would be for more than a quarter of `total_bytes`: 341 delegations that have ended and are not answered."""
    with TestRuntime(limits=Limits(total_bytes=1 << 20)) as desk, desk.join("node") as node:
        names = [f"slow-{number}" for number in range(4)]
        for name in names:
            node.start(Worker, name=name)
        running = [desk.delegate("work.nap", {"seconds": 20.0}, to=name) for name in names]
        desk.run()
        late = [desk.delegate("work.say", to=name, timeout=1.5) for name in names for _ in range(100)]
        desk.advance(25.0)

        assert {handle.result().status for handle in late} == {Status.TIMEOUT}
        assert {handle.result().status for handle in running} == {Status.COMPLETED}
