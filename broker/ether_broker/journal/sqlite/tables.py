"""The tables of a journal file, their version, and the steps from one version to the next.

To change the layout: append a function to `STEPS` that turns the last version into the new one, change docs/journal.md,
and add a file of the old version to the tests. A step never changes; files that have it exist.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from ether_broker.errors import JournalCorrupt, JournalTooNew, JournalUnavailable
from ether_broker.journal.hash_chain import genesis
from ether_broker.journal.sqlite.sqlite_errors import CORRUPT_FIX, explain, explained

__all__ = [
    "APPLICATION",
    "LOG_PAGES",
    "PAGE",
    "STEPS",
    "Meta",
    "connect_reader",
    "connect_writer",
    "make_file",
    "migrate",
    "read_meta",
    "transaction",
]

APPLICATION: Final = 0x4554484A
"""SQLite's `application_id`: "ETHJ"."""
PAGE: Final = 8192
"""Bytes: a commit of a busy broker fills one or more, so larger pages than SQLite's 4096 spare it overflow chains."""
BUSY: Final = 0.25
"""Seconds that a writer waits for another program's lock before it reports trouble."""
_CACHE: Final = 16 << 20
"""Bytes: SQLite's own 2 MiB make indexing take twice as long."""
LOG_PAGES: Final = 2048
"""Pages of the write-ahead log after which a commit merges it into the file, 16 MiB; that commit takes some 20 ms. On a small
disk it is less."""

_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE commits (
    seq INTEGER PRIMARY KEY, first INTEGER NOT NULL, next INTEGER NOT NULL, time REAL NOT NULL, wall REAL NOT NULL,
    hash BLOB NOT NULL, refs BLOB, checkpoint BLOB, body BLOB NOT NULL
);
CREATE INDEX commits_first ON commits (first);
CREATE INDEX commits_wall ON commits (wall);
CREATE TABLE bodies (id INTEGER PRIMARY KEY, sha256 BLOB NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE uses (body INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE checkpoints (number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, wall REAL NOT NULL, kind INTEGER NOT NULL, status INTEGER NOT NULL,
    request_id BLOB NOT NULL, parent BLOB, source TEXT NOT NULL, target TEXT NOT NULL, capability TEXT NOT NULL
);
CREATE INDEX entries_request ON entries (request_id);
CREATE INDEX entries_parent ON entries (parent) WHERE parent IS NOT NULL
"""


def _version_1(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        [("identity", str(uuid.uuid4())), ("created", time.time()), ("anchor_seq", 0), ("anchor_next", 1)],
    )


def _version_2(connection: sqlite3.Connection) -> None:
    """The checkpoint's body in parts: SQLite takes 10^9 bytes in one value, and the state of a broker may be more."""
    connection.execute("CREATE TABLE checkpoint_parts (part INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    connection.execute("INSERT INTO checkpoint_parts SELECT 0, body FROM checkpoints")
    connection.execute("ALTER TABLE checkpoints RENAME TO checkpoints_1")
    connection.execute("CREATE TABLE checkpoints (number INTEGER PRIMARY KEY, seq INTEGER NOT NULL)")
    connection.execute("INSERT INTO checkpoints SELECT number, seq FROM checkpoints_1")
    connection.execute("DROP TABLE checkpoints_1")


STEPS: Final[Sequence[Callable[[sqlite3.Connection], None]]] = (_version_1, _version_2)
"""`STEPS[n]` turns version n into n + 1; an empty file is version 0."""


def make_file(path: Path) -> None:
    """Make an empty file (0600) and its folder (0700) where they are missing, durably.

    Raises:
        JournalUnavailable: that is not possible here.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        if not path.is_file():
            raise JournalUnavailable(f"The journal {path} is no file: name one.") from None
    except OSError as error:
        raise explain(error, path) from error


def connect_writer(path: Path, steps: Sequence[Callable[[sqlite3.Connection], None]] = STEPS) -> sqlite3.Connection:
    """Open the file for its one writer, and bring it to this version.

    The caller holds the `Lock`.

    Raises:
        JournalTooNew: a newer Ether wrote it.
        JournalCorrupt: it is no journal.
        JournalUnavailable: it cannot be opened or written.
    """
    connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    with _closed_on_error(connection, path):
        if not _check(connection, path, len(steps)):
            connection.execute(f"PRAGMA page_size={PAGE}")  # these two count for an empty file alone
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size={-_CACHE // 1024}")
        migrate(connection, steps)
    return connection


@contextmanager
def _closed_on_error(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Close a connection when something is raised inside; what SQLite raises becomes an error of ours."""
    try:
        with explained(path):
            yield
    except BaseException:
        connection.close()
        raise


def connect_reader(path: Path, steps: Sequence[Callable[[sqlite3.Connection], None]] = STEPS) -> sqlite3.Connection:
    """Open the file read-only; works beside a broker that writes.

    Raises:
        JournalTooNew: a newer Ether wrote it.
        JournalCorrupt: it is no journal.
        JournalUnavailable: it is not there or cannot be read.
    """
    if not path.is_file():
        raise JournalUnavailable(f"There is no journal at {path}: name the file of a broker that keeps one.")
    with explained(path):
        connection = _connect_read_only(path)
    # Text stands only in the index; where somebody put it in a commit's bytes, the chain is to say so.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    with _closed_on_error(connection, path):
        version = _check(connection, path, len(steps))
        if version < len(steps):
            raise JournalUnavailable(
                f"The journal {path} has version {version} and this Ether reads {len(steps)}: "
                "start a broker with it once, which brings it forward."
            )
    return connection


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Open with `mode=ro`; where no file can be made beside it and none is, as a file that nobody changes."""
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if Path(f"{path}-wal").exists() or os.access(path.parent, os.W_OK):
            raise
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    """Refuse what is no journal of ours; returns its version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (tables or application or version):
        raise JournalCorrupt(f"{path} is a SQLite database, but no journal of Ether: name another file.")
    if version > newest:
        raise JournalTooNew(
            f"The journal {path} has version {version} and this Ether knows {newest}: upgrade agent-ether here."
        )
    if version < 0 or (not version and application):
        raise JournalCorrupt(f"The journal {path} has no version. {CORRUPT_FIX}")
    return int(version)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done inside, or nothing of it if something is raised; SQLite may have ended the transaction then."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(connection: sqlite3.Connection, steps: Sequence[Callable[[sqlite3.Connection], None]]) -> None:
    """Bring a journal to the newest version, each step in a transaction of its own."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number in range(version, len(steps)):
        with transaction(connection):
            steps[number](connection)
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={number + 1}")


class Meta(NamedTuple):
    """The facts that a journal states about itself."""

    identity: str
    created: float
    anchor: tuple[int, int, bytes]
    """(seq, next, hash) of the last commit that retention removed, or of what stands before the first commit."""


def read_meta(connection: sqlite3.Connection, path: Path) -> Meta:
    """Read what the journal says about itself.

    Raises:
        JournalCorrupt: something of it is missing, or of the wrong type.
    """
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    identity, created = meta.get("identity"), meta.get("created")
    seq, following, digest = meta.get("anchor_seq"), meta.get("anchor_next"), meta.get("anchor_hash")
    if isinstance(identity, str) and isinstance(created, float) and isinstance(seq, int) and isinstance(following, int):
        if digest is None:
            digest = genesis(identity)
        if isinstance(digest, bytes):
            return Meta(identity, created, (seq, following, digest))
    raise JournalCorrupt(f"What the journal {path} says about itself is damaged. {CORRUPT_FIX}")
