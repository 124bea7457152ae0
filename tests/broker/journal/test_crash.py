"""A killed process and a torn log: what was told to be committed is there, and nothing half is."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from tests.broker.journal.support import copy_files, delegation, put
from tests.support import child_environment

WRITE = """
import os, random, sys
from ether_broker.journal.sqlite.journal import SqliteJournal
from tests.broker.journal.test_crash import content

journal = SqliteJournal(sys.argv[1])
ends = {}
def tell():
    if journal.committed:
        os.write(1, b"%d\\n" % ends[journal.committed])
journal.on_commit = tell
sizes = random.Random(int(sys.argv[2]))
while True:
    count = sizes.randrange(1, 60)
    first = journal.next
    ends[journal._ticket + 1] = first + count
    journal.append(first, first, first, [content(number) for number in range(first, first + count)])
    if sizes.random() < 0.05:
        journal.put_checkpoint(first, b"below %d" % first)
    while journal.queued_bytes > 1 << 18:
        pass
"""


def content(number: int) -> bytes:
    """What the writer stores under a number: some of it large, and the same large bytes again and again."""
    payload = bytes([number % 7]) * 5000 if number % 50 == 0 else b"%d" % number
    return delegation(number, payload=payload)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_leaves_all_that_it_told_and_nothing_half(path: Path, seed: int):
    # Given a process that commits without end, and tells each commit
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, path, str(seed)],
        env=child_environment(), cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True,
    ) as writer:  # fmt: skip
        assert writer.stdout is not None
        for _ in range(random.Random(seed).randrange(1, 150)):
            told = writer.stdout.readline()
        # When it is killed in the middle
        writer.send_signal(signal.SIGKILL)
        told = (told + writer.stdout.read()).split("\n")[-2]

    # Then a reader sees a whole journal, and the next broker goes on with it
    with JournalReader(path) as reader:
        assert reader.last + 1 >= int(told)
        assert reader.verify().problem is None
        assert [record.envelope for record in reader.entries()] == [content(n) for n in range(1, reader.last + 1)]
    journal = SqliteJournal(path)
    checkpoint = journal.checkpoint
    start = checkpoint[0] if checkpoint else 1
    assert [e for batch in journal.replay() for e in batch.envelopes] == [
        content(n) for n in range(start, journal.next)
    ]
    put(journal, [content(journal.next)])
    journal.close()
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A journal at rest as a crash would leave it, and where its commits end."""
    journal = SqliteJournal(tmp_path_factory.mktemp("live") / "journal.db")
    ends = [1]
    for count in (1, 30, 3, 100, 7, 50):
        put(journal, [content(number) for number in range(journal.next, journal.next + count)])
        ends.append(journal.next)
    copy = copy_files(journal.path, tmp_path_factory.mktemp("crashed"))
    journal.close()
    return copy, ends


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(share=st.floats(0, 1), garbage=st.binary(max_size=64), flipped=st.booleans())
def test_a_torn_log_gives_whole_commits_from_the_first_on(
    ends: tuple[Path, list[int]], tmp_path_factory: pytest.TempPathFactory, share: float, garbage: bytes, flipped: bool
):
    # Given a write-ahead log that ends anywhere, with anything behind it, or has a wrong byte there
    path = copy_files(ends[0], tmp_path_factory.mktemp("torn"))
    log = Path(f"{path}-wal")
    whole = log.read_bytes()
    cut = 32 + int(share * (len(whole) - 32))
    torn = whole[:cut] + (bytes([whole[cut] ^ 0xFF]) + whole[cut + 1 :] if flipped and cut < len(whole) else garbage)
    log.write_bytes(torn)

    # When a broker opens it. (What the tables need is in the log too: torn before that, the journal is new.)
    journal = SqliteJournal(path)

    # Then it has the first commits, and goes on behind them
    assert journal.next in ends[1]
    assert [e for batch in journal.replay() for e in batch.envelopes] == [content(n) for n in range(1, journal.next)]
    if cut == len(whole):
        assert journal.next == ends[1][-1]
    put(journal, [b"more"])
    journal.close()
    with JournalReader(path) as reader:
        assert reader.verify().problem is None
