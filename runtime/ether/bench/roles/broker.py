"""The broker with its supervisor, in a process of its own."""

from __future__ import annotations

import zmq

from ether.bench.role import Info
from ether.broker_host import BrokerHost

__all__ = ["Broker"]


class Broker:
    """A supervisor actor with the broker's socket: what `ether up` runs."""

    def __init__(self, options: Info) -> None:
        self._transport = options["transport"]
        self._folder = options.get("folder", "")
        self._journal = f"{self._folder}/journal.db" if options.get("durability") == "journal" else None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._host: BrokerHost | None = None

    def start(self) -> Info:
        """Bind to a free address and supervise."""
        address = f"ipc://{self._folder}/broker" if self._transport == "ipc" else "tcp://127.0.0.1:*"
        self._host = BrokerHost(address, self._context, None, self._journal)
        return {"endpoint": self._host.endpoint}

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Stop the supervisor and close."""
        if self._host is not None:
            self._host.stop()
        self._context.destroy(linger=0)
