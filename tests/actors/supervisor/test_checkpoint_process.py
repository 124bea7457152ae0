"""The fold of a journal in a process of its own."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from ether.lab.bench.roles.old_journal import write_past
from ether_actors.supervisor.journal.checkpoint_process import fold
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.recovery import read_history
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.sqlite.journal import SqliteJournal

GOES_ON = threading.Event()


def test_the_process_makes_the_state_that_a_broker_would_recover(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    open_ = write_past(path, 2_000)
    made = fold(path, GOES_ON)
    assert made is not None
    number, body = made
    with closing(SqliteJournal(path)) as journal:
        recovered = read_history(journal)

    assert (number, len(recovered.open)) == (2_001, open_)
    assert History.of(body).pack() == body == recovered.pack()


def test_what_a_checkpoint_has_already_makes_no_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    write_past(path, 1_000)
    made = fold(path, GOES_ON)
    assert made is not None
    with closing(SqliteJournal(path)) as journal:
        journal.put_checkpoint(*made)

    assert fold(path, GOES_ON) is None


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="There is no journal at"):
        fold(tmp_path / "none.db", GOES_ON)


def test_an_end_that_is_wanted_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    write_past(path, 1_000)
    ending = threading.Event()
    ending.set()

    assert fold(path, ending) is None


def test_what_lies_in_the_working_directory_is_no_library_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("msgpack.py", "ormsgpack.py", "sqlite3.py"):
        (tmp_path / name).write_text("raise SystemExit('the working directory was imported from')")
    write_past(tmp_path / "journal.db", 1_000)
    monkeypatch.chdir(tmp_path)

    assert fold(tmp_path / "journal.db", GOES_ON) is not None
