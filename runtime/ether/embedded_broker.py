"""A broker with its supervisor in this process, for a runtime that embeds a whole bus."""

from __future__ import annotations

import itertools
from typing import Final

import zmq

from ether_broker.mailbox import Limits

__all__ = ["EmbeddedBroker"]

_numbers = itertools.count(1)
_PATIENCE: Final = 5.0


class EmbeddedBroker:
    """Runs from when it is made until `stop`.

    Args:
        bind: its address; None is one that only sockets of the same context see.
        context: whose socket it has.
        limits: bounds of the agents' mailboxes.

    Raises:
        AddressInUse, InvalidEndpoint: it cannot listen there.
    """

    def __init__(self, bind: str | None, context: zmq.Context[zmq.Socket[bytes]], limits: Limits | None) -> None:
        # Imported here: a runtime that joins a bus needs none of it.
        from ether_actors.supervisor import Supervisor
        from ether_actors.supervisor_actor import TAP_INTERVAL, SupervisorActor
        from ether_broker.broker import BrokerSocket

        socket = BrokerSocket(bind or f"inproc://ether-{next(_numbers)}", context)
        self.supervisor = SupervisorActor.start(socket, Supervisor(limits=limits, tap_interval=TAP_INTERVAL))
        """Its pykka ref."""
        self.endpoint = socket.endpoint
        """The address that it listens at."""

    def stop(self) -> None:
        """End it, waiting at most 5 s."""
        self.supervisor.stop(block=True, timeout=_PATIENCE)
