"""What a display is, and which one fits the stream."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask

__all__ = ["Display", "wants_bars"]


class Display(AbstractContextManager["Display"], Protocol):
    """Shows a review as it runs. All calls come from one thread, inside its `with` block."""

    def started(self, task: ReviewTask, request_id: str) -> None:
        """An agent has begun a task."""
        ...

    def progressed(self, task: ReviewTask, request_id: str, fraction: float, message: str) -> None:
        """A task is so far, 0 to 1."""
        ...

    def finished(self, outcome: Outcome) -> None:
        """A task has its outcome."""
        ...


def wants_bars(stream: TextIO) -> bool:
    """Whether bars can be drawn on a stream: it is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}
