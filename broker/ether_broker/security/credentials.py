"""The credentials of a node: its key pair, and the broker's keys that it trusts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from ether_broker.errors import InvalidKey
from ether_broker.security.keyring import Keyring
from ether_broker.security.keys import KeyPair, PublicKey

__all__ = ["Credentials", "KeysLike", "ServerKey"]

KeysLike = Keyring | KeyPair | Path | str
"""A keyring, its folder, or a pair by itself."""
ServerKey = str | Path | Iterable[str | Path]
"""The broker's public key, or its file; several, or a text with commas between them, are tried in turn."""


class Credentials:
    """The credentials of a node: its key pair, and the broker's public keys that it trusts.

    Args:
        pair: ours; it stays the same for the life of a link.
        server_keys: gives the broker's keys, any of which will do; asked again after a failed handshake, so that files may
            change meanwhile. At least one.
    """

    def __init__(self, pair: KeyPair, server_keys: Callable[[], tuple[str, ...]]) -> None:
        self.pair = pair
        self.server_keys = server_keys

    @classmethod
    def of(cls, keys: KeysLike, server_key: ServerKey | None = None) -> Self:
        """Credentials from what a user gives.

        Args:
            keys: whose own pair is ours.
            server_key: without it the broker's key is taken to be the keyring's own, as on the broker's machine.

        Raises:
            InvalidKey: a key, file or folder cannot be used; or there is no server key.
        """
        if isinstance(keys, KeyPair):
            pair, ring = keys, None
        else:
            ring = keys if isinstance(keys, Keyring) else Keyring(keys)
            pair = ring.own
        given = _split(server_key)
        if given:
            _read(given)
            return cls(pair, lambda: _read(given))
        if ring is None:
            raise InvalidKey("A key pair alone does not say which broker to believe: give server_key too.")
        keyring = ring
        return cls(pair, lambda: keyring.public_keys)

    def __repr__(self) -> str:
        return f"<Credentials {self.pair.fingerprint}>"


def _split(server_key: ServerKey | None) -> tuple[str, ...]:
    if server_key is None:
        return ()
    given = [server_key] if isinstance(server_key, str | Path) else list(server_key)
    parts = (part.strip() for entry in given for part in str(entry).split(","))
    return tuple(part for part in parts if part)


def _read(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(PublicKey.of(entry).text for entry in given)
