"""The interface of a journal, as its broker uses it.

Another kind: docs/design.md, "Another transport, journal or clock".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, Self

from ether_broker.errors import EtherError
from ether_broker.tap import Batch
from ether_broker.wire.frame import MAX_FRAME_BYTES

__all__ = ["Journal", "Removed", "Replayed"]


class Replayed(NamedTuple):
    """The envelopes of one `append`, read back from a journal."""

    first: int
    """Number of the first envelope."""
    time: float
    """When they passed, in seconds by the clock of the broker that wrote them."""
    wall: float
    """The same as Unix time."""
    envelopes: Sequence[bytes]

    @property
    def following(self) -> int:
        """The number behind the last envelope."""
        return self.first + len(self.envelopes)

    def part(self, number: int) -> Batch:
        """The part that holds this number and fits into a frame, as the tap would have cut it."""
        first, envelopes = self.first, self.envelopes
        while (size := sum(map(len, envelopes))) > MAX_FRAME_BYTES and len(envelopes) > 1:
            middle = len(envelopes) // 2
            if number < first + middle:
                envelopes = envelopes[:middle]
            else:
                first, envelopes = first + middle, envelopes[middle:]
        return Batch(first, self.time, envelopes, size)

    def since(self, number: int) -> Self:
        """What of it is numbered so, or higher."""
        if number <= self.first:
            return self
        return self._replace(first=number, envelopes=self.envelopes[number - self.first :])


class Removed(NamedTuple):
    """The result of a journal's garbage collection: what it removed."""

    commits: int = 0
    envelopes: int = 0
    bodies: int = 0
    """Large bodies that were kept apart, where the journal does that."""
    bytes: int = 0
    """Bytes freed, now or soon."""


class Journal(Protocol):
    """The interface of a journal: stores envelopes in the order in which they passed.

    An envelope has a number, which is its place in the journal for good. An append has a ticket, which says when it is durable.
    Both rise by one; numbers may be skipped.

    Durable means: who reopens the journal, after whatever has ended this opening, finds it. What is not durable may be lost,
    but never without all that was appended after it.

    One thread calls `append` and `put_checkpoint`; every other member may be used from any thread. After `close` what asks for
    something in it, or changes it, raises Closed.
    """

    @property
    def identity(self) -> str:
        """UUID text of this journal, made once with the file; "" for one that keeps nothing."""

    @property
    def next(self) -> int:
        """The number that the next envelope gets: 1 for an empty journal."""

    @property
    def first(self) -> int:
        """The number of the oldest envelope that it has, or will have: above 1 once its old part was removed."""

    @property
    def removed_until(self) -> float:
        """The latest Unix time at which something passed that was removed; 0.0 if nothing was, infinite if nobody knows."""

    @property
    def committed(self) -> int:
        """The last ticket that is durable, and with it all lower ones; 0 before the first."""

    @property
    def trouble(self) -> EtherError | None:
        """Why it cannot write now; None when it can."""

    @property
    def index_lags(self) -> bool:
        """Whether there is work left to do for what is committed, such that who has written most is to wait."""

    @property
    def checkpoint(self) -> tuple[int, bytes] | None:
        """The last durable checkpoint, as (number, body)."""

    on_commit: Callable[[], None]
    """Called after each commit that was not durable when `append` returned, and when trouble comes or goes; from any thread. It
    must return soon."""

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """Queue envelopes for the next commit and return at once.

        Nothing is promised about them until `committed` has reached the ticket. The sequence must not change afterwards.

        Args:
            first: number of the first one; not below `next`. Numbers that are skipped stay empty.
            time: seconds by the broker's clock.
            wall: Unix time.
            envelopes: none at all is allowed, and committed in its turn.

        Returns:
            The ticket; tickets rise from 1 with each opening of the journal.

        Raises:
            InternalError: `first` is below `next`.
            Closed: the journal is closed.
        """

    def read(self, number: int) -> Batch | None:
        """The committed batch that holds this number; None if it is not there yet, or not any more.

        A batch has at most `MAX_FRAME_BYTES` bytes unless it is one envelope: it can be sent as it is.
        """

    def outcome(self, request_id: bytes) -> bytes | None:
        """The committed terminal RESPONSE to a delegation: of an accepted one the first, of a refused one the last.

        None if there is none. An envelope that is flagged REFUSED refuses.
        """

    def replay(self, number: int | None = None) -> Iterator[Replayed]:
        """Everything committed from a number on, in order, as the journal is when it is first asked; each as it was appended.

        What was appended together and begins below the number is cut there.

        Args:
            number: begin there; None at the last checkpoint's.

        Raises:
            JournalCorrupt: while iterating, a commit that is not what was written.
        """

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """Queue the state that everything below `number` led to, opaque to the journal; it replaces the one before.

        It is committed after what was appended before it. The one that is put before anything is appended, as by a broker that
        takes up a journal, is committed first; another that cannot be written waits, and what is appended after it does not.

        Raises:
            InternalError: `number` is above `next`.
        """

    def gc(self, older_than: float) -> Removed:
        """Remove the oldest commits: what passed before a Unix time and is wholly below the last durable checkpoint.

        From the oldest on, up to the first that has to stay; a kind may keep a little more. Numbers are never given again, and
        `first` and `removed_until` tell what has gone. It may take long, and the broker goes on meanwhile; do not call it from
        `on_commit`.

        Raises:
            Closed: the journal is closed, or was before it was done.
            JournalUnavailable: it cannot be written now; what was removed so far stays removed.
        """

    def close(self) -> None:
        """Commit what is queued and let go of the file; a second call does nothing.

        Raises:
            JournalUnavailable: something could not be committed; the message says how much. It is closed all the same.
        """
