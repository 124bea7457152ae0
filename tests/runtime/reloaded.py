"""Agents of clusters that are reloaded while they work."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ether import Agent, Event, Task, capability, on_event
from tests.runtime.agents import wait_for


class Counted(BaseModel):
    total: int = 0


class Keeper(Agent):
    """Says its word, counts what it was asked in its state, and works until it is told to go on."""

    state: Counted

    def __init__(self, word: str = "first", folder: str | None = None) -> None:
        self.word = word
        if folder is not None and Path(folder, "broken").exists():
            raise RuntimeError("it is broken")
        if folder is not None and Path(folder, "fatal").exists():
            os._exit(3)

    @capability("keep.word", idempotent=True)
    def keep(self, task: Task, folder: str | None = None) -> dict[str, Any]:
        if folder is not None:
            Path(folder, f"{task.request_id}.{task.attempt}").touch()
            wait_for(Path(folder, "go"), task)
        self.state.total += 1
        return {
            "word": self.word, "total": self.state.total, "pid": os.getpid(), "agent": self.agent_name,
            "attempt": task.attempt,
        }  # fmt: skip


class Plain(Agent):
    """Says its word; of another class and without a state."""

    dispatch = "thread"
    max_concurrency = 2

    def __init__(self, word: str = "plain") -> None:
        self.word = word

    @capability("keep.word", idempotent=True)
    def keep(self, task: Task, folder: str | None = None) -> dict[str, Any]:
        return {"word": self.word, "pid": os.getpid(), "agent": self.agent_name, "attempt": task.attempt}


class Crew(Agent):
    """Says its word, without a state; works until it is told to go on, and starts only when nothing holds it."""

    def __init__(self, word: str = "first", folder: str | None = None) -> None:
        self.word, self.folder = word, folder

    def on_start(self) -> None:
        for held in (self.word, self.agent_name):
            if self.folder is not None and (hold := Path(self.folder, f"hold-{held}")).exists():
                Path(self.folder, f"starting-{self.agent_name}").touch()
                while hold.exists():
                    time.sleep(0.005)
        if self.folder is not None and Path(self.folder, "broken").exists():
            raise RuntimeError("it is broken")

    @capability("crew.word")
    async def say(
        self, task: Task, folder: str | None = None, seconds: float = 0.0, until: str = "go"
    ) -> dict[str, Any]:  # fmt: skip
        await asyncio.sleep(seconds)
        if folder is not None:
            with Path(folder, f"{task.request_id}.{task.attempt}").open("a") as runs:  # noqa: ASYNC230  what a test waits for
                runs.write("x")
            while not Path(folder, until).exists():  # noqa: ASYNC240  as above
                await asyncio.sleep(0.005)
        return {"word": self.word, "pid": os.getpid(), "agent": self.agent_name, "attempt": task.attempt}


class Sleeper(Agent):
    """Waits in the event loop until it is told to go on."""

    @capability("sleep.once")
    async def sleep(self, folder: str, task: Task) -> str:
        Path(folder, f"{task.request_id}.{task.attempt}").touch()  # noqa: ASYNC240  what a test waits for
        while not Path(folder, "go").exists():  # noqa: ASYNC240  as above
            await asyncio.sleep(0.005)
        return "slept"


class Asker(Agent):
    """Asks a keeper, and waits for its word."""

    @capability("ask.word")
    def ask(self, folder: str, whom: str, task: Task) -> Any:
        Path(folder, f"{task.request_id}.{task.attempt}").touch()
        wait_for(Path(folder, "ask"), task)
        return task.delegate("keep.word", to=whom).result().unwrap().data


class Leaver(Agent):
    """Says its word, and leaves the bus when it is told to."""

    def __init__(self, word: str = "first") -> None:
        self.word = word

    @capability("leave.word", idempotent=True)
    def say(self) -> str:
        return self.word

    @capability("leave.now")
    def leave(self) -> str:
        self.actor_ref.stop(block=False)
        return self.word


class Bare(Agent):
    """Has no `__init__`."""

    @capability("keep.word", idempotent=True)
    def keep(self) -> str:
        return "bare"


def filling(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def filled(self: Any, **more: Any) -> None:
        init(self, word="filled", **more)

    return filled


class Filled(Agent):
    """Has an `__init__` that is given an argument by its decorator."""

    @filling
    def __init__(self, word: str, more: int = 0) -> None:
        self.word, self.more = word, more

    @capability("keep.word", idempotent=True)
    def keep(self) -> dict[str, Any]:
        return {"word": self.word, "more": self.more}


class Tally(Agent):
    """Notes in a file each event and each delegation that it handles, and in which process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def note(self, what: str, number: int) -> None:
        with Path(self.folder, "tally").open("a") as lines:
            lines.write(f"{what} {number} {os.getpid()}\n")

    @on_event("tally.*")
    def count(self, event: Event) -> None:
        time.sleep(0.002)
        self.note("event", event.data["number"])

    @capability("tally.add")
    def add(self, number: int) -> int:
        time.sleep(0.002)
        self.note("add", number)
        return number


class Noted(Agent):
    """Notes each run in a file, and does not start while it, or the agent of which it is an instance, is broken."""

    def __init__(self, folder: str, word: str = "first") -> None:
        self.folder, self.word = folder, word

    def on_start(self) -> None:
        for name in {self.agent_name, self.agent_name.split("-")[0]}:
            if Path(self.folder, f"fatal-{name}").exists():
                os._exit(3)
            if Path(self.folder, f"broken-{name}").exists():
                raise RuntimeError("it is broken")

    async def run(self, task: Task, seconds: float) -> str:
        with Path(self.folder, "runs").open("a") as lines:  # noqa: ASYNC230  a line is one write
            lines.write(f"{task.request_id} {self.agent_name} {os.getpid()}\n")
        await asyncio.sleep(seconds)
        return self.word


class Alpha(Noted):
    """Has a capability that may run once."""

    @capability("noted.alpha")
    async def once(self, task: Task, seconds: float) -> str:
        return await self.run(task, seconds)


class Beta(Noted):
    """Has one that may run again."""

    @capability("noted.beta", idempotent=True)
    async def again(self, task: Task, seconds: float) -> str:
        return await self.run(task, seconds)
