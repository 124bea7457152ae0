"""The search for envelopes by their headers: in the index, and in what is not indexed yet.

That part is read once, into a temporary table of the reader's own connection, so that SQL answers for both.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.status import Status
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.entry_index import describe_all
from ether_broker.wire.frame import Kind

__all__ = ["HeaderRow", "Search", "conditions"]

_PAGE: Final = 1000
"""Numbers that one statement looks up, or ids: while a statement is open, the broker's write-ahead log cannot be emptied."""
_DELEGATION: Final = int(Kind.DELEGATION)
_KINDS: Final = (_DELEGATION, int(Kind.RESPONSE))
"""Of envelopes whose request id is a delegation's."""
_TABLE: Final = """
PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE behind (
    number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, wall REAL NOT NULL, kind INTEGER NOT NULL, status INTEGER NOT NULL,
    request_id BLOB NOT NULL, parent BLOB, source TEXT NOT NULL, target TEXT NOT NULL, capability TEXT NOT NULL
);
"""
_TABLES: Final = ("main.entries", "behind")
_ROWS: Final = 10_000
"""Rows of one statement of `headers`."""
_FORGET: Final = 65_536
"""Numbers that the index may have caught up on before they are forgotten here."""


class HeaderRow(NamedTuple):
    """The header of an envelope, as the index has it."""

    number: int
    wall: float
    """Unix time."""
    kind: int
    """Of `wire.Kind`; 0 is none of them."""
    status: int
    """Of a RESPONSE, its number on the wire."""
    request_id: bytes
    source: str
    target: str
    capability: str


def conditions(
    *, agent: str | None = None, capability: str | None = None, status: Status | Collection[Status] | None = None,
    kind: int | Collection[int] | None = None, **equal: float | bytes | None,
) -> dict[str, tuple[Any, ...]]:  # fmt: skip
    """Conditions that all have to hold, as SQL: {term: values}; None is no condition.

    Args:
        agent: the source or the target.
        capability: its name, or with a dot at the end the begin of one.
        status: it, or any of these.
        kind: it, or any of these.
        equal: of a term with one question mark, its value.
    """
    terms: dict[str, tuple[Any, ...]] = {term: (value,) for term, value in equal.items() if value is not None}
    if agent is not None:
        terms["(source = ? OR target = ?)"] = agent, agent
    if capability is not None and capability.endswith("."):
        terms["substr(capability, 1, ?) = ?"] = len(capability), capability
    elif capability is not None:
        terms["capability = ?"] = (capability,)
    statuses = (status,) if isinstance(status, str) else status  # of which a member is one
    codes = None if statuses is None else [Status(one).code for one in statuses]
    for column, wanted in (("status", codes), ("kind", kind)):
        if isinstance(wanted, int):
            terms[f"{column} = ?"] = (int(wanted),)
        elif wanted is not None:
            terms[f"{column} IN ({','.join('?' * len(wanted))})"] = tuple(map(int, wanted))
    return terms


class Search:
    """Look-ups over one connection; not for several threads at once."""

    def __init__(self, connection: sqlite3.Connection, rows: Rows) -> None:
        self._connection = connection
        self._rows = rows
        self._first = self._next = self._seq = 0
        """Numbers of what was read of what is not indexed, and the commit from which to read on."""

    def find(self, wanted: dict[str, tuple[Any, ...]], since: int, *, newest_first: bool = False) -> Iterator[int]:
        """The numbers from `since` on of what meets all conditions, in order."""
        self._catch_up()
        until = sys.maxsize
        values = [value for term in wanted.values() for value in term]
        terms = " AND ".join([*wanted, "number >= ? AND number < ?"])
        order = f"ORDER BY number {'DESC' if newest_first else 'ASC'} LIMIT {_PAGE}"
        while since < until:
            is_behind = until > self._first if newest_first else since >= self._first
            table = "behind" if is_behind else "main.entries"
            low, high = (max(since, self._first), until) if is_behind else (since, min(until, self._first))
            numbers = self._column(f"SELECT number FROM {table} WHERE {terms} {order}", *values, low, high)  # noqa: S608  values are bound
            yield from numbers
            if newest_first:
                until = numbers[-1] if numbers else low
            else:
                since = numbers[-1] + 1 if numbers else high

    def headers(self, since: int) -> Iterator[HeaderRow]:
        """The headers of all envelopes from a number on, in order."""
        self._catch_up()
        while True:
            is_behind = since >= self._first
            table, until = ("behind", self._next) if is_behind else ("main.entries", self._first)
            rows = self._connection.execute(
                f"SELECT {','.join(HeaderRow._fields)} FROM {table} WHERE number >= ? AND number < ? ORDER BY number LIMIT ?",  # noqa: S608  constants
                (since, until, _ROWS),
            ).fetchall()
            yield from map(HeaderRow._make, rows)
            if len(rows) == _ROWS:
                since = rows[-1][0] + 1
            elif is_behind:
                return
            else:
                since = self._first

    def between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Request ids from `low` to `high`, both included, in order; some `limit` of them if there are more."""
        self._catch_up()
        found = self._of_both(
            "SELECT DISTINCT request_id FROM {} WHERE request_id BETWEEN ? AND ? AND kind IN (?, ?)"
            " ORDER BY request_id LIMIT ?",
            low, high, *_KINDS, limit,
        )  # fmt: skip
        return sorted(set(found))[:limit]

    def below(self, request_id: bytes) -> list[bytes]:
        """The delegations that were made for one, for those, and so on: the nearest first."""
        self._catch_up()
        found: dict[bytes, None] = {request_id: None, NO_ID: None}
        level = [request_id]
        while level:
            made = self._of("request_id", f"kind = {_DELEGATION} AND parent", level)
            level = [child for child in dict.fromkeys(made) if child not in found]
            found.update(dict.fromkeys(level))
        return list(found)[2:]

    def numbers(self, request_ids: Iterable[bytes]) -> list[int]:
        """The numbers of all envelopes that have one of these request ids, rising."""
        self._catch_up()
        return sorted(set(self._of("number", "request_id", list(request_ids))))

    def _of(self, wanted: str, column: str, ids: list[bytes]) -> list[Any]:
        """A column of what has one of these ids in another; many at once, as what is not indexed is read through each time."""
        found = []
        for first in range(0, len(ids), _PAGE):
            page = ids[first : first + _PAGE]
            marks = ",".join("?" * len(page))
            found += self._of_both(f"SELECT {wanted} FROM {{}} WHERE {column} IN ({marks}) ORDER BY number", *page)  # noqa: S608  constants
        return found

    def _of_both(self, statement: str, *values: Any) -> list[Any]:
        """What both tables answer, the index first; what it has caught up on meanwhile is there twice."""
        return [value for table in _TABLES for value in self._column(statement.format(table), *values)]

    def _column(self, statement: str, *values: Any) -> list[Any]:
        return [value for (value,) in self._connection.execute(statement, values)]

    def _catch_up(self) -> None:
        """Read what has been committed since, as far as the index does not have it."""
        indexed = self._rows.indexed()
        if not self._seq:
            self._connection.executescript(_TABLE)
        if not self._first <= indexed <= min(self._next, self._first + _FORGET) or not self._seq:
            self._connection.execute("DELETE FROM behind")
            self._first = self._next = indexed
            self._seq = self._rows.seq_before(indexed)
        for row in self._rows.walk(self._seq):
            entries = describe_all(self._rows.unpack(row), row.seq, self._next)
            self._connection.executemany("INSERT INTO behind VALUES (?,?,?,?,?,?,?,?,?,?)", entries)
            self._next, self._seq = row.next, row.seq + 1
