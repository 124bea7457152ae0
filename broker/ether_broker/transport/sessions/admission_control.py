"""Admission control: bounds on what waits of unknown peers, and on the nodes of each key and in all. Sans-IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ether_broker.errors import NodeRefused
from ether_broker.transport.address import Address
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.turns import InputQueue

__all__ = ["MOST_OF_A_KEY", "MOST_SESSIONS", "AdmissionControl"]

MOST_SESSIONS: Final = 4_096
"""Nodes that may be in at a time."""
MOST_OF_A_KEY: Final = 1_024
"""Of them those of one key, where connections have keys."""
_MOST_KEYS: Final = 4_096
_KNOCKS: Final = 256 << 10
"""Bytes that may wait of all connections of a key without a session, or of all such where there are no keys."""


class AdmissionControl:
    """The door of the session table.

    Args:
        owner: the key of the connection of an address; "" where there are no keys.
    """

    def __init__(self, owner: Callable[[Address], str] = lambda _address: "") -> None:
        self._owner = owner
        self._strangers: dict[str, InputQueue[Session]] = {}
        self._inside: Counter[str] = Counter()

    def strangers(self, address: Address) -> InputQueue[Session]:
        """The queue of peers without a session; all of one key share it, and its turn."""
        owner = self._owner(address)
        found = self._strangers.get(owner)
        if found is None:
            if len(self._strangers) >= _MOST_KEYS:
                self._strangers = {key: queue for key, queue in self._strangers.items() if queue.is_waiting}
            found = self._strangers[owner] = InputQueue(limit=_KNOCKS)
        return found

    def enter(self, address: Address) -> str:
        """Count a node in; returns whose it is.

        Raises:
            NodeRefused: there are as many as may be.
        """
        owner = self._owner(address)
        count, of_key = self._inside.total(), self._inside[owner]
        if count >= MOST_SESSIONS or (owner and of_key >= MOST_OF_A_KEY):
            raise NodeRefused(
                f"The bus has {count:,} nodes{f', {of_key:,} of them of your key' if owner else ''}, and takes no more."
            )
        self._inside[owner] += 1
        return owner

    def leave(self, owner: str) -> None:
        """Count a node out."""
        self._inside[owner] -= 1
        if not self._inside[owner]:
            del self._inside[owner]
