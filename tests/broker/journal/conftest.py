from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ether_broker.journal.sqlite.journal import SqliteJournal
from tests.broker.journal.support import close_quietly


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(path)
    yield journal
    close_quietly(journal)
