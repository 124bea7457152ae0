from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.delegation import Budget, Delegation
from ether_broker.envelope.ids import foreign_id, new_id, to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import AgentStatus, Status
from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput
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

amounts = st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**63)
counts = st.none() | st.integers(0, 2**63) | st.integers(0, 2**40).map(float)
budget_documents = st.fixed_dictionaries(
    {}, optional={"max_cost": amounts, "max_tokens": counts, "max_time_sec": amounts, "max_iterations": counts}
)
contexts = st.fixed_dictionaries(
    {},
    optional={
        "parent_task": ids | json_values,
        "workflow": json_values,
        "budget": st.none() | budget_documents,
        "permissions": st.none() | json_maps,
        "force_refresh": json_values,
    },
)
input_documents = st.fixed_dictionaries(
    {
        "task_id": ids,
        "agent": agent_names | st.just("*"),
        "action": capability_names,
        "params": json_maps,
    },
    optional={"context": st.none() | contexts},
)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "duration_ms": json_values | st.integers(0, 10**6),
        "timestamp": json_values | st.sampled_from(["2025-12-03T15:45:00Z", "2025-12-03t15:45:00.1234567+02:00"]),
        "cost": json_values,
    },
)
output_documents = st.fixed_dictionaries(
    {
        "task_id": ids,
        "status": st.sampled_from(["success", "error", "partial"]),
        "agent": agent_names | st.just("*"),
        "data": json_maps | st.fixed_dictionaries({"error": texts}, optional={"traceback": json_values}),
        "metadata": metadata,
    },
    optional={"next_actions": st.none() | st.lists(input_documents, max_size=2)},
)


@pytest.mark.parametrize("document", spec_examples.AGENT_INPUTS)
def test_example_inputs_survive_word_for_word(document: dict[str, Any]):
    document_survives(AgentInput, document)


@pytest.mark.parametrize("document", spec_examples.AGENT_OUTPUTS)
def test_example_outputs_survive_word_for_word(document: dict[str, Any]):
    document_survives(AgentOutput, document)


@given(input_documents)
def test_any_input_survives(document: dict[str, Any]):
    document_survives(AgentInput, document)


@given(output_documents)
def test_any_output_survives(document: dict[str, Any]):
    document_survives(AgentOutput, document)


@given(delegations())
def test_any_delegation_survives(delegation: Delegation):
    envelope_survives(AgentInput, delegation)


@given(responses())
def test_any_response_survives(response: Response):
    envelope_survives(AgentOutput, response)


@given(delegations(json_values))
def test_any_delegation_that_json_can_say_survives_as_json(delegation: Delegation):
    envelope_survives_as_json(AgentInput, delegation)


@given(responses(json_values))
def test_any_response_that_json_can_say_survives_as_json(response: Response):
    envelope_survives_as_json(AgentOutput, response)


def test_an_input_is_a_delegation_in_other_words():
    delegation = AgentInput.parse(json.loads(spec_examples.AGENT_INPUT)).to_delegation()

    assert delegation.request_id == "550e8400-e29b-41d4-a716-446655440000"
    assert delegation.external_id is None
    assert delegation.to_agent == "scout"
    assert delegation.capability == "explore_directory"
    assert delegation.params == {"path": "/workspace/projects/reveal", "depth": 2}
    assert delegation.workflow == "code_review_campaign"
    assert delegation.budget == Budget(max_cost=0.5, max_time_sec=300)
    assert delegation.timestamp is None


def test_bounds_of_autonomy_reach_the_delegation():
    delegation = AgentInput.parse(spec_examples.BOUNDED_INPUT).to_delegation()

    assert delegation.budget == Budget(max_cost=0.5, max_time_sec=300, max_iterations=20)
    assert delegation.permissions == {"can_modify_files": False, "can_access_network": False}
    assert delegation.external_id == "..."


@pytest.mark.parametrize(
    ("budget", "complaint"),
    [
        ({"max_cost": "0.10"}, r"context\.budget\.max_cost is '0\.10': write a number, 0 or more, such as 0\.1"),
        ({"max_time_sec": "0.2"}, r"context\.budget\.max_time_sec is '0\.2': write a number"),
        ({"max_cost": False}, r"context\.budget\.max_cost is False: write a number"),
        ({"max_cost": float("nan")}, "max_cost: Input should be a finite number"),
        ({"max_cost": -1}, r"context\.budget is \{'max_cost': -1\}: .*max_cost: Input should be greater than or equal"),
        ({"max_tokens": 0.5}, "max_tokens: Input should be a valid integer"),
        ({"max_costs": 0.1}, r"max_costs: .* Did you mean 'max_cost'\?"),
        ({"currency": "EUR"}, r"currency: .* Known: max_cost, max_iterations, max_time_sec, max_tokens"),
        ([0.1], r"context\.budget is \[0\.1\]: .*Input should be a valid dictionary"),
    ],
)
def test_a_budget_that_could_not_be_kept_is_refused(budget: Any, complaint: str):
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context={"budget": budget})

    with pytest.raises(InvalidEnvelope, match=complaint):
        view.to_delegation()


def test_a_whole_float_is_a_count_and_none_is_no_limit():
    budget = {"max_tokens": 100.0, "max_iterations": None, "max_cost": 1}
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context={"budget": budget})

    assert view.to_delegation().budget == Budget(max_tokens=100, max_cost=1.0)
    assert AgentInput.from_delegation(view.to_delegation()).document() == view.document()


@pytest.mark.parametrize("permissions", [["read"], "all", {1: False}])
def test_permissions_that_are_none_are_refused(permissions: Any):
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context={"permissions": permissions})

    with pytest.raises(InvalidEnvelope, match="permissions: expected a dict with text keys"):
        view.to_delegation()


def test_a_foreign_parent_is_kept_as_it_was_and_is_no_parent_on_the_bus():
    delegation = AgentInput.parse(json.loads(spec_examples.AGENT_INPUT)).to_delegation()

    assert delegation.parent is None
    assert AgentInput.from_delegation(delegation).context["parent_task"] == "abc-def-123"


def test_the_parent_of_a_sub_delegation_is_told_and_comes_back():
    delegation = Delegation(request_id=REQUEST, capability="a", parent=REQUEST)

    assert AgentInput.from_delegation(delegation).context["parent_task"] == REQUEST
    assert AgentInput.from_delegation(delegation).to_delegation() == delegation


@pytest.mark.parametrize("status", [Status.REJECTED_CONTEXT, Status.TIMEOUT, Status.FAILED_EXECUTION])
def test_an_error_without_more_than_a_summary_says_so_in_its_data(status: Status):
    response = Response(request_id=REQUEST, status=status, summary="Which city?")

    output = AgentOutput.from_response(response)

    assert (output.status, output.data) == (AgentStatus.ERROR, {"error": "Which city?"})
    assert output.to_response() == response


def test_the_same_input_is_the_same_request():
    document = json.loads(spec_examples.AGENT_OUTPUT)["next_actions"][0]

    first, second = AgentInput.parse(document).to_delegation(), AgentInput.parse(document).to_delegation()

    assert first == second
    assert first.request_id == to_text(foreign_id("new-uuid"))


def test_an_output_is_a_response_in_other_words():
    response = AgentOutput.parse(json.loads(spec_examples.AGENT_OUTPUT)).to_response()

    assert response.status is Status.COMPLETED
    assert response.from_agent == "scout"
    assert response.data["files_found"] == 42
    assert response.elapsed == 3.5
    assert response.timestamp == 1764776700.0
    assert response.metadata == {"cost": 0.0012, "iterations": 8, "model": "llama-3.3-70b-versatile"}
    assert [action.capability for action in response.next_actions] == ["analyze_file"]


def test_an_error_is_a_failure_with_its_message_and_traceback():
    response = AgentOutput.parse(spec_examples.FAILED_ACTION).to_response()

    assert response.status is Status.FAILED_EXECUTION
    assert response.error == ErrorInfo(
        code="failed",
        message="Insufficient budget for exploration",
        traceback="Traceback (most recent call last):\n",
    )
    assert response.data is None


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.ACCEPTED, AgentStatus.PARTIAL),
        (Status.COMPLETED, AgentStatus.SUCCESS),
        (Status.REJECTED_CAPABILITY, AgentStatus.ERROR),
        (Status.REJECTED_CONTEXT, AgentStatus.ERROR),
        (Status.TIMEOUT, AgentStatus.ERROR),
        (Status.FAILED_EXECUTION, AgentStatus.ERROR),
        (Status.PROGRESS, AgentStatus.PARTIAL),
        (Status.PARTIAL, AgentStatus.PARTIAL),
        (Status.NEEDS_INPUT, AgentStatus.PARTIAL),
        (Status.REJECTED_OVERLOAD, AgentStatus.ERROR),
        (Status.CANCELLED, AgentStatus.ERROR),
    ],
)
def test_each_status_has_its_word_in_spec_1(status: Status, word: AgentStatus):
    output = AgentOutput.from_response(Response(request_id=REQUEST, status=status))

    assert output.status is word
    assert output.to_response().status is status


def test_a_failure_tells_its_error_where_spec_1_looks_for_it():
    error = ErrorInfo(code="node_lost", message="the node is gone", traceback="…", retryable=True)
    response = Response(request_id=REQUEST, status=Status.FAILED_EXECUTION, from_agent="scout", error=error)

    output = AgentOutput.from_response(response)

    assert output.data == {"error": "the node is gone", "traceback": "…"}
    assert output.metadata["ether"] == {"error": {"code": "node_lost", "retryable": True}}


@pytest.mark.parametrize("data", [[1, 2], "text", b"opaque", 7, {1: "one"}])
def test_data_that_is_no_dict_stands_as_the_value_of_one(data: Any):
    response = Response(request_id=REQUEST, status=Status.COMPLETED, from_agent="scout", data=data)

    output = AgentOutput.from_response(response)

    assert output.data == {"value": data}
    assert output.metadata == {"ether": {"bare": True}}
    assert output.to_response() == response


def test_a_dict_with_the_one_key_value_is_itself():
    response = Response(request_id=REQUEST, status=Status.COMPLETED, from_agent="scout", data={"value": 1})

    output = AgentOutput.from_response(response)

    assert output.metadata == {}
    assert output.to_response().data == {"value": 1}


def test_no_residue_when_spec_1_has_words_for_everything():
    delegation = Delegation(request_id=REQUEST, to_agent="scout", capability="explore", params={"path": "."})

    assert AgentInput.from_delegation(delegation).document() == {
        "task_id": REQUEST,
        "agent": "scout",
        "action": "explore",
        "params": {"path": "."},
    }


def test_what_spec_1_cannot_say_is_under_one_key():
    delegation = Delegation(
        request_id=REQUEST,
        from_agent="planner",
        to_agent="scout",
        capability="explore",
        params={},
        timeout=2.5,
    )

    assert AgentInput.from_delegation(delegation).context == {"ether": {"from_agent": "planner", "timeout": 2.5}}


def test_a_spelling_is_not_used_once_the_envelope_says_something_else():
    context = {"budget": {"max_time_sec": 300, "max_tokens": None}, "parent_task": "abc-def-123", "note": 1}
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context=context)

    cut = view.to_delegation().model_copy(update={"budget": Budget(max_time_sec=20.0), "parent": REQUEST})
    again = AgentInput.from_delegation(cut)

    assert again.context is not None
    assert again.context["budget"] == {"max_time_sec": 20, "max_tokens": None}
    assert again.context["parent_task"] == "abc-def-123"
    assert again.to_delegation() == cut
    assert again.context["note"] == 1
    assert again.to_delegation() == cut


@pytest.mark.parametrize("context", [{}, None])
def test_an_empty_context_makes_room_for_the_residue_and_is_told_by_it(context: dict[str, Any] | None):
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context=context)

    sent = view.to_delegation().model_copy(update={"from_agent": "planner"})
    again = AgentInput.from_delegation(sent)

    assert again.context is not None
    assert list(again.context) == ["ether"]
    assert again.to_delegation() == sent
    assert AgentInput.from_delegation(again.to_delegation()) == again


def test_what_is_kept_for_the_view_may_be_nonsense_and_is_kept_nevertheless():
    for nonsense in (5, "text", {"context": {"ether": 1}}, {"drop": 7}, {"agent": "two words"}, {"": {}}):
        delegation = Delegation(
            request_id=REQUEST, to_agent="scout", capability="a", params={}, extensions={"agent_io": nonsense}
        )
        view = AgentInput.from_delegation(delegation)

        assert view.agent == "scout"
        assert view.to_delegation() == delegation


@pytest.mark.parametrize("missing", ["task_id", "agent", "action", "params"])
def test_an_input_without_a_required_field_is_refused_by_name(missing: str):
    document = json.loads(spec_examples.AGENT_INPUT)
    del document[missing]

    with pytest.raises(InvalidEnvelope, match=rf"AgentInput is not valid: {missing}: Field required"):
        AgentInput.parse(document)


def test_an_unknown_field_is_refused_with_the_nearest_name():
    document = {**json.loads(spec_examples.AGENT_INPUT), "parms": {}}

    with pytest.raises(InvalidEnvelope, match=r"parms: .* Did you mean 'params'\?"):
        AgentInput.parse(document)


@pytest.mark.parametrize("agent", ["", "two words", "**", "-x", "a" * 201])
def test_a_name_that_no_agent_can_have_is_refused(agent: str):
    with pytest.raises(InvalidEnvelope, match="agent: "):
        AgentInput.parse({"task_id": "t", "agent": agent, "action": "explore", "params": {}})


def test_an_empty_task_id_is_refused():
    with pytest.raises(InvalidEnvelope, match="task_id: "):
        AgentInput.parse({"task_id": "", "agent": "scout", "action": "explore", "params": {}})


def test_the_reserved_key_takes_a_residue_only():
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context={"ether": "mine"})

    with pytest.raises(InvalidEnvelope, match=r"context\.ether is reserved"):
        view.to_delegation()


@pytest.mark.parametrize(
    ("residue", "complaint"),
    [
        ({"timeuot": 5}, r"timeuot: .* Did you mean 'timeout'\?"),
        ({"timeout": "soon"}, "timeout: "),
        ({"drop": "params"}, "drop: expected a list of paths"),
        ({"drop": [[]]}, "drop: expected a list of paths"),
    ],
)
def test_a_residue_that_is_none_is_refused(residue: dict[str, Any], complaint: str):
    view = AgentInput(task_id="t", agent="scout", action="explore", params={}, context={"ether": residue})

    with pytest.raises(InvalidEnvelope, match=complaint):
        view.to_delegation()


def test_a_residue_with_an_unknown_status_is_refused_with_the_nearest():
    view = AgentOutput(
        task_id="t",
        status=AgentStatus.ERROR,
        agent="scout",
        data={},
        metadata={"ether": {"status": "TIMOUT"}},
    )

    with pytest.raises(InvalidEnvelope, match=r"'TIMOUT' is no status code\. Did you mean 'TIMEOUT'\?"):
        view.to_response()


def test_a_view_does_not_change():
    view = AgentInput.parse(json.loads(spec_examples.AGENT_INPUT))

    with pytest.raises(TypeError, match="does not change"):
        view.params["path"] = "/"
    with pytest.raises(ValueError, match="frozen"):
        view.agent = "other"  # type: ignore[misc]
