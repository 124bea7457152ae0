"""A journal whose disk is a list: it commits when it is told to, and a crash loses what was not committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ether_actors.supervisor.recovery import read_history
from ether_actors.supervisor.state.ended import REMEMBERED
from ether_broker.errors import EtherError, JournalUnavailable
from ether_broker.journal.journal import Replayed
from ether_broker.tap import Batch
from ether_broker.wire.frame import Kind, read_header

__all__ = ["Disk", "StoredJournal"]

_RUNNING = (1, 7)


@dataclass
class Disk:
    """What survives a crash."""

    identity: str = "00000000-0000-7000-8000-000000000001"
    commits: list[Replayed] = field(default_factory=list)
    checkpoint: tuple[int, bytes] | None = None

    @property
    def envelopes(self) -> list[bytes]:
        return [envelope for commit in self.commits for envelope in commit.envelopes]


class StoredJournal:
    """One opening of a disk.

    Args:
        disk: whose.
        synced: whether each append is committed at once; else when `sync` is called.
        remembered: ended delegations that its broker remembers.
    """

    first = 1
    removed_until = 0.0

    def __init__(self, disk: Disk, *, synced: bool = True, remembered: int = REMEMBERED) -> None:
        self.disk = disk
        self.synced = synced
        self.remembered = remembered
        self.committed = 0
        self.next = 1 + len(disk.envelopes)
        self.trouble: EtherError | None = None
        self.on_commit: Callable[[], None] = lambda: None
        self._tickets = 0
        self.live = read_history(self, remembered=remembered)
        """The fold of all that it has and was given, as its broker began and went on."""
        self.live.ended.restarted()
        self._pending: list[Replayed | tuple[int, bytes]] = []

    @property
    def identity(self) -> str:
        return self.disk.identity

    @property
    def checkpoint(self) -> tuple[int, bytes] | None:
        return self.disk.checkpoint

    @property
    def pending(self) -> int:
        """Appends and checkpoints that a crash would lose."""
        return len(self._pending)

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        assert first == self.next
        self.next += len(envelopes)
        self.live.apply(first, time, wall, envelopes)
        self._tickets += 1
        self._pending.append(Replayed(first, time, wall, list(envelopes)))
        if self.synced:
            self.sync()
        return self._tickets

    def put_checkpoint(self, number: int, body: bytes) -> None:
        assert number <= self.next
        self._pending.append((number, body))
        if self.synced:
            self.sync()

    def sync(self, count: int | None = None) -> None:
        """Commit so many of what waits; default: all."""
        while self._pending and self.trouble is None and count != 0:
            item = self._pending.pop(0)
            if isinstance(item, Replayed):
                self.disk.commits.append(item)
                self.committed += 1
            else:
                self.disk.checkpoint = item
            count = None if count is None else count - 1

    def fail(self) -> None:
        """Commit nothing any more until `mend`."""
        self.trouble = JournalUnavailable("The disk is full.")

    def mend(self) -> None:
        self.trouble = None
        if self.synced:
            self.sync()

    def crash(self) -> StoredJournal:
        """The next opening of the disk; what waited is lost."""
        return StoredJournal(self.disk, synced=self.synced, remembered=self.remembered)

    def read(self, number: int) -> Batch | None:
        for first, time, _, envelopes in self.disk.commits:
            if first <= number < first + len(envelopes):
                return Batch(first, time, envelopes, sum(map(len, envelopes)))
        return None

    def outcome(self, request_id: bytes) -> bytes | None:
        for envelope in reversed(self.disk.envelopes):
            header = read_header(envelope)
            if header.kind == Kind.RESPONSE and header.request_id == request_id and header.status not in _RUNNING:
                return envelope
        return None

    def replay(self) -> Iterator[Replayed]:
        start = self.disk.checkpoint[0] if self.disk.checkpoint else 1
        return (commit for commit in self.disk.commits if commit.first >= start)

    def close(self) -> None:
        self.sync()
