"""AutoGen's core: an agent in its runtime of one process."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from ether.lab.bench.baselines.caller import library
from ether.lab.harness.role import Info, Role, summary
from ether.lab.harness.workload import body_of

__all__ = ["AutoGenCaller"]


@dataclass
class _Message:
    body: Any


async def _answer(_self: Any, message: _Message, _context: Any) -> _Message:
    return message


class AutoGenCaller(Role):
    """An event loop with an agent, and tasks that ask it."""

    def start(self) -> Info:
        """Start a runtime and register the agent.

        Raises:
            MissingExtra: autogen-core is not installed.
        """
        core = library("autogen_core")
        self._loop = asyncio.new_event_loop()
        self.callback(self._loop.close)
        self._agent = core.AgentId("echo", "default")
        self._runtime = core.SingleThreadedAgentRuntime()
        self._loop.run_until_complete(self._begin(type("Echo", (core.BaseAgent,), {"on_message_impl": _answer})))
        self.callback(lambda: self._loop.run_until_complete(self._runtime.stop()))
        return {}

    async def _begin(self, kind: Any) -> None:
        await self._runtime.register_factory("echo", lambda: kind("echoes what it is sent"), expected_class=kind)
        self._runtime.start()

    def work(self, body: str, window: int, seconds: float, **_options: object) -> Info:
        """Ask for so many seconds with so many questions open."""
        found: Info = self._loop.run_until_complete(self._ask(_Message(body_of(body)), window, seconds))
        return found

    async def _ask(self, message: _Message, window: int, seconds: float) -> Info:
        clock, times = time.perf_counter, list[float]()
        start = clock()
        end = start + seconds

        async def one_after_another() -> None:
            while (before := clock()) < end:
                await self._runtime.send_message(message, self._agent)
                times.append(clock() - before)

        await asyncio.gather(*(one_after_another() for _ in range(window)))
        return summary(times, clock() - start) if window == 1 else {"count": len(times), "seconds": clock() - start}
