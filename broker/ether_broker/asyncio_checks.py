"""Questions about asyncio that never import it: what has not loaded it pays nothing for it, and runs no event loop.

While another thread imports it for the first time, the module is there and has not all of its names yet; no event loop
runs then either, and nothing has been cancelled by one.
"""

from __future__ import annotations

import sys

__all__ = ["is_cancellation", "runs_event_loop"]


def runs_event_loop() -> bool:
    """Whether the calling thread runs an event loop of asyncio."""
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)  # the quick one, which does not raise
    return running is not None and running() is not None


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is the cancellation of a task of asyncio."""
    cancelled = getattr(sys.modules.get("asyncio"), "CancelledError", None)
    return cancelled is not None and isinstance(error, cancelled)
