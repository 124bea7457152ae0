"""A journal, asked for its entries and for the trees of its delegations; read-only, also while a broker writes it."""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from ether.audit.entry import AuditEntry
from ether.audit.filter import EntryFilter, is_query
from ether.audit.identifier import Identifier, bounds_of
from ether.audit.span import Moment, Span, grow
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.errors import JournalUnavailable, UnknownEntry
from ether_broker.journal.journal import Removed
from ether_broker.journal.record import Record
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.journal.sqlite.verify import Verification
from ether_broker.wire.frame import Kind

__all__ = ["Page", "Trail"]

_NAMED: Final = 5
"""Request ids that are named where a prefix is that of several."""
_LOOKED_AT: Final = 10_000
"""Entries that are looked at for the names in them."""
_CLOSE: Final = 1000
"""Request ids that are looked at to tell one from them."""
_SHORTEST: Final = 12
"""Hexadecimal digits of a short request id: of a UUIDv7, the millisecond in which it was made."""


class Page(NamedTuple):
    """The newest entries of a selection."""

    entries: list[AuditEntry]
    """The newest last."""
    left_out: int
    """How many between them were passed over because they only ask the bus about itself."""


class Trail:
    """The audit trail in a journal file, for one thread. Close it, or use it in a `with` block.

    Args:
        path: the journal's file.

    Raises:
        JournalUnavailable, JournalTooNew, JournalCorrupt: as `JournalReader`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader = JournalReader(path)
        self._path = Path(path)
        self._file = _file_at(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def last(self) -> int:
        """The number of the newest entry; 0 if there is none yet."""
        return self._reader.last

    def check_place(self) -> None:
        """Notice that another file has taken the place of the one that is read.

        Raises:
            JournalUnavailable: it was removed or replaced; what is open would never see anything new.
        """
        if _file_at(self._path) != self._file:
            raise JournalUnavailable(f"The journal {self._path} was removed or replaced: reopen it.")

    def verify(self, known: str | None = None) -> Verification:
        """Prove that the journal is what was written; see `JournalReader.verify`."""
        return self._reader.verify(known)

    def removable(self, older_than: float) -> Removed:
        """What giving up everything before a Unix time would remove."""
        return self._reader.removable(older_than)

    # -- lists ---------------------------------------------------------------------------------------------------

    def newest(self, wanted: EntryFilter, limit: int) -> Page:
        """The newest entries that are wanted, `limit` at most."""
        found: list[AuditEntry] = []
        left_out = 0
        for entry in self._candidates(wanted, newest_first=True):
            if wanted.takes(entry):
                found.append(entry)
                if len(found) == limit:
                    break
            elif not wanted.queries and is_query(entry):
                left_out += 1
        return Page(found[::-1], left_out)

    def between(self, after: int, last: int, wanted: EntryFilter) -> Iterator[AuditEntry]:
        """The wanted entries with numbers above `after`, up to and with `last`, in order."""
        candidates = self._candidates(wanted, since=after + 1, until=last + 1)
        return (entry for entry in candidates if wanted.takes(entry))

    def newest_names(self) -> tuple[set[str], set[str]]:
        """The agents, and the names of the events, of the newest 10,000 entries."""
        agents, events = set[str](), set[str]()
        for record in self._reader.entries(newest_first=True, limit=_LOOKED_AT):
            entry = _entry(record)
            agents |= entry.agents
            if entry.event_name is not None:
                events.add(entry.event_name)
        return agents, events

    def newest_requests(self, limit: int) -> list[str]:
        """The request ids of the newest delegations, the newest first."""
        records = self._reader.entries(kind=Kind.DELEGATION, newest_first=True, limit=limit)
        return [to_text(record.header.request_id) for record in records]

    def _candidates(self, wanted: EntryFilter, **bounds: Any) -> Iterator[AuditEntry]:
        """Everything that may be wanted and little else: the journal's index knows less than a selection asks."""
        parts = [self._reader.entries(**query, **bounds) for query in _queries(wanted)]
        falling = bool(bounds.get("newest_first"))
        merged: Iterator[Record] = heapq.merge(*parts, key=attrgetter("number"), reverse=falling)
        for _, same in itertools.groupby(merged, key=attrgetter("number")):
            yield _entry(next(same))

    # -- one delegation ------------------------------------------------------------------------------------------

    def resolve(self, which: str) -> bytes:
        """The request id of the delegation that is meant; see `Identifier`.

        Raises:
            UnknownEntry: nothing in the journal is meant, or it is about no delegation.
        """
        identifier = Identifier.parse(which)
        if identifier.number is None:
            return self._request(identifier)
        entry = self._numbered(identifier.number)
        if entry.about is None:
            raise UnknownEntry(f"Entry {entry.number} is {entry.what}, which is about no delegation: name another.")
        return entry.about

    def story(self, which: str) -> list[AuditEntry]:
        """Every entry about the delegation that is meant; or the one entry of that number, if it is about none.

        Raises:
            UnknownEntry: nothing in the journal is meant.
        """
        identifier = Identifier.parse(which)
        if identifier.number is not None:
            entry = self._numbered(identifier.number)
            if entry.about is None or self._delegation(entry.about) is None:
                return [entry]
            return self._about(entry.about)
        return self._about(self._request(identifier))

    def span(self, request_id: bytes, *, whole: bool = True) -> Span:
        """The tree of a delegation: from its root, or with `whole=False` from itself.

        Where the journal has given up the root already, the tree begins with the highest ancestor that it still has.

        Raises:
            UnknownEntry: the journal does not have the delegation itself.
        """
        root = self._delegation(request_id)
        if root is None:
            raise UnknownEntry(
                f"The journal has not, or not any more, how {to_text(request_id)} was accepted: `ether log show` has the rest."
            )
        seen = {NO_ID, request_id}  # what was refused may say that it is its own parent
        while whole and root.header.parent not in seen and (above := self._delegation(root.header.parent)):
            seen.add(root.header.parent)
            root = above
        request_id = root.header.request_id
        entries = self._about(request_id, *self._reader.below(request_id))
        newest = next(self._reader.entries(newest_first=True, limit=1))
        span = grow(request_id, entries, Moment(newest.clock, newest.wall))
        assert span is not None
        return span

    def short(self, request_id: bytes) -> str:
        """The begin of a request id that no other in the journal has, of 12 digits at least."""
        text = request_id.hex()
        close = self._reader.requests(*bounds_of(text[:_SHORTEST]), _CLOSE)
        others = (other.hex() for other in close if other != request_id)
        shared = max((len(os.path.commonprefix([text, other])) for other in others), default=0)  # noqa: RUF071  no paths
        length = len(text) if len(close) == _CLOSE else max(_SHORTEST, shared + 1)
        return to_text(request_id)[: length + sum(length > place for place in (8, 12, 16, 20))]

    def _numbered(self, number: int) -> AuditEntry:
        record = self._reader.record(number)
        if record is None:
            there = f"has {self._reader.first} to {self.last}" if self.last >= self._reader.first else "is empty"
            raise UnknownEntry(f"There is no entry {number}: the journal {there}.")
        return _entry(record)

    def _request(self, identifier: Identifier) -> bytes:
        found = list(self._reader.requests(*identifier.bounds, _NAMED + 1))
        if not found:
            raise UnknownEntry(f"No delegation in the journal has {identifier.text!r}: `ether log` lists them.")
        if len(found) > 1:
            names = ", ".join(map(to_text, found[:_NAMED]))
            more = ", …" if len(found) > _NAMED else ""
            raise UnknownEntry(
                f"{identifier.text!r} is the begin of several request ids: {names}{more}. Write more of it."
            )
        return found[0]

    def _delegation(self, request_id: bytes) -> AuditEntry | None:
        entries = map(_entry, self._reader.of_requests([request_id]))
        return next((entry for entry in entries if entry.header.kind == Kind.DELEGATION), None)

    def _about(self, *request_ids: bytes) -> list[AuditEntry]:
        """Every entry about these delegations, in order: what has their request ids, and the events that name them."""
        wanted = frozenset(request_ids)
        entries = map(_entry, self._reader.of_requests(wanted))
        found = {entry.number: entry for entry in entries if entry.about in {entry.header.request_id, None}}
        for record in self._reader.entries(kind=Kind.EVENT, since=min(found, default=None)):
            # Its bytes are looked at first: few of a journal's events are about any delegation.
            if b"request_id" in record.envelope and (entry := _entry(record)).about in wanted:
                found[entry.number] = entry
        return [found[number] for number in sorted(found)]


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _entry(record: Record) -> AuditEntry:
    return AuditEntry(record.number, record.clock, record.wall, record.envelope)


def _queries(wanted: EntryFilter) -> list[dict[str, Any]]:
    """What to ask the journal's index for, so that all that is wanted is among it.

    The index has names as they stand in the header, and asks for one at a time: so there is a question for each pair of
    agent and capability, and one for events, whose bodies say whom they are about.
    """
    infinity = float("inf")
    base: dict[str, Any] = {
        "after": None if wanted.since == -infinity else wanted.since,
        "before": None if wanted.until == infinity else wanted.until,
        "status": wanted.statuses or None,
    }
    kinds = set(wanted.kinds)
    if wanted.events:
        kinds = (kinds or {Kind.EVENT}) & {Kind.EVENT}
        if not kinds:
            return []
    if not wanted.agents and not wanted.capabilities:
        return [{**base, "kind": kinds or None}]
    spoken = (kinds or {Kind.DELEGATION, Kind.RESPONSE}) - {Kind.EVENT}
    names: list[str | None] = [*sorted(wanted.agents)] or [None]
    capabilities: list[str | None] = [
        name for capability in wanted.capabilities for name in (capability, f"{capability}.")
    ] or [None]
    queries: list[dict[str, Any]] = []
    if spoken:
        queries += [
            {**base, "kind": spoken, "agent": agent, "capability": capability}
            for agent in names
            for capability in capabilities
        ]
    if not kinds or Kind.EVENT in kinds:
        queries.append({**base, "kind": {Kind.EVENT}})
    return queries
