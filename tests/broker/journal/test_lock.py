from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ether_broker.errors import JournalLocked
from ether_broker.journal.lock import Lock
from ether_broker.journal.sqlite import SqliteJournal
from tests.support import child_environment

HOLD = """
import sys
from ether_broker.journal.sqlite import SqliteJournal
journal = SqliteJournal(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
journal.close()
"""


def test_a_second_broker_is_told_who_has_the_journal(path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(JournalLocked, match=f"in use by process {holder.pid}: a journal has one broker"):
            SqliteJournal(path)
        holder.communicate()

    SqliteJournal(path).close()


def test_a_killed_holder_locks_nobody_out(path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGKILL)
    assert Path(f"{path}.lock").exists()

    SqliteJournal(path).close()


def test_the_lock_file_goes_with_its_holder(path: Path):
    lock = Lock(path)
    assert Path(f"{path}.lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(JournalLocked):
        Lock(path, patience=0.0)

    lock.release()

    assert not Path(f"{path}.lock").exists()
    Lock(path, patience=0.0).release()


def test_a_lock_on_a_file_that_the_last_holder_has_removed_counts_for_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Given a holder that lets go between our opening of its file and our lock on it
    file = Path(f"{path}.lock")
    flock = fcntl.flock
    tries: list[bool] = []

    def late_flock(descriptor: int, operation: int) -> None:
        tries.append(file.exists())
        if len(tries) == 1:
            file.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late_flock)

    # When we lock
    lock = Lock(path)

    # Then it is a file that others see
    assert len(tries) == 2
    assert file.exists()
    with pytest.raises(JournalLocked):
        Lock(path, patience=0.0)
    lock.release()
