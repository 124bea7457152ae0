"""The kinds of journal that keep something. Another is an entry here: `test_conformance.py` checks what it promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from ether_broker.journal.journal import Journal
from ether_broker.journal.memory.journal import MemoryJournal
from ether_broker.journal.memory.store import MemoryStore
from ether_broker.journal.sqlite.journal import SqliteJournal

__all__ = ["KINDS", "Opener"]

Opener = Callable[[], Journal]
"""Opens one and the same journal, each time as a broker does that is restarted."""

KINDS: Final[dict[str, Callable[[Path], Opener]]] = {
    "sqlite": lambda folder: partial(SqliteJournal, folder / "journal.db"),
    "memory": lambda _folder: partial(MemoryJournal, MemoryStore()),
}
"""{kind: makes a journal that is new, from an empty folder}."""
