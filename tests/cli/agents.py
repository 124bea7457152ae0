"""The agents of these tests; processes of their own import them too."""

from __future__ import annotations

import threading

from pydantic import BaseModel

from ether import Agent, Response, Status, Task, capability

__all__ = ["GATE", "STARTED", "Broken", "Counter", "Greeter"]

GATE = threading.Event()
"""`test.wait` ends when it is set; where it runs in the test's own process."""
STARTED = threading.Event()
"""Set by `test.wait` when it has begun."""


class Person(BaseModel):
    name: str
    title: str = ""


class Greeter(Agent):
    """Greets people."""

    @capability("test.people.greet", confidence=0.9, idempotent=True, description="A greeting, by name.")
    def greet(self, person: Person) -> str:
        return f"Hello, {person.title} {person.name}" if person.title else f"Hello, {person.name}"

    @capability("test.echo")
    def echo(self, **params: object) -> dict[str, object]:
        return params

    @capability("test.raw")
    def raw(self, size: int) -> bytes:
        return bytes(size)


class Counter(Agent):
    """Counts, and tells how far it is."""

    max_concurrency = 4

    @capability("test.count")
    def count(self, task: Task, to: int = 3, data: bool = False) -> int:
        for number in range(1, to + 1):
            task.progress(number / to, f"counted {number}", {"number": number} if data else None)
        return to

    @capability("test.wait")
    def wait(self, task: Task, seconds: float = 20.0) -> str:
        task.progress(0.5, "half way", {"waiting": True})
        STARTED.set()
        GATE.wait(seconds)
        return "waited"

    @capability("test.fail")
    def fail(self) -> None:
        raise ValueError("the handler's own words")

    @capability("test.end")
    def end(self, status: str, task: Task) -> Response:
        return Response(
            request_id=task.request_id, status=Status[status], unresolved=("the rest",), questions=("which one?",)
        )  # fmt: skip


class Broken(Agent):
    """Cannot start."""

    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Impossible(Agent):
    """Contradicts itself."""

    @capability("test.echo")
    def one(self) -> None: ...

    @capability("test.echo")
    def other(self) -> None: ...


class NotAnAgent:
    pass


def make_greeter() -> Greeter:
    return Greeter()
