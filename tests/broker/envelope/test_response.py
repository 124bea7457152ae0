from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from ether_broker import errors
from ether_broker.encoding.frozen import FrozenDict, FrozenList
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidEnvelope, OutcomeError
from tests.broker.encoding.test_frozen import CHANGES_OF_A_DICT, CHANGES_OF_A_LIST, inside
from tests.broker.strategies import json_values, responses

REQUEST = to_text(new_id())


@given(responses())
def test_no_field_can_be_set_or_deleted(response: Response):
    for name in Response.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(response, name, None)
        with pytest.raises(ValidationError, match="frozen"):
            delattr(response, name)


@given(responses())
def test_nothing_that_a_response_holds_can_be_changed(response: Response):
    before = copy.deepcopy(response)
    values = [response.data, response.metrics, response.metadata, response.extensions]
    for container in (inner for value in values for inner in inside(value)):
        assert type(container) in {FrozenDict, FrozenList}
        for change in (CHANGES_OF_A_DICT if isinstance(container, dict) else CHANGES_OF_A_LIST).values():
            with pytest.raises(TypeError, match="does not change"):
                change(container)
    for held in (*response.artifacts, *response.next_actions, *filter(None, [response.error])):
        for name in type(held).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(held, name, None)
    assert response == before


def test_changing_what_was_passed_in_changes_nothing():
    data = {"files": ["a.py"]}
    metrics = {"sources": {"web": 7}}
    open_issues = ["variance"]
    response = Response(
        request_id=REQUEST,
        status=Status.COMPLETED,
        data=data,
        metrics=metrics,  # type: ignore[arg-type]
        unresolved=open_issues,  # type: ignore[arg-type]
    )

    data["files"].append("b.py")
    metrics["sources"].clear()
    open_issues.clear()

    assert response.data == {"files": ["a.py"]}
    assert response.metrics == {"sources": {"web": 7}}
    assert response.unresolved == ("variance",)


@given(responses())
def test_copies_and_pickles_are_equal(response: Response):
    for again in (
        copy.copy(response),
        copy.deepcopy(response),
        pickle.loads(pickle.dumps(response)),
        response.model_copy(deep=True),
    ):
        assert again == response
        assert hash(again) == hash(response)
        assert type(again.metadata) is FrozenDict


@given(responses(json_values))
def test_a_response_that_json_can_say_survives_it(response: Response):
    assert Response.parse(json.loads(response.model_dump_json(by_alias=True))) == response
    assert Response.parse(json.loads(response.model_dump_json(by_alias=True, exclude_defaults=True))) == response


@pytest.mark.parametrize("status", Status)
def test_a_completed_response_unwraps_to_itself_and_any_other_raises(status: Status):
    kinds = {
        Status.REJECTED_CAPABILITY: errors.Rejected,
        Status.REJECTED_CONTEXT: errors.Rejected,
        Status.REJECTED_OVERLOAD: errors.Rejected,
        Status.TIMEOUT: errors.TimedOut,
        Status.CANCELLED: errors.Cancelled,
        Status.FAILED_EXECUTION: errors.Failed,
        Status.PARTIAL: errors.Unfinished,
        Status.NEEDS_INPUT: errors.Unfinished,
        Status.ACCEPTED: errors.Unfinished,
        Status.PROGRESS: errors.Unfinished,
    }
    response = Response(request_id=REQUEST, status=status, from_agent="scout", summary="So it went.")

    assert response.ok is (status is Status.COMPLETED)
    if response.ok:
        assert response.unwrap() is response
        return
    with pytest.raises(OutcomeError, match=f"^{status.name} by scout: So it went\\.$") as caught:
        response.unwrap()
    assert type(caught.value) is kinds[status]
    assert caught.value.response is response


def test_what_unwrapping_raises_has_the_code_of_the_response_and_says_whether_it_may_be_tried_again():
    full = ErrorInfo(code="journal_unavailable", message="The disk is full.", retryable=True)
    response = Response(request_id=REQUEST, status=Status.REJECTED_OVERLOAD, from_agent="ether", error=full)

    with pytest.raises(errors.Rejected) as caught:
        response.unwrap()

    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.code, error.retryable) == ("journal_unavailable", True)
    assert (errors.Rejected.code, errors.Rejected.retryable) == ("rejected", False)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"status": Status.TIMEOUT}, "TIMEOUT by nobody"),
        ({"status": Status.TIMEOUT, "from_agent": "supervisor"}, "TIMEOUT by supervisor"),
        ({"status": Status.COMPLETED, "from_agent": "a", "summary": "Done."}, "COMPLETED by a: Done."),
        (
            {
                "status": Status.FAILED_EXECUTION,
                "from_agent": "a",
                "summary": "Done.",
                "error": ErrorInfo(code="node_lost", message="the node is gone"),
            },
            "FAILED_EXECUTION by a: node_lost: the node is gone",
        ),
        (
            {
                "status": Status.PARTIAL,
                "from_agent": "a",
                "summary": "Read two.",
                "unresolved": ["half is missing", "b", "c"],
            },
            "PARTIAL by a: Read two. half is missing (and 2 more)",
        ),
        ({"status": Status.NEEDS_INPUT, "from_agent": "a", "questions": ["When?"]}, "NEEDS_INPUT by a: When?"),
        ({"status": Status.COMPLETED, "from_agent": "a", "unresolved": ["Later."]}, "COMPLETED by a"),
    ],
)
def test_a_response_explains_itself_in_a_sentence(fields: dict[str, Any], sentence: str):
    assert Response(request_id=REQUEST, **fields).explain() == sentence


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", 0),
        ("status", 12),
        ("status", "DONE"),
        ("status", None),
        ("from_agent", "two words"),
        ("confidence", 1.01),
        ("confidence", -0.01),
        ("confidence", float("nan")),
        ("progress", 2),
        ("retry_after", -1),
        ("elapsed", -0.1),
        ("attempt", 0),
        ("metrics", [1]),
        ("metadata", {1: 1}),
        ("artifacts", [{"sha256": "00"}]),
        ("artifacts", [{"path": "a", "size": -1}]),
        ("error", {"code": "x"}),
        ("next_actions", [{"capability": "a"}]),
        ("alternative_agent", ""),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(field: str, value: Any):
    with pytest.raises(InvalidEnvelope, match=rf"^Response is not valid: {field}"):
        Response.parse({"request_id": REQUEST, "status": 2, field: value})


def test_nested_models_are_read_from_plain_documents():
    response = Response.parse(
        {
            "request_id": REQUEST,
            "status": 6,
            "artifacts": [{"path": "a.md", "sha256": "00", "size": 2}],
            "error": {"code": "exception", "message": "boom", "retryable": True},
            "next_actions": [{"request_id": REQUEST, "capability": "a.b", "params": {"x": 1}}],
        }
    )

    assert response.artifacts == (Artifact(path="a.md", sha256="00", size=2),)
    assert response.error == ErrorInfo(code="exception", message="boom", retryable=True)
    assert response.next_actions == (Delegation(request_id=REQUEST, capability="a.b", params={"x": 1}),)


def test_what_is_printed_is_what_it_says_under_the_names_by_which_it_is_given():
    response = Response(request_id="r", status=Status.PARTIAL, data={"n": 1}, unresolved=["the rest"])

    assert repr(response) == "Response(request_id='r', status=Status.PARTIAL, data={'n': 1}, unresolved=('the rest',))"
