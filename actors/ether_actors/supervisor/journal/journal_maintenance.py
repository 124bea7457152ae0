"""The upkeep of a broker's journal, in a thread beside the supervisor: checkpoints, and giving up what is old.

    journal ── what was committed ──► fold ──► JournalMaintenance ── put_checkpoint, in the step
    JournalGc ── collect ──► JournalMaintenance ── Journal.gc ──► done, in the supervisor's step

Without it a broker that runs for long would leave all of its work to the start of the next one. What was committed is read
back, so the way of an envelope does not know of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pykka

from ether_actors.supervisor.journal.history import History
from ether_broker.errors import EtherError, JournalUnavailable

if TYPE_CHECKING:
    from ether_broker.journal.journal import Journal, Removed

__all__ = ["JournalMaintenance", "fold_here"]

logger = logging.getLogger("ether.supervisor")

BEHIND: Final = 200_000
"""Envelopes behind the last checkpoint after which the next one is made, whatever the load: under 1 s of CPU to recover."""
APART: Final = 30.0
"""Seconds between two checkpoints at least: each takes some 0.5 s of CPU and 6 MB, however little there was to fold."""
CALM_BEHIND: Final = 50_000
"""The same while nothing passes."""
_LOOK: Final = 1.0
_PATIENCE: Final = 10.0
_RETRY: Final = 30.0

Done = Callable[["Removed | EtherError"], None]
"""Takes what was removed, or why it could not be; in the supervisor's step."""
Fold = Callable[[threading.Event], "tuple[int, bytes] | None"]
"""Makes a checkpoint: the number that follows, and the state."""


class JournalMaintenance:
    """The upkeep of one broker's journal, in a thread from `start` until `join`.

    Promises nothing: a checkpoint that cannot be made now is made later, and a broker recovers without it.

    Args:
        journal: of the broker, of whatever kind.
        supervisor: the pykka ref of its actor.
        behind: envelopes behind the last checkpoint after which the next one is made.
        calm_behind: the same while nothing passes.
        apart: seconds between two checkpoints at least, but for those that `collect` makes.
        fold: makes a checkpoint of what is committed now, unless an event is set meanwhile; None when nothing is new. For a
            journal that other processes can read, `checkpoint_process.fold`. Default: `fold_here`.
    """

    def __init__(
        self, journal: Journal, supervisor: Any, *, behind: int = BEHIND, calm_behind: int = CALM_BEHIND,
        apart: float = APART, fold: Fold | None = None,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._supervisor = supervisor
        self._behind = behind
        self._calm_behind = calm_behind
        self._apart = apart
        self._fold = fold or partial(fold_here, journal)
        self._not_before = 0.0
        self._number = journal.next
        """Of the last checkpoint; a broker has just put one when it starts."""
        self._seen = journal.next
        self._asked: deque[tuple[float, Done]] = deque()
        self._bell = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ether-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def collect(self, older_than: float, done: Done) -> None:
        """Make a checkpoint, then remove what passed before a Unix time and is below it.

        Args:
            older_than: Unix time.
            done: told of it, unless the broker ends.
        """
        self._asked.append((older_than, done))
        self._bell.set()

    def end(self) -> None:
        """Begin nothing more."""
        self._ending.set()
        self._bell.set()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds until the thread has ended; the journal may be closed before."""
        self._thread.join(timeout)

    def _run(self) -> None:
        wait = _LOOK
        while not self._ending.is_set():
            self._bell.wait(wait)
            self._bell.clear()
            wait = _LOOK
            try:
                while self._asked and not self._ending.is_set():
                    self._collect([self._asked.popleft() for _ in range(len(self._asked))])
                if self._is_due() and time.monotonic() >= self._not_before:
                    self._checkpoint()
            except pykka.ActorDeadError:
                return
            except (EtherError, pykka.Timeout) as error:
                if not self._ending.is_set():
                    logger.warning("the journal's checkpoint has to wait: %s", error)
                wait = _RETRY

    def _is_due(self) -> bool:
        before, self._seen = self._seen, self._journal.next
        behind = self._seen - self._number
        return behind >= self._behind or (before == self._seen and behind >= self._calm_behind)

    def _checkpoint(self) -> None:
        """Put a checkpoint of what is committed now, if anything is new."""
        made = self._fold(self._ending)
        if made is None or made[0] <= self._number:  # the last one is not committed yet, and it knows of another clock
            return
        number, body = made
        self._tell(lambda: self._journal.put_checkpoint(number, body))
        self._number = number
        self._not_before = time.monotonic() + self._apart

    def _collect(self, asked: list[tuple[float, Done]]) -> None:
        """Give up what any of them asked for, at once, and tell each what that was: a checkpoint takes a process, and time."""
        result: Removed | EtherError
        try:
            self._checkpoint()
            result = self._journal.gc(max(older_than for older_than, _ in asked))
        except EtherError as error:
            result = error
        except pykka.Timeout as error:
            result = JournalUnavailable(f"The broker had no time for a checkpoint: {error}. Try again.")

        def tell() -> None:
            for _, done in asked:
                done(result)

        if not self._ending.is_set():
            self._tell(tell)

    def _tell(self, call: Callable[[], None]) -> None:
        """Have something done in the supervisor's step, and wait for that."""
        self._supervisor.ask(lambda _supervisor: call(), timeout=_PATIENCE)


def fold_here(journal: Journal, ending: threading.Event) -> tuple[int, bytes] | None:
    """The state that everything committed led to, made in the calling thread: which takes the broker's time, and memory.

    Raises:
        JournalCorrupt: the journal is not what a broker wrote.
    """
    found = journal.checkpoint
    history = History() if found is None else History.of(found[1])
    before = history.next
    for step in journal.replay():
        if ending.is_set():
            return None
        history.apply(*step)
    return (history.next, history.pack()) if history.next > before else None
