"""Random envelopes, manifests and documents for the property tests."""

from __future__ import annotations

import string
import uuid
from typing import Any, Final

from hypothesis import strategies as st

from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Budget, Criticality, Delegation, OutputContract
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.manifest.manifest import Capability, Depth, Interface, Manifest
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status

__all__ = [
    "agent_names",
    "bodies",
    "capability_names",
    "delegations",
    "documents",
    "json_maps",
    "json_values",
    "manifests",
    "responses",
    "texts",
    "uuids",
]

INTS: Final = st.integers(min_value=-(2**63), max_value=2**64 - 1)
"""What msgpack can carry."""

texts = st.text(st.characters(codec="utf-8"), max_size=12)
"""Any Unicode text that has a UTF-8 form."""
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | INTS | finite | texts
keys = texts | st.sampled_from(["ether", "value", "error", "duration_ms", "timestamp", "drop", "bare", "id"])
"""Among them the words that the views read, where they may stand by chance."""
uuids = st.uuids().map(str)
ids = uuids | texts.filter(bool) | st.uuids().map(lambda value: str(value).upper()) | st.just("sg1")


def _nested(leaves: st.SearchStrategy[Any], names: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)

    return st.recursive(leaves, extend, max_leaves=6)


json_values = _nested(scalars, keys)
"""What JSON can say."""
json_maps = st.dictionaries(keys, json_values, max_size=4)
bodies = _nested(scalars | st.binary(max_size=8), keys | INTS | st.binary(max_size=3))
"""What msgpack can say: bytes too, and keys that are no text."""

_first = string.ascii_letters + string.digits + "_"
agent_names = st.builds(str.__add__, st.sampled_from(_first), st.text(_first + ".:@/-", max_size=8))
_word = st.text(_first + "-", min_size=1, max_size=6)
capability_names = st.lists(_word, min_size=1, max_size=3).map(".".join) | st.just("*")

nonnegative = st.floats(min_value=0, allow_nan=False, allow_infinity=False) | st.integers(0, 10_000).map(float)
positive = nonnegative.filter(bool)
ratios = st.floats(0, 1)
times = st.floats(-1e13, 1e13) | st.integers(0, 2_000_000_000).map(float)
words = st.lists(texts, max_size=2).map(tuple)
versions = st.just("1.0") | st.integers(1, 99).map("1.{}".format)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


budgets = st.builds(
    Budget,
    max_cost=_maybe(nonnegative),
    max_tokens=_maybe(st.integers(0, 2**63)),
    max_time_sec=_maybe(nonnegative),
    max_iterations=_maybe(st.integers(0, 2**63)),
)
contracts = st.builds(OutputContract, artifact_type=texts, expected_sections=words, quality_gates=words)


def of_their_own(permissions: dict[str, Any]) -> dict[str, Any]:
    """Permissions whose names are none of the bus's, nor look like one."""
    return {f"paths.{name}": value for name, value in permissions.items()}


def delegations(body: st.SearchStrategy[Any] = bodies) -> st.SearchStrategy[Delegation]:
    """Delegations with any of their fields set, or left at their default.

    Args:
        body: what the params and the context slice are drawn from.
    """
    extensions = st.dictionaries(texts | st.sampled_from(["agent_io", "handoff", "subgoal"]), json_values, max_size=2)
    return _built(
        Delegation,
        {"request_id": uuids | ids, "capability": capability_names},
        from_agent=agent_names,
        to_agent=agent_names,
        objective=texts,
        params=body,
        context_slice=body,
        context_sha256=texts,
        dependency_vector=words,
        output_contract=contracts,
        timeout=positive,
        budget=budgets,
        permissions=json_maps.map(of_their_own),
        criticality=st.sampled_from(Criticality),
        parent=ids,
        workflow=texts,
        conversation=texts,
        traceparent=texts,
        attempt=st.integers(1, 255),
        timestamp=times,
        external_id=ids | texts,
        extensions=extensions,
        schema_version=versions,
    )


artifacts = st.builds(Artifact, path=texts, sha256=_maybe(texts), size=_maybe(st.integers(0, 2**63)))
failures = st.builds(ErrorInfo, code=texts, message=texts, traceback=_maybe(texts), retryable=st.booleans())


def responses(body: st.SearchStrategy[Any] = bodies) -> st.SearchStrategy[Response]:
    """Responses with any of their fields set, or left at their default.

    Args:
        body: what the data is drawn from.
    """
    extensions = st.dictionaries(texts | st.sampled_from(["agent_io", "handoff", "subgoal"]), json_values, max_size=2)
    return _built(
        Response,
        {"request_id": uuids | ids, "status": st.sampled_from(Status)},
        from_agent=agent_names,
        summary=texts,
        data=body,
        artifacts=st.lists(artifacts, max_size=2),
        confidence=ratios,
        tools_used=words,
        metrics=json_maps | st.dictionaries(st.just("elapsed_sec"), json_values, max_size=1),
        metadata=json_maps,
        follow_ups=words,
        next_actions=st.lists(delegations(body), max_size=1),
        unresolved=words,
        questions=words,
        required_fields=words,
        unexpected_fields=words,
        alternative_agent=agent_names,
        retry_after=nonnegative,
        error=failures,
        progress=ratios,
        elapsed=nonnegative,
        attempt=st.integers(1, 255),
        timestamp=times,
        external_id=ids | texts,
        extensions=extensions,
        schema_version=versions,
    )


capabilities = st.builds(
    Capability,
    name=capability_names,
    confidence=ratios,
    constraints=words,
    latency_weight=nonnegative,
    idempotent=st.booleans(),
    description=texts,
    params_schema=json_maps,
    result_schema=json_maps,
)


def manifests() -> st.SearchStrategy[Manifest]:
    """Manifests that do not contradict themselves."""
    declared = st.lists(capabilities, max_size=3, unique_by=lambda item: item.name)
    return _built(
        Manifest,
        {"agent": agent_names},
        version=st.sampled_from(["0.1.0", "1.2.0", "2.0.0-rc.1", "10.0.3+build.7"]),
        role=texts,
        description=texts,
        capabilities=declared,
        exclusions=st.just(("never.this", "never.that")),
        interface=st.lists(st.sampled_from(Interface), max_size=2),
        artifacts_produced=words,
        max_depth=st.sampled_from(Depth),
        tools=words,
        max_concurrency=st.integers(1, 100),
        notes=texts,
        schema_version=versions,
    )


def documents(
    required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """Documents with all of the required fields and some of the optional ones."""
    return st.fixed_dictionaries(required, optional=optional)


def _built(model: Any, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: model(**fields))


def canonical(value: uuid.UUID) -> str:
    """The text of a request id."""
    return to_text(value.bytes)
