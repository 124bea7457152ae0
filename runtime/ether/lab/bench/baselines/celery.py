"""Celery: a task in a worker process, with Redis between."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

from ether.lab.bench.baselines.caller import Caller, library, missing
from ether.lab.harness.role import Info
from ether_broker.errors import BrokerUnavailable

__all__ = ["CeleryCaller"]

_PATIENCE: Final = 60.0
_APP: Final = "ether.lab.bench.baselines.celery_app"


class CeleryCaller(Caller):
    """A caller of one task."""

    def start(self) -> Info:
        """Start Redis and a worker.

        Raises:
            MissingExtra: celery, redis or redis-server is not installed.
            BrokerUnavailable: the worker did not answer within a minute.
        """
        library("celery")
        library("redis")
        server = shutil.which("redis-server")
        if server is None:
            raise missing("redis-server, a package of the system's,")
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix="ether-celery-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._run(server, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", folder)
        os.environ["ETHER_BENCH_REDIS"] = f"redis://127.0.0.1:{port}/0"
        worker = ("-A", _APP, "worker", "--pool", "solo", "--loglevel", "error", "--without-gossip", "--without-mingle")
        self._run(sys.executable, "-P", "-m", "celery", *worker)
        self._task = importlib.import_module(_APP).echo
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(Exception):  # Redis, and then the worker, are not there yet
                self._task.delay("").get(timeout=1.0)
                return {}
        raise BrokerUnavailable(f"Celery's worker did not answer within {_PATIENCE:g} s.")

    def _run(self, *command: str) -> None:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        self.callback(process.wait, 10)
        self.callback(process.terminate)

    def ask(self, body: Any) -> Callable[[], Any]:
        """Send a task; JSON has no bytes, so they travel as text."""
        result: Callable[[], Any] = self._task.delay(body.hex() if isinstance(body, bytes) else body).get
        return result
