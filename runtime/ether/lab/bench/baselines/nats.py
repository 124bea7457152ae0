"""The two ends of the NATS contender, each with a connection in an event loop: what asks, and what answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, Final

from ether.lab.bench.baselines.nats_envelope import PLAIN, Notation, notation_of
from ether.lab.bench.baselines.nats_server import missing
from ether.lab.harness.role import Info, Role, summary
from ether.lab.harness.workload import NESTED, OPAQUE

__all__ = ["Client", "Worker"]

_PATIENCE: Final = 30.0


class _End(Role):
    """A connection, and the loop that it lives in.

    Raises:
        MissingExtra: nats-py is not installed.
    """

    def start(self) -> Info:
        """Connect."""
        try:
            import nats
        except ImportError:
            raise missing("nats-py") from None
        self._loop = asyncio.new_event_loop()
        self.callback(self._loop.close)
        self._connection: Any = self._do(nats.connect(self.options["url"]))
        self.callback(lambda: self._do(self._connection.close()))
        return {}

    def _do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        return self._loop.run_until_complete(coroutine)


class Worker(_End):
    """A NATS subscriber in a thread, with a callback for each kind of body."""

    def start(self) -> Info:
        """Subscribe, then answer."""
        super().start()
        for kind in (NESTED, OPAQUE, PLAIN):
            notation = notation_of(kind)
            self._do(self._connection.subscribe(notation.subject, cb=_responder(notation)))
        self._do(self._connection.flush())
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        self.callback(thread.join)
        self.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        return {}


def _responder(notation: Notation) -> Any:
    async def answer(message: Any) -> None:
        await message.respond(notation.answer(message.data))

    return answer


class Client(_End):
    """Asks from the main thread by `request` of nats-py, one task for each question that is open at a time."""

    def work(self, body: str, window: int, seconds: float, **_options: object) -> Info:
        """Ask for so many seconds with so many questions open."""
        result: Info = self._do(_ask(self._connection, notation_of(body), window, seconds))
        return result


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
