from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from ether_broker.encoding.frozen import FrozenDict, FrozenList
from ether_broker.envelope.delegation import Budget, Criticality, Delegation, OutputContract
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.errors import InvalidEnvelope, Unserialisable
from tests.broker.encoding.test_frozen import CHANGES_OF_A_DICT, CHANGES_OF_A_LIST, inside
from tests.broker.strategies import delegations, json_values

REQUEST = to_text(new_id())
MAPS = ("permissions", "extensions")


def test_only_an_id_and_a_capability_are_required():
    delegation = Delegation(request_id=REQUEST, capability="research.context.deepen")

    assert delegation.from_agent is None
    assert delegation.to_agent is None
    assert delegation.params is None
    assert delegation.context_slice is None
    assert delegation.criticality is Criticality.MEDIUM
    assert delegation.attempt == 1
    assert delegation.deadline is None
    assert delegation.schema_version == "1.0"


@given(delegations())
def test_no_field_can_be_set_or_deleted(delegation: Delegation):
    for name in Delegation.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(delegation, name, None)
        with pytest.raises(ValidationError, match="frozen"):
            delattr(delegation, name)
    with pytest.raises(ValidationError):
        delegation.other = 1  # type: ignore[attr-defined]


@given(delegations())
def test_nothing_that_a_delegation_holds_can_be_changed(delegation: Delegation):
    before = copy.deepcopy(delegation)
    values = [getattr(delegation, name) for name in (*MAPS, "params", "context_slice")]
    for container in (inner for value in values for inner in inside(value)):
        assert type(container) in {FrozenDict, FrozenList}
        for change in (CHANGES_OF_A_DICT if isinstance(container, dict) else CHANGES_OF_A_LIST).values():
            with pytest.raises(TypeError, match="does not change"):
                change(container)
    assert delegation == before


def test_changing_what_was_passed_in_changes_nothing():
    params = {"topics": ["ZeroMQ"], "options": {"depth": 2}}
    permissions = {"paths": ["/tmp"]}
    vector = ["Sources"]
    delegation = Delegation(
        request_id=REQUEST,
        capability="a",
        params=params,
        context_slice=params,
        permissions=permissions,
        dependency_vector=vector,  # type: ignore[arg-type]
    )

    params["topics"].append("pykka")  # type: ignore[attr-defined]
    params["options"].clear()  # type: ignore[attr-defined]
    permissions["paths"].clear()
    vector.clear()

    assert delegation.params == {"topics": ["ZeroMQ"], "options": {"depth": 2}}
    assert delegation.context_slice == delegation.params
    assert delegation.permissions == {"paths": ["/tmp"]}
    assert delegation.dependency_vector == ("Sources",)


@given(delegations())
def test_copies_and_pickles_are_equal(delegation: Delegation):
    for again in (
        copy.copy(delegation),
        copy.deepcopy(delegation),
        pickle.loads(pickle.dumps(delegation)),
        delegation.model_copy(deep=True),
    ):
        assert again == delegation
        assert hash(again) == hash(delegation)
        assert type(again.permissions) is FrozenDict


@given(delegations(json_values))
def test_a_delegation_that_json_can_say_survives_it(delegation: Delegation):
    text = delegation.model_dump_json(by_alias=True)

    assert Delegation.parse(json.loads(text)) == delegation
    assert Delegation.parse(json.loads(delegation.model_dump_json(by_alias=True, exclude_defaults=True))) == delegation


@given(delegations())
def test_a_plain_dump_can_be_changed_by_its_caller(delegation: Delegation):
    before = copy.deepcopy(delegation)

    for container in list(inside(delegation.model_dump(by_alias=True))):
        container.clear()

    assert delegation == before


def test_a_changed_copy_leaves_the_original():
    delegation = Delegation(request_id=REQUEST, capability="a", timeout=60)

    sent = delegation.model_copy(update={"from_agent": "planner", "timestamp": 1000.0})

    assert delegation.from_agent is None
    assert sent.deadline == 1060.0
    assert sent != delegation


def test_the_deadline_is_the_time_of_sending_and_the_timeout():
    assert Delegation(request_id=REQUEST, capability="a", timestamp=100.0, timeout=2.5).deadline == 102.5
    assert Delegation(request_id=REQUEST, capability="a", timestamp=100.0).deadline is None
    assert Delegation(request_id=REQUEST, capability="a", timeout=2.5).deadline is None


def test_a_payload_of_another_delegation_is_shared_and_not_packed_again():
    first = Delegation(request_id=REQUEST, capability="a", params={"x": [1]})

    second = Delegation(request_id=REQUEST, capability="b", params=first.params_payload)

    assert second.params_payload is first.params_payload


def test_opaque_bytes_are_a_body():
    assert Delegation(request_id=REQUEST, capability="a", params=b"\x00\xff").params == b"\x00\xff"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", 7),
        ("request_id", None),
        ("from_agent", "two words"),
        ("from_agent", ""),
        ("to_agent", "-dash"),
        ("to_agent", "a" * 201),
        ("to_agent", "new\nline"),
        ("capability", ""),
        ("capability", "research..deepen"),
        ("capability", ".deepen"),
        ("capability", "research.*"),
        ("capability", "a" * 201),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("attempt", 0),
        ("attempt", 256),
        ("permissions", ["read"]),
        ("permissions", {1: "one"}),
        ("criticality", "urgent"),
        ("budget", {"max_cost": -1}),
        ("budget", {"max_cots": 1}),
        ("output_contract", {"quality_gates": "G1"}),
        ("dependency_vector", "Sources"),
        ("objective", b"\xff"),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(field: str, value: Any):
    document = {"request_id": REQUEST, "capability": "a", field: value}

    with pytest.raises(InvalidEnvelope, match=rf"^Delegation is not valid: {field}"):
        Delegation.parse(document)


@pytest.mark.parametrize("name", ["scout", "scout-1", "node/scout:2", "_x", "7", "a@b.c", "a" * 200])
def test_names_that_agents_may_have(name: str):
    assert Delegation(request_id=REQUEST, capability="a", to_agent=name).to_agent == name


@pytest.mark.parametrize("name", ["a", "explore_directory", "qa.verification.multi-claim", "*", "7.a_b-c"])
def test_names_that_capabilities_may_have(name: str):
    assert Delegation(request_id=REQUEST, capability=name).capability == name


def test_a_value_that_cannot_travel_is_refused_when_the_delegation_is_made():
    with pytest.raises(Unserialisable, match=r"\['topics'\]\[0\] is a object, which cannot travel"):
        Delegation(request_id=REQUEST, capability="a", params={"topics": [object()]})


@pytest.mark.parametrize("document", [None, 7, "text", [], b"bytes"])
def test_what_is_no_dict_is_no_delegation(document: Any):
    with pytest.raises(InvalidEnvelope, match=r"Delegation is not valid: \(the whole\): "):
        Delegation.parse(document)


def test_every_problem_of_a_document_is_told_at_once():
    with pytest.raises(InvalidEnvelope, match=r"request_id: .*; capability: .*; timeout: .*; moood: "):
        Delegation.parse({"timeout": -1, "moood": 1})


def test_budget_and_contract_have_no_limits_and_no_wishes_by_default():
    assert Budget() == Budget(max_cost=None, max_tokens=None, max_time_sec=None, max_iterations=None)
    assert OutputContract() == OutputContract(artifact_type="", expected_sections=(), quality_gates=())
