from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.delegation import Criticality, Delegation
from ether_broker.envelope.ids import foreign_id, new_id, to_text
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.envelope.views.subgoal import AgentResponse, SubgoalRequest
from ether_broker.errors import InvalidEnvelope
from tests.broker.envelope.views import spec3_examples
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

goals = st.fixed_dictionaries(
    {"id": ids},
    optional={
        "description": json_values,
        "criticality": json_values | st.sampled_from(["CRITICAL", "medium", "Low"]),
        "depends_on": json_values,
    },
)
request_documents = st.fixed_dictionaries(
    {"subgoal": goals},
    optional={
        "context": json_values,
        "timeout": st.none() | st.integers(1, 10**400) | st.floats(0, 1e300, exclude_min=True),
        "query_id": st.none() | texts,
        "agent_id": st.none() | agent_names,
        "capability": st.none() | capability_names,
    },
)
response_documents = st.fixed_dictionaries(
    {
        "subgoal_id": ids,
        "summary": texts.filter(str.strip),
        "confidence": st.floats(0, 1) | st.integers(0, 1),
        "tools_used": st.lists(st.sampled_from(["file_reader", "llm_call", "search"]), max_size=2),
        "metadata": st.dictionaries(
            st.sampled_from(["duration_ms", "timestamp", "retries", "warnings"]), json_values, max_size=3
        ),
    },
    optional={"data": st.none() | json_maps | st.lists(json_values, max_size=2)},
)


@pytest.mark.parametrize("document", spec3_examples.AGENT_RESPONSES)
def test_example_responses_survive_word_for_word(document: dict[str, Any]):
    document_survives(AgentResponse, document)


@pytest.mark.parametrize("document", spec3_examples.SUBGOAL_REQUESTS)
def test_example_calls_survive_word_for_word(document: dict[str, Any]):
    document_survives(SubgoalRequest, document)


@given(request_documents)
def test_any_request_survives(document: dict[str, Any]):
    document_survives(SubgoalRequest, document)


@given(response_documents)
def test_any_response_document_survives(document: dict[str, Any]):
    document_survives(AgentResponse, document)


@given(delegations())
def test_any_delegation_survives(delegation: Delegation):
    envelope_survives(SubgoalRequest, delegation)


@given(responses())
def test_any_response_survives(response: Response):
    envelope_survives(AgentResponse, response)


@given(delegations(json_values))
def test_any_delegation_that_json_can_say_survives_as_json(delegation: Delegation):
    envelope_survives_as_json(SubgoalRequest, delegation)


@given(responses(json_values))
def test_any_response_that_json_can_say_survives_as_json(response: Response):
    envelope_survives_as_json(AgentResponse, response)


def test_an_agents_response_is_a_response_in_other_words():
    response = AgentResponse.parse(spec3_examples.IMPLEMENTATION).to_response()

    assert response.request_id == to_text(foreign_id("sg2"))
    assert response.external_id == "sg2"
    assert response.status is Status.COMPLETED
    assert response.summary.startswith("Implemented JWT authentication middleware")
    assert response.data["test_results"]["coverage_percent"] == 95.2
    assert response.confidence == 0.92
    assert response.tools_used == ("file_reader", "code_analyzer", "file_writer", "test_runner")
    assert response.elapsed == 4.567
    assert "duration_ms" not in response.metadata
    assert response.metadata["tokens_used"] == 3200


@pytest.mark.parametrize(
    ("confidence", "status"),
    [
        (1, Status.COMPLETED),
        (0.7, Status.COMPLETED),
        (0.69, Status.PARTIAL),
        (0.3, Status.PARTIAL),
        (0.29, Status.FAILED_EXECUTION),
        (0, Status.FAILED_EXECUTION),
    ],
)
def test_the_confidence_tells_the_status_where_there_is_none(confidence: float, status: Status):
    document = spec3_examples.agent_response(confidence=confidence)

    assert AgentResponse.parse(document).to_response().status is status


def test_the_partial_outputs_of_the_guide_are_partial():
    for document in (spec3_examples.FAILED_EXECUTION, spec3_examples.TIMED_OUT):
        assert AgentResponse.parse(document).to_response().status is Status.PARTIAL


def test_a_status_that_the_confidence_does_not_tell_is_kept():
    response = Response(request_id=REQUEST, status=Status.COMPLETED, confidence=0.2, summary="A guess.")

    view = AgentResponse.from_response(response)

    assert view.confidence == 0.2
    assert view.metadata == {"ether": {"status": "COMPLETED"}}
    assert view.to_response() == response


@pytest.mark.parametrize(
    ("status", "confidence"), [(Status.COMPLETED, 0.7), (Status.NEEDS_INPUT, 0.5), (Status.TIMEOUT, 0.0)]
)
def test_a_response_without_confidence_gets_the_least_that_its_status_means(status: Status, confidence: float):
    response = Response(request_id=REQUEST, status=status, summary="So it went.")

    view = AgentResponse.from_response(response)

    assert view.confidence == confidence
    assert view.to_response().confidence is None


def test_a_summary_is_never_empty():
    response = Response(request_id=REQUEST, status=Status.TIMEOUT, from_agent="supervisor")

    view = AgentResponse.from_response(response)

    assert view.summary == "TIMEOUT by supervisor"
    assert view.to_response().summary == ""


@pytest.mark.parametrize("data", ["text", b"opaque", 7, True])
def test_data_that_is_neither_dict_nor_list_stands_as_the_value_of_one(data: Any):
    response = Response(request_id=REQUEST, status=Status.COMPLETED, confidence=0.9, summary="Done.", data=data)

    view = AgentResponse.from_response(response)

    assert view.data == {"value": data}
    assert view.to_response() == response


def test_the_answer_goes_to_the_delegation_that_it_is_told():
    view = AgentResponse.parse(spec3_examples.IMPLEMENTATION)

    response = view.to_response(request_id=REQUEST)

    assert response.request_id == REQUEST
    assert response.external_id == "sg2"
    assert AgentResponse.from_response(response).subgoal_id == "sg2"


@pytest.mark.parametrize("missing", ["subgoal_id", "summary", "confidence", "tools_used", "metadata"])
def test_a_response_without_a_required_field_is_refused_by_name(missing: str):
    document = dict(spec3_examples.IMPLEMENTATION)
    del document[missing]

    with pytest.raises(InvalidEnvelope, match=f"AgentResponse is not valid: {missing}: Field required"):
        AgentResponse.parse(document)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confidence", 1.1),
        ("confidence", "high"),
        ("confidence", "0.9"),
        ("confidence", True),
        ("confidence", None),
        ("data", "text"),
        ("tools_used", "search"),
        ("tools_used", ["frobnicator"]),
        ("summary", ""),
        ("summary", " \n"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_by_name(field: str, value: Any):
    with pytest.raises(InvalidEnvelope, match=rf"^AgentResponse is not valid: {field}[^;]*$"):
        AgentResponse.parse(spec3_examples.agent_response(**{field: value}))


def test_a_misspelt_tool_is_refused_with_the_nearest():
    with pytest.raises(InvalidEnvelope, match=r"tools_used\.0: .*Did you mean 'file_reader'\?"):
        AgentResponse.parse(spec3_examples.agent_response(tools_used=["file_raeder"]))


def test_tools_of_an_agents_own_are_kept_beside_the_standard_ones():
    response = Response(request_id=REQUEST, status=Status.COMPLETED, tools_used=("ast_parser", "search"))

    view = AgentResponse.from_response(response)

    assert view.tools_used == ("search",)
    assert view.to_response() == response


def test_a_subgoal_is_a_delegation_in_other_words():
    goal = {
        "id": "sg1",
        "description": "Analyze billing.py",
        "criticality": "CRITICAL",
        "depends_on": ["sg0"],
    }
    view = SubgoalRequest(subgoal=goal, context={"sg0": "done"}, timeout=60, agent_id="code-analyzer")

    delegation = view.to_delegation()

    assert delegation.external_id == "sg1"
    assert delegation.objective == "Analyze billing.py"
    assert delegation.criticality is Criticality.CRITICAL
    assert delegation.context_slice == {"sg0": "done"}
    assert delegation.timeout == 60
    assert delegation.to_agent == "code-analyzer"
    assert delegation.capability == "*"


def test_the_same_subgoal_id_of_two_queries_is_two_requests():
    first, second, again = (
        SubgoalRequest(subgoal={"id": "sg1"}, query_id=query).to_delegation() for query in ("q1", "q2", "q1")
    )

    assert first.request_id != second.request_id
    assert first == again
    assert first.workflow == "q1"


def test_no_residue_when_spec_3_has_words_for_everything():
    delegation = Delegation(
        request_id=REQUEST, capability="a.b", objective="Read.", criticality=Criticality.LOW, timeout=60
    )

    assert SubgoalRequest.from_delegation(delegation).document() == {
        "subgoal": {"id": REQUEST, "description": "Read.", "criticality": "LOW"},
        "timeout": 60,
        "capability": "a.b",
    }


@pytest.mark.parametrize("goal", [{}, {"id": ""}, {"id": 7}])
def test_a_subgoal_without_an_id_is_refused(goal: dict[str, Any]):
    with pytest.raises(InvalidEnvelope, match=r"subgoal: a subgoal has an id, such as 'sg1'"):
        SubgoalRequest.parse({"subgoal": goal})
