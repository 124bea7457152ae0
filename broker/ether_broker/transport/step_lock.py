"""A lock of which any thread can see who holds it."""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["StepLock"]


class StepLock:
    """A lock for whoever steps a broker, which says which thread that is."""

    __slots__ = ("_lock", "holder")

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self.holder: int = 0
        """The thread that holds it; 0 if none does."""

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take it; False if another has it, and it is not to be waited for."""
        if not self._lock.acquire(blocking):
            return False
        self.holder = threading.get_ident()
        return True

    def release(self) -> None:
        """Give it back."""
        self.holder = 0
        self._lock.release()

    def __enter__(self) -> None:
        """Take it."""
        self.acquire()

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self.release()
