from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ether_broker.envelope.model import Model
from ether_broker.envelope.version import SCHEMA_VERSION
from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput
from ether_broker.envelope.views.handoff import RequestEnvelope, ResponseEnvelope
from ether_broker.envelope.views.subgoal import AgentResponse, SubgoalRequest
from ether_broker.wire.json_schema import MODELS, file_name, schemas, write_schemas
from tests.broker.envelope.views import spec3_examples, spec_examples
from tests.broker.strategies import delegations, json_values, manifests, responses
from tests.support import REPOSITORY

FOLDER = REPOSITORY / "docs" / "schemas"
SCHEMAS = schemas()
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}

EXAMPLES = {
    "agent-input": spec_examples.AGENT_INPUTS,
    "agent-output": spec_examples.AGENT_OUTPUTS,
    "request-envelope": spec_examples.REQUEST_ENVELOPES,
    "response-envelope": spec_examples.RESPONSE_ENVELOPES,
    "capability-manifest": spec_examples.MANIFESTS,
    "registry-entry": spec_examples.REGISTRY_ENTRIES,
    "suggestion-record": spec_examples.SUGGESTION_RECORDS,
    "subgoal-request": spec3_examples.SUBGOAL_REQUESTS,
    "agent-response": spec3_examples.AGENT_RESPONSES,
    "agent-info": spec3_examples.AGENT_INFOS,
    "manifest": spec_examples.MANIFESTS,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_committed_schema_is_the_generated_one(name: str, tmp_path: Path):
    write_schemas(tmp_path)

    committed, generated = FOLDER / file_name(name), tmp_path / file_name(name)

    assert committed.read_bytes() == generated.read_bytes(), "run `ether schema` and commit docs/schemas"


def test_no_committed_schema_is_left_over():
    known = {*(file_name(name) for name in MODELS), "cluster-file.v1.json"}  # tests/cli/test_schema.py has that one

    assert {path.name for path in FOLDER.iterdir()} == known


def test_writing_makes_the_folder_and_names_its_files(tmp_path: Path):
    written = write_schemas(tmp_path / "new" / "folder")

    assert [path.name for path in written] == [file_name(name) for name in MODELS]
    assert all(json.loads(path.read_text(encoding="utf-8")) for path in written)


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items(), ids=SCHEMAS)
def test_each_schema_is_one_and_says_which(name: str, schema: dict[str, Any]):
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:agent-ether:schema:{name}:v1"
    assert schema["x-ether-schema-version"] == SCHEMA_VERSION
    assert schema["description"]


def test_a_field_has_its_docstring_as_description():
    properties = SCHEMAS["delegation"]["properties"]

    assert properties["timeout"]["description"] == (
        "Seconds from sending to the deadline; None takes the budget's `max_time_sec`, or else the bus's default."
    )
    assert properties["context_slice"]["description"] == "The minimal context of the work (spec 2 §9)."


@pytest.mark.parametrize(
    ("name", "document"), [(name, document) for name, documents in EXAMPLES.items() for document in documents]
)
def test_every_example_of_the_spec_fits_its_schema(name: str, document: dict[str, Any]):
    VALIDATORS[name].validate(document)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_with_an_unknown_field_does_not_fit(name: str):
    with pytest.raises(jsonschema.ValidationError, match="'mood' was unexpected"):
        VALIDATORS[name].validate({**EXAMPLES[name][0], "mood": "bright"})


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_without_a_required_field_fits_neither_schema_nor_model(name: str):
    for missing in SCHEMAS[name]["required"]:
        document = {key: value for key, value in EXAMPLES[name][0].items() if key != missing}
        with pytest.raises(jsonschema.ValidationError, match=f"'{missing}' is a required property"):
            VALIDATORS[name].validate(document)
        with pytest.raises(MODELS[name].refusal, match=f"{missing}: Field required"):
            MODELS[name].parse(document)


def fits(name: str, envelope: Model) -> None:
    VALIDATORS[name].validate(json.loads(envelope.model_dump_json(by_alias=True)))


@given(st.data())
def test_what_the_models_write_fits_the_schemas(data: st.DataObject):
    delegation, response = data.draw(delegations(json_values)), data.draw(responses(json_values))

    fits("delegation", delegation)
    fits("response", response)
    fits("manifest", data.draw(manifests()))
    for name, request in {
        "agent-input": AgentInput,
        "request-envelope": RequestEnvelope,
        "subgoal-request": SubgoalRequest,
    }.items():
        VALIDATORS[name].validate(request.from_delegation(delegation).document())
    for name, answer in {
        "agent-output": AgentOutput,
        "response-envelope": ResponseEnvelope,
        "agent-response": AgentResponse,
    }.items():
        VALIDATORS[name].validate(answer.from_response(response).document())
