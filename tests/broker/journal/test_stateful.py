"""Any order of appends, checkpoints, collections, crashes and restarts, against a list."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ether_broker.envelope.status import Status
from ether_broker.journal.journal import Replayed
from ether_broker.journal.record import is_outcome
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import read_header
from tests.broker.journal.support import copy_files, delegation, indexed, response, settle

PAYLOADS = st.sampled_from([(b"", 0), (b"small", 1), (b"a", 5000), (b"b", 5000), (b"c", 80_000)]).map(
    lambda payload: payload[0] * payload[1]
)
IDS = st.integers(1, 6)
ENVELOPES = st.lists(
    st.one_of(
        st.builds(delegation, IDS, payload=PAYLOADS),
        st.builds(response, IDS, st.sampled_from(Status), payload=PAYLOADS),
    ),
    max_size=6,
)


class Model(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.crashes = 0
        self.journal = SqliteJournal(self.folder / "journal.db")
        self.identity = self.journal.identity
        self.stored: list[Replayed] = []
        """What a reader finds."""
        self.next = 1
        self.wall = 1000.0
        self.checkpoint: tuple[int, bytes] | None = None
        self.ticket = 0
        self.hashes: list[str] = []

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
            shutil.rmtree(self.folder)

    @rule(envelopes=ENVELOPES, skip=st.sampled_from([0, 0, 0, 3]), step=st.sampled_from([0.0, 1.0, 1.0, -2.0]))
    def append(self, envelopes: list[bytes], skip: int, step: float) -> None:
        self.wall += step
        batch = Replayed(self.next + skip, self.wall - 500, self.wall, envelopes)
        self.ticket = self.journal.append(*batch)
        if envelopes:
            self.stored.append(batch)
            self.next = batch.first + len(envelopes)

    @rule(back=st.integers(0, 8), body=st.binary(max_size=20))
    def put_checkpoint(self, back: int, body: bytes) -> None:
        number = max(self.next - back, self.checkpoint[0] if self.checkpoint else 1)
        self.journal.put_checkpoint(number, body)
        self.ticket = self.journal.append(self.next, 0.0, 0.0, [])
        self.checkpoint = number, body

    @rule()
    def settle(self) -> None:
        settle(self.journal, self.ticket)
        indexed(self.journal)

    @rule()
    def close_and_open(self) -> None:
        self.journal.close()
        self._open(self.journal.path)

    @rule(torn=st.binary(max_size=40))
    def crash(self, torn: bytes) -> None:
        """Of a writer that was beginning to write; `test_crash` kills one in the middle."""
        settle(self.journal, self.ticket)
        indexed(self.journal)
        self.crashes += 1
        path = copy_files(self.journal.path, self.folder / str(self.crashes))
        self.journal.close()
        log = Path(f"{path}-wal")
        if log.exists():
            log.write_bytes(log.read_bytes() + torn)
        self._open(path)

    def _open(self, path: Path) -> None:
        self.journal = SqliteJournal(path)
        self.ticket = 0

    @rule(age=st.integers(-1, 6))
    def collect(self, age: int) -> None:
        settle(self.journal, self.ticket)
        older_than = self.wall - age
        removed = self.journal.gc(older_than)
        first = JournalReader(self.journal.path)
        with first:
            gone = [batch for batch in self.stored if batch.first < first.first]
        assert all(batch.wall < older_than for batch in gone)
        assert sum(len(batch.envelopes) for batch in gone) <= removed.envelopes
        if gone:
            assert self.checkpoint is not None
            assert gone[-1].first + len(gone[-1].envelopes) <= self.checkpoint[0]
        self.stored = self.stored[len(gone) :]
        self.hashes.clear()  # those of commits that are gone are no longer known

    @rule(number=st.integers(1, 60))
    def read(self, number: int) -> None:
        settle(self.journal, self.ticket)
        holds = [batch for batch in self.stored if batch.first <= number < batch.first + len(batch.envelopes)]
        batch = self.journal.read(number)
        assert ([(batch.first, batch.time, batch.envelopes)] if batch else []) == [
            (held.first, held.time, held.envelopes) for held in holds
        ]

    @rule(request_id=IDS)
    def outcome(self, request_id: int) -> None:
        settle(self.journal, self.ticket)
        wanted = request_id.to_bytes(16)
        outcomes = [
            envelope
            for batch in self.stored
            for envelope in batch.envelopes
            if is_outcome(envelope) and read_header(envelope).request_id == wanted
        ]
        assert self.journal.outcome(wanted) == (outcomes[0] if outcomes else None)

    @rule()
    def prove(self) -> None:
        settle(self.journal, self.ticket)
        with JournalReader(self.journal.path) as reader:
            for known in (None, *self.hashes[-3:]):
                assert reader.verify(known).problem is None
            self.hashes.append(reader.verify().hash)
            assert [(record.number, record.wall, record.envelope) for record in reader.entries()] == [
                (number, batch.wall, envelope)
                for batch in self.stored
                for number, envelope in enumerate(batch.envelopes, batch.first)
            ]

    @rule()
    def replay(self) -> None:
        settle(self.journal, self.ticket)
        assert self.journal.checkpoint == self.checkpoint
        start = self.checkpoint[0] if self.checkpoint else 0
        replayed = [
            (number, batch.time, envelope)
            for batch in self.journal.replay()
            for number, envelope in enumerate(batch.envelopes, batch.first)
        ]
        assert replayed == [
            (number, batch.time, envelope)
            for batch in self.stored
            for number, envelope in enumerate(batch.envelopes, batch.first)
            if number >= start
        ]

    @invariant()
    def it_is_the_same_journal(self) -> None:
        if hasattr(self, "journal"):
            assert self.journal.identity == self.identity
            assert self.journal.next == self.next
            assert self.journal.trouble is None


TestModel = pytest.mark.slow(Model.TestCase)
TestModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
