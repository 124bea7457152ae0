"""A process of a benchmark, as the harness sees it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from typing import Any, Final

from ether.lab.harness.role import Info
from ether_broker import errors

__all__ = ["Peer"]

_PATIENCE: Final = 120.0
_GRACE: Final = 15.0


class Peer:
    """A process that plays a role; it ends with `close`, or with the harness.

    Args:
        role: a key of `ether.lab.harness.peer_main.ROLES`.
        options: what it is made with.

    Raises:
        MissingExtra: it needs a package that is not installed.
        InternalError: it ended, or said nothing for two minutes.
    """

    def __init__(self, role: str, options: Info) -> None:
        self.role = role
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ether.lab.harness.peer_main", role, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        try:
            self.info: Info = self._read()["ready"]
        except BaseException:
            self.close()
            raise
        self.pid: int = int(self.info.get("pid", self._process.pid))
        """The process that does the work."""

    def order(self, do: str, **order: Any) -> Info:
        """Have its role call the method of that name, and wait for what it says.

        Raises:
            InternalError: as above.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._lost("ended") from None
        return self._read()

    def _read(self) -> Info:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], _PATIENCE)[0]:
            raise self._lost(f"said nothing for {_PATIENCE:g} s")
        line = stdout.readline()
        if not line:
            raise self._lost("ended")
        answer: Info = json.loads(line)
        if "error" in answer:
            raise _ERRORS.get(answer["code"], errors.InternalError)(answer["error"])
        return answer

    def _lost(self, what: str) -> errors.InternalError:
        code = self._process.poll()
        return errors.InternalError(f"The process {self.role!r} {what} (exit code {code}).")

    def close(self) -> None:
        """End it: its input ends, so it stops by itself; a process that does not is killed after 15 s."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


_ERRORS: Final = {error.code: error for error in (errors.MissingExtra, errors.BrokerUnavailable)}
