from __future__ import annotations

import json
from typing import Any

import pytest

from ether_broker.envelope.views.suggestion import SuggestionRecord
from ether_broker.errors import InvalidEnvelope
from tests.broker.envelope.views import spec_examples


@pytest.mark.parametrize("document", spec_examples.SUGGESTION_RECORDS)
def test_example_records_survive_word_for_word(document: dict[str, Any]):
    record = SuggestionRecord.parse(document)

    assert json.dumps(record.document()) == json.dumps(document)


def test_a_record_says_who_proposes_whom_and_why():
    record = SuggestionRecord.parse(json.loads(spec_examples.SUGGESTION_RECORD))

    assert record.submitted_by == "script-agent"
    assert record.proposed_agent == "clarifier-agent"
    assert record.justification.latency_penalty_ratio == 1.9
    assert record.justification.score == 0.61


def test_a_score_over_1_is_refused():
    document = json.loads(spec_examples.SUGGESTION_RECORD)
    document["justification"]["score"] = 1.2

    with pytest.raises(InvalidEnvelope, match=r"justification\.score: "):
        SuggestionRecord.parse(document)


@pytest.mark.parametrize("score", [0.61, 0.618, 0.62])
def test_the_score_is_that_of_its_ratios_each_clamped_to_1(score: float):
    document = json.loads(spec_examples.SUGGESTION_RECORD)
    document["justification"]["score"] = score

    assert SuggestionRecord.parse(document).justification.score == score


@pytest.mark.parametrize("score", [0.60, 0.64, 0.888, 1.0])
def test_a_score_that_is_not_that_of_its_ratios_is_refused_with_the_right_one(score: float):
    document = json.loads(spec_examples.SUGGESTION_RECORD)
    document["justification"]["score"] = score

    with pytest.raises(InvalidEnvelope, match=r"justification: .*score .* is 0\.618"):
        SuggestionRecord.parse(document)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rejection_rate", 40),
        ("rejection_rate", -0.1),
        ("latency_penalty_ratio", float("inf")),
        ("latency_penalty_ratio", float("nan")),
        ("clarification_cycles_ratio", "0.62"),
        ("score", "0.61"),
    ],
)
def test_a_figure_that_is_none_is_refused_by_its_name(name: str, value: object):
    document = json.loads(spec_examples.SUGGESTION_RECORD)
    document["justification"][name] = value

    with pytest.raises(InvalidEnvelope, match=rf"justification\.{name}: "):
        SuggestionRecord.parse(document)


def test_a_record_proposes_at_least_one_capability():
    document = json.loads(spec_examples.SUGGESTION_RECORD)
    document["capabilities"] = []

    with pytest.raises(InvalidEnvelope, match="capabilities: "):
        SuggestionRecord.parse(document)
