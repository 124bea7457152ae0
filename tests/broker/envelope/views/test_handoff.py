from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Delegation, OutputContract
from ether_broker.envelope.ids import foreign_id, new_id, to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.envelope.views.handoff import RequestEnvelope, ResponseEnvelope
from ether_broker.errors import InvalidEnvelope
from tests.broker.envelope.views import spec_examples
from tests.broker.envelope.views.laws import document_survives, envelope_survives, envelope_survives_as_json
from tests.broker.strategies import (
    agent_names,
    capability_names,
    delegations,
    ids,
    json_maps,
    json_values,
    responses,
    texts,
)

REQUEST = to_text(new_id())

text_lists = st.lists(texts, max_size=2)
request_documents = st.fixed_dictionaries(
    {"request_id": ids, "capability": capability_names},
    optional={
        "from_agent": st.none() | agent_names,
        "to_agent": st.none() | agent_names,
        "timestamp": st.none()
        | st.sampled_from(
            [
                "2025-10-06T15:40:00Z",
                "2025-10-06T17:40:00+02:00",
                "2025-10-06t15:40:00.123456789z",
                "0001-01-01T00:00:00Z",
            ]
        ),
        "objective": texts,
        "context_slice": json_values,
        "dependency_vector": text_lists,
        "output_contract": st.none()
        | st.fixed_dictionaries(
            {},
            optional={"artifact_type": texts, "expected_sections": text_lists, "quality_gates": text_lists},
        ),
        "timeout_minutes": st.none() | st.integers(1, 10**400) | st.floats(0, 1e300, exclude_min=True, allow_nan=False),
    },
)
response_documents = st.fixed_dictionaries(
    {"request_id": ids, "status": st.sampled_from(list(Status.__members__))},
    optional={
        "from_agent": st.none() | agent_names,
        "artifact_path": st.none() | texts,
        "summary": texts,
        "metrics": json_maps | st.fixed_dictionaries({"elapsed_sec": json_values}),
        "follow_up_recommended": text_lists,
        "unresolved": text_lists,
        "required_fields": text_lists,
        "unexpected_fields": text_lists,
        "alternative_agent": st.none() | agent_names,
        "diagnostic_notes": st.none() | texts,
    },
)


@pytest.mark.parametrize("document", spec_examples.REQUEST_ENVELOPES)
def test_example_requests_survive_word_for_word(document: dict[str, Any]):
    document_survives(RequestEnvelope, document)


@pytest.mark.parametrize("document", spec_examples.RESPONSE_ENVELOPES)
def test_example_responses_survive_word_for_word(document: dict[str, Any]):
    document_survives(ResponseEnvelope, document)


@given(request_documents)
def test_any_request_survives(document: dict[str, Any]):
    document_survives(RequestEnvelope, document)


@given(response_documents)
def test_any_response_document_survives(document: dict[str, Any]):
    document_survives(ResponseEnvelope, document)


@given(delegations())
def test_any_delegation_survives(delegation: Delegation):
    envelope_survives(RequestEnvelope, delegation)


@given(responses())
def test_any_response_survives(response: Response):
    envelope_survives(ResponseEnvelope, response)


@given(delegations(json_values))
def test_any_delegation_that_json_can_say_survives_as_json(delegation: Delegation):
    envelope_survives_as_json(RequestEnvelope, delegation)


@given(responses(json_values))
def test_any_response_that_json_can_say_survives_as_json(response: Response):
    envelope_survives_as_json(ResponseEnvelope, response)


def test_a_request_is_a_delegation_in_other_words():
    delegation = RequestEnvelope.parse(json.loads(spec_examples.REQUEST_ENVELOPE)).to_delegation()

    assert delegation == Delegation(
        request_id=to_text(foreign_id("dlg-2025-10-06-001")),
        external_id="dlg-2025-10-06-001",
        from_agent="script-agent",
        to_agent="research-agent",
        timestamp=1759765200.0,
        capability="research.context.deepen",
        objective="Expand depth on emerging API changes for Feature X",
        context_slice={
            "prior_outline_path": "working/script/outline-v2.md",
            "known_gaps": ["recent deprecations", "performance benchmarks"],
            "constraints": ["Prefer official docs", "Highlight contradictions"],
        },
        output_contract=OutputContract(
            artifact_type="working-file",
            expected_sections=("Sources", "Contradictions", "Depth Expansion"),
            quality_gates=("G1", "G2", "G3"),
        ),
        timeout=900,
    )


def test_a_response_envelope_is_a_response_in_other_words():
    response = ResponseEnvelope.parse(json.loads(spec_examples.RESPONSE_ENVELOPE)).to_response()

    assert response == Response(
        request_id=to_text(foreign_id("dlg-2025-10-06-001")),
        external_id="dlg-2025-10-06-001",
        status=Status.COMPLETED,
        from_agent="research-agent",
        artifacts=(Artifact(path="working/research/depth-expansion-feature-x.md"),),
        summary="Depth expansion complete: 7 sources, 2 contradictions resolved, 1 pending.",
        metrics={"sources": 7, "contradictions_resolved": 2, "contradictions_pending": 1},
        elapsed=536,
        follow_ups=("qa.verification.multi-claim",),
        unresolved=("Benchmark variance between v1.3 and v1.4",),
    )


def test_request_and_response_of_one_foreign_id_belong_together():
    request = RequestEnvelope.parse(json.loads(spec_examples.REQUEST_ENVELOPE)).to_delegation()
    response = ResponseEnvelope.parse(json.loads(spec_examples.RESPONSE_ENVELOPE)).to_response()

    assert request.request_id == response.request_id


def test_a_refusal_says_what_section_11_asks_of_it():
    response = Response(
        request_id=REQUEST,
        status=Status.REJECTED_CONTEXT,
        required_fields=("name",),
        unexpected_fields=("nmae",),
        alternative_agent="clarifier-agent",
    )

    assert ResponseEnvelope.from_response(response).document() == {
        "request_id": REQUEST,
        "status": "REJECTED_CONTEXT",
        "required_fields": ["name"],
        "unexpected_fields": ["nmae"],
        "alternative_agent": "clarifier-agent",
    }


def test_a_failure_has_diagnostic_notes():
    error = ErrorInfo(code="exception", message="division by zero")
    response = Response(request_id=REQUEST, status=Status.FAILED_EXECUTION, error=error)

    view = ResponseEnvelope.from_response(response)

    assert view.diagnostic_notes == "division by zero"
    assert view.ether == {"error": {"code": "exception"}}


def test_a_sealed_artifact_keeps_its_digest():
    artifacts = (Artifact(path="a.md", sha256="00", size=3), Artifact(path="b.md"))
    response = Response(request_id=REQUEST, status=Status.COMPLETED, artifacts=artifacts)

    view = ResponseEnvelope.from_response(response)

    assert view.artifact_path == "a.md"
    assert view.to_response().artifacts == artifacts


def test_no_residue_when_spec_2_has_words_for_everything():
    delegation = Delegation(
        request_id=REQUEST, capability="a.b", timeout=90, timestamp=1759765200, dependency_vector=("Sources",)
    )

    assert RequestEnvelope.from_delegation(delegation).document() == {
        "request_id": REQUEST,
        "timestamp": "2025-10-06T15:40:00Z",
        "capability": "a.b",
        "dependency_vector": ["Sources"],
        "timeout_minutes": 1.5,
    }


def test_a_timeout_that_minutes_cannot_say_is_kept_exactly():
    delegation = Delegation(request_id=REQUEST, capability="a.b", timeout=0.7)

    assert RequestEnvelope.from_delegation(delegation).to_delegation().timeout == 0.7


@pytest.mark.parametrize(
    "time", ["yesterday", "2025-10-06", "2025-10-06T15:40:00", "2025-13-06T15:40:00Z", "2025-W41-1T15:40:00Z"]
)
def test_a_time_that_is_not_rfc_3339_is_refused(time: str):
    with pytest.raises(InvalidEnvelope, match=r"timestamp: .* no RFC 3339 time, such as 2025-10-06T15:40:00Z"):
        RequestEnvelope.parse({"request_id": "r", "capability": "a", "timestamp": time})


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), "15 min"])
def test_a_timeout_that_is_no_time_is_refused(minutes: Any):
    with pytest.raises(InvalidEnvelope, match="timeout_minutes"):
        RequestEnvelope.parse({"request_id": "r", "capability": "a", "timeout_minutes": minutes})


@pytest.mark.parametrize("status", ["COMPLETE", "completed", 2, None])
def test_a_status_that_is_no_code_is_refused(status: Any):
    with pytest.raises(InvalidEnvelope, match=r"status: .* is no status code\."):
        ResponseEnvelope.parse({"request_id": "r", "status": status})


def test_a_status_may_be_given_as_itself():
    view = ResponseEnvelope(request_id="r", status=Status.CANCELLED)

    assert view.status is Status.CANCELLED
    assert view.document() == {"request_id": "r", "status": "CANCELLED"}


def test_a_misspelt_status_is_refused_with_the_nearest():
    with pytest.raises(InvalidEnvelope, match=r"Did you mean 'COMPLETED'\?"):
        ResponseEnvelope.parse({"request_id": "r", "status": "COMPLETE"})


def test_required_fields_that_are_missing_are_all_named():
    with pytest.raises(InvalidEnvelope, match=r"request_id: Field required; capability: Field required"):
        RequestEnvelope.parse({})
