"""A node that offers a large file, and one that fetches it over the bus or over a plain TCP connection."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Final

from ether.lab.bench.roles.node import Node
from ether.lab.harness.role import Info
from ether_broker.artifacts.fetching import FETCHERS
from ether_broker.envelope.artifact import Artifact
from ether_broker.errors import InternalError

__all__ = ["FileClient", "FileServer"]

_BLOCK: Final = 1 << 20
_READ: Final = 256 << 10
"""Bytes that a plain connection reads at a time: as many as a chunk of an artifact has."""
_PATIENCE: Final = 60.0


class FileServer(Node):
    """A node with a file of `size` bytes, which a socket of its process sends to whoever connects."""

    def start(self) -> Info:
        """Join, write the file, and listen."""
        super().start()
        path = Path(self.options["folder"]) / "large"
        block = os.urandom(_BLOCK)
        with path.open("wb") as file:
            for start in range(0, self.options["size"], _BLOCK):
                file.write(block[: self.options["size"] - start])
        listening = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=_send_to_all, args=(listening, path), daemon=True).start()
        self.callback(listening.shutdown, socket.SHUT_RDWR)
        return {"artifact": self._bus.artifact(path).model_dump(), "port": listening.getsockname()[1]}


def _send_to_all(listening: socket.socket, path: Path) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # it was shut down
        with connection, path.open("rb") as file:
            connection.sendfile(file)


class FileClient(Node):
    """A node that takes in all bytes of the file and their digest, and keeps none."""

    def fetch(self) -> Info:
        """Over the bus, as on a machine that has not the file."""
        artifact = Artifact.parse(self.options["artifact"])
        (fetcher,) = FETCHERS
        digest, start = hashlib.sha256(), time.perf_counter()
        fetcher.fetch(artifact, digest.update, _PATIENCE)
        return _took(artifact, digest.hexdigest(), start)

    def receive(self) -> Info:
        """Over a plain connection."""
        artifact = Artifact.parse(self.options["artifact"])
        digest, buffer, start = hashlib.sha256(), memoryview(bytearray(_READ)), time.perf_counter()
        with socket.create_connection(("127.0.0.1", self.options["port"])) as connection:
            while count := connection.recv_into(buffer):
                digest.update(buffer[:count])
        return _took(artifact, digest.hexdigest(), start)


def _took(artifact: Artifact, digest: str, start: float) -> Info:
    seconds = time.perf_counter() - start
    if digest != artifact.sha256:
        raise InternalError("other bytes came than those of the file.")
    return {"seconds": seconds}
