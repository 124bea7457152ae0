"""The journal as everybody but its broker sees it: read-only, also while a broker writes."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError
from ether_broker.journal.journal import Removed
from ether_broker.journal.record import Record
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.commit_store import exclusive
from ether_broker.journal.sqlite.retention import removable
from ether_broker.journal.sqlite.search import HeaderRow, Search, conditions
from ether_broker.journal.sqlite.sqlite_errors import explained
from ether_broker.journal.sqlite.tables import connect_reader, read_meta
from ether_broker.journal.sqlite.verify import Verification, verify

__all__ = ["JournalReader"]


class JournalReader:
    """A reader of a journal file, for one thread. Close it, or use it in a `with` block.

    What is committed later is seen by the next statement, and what is removed meanwhile is left out.

    Args:
        path: the journal's file.

    Raises:
        JournalUnavailable: it is not there, cannot be read, or a newer Ether's broker has to bring it forward first.
        JournalTooNew: a newer Ether wrote it.
        JournalCorrupt: it is no journal.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._log = Path(f"{self.path}-wal")
        self._made_files = not self._log.exists()
        self._connection = connect_reader(self.path)
        self._rows = Rows(self._connection, self.path)
        self._search = Search(self._connection, self._rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._connection.close()
        if self._made_files and self._log.exists():
            self._made_files = False
            self._tidy()

    def _tidy(self) -> None:
        """SQLite makes two files for a reader and leaves them; a writer that closes removes them."""
        try:
            with exclusive(self.path, patience=0.0):
                pass
        except EtherError:
            pass  # a broker has it now and will, or nobody may

    @property
    def identity(self) -> str:
        """UUID text of the journal, made once with the file."""
        with explained(self.path):
            return read_meta(self._connection, self.path).identity

    @property
    def created(self) -> float:
        """Unix time at which the file was made."""
        with explained(self.path):
            return read_meta(self._connection, self.path).created

    @property
    def first(self) -> int:
        """The lowest number that is there; `last` + 1 when there is none."""
        return int(
            self._one("SELECT coalesce((SELECT min(first) FROM commits), value) FROM meta WHERE key = 'anchor_next'")
        )

    @property
    def last(self) -> int:
        """The highest number that is committed; 0 before the first."""
        return int(self._one("SELECT max(value, coalesce((SELECT next FROM commits ORDER BY seq DESC LIMIT 1), 0)) - 1"
                             " FROM meta WHERE key = 'anchor_next'"))  # fmt: skip

    def entries(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        agent: str | None = None,
        capability: str | None = None,
        status: Status | Collection[Status] | None = None,
        kind: int | Collection[int] | None = None,
        after: float | None = None,
        before: float | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Records that meet all conditions, in the order of their numbers.

        Args:
            since: the lowest number.
            until: the number after the highest.
            agent: who spoke or was spoken to.
            capability: its name, or with a dot at the end all that begin so.
            status: of a RESPONSE, one or several.
            kind: one or several of `wire.Kind`.
            after: Unix time; what passed then or later.
            before: Unix time; what passed earlier.
            newest_first: in falling order.
            limit: records at most.

        Raises:
            JournalCorrupt, JournalUnavailable: while iterating.
        """
        wanted = conditions(
            agent=agent, capability=capability, status=status, kind=kind,
            **{"number < ?": until, "wall >= ?": after, "wall < ?": before},
        )  # fmt: skip
        return self._find(wanted, since or 0, after, newest_first=newest_first, limit=limit)

    def headers(self, since: int = 1) -> Iterator[HeaderRow]:
        """The headers of all envelopes from a number on, in order, without their bodies: some 2 µs each.

        Raises:
            JournalCorrupt, JournalUnavailable: while iterating.
        """
        with explained(self.path):
            yield from self._search.headers(since)

    def record(self, number: int) -> Record | None:
        """The record with a number; None if it is not there (yet, or any more)."""
        with explained(self.path):
            found = self._rows.envelope(number)
        return Record(number, found[0].wall, found[0].time, found[1]) if found else None

    def children(self, request_id: bytes) -> list[Record]:
        """The delegations that the handler of this one made, in order."""
        return list(self._find({"parent = ?": (request_id,)}))

    def of_requests(self, request_ids: Iterable[bytes]) -> list[Record]:
        """Everything about several delegations, in order; one look at what is not indexed yet serves all."""
        with explained(self.path):
            numbers = self._search.numbers(request_ids)
        return [record for number in numbers if (record := self.record(number))]

    def requests(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Request ids of delegations from `low` to `high`, both included, in order; some `limit` of them if there are more.

        Raises:
            JournalCorrupt, JournalUnavailable: it cannot be read.
        """
        with explained(self.path):
            return self._search.between(low, high, limit)

    def below(self, request_id: bytes) -> list[bytes]:
        """Request ids of the delegations that were made for this one, for those, and so on; the nearest first.

        Raises:
            JournalCorrupt, JournalUnavailable: it cannot be read.
        """
        with explained(self.path):
            return self._search.below(request_id)

    def removable(self, older_than: float) -> Removed:
        """What `retention.collect` would remove at this moment; the bytes are those of bodies, without what surrounds them.

        Raises:
            JournalUnavailable: it cannot be read.
        """
        with explained(self.path):
            return removable(self._connection, older_than)

    def digest(self, first: int, following: int) -> str:
        """BLAKE2b-512 over all envelopes numbered from `first` to below `following`, however they were batched.

        Each counts as its length (4 bytes, big-endian) and its bytes; numbers that are not there count as nothing. An
        observer that hashes what it received gets the same if it saw everything.
        """
        digest = hashlib.blake2b()
        with explained(self.path):
            for row in self._rows.scan(self._rows.seq_before(first)):
                if row.first >= following:
                    break
                for batch in self._rows.unpack(row):
                    wanted = batch.envelopes[max(first - batch.first, 0) : max(following - batch.first, 0)]
                    for envelope in wanted:
                        digest.update(struct.pack(">I", len(envelope)))
                        digest.update(envelope)
        return digest.hexdigest()

    def verify(self, known: str | None = None) -> Verification:
        """Prove that the journal is what was written; `known` is a `Verification.hash` that was kept elsewhere.

        It reads everything once: about 6 s for a million small envelopes.

        Raises:
            JournalCorrupt, JournalUnavailable: not even the file's own description can be read.
        """
        with explained(self.path):
            return verify(self._connection, self.path, known)

    def _find(
        self, wanted: dict[str, tuple[Any, ...]], since: int = 0, after: float | None = None, *,
        newest_first: bool = False, limit: int | None = None,
    ) -> Iterator[Record]:  # fmt: skip
        with explained(self.path):
            start = 0 if after is None else self._rows.number_at(after)
            if start is not None:
                numbers = self._search.find(wanted, max(since, start), newest_first=newest_first)
                found = (
                    record for number in numbers if (record := self.record(number))
                )  # what was removed is left out
                yield from islice(found, limit)

    def _one(self, statement: str) -> Any:
        with explained(self.path):
            return self._connection.execute(statement).fetchone()[0]
