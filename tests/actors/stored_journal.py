"""A memory journal that commits when it is told to, and keeps beside it what its broker ought to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ether_actors.supervisor.recovery import read_history
from ether_actors.supervisor.state.ended import REMEMBERED
from ether_broker.errors import EtherError, JournalUnavailable
from ether_broker.journal.journal import Replayed
from ether_broker.journal.memory.journal import MemoryJournal
from ether_broker.journal.memory.store import MemoryStore

__all__ = ["Disk", "StoredJournal"]

_FULL: Final = JournalUnavailable("The disk is full.")


class Disk(MemoryStore):
    """What survives a crash."""

    def __init__(self, commits: Sequence[Replayed] = (), checkpoint: tuple[int, bytes] | None = None) -> None:
        super().__init__("00000000-0000-7000-8000-000000000001")
        for commit in commits:
            self.write(commit)
        self.checkpoint = checkpoint

    @property
    def envelopes(self) -> list[bytes]:
        return [envelope for commit in self.commits for envelope in commit.envelopes]


class StoredJournal(MemoryJournal):
    """One opening of a disk.

    Args:
        disk: whose.
        synced: whether each append is committed at once; else when `sync` is called.
        remembered: ended delegations that its broker remembers.
    """

    def __init__(self, disk: Disk, *, synced: bool = True, remembered: int = REMEMBERED) -> None:
        super().__init__(disk, holds=not synced)
        self.disk = disk
        self.synced = synced
        self.remembered = remembered
        self.live = read_history(self, remembered=remembered)
        """The fold of all that it has and was given, as its broker began and went on."""
        self.live.ended.restarted()

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        assert first == self.next
        self.live.apply(first, time, wall, envelopes)
        return super().append(first, time, wall, list(envelopes))

    def sync(self, count: int | None = None) -> None:
        """Commit so many of what waits; default: all."""
        self.commit(count)

    def fail(self, trouble: EtherError = _FULL) -> None:
        """Commit nothing any more until `mend`."""
        super().fail(trouble)

    def crash(self) -> StoredJournal:
        """The next opening of the disk; what waited is lost."""
        return StoredJournal(self.disk, synced=self.synced, remembered=self.remembered)
