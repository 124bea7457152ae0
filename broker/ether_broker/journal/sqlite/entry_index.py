"""The entry index: one row an envelope, made from the commits when there is nothing to commit.

It only ever lags: whoever searches looks through the commits that it does not have yet, and it can be rebuilt from them. Of
those commits the broker keeps the outcomes' positions.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ether_broker.envelope.ids import NO_ID
from ether_broker.errors import JournalCorrupt, MalformedFrame
from ether_broker.journal.journal import Replayed
from ether_broker.journal.record import is_outcome
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.commit_store import Store, exclusive
from ether_broker.wire.frame import REQUEST_ID, Flag, read_header

__all__ = ["LIMIT", "SLICE", "Indexer", "Unindexed", "describe_all", "index_journal"]

SLICE: Final = 256
"""Envelopes that are indexed in one go: about 2 ms, which is the most that a commit waits for it."""
LIMIT: Final = 524_288
"""Outcomes that are kept, of some 200 bytes each: half of the envelopes that the writer leaves unindexed at most."""
_REFUSED: Final = int(Flag.REFUSED)
_COLUMNS: Final = 10
_ROWS: Final = 32
"""Rows of one statement; each statement gives up and takes back the interpreter's lock."""


def _insert(rows: int) -> str:
    row = f"({','.join('?' * _COLUMNS)})"
    return f"INSERT INTO entries VALUES {','.join([row] * rows)}"  # noqa: S608  question marks


_MANY: Final = _insert(_ROWS)
_ONE: Final = _insert(1)


def describe(number: int, seq: int, wall: float, envelope: bytes) -> tuple[Any, ...]:
    """The row of an envelope; one that has no header of ours has kind 0."""
    try:
        header = read_header(envelope)
    except MalformedFrame:
        return number, seq, wall, 0, 0, NO_ID, None, "", "", ""
    parent = header.parent
    return (
        number, seq, wall, header.kind, header.status, header.request_id, None if parent == NO_ID else parent,
        header.source.decode(errors="replace"), header.target.decode(errors="replace"),
        header.capability.decode(errors="replace"),
    )  # fmt: skip


def describe_all(batches: Sequence[Replayed], seq: int, since: int = 0) -> Iterator[tuple[Any, ...]]:
    """The rows of the envelopes of a commit, from the number `since` on."""
    for first, _, wall, envelopes in batches:
        skip = max(since - first, 0)
        for number, envelope in enumerate(envelopes[skip:], first + skip):
            yield describe(number, seq, wall, envelope)


class Unindexed:
    """The numbers of terminal RESPONSEs by request id; one thread changes it, any thread may call `find`.

    Of each id it has the first one to a delegation that was accepted, and the last refusal.

    Args:
        indexed: the number up to which, exclusive, the index has everything.
    """

    def __init__(self, indexed: int) -> None:
        self._indexed = self._since = indexed  # it has everything from `_since` on
        self._ended: OrderedDict[bytes, int] = OrderedDict()  # both in the order of their numbers
        self._refused: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ended) + len(self._refused)

    def note(self, batches: Sequence[Replayed]) -> None:
        """Take the outcomes of a commit; beyond `LIMIT` it forgets all, and is whole again when the index has got there."""
        for first, _, _, envelopes in batches:
            for number, envelope in enumerate(envelopes, first):
                if is_outcome(envelope):
                    request_id = envelope[REQUEST_ID]
                    if envelope[3] & _REFUSED:
                        self._refused[request_id] = number
                        self._refused.move_to_end(request_id)
                    else:
                        self._ended.setdefault(request_id, number)
            if len(self) > LIMIT:
                self.drop(first + len(envelopes))

    def drop(self, since: int) -> None:
        """Forget all: what is below `since` was not noted, or not all of it."""
        self._since = since  # before the rest: `find` looks at it last
        self._ended.clear()
        self._refused.clear()

    def forget(self, indexed: int) -> None:
        """Forget what is below a number, as the index has it now."""
        self._indexed = indexed
        for numbers in (self._ended, self._refused):
            while numbers and next(iter(numbers.values())) < indexed:
                numbers.popitem(last=False)

    def find(self, request_id: bytes) -> list[int] | None:
        """The numbers of a delegation's outcomes; None if it does not have all that is not indexed.

        Ask it before the index: what has left it since is there.
        """
        found = self._ended.get(request_id), self._refused.get(request_id)
        return None if self._indexed < self._since else [number for number in found if number is not None]


class Indexer:
    """Fills the index behind a store, in slices; in the writer's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.next = self._rows.indexed()
        """The number that is indexed next."""
        self._unpacked: tuple[int, list[Replayed]] = (-1, [])
        """The commit of which a part is indexed, by its number."""

    @property
    def _rows(self) -> Rows:
        return Rows(self._store.connection, self._store.path)

    @property
    def behind(self) -> int:
        """Numbers that are committed and not yet indexed."""
        return self._store.next - self.next

    @property
    def is_overtaken(self) -> bool:
        """Whether retention has removed what was to be indexed next."""
        return bool(self.behind) and self._rows.first() > self.next

    def unindexed(self) -> Unindexed:
        """The outcomes of what is behind, read from the commits; not those of too many, or of what cannot be read."""
        unindexed, rows = Unindexed(self.next), self._rows
        try:
            if self.behind <= LIMIT:
                for row in rows.scan(rows.seq_before(self.next)):
                    unindexed.note(rows.unpack(row))
                unindexed.forget(self.next)
                return unindexed
        except (sqlite3.Error, JournalCorrupt):
            pass  # whoever needs it is told
        unindexed.drop(self._store.next)
        return unindexed

    def slice(self) -> None:
        """Index the next `SLICE` envelopes; without waiting for the disk, as it can be made again.

        Raises:
            sqlite3.Error: SQLite could not; nothing of the slice is indexed.
            JournalCorrupt: the commit to be indexed is not what was written.
        """
        rows = self._rows
        row = rows.at(self.next)
        if row is None:
            self.next = self._after_gap()
            return
        if self._unpacked[0] != row.seq:
            self._unpacked = row.seq, rows.unpack(row)
        entries = list(islice(describe_all(self._unpacked[1], row.seq, self.next), SLICE))
        with self._store.relaxed() as connection:
            _write(connection, entries)
        self.next = entries[-1][0] + 1 if len(entries) == SLICE else row.next

    def _after_gap(self) -> int:
        """Numbers may be skipped: the first that is there, above the next one."""
        (first,) = self._store.connection.execute(
            "SELECT min(first) FROM commits WHERE first > ?", (self.next,)
        ).fetchone()
        return first or self._store.next


def _write(connection: sqlite3.Connection, entries: list[tuple[Any, ...]]) -> None:
    done = 0
    while len(entries) - done >= _ROWS:
        connection.execute(_MANY, [value for entry in entries[done : done + _ROWS] for value in entry])
        done += _ROWS
    connection.executemany(_ONE, entries[done:])


def index_journal(path: Path) -> int:
    """Index all of a journal that no broker has open; returns how many envelopes were new to the index.

    Raises:
        JournalLocked: a broker has it, and does this itself.
        JournalUnavailable, JournalCorrupt, JournalTooNew: as `connect_writer`.
    """
    with exclusive(path) as store:
        indexer = Indexer(store)
        behind = indexer.behind
        while indexer.behind:
            indexer.slice()
    return behind
