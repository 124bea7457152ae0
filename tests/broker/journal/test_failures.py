"""The world breaks while the journal is open: it says why, keeps what is queued, and goes on when the cause is gone."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ether_broker.errors import (
    EtherError,
    JournalCorrupt,
    JournalFull,
    JournalLocked,
    JournalReadOnly,
    JournalUnavailable,
)
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.journal.sqlite.retention import collect_closed
from ether_broker.journal.sqlite.sqlite_errors import explain
from tests.broker.journal.support import close_quietly, copy_files, delegation, indexed, put, settle
from tests.support import wait_until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], check=False, capture_output=True
    ).returncode:  # fmt: skip
        pytest.skip("making a small file system needs the right to mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


def in_trouble(journal: SqliteJournal, kind: type[EtherError]) -> EtherError:
    return wait_until(lambda: journal.trouble if type(journal.trouble) is kind else None, what=kind.__name__)


def test_a_full_disk_is_told_and_service_resumes_when_there_is_room(small_disk: Path):
    # Given a disk with little room
    journal = SqliteJournal(small_disk / "journal.db")
    put(journal, [b"before"])
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        file.write(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize - 200_000))
    told: list[str] = []
    journal.on_commit = lambda: told.append(journal.trouble.code if journal.trouble else "")

    # When more is appended than there is room for
    for index in range(40):
        ticket = journal.append(journal.next, 0.0, 0.0, [bytes([index]) * 20_000])
    trouble = in_trouble(journal, JournalFull)
    committed = journal.committed

    # Then it says so, keeps what is queued, and what a reader sees is whole
    assert "has no room on its disk" in str(trouble)
    assert committed < ticket
    assert journal.queued_bytes == 20_000 * (ticket - committed)
    with JournalReader(journal.path) as reader:
        assert reader.verify().problem is None

    # And it goes on by itself
    ballast.unlink()
    settle(journal, ticket)
    assert journal.trouble is None
    assert told[-1] == ""
    assert "journal_full" in told
    assert [batch.envelopes[0] for batch in journal.replay()] == [
        b"before",
        *(bytes([index]) * 20_000 for index in range(40)),
    ]
    journal.close()


def test_closing_with_a_full_disk_says_what_is_not_committed(small_disk: Path):
    journal = SqliteJournal(small_disk / "journal.db")
    put(journal, [b"before"])
    for index in range(300):
        journal.append(journal.next, 0.0, 0.0, [bytes([index % 256]) * 20_000])
    in_trouble(journal, JournalFull)
    left = 300 - journal.committed + 1

    with pytest.raises(JournalFull, match=f"{left} envelopes were not committed when the journal was closed"):
        journal.close()

    (small_disk / "ballast").unlink(missing_ok=True)
    with JournalReader(journal.path) as reader:
        assert reader.last == 301 - left


def test_a_database_limit_is_a_full_disk_too(journal: SqliteJournal):
    put(journal, [b"before"])
    connection = journal._store.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    ticket = journal.append(2, 0.0, 0.0, [b"x" * 100_000])
    in_trouble(journal, JournalFull)

    connection.execute("PRAGMA max_page_count=1000000")
    settle(journal, ticket)

    assert [len(batch.envelopes) for batch in journal.replay()] == [1, 1]


def test_a_body_and_a_checkpoint_for_which_there_is_no_room_are_not_half_there(journal: SqliteJournal):
    put(journal, [b"before"])
    connection = journal._store.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages + 5}")
    journal.append(2, 0.0, 0.0, [delegation(payload=b"x" * 30_000), delegation(payload=b"y" * 30_000)])
    journal.put_checkpoint(4, b"state")
    ticket = journal.append(4, 0.0, 0.0, [])
    in_trouble(journal, JournalFull)
    with JournalReader(journal.path) as reader:
        assert (reader.last, reader._one("SELECT count(*) FROM bodies"), reader.verify().problem) == (1, 0, None)
    assert journal.checkpoint is None

    connection.execute("PRAGMA max_page_count=1000000")
    settle(journal, ticket)

    wait_until(lambda: journal.checkpoint == (4, b"state"), what="the checkpoint is written")
    with JournalReader(journal.path) as reader:
        assert (reader.last, reader.verify().problem) == (3, None)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM meta WHERE key = 'identity'",
        "UPDATE meta SET value = 'x' WHERE key = 'anchor_seq'",
        "INSERT INTO meta VALUES ('anchor_hash', 'x')",
        "INSERT INTO meta VALUES ('anchor_wall', 'x')",
        "UPDATE commits SET hash = 'x'",
    ],
)
def test_a_journal_whose_end_is_damaged_is_refused(path: Path, statement: str):
    journal = SqliteJournal(path)
    put(journal, [b"one"])
    journal.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)

    with pytest.raises(JournalCorrupt, match="is damaged"):
        SqliteJournal(path)


@pytest.mark.parametrize("statement", ["DELETE FROM bodies", "UPDATE commits SET next = next + 1"])
def test_a_damaged_commit_is_not_read(journal: SqliteJournal, statement: str):
    put(journal, [delegation(1, payload=b"x" * 5000)])
    journal._store.connection.execute(statement)

    with pytest.raises(JournalCorrupt, match="`ether log verify` says more"):
        journal.read(1)


def test_an_index_that_cannot_be_written_waits_and_holds_up_no_commit(
    journal: SqliteJournal, caplog: pytest.LogCaptureFixture
):
    connection = journal._store.connection
    connection.execute("CREATE TRIGGER no BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'no index now'); END")
    put(journal, [delegation(1)])
    wait_until(lambda: "no index now" in caplog.text)
    put(journal, [delegation(2)])
    assert (journal.trouble, journal._rows.indexed()) == (None, 1)

    connection.execute("DROP TRIGGER no")

    indexed(journal)
    assert journal._rows.indexed() == 3


def test_a_program_that_locks_the_file_is_waited_for(journal: SqliteJournal):
    put(journal, [b"before"])
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ticket = journal.append(2, 0.0, 0.0, [b"after"])
        assert "is locked by another program" in str(in_trouble(journal, JournalLocked))
        other.execute("ROLLBACK")
        settle(journal, ticket)

    assert journal.trouble is None


def test_a_file_that_is_taken_away_is_noticed_and_taken_up_again(journal: SqliteJournal):
    put(journal, [b"before"])
    away = journal.path.with_name("away")
    journal.path.rename(away)
    ticket = journal.append(2, 0.0, 0.0, [b"after"])
    assert "was removed or replaced" in str(in_trouble(journal, JournalUnavailable))

    away.rename(journal.path)
    settle(journal, ticket)

    assert journal.trouble is None


def test_a_file_that_is_copied_back_is_taken_up_again_where_it_is_the_one_that_was_written(journal: SqliteJournal):
    put(journal, [b"before"])
    indexed(journal)
    names = [journal.path, Path(f"{journal.path}-wal")]
    away = journal.path.parent / "away"
    away.mkdir()
    older = copy_files(journal.path, journal.path.parent / "older")
    put(journal, [b"later"])
    indexed(journal)
    for name in names:
        name.rename(away / name.name)
    ticket = journal.append(3, 0.0, 0.0, [b"after"])
    in_trouble(journal, JournalUnavailable)

    # An older copy is not what was written
    copy_files(older, journal.path.parent)
    wait_until(lambda: "lacks the end of it" in str(journal.trouble), what="the older copy is refused")
    with pytest.raises(JournalLocked, match="in use"):
        SqliteJournal(away / journal.path.name)

    # The same bytes in another file are
    for name in names:
        name.unlink(missing_ok=True)
    copy_files(away / journal.path.name, journal.path.parent)
    settle(journal, ticket)

    assert journal.trouble is None
    assert journal.read(3).envelopes == [b"after"]
    assert [batch.envelopes for batch in journal.replay()] == [[b"before"], [b"later"], [b"after"]]
    with JournalReader(journal.path) as reader:
        assert reader.verify().problem is None


def test_a_log_takes_a_small_part_of_a_small_disk_and_data_the_rest(small_disk: Path):
    """Of 4 MiB: a commit of one small envelope writes some 40 KB of log, so unmerged it would be full after 100 of them."""
    journal = SqliteJournal(small_disk / "journal.db")

    for index in range(600):
        put(journal, [b"%03d" % index + bytes(500)])

    assert journal.trouble is None
    assert Path(f"{journal.path}-wal").stat().st_size < 1 << 20
    journal.close()


def test_a_full_disk_has_room_again_as_soon_as_a_little_is_made(small_disk: Path):
    journal = SqliteJournal(small_disk / "journal.db")
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    tickets = [journal.append(journal.next, 0.0, 0.0, [bytes(20_000)]) for _ in range(40)]
    in_trouble(journal, JournalFull)

    os.truncate(ballast, ballast.stat().st_size - (2 << 20))

    wait_until(lambda: journal.committed == tickets[-1], 5.0, what="it goes on")
    journal.close()


def test_a_closed_journal_of_which_nothing_can_go_says_that_its_disk_is_full(small_disk: Path):
    journal = SqliteJournal(small_disk / "journal.db")
    put(journal, [b"before"])
    journal.close()
    assert collect_closed(journal.path, time.time() + 1).commits == 0  # there is no checkpoint

    disk = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(disk.f_bavail * disk.f_frsize - 500_000))

    with pytest.raises(JournalFull, match=r"its disk is full .*Make some, or move .*journal\.db-wal.* start its bus"):
        collect_closed(journal.path, time.time() + 1)
    with JournalReader(journal.path) as reader:
        assert reader.verify().commits == 1


def test_a_collection_during_trouble_says_so(journal: SqliteJournal):
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalLocked):
            journal.gc(0.0)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder with a closed journal, in which nothing can be written."""
    folder = tmp_path / "archive"
    SqliteJournal(folder / "journal.db").close()
    if os.geteuid():
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    if subprocess.run(["mount", "--bind", "-o", "ro", folder, folder], check=False, capture_output=True).returncode:
        pytest.skip("root may write everywhere but where it has mounted read-only, and may not mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_journal_that_may_not_be_written_says_so_and_can_be_read(read_only: Path):
    path = read_only / "journal.db"

    with pytest.raises(JournalReadOnly, match="may not be written"):
        SqliteJournal(path)

    with JournalReader(path) as reader:
        assert (reader.last, reader.verify().problem) == (0, None)
    assert list(read_only.iterdir()) == [path]


def test_damage_of_the_file_while_it_is_written_is_told(path: Path):
    journal = SqliteJournal(path)
    for index in range(200):
        put(journal, [bytes([index]) * 4000])
    journal.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))

    with pytest.raises(JournalCorrupt, match="is damaged"):
        SqliteJournal(path)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, JournalFull),
        (errno.EDQUOT, JournalFull),
        (errno.EROFS, JournalReadOnly),
        (errno.EACCES, JournalReadOnly),
        (errno.EIO, JournalUnavailable),
        (errno.ENOTDIR, JournalUnavailable),
    ],
)
def test_each_error_of_the_system_has_its_own(code: int, kind: type[EtherError], path: Path):
    error = explain(OSError(code, os.strerror(code)), path)

    assert type(error) is kind
    assert str(path) in str(error)
    assert os.strerror(code) in str(error)


def test_a_bug_of_the_writer_is_told_to_whoever_waits(journal: SqliteJournal, caplog: pytest.LogCaptureFixture):
    told: list[str] = []
    journal.on_commit = lambda: told.append(journal.trouble.code if journal.trouble else "")
    journal.append(1, 0.0, 0.0, ["text"])  # type: ignore[list-item]  # the bug

    wait_until(lambda: told == ["internal"])
    assert "ended by a bug" in str(journal.trouble)
    assert "has a bug" in caplog.text
    with pytest.raises(EtherError, match="1 envelopes were not committed"):
        journal.close()
    close_quietly(journal)
