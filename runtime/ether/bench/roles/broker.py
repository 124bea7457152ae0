"""The broker with its supervisor, in a process of its own."""

from __future__ import annotations

from typing import Any

import zmq

from ether.bench.role import Info
from ether_actors.supervisor import Supervisor
from ether_actors.supervisor_actor import TAP_INTERVAL, SupervisorActor
from ether_broker.broker import BrokerSocket

__all__ = ["Broker"]


class Broker:
    """A supervisor actor with the broker's socket: what `ether up` runs."""

    def __init__(self, options: Info) -> None:
        self._transport = options["transport"]
        self._folder = options.get("folder", "")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._actor: Any = None

    def start(self) -> Info:
        """Bind to a free address and supervise."""
        address = f"ipc://{self._folder}/broker" if self._transport == "ipc" else "tcp://127.0.0.1:*"
        socket = BrokerSocket(address, self._context)
        self._actor = SupervisorActor.start(socket, Supervisor(tap_interval=TAP_INTERVAL))
        return {"endpoint": socket.endpoint}

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Stop the supervisor and close."""
        if self._actor is not None:
            self._actor.stop(block=True, timeout=5.0)
        self._context.destroy(linger=0)
