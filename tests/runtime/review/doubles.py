"""A bus of no threads and no agents: each delegation ends as its script says."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ether.review.progress import Progress
from ether.review.scout.explore import PassName, explore
from ether.review.scout.summary import Group, summarise
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError


def completed(request_id: str, data: Any) -> Response:
    return Response(
        request_id=request_id,
        status=Status.COMPLETED,
        from_agent="scout",
        data=data,
        elapsed=0.25,
        metrics={"cost": 0.001},
    )


def failed(request_id: str, status: Status = Status.FAILED_EXECUTION, code: str = "exception") -> Response:
    error = ErrorInfo(code=code, message="It | broke <badly>.")
    return Response(request_id=request_id, status=status, from_agent="scout", error=error, elapsed=0.5)


class FakeHandle:
    def __init__(self, request_id: str, responses: list[Response], gate: threading.Event | None) -> None:
        self.id = request_id
        self.cancelled = threading.Event()
        self._responses = responses
        self._gate = gate

    def stream(self):
        return self

    def __iter__(self):
        return iter(self._responses)

    async def __aiter__(self):
        yield Response(request_id=self.id, status=Status.ACCEPTED)
        yield Response(request_id=self.id, status=Status.PROGRESS, progress=0.5, summary="half.py")
        if self._gate is not None:
            assert await asyncio.to_thread(self._gate.wait, 10)
        for response in self._responses:
            yield response

    def cancel(self):
        self.cancelled.set()
        if self._gate is not None:
            self._gate.set()


class FakeBus:
    """Explores for real, in the caller's thread, unless `outcomes` says otherwise.

    Args:
        outcomes: {(directory's name, pass) or "summary": what becomes of it}: a Response is the outcome, an error is
            raised by `delegate`, a function is given the request id and the result.
        gate: when given, no delegation ends before it is set.
    """

    def __init__(self, outcomes: dict[Any, Any] | None = None, gate: threading.Event | None = None) -> None:
        self.outcomes = outcomes or {}
        self.asked: list[tuple[str, dict[str, Any], float | None]] = []
        self.handles: list[FakeHandle] = []
        self._gate = gate
        self._lock = threading.Lock()

    def delegate(self, capability: str, params: Any = None, *, timeout: float | None = None) -> FakeHandle:
        with self._lock:
            self.asked.append((capability, params, timeout))
            request_id = f"0190e2f0-0000-7000-8000-{len(self.asked):012x}"
        if capability == "scout.summarize_findings":
            key: Any = "summary"
            result = summarise(TypeAdapter(list[Group]).validate_python(params["groups"]))
        else:
            key = (Path(params["path"]).name, params["passes"][0])
            result = explore(Path(params["path"]), [PassName(params["passes"][0])])
        scripted = self.outcomes.get(key)
        if isinstance(scripted, EtherError):
            raise scripted
        if callable(scripted):
            scripted = scripted(request_id, result)
        handle = FakeHandle(request_id, [scripted or completed(request_id, result)], self._gate)
        self.handles.append(handle)
        return handle


class RecordingProgress(Progress):
    """Notes what it is told, and whether two threads told it something at a time."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.overlaps = 0
        self._telling = threading.Lock()

    def _note(self, what, task):
        if not self._telling.acquire(blocking=False):
            self.overlaps += 1
            return
        self.events.append((what, task.label))
        self._telling.release()

    def started(self, task, request_id):
        self._note("started", task)

    def progressed(self, task, request_id, fraction, message):
        self._note("progressed", task)

    def finished(self, outcome):
        self._note("finished", outcome.task)
