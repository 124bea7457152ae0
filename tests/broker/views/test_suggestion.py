from __future__ import annotations

import json
from typing import Any

import pytest

from ether_broker.errors import InvalidEnvelope
from ether_broker.views.suggestion import SuggestionRecord
from tests.broker.views import spec_examples


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
