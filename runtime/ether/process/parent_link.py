"""A child process's tie to its parent: what it was asked, where it reports, and that it never outlives it.

    parent                         child
      |-- stdin: the request ------->|   msgpack, whole; behind it stdin is at its end
      |<--- lines of JSON -----------|   {"ready": …}, {"failed": …}, {"answered": …}
      |-- files in memory ---------->|   what it is asked later, each msgpack, whole
      |==== socket pair =============|   the parent's end closes with the parent, however that dies

Three things end an orphan, so that none of them has to be perfect:

- the socket pair: its end of file, which a thread waits for. The thread needs the interpreter to run, so a
  handler that never lets go of it holds this up; and a fork of the parent may keep the other end open.
- `PR_SET_PDEATHSIG`: the kernel's own signal. It belongs to the *thread* that started the child, so the parent
  starts children from one thread that lives as long as they do (`ether.process.process_supervisor`).
- `getppid`, once a second: another parent means that ours has died.

What an agent has started itself ends with its node while the parent lives, and when the channel's end is what the node
hears first; the kernel's signal reaches the node alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NoReturn

from ether_broker.envelope.payload import unpack
from ether_broker.errors import EtherError
from ether_broker.text import error_with_class

__all__ = ["ORPHANED", "ParentLink", "end", "is_starting"]

ORPHANED: Final = 79
"""Exit code of a child whose parent has died; nobody is left to read it but a log."""
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG: Final = 1
_LOOK: Final = 1.0
_LEAVE: Final = 2.0
_starting = False


class ParentLink:
    """The child's end of the tie between a process and its parent; made first of all, in the main thread.

    The signals that end a process do so from here on, whatever was inherited: it is the parent who says when, and who may
    have been started with SIGINT ignored.

    Args:
        on_orphaned: called with the request, in a thread of its own, when the parent has died, before the process ends.
        death_signal: the kernel's signal at the parent's death.
    """

    def __init__(
        self, on_orphaned: Callable[[dict[str, Any]], None] = lambda _request: None, death_signal: int = signal.SIGKILL
    ) -> None:  # fmt: skip
        for number in _ENDING:  # a background job of a script ignores SIGINT, and its children would too
            signal.signal(number, signal.SIG_DFL)
        self.request: dict[str, Any] = unpack(sys.stdin.buffer.read())
        """What the parent asked for."""
        self._on_orphaned = on_orphaned
        self._socket = socket.socket(fileno=int(self.request["channel"]))
        self._socket.set_inheritable(False)  # what an agent starts must not hold the parent's line open
        self._parent = int(self.request["parent"])
        self._asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
        with contextlib.suppress(OSError, AttributeError):  # the other two ties hold without it
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != self._parent:  # it died before the kernel was told to tell us
            self._orphaned()
        _note_start(under_way=True)
        here = str(Path.cwd())
        path = self.request["path"]
        sys.path[:] = path if here in path else [*path, here]  # last: what lies about here is nobody's library
        self._socket.settimeout(_LOOK)
        threading.Thread(target=self._watch, name="ether-parent-link", daemon=True).start()

    def ready(self, **facts: object) -> None:
        """Report that this process is up."""
        _note_start(under_way=False)
        self._report({"ready": facts})

    def waits(self, why: str) -> None:
        """Report that this process comes up as soon as something else is as it has to be, however long that takes."""
        self._report({"waits": why})

    def serve(self, answer: Callable[[dict[str, Any]], dict[str, object]]) -> None:
        """Answer what the parent asks from now on, one after the other, in a thread of its own.

        Args:
            answer: gets what is asked, and returns what JSON carries; an `EtherError` of it is told instead.
        """

        def run() -> None:
            while True:
                request = self._asked.get()
                try:
                    said = answer(request)
                except EtherError as error:
                    said = {"error": {"code": error.code, "message": str(error), "traceback": ""}}
                except BaseException as error:  # noqa: BLE001  the parent has to hear of it, and may ask again
                    trace = traceback.format_exc()
                    failed = {"code": "", "message": error_with_class(error), "traceback": trace}
                    said = {"error": failed}
                self._report({"answered": {**said, "number": request["number"]}})

        threading.Thread(target=run, name="ether-parent-requests", daemon=True).start()

    def failed(self, code: str, message: str, traceback: str = "") -> None:
        """Report why it will not come up."""
        self._report({"failed": {"code": code, "message": message, "traceback": traceback}})

    def _report(self, report: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # a parent that has gone is the watching thread's business
            self._socket.sendall(json.dumps(report).encode() + b"\n")

    def _watch(self) -> None:
        while True:
            try:
                said, files, _, _ = socket.recv_fds(self._socket, 1, 1)
                if not said:
                    break
                for file in files:
                    with os.fdopen(file, "rb") as request:
                        self._asked.put(unpack(request.read()))
            except TimeoutError:
                if os.getppid() != self._parent:
                    break
            except OSError:
                break
        self._orphaned()

    def _orphaned(self) -> NoReturn:
        hard = threading.Timer(_LEAVE, _end_group)
        hard.daemon = True
        hard.start()
        with contextlib.suppress(Exception):
            self._on_orphaned(self.request)
        _end_group()


def _note_start(*, under_way: bool) -> None:
    global _starting  # noqa: PLW0603  there is one process
    _starting = under_way


def is_starting() -> bool:
    """Whether this is a child process that is not up yet, and imports the modules of its agents."""
    return _starting


def end(code: int) -> NoReturn:
    """End the process with this code, at the latest after 2 s: a thread of an agent's must not hold it."""
    leaving = threading.Timer(_LEAVE, os._exit, (code,))
    leaving.daemon = True
    leaving.start()
    sys.exit(code)


def _end_group() -> NoReturn:
    """End at once, and what the agents here have started with it."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(ORPHANED)
