"""What is remembered of delegations that have ended: the newest, bounded; the journal has the others. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from itertools import islice
from typing import Any, Final, NamedTuple

from ether_broker.ids import made_at

__all__ = ["REMEMBERED", "Ended", "Ending"]

REMEMBERED: Final = 65_536
"""Ended delegations that are told apart from unknown ones at least."""
_SKEW: Final = 2.0
"""Seconds by which the clock of a node that makes ids may be ahead."""
_MOST_BYTES: Final = 64 << 20


class Ending(NamedTuple):
    """How a delegation ended."""

    by: bytes
    """The agent that gave the outcome; `ether` for the supervisor, empty when the delegation was refused."""
    source: bytes
    """The delegator."""
    number: int
    """Of the outcome, among all that passed."""


class Ended:
    """The newest ended delegations, and which of their outcomes nobody has collected.

    An outcome is uncollected when its delegator was gone as it came, or went before it had acknowledged it; after a restart
    of the broker every remembered one may be. The broker's own, and the one that is folded from the journal, take the same
    steps and so remember the same.

    Args:
        most: of both; of the ended ones up to twice as many are remembered.
        size: bytes of the outcomes that are kept for `collect`, where there is no journal to read them from.
    """

    def __init__(self, *, most: int = REMEMBERED, size: int = _MOST_BYTES) -> None:
        self._most = most
        self._size = size
        self._newer: dict[bytes, tuple[bytes, bytes, int]] = {}
        self._older: dict[bytes, tuple[bytes, bytes, int]] = {}
        """Plain tuples: the garbage collector stops looking at them, as it does not at named ones."""
        self._uncollected: OrderedDict[bytes, tuple[bytes, bytes]] = OrderedDict()
        """{request id: (delegator, outcome)}, oldest first."""
        self._of: dict[bytes, dict[bytes, None]] = {}
        self._bytes = 0
        self.wall = 0.0
        """The time, as Unix time; whoever notes endings sets it."""
        self.has_dropped = False
        """Whether there are ended delegations that are not remembered any more."""
        self._dropped = b""
        """The newest UUIDv7 among them."""

    def __contains__(self, request_id: bytes) -> bool:
        return request_id in self._newer or request_id in self._older

    def get(self, request_id: bytes) -> Ending | None:
        """How that delegation ended, if it is remembered."""
        found = self._newer.get(request_id) or self._older.get(request_id)
        return None if found is None else Ending._make(found)

    def note(self, request_id: bytes, by: bytes, source: bytes, number: int) -> None:
        """Remember that a delegation has ended; the arguments are those of `Ending`."""
        self._newer[request_id] = by, source, number
        if len(self._newer) >= self._most:
            self._drop(self._older)
            self._older, self._newer = self._newer, {}

    def _drop(self, endings: dict[bytes, tuple[bytes, bytes, int]]) -> None:
        self.has_dropped = self.has_dropped or bool(endings)
        self._dropped = max((self._dropped, *filter(self._is_timed, endings)))

    def _is_timed(self, request_id: bytes) -> bool:
        """Whether the id says when it was made; one from the future says nothing, or it would stand for all to come."""
        made = made_at(request_id)
        return made is not None and made <= self.wall + _SKEW

    def may_know(self, request_id: bytes) -> bool:
        """Whether that delegation has ended, or may have ended so long ago that it is not remembered; cheap, and often false.

        The first bytes of a UUIDv7 say when it was made: one that was made after all that are not remembered is not among them.
        """
        if request_id in self._newer or request_id in self._older:
            return True
        return self.has_dropped and (request_id <= self._dropped or not self._is_timed(request_id))

    def is_after(self, request_id: bytes, wall: float) -> bool:
        """Whether what has this id passed after a Unix time for certain: the id says so, and is not from the future."""
        made = made_at(request_id)
        return made is not None and wall + _SKEW < made <= self.wall + _SKEW

    # -- what nobody has collected -------------------------------------------------------------------------------

    def keep(self, request_id: bytes, source: bytes, outcome: bytes = b"") -> None:
        """Note that a delegator may not have got an outcome.

        Args:
            request_id: the delegation's.
            source: the delegator.
            outcome: the envelope, where there is no journal to read it from.
        """
        self.collected(request_id)
        self._uncollected[request_id] = source, outcome
        self._of.setdefault(source, {})[request_id] = None
        self._bytes += len(outcome)
        while len(self._uncollected) > self._most or self._bytes > self._size:
            self.collected(next(iter(self._uncollected)))

    def is_uncollected(self, request_id: bytes) -> bool:
        """Whether the delegator may not have got that outcome."""
        return request_id in self._uncollected

    def kept(self, request_id: bytes) -> bytes:
        """The uncollected outcome, if `keep` was given it; else empty."""
        return self._uncollected.get(request_id, (b"", b""))[1]

    def collected(self, request_id: bytes) -> None:
        """Note that an outcome was given to its delegator after all; no error for one that was not waiting."""
        source, outcome = self._uncollected.pop(request_id, (b"", b""))
        self._bytes -= len(outcome)
        mine = self._of.get(source)
        if mine is not None:
            mine.pop(request_id, None)
            if not mine:
                del self._of[source]

    def uncollected_of(self, source: bytes) -> Collection[bytes]:
        """The request ids of what a delegator may not have got, oldest first."""
        return self._of.get(source, {})

    def restarted(self) -> None:
        """Count every outcome as uncollected: nobody knows what the delegators had got when the broker ended."""
        waiting = {
            request_id: (source, b"")
            for endings in (self._older, self._newer)
            for request_id, (_, source, _) in endings.items()
            if source and request_id not in self._uncollected
        }
        waiting |= self._uncollected  # of too many, those that may have been collected go first
        self._wait_for(waiting)

    def _wait_for(self, waiting: dict[bytes, tuple[bytes, bytes]]) -> None:
        """Keep these and no others, but for the oldest of too many; at once, as they may be very many."""
        self._uncollected = OrderedDict(islice(waiting.items(), max(0, len(waiting) - self._most), None))
        self._of = {}
        for request_id, (source, _) in self._uncollected.items():
            mine = self._of.get(source)
            if mine is None:
                mine = self._of[source] = {}
            mine[request_id] = None
        self._bytes = sum(len(outcome) for _, outcome in self._uncollected.values())

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def pack(self) -> dict[str, Any]:
        """What `of` reads."""
        return {
            "older": [[request_id, *ending] for request_id, ending in self._older.items()],
            "newer": [[request_id, *ending] for request_id, ending in self._newer.items()],
            "dropped": [self.has_dropped, self._dropped],
            "uncollected": [[request_id, source] for request_id, (source, _) in self._uncollected.items()],
        }

    @classmethod
    def of(cls, state: dict[str, Any], *, most: int = REMEMBERED) -> Ended:
        """Read what `pack` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        ended = cls(most=most)
        for name, endings in (("older", ended._older), ("newer", ended._newer)):
            ids, agents, sources, numbers = _columns(state[name], bytes, bytes, bytes, int)
            endings.update(zip(ids, zip(agents, sources, numbers, strict=True), strict=True))
        has_dropped, dropped = state["dropped"]
        if (type(has_dropped), type(dropped)) != (bool, bytes):
            msg = f"dropped: {dropped!r:.80}"
            raise TypeError(msg)
        ended.has_dropped, ended._dropped = has_dropped, dropped
        ids, sources = _columns(state["uncollected"], bytes, bytes)
        ended._wait_for({request_id: (source, b"") for request_id, source in zip(ids, sources, strict=True)})
        return ended


def _columns(rows: list[list[Any]], *types: type) -> list[tuple[Any, ...]]:
    """The columns of some rows; column by column, because a row at a time makes a start twice as long."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in types]
    for column, (values, wanted) in enumerate(zip(columns, types, strict=True)):
        if odd := set(map(type, values)) - {wanted}:
            msg = (
                f"column {column} has {', '.join(sorted(one.__name__ for one in odd))}, and not only {wanted.__name__}"
            )
            raise TypeError(msg)
    return columns
