"""The NATS server, as it comes: core NATS on a free port of the loopback, no JetStream, no TLS."""

from __future__ import annotations

import contextlib
import itertools
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

    def start(self) -> Info:
        """Start it and read which port it took.

        Raises:
            MissingExtra: it is not installed.
            BrokerUnavailable: it did not say within 15 s.
        """
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix="ether-bench-"))
        options = {"--addr": "127.0.0.1", "--port": "-1", "--ports_file_dir": folder, "--log": f"{folder}/log"}
        command = [find_binary(), *itertools.chain.from_iterable(options.items())]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self.callback(server.wait, 10)
        self.callback(server.terminate)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and server.poll() is None:
            for ports in Path(folder).glob("*.ports"):
                with contextlib.suppress(ValueError):  # not yet written to its end
                    return {"url": json.loads(ports.read_text())["nats"][0], "pid": server.pid}
            time.sleep(0.02)
        raise BrokerUnavailable(f"nats-server did not say its port within {_PATIENCE:g} s (exit code {server.poll()}).")
