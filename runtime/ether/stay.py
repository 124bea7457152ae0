"""A node's stay with a broker, as its parts have to know it."""

from __future__ import annotations

from typing import Any

from ether_broker.payload import MAX_PAYLOAD
from ether_broker.router import SILENCE

__all__ = ["Stay"]


class Stay:
    """What WELCOME said, when the broker was last heard, and whether we are about to leave.

    The session writes it, and the node, which hears everything; the other parts read it.
    """

    __slots__ = ("broker", "default_timeout", "heard", "is_draining", "limit", "number")

    def __init__(self) -> None:
        self.broker = ""
        """The broker's incarnation."""
        self.number = 0
        """Its number for our stay there."""
        self.limit = MAX_PAYLOAD
        """Bytes that a payload may have."""
        self.default_timeout = 60.0
        """Seconds that a delegation has when nothing else is said."""
        self.heard = 0.0
        """When something last came from it, by this node's clock."""
        self.is_draining = False
        """Whether the node takes and begins nothing new."""

    def begin(self, welcome: dict[str, Any]) -> None:
        """Take over what a WELCOME says."""
        self.broker, self.number = welcome["broker"], welcome["session"]
        self.limit = welcome["max_payload"]
        self.default_timeout = welcome["default_timeout"]

    def is_heard(self, now: float) -> bool:
        """Whether the broker has not been silent for so long that it must be gone."""
        return now - self.heard < SILENCE
