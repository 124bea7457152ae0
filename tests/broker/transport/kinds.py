"""The kinds of transport. Another is an entry here: `test_conformance.py` checks what it promises, on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import zmq

from ether_broker.transport.in_process.link import InProcessLink
from ether_broker.transport.in_process.server import InProcessServer
from ether_broker.transport.link import Link
from ether_broker.transport.memory.link import MemoryLink
from ether_broker.transport.memory.server import MemoryServer
from ether_broker.transport.server import Server
from ether_broker.transport.zeromq.link import ZmqLink
from ether_broker.transport.zeromq.server import ZmqServer

__all__ = ["KINDS", "Transport"]


class Transport(Protocol):
    """One broker's side, and as many others as a test asks for."""

    server: Server

    def link(self) -> Link:
        """A new link to the server, not yet open."""

    def move(self, link: Link) -> None:
        """Let what is under way to and from a link go on, where it does not do that by itself."""

    def close(self) -> None:
        """Let go of what is left; links and server are closed."""


class _ZeroMQ:
    def __init__(self, folder: Path) -> None:
        self._context = zmq.Context()
        self.server: Server = ZmqServer(f"ipc://{folder}/broker.sock", self._context)

    def link(self) -> ZmqLink:
        return ZmqLink(self.server.endpoint, self._context)

    def move(self, link: Link) -> None:
        time.sleep(0.001)

    def close(self) -> None:
        self._context.destroy(linger=0)


class _Memory:
    def __init__(self, _folder: Path) -> None:
        self._server = MemoryServer()
        self.server: Server = self._server

    def link(self) -> MemoryLink:
        return self._server.connect()

    def move(self, link: Link) -> None:
        assert isinstance(link, MemoryLink)
        link.post()
        link.deliver()

    def close(self) -> None: ...


class _InProcess:
    def __init__(self, _folder: Path) -> None:
        self._server = InProcessServer("inproc://test")
        self.server: Server = self._server

    def link(self) -> InProcessLink:
        return self._server.connect()

    def move(self, link: Link) -> None:
        time.sleep(0.001)

    def close(self) -> None: ...


KINDS: Final[dict[str, Callable[[Path], Transport]]] = {
    "zeromq": _ZeroMQ, "memory": _Memory, "in_process": _InProcess,
}  # fmt: skip
