"""The outcomes of a journal: of a real bus that wrote it, and as gap scoring counts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether import Agent, Runtime, Task, capability
from ether.governance.gaps.formula import justification
from ether.governance.gaps.journal_traffic import journal_outcomes, journal_traffic
from ether.governance.gaps.outcomes import Outcome
from ether_broker.envelope.status import Status
from ether_broker.journal.sqlite.reader import JournalReader
from tests.governance.gaps.journals import write_traffic

PATIENCE = 20.0


class Writer(Agent):
    @capability("text.count", latency_weight=4.0)
    def count(self, text: str) -> int:
        return len(text.split())

    @capability("text.review")
    def review(self, text: str, task: Task) -> object:
        if not text:
            return task.respond(Status.NEEDS_INPUT, summary="Which text?")
        return task.respond(Status.PARTIAL, data="half", unresolved=["the rest"])

    @capability("text.fail")
    def fail(self) -> None:
        raise ValueError("no")

    @capability("text.sleep")
    async def sleep(self) -> None:
        import asyncio

        await asyncio.sleep(30.0)


class Asker(Agent):
    @capability("ask.count")
    async def ask(self, task: Task) -> int:
        return (await task.delegate("text.count", {"text": "one"})).data


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    with Runtime(journal=path, name="desk") as bus:
        bus.start(Writer)
        bus.start(Asker)
        for capability_, params, options in (
            ("text.count", {"text": "one two"}, {}),
            ("text.count", {"words": 1}, {}),
            ("text.review", {"text": ""}, {}),
            ("text.review", {"text": "x"}, {}),
            ("text.fail", {}, {}),
            ("text.sleep", {}, {"timeout": 0.3}),
            ("text.translate", {}, {}),
            ("text.count", {"text": ""}, {"to": "nobody"}),
            ("text.count", {"text": ""}, {"to": "desk"}),
            ("ask.count", {}, {}),
        ):
            bus.delegate(capability_, params, **options).result(PATIENCE)
        handle = bus.delegate("text.sleep")
        handle.cancel()
        handle.result(PATIENCE)
        bus.agents()
    return path


OUTCOMES = st.builds(
    Outcome, day=st.integers(19_000, 20_100), capability=st.sampled_from(["text.count", "a.b"]),
    delegator=st.sampled_from(["desk", "editor"]), status=st.sampled_from([one for one in Status if one.is_terminal]),
    is_held=st.just(True), is_own=st.just(False),
    pace=st.floats(0.001, 5_000.0),
)  # fmt: skip


@given(given_=st.lists(OUTCOMES, max_size=12), unheld=st.sets(st.integers(0, 11)))
@settings(max_examples=25)
def test_what_was_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, given_: list[Outcome], unheld: set[int]
):
    written = [
        one._replace(is_held=False) if place in unheld and one.status is Status.REJECTED_CAPABILITY else one
        for place, one in enumerate(given_)
    ]
    path = write_traffic(tmp_path_factory.mktemp("traffic") / "journal.db", written)

    found = outcomes(path)

    assert [one._replace(pace=None) for one in found] == [one._replace(pace=None) for one in written]
    assert [one.pace for one in found] == pytest.approx([one.pace for one in written], rel=1e-3, abs=1e-4)


def outcomes(path: Path) -> list[Outcome]:
    with JournalReader(path) as reader:
        return list(journal_outcomes(reader))


def test_each_delegation_of_a_journal_is_read_once_with_what_became_of_it(journal: Path):
    found = [(one.capability, one.delegator, one.status, one.is_held, one.is_own) for one in outcomes(journal)]

    assert found == [
        ("text.count", "desk", Status.COMPLETED, True, False),
        ("text.count", "desk", Status.REJECTED_CONTEXT, True, False),
        ("text.review", "desk", Status.NEEDS_INPUT, True, False),
        ("text.review", "desk", Status.PARTIAL, True, False),
        ("text.fail", "desk", Status.FAILED_EXECUTION, True, False),
        ("text.sleep", "desk", Status.TIMEOUT, True, False),
        ("text.translate", "desk", Status.REJECTED_CAPABILITY, False, False),
        ("text.count", "desk", Status.REJECTED_CAPABILITY, False, False),
        ("text.count", "desk", Status.REJECTED_CAPABILITY, True, True),
        ("text.count", "asker", Status.COMPLETED, True, False),
        ("ask.count", "desk", Status.COMPLETED, True, False),
        ("text.sleep", "desk", Status.CANCELLED, True, True),
    ]


def test_the_pace_of_an_outcome_is_its_time_by_the_declared_weight(journal: Path):
    with JournalReader(journal) as reader:
        rows = list(reader.headers())
    by_id: dict[bytes, list[float]] = {}
    for row in rows:
        if row.capability == "text.count" and row.kind in {1, 2}:
            by_id.setdefault(row.request_id, []).append(row.wall)
    times = [walls[-1] - walls[0] for walls in by_id.values()]

    paces = [one.pace for one in outcomes(journal) if one.capability == "text.count"]

    assert sorted(paces) == pytest.approx(
        sorted(time / weight for time, weight in zip(times, (4, 4, 1, 1, 4), strict=True))
    )
    assert {one.day for one in outcomes(journal)} <= {int(row.wall // 86_400) for row in rows}


def test_the_headers_of_a_journal_are_those_of_its_records_indexed_or_not(journal: Path):
    with JournalReader(journal) as reader:
        records = list(reader.entries())
        headers = list(reader.headers())
        assert (
            [row.number for row in headers] == [record.number for record in records] == list(range(1, reader.last + 1))
        )
        for row, record in zip(headers, records, strict=True):
            header = record.header
            assert (row.kind, row.status, row.request_id) == (header.kind, header.status, header.request_id)
            assert (row.source, row.target) == (header.source.decode(), header.target.decode())
            assert (row.capability, row.wall) == (header.capability.decode(), record.wall)
        middle = len(headers) // 2
        assert list(reader.headers(headers[middle].number)) == headers[middle:]
        assert list(reader.headers(reader.last + 1)) == []


def test_the_score_of_a_capability_is_that_of_the_specification(journal: Path):
    with JournalReader(journal) as reader:
        traffic = journal_traffic(reader)
    assert traffic.declared >= {"text.count", "text.review", "text.fail", "text.sleep", "ask.count"}
    assert "text.translate" not in traffic.declared
    days = traffic.days

    missing = justification(traffic, "text.translate", days)
    assert (missing.rejection_rate, missing.latency_penalty_ratio, missing.clarification_cycles_ratio) == (
        1.0,
        0.0,
        0.0,
    )
    assert missing.score == 0.4, "what is missing outright does not reach the threshold of 0.55"
    review = justification(traffic, "text.review", days)
    assert (review.rejection_rate, review.clarification_cycles_ratio) == (0.5, 0.5)
    assert review.score == pytest.approx(review.weighed, abs=1e-4)
    assert justification(traffic, "never.asked", days).score == 0.0
