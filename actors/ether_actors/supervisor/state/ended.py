"""The memory of ended delegations: the newest, bounded; the journal has the others. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ether_actors.supervisor.state.lives import pack_lives, read_lives
from ether_actors.supervisor.state.numbered import SPARE, following
from ether_broker.envelope.ids import PROCESS, is_rising, made_at

if TYPE_CHECKING:
    from ether_broker.transport.sessions.session import Life

__all__ = ["CLOCKS_APART", "MOST_PROCESSES", "REMEMBERED", "Ended", "Ending"]

REMEMBERED: Final = 65_536
"""Ended delegations that are told apart from unknown ones at least."""
_FORGOTTEN_AT_A_TIME: Final = REMEMBERED >> 4
"""Of those that are to be forgotten so many are looked at at a time, which takes some 3 ms."""
CLOCKS_APART: Final = 86_400.0
"""Seconds by which wall clocks may differ, where nothing but the time tells what was before and what after."""
MOST_PROCESSES: Final = 16_384
"""Processes whose ids are kept apart; beyond that the half with the lowest ids is forgotten together."""
_MOST_BYTES: Final = 64 << 20


class Ending(NamedTuple):
    """The record of an ended delegation."""

    by: bytes
    """The agent that gave the outcome; `ether` for the supervisor, empty when the delegation was refused."""
    source: bytes
    """The delegator."""
    number: int
    """Of the outcome, among all that passed."""
    asked_from: Life | None
    """The process that asked; None if that is not known, or nobody waits for the outcome."""


_Ending = tuple[bytes, bytes, int, "Life | None"]
"""As `Ending`, but plain: the garbage collector stops looking at plain tuples, and not at named ones."""


class Ended:
    """The index of the newest ended delegations, and of those outcomes that nobody has collected.

    An outcome is uncollected when its delegator was gone as it came, or went before it had acknowledged it; after a restart
    of the broker every remembered one may be. The broker's own, and the one that is folded from the journal, take the same
    steps and so remember the same.

    Args:
        most: of both; of the ended ones up to twice as many are remembered.
        size: bytes of the uncollected outcomes that are kept where there is no journal to read them from.
    """

    def __init__(self, *, most: int = REMEMBERED, size: int = _MOST_BYTES) -> None:
        self._most = most
        self._size = size
        self._newer: dict[bytes, _Ending] = {}
        self._older: dict[bytes, _Ending] = {}
        self._forgotten: dict[bytes, _Ending] = {}
        """The generation before `_older`, still to be freed."""
        self._passed = 0
        """How many of the older ones `_highest` and `_dropped` stand for already; the others follow as new ones come.

        A restored state begins at 0 and catches up after a few additions; the result is the same.
        """
        self._due = min(_FORGOTTEN_AT_A_TIME, most)
        self.uncollected: OrderedDict[bytes, tuple[bytes, bytes, int]] = OrderedDict()
        """{request id: (delegator, outcome, number)} of outcomes that their delegators may not have got, oldest first."""
        self._kept = count(1)
        self._of: dict[bytes, tuple[dict[int, bytes], list[int]]] = {}
        """{delegator: ({number: request id}, the numbers in order, with some of what was collected)}."""
        self._bytes = 0
        self.has_dropped: bool = False
        """Whether there are ended delegations that are not remembered any more."""
        self.forgotten_to: int = 0
        """The highest number of an outcome that is not remembered any more, of those that this broker has given itself: until
        the journal has it, it is found nowhere."""
        self._highest: dict[bytes, bytes] = {}
        """{how they end: the highest UUIDv7 among them}, for so many processes at most."""
        self._dropped = b""
        """The highest UUIDv7 among those of the other processes."""
        self._since: OrderedDict[bytes, bytes] = OrderedDict()
        """{incarnation: the id above which its process's ids are new}; each broker has its own, no checkpoint has them."""

    def __contains__(self, request_id: bytes) -> bool:
        return request_id in self._newer or request_id in self._older

    def get(self, request_id: bytes) -> Ending | None:
        """How that delegation ended, if it is remembered."""
        found = self._newer.get(request_id) or self._older.get(request_id)
        return None if found is None else Ending._make(found)

    def note(self, request_id: bytes, by: bytes, source: bytes, number: int, asked_from: Life | None = None) -> None:
        """Remember that a delegation has ended; the arguments are those of `Ending`."""
        self._newer[request_id] = by, source, number, asked_from
        if len(self._newer) >= self._due:
            self._go_on()

    def _go_on(self) -> None:
        """Prepare a share of the older ones to be forgotten, and forget them all when there are enough newer ones."""
        is_full = len(self._newer) >= self._most
        until = len(self._older) if is_full else self._due
        self._drop(dict(islice(self._older.items(), self._passed, until)))
        for _ in range(min(_FORGOTTEN_AT_A_TIME, len(self._forgotten))):
            self._forgotten.popitem()
        if is_full:
            if self._older:
                self.has_dropped, self.forgotten_to = True, next(reversed(self._older.values()))[2]
            self._forgotten, self._older, self._newer = self._older, self._newer, {}
        self._passed = 0 if is_full else self._due
        self._due = min(self._passed + _FORGOTTEN_AT_A_TIME, self._most)

    def _drop(self, endings: dict[bytes, _Ending]) -> None:
        for request_id in endings:
            if self._is_above(request_id):
                self._highest[request_id[PROCESS]] = request_id
        if len(self._highest) > MOST_PROCESSES:
            rising = sorted(self._highest.values())
            apart = rising[
                -MOST_PROCESSES // 2 :
            ]  # with those that are far ahead of the time: they stand for no others
            self._dropped = rising[-len(apart) - 1]
            self._highest = {request_id[PROCESS]: request_id for request_id in apart}

    # -- when an id was made, and whether it may have been seen; no clock is asked where the ids themselves tell --------

    def joined(self, incarnation: bytes, request_id: bytes) -> None:
        """Note the id that a process gave its REGISTER: the first one counts, which it made when it knew this broker."""
        if is_rising(request_id):
            self._since.setdefault(incarnation, request_id)
            if len(self._since) > REMEMBERED:
                self._since.popitem(last=False)  # what that process sends again may have run, as far as is known

    def is_new(self, request_id: bytes, incarnation: bytes) -> bool:
        """Whether that process, as it says, made this id after it had joined this broker: then none before has seen it.

        The ids of one process rise whatever its clock does, and end alike. Nobody but that process may be the worse for it if
        this is not true.
        """
        since = self._since.get(incarnation, b"")
        return request_id > since and request_id[PROCESS] == since[PROCESS]

    def may_know(self, request_id: bytes) -> bool:
        """Whether that delegation has ended, or may have ended so long ago that it is not remembered; cheap, and often false.

        An id above every forgotten id of its process has not ended, whoever sent it. One that is far
        ahead of the time stands only for those to come that end alike.
        """
        if request_id in self._newer or request_id in self._older:
            return True
        return self.has_dropped and not self._is_above(request_id)

    def _is_above(self, request_id: bytes) -> bool:
        above = self._dropped < request_id > self._highest.get(request_id[PROCESS], b"")
        return above and is_rising(request_id)

    def is_after(self, request_id: bytes, until: float, now: float) -> bool:
        """Whether what has this id cannot have ended before `until`, as far as clocks are at most a day apart; Unix times."""
        made = made_at(request_id)
        return self._is_above(request_id) or (made is not None and until + CLOCKS_APART < made <= now + CLOCKS_APART)

    def ids(self) -> Iterator[bytes]:
        """The request ids that it remembers, and of each process the highest that it does not."""
        return chain(self._older, self._newer, self._highest.values())

    # -- what nobody has collected -------------------------------------------------------------------------------

    def keep(self, request_id: bytes, source: bytes, outcome: bytes = b"") -> None:
        """Note that a delegator may not have got an outcome.

        Args:
            request_id: the delegation's.
            source: the delegator.
            outcome: the envelope, where there is no journal to read it from.
        """
        self.collected(request_id)
        self._enter(request_id, source, outcome)
        self._bytes += len(outcome)
        while len(self.uncollected) > self._most or self._bytes > self._size:
            self.collected(next(iter(self.uncollected)))

    def kept(self, request_id: bytes) -> bytes:
        """The uncollected outcome, if `keep` was given it; else empty."""
        return self.uncollected.get(request_id, (b"", b"", 0))[1]

    def collected(self, request_id: bytes) -> None:
        """Note that an outcome was given to its delegator after all; no error for one that was not waiting."""
        source, outcome, number = self.uncollected.pop(request_id, (b"", b"", 0))
        self._bytes -= len(outcome)
        if number:
            mine, numbers = self._of[source]
            del mine[number]
            if not mine:
                del self._of[source]
            elif len(numbers) > len(mine) + (len(mine) >> 3) + SPARE:
                numbers[:] = mine

    def uncollected_of(self, source: bytes, after: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """What a delegator may not have got, above a number, oldest first: (number, request id).

        The numbers are this object's own. None comes for some of what was collected since.
        """
        mine, numbers = self._of.get(source, ({}, []))
        return following(mine, numbers, after)

    def _enter(self, request_id: bytes, source: bytes, outcome: bytes) -> None:
        number = next(self._kept)
        self.uncollected[request_id] = source, outcome, number
        mine = self._of.get(source)
        if mine is None:
            mine = self._of[source] = {}, []
        mine[0][number] = request_id
        mine[1].append(number)

    def restarted(self) -> None:
        """Count every outcome as uncollected: nobody knows what the delegators had got when the broker ended."""
        waiting = {
            request_id: (source, b"")
            for endings in (self._older, self._newer)
            for request_id, (_, source, _, _) in endings.items()
            if source and request_id not in self.uncollected
        }
        # of too many, those that may have been collected go first
        waiting |= {request_id: (source, outcome) for request_id, (source, outcome, _) in self.uncollected.items()}
        self._wait_for(waiting)

    def _wait_for(self, waiting: dict[bytes, tuple[bytes, bytes]]) -> None:
        """Keep these and no others, but for the oldest of too many."""
        self.uncollected, self._of = OrderedDict(), {}
        for request_id, (source, outcome) in islice(waiting.items(), max(0, len(waiting) - self._most), None):
            self._enter(request_id, source, outcome)
        self._bytes = sum(len(outcome) for _, outcome, _ in self.uncollected.values())

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def pack(self) -> dict[str, Any]:
        """What `of` reads."""
        endings = chain(self._older.values(), self._newer.values())
        return {
            "older": [[request_id, *ending[:3]] for request_id, ending in self._older.items()],
            "newer": [[request_id, *ending[:3]] for request_id, ending in self._newer.items()],
            "asked_from": pack_lives(ending[3] for ending in endings),
            "dropped": [self.has_dropped, max((self._dropped, *self._highest.values()))],  # what older brokers go by
            "highest": [self._dropped, *self._highest.values()],
            "uncollected": [[request_id, source] for request_id, (source, _, _) in self.uncollected.items()],
        }

    @classmethod
    def of(cls, state: dict[str, Any], *, most: int = REMEMBERED) -> Ended:
        """Read what `pack` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        ended = cls(most=most)
        lives = iter(read_lives(state.get("asked_from"), len(state["older"]) + len(state["newer"])))
        for name, endings in (("older", ended._older), ("newer", ended._newer)):
            ids, agents, sources, numbers = _columns(state[name], bytes, bytes, bytes, int)
            endings.update(zip(ids, zip(agents, sources, numbers, islice(lives, len(ids)), strict=True), strict=True))
        ended.has_dropped, highest = state["dropped"]
        ended._dropped, *makers = state.get("highest", [highest])
        if type(ended.has_dropped) is not bool or {*map(type, makers), type(ended._dropped)} != {bytes}:
            msg = f"dropped: {state['dropped']!r:.80}, {ended._dropped!r:.80}"
            raise TypeError(msg)
        ended._highest = {request_id[PROCESS]: request_id for request_id in makers}
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
