"""A small pool of threads for thousands of actors, which grows while some of its threads wait.

A handler that waits for something of ours says so (`blocking`), and another thread takes its place: what it waits for
never lacks a thread, however many wait. So that their number has a bound, the pool says what there is `room` for; whoever
gives it turns begins nothing else. A handler that is stuck without saying so is noticed by `relieve`.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

__all__ = ["Pool", "Room", "this_thread"]

logger = logging.getLogger("ether.pool")

MANY_THREADS_WAITING: Final = 1_000
"""Waiting threads from which on only sub-delegations are begun, for which somebody on the bus may wait."""
MOST_THREADS_WAITING: Final = 4_000
"""Waiting threads from which on nothing is begun; about 64 MiB, and 32 GiB of addresses."""
_IDLE: Final = 0.05
"""Seconds of computing between two calls of `relieve` below which the process counts as idle."""
_QUICK: Final = 4
"""Calls of each thread between two calls of `relieve` from which on they get on: 25 ms each."""
_LOOK_AGAIN: Final = 1.0
"""Seconds after which an idle thread looks whether it was forgotten."""
_AGAIN: Final = 1.0
"""Seconds after which the system is asked for a thread again that gave none."""
_numbers = itertools.count(1)


class _ThisThread(threading.local):
    spare: Pool | None = None
    """The pool whose next call it takes itself."""
    is_inline: bool = False
    """Whether it is within `Pool.run_inline`."""
    catches: Pool | None = None
    """The pool whose next call it does not submit, but keeps."""
    caught: Callable[[], None] | None = None
    """That call."""
    waits: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    """Says that the calling thread waits: if it is a pool's, another takes its place meanwhile."""


this_thread: Final = _ThisThread()


class Room(enum.Enum):
    """The kinds of work for which a pool has a thread."""

    ALL = enum.auto()
    """Any work."""
    SUB_DELEGATIONS = enum.auto()
    """Work that a handler may wait for; other work waits (`Pool.hold`)."""
    NONE = enum.auto()
    """Nothing: work is refused."""


class Pool:
    """A pool of threads that runs callables in the order in which they were submitted.

    A callable is never kept waiting by those that wait in `blocking`: `size` others run beside them, whatever the `room`.

    Args:
        size: callables that run at a time, those that wait in `blocking` not counted.
        name: begins the threads' names.
    """

    def __init__(self, size: int = 4, name: str = "ether-pool") -> None:
        self.size = size
        self._name = name
        self._ready: deque[Callable[[], None] | None] = deque()
        self.backlog: Callable[[], int] = self._ready.__len__
        """How many calls wait for a thread."""
        self._parked: list[threading.Lock] = []
        """The locks that idle threads wait for, the one that was busy last at the end: it is woken first, as its core and its
        memory are still warm, and no other wakes for nothing."""
        self._waiting_for_room: dict[Callable[[], None], None] = {}
        """What is to be called when there is room for all, oldest first."""
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._waiting = 0
        self._many = self._bound = MANY_THREADS_WAITING
        """Threads that may wait while all is begun; the bound rises while nothing moves."""
        self._most = MOST_THREADS_WAITING
        self._relief = 0
        """What `relieve` let in the last time; 0 if what runs got on."""
        self._done = 0
        self._seen = -1
        self._computed = 0.0
        """Calls done, and seconds computed by the process, when `relieve` looked last."""
        self._ask_at: float | None = None
        """When the system, which gave no thread when it was asked last, is asked again; None while it gives all."""
        self._closed = False

    @property
    def threads(self) -> int:
        """Threads that there are now."""
        return len(self._threads)

    @property
    def room(self) -> Room:
        """What may be begun now."""
        waiting = self._waiting
        if waiting < self._bound:
            return Room.ALL
        return Room.SUB_DELEGATIONS if waiting < self._most else Room.NONE

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs in it, or waits."""
        return len(self._parked) == len(self._threads) and not self._ready and self._ask_at is None

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable as soon as a thread is free; it must not raise. After `close` it is dropped."""
        if this_thread.catches is self:
            this_thread.catches, this_thread.caught = None, call
            return
        self._ready.append(call)
        if this_thread.spare is self:
            this_thread.spare = None
            return
        if not self._wake_one() and len(self._threads) - self._waiting < self.size:
            with self._lock:
                self._grow()

    def submit_first(self, call: Callable[[], None]) -> bool:
        """Run a callable in an idle thread, before what waits; False if none is idle.

        The same thread then takes the first of what the callable submits: nothing else is woken for that.
        """
        try:
            parked = self._parked.pop()
        except IndexError:
            return False
        self._ready.appendleft(partial(self._run_first, call))
        parked.release()
        return True

    def _run_first(self, call: Callable[[], None]) -> None:
        this_thread.spare = self
        try:
            call()
        finally:
            this_thread.spare = None
            self._done -= 1  # it is not what `relieve` looks after

    def run_inline(self, call: Callable[[], object], then: Callable[[Callable[[], None]], None]) -> None:
        """Call `call`, and then `then` with the first callable that was submitted in it, if there is one.

        That one is not submitted: `then` runs it in this thread, or submits it. Not within another `run_inline`.
        """
        assert not this_thread.is_inline
        this_thread.is_inline, this_thread.catches = True, self
        try:
            try:
                call()
            finally:
                this_thread.catches = None
                caught, this_thread.caught = this_thread.caught, None
                if caught is not None:
                    then(caught)
        finally:
            this_thread.is_inline = False

    def call_when_room(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when there is room for all; a callable of the pool that does not begin its work says so."""
        with self._lock:
            self._waiting_for_room[wake] = None

    def _wake_one(self) -> bool:
        """Wake an idle thread; False if there is none."""
        if not self._parked:
            return False
        try:
            parked = self._parked.pop()
        except IndexError:  # another call has just woken it
            return False
        parked.release()
        return True

    def _grow(self) -> None:
        if len(self._threads) - self._waiting < self.size:
            self._spawn()

    def _spawn(self) -> None:
        if self._closed or (self._ask_at is not None and time.monotonic() < self._ask_at):
            return
        thread = threading.Thread(target=self._run, name=f"{self._name}-{next(_numbers)}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system gives no more: until it does, fewer wait
            self._threads.discard(thread)
            if self._ask_at is None:
                logger.warning("the system gives no more than %d threads: fewer wait until it does", len(self._threads))
            self._ask_at = time.monotonic() + _AGAIN
            self._let_wait(max(1, len(self._threads) * 7 // 8))
        else:
            if self._ask_at is not None:
                self._ask_at = None
                self._let_wait(MOST_THREADS_WAITING)

    def _let_wait(self, most: int) -> None:
        self._most = most
        self._many = self._bound = min(MANY_THREADS_WAITING, most)

    def _run(self) -> None:  # noqa: C901  no call for each turn
        this_thread.waits = self.blocking
        ready, lock = self._ready, threading.Lock()
        lock.acquire()
        while True:
            if not ready:  # parked first, and looked again: `submit` adds first, and wakes then
                self._parked.append(lock)
                if not ready or not self._is_unparked(lock):
                    while not lock.acquire(timeout=_LOOK_AGAIN):
                        if lock not in self._parked:  # taken out: its release came too late, or Ctrl-C was before it
                            lock = threading.Lock()  # the old one may still be released, or be already
                            lock.acquire()
                            break
            try:
                call = ready.popleft()
            except IndexError:  # a thread that was busy took it
                continue
            if call is None:
                break
            try:
                call()
            except BaseException:
                logger.exception("a turn in the pool raised; this is a bug of the bus")
            self._done += 1
            if self._waiting_for_room:
                self._wake()
            is_needed = self._relief and bool(self._ready)
            if not is_needed and len(self._threads) - self._waiting > self.size and self._leave():
                return
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _is_unparked(self, lock: threading.Lock) -> bool:
        """Take a thread's lock back; False if `submit` has taken it, and wakes the thread."""
        try:
            self._parked.remove(lock)
        except ValueError:
            return False
        return True

    def _leave(self) -> bool:
        with self._lock:
            if len(self._threads) - self._waiting <= self.size:
                return False
            self._threads.discard(threading.current_thread())
        if self._ready:  # such as what it was to take itself
            self._wake_one()
        return True

    def _wake(self) -> None:
        """Let the oldest of what waits for room begin if there is room, or be refused."""
        with self._lock:
            if not self._waiting_for_room or self.room is Room.SUB_DELEGATIONS:
                return
            wake = next(iter(self._waiting_for_room))
            del self._waiting_for_room[wake]
        wake()

    @contextlib.contextmanager
    def blocking(self) -> Iterator[None]:
        """Say that the calling thread of the pool waits, so that another may take its place meanwhile."""
        with self._lock:
            self._waiting += 1
            if self._ready:
                self._grow()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if self._waiting < self._many:
                    self._bound = self._many
            if self._waiting_for_room:
                self._wake()

    def relieve(self) -> None:
        """Called about every 0.1 s: if what runs does not get on, what waits for a thread or for room gets some.

        Either nothing was finished since, or calls wait for a thread while those that run take long and the process is
        idle: they wait without saying so, as for an answer from the network, or for work that waits behind what waits for room.
        Twice as much is let in each time, so that after a second or two things move, or all that waits for room is refused.
        """
        self.ask_again()
        computed = time.process_time()
        with self._lock:
            done, running = self._done - self._seen, len(self._threads) - self._waiting
            is_stuck = done == 0
            is_slow = done < _QUICK * running and computed - self._computed < _IDLE
            self._seen, self._computed = self._done, computed
            lacking = len(self._ready)
            if not is_stuck and not (is_slow and lacking):
                self._relief = 0
                return
            self._relief = 2 * self._relief or 1 if self._waiting_for_room or lacking else 0
            for _ in range(min(self._relief, lacking, self._many - running)):
                self._spawn()
            if not is_stuck:
                return
            self._bound = min(self._most, max(self._bound, self._waiting + self._relief))
            woken = list(self._waiting_for_room)[: self._relief]
            for wake in woken:
                del self._waiting_for_room[wake]
        for wake in woken:
            wake()

    def ask_again(self) -> None:
        """Called about every 0.1 s: a second after the system gave no thread, ask for one, and let as many wait as before."""
        if self._ask_at is not None:
            with self._lock:
                self._spawn()

    def close(self, timeout: float = 2.0) -> int:
        """End the threads when they have finished what they run.

        Returns:
            How many had not ended after `timeout` seconds; they are daemons and do not keep the process alive.
        """
        with self._lock:
            self._closed = True
            self._waiting_for_room.clear()
            threads = list(self._threads)
        self._ready.extend(itertools.repeat(None, len(threads)))
        for lock in self._parked[::-1]:
            if self._is_unparked(lock):
                lock.release()
        end = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        return sum(thread.is_alive() for thread in threads)
