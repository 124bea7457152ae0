"""The addresses of this user's clusters that have another one than the default of their name, told over a socket.

    who looks for ipc://NAME                    ether up
      |-- connects ---------------------------->|   to a socket in Linux's abstract namespace
      |<-- tcp://HOST:PORT, end -----------------|   at once, also while the cluster is busy

Its name is made of the default address.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Final, Self

from ether_broker.discovery.abstract_sockets import abstract_names, is_own, name_digest
from ether_broker.transport.endpoint import IPC

__all__ = ["ClusterAddress", "addresses_beside", "told_elsewhere"]

_GLANCE: Final = 0.5
"""Seconds that the other end may take: it is a thread that does nothing else."""
_MOST: Final = 1 << 10
"""Bytes of an address."""
_DIGITS: Final = 32


class ClusterAddress:
    """A thread that tells a cluster's address to those who look for it at its default one; a context manager.

    Where that is taken, or cannot be had, nothing is told.

    Args:
        default: the address that the cluster would have by its name, `ipc:///PATH`.
        url: the one that it has.
    """

    def __init__(self, default: str, url: str) -> None:
        self._url = url.encode()
        self._listener = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, name="ether-address", daemon=True)
        self._socket_name = _socket_name(default)

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._listener.bind(self._socket_name)
            self._listener.listen()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.ident is not None:
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the wait for the next
            self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):  # who asks may have gone
                if is_own(connection):
                    connection.sendall(self._url)  # never waits: it is less than a socket keeps


def told_elsewhere(default: str) -> str | None:
    """The address of this user's cluster which would have `default` by its name, if it runs and has another one."""
    return _ask(_socket_name(default)) if default.startswith(IPC) else None


def addresses_beside(default: str) -> list[str]:
    """The addresses of this user's clusters that have another one than the default of their name, in some order."""
    found = (_ask(b"\0" + name.encode()) for name in abstract_names(_folder_part(default)))
    return [url for url in found if url is not None]


def _ask(name: bytes) -> str | None:
    with socket.socket(socket.AF_UNIX) as asking, contextlib.suppress(OSError, UnicodeDecodeError):
        asking.settimeout(_GLANCE)
        asking.connect(name)
        if is_own(asking):
            return asking.recv(_MOST).decode() or None
    return None


def _socket_name(default: str) -> bytes:
    return f"\0{_folder_part(default)}{name_digest(Path(default).name, _DIGITS)}".encode()


def _folder_part(default: str) -> str:
    return f"ether-address-{name_digest(str(Path(default).parent), _DIGITS)}-"
