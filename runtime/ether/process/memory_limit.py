"""A limit on the memory of the broker's process, whatever its peers send.

The bounds of mailboxes, outboxes and quotas hold what the broker itself keeps. They cannot hold what libzmq keeps: it takes
in the parts of a message until the last has come, as many as a peer cares to send, and only then shows them to anybody; and
it has no call that ends one peer's connection. So this looks at the process's resident memory, and past the limit it shuts
the TCP connection from which most came lately. libzmq then frees what was half there. A node to whom that happens wrongly
connects again and sends what was not acknowledged: it loses time and nothing else. Where the broker keeps more for a node
that acknowledges nothing than anybody has sent, that node is cut off instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ether_broker.transport.sessions.backlog import Backlog

__all__ = ["OUT_OF_MEMORY", "MemoryLimit", "resident"]

logger: logging.Logger = logging.getLogger("ether.broker")

OUT_OF_MEMORY: Final = 71
"""Exit code of a broker whose memory went past twice its limit; whoever started it restarts it, with its journal."""
_LOOK: Final = 0.05
_GROWN: Final = 16 << 20
"""Bytes above the least so far at which the C library is told to return what was freed: it keeps it by itself."""
_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 8.0
"""Seconds between two such words: the first when they help, and up to the last while they do not."""
_SUSPECT: Final = 8 << 20
"""Bytes that a connection must have sent since memory passed half its limit, to be shut; or that must be kept for a node."""
_RECEIVED: Final = 128
"""Where `tcpi_bytes_received` (u64) is in Linux's `struct tcp_info`; since Linux 4.1."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryLimit:
    """A limit on the memory of a broker's process, held by a thread of its own until `close`.

    Promises: past `limit` bytes of resident memory the greediest TCP connection is shut, one each 0.05 s until the memory is
    below; or the node is cut off for which more is kept than any connection has sent. Past twice the limit the process ends
    with `OUT_OF_MEMORY`, because what cannot be held must not take the machine with it. Does not shut connections over ipc:
    whoever reaches that socket is the same user.

    Args:
        endpoint: the broker's address.
        limit: bytes; 0 watches nothing.
        note: is told of each connection that was shut: (peer, reason, detail).
        backlog: what the broker keeps for its nodes.
    """

    def __init__(
        self, endpoint: str, limit: int, note: Callable[[str, str, object], object], backlog: Backlog
    ) -> None:  # fmt: skip
        self._port = int(endpoint.rpartition(":")[2]) if endpoint.startswith("tcp://") else 0
        self._limit = limit
        self._note = note
        self._backlog = backlog
        self._before: dict[int, int] = {}
        """{connection's inode: bytes that it had received} when memory passed half the limit."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if limit:
            self._thread = threading.Thread(target=self._run, name="ether-memory", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        low, pause, at = resident(), _PAUSE, time.monotonic()
        while not self._closing.wait(_LOOK):
            try:
                size = resident()
                if size > low + _GROWN and time.monotonic() - at >= pause:
                    _give_back()
                    left = resident()
                    pause = _PAUSE if left < size - _GROWN // 2 else min(2 * pause, _LONGEST_PAUSE)
                    low, size, at = min(low, left), left, time.monotonic()
                if 0 < self._limit < size:
                    _give_back()
                    size = resident()
                self._look(size)
            except OSError as error:
                logger.warning("the broker's memory cannot be looked at: %s", error)

    def _look(self, size: int) -> None:
        if size > 2 * self._limit:
            logger.critical("%s bytes of memory are twice the limit: the broker ends", f"{size:,}")
            logging.shutdown()
            os._exit(OUT_OF_MEMORY)
        if size < self._limit // 2:
            self._before.clear()
            return
        taken = {inode: received for inode, received, _ in self._connections()} if self._port else {}
        if size <= self._limit:
            for inode, received in taken.items():
                self._before.setdefault(inode, received)
            return
        growth = {inode: received - self._before.get(inode, 0) for inode, received in taken.items()}
        greediest = max(growth, key=growth.__getitem__, default=0)
        kept, sent = self._backlog.most_of_one, growth.get(greediest, 0)
        if kept >= max(sent, _SUSPECT):
            self._backlog.must_shrink = True
        elif sent >= _SUSPECT:
            self._shut(greediest, sent, size)

    def _shut(self, inode: int, growth: int, size: int) -> None:
        for found, _, connection in self._connections():
            if found == inode:
                address = connection.getpeername()
                connection.shutdown(socket.SHUT_RDWR)
                detail = (
                    f"{size:,} bytes of memory are over the limit of {self._limit:,}: {address} sent {growth:,} of them"
                )
                self._note(str(address[0]), "memory_limit", detail)
                self._before[inode] = 1 << 63  # its bytes are no reason to shut it again

    def _connections(self) -> Iterator[tuple[int, int, socket.socket]]:
        """Our listener's connections: (inode, bytes received, a duplicate that is closed afterwards)."""
        for entry in Path("/proc/self/fd").iterdir():
            try:
                if not str(entry.readlink()).startswith("socket:"):
                    continue
                duplicate = os.dup(int(entry.name))  # whatever the number means by now: from here on it stays that
            except OSError:
                continue  # closed meanwhile
            try:
                connection = socket.socket(fileno=duplicate)
            except OSError:
                os.close(duplicate)
                continue
            with connection:
                received = _received(connection, self._port)
                if received is not None:
                    yield os.fstat(connection.fileno()).st_ino, received, connection

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(2.0)


def _received(connection: socket.socket, port: int) -> int | None:
    """The bytes that a connection to that port has received; None for any other socket."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return None
    try:
        if connection.getsockname()[1] != port:
            return None
        connection.getpeername()  # a listener has none
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
    if len(info) < _RECEIVED + 8:
        return None
    received: int = struct.unpack_from("=Q", info, _RECEIVED)[0]
    return received


def _give_back() -> None:
    """Let the C library return what was freed: of message parts of medium size it keeps all until it is told."""
    with contextlib.suppress(AttributeError):  # a C library that does so by itself
        ctypes.CDLL(None).malloc_trim(0)


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
