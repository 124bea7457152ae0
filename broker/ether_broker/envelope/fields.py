"""The fields of a delegation and of a response as keywords, so that a type checker finds a misspelt one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict
from uuid import UUID

from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Criticality, Delegation, Durability, OutputContract
from ether_broker.envelope.priority import Priority
from ether_broker.envelope.response import ErrorInfo

__all__ = ["DelegationFields", "ResponseFields"]


class DelegationFields(TypedDict, total=False):
    """The fields of a delegation that `delegate` takes by keyword; `Delegation` says what each means."""

    request_id: str | UUID
    fallback: bool
    dependency_vector: Sequence[str]
    output_contract: OutputContract | Mapping[str, Any] | None
    permissions: Mapping[str, Any]
    criticality: Criticality | Literal["critical", "high", "medium", "low"]
    parent: str | UUID | None
    workflow: str | None
    conversation: str | None
    traceparent: str | None
    durability: Durability | None
    priority: Priority
    external_id: str | None
    extensions: Mapping[str, Any]


class ResponseFields(TypedDict, total=False):
    """The fields of a response that `task.respond` takes by keyword; `Response` says what each means."""

    summary: str
    artifacts: Sequence[Artifact | Mapping[str, Any]]
    confidence: float | None
    tools_used: Sequence[str]
    metrics: Mapping[str, Any]
    metadata: Mapping[str, Any]
    follow_ups: Sequence[str]
    next_actions: Sequence[Delegation]
    unresolved: Sequence[str]
    questions: Sequence[str]
    required_fields: Sequence[str]
    unexpected_fields: Sequence[str]
    alternative_agent: str | None
    retry_after: float | None
    error: ErrorInfo | None
    extensions: Mapping[str, Any]
