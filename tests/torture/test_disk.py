"""Faults of the disk: they are what they say, end when they are told to, and leave the journal in the campaign's folder."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from ether.lab.render import render
from ether.lab.torture.campaign import run
from ether.lab.torture.disk import Disk
from ether.lab.torture.fault_plan import Fault, FaultPlan, make_faults
from ether.lab.torture.history.log import LogWriter, read_log
from ether.lab.torture.history.outage import read_outages
from ether.lab.torture.nemesis import Nemesis
from ether.lab.torture.settings import TortureSettings
from ether.process.process_supervisor import ProcessStatistics
from ether_broker.errors import JournalLocked, JournalReadOnly, JournalUnavailable, UsageError
from ether_broker.journal.sqlite.journal import SqliteJournal
from tests.support import wait_until


class Nobody:
    """A theatre without processes."""

    def signal(self, name: str, number: int) -> int | None:
        raise AssertionError(name, number)

    def statistics(self) -> list[ProcessStatistics]:
        return []


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with Disk(tmp_path, "journal.db") as made:
        yield made


def test_a_full_disk_takes_nothing_until_it_is_mended(disk: Disk) -> None:
    if not disk.is_mounted:
        pytest.skip("only a file system of its own is filled, and mounting one needs the right to")
    before = os.statvfs(disk.journal.parent).f_bavail

    disk.break_by(Fault.FILL)

    assert before > 10_000 > os.statvfs(disk.journal.parent).f_bavail == 0
    disk.mend()
    assert os.statvfs(disk.journal.parent).f_bavail == before


def test_a_locked_journal_is_written_again_when_the_lock_goes(disk: Disk) -> None:
    journal = SqliteJournal(disk.journal)
    disk.break_by(Fault.LOCK)
    ticket = journal.append(1, 0.0, 0.0, [b"one"])
    wait_until(lambda: isinstance(journal.trouble, JournalLocked), what="it is locked")

    disk.mend()

    wait_until(lambda: journal.committed == ticket, what="it is written")
    journal.close()


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.PROTECT, JournalReadOnly), (Fault.REMOVE, JournalUnavailable)]
)  # fmt: skip
def test_a_journal_that_is_protected_or_away_cannot_be_opened_until_it_is_mended(
    disk: Disk, fault: Fault, error: type[Exception]
) -> None:
    SqliteJournal(disk.journal).close()

    disk.break_by(fault)

    with pytest.raises(error):
        SqliteJournal(disk.journal, create=False)
    disk.mend()
    SqliteJournal(disk.journal, create=False).close()


def test_a_fault_that_cannot_be_is_refused_and_nothing_is_to_be_mended(disk: Disk) -> None:
    place = disk.journal.parent
    place.rename(place.with_name("gone"))

    with pytest.raises((OSError, sqlite3.Error)):
        disk.break_by(Fault.LOCK)

    place.with_name("gone").rename(place)
    disk.mend()


def test_the_journal_is_in_the_campaigns_folder_afterwards_and_the_disk_is_gone(tmp_path: Path) -> None:
    with Disk(tmp_path, "journal.db") as disk:
        SqliteJournal(disk.journal).close()
        disk.break_by(Fault.REMOVE)

    SqliteJournal(tmp_path / "journal.db", create=False).close()
    assert [path.name for path in tmp_path.iterdir()] == ["journal.db"]


def test_a_seed_makes_one_plan_of_faults_that_follow_each_other() -> None:
    settings = TortureSettings(seed=3, seconds=120.0, journal_faults=True)
    plan = make_faults(settings, tuple(Fault))

    assert plan == make_faults(settings, tuple(Fault))
    assert {one.fault for one in plan} == set(Fault)
    assert all(one.at + one.seconds < other.at for one, other in pairwise(plan))
    assert make_faults(TortureSettings(seed=3, seconds=120.0), tuple(Fault)) == ()
    assert {one.fault for one in make_faults(settings, (Fault.LOCK,))} == {Fault.LOCK}


def test_without_a_journal_there_is_no_disk_to_fail() -> None:
    with pytest.raises(UsageError, match="durability journal"):
        TortureSettings(durability="memory", journal_faults=True)


def test_a_fault_lasts_until_it_is_mended() -> None:
    lines = [
        {"event": "fault", "at": 1.0, "begin": 1.0, "number": 1, "fault": "fill", "seconds": 1.0},
        {"event": "mended", "at": 2.0, "number": 1},
        {"event": "fault", "at": 4.0, "begin": 4.0, "number": 2, "fault": "lock", "seconds": 9.0},
    ]

    first, second = read_outages(lines).disk

    assert (first.begin, first.end, first.fault) == (1.0, 2.0, Fault.FILL)
    assert (second.begin, second.end) == (4.0, float("inf"))


def test_a_fault_that_is_due_while_another_lasts_waits_for_its_end(disk: Disk, tmp_path: Path) -> None:
    SqliteJournal(disk.journal).close()
    plan = [FaultPlan(1, 0.0, Fault.LOCK, 0.3), FaultPlan(2, 0.1, Fault.REMOVE, 0.3)]
    with (
        closing(LogWriter(tmp_path / "n.jsonl")) as log,
        Nemesis(Nobody(), (), time.monotonic(), log, disk=disk, faults=plan) as nemesis,
    ):
        assert nemesis.done.wait(20)

    first, second = read_outages(read_log(tmp_path / "n.jsonl")).disk
    assert (first.fault, second.fault) == (Fault.LOCK, Fault.REMOVE)
    assert first.begin < first.end <= second.begin < second.end
    SqliteJournal(disk.journal, create=False).close()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_bus_whose_disk_fails_while_it_is_killed_keeps_its_promises(tmp_path: Path) -> None:
    settings = TortureSettings(
        delegations=1_000, seconds=20.0, kills=8, seed=4, journal_faults=True, keep=tmp_path / "kept"
    )  # fmt: skip

    report = run(settings)

    assert report.ok, render(report)
    assert sum(row["count"] for row in report.tables["strikes"] if row["strike"].endswith(" disk")) >= 2
    assert "disk well again" in render(report)
