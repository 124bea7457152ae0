"""The tap: every envelope that passed, numbered, in a bounded ring that observers read at their own pace.

One ring serves all observers. Each has a cursor; the broker sends it the next batch when it has acknowledged enough of
the last ones, so an observer that stands still costs nothing and slows nobody. A cursor that falls behind the
ring's tail is moved to it, and the numbers show the gap (G7).

    batch = first:u64 next:u64 count:u32 count*( number-first:u32 ) count*( time:f64 ) count*( length:u32 ) count*( envelope )
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from ether_broker.errors import MalformedFrame
from ether_broker.observer_cursor import OBSERVER_WINDOW_BATCHES, ObserverCursor
from ether_broker.wire.frame import BATCH, MAX_FRAME_BYTES, pack_lengths, read_envelopes

__all__ = ["KEPT", "KEPT_BYTES", "Batch", "Tap", "pack_batch", "read_batch"]

KEPT: Final = 65_536
"""Envelopes that observers can still catch up on without the journal; of the newest, as many as have `KEPT_BYTES`."""
KEPT_BYTES: Final = 64 << 20
_MERGED: Final = 64 << 10
"""Bytes up to which what passed in several steps goes to an observer as one batch."""
_BATCH: Final = struct.Struct(">QQI")


class Batch(NamedTuple):
    """The envelopes that passed in one step of the broker."""

    first: int
    """Number of the first envelope; numbers begin at 1."""
    time: float
    """When they passed, in seconds by the broker's clock."""
    envelopes: Sequence[bytes]
    size: int


_Stored: TypeAlias = tuple[int, float, tuple[bytes, ...], int]
"""A batch in the ring, with the fields of `Batch`: a plain tuple of plain values, which the garbage
collector lets be after it has seen it twice."""
_first: Final = itemgetter(0)


class Tap:
    """The bounded ring of all numbered envelopes, which observers read at their own pace.

    Args:
        count: envelopes kept.
        size: bytes kept.
        start: the number of the first.
    """

    def __init__(self, *, count: int = KEPT, size: int = KEPT_BYTES, start: int = 1) -> None:
        self._batches: deque[_Stored] = deque()
        self._count = count
        self._size = size
        self._bytes = 0
        self.next: int = start
        """The number that the next envelope gets."""

    @property
    def first(self) -> int:
        """The lowest number that is still in the ring; `next` when it is empty."""
        return self._batches[0][0] if self._batches else self.next

    def append(self, envelopes: Sequence[bytes], now: float) -> None:
        """Number the envelopes of one step; many bytes become several batches, each of which fits into a frame."""
        size = sum(map(len, envelopes))
        if size > MAX_FRAME_BYTES and len(envelopes) > 1:
            middle = len(envelopes) // 2
            self.append(envelopes[:middle], now)
            self.append(envelopes[middle:], now)
            return
        self._batches.append((self.next, now, tuple(envelopes), size))
        self.next += len(envelopes)
        self._bytes += size
        while len(self._batches) > 1 and (self.next - self._batches[0][0] > self._count or self._bytes > self._size):
            self._bytes -= self._batches.popleft()[3]

    def read(
        self,
        cursor: ObserverCursor,
        capability_of: Callable[[bytes], bytes],
        batch: Batch | None = None,
    ) -> bytes | None:
        """Pack the next batch for a cursor and move it on; None when it has all, or enough under way.

        Steps in which little passed make one batch, up to 64 numbers or 64 KiB.

        Args:
            cursor: whose next batch it is.
            capability_of: what it filters by.
            batch: the one that it gets, which has left the ring; default: the next, or the oldest that is left in the ring.
        """
        if cursor.position >= self.next or not cursor.has_credit:
            return None
        index = None
        if batch is None:
            cursor.position = max(cursor.position, self.first)
            index = self._index(cursor.position)
        start, time, passed, length = self._batches[index] if index is not None else batch  # type: ignore[misc]
        first = following = max(cursor.position, start)
        passed = passed[first - start :]
        prefixes, size = cursor.capabilities, 0
        numbers: list[int] = []
        times: list[float] = []
        envelopes: list[bytes] = []
        while True:
            before, following = following - first, following + len(passed)
            if prefixes:
                for number, envelope in enumerate(passed, before):
                    if capability_of(envelope).startswith(prefixes):
                        numbers.append(number)
                        envelopes.append(envelope)
            else:
                numbers += range(before, following - first)
                envelopes += passed
            times += [time] * (len(envelopes) - len(times))
            size += length
            if index is None or following >= self.next or following - first >= BATCH:
                break
            index += 1
            _, time, passed, length = self._batches[index]
            if size + length > _MERGED or following - first + len(passed) > BATCH:
                break
        cursor.position = following
        cursor.unacknowledged.append((following, size))
        cursor.under_way += size
        return pack_batch(first, following, numbers, times, envelopes)

    def envelope(self, number: int) -> bytes | None:
        """The envelope of that number; None when it has left the ring, or has not passed yet."""
        if not self.first <= number < self.next:
            return None
        first, _, envelopes, _ = self._batches[self._index(number)]
        return envelopes[number - first]

    def _index(self, number: int) -> int:
        """Where the batch is that has a number, from the end if it is near."""
        near = min(len(self._batches), 2 * OBSERVER_WINDOW_BATCHES)
        for back in range(1, near + 1):  # the middle of a deque is far away
            if number >= self._batches[-back][0]:
                return -back
        return bisect_right(self._batches, number, key=_first) - 1


def pack_batch(
    first: int, following: int, numbers: Sequence[int], times: Sequence[float], envelopes: Sequence[bytes]
) -> bytes:  # fmt: skip
    """Pack the batch that covers the numbers from `first` up to `following`.

    Args:
        first: the lowest number.
        following: the number after the last.
        numbers: of each envelope, less `first`.
        times: when each passed, in seconds by the broker's clock.
        envelopes: that its observer asked for.
    """
    count = len(envelopes)
    table = struct.pack(f">{count}I{count}d", *numbers, *times)
    return b"".join((_BATCH.pack(first, following, count), table, pack_lengths(envelopes), *envelopes))


class ReadBatch(NamedTuple):
    """A batch of numbered envelopes as an observer's node decodes it."""

    first: int
    next: int
    """The number after the last one that the batch covers, whether or not its observer asked for it."""
    envelopes: list[tuple[int, float, bytes]]
    """(number, when it passed in seconds by the broker's clock, envelope)."""


def read_batch(body: bytes) -> ReadBatch:
    """Read what `pack_batch` made.

    Raises:
        MalformedFrame: lengths and count do not add up.
    """
    try:
        first, following, count = _BATCH.unpack_from(body)
        table = struct.Struct(f">{count}I{count}d")
        found = table.unpack_from(body, _BATCH.size)
        envelopes = read_envelopes(body, _BATCH.size + table.size, count)
    except struct.error:
        envelopes = None
    if envelopes is None:
        raise MalformedFrame(f"A tap batch of {len(body)} bytes does not hold what it announces.", body)
    numbers = [first + number for number in found[:count]]
    return ReadBatch(first, following, list(zip(numbers, found[count:], envelopes, strict=True)))
