"""The progress of a review as lines, one an event: for people, files and pipes alike (spec 1 §6.1, §8.4)."""

from __future__ import annotations

from typing import Final, TextIO

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask
from ether.text_io.terminal import put
from ether_broker.envelope.status import AgentStatus
from ether_broker.text import printable

__all__ = ["Progress"]

_ICONS: Final = {AgentStatus.SUCCESS: "✅", AgentStatus.PARTIAL: "⚠️", AgentStatus.ERROR: "❌"}
_WIDTH: Final = 20
_REASON: Final = 1_000
"""Characters of a line."""
_STEP: Final = 0.25
"""A line of progress for each such part, so that a log stays short."""


class Progress:
    """A writer of progress to a stream, as text without colour or cursor. Calls come one at a time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._steps: dict[str, int] = {}

    def started(self, task: ReviewTask, request_id: str) -> None:
        """`[550e8400] ▶ scout.explore_directory starting...`."""
        self._write(request_id, f"▶ scout.explore_directory starting... ({task.label})")

    def progressed(self, task: ReviewTask, request_id: str, fraction: float, message: str) -> None:
        """A bar of blocks at each quarter."""
        del task
        step = int(fraction / _STEP)
        if step <= self._steps.get(request_id, 0):
            return
        self._steps[request_id] = step
        bar = "█" * int(fraction * _WIDTH)
        self._write(request_id, f"{bar:<{_WIDTH}} {fraction:.0%} {message}".rstrip())

    def finished(self, outcome: Outcome) -> None:
        """`[550e8400] ✅ scout complete (Cost: $0.0012, Time: 3500ms)`, and the error of what failed.

        What has cost nothing, as no model ran, is told without a cost.
        """
        icon = _ICONS[outcome.status.agent_status]
        figures = f"Time: {outcome.seconds * 1000:.0f}ms"
        if outcome.cost:
            figures = f"Cost: ${outcome.cost:.4f}, {figures}"
        word = "complete" if outcome.ok else outcome.status.name
        self._write(outcome.request_id, f"{icon} scout {word} ({outcome.task.label}, {figures})")
        if not outcome.ok and outcome.reason:
            word = "Left out" if outcome.has_result else "Error"
            put(f"  └─ {word}: {printable(outcome.reason, _REASON)}", self._stream)

    def _write(self, request_id: str, text: str) -> None:
        put(f"[{short(request_id)}] {printable(text, _REASON)}", self._stream)


def short(request_id: str) -> str:
    """The eight characters of an id that tell those of one process apart (`ether_broker.envelope.ids`): its counter.

    The first eight are the time, and alike in all of a review.
    """
    return request_id.replace("-", "")[14:22] or "--------"
