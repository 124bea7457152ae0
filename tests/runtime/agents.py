"""Agents that nodes in other processes host; a folder is how a test and their handlers tell each other things."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ether import Agent, AgentCrash, Event, Task, Unavailable, capability, on_event


def wait_for(path: Path, task: Task) -> None:
    """Wait until the test makes a file, or the delegation has ended."""
    while not path.exists() and not task.cancelled:
        time.sleep(0.005)


class Worker(Agent):
    """Works until it is told to go on."""

    @capability("work.once")
    def once(self, folder: str, task: Task) -> dict[str, Any]:
        return self.run(Path(folder), task)

    @capability("work.again", idempotent=True)
    def again(self, folder: str, task: Task) -> dict[str, Any]:
        return self.run(Path(folder), task)

    @capability("work.alone")
    def alone(self) -> dict[str, Any]:
        return {"agent": self.agent_name, "pid": os.getpid(), "session": os.getsid(0)}

    @capability("work.stubborn", idempotent=True)
    def stubborn(self, folder: str, task: Task) -> None:
        Path(folder, "stubborn").touch()
        while not Path(folder, "never").exists():
            time.sleep(0.01)

    @capability("work.crash")
    def crash(self) -> None:
        raise AgentCrash("on demand")

    @capability("work.spawn")
    def spawn(self) -> int:
        """Leave a process behind."""
        code = "import time; time.sleep(60)"
        return subprocess.Popen([sys.executable, "-c", code]).pid

    @capability("work.hog")
    def hog(self, task: Task) -> None:
        """Sleep in C with the interpreter's lock held: no other thread of the process runs."""
        task.progress(1.0)
        ctypes.PyDLL(None).sleep(60)

    @capability("work.print")
    def say(self, text: str) -> None:
        print(text)

    def run(self, folder: Path, task: Task) -> dict[str, Any]:
        marker = folder / f"{task.request_id}.{task.attempt}"
        marker.write_text(str(os.getpid()))
        wait_for(folder / "go", task)
        return {"agent": self.agent_name, "pid": os.getpid(), "attempt": task.attempt, "cancelled": task.cancelled}


class Writer(Agent):
    """Writes a file in its folder, one line at a time, when it is told to go on."""

    max_concurrency = 4

    @capability("write.line")
    def line(self, folder: str, word: str, task: Task):
        with task.lease(Path(folder, "report.md")) as lease:
            Path(folder, f"{word}.holds").write_text(str(os.getpid()))
            wait_for(Path(folder, f"{word}.go"), task)
            lease.check()
            before = lease.path.read_text() if lease.path.exists() else ""
            artifact = lease.write(f"{before}{word}\n")
            return task.respond(data={"token": lease.token, "pid": os.getpid()}, artifacts=[artifact])

    @capability("write.race")
    async def race(self, folder: str, word: str, task: Task) -> int:
        """Read, wait a moment, and write what was read and a line more."""
        async with task.lease(Path(folder, "race.md")) as lease:
            before = lease.path.read_text() if lease.path.exists() else ""
            await asyncio.sleep(0.001)
            lease.write(f"{before}{word}\n")
            return lease.token


class Caller(Agent):
    """Asks a worker."""

    @capability("call.nested")
    async def nested(self, text: str, task: Task) -> dict[str, Any]:
        task.progress(0.5, "asking")
        answer = await task.delegate("work.alone")
        return {"text": text, "from": answer.data["agent"]}


class StartsWith(Agent):
    """Does not start while there is a file `broken` in its folder; notes each start in `started`."""

    def __init__(self, folder: str) -> None:
        with Path(folder, "started").open("a") as started:
            started.write(".")
        while Path(folder, "hangs").exists():
            time.sleep(0.01)
        if Path(folder, "broken").exists():
            raise {"exit": SystemExit, "rejected": Unavailable}.get(Path(folder, "broken").read_text(), RuntimeError)(
                "broken"
            )

    @capability("starts.with")
    def work(self) -> None: ...


class Doomed(Agent):
    """Ends its process as soon as it works."""

    @capability("doomed.die")
    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class EndsAtOnce(Agent):
    """Comes up, and takes its process down a moment later: a crash loop."""

    def on_start(self) -> None:
        threading.Timer(0.1, lambda: os._exit(3)).start()

    @capability("loop.turn")
    def turn(self) -> None:
        pass


class Refuses(Agent):
    """Does not start."""

    def on_start(self) -> None:
        raise ValueError("no key in the environment")


class Slow(Agent):
    """Never comes up."""

    def on_start(self) -> None:
        time.sleep(60)


class NoAgent:
    """Not an agent."""


class Blocker(Agent):
    """Keeps the event loop of its node, as a client library without `await` does."""

    hang_limit = 0.5

    @capability("block.until")
    async def until(self, gate: str) -> str:
        while not Path(gate).exists():  # noqa: ASYNC240  what it is for
            time.sleep(0.01)  # noqa: ASYNC251  as above
        return "late"


class Passer(Agent):
    """Async, and beside a `Blocker`."""

    max_concurrency = 2

    @capability("pass.by")
    async def by(self, seconds: float = 0.0) -> int:
        await asyncio.sleep(seconds)
        return threading.get_ident()

    @capability("pass.slowly")
    async def slowly(self) -> None:
        await asyncio.sleep(60)


class Tally(Agent):
    """Notes each start of a handler, in a file that all processes append to."""

    max_concurrency = 4

    @capability("tally.once")
    def once(self, folder: str, task: Task) -> None:
        with Path(folder, "runs").open("a", encoding="utf-8") as runs:
            runs.write(f"{task.request_id}\n")

    @capability("tally.again", idempotent=True)
    def again(self, folder: str, task: Task) -> None:
        self.once(folder, task)


class Listener(Agent):
    """Writes the data of the events that it is given, a line each, into `heard` in its folder."""

    def __init__(self, folder: str) -> None:
        self.heard = Path(folder, "heard")

    @on_event("news.*", idempotent=True)
    def note(self, event: Event) -> None:
        with self.heard.open("a") as heard:
            heard.write(f"{event.data}\n")
