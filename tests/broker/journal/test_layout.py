from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ether_broker.errors import JournalCorrupt, JournalTooNew, JournalUnavailable
from ether_broker.journal.sqlite import tables as layout
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from tests.broker.journal.support import put


def add_note(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE entries ADD COLUMN note TEXT")


def fail_halfway(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE half (done)")
    raise sqlite3.OperationalError("the power is gone")


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_an_older_journal_is_brought_forward_with_what_it_has(path: Path):
    journal = SqliteJournal(path)
    put(journal, [b"one"])
    journal.close()

    with closing(layout.connect_writer(path, (*layout.STEPS, add_note))) as connection:
        assert connection.execute("SELECT note FROM entries").fetchall() in ([], [(None,)])
        assert connection.execute("SELECT count(*) FROM commits").fetchone() == (1,)

    assert version(path) == len(layout.STEPS) + 1


def test_the_checkpoint_of_version_1_is_brought_forward(path: Path):
    # Given a journal whose checkpoint is one value
    put_one = SqliteJournal(path)
    put(put_one, [b"one"])
    put_one.put_checkpoint(2, b"after one")
    put_one.append(2, 2.0, 2.0, [b"two"])
    put_one.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE older (number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, body BLOB NOT NULL);
            INSERT INTO older SELECT number, seq, checkpoint_parts.body FROM checkpoints, checkpoint_parts;
            DROP TABLE checkpoints; DROP TABLE checkpoint_parts; ALTER TABLE older RENAME TO checkpoints;
            PRAGMA user_version = 1;
        """)
    with pytest.raises(JournalUnavailable, match="has version 1 and this Ether reads 2"):
        JournalReader(path)

    journal = SqliteJournal(path)

    assert journal.checkpoint == (2, b"after one")
    assert [batch.envelopes for batch in journal.replay()] == [[b"two"]]
    journal.put_checkpoint(3, b"after two")
    journal.close()
    with JournalReader(path) as reader:
        assert reader.verify().problem is None
    assert version(path) == 2


def test_a_step_that_fails_changes_nothing(path: Path):
    SqliteJournal(path).close()

    with pytest.raises(JournalUnavailable):
        layout.connect_writer(path, (*layout.STEPS, fail_halfway))

    assert version(path) == len(layout.STEPS)
    SqliteJournal(path).close()


def test_a_reader_does_not_bring_forward(path: Path):
    SqliteJournal(path).close()

    with pytest.raises(JournalUnavailable, match="start a broker with it once"):
        layout.connect_reader(path, (*layout.STEPS, add_note))


@pytest.mark.parametrize("open_it", [SqliteJournal, JournalReader])
def test_a_newer_journal_is_refused_and_left_alone(path: Path, open_it):
    SqliteJournal(path).close()
    layout.connect_writer(path, (*layout.STEPS, add_note)).close()
    before = path.read_bytes()

    with pytest.raises(JournalTooNew, match="has version 3 and this Ether knows 2: upgrade agent-ether"):
        open_it(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("open_it", [SqliteJournal, JournalReader])
def test_another_programs_database_is_refused_and_left_alone(path: Path, open_it):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name)")
    before = path.read_bytes()

    with pytest.raises(JournalCorrupt, match="but no journal of Ether: name another file"):
        open_it(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("open_it", [SqliteJournal, JournalReader])
def test_what_is_no_database_is_refused_and_left_alone(path: Path, open_it):
    path.write_bytes(b"a letter to my aunt " * 100)

    with pytest.raises(JournalCorrupt, match="is no SQLite database"):
        open_it(path)

    assert path.read_bytes() == b"a letter to my aunt " * 100


def test_a_folder_is_no_journal(tmp_path: Path):
    with pytest.raises(JournalUnavailable, match="is no file"):
        SqliteJournal(tmp_path)


def test_a_reader_makes_no_journal(path: Path):
    with pytest.raises(JournalUnavailable, match="There is no journal at"):
        JournalReader(path)

    assert not path.exists()
