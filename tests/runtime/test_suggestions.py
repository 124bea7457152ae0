"""Suggestions, from whoever found a gap to the journal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ether import Agent, Rejected, Runtime, Status, Task, capability
from ether.observers import Log, Metrics, Probe
from ether.views import SuggestionRecord
from ether_broker.envelope.payload import unpack
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import Kind
from tests.broker.envelope.views.spec_examples import SUGGESTION_RECORD

RECORD = SuggestionRecord.parse({**json.loads(SUGGESTION_RECORD), "submitted_by": "desk"})


class Scout(Agent):
    """Finds a gap, and says so."""

    @capability("gap.report")
    async def report(self, record: dict, task: Task) -> str:
        response = await task.delegate("ether.suggest", {**record, "submitted_by": task.agent})
        return response.status.name


def test_a_suggestion_is_counted_and_stands_in_the_journal(tmp_path: Path):
    path = tmp_path / "journal.db"
    with Runtime(name="desk", journal=path) as bus:
        metrics = bus.observe(Metrics())
        bus.suggest(RECORD)
        bus.settle(metrics)
        assert metrics.snapshot().gap_suggestion_frequency == 1

    with JournalReader(path) as reader:
        events = [unpack(record.envelope[record.header.body :]) for record in reader.entries(kind=Kind.EVENT)]
    [event] = [event for event in events if event["event"] == "suggestion"]
    assert event == {"event": "suggestion", **RECORD.document()}


def test_an_agent_suggests_under_its_own_name():
    with Runtime(name="desk") as bus:
        probe = bus.observe(Probe())
        bus.start(Scout, name="scout")
        response = bus.delegate("gap.report", {"record": RECORD.document()}).result()
        event = probe.expect(event="suggestion").event

    assert response.data == Status.COMPLETED.name
    assert (event["submitted_by"], event["proposed_agent"]) == ("scout", RECORD.proposed_agent)


def test_somebody_elses_suggestion_is_refused():
    with Runtime(name="hall") as bus, pytest.raises(Rejected, match="submit your own"):
        bus.suggest(RECORD)


def test_the_log_tells_who_proposes_which_agent_and_nothing_that_was_written_freely():
    stream = io.StringIO()
    with Runtime(name="desk") as bus:
        log = bus.observe(Log(stream))
        bus.suggest(RECORD)
        bus.settle(log)

    [line] = [line for line in stream.getvalue().splitlines() if " suggestion " in line]
    assert f"proposed_agent={RECORD.proposed_agent}" in line
    assert "submitted_by=desk" in line
    assert RECORD.suggestion_id not in line
    assert RECORD.impact_expectation not in line
