"""A node whose link is full, because its broker's process is gone or waits for its disk: nothing that it owes is lost."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ether import Agent, Runtime, Status, Task, capability
from ether_broker.timing import DEFAULT_TIMING
from tests.support import child_environment, wait_until

pytestmark = pytest.mark.slow
MANY = 40
SIZE = 100_000
BROKER = """
import sys, threading
from ether import Runtime
with Runtime(name="hub", bind=sys.argv[1], journal=sys.argv[2]):
    print("up", flush=True)
    threading.Event().wait()
"""


@contextmanager
def broker(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A broker in a process of its own, until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", BROKER, f"ipc://{folder}/b", f"{folder}/j.db"], stdout=subprocess.PIPE, text=True,
        env=child_environment(),
    )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


class Large(Agent):
    """Answers at length, all at once, when it is told to."""

    max_concurrency = 2 * MANY

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.gate = threading.Event()

    async def _answer(self) -> str:
        self.begun += 1
        while not self.gate.is_set():
            await asyncio.sleep(0.02)
        return "x" * SIZE

    @capability("large.once")
    async def once(self) -> str:
        return await self._answer()

    @capability("large.again", idempotent=True)
    async def again(self) -> str:
        return await self._answer()


class Chatty(Agent):
    """Tells more than a link may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self.is_enough = threading.Event()

    @capability("chatty.tell")
    def tell(self, task: Task) -> int:
        told = 0
        self.has_begun.set()
        while not task.cancelled and not self.is_enough.is_set():
            task.progress(0.5, data={"part": told, "text": "x" * 10_000})
            told += 1
            time.sleep(0.002)
        return told


class Quiet(Agent):
    """Works, and says nothing."""

    @capability("quiet.work")
    async def work(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def test_outcomes_that_overfill_a_link_while_its_broker_is_dead_reach_who_waits(tmp_path: Path):
    url, large = f"ipc://{tmp_path}/b", Large()
    with broker(tmp_path) as first, Runtime.connect(url, name="work") as work, Runtime.connect(url, name="ask") as ask:
        # Given work that runs, once or again
        work.start(lambda: large, name="large")
        names = ["large.once", "large.again"] * (MANY // 2)
        handles = [ask.delegate(name, timeout=60.0) for name in names]
        wait_until(lambda: large.begun == MANY, what="all of it runs")

        # When its answers are more than the link may hold, and nobody is there to take them
        link = work.node._link
        link.backlog = 10 * SIZE
        first.kill()
        first.wait()
        large.gate.set()
        wait_until(lambda: not work.node.agent_host.is_at_work, what="all of it has ended")
        assert link.is_full

        # Then the next broker gets all of them
        with broker(tmp_path):
            assert Counter(handle.result(30.0).status for handle in handles) == {Status.COMPLETED: MANY}
            assert large.begun == MANY


def test_a_node_that_tells_too_much_while_the_journal_is_locked_is_not_lost_and_the_newest_stays(tmp_path: Path):
    chatty = Chatty()
    with Runtime(journal=tmp_path / "j.db") as bus:
        # Given an agent that tells ever more, and one on the same node that does not
        bus.start(lambda: chatty, name="chatty")
        bus.start(Quiet)
        link = bus.node._link
        link.backlog = 1 << 20
        quiet = bus.delegate("quiet.work", {"seconds": 1.0}, timeout=60.0)
        telling = bus.delegate("chatty.tell", timeout=60.0)
        stream = telling.stream()
        assert chatty.has_begun.wait(10.0)

        # When the journal is locked by another program for longer than a node may be silent
        other = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        wait_until(lambda: link.is_full, what="the link is full")
        time.sleep(DEFAULT_TIMING.silence + 2.0)
        assert link.is_full
        chatty.is_enough.set()
        other.execute("COMMIT")
        other.close()

        # Then both end as they would have
        assert quiet.result(30.0).status is Status.COMPLETED
        outcome = telling.result(30.0).unwrap()
        told = [response for response in stream if response.status is Status.PROGRESS]
        assert told[-1].data["part"] == outcome.data - 1
        assert sum(1 + response.metadata.get("folded", 0) for response in told) == outcome.data


def test_what_is_called_off_while_the_link_is_full_is_called_off(tmp_path: Path):
    with broker(tmp_path) as first, Runtime.connect(f"ipc://{tmp_path}/b", name="work") as work:
        work.start(Quiet)
        handle = work.delegate("quiet.work", {"seconds": 50.0}, timeout=60.0)
        wait_until(lambda: work.node.agent_host.is_at_work, what="it runs")
        first.kill()
        first.wait()
        work.node._link.backlog = -1

        handle.cancel()

        with broker(tmp_path):
            assert handle.result(30.0).status is Status.CANCELLED
