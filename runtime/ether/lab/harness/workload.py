"""The work that every contender does: echo one body of 1 KB, nested or opaque."""

from __future__ import annotations

import random
import time
from typing import Any, Final

from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import Task
from ether_broker.envelope.payload import pack

__all__ = ["NESTED", "OPAQUE", "SIZE", "EchoAgent", "Holder", "body_of", "capability_of"]

SIZE: Final = 1024
"""Bytes of a packed body, to within a few."""
NESTED: Final = "nested"
OPAQUE: Final = "bytes"
_LOOK: Final = 0.01
_WORDS: Final = ("actor", "broker", "envelope", "ledger", "lease", "mailbox", "observer", "supervisor")


def _nested() -> dict[str, Any]:
    """A dict with lists of dicts, as findings of a review have: text, numbers, flags, None and a list in each."""
    chance = random.Random(1024)  # noqa: S311  the same body in every process and run
    body: dict[str, Any] = {"path": "src/ether/runtime.py", "language": "python", "lines": 420, "findings": []}
    while len(pack(body)) < SIZE - 100:
        number = len(body["findings"]) + 1
        body["findings"].append({
            "line": chance.randrange(1, 420), "rule": f"E{number:03}", "weight": round(chance.random(), 3),
            "fixed": number % 2 == 0, "owner": None, "tags": chance.sample(_WORDS, 2),
            "message": " ".join(chance.choices(_WORDS, k=4)),
        })  # fmt: skip
    body["note"] = "x" * (SIZE - len(pack(body)) - 7)
    return body


_BODIES: Final[dict[str, Any]] = {NESTED: _nested(), OPAQUE: random.Random(7).randbytes(SIZE - 3)}  # noqa: S311


def body_of(kind: str) -> Any:
    """The body of a kind, `SIZE` bytes when packed."""
    return _BODIES[kind]


def capability_of(kind: str) -> str:
    """The capability that echoes bodies of that kind."""
    return f"bench.echo.{kind}"


class EchoAgent(Agent):
    """An agent that returns what it is given: the work that is measured."""

    @capability("bench.echo.nested", idempotent=True)
    def echo_nested(self, params: dict[str, Any]) -> dict[str, Any]:
        """Echo a dict."""
        return params

    @capability("bench.echo.bytes", idempotent=True)
    def echo_bytes(self, params: bytes) -> bytes:
        """Echo opaque bytes."""
        return params


class Holder(EchoAgent):
    """An agent that holds its work until it is cancelled or killed, and answers when it gets the work again."""

    max_concurrency = 2

    @capability("bench.hold.once")
    def hold_once(self, task: Task) -> None:
        """Hold work that must not run twice."""
        _hold(task)

    @capability("bench.hold.again", idempotent=True)
    def hold_again(self, task: Task) -> int:
        """Hold work that may run twice, the first time."""
        if task.attempt == 1:
            _hold(task)
        return task.attempt


def _hold(task: Task) -> None:
    task.progress(0.0)
    while not task.cancelled:
        time.sleep(_LOOK)
