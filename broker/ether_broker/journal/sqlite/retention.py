"""The removal of old commits, in steps small enough to run between the commits of a busy broker."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Final

from ether_broker.errors import JournalFull
from ether_broker.journal.journal import Removed
from ether_broker.journal.sqlite.commit_store import Store, exclusive

__all__ = ["collect", "collect_closed", "removable"]

_COMMITS: Final = 16
_ENTRIES: Final = 256
_BODIES: Final = 32
_PAGES: Final = 128
_ROOM: Final = 1 << 20
"""Bytes that a disk has at least which is not full."""
_OLD_BEHIND_CHECKPOINT: Final = (
    "SELECT EXISTS (SELECT 1 FROM commits WHERE wall < ? AND next > (SELECT coalesce(max(number), 0) FROM checkpoints))"
)


def collect(store: Store, older_than: float) -> Generator[None, None, Removed]:
    """Remove commits, from the oldest on, as long as they are older than a time and wholly below the last checkpoint.

    Each step is one transaction, after which the journal is whole: what is left chains on to the hash of the last commit
    that was removed, which is kept as the anchor. So it may be dropped after any step; the next call goes on.

    Args:
        store: of the calling thread.
        older_than: Unix time; what passed at or after it stays.

    Raises:
        sqlite3.Error: SQLite could not; the step is undone.
        JournalUnavailable: somebody removed or replaced the file.
    """
    commits = envelopes = bodies = 0
    (page,) = store.connection.execute("PRAGMA page_size").fetchone()
    (before,) = store.connection.execute("PRAGMA page_count").fetchone()
    while removed := _remove_commits(store, older_than):
        commits += removed[0]
        envelopes += removed[1]
        yield
    while _remove_entries(store):
        yield
    while gone := _remove_bodies(store):
        bodies += gone
        yield
    while _remove_pages(store):
        yield
    (after,) = store.connection.execute("PRAGMA page_count").fetchone()
    return Removed(commits, envelopes, bodies, max(before - after, 0) * page)


def removable(connection: sqlite3.Connection, older_than: float) -> Removed:
    """What `collect` would remove, without removing it; of the bytes only those of the bodies.

    Args:
        connection: any to the journal.
        older_than: as for `collect`.
    """
    (stays,) = connection.execute(
        "SELECT min(seq) FROM commits WHERE wall >= ? OR next > (SELECT coalesce(max(number), 0) FROM checkpoints)"
        " OR seq = (SELECT max(seq) FROM checkpoints)",
        (older_than,),
    ).fetchone()
    commits, following, size = connection.execute(
        "SELECT count(*), max(next), total(length(body)) FROM commits WHERE seq < ?", (stays,)
    ).fetchone()
    if not commits:
        return Removed()
    (anchor,) = connection.execute("SELECT value FROM meta WHERE key = 'anchor_next'").fetchone()
    bodies, more = connection.execute(
        "SELECT count(*), total(length(bodies.body)) FROM uses JOIN bodies ON bodies.id = uses.body WHERE last < ?",
        (stays,),
    ).fetchone()
    return Removed(commits, following - anchor, bodies, int(size + more))


def collect_closed(path: Path, older_than: float) -> Removed:
    """As `collect`, of a journal that no broker has open.

    Raises:
        JournalLocked: a broker has it; `SqliteJournal.gc` does it there.
        JournalFull: nothing could be removed of what is old enough, and the disk has no room for the checkpoint that this
            would take.
        JournalUnavailable, JournalCorrupt, JournalTooNew: as `connect_writer`.
    """
    with exclusive(path) as store:
        steps = collect(store, older_than)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                removed: Removed = done.value
                break
        (stays,) = store.connection.execute(_OLD_BEHIND_CHECKPOINT, (older_than,)).fetchone()
    disk = os.statvfs(path)
    if stays and not removed.commits and (free := disk.f_bavail * disk.f_frsize) < _ROOM:
        raise JournalFull(
            f"Nothing of the journal {path} was removed, and its disk is full ({free:,} bytes are free): what is behind the "
            "last checkpoint stays until there is another one, which needs room. Make some, or move the journal to a larger "
            f"disk (with {path.name}-wal, if that is there); then start its bus, and ask again while it runs."
        )
    return removed


def _remove_commits(store: Store, older_than: float) -> tuple[int, int] | None:
    """Remove the next few commits and move the anchor; None when the next one has to stay."""
    before = store.removed_until
    try:
        return _remove_next(store, older_than)
    except BaseException:
        store.removed_until = before  # nothing was removed
        raise


def _remove_next(store: Store, older_than: float) -> tuple[int, int] | None:
    with store.relaxed() as connection:
        number, carrier = connection.execute("SELECT max(number), seq FROM checkpoints").fetchone()
        rows = connection.execute(
            "SELECT seq, next, hash, wall FROM commits ORDER BY seq LIMIT ?", (_COMMITS,)
        ).fetchall()
        old = []
        for row in rows:
            # The commit that carries the checkpoint stays whatever its age: its hash proves the checkpoint.
            if number is None or row[1] > number or row[3] >= older_than or row[0] >= carrier:
                break
            old.append(row)
        if not old:
            return None
        seq, following, digest, _ = old[-1]
        (anchor,) = connection.execute("SELECT value FROM meta WHERE key = 'anchor_next'").fetchone()
        store.removed_until = until = max(store.removed_until, *(wall for *_, wall in old))
        connection.execute("DELETE FROM commits WHERE seq <= ?", (seq,))
        connection.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)",
            [("anchor_seq", seq), ("anchor_next", following), ("anchor_hash", digest), ("anchor_wall", until)],
        )
    return len(old), following - anchor


def _remove_entries(store: Store) -> int:
    with store.relaxed() as connection:
        return connection.execute(
            "DELETE FROM entries WHERE number IN (SELECT number FROM entries WHERE number <"
            " (SELECT value FROM meta WHERE key = 'anchor_next') ORDER BY number LIMIT ?)",
            (_ENTRIES,),
        ).rowcount


def _remove_bodies(store: Store) -> int:
    """Commits go from the oldest on, so a body is out of use when the last commit that used it has gone."""
    with store.relaxed() as connection:
        gone = connection.execute(
            "SELECT body FROM uses WHERE last <= (SELECT value FROM meta WHERE key = 'anchor_seq') LIMIT ?", (_BODIES,)
        ).fetchall()
        connection.executemany("DELETE FROM bodies WHERE id = ?", gone)
        connection.executemany("DELETE FROM uses WHERE body = ?", gone)
    return len(gone)


def _remove_pages(store: Store) -> bool:
    """Give pages that have become free back to the file system."""
    with store.relaxed() as connection:
        connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(free)
