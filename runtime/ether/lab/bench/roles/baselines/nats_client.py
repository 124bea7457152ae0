"""The end of the NATS contender that asks: `request` of nats-py, one task for each question that is open at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ether.lab.bench.roles.baselines.nats_envelope import Notation, notation_of
from ether.lab.bench.roles.baselines.nats_loop import NatsLoop
from ether.lab.harness.role import Info, summary

__all__ = ["Client"]

_PATIENCE = 30.0


class Client:
    """Asks from an event loop in the main thread."""

    def __init__(self, options: Info) -> None:
        self._nats = NatsLoop(options["url"])

    def start(self) -> Info:
        """Connect."""
        self._nats.connect()
        return {}

    def run(self, order: Info) -> Info:
        """Ask for so many seconds with so many questions open."""
        notation = notation_of(order["body"])
        result: Info = self._nats.run(_ask(self._nats.connection, notation, order["window"], order["seconds"]))
        return result

    def stop(self) -> None:
        """Disconnect."""
        self._nats.close()


async def _ask(connection: Any, notation: Notation, window: int, seconds: float) -> Info:
    clock = time.perf_counter
    times: list[float] = []
    start = clock()
    end = start + seconds
    within = 0

    async def one_after_another() -> None:
        nonlocal within
        before = clock()
        while before < end:
            answer = await connection.request(notation.subject, notation.ask(), timeout=_PATIENCE)
            notation.check(answer.data)
            after = clock()
            times.append(after - before)
            before = after
            within += after < end

    await asyncio.gather(*(one_after_another() for _ in range(window)))
    if window == 1:
        return summary(times, clock() - start)
    return {"count": within, "seconds": seconds}
