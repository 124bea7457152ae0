"""A small pool of threads for thousands of actors, which grows while some of its threads wait.

A handler that waits for a sub-delegation says so (`blocking`), and another thread takes its place; so a hundred nested
waits end on a pool of four. A handler that is stuck without saying so is noticed by `relieve`.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final

__all__ = ["Pool", "current_pool"]

logger = logging.getLogger("ether.pool")

MAX_THREADS: Final = 1_000
"""Threads of one pool at most, waiting ones included."""
_here = threading.local()
_numbers = itertools.count(1)


def current_pool() -> Pool | None:
    """The pool that the calling thread belongs to."""
    return getattr(_here, "pool", None)


class Pool:
    """Threads that run callables in the order in which they were submitted.

    Args:
        size: callables that run at a time, those that wait in `blocking` not counted.
        name: begins the threads' names.
    """

    def __init__(self, size: int = 4, name: str = "ether-pool") -> None:
        self.size = size
        self._name = name
        self._ready: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._blocked = 0
        self._done = 0
        self._seen = -1
        self._closed = False

    @property
    def has_more(self) -> bool:
        """Whether calls wait for a thread."""
        return not self._ready.empty()

    @property
    def threads(self) -> int:
        """Threads that there are now."""
        return len(self._threads)

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable as soon as a thread is free; it must not raise. After `close` it is dropped."""
        self._ready.put(call)
        if len(self._threads) - self._blocked < self.size:
            self._grow()

    def _grow(self) -> None:
        with self._lock:
            if self._closed or len(self._threads) - self._blocked >= self.size or len(self._threads) >= MAX_THREADS:
                return
            self._spawn()

    def _spawn(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}-{next(_numbers)}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        _here.pool = self
        get = self._ready.get
        while True:
            call = get()
            if call is None:
                break
            try:
                call()
            except BaseException:
                logger.exception("a turn in the pool raised; this is a bug of the bus")
            self._done += 1
            if len(self._threads) - self._blocked > self.size and self._leave():
                return
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _leave(self) -> bool:
        with self._lock:
            if len(self._threads) - self._blocked <= self.size:
                return False
            self._threads.discard(threading.current_thread())
            return True

    @contextlib.contextmanager
    def blocking(self) -> Iterator[None]:
        """Say that the calling thread of the pool waits, so that another may take its place meanwhile."""
        with self._lock:
            self._blocked += 1
            if not self._closed and not self._ready.empty() and len(self._threads) < MAX_THREADS:
                self._spawn()
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= 1

    def relieve(self) -> None:
        """Add a thread if work waits and nothing was finished since the last call: all threads are stuck."""
        with self._lock:
            stuck = self._done == self._seen and not self._ready.empty()
            self._seen = self._done
            if stuck and not self._closed and len(self._threads) < MAX_THREADS:
                self._spawn()

    def close(self, timeout: float = 2.0) -> int:
        """End the threads when they have finished what they run.

        Returns:
            How many had not ended after `timeout` seconds; they are daemons and do not keep the process alive.
        """
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._ready.put(None)
        end = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        return sum(thread.is_alive() for thread in threads)
