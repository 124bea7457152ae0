"""The journal of a runtime with durability `memory`: it numbers, and keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ether_broker.errors import Closed, InternalError
from ether_broker.journal.journal import Removed, Replayed
from ether_broker.tap import Batch

__all__ = ["NullJournal"]


class NullJournal:
    """A journal that commits at once and stores nothing: what was accepted is lost with the broker.

    `committed` has the ticket when `append` returns, so `on_commit` is never called.
    """

    identity = ""
    first = 1
    removed_until = 0.0
    trouble = None
    index_lags = False
    checkpoint = None

    def __init__(self) -> None:
        self.next = 1
        self.committed = 0
        self.on_commit: Callable[[], None] = lambda: None
        self._closed = False

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:  # noqa: ARG002  kept nowhere
        """Count the envelopes; see `Journal.append`."""
        if self._closed:
            raise Closed("The journal is closed.")
        if first < self.next:
            raise InternalError(f"Envelope {first} is appended where {self.next} is due.")
        if envelopes:
            self.next = first + len(envelopes)
        self.committed += 1
        return self.committed

    def read(self, number: int) -> Batch | None:  # noqa: ARG002  kept nowhere
        """None: nothing is stored."""
        return None

    def outcome(self, request_id: bytes) -> bytes | None:  # noqa: ARG002  kept nowhere
        """None: nothing is stored."""
        return None

    def replay(self, number: int | None = None) -> Iterator[Replayed]:  # noqa: ARG002  kept nowhere
        """Nothing."""
        return iter(())

    def gc(self, older_than: float) -> Removed:  # noqa: ARG002  kept nowhere
        """Nothing: there is nothing to remove."""
        return Removed()

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """Do nothing: there will be no restart that needs it."""

    def close(self) -> None:
        """Take nothing more."""
        self._closed = True
