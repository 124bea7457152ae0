"""What a broker asks of its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ether_broker.errors import EtherError
from ether_broker.tap import Batch

__all__ = ["Journal", "Replayed"]


class Replayed(NamedTuple):
    """One `append` as it was stored."""

    first: int
    """Number of the first envelope."""
    time: float
    """When they passed, in seconds by the clock of the broker that wrote them."""
    wall: float
    """The same as Unix time."""
    envelopes: Sequence[bytes]


class Journal(Protocol):
    """Stores envelopes in the order in which they passed.

    One thread calls `append` and `put_checkpoint`; every other member may be used from any thread.
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
    def checkpoint(self) -> tuple[int, bytes] | None:
        """The last durable checkpoint, as (number, body)."""

    on_commit: Callable[[], None]
    """Called from the writer's thread after each commit, and when trouble comes or goes; it must return soon."""

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

        A batch has at most `wire.FRAME` bytes unless it is one envelope: it can be sent as it is.
        """

    def outcome(self, request_id: bytes) -> bytes | None:
        """The committed terminal RESPONSE to a delegation; None if there is none."""

    def replay(self) -> Iterator[Replayed]:
        """Everything committed from the last checkpoint's number on, in order.

        Raises:
            JournalCorrupt: while iterating, a commit that is not what was written.
        """

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """Queue the state that everything below `number` led to, opaque to the journal; it replaces the one before.

        It is committed after what was appended before it and before what is appended after.

        Raises:
            InternalError: `number` is above `next`.
        """

    def close(self) -> None:
        """Commit what is queued and let go of the file; a second call does nothing.

        Raises:
            JournalUnavailable: something could not be committed; the message says how much. It is closed all the same.
        """
