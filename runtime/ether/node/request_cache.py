"""Requests whose names have been checked before: the same few come again and again."""

from __future__ import annotations

from typing import Final

from ether_broker.envelope.delegation import Delegation

__all__ = ["RequestCache"]

MOST: Final = 10_000
"""Pairs of capability and target that are remembered; others are checked each time."""


class RequestCache:
    """Remembers which capabilities and targets are valid."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[tuple[str, str | None]] = set()

    def check(self, capability: str, to: str | None, timeout: float | None) -> bool:
        """Whether a request is known to be valid; False leaves it to `Delegation.parse` to say.

        Raises:
            InvalidEnvelope: one of the names is not valid.
        """
        if timeout is not None and not (type(timeout) in (float, int) and timeout > 0):
            return False
        key = (capability, to)
        try:
            if key in self._known:
                return True
        except TypeError:
            return False
        Delegation.parse({"request_id": "", "capability": capability, "to_agent": to})
        if len(self._known) < MOST:
            self._known.add(key)
        return True
