"""The thread of an observer: takes the tap's batches, and acknowledges those that the observer has handled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from ether_actors.observers.observer import Observer
from ether_actors.threads.pool import this_thread
from ether_broker.errors import MalformedFrame
from ether_broker.tap import pack_batch, read_batch

__all__ = ["ObserverThread"]

logger: logging.Logger = logging.getLogger("ether.observer")

_FROM_ONE: Final = pack_batch(1, 1, (), (), ())
"""A batch of nothing, from number 1 to number 1."""


class ObserverThread:
    """The thread that runs one observer.

    Args:
        observer: whose methods are called.
        acknowledge: tells the broker that everything below a number has been handled.
    """

    def __init__(self, observer: Observer, acknowledge: Callable[[int], None]) -> None:
        self.observer = observer
        self._acknowledge = acknowledge
        self._following = 0
        self._batches: SimpleQueue[bytes | None] = SimpleQueue()
        self._caught_up = threading.Condition()
        name = f"ether-observer-{type(observer).__name__}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, position: int) -> None:
        """Begin with the message of that number."""
        self.observer.position = position
        self._thread.start()

    def post(self, batch: bytes) -> None:
        """Take a batch from the link."""
        self._following = int.from_bytes(batch[8:16])
        self._batches.put(batch)

    @property
    def following(self) -> int:
        """The number after the last message that came here, seen by the observer or not."""
        return self._following or self.observer.position

    def begin_again(self) -> None:
        """Count from 1 after what is here: another broker numbers what comes."""
        self.post(_FROM_ONE)

    def wait(self, number: int, timeout: float) -> bool:
        """Wait until everything below `number` has been handled; False when `timeout` seconds were not enough."""
        with this_thread.waits(), self._caught_up:
            return self._caught_up.wait_for(lambda: self.observer.position >= number, timeout)

    def stop(self, timeout: float = 2.0) -> None:
        """End after the batches that are there, waiting at most `timeout` seconds."""
        self._batches.put(None)
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        observer = self.observer
        observer.guard(observer.on_start)
        while (body := self._batches.get()) is not None:
            try:
                batch = read_batch(body)
            except MalformedFrame as error:
                logger.warning("a batch for the observer %r cannot be read: %s", observer, error)
                continue
            observer.observe(batch)
            self._acknowledge(batch.next)
            with self._caught_up:
                self._caught_up.notify_all()
        observer.guard(observer.on_stop)
