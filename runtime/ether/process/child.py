"""A child process as its parent sees it."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from ether_broker.envelope.payload import pack

__all__ = ["Process", "describe_exit"]

_LAYERS: Final = ("ether", "ether_actors", "ether_broker")
_READ: Final = 1 << 16


class Process:
    """A Python process that runs one of our modules, tied to this one by a link (`ether.process.parent_link`).

    It has a session of its own: Ctrl-C on the terminal reaches the parent alone, which then ends its children in
    order; and what it starts itself can be ended with it. Not thread-safe; start it from a thread that lives as
    long as it does, because the kernel ends it with that thread.

    Args:
        name: for people; shown by `ps`.
        module: what `python -m` runs.
        request: what it is asked; msgpack carries it.

    Raises:
        Unserialisable: the request cannot travel.
        OSError: the operating system starts no more processes.
    """

    def __init__(self, name: str, module: str, request: Mapping[str, Any]) -> None:
        self.name = name
        ours, theirs = socket.socketpair()
        with theirs:
            here = str(Path.cwd())
            path = [entry or here for entry in sys.path]
            asked = {**request, "channel": theirs.fileno(), "parent": os.getpid(), "path": path}
            try:
                self._process = _start(name, module, pack(asked, where="request"), theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self.channel = ours
        """Readable when there are reports."""
        assert self._process.stdout is not None
        self.output: int = self._process.stdout.fileno()
        """A pipe with what it writes, stdout and stderr together."""
        self.exit: int = os.pidfd_open(self._process.pid)
        """A descriptor that is readable when it has ended."""
        self._buffer = b""

    @property
    def pid(self) -> int:
        """Its process id, also once it has ended."""
        return self._process.pid

    def reports(self) -> list[dict[str, Any]] | None:
        """What it has reported since the last call; None when nothing more will come."""
        with contextlib.suppress(BlockingIOError):
            try:
                data = self.channel.recv(_READ)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def ask(self, request: Mapping[str, Any]) -> None:
        """Ask it something more; what it answers is among its reports. One that has ended is left in peace.

        Raises:
            Unserialisable: the request cannot travel.
        """
        with _memory_file(pack(request, where="request")) as file, contextlib.suppress(OSError):
            socket.send_fds(self.channel, [b"\0"], [file.fileno()])  # a byte, for which there is always room

    def tell(self, number: int) -> None:
        """Send it a signal; one that has ended is left in peace."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit, number)

    def kill(self) -> None:
        """End it at once, and what it has started."""
        self._kill_group()
        self.tell(signal.SIGKILL)

    def reap(self) -> int:
        """Take note of its end, end what it left running, and return its exit code (below zero: the signal).

        Waits until it has ended; a second call gives the same.
        """
        if self._process.returncode is not None:
            return self._process.returncode
        os.waitid(os.P_PIDFD, self.exit, os.WEXITED | os.WNOWAIT)
        self._kill_group()  # before its id is free to be another's
        return self._process.wait()

    def close(self) -> None:
        """Let go of the descriptors; it ends with them unless it has ended."""
        self.channel.close()
        os.close(self.exit)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _kill_group(self) -> None:
        if self._process.returncode is not None:
            return  # its id may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _start(name: str, module: str, request: bytes, channel: int) -> subprocess.Popen[bytes]:
    with _memory_file(request) as stdin:
        return subprocess.Popen(
            [sys.executable, "-P", "-u", "-X", "faulthandler", "-m", module, name],  # -P: not from where it runs
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            pass_fds=(channel,),
            start_new_session=True,
            env=_environment(),
        )


def _memory_file(content: bytes) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("ether-request"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def _environment() -> dict[str, str]:
    """Ours, with the way to this very Ether where that is no installed one; agents' modules come with the request."""
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    roots: dict[str, None] = {}
    for layer in _LAYERS:
        file = importlib.import_module(layer).__file__
        assert file is not None
        root = str(Path(file).parents[1])
        if root not in installed:
            roots[root] = None
    path = [*roots, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
