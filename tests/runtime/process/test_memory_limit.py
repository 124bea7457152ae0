"""What is done about the memory of the broker's process; that a connection is shut is in `tests/attacks/test_floods.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ether.process.memory_limit import OUT_OF_MEMORY, MemoryLimit
from ether_broker.transport.address import INCARNATION
from ether_broker.transport.sessions.backlog import Backlog
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.session_table import SessionTable
from tests.support import child_environment, wait_until

LIMIT = 1_000
MIB = 1 << 20


class Kept:
    """What is kept for two nodes, and who was cut off."""

    def __init__(self, much: int, little: int) -> None:
        self.gone: list[str] = []
        self.backlog = Backlog(1 << 30, lambda session, _: self.gone.append(session.node))
        session_table = SessionTable()
        self.sessions: list[Session] = []
        for number, (name, size) in enumerate((("much", much), ("little", little))):
            session = session_table.open(b"r" + b"%d" % number * INCARNATION, name, {}, 0.0)
            self.sessions.append(session)
            self.backlog.count(session, size)


@contextmanager
def watched(kept: Kept, size: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """A watch of a process that has so many bytes; the list has one more for each look at them."""
    looks: list[None] = []

    def resident() -> int:
        looks.append(None)
        return size

    monkeypatch.setattr("ether.process.memory_limit.resident", resident)
    watch = MemoryLimit("ipc://nowhere", LIMIT, lambda *_: None, kept.backlog)
    try:
        yield looks
    finally:
        watch.close()


def test_past_the_limit_the_node_goes_for_which_most_is_kept(monkeypatch: pytest.MonkeyPatch):
    kept = Kept(9 * MIB, 8 * MIB)

    with watched(kept, LIMIT + 1, monkeypatch):
        wait_until(lambda: kept.backlog.must_shrink, what="somebody is to go")
    kept.backlog.shrink()

    assert kept.gone == ["much"]
    assert not kept.backlog.must_shrink


@pytest.mark.parametrize(
    ("size", "much"), [(LIMIT, 9 * MIB), (LIMIT + 1, 7 * MIB)], ids=["at the limit", "little kept"]
)
def test_nobody_goes_at_the_limit_or_for_little(size: int, much: int, monkeypatch: pytest.MonkeyPatch):
    kept = Kept(much, 0)

    with watched(kept, size, monkeypatch) as looks:
        wait_until(lambda: len(looks) > 6, what="some looks")

    assert not kept.backlog.must_shrink


def test_a_process_past_twice_the_limit_ends():
    code = (
        "import logging, time; logging.basicConfig();"
        "from ether.process.memory_limit import MemoryLimit; from ether_broker.transport.sessions.backlog import Backlog;"
        "MemoryLimit('ipc://nowhere', 1, print, Backlog(1, print)); time.sleep(20)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, check=False, text=True, timeout=20
    )  # fmt: skip

    assert ended.returncode == OUT_OF_MEMORY
    assert "are twice the limit: the broker ends" in ended.stderr
