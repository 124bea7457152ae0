"""A TCP proxy that keeps what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Wiretap:
    """Listens on a port of its own and passes all on to an endpoint."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.seen = b""
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self._listener.accept()
                ours = socket.create_connection(self._target)
                self._sockets += [theirs, ours]
                for one, other in ((theirs, ours), (ours, theirs)):
                    thread = threading.Thread(target=self._pass_on, args=(one, other))
                    self._threads.append(thread)
                    thread.start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self.seen += data
                other.sendall(data)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for open_socket in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        for thread in self._threads:
            thread.join(5.0)
