"""The identity at the other end of a connection."""

from __future__ import annotations

from ether_broker.security.keyring import Keyring, permits
from ether_broker.security.keys import fingerprint

__all__ = ["Identity"]


class Identity:
    """The public key that a connection has proved to own, and what it is allowed at the moment of asking."""

    __slots__ = ("_keyring", "key")

    def __init__(self, key: str, keyring: Keyring) -> None:
        self.key: str = key
        """The public key."""
        self._keyring = keyring

    @property
    def fingerprint(self) -> str:
        """Of the key, for people."""
        return fingerprint(self.key)

    @property
    def is_allowed(self) -> bool:
        """Whether the key is let in, as of now."""
        return self._keyring.find(self.key) is not None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Patterns of the node names that it may take, as of now; none for a key that was revoked."""
        entry = self._keyring.find(self.key)
        return () if entry is None else entry.nodes

    def may_be(self, node: str) -> bool:
        """Whether it may be the node of that name, as of now."""
        entry = self._keyring.find(self.key)
        return entry is not None and permits(entry, node)

    def __repr__(self) -> str:
        return f"<Identity {self.fingerprint}>"
