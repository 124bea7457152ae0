"""The upkeep of a journal beside a supervisor: a real journal, a real thread, and an actor that does what it is told."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pykka
import pytest

from ether_actors.supervisor.journal.checkpoint_process import fold
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.journal.journal_maintenance import JournalMaintenance, fold_here
from ether_actors.supervisor.recovery import read_history
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.errors import EtherError, JournalUnavailable
from ether_broker.journal.journal import Removed
from ether_broker.journal.memory.journal import MemoryJournal
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.codec import pack_outcome, pack_plain_delegation
from ether_broker.wire.frame import Kind, pack_envelope, read_header
from tests.support import wait_until


class Turns(pykka.ThreadingActor):
    """Does in its turn what it is told to, as a supervisor's actor does."""

    def on_receive(self, message: Any) -> Any:
        return message(None)


class Kept:
    """A journal under upkeep."""

    def __init__(self, path: Path, **when: float) -> None:
        self.journal = SqliteJournal(path)
        self.turns = Turns.start()
        self.maintenance = JournalMaintenance(self.journal, self.turns, fold=partial(fold, path), **when)

    def work(self, count: int, *, ended: bool = True, wall: float = 1e9) -> None:
        """Let delegations pass, with or without their outcomes, and wait until they are durable."""
        passed = []
        for _ in range(count):
            asked = pack_plain_delegation(
                new_id(), b"d", b"a", b"x.y", pack({"n": 1}), timeout=None, timestamp=wall, deadline=wall
            )  # fmt: skip
            passed.append(asked)
            if ended:
                passed.append(pack_outcome(read_header(asked), pack(2), elapsed=0.1, timestamp=wall))
        ticket = self.journal.append(self.journal.next, 1.0, wall, passed)
        wait_until(lambda: self.journal.committed >= ticket, what="it is committed")

    @property
    def number(self) -> int:
        found = self.journal.checkpoint
        return 0 if found is None else found[0]

    def end(self) -> None:
        self.maintenance.end()
        self.turns.stop()
        self.journal.close()
        self.maintenance.join(10.0)


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def make(**when: int) -> Kept:
        made.append(Kept(tmp_path / "journal.db", **when))
        return made[-1]

    yield make
    for kept in made:
        kept.end()
    assert not [thread for thread in threading.enumerate() if thread.name == "ether-upkeep"]


def test_a_checkpoint_is_made_when_the_last_is_far_behind_and_says_what_a_whole_replay_says(keep):
    kept = keep(behind=100, calm_behind=1_000_000)
    kept.work(300)
    kept.work(7, ended=False)
    whole = History()
    for step in kept.journal.replay(1):
        whole.apply(*step)
    kept.maintenance.start()

    wait_until(lambda: kept.number == 608, what="a checkpoint at the end")
    found = kept.journal.checkpoint
    assert found is not None
    assert History.of(found[1]).pack() == whole.pack()
    assert len(read_history(kept.journal).open) == 7


def test_the_next_checkpoint_goes_on_from_the_last(keep):
    kept = keep(behind=100, calm_behind=1_000_000, apart=0.0)
    kept.maintenance.start()
    kept.work(100)
    wait_until(lambda: kept.number == 201, what="the first")
    kept.work(100, ended=False)
    wait_until(lambda: kept.number == 301, what="the second")

    assert len(read_history(kept.journal).open) == 100


def test_while_nothing_passes_a_shorter_way_behind_is_enough(keep):
    kept = keep(behind=1_000_000, calm_behind=10)
    kept.maintenance.start()
    kept.work(20)

    wait_until(lambda: kept.number == 41, what="a checkpoint in the calm")


def test_collecting_makes_a_checkpoint_first_and_removes_all_that_is_below_it_and_old(keep):
    kept = keep()
    for _ in range(5):
        kept.work(10, wall=1000.0)
    kept.work(10, wall=2000.0)
    told: list[Removed | EtherError] = []
    kept.maintenance.start()
    kept.maintenance.collect(1500.0, told.append)
    wait_until(lambda: told, what="it is done")

    (removed,) = told
    assert isinstance(removed, Removed)
    assert removed.envelopes == 100
    assert kept.journal.read(100) is None
    assert kept.journal.read(101) is not None
    assert kept.number == 121


def test_what_is_asked_for_meanwhile_is_collected_at_once(keep):
    kept = keep()
    for wall in (1000.0, 2000.0, 3000.0):
        kept.work(10, wall=wall)
    told: dict[float, list[Removed | EtherError]] = {when: [] for when in (1500.0, 2500.0, 500.0)}
    made, fold = [], kept.maintenance._fold
    kept.maintenance._fold = lambda ending: (made.append(1), fold(ending))[1]
    for when, said in told.items():
        kept.maintenance.collect(when, said.append)
    kept.maintenance.start()
    wait_until(lambda: all(told.values()), what="they are done")

    assert len(made) == 1
    for (removed,) in told.values():
        assert isinstance(removed, Removed)
        assert removed.envelopes == 40
    assert kept.journal.read(41) is not None


def test_a_collection_is_answered_though_the_broker_had_no_time_for_its_checkpoint(keep, monkeypatch):
    kept = keep()
    kept.work(10)

    def too_late(_call: object) -> None:
        monkeypatch.undo()
        raise pykka.Timeout("10 s")

    monkeypatch.setattr(kept.maintenance, "_tell", too_late)
    told: list[Removed | EtherError] = []
    kept.maintenance.start()
    kept.maintenance.collect(1500.0, told.append)
    wait_until(lambda: told, what="it is answered")

    (error,) = told
    assert isinstance(error, JournalUnavailable)
    assert "no time for a checkpoint" in str(error)


def test_a_journal_that_is_closed_ends_the_upkeep_without_a_word(keep, caplog):
    kept = keep(behind=10)
    kept.work(1000)
    kept.maintenance.start()
    kept.maintenance.collect(0.0, lambda _result: None)
    kept.end()

    assert not caplog.records


def test_a_checkpoint_by_an_earlier_brokers_clock_does_not_replace_that_of_the_recovery(keep, tmp_path):
    first = keep()
    first.maintenance.start()
    first.work(10)
    first.end()
    kept = keep()
    told: list[Removed | EtherError] = []
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # so that what the recovery puts is not committed yet
        kept.journal.put_checkpoint(kept.journal.next, b"by the clock of this broker")
        kept.maintenance.start()
        kept.maintenance.collect(0.0, told.append)
        wait_until(lambda: kept.journal._writer._collections, what="the fold is made")
        other.execute("ROLLBACK")
    wait_until(lambda: told, what="it is done")

    assert kept.journal.checkpoint == (21, b"by the clock of this broker")


def test_a_journal_that_no_other_process_reads_is_folded_in_the_brokers_own():
    journal, turns = MemoryJournal(), Turns.start()
    maintenance = JournalMaintenance(journal, turns)
    asked = pack_envelope(Kind.DELEGATION, request_id=new_id(), source=b"d", target=b"a")
    journal.append(1, 1.0, 1000.0, [asked])
    told: list[Removed | EtherError] = []
    maintenance.start()
    maintenance.collect(2000.0, told.append)
    wait_until(lambda: told, what="it is done")
    maintenance.end()
    turns.stop()
    maintenance.join(10.0)

    assert told == [Removed(1, 1, 0, len(asked))]
    assert (journal.first, journal.checkpoint[0]) == (2, 2)


def test_a_fold_in_the_brokers_own_process_ends_with_the_broker_and_says_nothing_where_nothing_is_new():
    journal, ending = MemoryJournal(), threading.Event()
    nothing_new = fold_here(journal, ending)
    journal.append(1, 1.0, 1000.0, [pack_envelope(Kind.DELEGATION, request_id=new_id(), source=b"d", target=b"a")])
    made = fold_here(journal, ending)
    ending.set()

    assert nothing_new is None
    assert made is not None
    assert len(History.of(made[1]).open) == 1
    assert fold_here(journal, ending) is None
