"""Agents on the hosts of these tests. Each run is a line in a file, as a handler that writes it has begun."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from pathlib import Path

from pydantic import BaseModel

from ether import Agent, Artifact, Event, Response, Task, capability, every, on_event

__all__ = ["Archive", "Beta", "Desk", "Gamma", "Keeper", "Ledger", "Run", "Single", "Stairs", "read_runs"]

RUNS = "RUNS"
"""Environment variable: the file of runs."""


class Run:
    """One time that a handler began: what, where, and which attempt; `end` of the same says that it went through."""

    def __init__(self, line: str) -> None:
        self.what, self.key, self.agent, attempt, at = line.split()
        self.attempt = int(attempt)
        self.at = float(at)


def read_runs(path: Path) -> list[Run]:
    """All of them, in order."""
    return [Run(line) for line in path.read_text().splitlines()] if path.exists() else []


class Archive(Agent):
    """Offers a file of its host, and reads one of another."""

    @capability("archive.make")
    def make(self, path: str, size: int, task: Task) -> Response:
        Path(path).write_bytes(os.urandom(size))
        return task.respond(artifacts=[task.artifact(path)])

    @capability("archive.digest")
    def digest(self, file: Artifact) -> str:
        with file.open() as opened:
            return hashlib.sha256(opened.read()).hexdigest()


class Entries(BaseModel):
    """The state of a ledger."""

    numbers: list[int] = []


class Ledger(Agent):
    """Keeps what it hears of, and speaks of itself now and then."""

    state: Entries

    @every(0.2)
    @capability("ledger.tick")
    def tick(self) -> None:
        self.bus.publish("ledger.tick")

    @on_event("ledger.entry")
    def note(self, event: Event) -> None:
        self.state.numbers.append(event.data["n"])

    @capability("ledger.total", idempotent=True)
    def total(self) -> list[int]:
        return self.state.numbers

    @capability("ledger.double")
    def double(self, n: int) -> int:
        return 2 * n

    @capability("ledger.name")
    def name(self) -> str:
        return self.agent_name

    @capability("ledger.hold")
    def hold(self, name: str, seconds: float, task: Task) -> str:
        task.progress(0.5)
        time.sleep(seconds)
        return name


class Recorded(Agent):
    """Works for a stated time and says so in the file."""

    max_concurrency = 4

    @capability("net.once")
    def once(self, key: str, seconds: float, task: Task) -> str:
        return self.run(key, seconds, task)

    @capability("net.again", idempotent=True)
    def again(self, key: str, seconds: float, task: Task) -> str:
        return self.run(key, seconds, task)

    @capability("net.busy")
    def busy(self, key: str, seconds: float, task: Task) -> str:
        """Use the processor for so long."""
        self.note("begin", key, task)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sum(range(1000))
        return self.agent_name

    def run(self, key: str, seconds: float, task: Task) -> str:
        self.note("begin", key, task)
        if seconds:
            time.sleep(seconds)
        self.note("end", key, task)
        return self.agent_name

    def note(self, what: str, key: str, task: Task) -> None:
        line = f"{what} {key} {self.agent_name} {task.attempt} {time.time()}\n".encode()
        file = os.open(os.environ[RUNS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)


class Beta(Recorded):
    """The one on beta."""


class Gamma(Recorded):
    """The one on gamma."""


class Single(Recorded):
    """Takes one at a time, in order."""

    max_concurrency = 1


class Desk(Recorded):
    """Says its word."""

    max_concurrency = 1

    def __init__(self, word: str = "first") -> None:
        self.word = word

    @capability("desk.word")
    def say(self, key: str, task: Task) -> str:
        self.note("begin", key, task)
        return self.word


class Stairs(Agent):
    """Goes a step further each time that it is told to, and waits for ever unless it is cancelled."""

    max_concurrency = 4

    def __init__(self) -> None:
        self._steps = asyncio.Semaphore(0)
        self._was_cancelled = asyncio.Event()

    @capability("stairs.climb")
    async def climb(self, count: int, task: Task) -> int:
        for step in range(count):
            task.progress(step / count)
            await self._steps.acquire()
        return count

    @capability("stairs.step")
    async def step(self) -> None:
        self._steps.release()

    @capability("stairs.wait")
    async def wait(self, task: Task) -> None:
        task.progress(0.0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._was_cancelled.set()
            raise

    @capability("stairs.cancelled")
    async def cancelled(self) -> bool:
        """Wait until it was."""
        return await self._was_cancelled.wait()


class Keeper(Agent):
    """Keeps the broker's host company: a cluster has a node."""

    @capability("net.keep")
    def keep(self) -> None:
        """Do nothing."""
