"""Looking up delegations by their request ids: by the begin of one, by many at once, and with all below one.

What the index does not have yet is read once and remembered, so that a thousand look-ups take one look through it.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from ether_broker.ids import NO_ID
from ether_broker.journal.rows import Rows
from ether_broker.wire import Kind

__all__ = ["Requests"]

_DELEGATION: Final = int(Kind.DELEGATION)
_KINDS: Final = (_DELEGATION, int(Kind.RESPONSE))
"""Of envelopes whose request id is a delegation's."""
_ID: Final = slice(16, 32)
_PARENT: Final = slice(32, 48)
_FORGET: Final = 65_536
"""Numbers that the index may have caught up on before they are forgotten here."""


class Requests:
    """Look-ups over one connection; not for several threads at once."""

    def __init__(self, connection: sqlite3.Connection, rows: Rows) -> None:
        self._connection = connection
        self._rows = rows
        self._forget(1)

    def _forget(self, start: int) -> None:
        self._start = self._next = start
        """What is remembered begins and ends here."""
        self._numbers: dict[bytes, list[int]] = {}
        """{request id: numbers of what is about it}."""
        self._children: dict[bytes, list[bytes]] = {}
        """{request id: those of the delegations that were made for it}."""
        self._sorted: list[bytes] | None = None

    def between(self, low: bytes, high: bytes, limit: int) -> list[bytes]:
        """Request ids from `low` to `high`, both included, in order; some `limit` of them if there are more."""
        self._catch_up()
        found = self._connection.execute(
            "SELECT DISTINCT request_id FROM entries WHERE request_id BETWEEN ? AND ? AND kind IN (?, ?)"
            " ORDER BY request_id LIMIT ?",
            (low, high, *_KINDS, limit),
        )
        if self._sorted is None:
            self._sorted = sorted(self._numbers)
        behind = self._sorted[bisect_left(self._sorted, low) : bisect_right(self._sorted, high)]
        return sorted({request_id for (request_id,) in found}.union(behind))[:limit]

    def below(self, request_id: bytes) -> list[bytes]:
        """The delegations that were made for one, for those, and so on: the nearest first."""
        self._catch_up()
        found = [request_id]
        known = {request_id, NO_ID}
        for parent in found:  # grows as it goes
            children = [child for (child,) in self._connection.execute(
                "SELECT request_id FROM entries WHERE parent = ? AND kind = ? ORDER BY number", (parent, _DELEGATION)
            )]  # fmt: skip
            for child in (*children, *self._children.get(parent, ())):
                if child not in known:
                    known.add(child)
                    found.append(child)
        return found[1:]

    def numbers(self, request_ids: Iterable[bytes]) -> list[int]:
        """The numbers of all envelopes that have one of these request ids, rising."""
        self._catch_up()
        found: set[int] = set()
        for request_id in request_ids:
            found.update(self._numbers.get(request_id, ()))
            indexed = self._connection.execute("SELECT number FROM entries WHERE request_id = ?", (request_id,))
            found.update(number for (number,) in indexed)
        return sorted(found)

    def _catch_up(self) -> None:
        """Read what has been committed since, as far as the index does not have it."""
        indexed = self._rows.indexed()
        if indexed - self._start > _FORGET or indexed > self._next:
            self._forget(indexed)
        last = self._connection.execute("SELECT next FROM commits ORDER BY seq DESC LIMIT 1").fetchone()
        if last is None or last[0] <= self._next:
            return
        self._sorted = None
        for row in self._rows.walk(self._rows.seq_before(self._next)):
            for batch in self._rows.unpack(row):
                self._take(batch.first, batch.envelopes)
            self._next = max(self._next, row.next)

    def _take(self, first: int, envelopes: Iterable[bytes]) -> None:
        for number, envelope in enumerate(envelopes, first):
            if number < self._next or envelope[0] not in _KINDS:
                continue
            request_id = envelope[_ID]
            self._numbers.setdefault(request_id, []).append(number)
            if envelope[0] == _DELEGATION and (parent := envelope[_PARENT]) != NO_ID:
                self._children.setdefault(parent, []).append(request_id)
