"""The specialists of a campaign: they work as long as they are told, and write down each run before it begins."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, ClassVar, Final

from ether.lab.torture.history.log import LogWriter
from ether.lab.torture.history.message import outcome_fields
from ether_actors.agent.agent import Agent
from ether_actors.agent.capability import capability
from ether_actors.task.task import Task
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.errors import EtherError

__all__ = ["AsyncWorker", "ThreadWorker", "Worker"]

_SLICE: Final = 0.02


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

    def start_of(self, task: Task, name: str) -> None:
        """Write down that a run begins."""
        self._log.write(
            "start", id=task.request_id, attempt=task.attempt, capability=name, node=self._home, pid=os.getpid()
        )

    def end_of(self, task: Task, how: str) -> None:
        """Write down that a run ends."""
        self._log.write("end", id=task.request_id, attempt=task.attempt, how=how)

    def result_of(self, task: Task, nonce: str, **more: object) -> dict[str, Any]:
        """What a run returns: it says which run it was."""
        return {"nonce": nonce, "attempt": task.attempt, "node": self._home, "pid": os.getpid(), **more}


class ThreadWorker(Worker):
    """A specialist that does quick work in plain methods."""

    max_concurrency: ClassVar[int] = 4

    @capability("torture.quick.again", idempotent=True)
    def again(self, task: Task, nonce: str, seconds: float, fails: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """May run twice."""
        return self._work(task, "torture.quick.again", nonce, seconds, fails=fails)

    @capability("torture.quick.once")
    def once(self, task: Task, nonce: str, seconds: float, fails: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Must not run twice."""
        return self._work(task, "torture.quick.once", nonce, seconds, fails=fails)

    def _work(self, task: Task, name: str, nonce: str, seconds: float, *, fails: bool) -> dict[str, Any]:
        self.start_of(task, name)
        if seconds:
            time.sleep(seconds)
        if fails:
            self.end_of(task, "raised")
            raise ArithmeticError(nonce)
        self.end_of(task, "returned")
        return self.result_of(task, nonce)


class AsyncWorker(Worker):
    """A specialist that does slow work, many pieces at a time, and passes parts of it on."""

    max_concurrency: ClassVar[int] = 64

    @capability("torture.slow.again", idempotent=True)
    async def slow_again(self, task: Task, nonce: str, seconds: float, steps: int = 0) -> dict[str, Any]:
        """May run twice."""
        return await self._slow(task, "torture.slow.again", nonce, seconds, steps)

    @capability("torture.slow.once")
    async def slow_once(self, task: Task, nonce: str, seconds: float, steps: int = 0) -> dict[str, Any]:
        """Must not run twice."""
        return await self._slow(task, "torture.slow.once", nonce, seconds, steps)

    @capability("torture.tree.again", idempotent=True)
    async def tree_again(self, task: Task, nonce: str, seconds: float, parts: int, depth: int) -> dict[str, Any]:
        """May run twice."""
        return await self._tree(task, "torture.tree.again", nonce, seconds, parts, depth)

    @capability("torture.tree.once")
    async def tree_once(self, task: Task, nonce: str, seconds: float, parts: int, depth: int) -> dict[str, Any]:
        """Must not run twice."""
        return await self._tree(task, "torture.tree.once", nonce, seconds, parts, depth)

    async def _slow(self, task: Task, name: str, nonce: str, seconds: float, steps: int) -> dict[str, Any]:
        self.start_of(task, name)
        how = "cancelled"
        try:
            for step in range(steps):
                await asyncio.sleep(seconds / (steps + 1))
                task.progress((step + 1) / (steps + 1), data={"step": step})
            await asyncio.sleep(seconds / (steps + 1))
            how = "returned"
        finally:
            self.end_of(task, how)
        return self.result_of(task, nonce)

    async def _tree(  # noqa: PLR0917  the capabilities' own
        self, task: Task, name: str, nonce: str, seconds: float, parts: int, depth: int
    ) -> dict[str, Any]:
        self.start_of(task, name)
        how = "cancelled"
        try:
            await asyncio.sleep(seconds)
            statuses = await asyncio.gather(*(self._part(task, nonce, number, depth) for number in range(parts)))
            how = "returned"
        except EtherError:  # such as a delegation after the end of its own
            how = "raised"
            raise
        finally:
            self.end_of(task, how)
        return self.result_of(task, nonce, parts=list(statuses))

    async def _part(self, task: Task, nonce: str, number: int, depth: int) -> str:
        """Pass one part on, and write down what became of it as a delegator does."""
        word = "again" if number % 2 else "once"
        params: dict[str, Any] = {"nonce": f"{nonce}/{number}", "seconds": 0.01}
        if depth > 1:
            name, params = f"torture.tree.{word}", {**params, "parts": 1, "depth": depth - 1}
        else:
            name = f"torture.quick.{word}"
        request_id = to_text(new_id())
        self._log.write(
            "invoke", id=request_id, capability=name, timeout=task.remaining, parent=task.request_id, by=self.agent_name
        )  # fmt: skip
        response = await task.delegate(name, params, request_id=request_id)
        fields = outcome_fields(response)
        self._log.write("unknown" if response.from_agent == self._home else "ok", id=request_id, **fields)
        return response.status.name
