"""An agent for the tests of cells: it does what the delegation says and writes down what happens to it."""

from __future__ import annotations

import asyncio
from typing import Any

from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import Task

__all__ = ["Worker", "fail_with"]


class Worker(Agent):
    """Does what the delegation says, and writes down what happens to it."""

    def __init__(self, log: list[str] | None = None, calls: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.log = [] if log is None else log
        self.calls = calls or {}
        self.log.append("made")

    def on_start(self) -> None:
        self.log.append("started")

    def on_stop(self) -> None:
        self.log.append("stopped")

    def on_failure(self, exception_type, exception_value, traceback) -> None:
        self.log.append(f"failed with {exception_type.__name__}")

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        self.log.append(f"told {message}")
        return f"heard {message}"

    @capability("work.say")
    def say(self, word: str = "") -> str:
        self.log.append(word)
        return word

    @capability("work.call")
    def call(self, what: str, task: Task):
        return self.calls[what](task)

    @capability("work.count")
    def count(self) -> int:
        return "many"  # type: ignore[return-value]

    @capability("work.nap")
    async def nap(self, seconds: float, word: str = "") -> str:
        self.log.append(f"{word} begins")
        await asyncio.sleep(seconds)
        self.log.append(f"{word} ends")
        return word


def fail_with(error: BaseException) -> Any:
    def call(task: Task) -> None:
        raise error

    return call
