"""The broker with its supervisor, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import zmq

from ether.lab.harness.role import Info, Role
from ether.node.embedded_broker import EmbeddedBroker

__all__ = ["Broker"]


class Broker(Role):
    """A supervisor actor with the broker's socket: what `ether up` runs."""

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._folder = Path(options["folder"])
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._host: EmbeddedBroker | None = None

    def start(self) -> Info:
        """Bind to a free address and supervise."""
        address = f"ipc://{self._folder}/broker" if self.options["transport"] == "ipc" else "tcp://127.0.0.1:*"
        journal = self._folder / "journal.db" if self.options.get("durability") == "journal" else None
        keyring = None
        if self.options.get("secure"):  # one folder of keys for all: the broker lets its own pair in
            from ether_broker.security.keyring import Keyring

            keyring = Keyring.create(self._folder / "keys", "bench")
        self._host = EmbeddedBroker(address, self._context, None, journal, keyring=keyring)
        return {"endpoint": self._host.endpoint, "keys": None if keyring is None else str(keyring.folder)}

    def stop(self) -> None:
        """Stop the supervisor and close."""
        if self._host is not None:
            self._host.stop()
        self._context.destroy(linger=0)
