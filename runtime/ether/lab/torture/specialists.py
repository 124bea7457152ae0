"""The specialists of a campaign: they work as long as they are told, and write down each run before it begins."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from ether.lab.torture.history.log import LogWriter
from ether.lab.torture.history.message import note_outcome
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import Task
from ether_broker.envelope.ids import new_id, to_text

__all__ = ["AsyncWorker", "ThreadWorker", "Worker"]

_PART_SECONDS: Final = 0.01
Result = dict[str, Any]


class Worker(Agent):
    """The base of both kinds of specialists: their run log.

    Args:
        folder: of the campaign.
        node: the name of the node that it lives on.
    """

    def __init__(self, folder: str, node: str) -> None:
        super().__init__()
        self._home = node
        # Never closed: a handler that goes on after its agent's end may write yet, and the number of a closed file
        # may be another's by then.
        self._log = LogWriter(Path(folder, "runs", f"{node}.{os.getpid()}.jsonl"))

    @contextmanager
    def logged(self, task: Task, nonce: str) -> Iterator[Result]:
        """Write down that a run of its handler begins, and how it ends; gives what it returns, which says which run it was."""
        known = {"id": task.request_id, "attempt": task.attempt}
        where = {"node": self._home, "pid": os.getpid()}
        self._log.write("start", **known, **where, capability=task.delegation.capability)
        how = "cancelled"
        try:
            yield {"nonce": nonce, "attempt": task.attempt, **where}
            how = "returned"
        except Exception:
            how = "raised"
            raise
        finally:
            self._log.write("end", **known, how=how)


class ThreadWorker(Worker):
    """A specialist that does quick work in plain methods."""

    max_concurrency: ClassVar[int] = 4

    @capability("torture.quick.again", idempotent=True)
    def again(self, task: Task, nonce: str, seconds: float, fails: bool = False) -> Result:  # noqa: FBT001, FBT002
        """May run twice."""
        return self._work(task, nonce, seconds, fails=fails)

    @capability("torture.quick.once")
    def once(self, task: Task, nonce: str, seconds: float, fails: bool = False) -> Result:  # noqa: FBT001, FBT002
        """Must not run twice."""
        return self._work(task, nonce, seconds, fails=fails)

    def _work(self, task: Task, nonce: str, seconds: float, *, fails: bool) -> Result:
        with self.logged(task, nonce) as result:
            if seconds:
                time.sleep(seconds)
            if fails:
                raise ArithmeticError(nonce)
        return result


class AsyncWorker(Worker):
    """A specialist that does slow work, many pieces at a time, and passes parts of it on."""

    max_concurrency: ClassVar[int] = 64

    @capability("torture.slow.again", idempotent=True)
    async def slow_again(self, task: Task, nonce: str, seconds: float, steps: int = 0) -> Result:
        """May run twice."""
        return await self._slow(task, nonce, seconds, steps)

    @capability("torture.slow.once")
    async def slow_once(self, task: Task, nonce: str, seconds: float, steps: int = 0) -> Result:
        """Must not run twice."""
        return await self._slow(task, nonce, seconds, steps)

    @capability("torture.tree.again", idempotent=True)
    async def tree_again(self, task: Task, nonce: str, seconds: float, parts: int, depth: int) -> Result:
        """May run twice."""
        return await self._tree(task, nonce, seconds, parts, depth)

    @capability("torture.tree.once")
    async def tree_once(self, task: Task, nonce: str, seconds: float, parts: int, depth: int) -> Result:
        """Must not run twice."""
        return await self._tree(task, nonce, seconds, parts, depth)

    async def _slow(self, task: Task, nonce: str, seconds: float, steps: int) -> Result:
        with self.logged(task, nonce) as result:
            for step in range(steps):
                await asyncio.sleep(seconds / (steps + 1))
                task.progress((step + 1) / (steps + 1), data={"step": step})
            await asyncio.sleep(seconds / (steps + 1))
        return result

    async def _tree(self, task: Task, nonce: str, seconds: float, parts: int, depth: int) -> Result:
        with self.logged(task, nonce) as result:  # it raises where a part is asked for after the end of the whole
            await asyncio.sleep(seconds)
            statuses = await asyncio.gather(*(self._part(task, nonce, number, depth) for number in range(parts)))
        return {**result, "parts": statuses}

    async def _part(self, task: Task, nonce: str, number: int, depth: int) -> str:
        """Pass one part on, and write down what became of it as a delegator does."""
        kind, more = ("tree", {"parts": 1, "depth": depth - 1}) if depth > 1 else ("quick", {})
        name = f"torture.{kind}.{'again' if number % 2 else 'once'}"
        request_id = to_text(new_id())
        self._log.write(
            "invoke", id=request_id, capability=name, timeout=task.remaining, parent=task.request_id, by=self.agent_name
        )  # fmt: skip
        params = {"nonce": f"{nonce}/{number}", "seconds": _PART_SECONDS, **more}
        response = await task.delegate(name, params, request_id=request_id)
        note_outcome(self._log, self._home, response)
        return response.status.name
