"""A cluster whose journal's disk fails: it says why, kills in between change nothing, and it is back when the disk is.

The faults are those of `ether torture --journal-faults`: a full disk and a read-only one need the right to mount.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import Handle, Rejected, Runtime, Status
from ether.cluster import Cluster
from ether.lab.torture.disk import Disk
from ether.lab.torture.fault_plan import Fault
from ether_broker.envelope.payload import unpack
from ether_broker.errors import JournalLocked, JournalReadOnly, JournalUnavailable
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from tests.runtime.cluster.test_cluster_failures import WORKER, Bus, code, outcome
from tests.support import Stalls, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
BACK = 5.0
"""Seconds in which the bus takes work again, as it says."""
UP = 20.0
"""Seconds in which processes have looked at a journal: the bus promises nothing of that, and this machine may be busy."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with Disk(tmp_path, "journal.db") as made:
        yield made


@pytest.fixture
def kept(disk: Disk, tmp_path: Path) -> Iterator[Bus]:
    """A worker on each of two nodes, a broker whose journal is on that disk, and a delegator."""
    events: list[str] = []
    with (
        Cluster(
            nodes=2, agents=[WORKER], drain=5.0, on_event=events.append, journal=str(disk.journal), intensity=100
        ) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        yield Bus(cluster, bus, tmp_path, events)


def break_by(disk: Disk, fault: Fault) -> None:
    if fault not in disk.faults:
        pytest.skip(f"{fault} needs the right to mount a file system")
    disk.break_by(fault)


def wait_back(kept: Bus, handle: Handle) -> None:
    """Wait until the bus takes work and what it had accepted has its outcome; from the end of the disk's fault on.

    It has 5 s of the machine's time: the seconds in which this process, which does nothing, was not run do not count, as the
    broker's and the node's may have been as late.
    """
    began = time.monotonic()
    with Stalls() as stalls:
        wait_until(lambda: done(kept), UP, "work is done")
        assert outcome(handle, UP).status is Status.COMPLETED
    assert time.monotonic() - began - stalls.seconds < BACK


def refused(kept: Bus) -> bool:
    return code(outcome(kept.begin("work.once", timeout=0.5), 10.0)) == "journal_unavailable"


def done(kept: Bus) -> bool:
    response = outcome(kept.bus.delegate("work.again", {"folder": str(kept.folder)}, timeout=1.0), 30.0)
    assert code(response) != "broker_lost"
    return response.status is Status.COMPLETED


def down(journal: Path) -> list[str]:
    """The nodes that a journal says went down."""
    with JournalReader(journal) as reader:
        assert reader.verify().problem is None
        events = [unpack(record.envelope[record.header.body :]) for record in reader.entries(kind=4)]
    return [event["node"] for event in events if event["event"] == "node_down"]


@pytest.mark.parametrize("fault", [Fault.FILL, Fault.LOCK, Fault.REMOVE, Fault.FAIL])
def test_work_and_questions_are_refused_at_once_and_nobody_is_lost_while_the_disk_fails(
    kept: Bus, disk: Disk, fault: Fault
):
    # Given work that runs, and a disk that fails for longer than a node may be silent
    running = kept.begin("work.once", timeout=60.0)
    kept.wait_running(running)
    break_by(disk, fault)
    began = time.monotonic()
    caught = kept.begin("work.again", timeout=0.5)
    wait_until(lambda: refused(kept), what="work is refused")

    # And what the bus had taken at that moment says at its deadline what it waits for
    assert code(outcome(caught, 10.0)) == "journal_unavailable"
    assert outcome(caught).status is Status.TIMEOUT

    # When the bus is asked about itself
    asked = time.monotonic()
    with pytest.raises(Rejected, match="journal cannot be written"):
        kept.bus.agents()
    assert time.monotonic() - asked < 2.0
    wait_until(lambda: time.monotonic() - began > 5.0, what="the disk has failed for 5 s")

    # Then all goes on as soon as the disk does
    kept.go()
    disk.mend()
    wait_back(kept, running)
    assert kept.attempts(running) == 1
    assert down(disk.journal) == []


@pytest.mark.parametrize("fault", Fault)
def test_a_broker_that_is_killed_while_its_disk_fails_is_back_when_the_disk_is(kept: Bus, disk: Disk, fault: Fault):
    running = kept.begin("work.once", timeout=60.0)
    kept.wait_running(running)
    break_by(disk, fault)
    kept.kill("broker")
    # With a lock or a full disk it may come up all the same, and refuse work.
    looked = ("broker waits",) if fault in {Fault.PROTECT, Fault.REMOVE} else ("broker waits", "broker is up again")
    wait_until(
        lambda: any(event.startswith(looked) for event in kept.events),
        30.0,
        "the next broker has looked at its journal",
    )

    kept.go()
    disk.mend()

    wait_back(kept, running)
    assert kept.attempts(running) == 1


@pytest.mark.parametrize(("fault", "error"), [(Fault.PROTECT, JournalReadOnly), (Fault.REMOVE, JournalUnavailable)])
def test_a_cluster_does_not_come_up_on_a_journal_that_cannot_be_written_and_says_why(
    disk: Disk, fault: Fault, error: type[Exception]
):
    SqliteJournal(disk.journal).close()
    break_by(disk, fault)
    if fault is Fault.REMOVE:
        disk.journal.parent.touch()  # a file where the folder was

    began = time.monotonic()
    with pytest.raises(error, match=str(disk.journal)):
        Cluster(nodes=1, agents=[WORKER], journal=str(disk.journal)).open()

    assert time.monotonic() - began < UP
    if fault is Fault.REMOVE:
        disk.journal.parent.unlink()


def test_a_second_cluster_does_not_get_at_a_journal_by_a_link(kept: Bus, disk: Disk, tmp_path: Path):
    link = tmp_path / "link.db"
    link.symlink_to(disk.journal)

    with pytest.raises(JournalLocked, match="in use by process"):
        Cluster(nodes=1, agents=[WORKER], journal=str(link)).open()

    kept.go()
    assert done(kept)
