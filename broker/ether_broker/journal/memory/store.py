"""The contents of a memory journal: commits, the last checkpoint, and each delegation's outcome."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator

from ether_broker.envelope.ids import new_id, to_text
from ether_broker.journal.journal import Removed, Replayed
from ether_broker.journal.record import is_outcome
from ether_broker.tap import Batch
from ether_broker.wire.frame import REQUEST_ID, Flag

__all__ = ["MemoryStore"]


class MemoryStore:
    """The place of a `MemoryJournal`, which outlives it: what another one finds that is opened on it. As a file is for SQLite.

    Any thread may use it; one at a time writes.

    Args:
        identity: UUID text; default: a new one.
    """

    def __init__(self, identity: str = "") -> None:
        self.identity: str = identity or to_text(new_id())
        """As `Journal.identity`."""
        self.commits: list[Replayed] = []
        """What is there, in order."""
        self.checkpoint: tuple[int, bytes] | None = None
        """As `Journal.checkpoint`."""
        self.next: int = 1
        """The number that follows all that was written."""
        self.first: int = 1
        """As `Journal.first`."""
        self.removed_until: float = 0.0
        """As `Journal.removed_until`."""
        self._outcomes: dict[bytes, bytes] = {}
        self._lock = threading.Lock()

    def write(self, batch: Replayed) -> None:
        """Keep what was appended; its numbers are above all that are there."""
        if not batch.envelopes:
            return
        with self._lock:
            self.commits.append(batch)
            self.next = batch.following
            self._note(batch)

    def read(self, number: int) -> Batch | None:
        """As `Journal.read`."""
        with self._lock:
            place = bisect_right(self.commits, number, key=lambda commit: commit.first) - 1
            batch = self.commits[place] if place >= 0 else None
        return batch.part(number) if batch is not None and number < batch.following else None

    def outcome(self, request_id: bytes) -> bytes | None:
        """As `Journal.outcome`."""
        return self._outcomes.get(request_id)

    def replay(self, number: int) -> Iterator[Replayed]:
        """What is there from a number on, as it is now."""
        with self._lock:
            commits = list(self.commits)
        return (commit.since(number) for commit in commits if commit.following > number)

    def gc(self, older_than: float) -> Removed:
        """As `Journal.gc`."""
        with self._lock:
            below = 0 if self.checkpoint is None else self.checkpoint[0]
            count = next(
                (
                    place
                    for place, commit in enumerate(self.commits)
                    if commit.following > below or commit.wall >= older_than
                ),
                len(self.commits),
            )
            gone, self.commits = self.commits[:count], self.commits[count:]
            if not gone:
                return Removed()
            self.first = gone[-1].following
            self.removed_until = max(self.removed_until, *(commit.wall for commit in gone))
            self._outcomes = {}
            for commit in self.commits:
                self._note(commit)
        envelopes = [envelope for commit in gone for envelope in commit.envelopes]
        return Removed(len(gone), len(envelopes), 0, sum(map(len, envelopes)))

    def _note(self, batch: Replayed) -> None:
        """Take the outcomes: of each delegation the first that was accepted, else the last refusal."""
        for envelope in filter(is_outcome, batch.envelopes):
            known = self._outcomes.get(envelope[REQUEST_ID])
            if known is None or known[3] & Flag.REFUSED:
                self._outcomes[envelope[REQUEST_ID]] = envelope
