"""The processes whose request ids are far ahead of the broker's clock: their number is bounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ether_actors.supervisor.state.ended import MOST_PROCESSES
from ether_broker.envelope.ids import PROCESS, is_rising

__all__ = ["FAR_AHEAD", "MOST_FAR_AHEAD", "IdsAhead"]

FAR_AHEAD: Final = 86_400.0
"""Seconds by which an id may have been made after the broker's clock, in Unix time, before it is far ahead."""
MOST_FAR_AHEAD: Final = MOST_PROCESSES // 4
"""Processes whose ids may be far ahead: 4,096, a quarter of `MOST_PROCESSES`."""
_COUNT_EVERY: Final = 1.0
"""Seconds between two counts of those, which take some 0.5 ms, while there are as many as there may be."""


class IdsAhead:
    """The count of the processes with ids that are far ahead; it decides which ids are refused, and nothing else."""

    def __init__(self) -> None:
        self.near: bytes = b""
        """No id up to this is far ahead; as of the last call of `takes` or `count`."""
        self._highest: dict[bytes, bytes] = {}
        """{how the ids of a process end: its highest one that was taken}; counted again by each broker."""
        self._counted = 0.0

    def takes(self, request_id: bytes, now: float) -> bool:
        """Whether there is room for a delegation of this id, and if so count it; only those above `near` need to ask.

        An id that is far ahead of `now`, in Unix time, is taken if its process has such ids already, or fewer than
        `MOST_FAR_AHEAD` processes have. With more such processes than are tracked, every id up to theirs would count as
        possibly ended.
        """
        self.near = _made_by(now + FAR_AHEAD)
        if not _is_far(request_id, self.near):
            return True
        highest = self._highest.get(request_id[PROCESS])
        if highest is None and len(self._highest) >= MOST_FAR_AHEAD and abs(now - self._counted) >= _COUNT_EVERY:
            self.count(self._highest.values(), now)
        if highest is None and len(self._highest) >= MOST_FAR_AHEAD:
            return False
        self._highest[request_id[PROCESS]] = max(request_id, highest or b"")
        return True

    def count(self, request_ids: Iterable[bytes], now: float) -> None:
        """Count those of these ids that are far ahead, and no others."""
        self.near, self._counted = _made_by(now + FAR_AHEAD), now
        far = sorted(request_id for request_id in request_ids if _is_far(request_id, self.near))
        self._highest = {request_id[PROCESS]: request_id for request_id in far}


def _is_far(request_id: bytes, near: bytes) -> bool:
    return request_id > near and is_rising(request_id)


def _made_by(time: float) -> bytes:
    """The bound above all UUIDv7 that were made until then, and below all later ones; Unix time, to the millisecond."""
    return int(time * 1000).to_bytes(6) + b"\xff" * 10
