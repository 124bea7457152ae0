"""A NATS connection in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ether_broker.errors import MissingExtra

__all__ = ["NatsLoop"]


class NatsLoop:
    """Runs coroutines with one connection, in the calling thread.

    Raises:
        MissingExtra: nats-py is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            import nats
        except ImportError:
            msg = "nats-py is not installed: `pip install 'agent-ether[dev]'` brings it, or leave out what needs NATS."
            raise MissingExtra(msg) from None
        self._nats = nats
        self._url = url
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self.connection: Any = None

    def connect(self) -> Any:
        """Connect; gives the connection."""
        self.connection = self.run(self._nats.connect(self._url))
        return self.connection

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(coroutine)

    def close(self) -> None:
        """Close the connection and the loop."""
        if self.connection is not None and not self.loop.is_running():
            self.run(self.connection.close())
        self.loop.close()
