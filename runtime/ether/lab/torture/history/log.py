"""A log: what one process did, a line of JSON each, on its way to the disk before anything follows it.

    {"event": "invoke", "at": 81.2, …}     `event` says what, `at` when: seconds of the machine's monotonic clock

Each line is one `write` to a file opened for appending, so a SIGKILL loses at most the line that was being written.
All processes of a campaign run on one machine, whose monotonic clock is the same for all of them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final

from ether_broker.errors import UsageError

__all__ = ["Line", "LogWriter", "read_log"]

Line = dict[str, Any]
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class LogWriter:
    """The log of one process of a campaign, open for writing; any thread may write.

    Args:
        path: created where it is not there; what an earlier life of the process wrote stays.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, _FLAGS, 0o600)
        if os.fstat(self._file).st_size and not path.read_bytes().endswith(b"\n"):
            os.write(self._file, b"\n")  # a line that a kill has torn must not swallow the next one

    def write(self, event: str, **fields: object) -> float:
        """Write a line; returns its time."""
        at = time.monotonic()
        os.write(self._file, json.dumps({"event": event, "at": at, **fields}, separators=(",", ":")).encode() + b"\n")
        return at

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def read_log(path: Path) -> list[Line]:
    """All whole lines of a log in their order; one that a kill has torn is left out. None where there is no file.

    Raises:
        UsageError: a line is JSON, but no line of a log.
    """
    lines: list[Line] = []
    if not path.exists():
        return lines
    for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
        try:
            line = json.loads(text)
        except ValueError:
            continue  # empty, or torn
        if not isinstance(line, dict) or "event" not in line:
            raise UsageError(f"{path}:{number} is no line of a log: it says nothing of an event.")
        lines.append(line)
    return lines
