"""The fold of a journal to a checkpoint, in a process of its own: run as a module, with the journal's path.

It takes some MiB and a second of CPU; within the broker that memory would not all come back, and that second would be
taken from whoever waits for the interpreter's lock. The process is nice, and ends with the broker.

broker ── the path ──► folding      reads from the last checkpoint on
broker ◄── number:u64 state ─────┘  what `History.pack` gives; nothing when there is nothing new
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

from ether_actors.supervisor.journal.history import History
from ether_broker.errors import EtherError, JournalUnavailable
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.tables import connect_reader

__all__ = ["fold", "main"]

_LOOK: Final = 0.25
_NICE: Final = 10
_NUMBER: Final = 8
_STEPS: Final = 64
"""Turns of the broker after which it looks whether the broker is still there."""


def fold(path: Path, ending: threading.Event) -> tuple[int, bytes] | None:
    """Have a process make the state that everything committed led to.

    Returns:
        The number that follows and the state; None when nothing is new, or `ending` was set meanwhile.

    Raises:
        JournalUnavailable: the process could not be started, or failed; the message says how.
    """
    command = [sys.executable, "-P", "-m", "ether_actors.supervisor.journal.checkpoint_process", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise JournalUnavailable(f"No process can be started that makes a checkpoint: {error}.") from error
    with process:
        while True:
            if ending.is_set():
                process.kill()
                return None
            with contextlib.suppress(subprocess.TimeoutExpired):
                made, said = process.communicate(timeout=_LOOK)
                break
    if process.returncode:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise JournalUnavailable(f"Making a checkpoint ended with code {process.returncode}: {last}")
    return (int.from_bytes(made[:_NUMBER]), made[_NUMBER:]) if made else None


def main() -> None:
    """Read the journal and write the state to stdout."""
    parent = os.getppid()
    os.nice(_NICE)
    path = Path(sys.argv[1])
    try:
        history = _read(path, parent)
    except EtherError as error:
        sys.exit(f"{error.code}: {error}")
    if history is not None:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(history.next.to_bytes(_NUMBER) + history.pack())


def _read(path: Path, parent: int) -> History | None:
    """The state up to the last commit; None when nothing is new, or the broker is not there any more."""
    with closing(connect_reader(path)) as connection:
        rows = Rows(connection, path)
        found = rows.checkpoint()
        history = History() if found is None else History.of(found[1])
        before = history.next
        for count, step in enumerate(rows.replay(found[0] if found else 0)):
            history.apply(*step)
            if count % _STEPS == 0 and os.getppid() != parent:
                return None
    return history if history.next > before else None


if __name__ == "__main__":
    main()
