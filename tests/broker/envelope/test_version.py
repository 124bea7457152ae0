from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.model import Model
from ether_broker.envelope.response import Response
from ether_broker.envelope.version import SCHEMA_VERSION, check_schema_version, is_semantic
from ether_broker.errors import IncompatibleVersion, InvalidEnvelope, InvalidManifest
from tests.broker.strategies import delegations, json_values

DOCUMENTS: list[tuple[type[Model], dict[str, Any]]] = [
    (Delegation, {"request_id": "r", "capability": "a.b"}),
    (Response, {"request_id": "r", "status": 2}),
    (Manifest, {"agent": "scout"}),
]


@pytest.mark.parametrize(("model", "document"), DOCUMENTS)
def test_a_newer_minor_version_is_read_and_its_unknown_fields_are_dropped(model: type[Model], document: dict[str, Any]):
    newer = {**document, "schema_version": "1.7", "mood": "bright"}

    read = model.parse(newer)

    assert read == model.parse({**document, "schema_version": "1.7"})
    assert newer["mood"] == "bright"


def test_unknown_fields_of_a_newer_minor_version_are_dropped_at_any_depth():
    document = {
        "request_id": "r",
        "status": 2,
        "artifacts": [{"path": "a.md", "owner": "scout"}],
        "error": {"code": "x", "message": "y", "hint": "z"},
        "next_actions": [{"request_id": "s", "capability": "a", "urgency": 3, "budget": {"max_joules": 1}}],
        "schema_version": "1.1",
    }

    response = Response.parse(json.loads(json.dumps(document)))

    assert response.artifacts[0].path == "a.md"
    assert response.error is not None
    assert response.error.code == "x"
    assert response.next_actions[0].budget is not None


def test_a_newer_minor_version_with_a_field_of_the_wrong_type_is_refused_for_that():
    document = {"request_id": "r", "capability": "a", "timeout": "soon", "mood": 1, "schema_version": "1.7"}

    with pytest.raises(InvalidEnvelope, match=r"^Delegation is not valid: timeout: [^;]*$"):
        Delegation.parse(document)


@pytest.mark.parametrize(("model", "document"), DOCUMENTS)
@pytest.mark.parametrize("extra", [{}, {"mood": "bright"}])
def test_a_newer_major_version_is_refused_whatever_its_fields(
    model: type[Model], document: dict[str, Any], extra: dict[str, Any]
):
    with pytest.raises(
        IncompatibleVersion, match=r"has schema version 2\.0 and this Ether reads 1\.0: upgrade agent-ether"
    ):
        model.parse({**document, **extra, "schema_version": "2.0"})


@pytest.mark.parametrize(("model", "document"), DOCUMENTS)
def test_an_unknown_field_of_our_version_is_refused(model: type[Model], document: dict[str, Any]):
    pattern = r"mood: Extra inputs are not permitted\. (Known|Did you mean)"
    with pytest.raises((InvalidEnvelope, InvalidManifest), match=pattern):
        model.parse({**document, "mood": "bright"})


@pytest.mark.parametrize(
    ("model", "misspelt", "meant"),
    [
        (Delegation, "capabilty", "capability"),
        (Delegation, "param", "params"),
        (Delegation, "context_slic", "context_slice"),
        (Response, "artefacts", "artifacts"),
        (Manifest, "capabilites", "capabilities"),
    ],
)
def test_a_misspelt_field_is_refused_with_the_nearest_name(model: type[Model], misspelt: str, meant: str):
    with pytest.raises((InvalidEnvelope, InvalidManifest), match=rf"{misspelt}: .* Did you mean '{meant}'\?"):
        model.parse({misspelt: "x"})


@pytest.mark.parametrize("version", ["", "1", "1.0.0", "v1.0", "one", "1.x", "-1.0", "99999.0"])
def test_a_version_that_is_none_is_refused(version: str):
    with pytest.raises(InvalidEnvelope, match=r"schema_version .* is not MAJOR\.MINOR, such as '1\.0'"):
        check_schema_version(version)
    with pytest.raises(InvalidEnvelope, match="schema_version"):
        Delegation.parse({"request_id": "r", "capability": "a", "schema_version": version})


@pytest.mark.parametrize("version", [1.0, None, ["1.0"]])
def test_a_version_that_is_no_text_is_refused(version: Any):
    with pytest.raises(InvalidEnvelope, match="schema_version"):
        Delegation.parse({"request_id": "r", "capability": "a", "schema_version": version})


@pytest.mark.parametrize(("version", "newer"), [("0.9", False), ("1.0", False), ("1.1", True), ("1.10", True)])
def test_only_a_newer_minor_version_may_have_unknown_fields(version: str, newer: bool):
    assert check_schema_version(version) is newer


@pytest.mark.parametrize("major", ["2", "10"])
def test_majors_are_compared_as_numbers(major: str):
    with pytest.raises(IncompatibleVersion):
        check_schema_version(f"{major}.0")


@given(delegations(json_values), st.dictionaries(st.text("xyz", min_size=4, max_size=6), json_values, max_size=2))
def test_what_we_write_a_newer_minor_version_can_read_and_the_other_way_round(
    delegation: Delegation, unknown: dict[str, Any]
):
    document = delegation.model_dump(mode="json", by_alias=True)

    assert Delegation.parse(document) == delegation
    newer = Delegation.parse({**document, **unknown, "schema_version": "1.99"})
    assert newer == delegation.model_copy(update={"schema_version": "1.99"})


@pytest.mark.parametrize("version", ["0.0.0", "1.2.0", "10.20.30", "1.0.0-rc.1", "1.0.0+build", "1.0.0-a+b"])
def test_semantic_versions_are_told(version: str):
    assert is_semantic(version)


@pytest.mark.parametrize("version", ["", "1", "1.2", "1.2.3.4", "01.2.3", "v1.2.3", "1.2.3-", "1.2.x", "1.2.3\n"])
def test_what_is_no_semantic_version_is_told(version: str):
    assert not is_semantic(version)


def test_our_version_is_one():
    assert check_schema_version(SCHEMA_VERSION) is False
