"""Envelopes and waiting, for the tests of the journal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import ormsgpack

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.status import Status
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.frame import Kind, pack_envelope
from tests.support import wait_until


def request(number: int) -> bytes:
    """A request id that a test can name again."""
    return number.to_bytes(16)


def delegation(
    number: int = 1, *, source: bytes = b"desk", target: bytes = b"scout", capability: bytes = b"text.copy",
    parent: bytes = NO_ID, payload: bytes = b"",
) -> bytes:  # fmt: skip
    body = ormsgpack.packb({"timestamp": 1.5, "params": payload, "objective": "read"})
    return pack_envelope(
        Kind.DELEGATION, request_id=request(number), source=source, target=target, capability=capability,
        parent=parent, body=body,
    )  # fmt: skip


def response(
    number: int = 1, status: Status = Status.COMPLETED, *, source: bytes = b"scout", target: bytes = b"desk",
    capability: bytes = b"text.copy", payload: bytes = b"",
) -> bytes:  # fmt: skip
    return pack_envelope(
        Kind.RESPONSE, status=status, request_id=request(number), source=source, target=target, capability=capability,
        body=ormsgpack.packb({"data": payload}),
    )  # fmt: skip


def put(journal: SqliteJournal, envelopes: Sequence[bytes], *, time: float = 1.0, wall: float = 1000.0) -> int:
    """Append at the next number and wait until it is committed; returns the number."""
    first = journal.next
    settle(journal, journal.append(first, time, wall, envelopes))
    return first


def settle(journal: SqliteJournal, ticket: int) -> None:
    wait_until(lambda: journal.committed >= ticket, what=f"ticket {ticket} is committed")


def indexed(journal: SqliteJournal) -> None:
    wait_until(lambda: journal._writer._indexer.behind == 0, what="all is indexed")


def copy_files(path: Path, folder: Path) -> Path:
    """What a crash now would leave of a journal that is at rest: its file and its write-ahead log."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (path.name, f"{path.name}-wal"):
        if (path.parent / name).exists():
            shutil.copyfile(path.parent / name, folder / name)
    return folder / path.name


def close_quietly(journal: SqliteJournal) -> None:
    """Close a journal that is in trouble."""
    with suppress(JournalUnavailable):
        journal.close()
