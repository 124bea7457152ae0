"""The NATS server, as it comes: core NATS on a free port of the loopback, no JetStream, no TLS."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from ether.lab.harness.role import Info, Role
from ether_broker.errors import BrokerUnavailable, MissingExtra

__all__ = ["Server", "find_binary", "missing"]

_PATIENCE: Final = 15.0


def find_binary() -> str:
    """Where `nats-server` is: beside this Python, or on the path.

    Raises:
        MissingExtra: nowhere.
    """
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        raise missing("nats-server")
    return found


def missing(package: str) -> MissingExtra:
    """The error of who lacks a package that the contender needs."""
    return MissingExtra(
        f"{package} is not installed: `pip install 'agent-ether[dev]'` brings it, or leave out what needs NATS."
    )


class Server(Role):
    """A process that starts `nats-server` and ends it when its own input ends, so that it is never left behind."""

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._folder = tempfile.TemporaryDirectory(prefix="ether-bench-")
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> Info:
        """Start it and read which port it took.

        Raises:
            MissingExtra: it is not installed.
            BrokerUnavailable: it did not say within 15 s.
        """
        command = [find_binary(), "--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir", self._folder.name]
        self._server = subprocess.Popen(
            [*command, "--log", f"{self._folder.name}/log"], stdin=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self._server.poll() is None:
            for ports in Path(self._folder.name).glob("*.ports"):
                with contextlib.suppress(ValueError):  # not yet written to its end
                    return {"url": json.loads(ports.read_text())["nats"][0], "pid": self._server.pid}
            time.sleep(0.02)
        msg = f"nats-server did not say its port within {_PATIENCE:g} s (exit code {self._server.poll()})."
        raise BrokerUnavailable(msg)

    def stop(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(10)
        self._folder.cleanup()
