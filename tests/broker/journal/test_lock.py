from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ether_broker.errors import JournalLocked, JournalUnavailable
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.writer_lock import Lock
from tests.support import child_environment

HOLD = """
import sys
from ether_broker.journal.sqlite.journal import SqliteJournal
journal = SqliteJournal(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
journal.close()
"""


def held(path: Path) -> subprocess.Popen[str]:
    """Another process that has the journal."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    return holder


def test_a_second_broker_is_told_who_has_the_journal(path: Path):
    with held(path) as holder:
        with pytest.raises(JournalLocked, match=f"in use by process {holder.pid}: a journal has one broker"):
            SqliteJournal(path)
        holder.communicate()

    SqliteJournal(path).close()


def test_a_killed_holder_locks_nobody_out(path: Path):
    with held(path) as holder:
        holder.send_signal(signal.SIGKILL)

    SqliteJournal(path).close()


def test_a_symbolic_link_does_not_get_past_the_lock(path: Path, tmp_path: Path):
    with held(path) as holder:
        link = tmp_path / "link.db"
        link.symlink_to(path)
        folder = tmp_path / "folder"
        folder.symlink_to(path.parent)
        for name in (link, folder / path.name):
            with pytest.raises(JournalLocked, match=f"in use by process {holder.pid}"):
                SqliteJournal(name)
        holder.communicate()

    SqliteJournal(link).close()


def test_a_file_that_is_renamed_under_its_broker_stays_locked(path: Path, tmp_path: Path):
    with held(path) as holder:
        away = path.rename(tmp_path / "away.db")
        with pytest.raises(JournalLocked, match=f"in use by process {holder.pid}"):
            SqliteJournal(away)
        away.rename(path)
        holder.communicate()


def test_a_hard_link_does_not_get_past_the_lock_and_a_file_with_several_names_is_no_journal(path: Path, tmp_path: Path):
    other = tmp_path / "other.db"
    with held(path) as holder:
        other.hardlink_to(path)
        with pytest.raises(JournalLocked, match=f"in use by process {holder.pid}"):
            SqliteJournal(other)
        holder.communicate()

    with pytest.raises(JournalUnavailable, match="has 2 names"):
        SqliteJournal(other)
    other.unlink()
    SqliteJournal(path).close()


def test_a_process_has_it_once_and_does_not_open_what_it_holds(path: Path, monkeypatch: pytest.MonkeyPatch):
    path.touch()
    lock = Lock(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", None)  # closing a second descriptor would take back SQLite's own locks
        with pytest.raises(JournalLocked, match=f"in use by process {os.getpid()}:"):
            Lock(path, patience=0.0)

    lock.release()

    Lock(path, patience=0.0).release()


def test_a_lock_on_a_file_that_was_replaced_counts_for_nothing(path: Path, monkeypatch: pytest.MonkeyPatch):
    # Given a file that is replaced between our opening of it and our lock on it
    path.touch()
    flock = fcntl.flock
    tries: list[int] = []

    def late_flock(descriptor: int, operation: int) -> None:
        tries.append(descriptor)
        if len(tries) == 1:
            path.rename(path.with_name("before.db"))
            path.touch()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late_flock)

    # When we lock
    lock = Lock(path)

    # Then it is the file that others see
    assert len(tries) == 2
    assert lock.is_on(path)
    with pytest.raises(JournalLocked):
        Lock(path, patience=0.0)
    lock.release()
