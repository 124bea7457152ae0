"""What a display is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask

__all__ = ["Display"]


class Display(AbstractContextManager["Display"], Protocol):
    """Shows a review as it runs. All calls come from one thread, inside its `with` block."""

    def started(self, task: ReviewTask, request_id: str) -> None:
        """An agent has begun a task."""

    def progressed(self, task: ReviewTask, request_id: str, fraction: float, message: str) -> None:
        """A task is so far, 0 to 1."""

    def finished(self, outcome: Outcome) -> None:
        """A task has its outcome."""
