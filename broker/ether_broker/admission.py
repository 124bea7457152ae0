"""Who may come in: how often strangers may knock, and how many nodes there may be, in all and of each key. Sans-IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ether_broker.allowance import Allowance
from ether_broker.errors import NodeRefused

__all__ = ["MOST_OF_A_KEY", "MOST_SESSIONS", "Admission"]

MOST_SESSIONS: Final = 4_096
"""Nodes that may be in at a time."""
MOST_OF_A_KEY: Final = 1_024
"""Of them those of one key, where connections have keys."""
_MOST_KEYS: Final = 4_096
_KNOCKS: Final = 512, 1_000.0
"""What the connections without a session may cost, of each key, or of all where there are no keys: capacity and rate."""


class Admission:
    """The router's door.

    Args:
        owner: the key of the connection with a routing id; "" where there are no keys.
    """

    def __init__(self, owner: Callable[[bytes], str] = lambda _routing_id: "") -> None:
        self._owner = owner
        self._allowances: dict[str, Allowance] = {}
        self._inside: Counter[str] = Counter()

    def allowance(self, routing_id: bytes) -> Allowance:
        """What a peer without a session may still cost; all of one key share it."""
        owner = self._owner(routing_id)
        found = self._allowances.get(owner)
        if found is None:
            if len(self._allowances) >= _MOST_KEYS:
                self._allowances.clear()
            found = self._allowances[owner] = Allowance(*_KNOCKS)
        return found

    def enter(self, routing_id: bytes) -> str:
        """Count a node in; returns whose it is.

        Raises:
            NodeRefused: there are as many as may be.
        """
        owner = self._owner(routing_id)
        count, of_key = self._inside.total(), self._inside[owner]
        if count >= MOST_SESSIONS or (owner and of_key >= MOST_OF_A_KEY):
            msg = (
                f"The bus has {count:,} nodes{f', {of_key:,} of them of your key' if owner else ''}, and takes no more."
            )
            raise NodeRefused(msg)
        self._inside[owner] += 1
        return owner

    def leave(self, owner: str) -> None:
        """Count a node out."""
        self._inside[owner] -= 1
        if not self._inside[owner]:
            del self._inside[owner]
