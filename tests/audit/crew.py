"""Agents whose work makes a trail, and what of it passed the bus, as it would be in a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from ether import Agent, Task, capability
from ether.audit.entry import AuditEntry
from ether.testing import TestRuntime
from ether_broker.observer_cursor import ObserverCursor
from ether_broker.tap import read_batch

__all__ = ["WALL", "Checker", "Chief", "Commit", "Worker", "commits_of", "entries_of", "play"]

WALL: Final = 1_699_000_000.0
"""How much more the wall clock shows than the broker's."""


class Commit(NamedTuple):
    """What a supervisor lets pass in one step."""

    first: int
    time: float
    wall: float
    envelopes: list[bytes]


class Chief(Agent):
    """Has others work: two at once, and one that fails."""

    @capability("chief.plan")
    async def plan(self, task: Task) -> list[object]:
        works = [task.delegate("worker.dig", {"hours": hours}) for hours in (1, 2)]
        holes = [(await work).data for work in works]
        await task.delegate("worker.break")
        return holes


class Worker(Agent):
    """Digs one hole after the other, and has each checked."""

    @capability("worker.dig")
    async def dig(self, hours: int, task: Task) -> str:
        await asyncio.sleep(hours)
        task.progress(0.5, "deep enough?")
        await task.delegate(
            "checker.check", {"photo": b"\x89PNG", "hours": hours}, objective="Is the hole deep enough?"
        )
        return f"a hole of {hours} h"

    @capability("worker.break")
    async def destroy(self) -> None:
        raise ValueError("the spade \x1b[31mbroke")


class Checker(Agent):
    """Checks at once."""

    @capability("checker.check", idempotent=True)
    async def check(self, photo: bytes, hours: int) -> bytes:
        return photo


def play(after: Callable[[TestRuntime], None] = lambda bus: None) -> list[Commit]:
    """Have the chief plan once, and say what passed; `after` may have more happen."""
    with TestRuntime(name="desk") as bus:
        for agent in (Chief, Worker, Checker):
            bus.start(agent)
        handle = bus.delegate("chief.plan", timeout=30)
        bus.advance(10)
        assert handle.result().ok
        after(bus)
        return list(commits_of(bus))


def commits_of(bus: TestRuntime) -> Iterator[Commit]:
    """All that passed, step by step."""
    tap, cursor = bus._moving.broker.supervisor.state.tap, ObserverCursor()
    while packed := tap.read(cursor, lambda _: b""):
        batch = read_batch(packed)
        cursor.acknowledge(batch.next)
        for time, passed in groupby(batch.envelopes, key=itemgetter(1)):
            envelopes = list(passed)
            yield Commit(envelopes[0][0], time, time + WALL, [envelope for _, _, envelope in envelopes])


def entries_of(commits: list[Commit]) -> list[AuditEntry]:
    """The same as the entries of a journal."""
    return [
        AuditEntry(number, commit.time, commit.wall, envelope)
        for commit in commits
        for number, envelope in enumerate(commit.envelopes, commit.first)
    ]
