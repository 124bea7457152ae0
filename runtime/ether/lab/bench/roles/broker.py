"""The broker with its supervisor, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from ether.lab.harness.role import Info
from ether.node.embedded_broker import EmbeddedBroker

if TYPE_CHECKING:
    from ether_broker.security.keyring import Keyring

__all__ = ["Broker"]


class Broker:
    """A supervisor actor with the broker's socket: what `ether up` runs."""

    def __init__(self, options: Info) -> None:
        self._transport = options["transport"]
        self._folder = options.get("folder", "")
        self._journal = f"{self._folder}/journal.db" if options.get("durability") == "journal" else None
        self._is_secure = bool(options.get("secure"))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._host: EmbeddedBroker | None = None

    def start(self) -> Info:
        """Bind to a free address and supervise."""
        address = f"ipc://{self._folder}/broker" if self._transport == "ipc" else "tcp://127.0.0.1:*"
        keyring = self._make_keys() if self._is_secure else None
        self._host = EmbeddedBroker(address, self._context, None, self._journal, keyring=keyring)
        return {"endpoint": self._host.endpoint, "keys": None if keyring is None else str(keyring.folder)}

    def _make_keys(self) -> Keyring:
        """One folder for all: the broker lets its own pair in."""
        from ether_broker.security.keyring import Keyring

        return Keyring.create(Path(self._folder, "keys"), "bench")

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Stop the supervisor and close."""
        if self._host is not None:
            self._host.stop()
        self._context.destroy(linger=0)
