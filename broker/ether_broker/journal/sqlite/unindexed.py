"""The positions of outcomes that are committed and not indexed yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from ether_broker.journal.journal import Replayed
from ether_broker.journal.record import is_outcome
from ether_broker.wire.frame import REQUEST_ID, Flag

__all__ = ["LIMIT", "Unindexed"]

LIMIT: Final = 524_288
"""Outcomes that are kept, of some 200 bytes each: twice as many envelopes as the writer leaves unindexed."""
_REFUSED: Final = int(Flag.REFUSED)


class Unindexed:
    """The numbers of terminal RESPONSEs by request id; one thread changes it, any thread may call `find`.

    Of each id it has the first one to a delegation that was accepted, and the last refusal.

    Args:
        indexed: the number up to which, exclusive, the index has everything.
    """

    def __init__(self, indexed: int) -> None:
        self._indexed = self._since = indexed  # it has everything from `_since` on
        self._ended: OrderedDict[bytes, int] = OrderedDict()  # both in the order of their numbers
        self._refused: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ended) + len(self._refused)

    def note(self, batches: Sequence[Replayed]) -> None:
        """Take the outcomes of a commit; beyond `LIMIT` it forgets all, and is whole again when the index has got there."""
        for first, _, _, envelopes in batches:
            for number, envelope in enumerate(envelopes, first):
                if is_outcome(envelope):
                    request_id = envelope[REQUEST_ID]
                    if envelope[3] & _REFUSED:
                        self._refused[request_id] = number
                        self._refused.move_to_end(request_id)
                    else:
                        self._ended.setdefault(request_id, number)
            if len(self) > LIMIT:
                self.drop(first + len(envelopes))

    def drop(self, since: int) -> None:
        """Forget all: what is below `since` was not noted, or not all of it."""
        self._since = since  # before the rest: `find` looks at it last
        self._ended.clear()
        self._refused.clear()

    def forget(self, indexed: int) -> None:
        """Forget what is below a number, as the index has it now."""
        self._indexed = indexed
        for numbers in (self._ended, self._refused):
            while numbers and next(iter(numbers.values())) < indexed:
                numbers.popitem(last=False)

    def find(self, request_id: bytes) -> list[int] | None:
        """The numbers of a delegation's outcomes; None if it does not have all that is not indexed.

        Ask it before the index: what has left it since is there.
        """
        found = self._ended.get(request_id), self._refused.get(request_id)
        return None if self._indexed < self._since else [number for number in found if number is not None]
