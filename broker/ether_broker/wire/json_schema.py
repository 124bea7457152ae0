"""JSON Schemas of what travels, for programs in other languages and for editors.

They are generated from the models: `ether schema` writes them, `docs/schemas/` has them, and a test holds the
two together. The major version stands in a file's name; a newer minor one adds optional fields and keeps it.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.model import Model
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.response import Response
from ether_broker.envelope.version import SCHEMA_VERSION
from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput
from ether_broker.envelope.views.handoff import RequestEnvelope, ResponseEnvelope
from ether_broker.envelope.views.registry import AgentInfo, CapabilityManifest, RegistryEntry
from ether_broker.envelope.views.subgoal import AgentResponse, SubgoalRequest
from ether_broker.envelope.views.suggestion import SuggestionRecord

__all__ = ["MODELS", "file_name", "schemas", "write_schemas"]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_MAJOR: Final = SCHEMA_VERSION.split(".")[0]

MODELS: Final[dict[str, type[Model]]] = {
    "delegation": Delegation,
    "response": Response,
    "manifest": Manifest,
    "agent-input": AgentInput,
    "agent-output": AgentOutput,
    "request-envelope": RequestEnvelope,
    "response-envelope": ResponseEnvelope,
    "capability-manifest": CapabilityManifest,
    "registry-entry": RegistryEntry,
    "suggestion-record": SuggestionRecord,
    "subgoal-request": SubgoalRequest,
    "agent-response": AgentResponse,
    "agent-info": AgentInfo,
}
"""{name of the schema: its model}: the envelopes, then the spec's vocabularies in their order."""


def schemas() -> dict[str, dict[str, Any]]:
    """Make the JSON Schema (2020-12) of every envelope and view.

    Returns:
        {name: schema}; each stands alone, names itself in `$id` and has our schema version in
        `x-ether-schema-version`.
    """
    return {name: _schema(name, model) for name, model in MODELS.items()}


def _schema(name: str, model: type[Model]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    for one in (schema, *schema.get("$defs", {}).values()):
        if "description" in one:  # the class's docstring, whose example is Python
            one["description"] = one["description"].partition("\n\nExample:\n")[0]
    return {
        "$schema": _DIALECT,
        "$id": f"urn:agent-ether:schema:{name}:v{_MAJOR}",
        "x-ether-schema-version": SCHEMA_VERSION,
        **schema,
    }


class _Generator(GenerateJsonSchema):
    """pydantic's, with our frozen defaults as plain values and a field's docstring as its description.

    pydantic can read those docstrings itself, but then it does so whenever a model is imported.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  pydantic's name
        """No titles: they only say the field's name again."""
        return False

    def encode_default(self, dft: Any) -> Any:
        """The default of a field as JSON."""
        return super().encode_default(dft.thawed() if isinstance(dft, Payload) else thaw(dft))

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The JSON Schema of a model."""
        result = super().model_schema(schema)
        model = schema["cls"]
        for name, text in _field_docstrings(model).items():
            field = result["properties"][model.model_fields[name].alias or name]
            field.setdefault("description", text)
        return result


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """{field: the string literal below it, as one line}."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for statement, below in pairwise(tree.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name in model.model_fields:
                found[name] = " ".join(text.split())
    return found


def file_name(name: str) -> str:
    """The file of a schema in a folder of schemas, such as `delegation.v1.json`."""
    return f"{name}.v{_MAJOR}.json"


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema to a folder, which is made if it is missing; the same models give the same bytes.

    Returns:
        The files, in the order of `MODELS`. Other files in the folder stay.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas().items():
        path = folder / file_name(name)
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written
