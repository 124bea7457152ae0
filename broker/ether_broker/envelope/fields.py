"""The fields of a delegation and of a response as keywords, so that a type checker finds a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict
from uuid import UUID

from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Budget, Criticality, Delegation, OutputContract
from ether_broker.envelope.priority import Priority
from ether_broker.envelope.response import ErrorInfo
from ether_broker.errors import InvalidEnvelope
from ether_broker.name_hint import nearest

__all__ = ["DelegateArguments", "DelegationFields", "ResponseFields", "check_keywords"]

_NO_KEYWORDS: Final = {
    "from_agent": "the agent that delegates is set by itself",
    "to_agent": "name the agent with `to`",
    "context_slice": "give it as `context`",
    "attempt": "the bus counts the attempts",
    "timestamp": "the time of the call is set by itself",
    "schema_version": "the version is set by itself",
}
"""Fields of a delegation that `delegate` does not take by keyword, and why."""


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
    durability: Literal["memory", "journal"] | None
    priority: Priority
    external_id: str | None
    extensions: Mapping[str, Any]


class DelegateArguments(DelegationFields, total=False):
    """The keyword arguments of `delegate`, without the agent's name."""

    timeout: float | None
    budget: Budget | None
    objective: str
    context: Any


_KEYWORDS: Final = ("to", "retry", *DelegateArguments.__annotations__)


_LISTED: Final = ", ".join(sorted(_KEYWORDS))


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


def check_keywords(keywords: Iterable[str], call: str = "delegate", *own: str) -> None:
    """Check that `delegate` takes each of these keywords.

    Args:
        keywords: that were given, besides those of the call's signature.
        call: what was called, which hands them on to `delegate`.
        own: further keywords of it, which may be meant.

    Raises:
        InvalidEnvelope: it does not take one; the message says what to do.
    """
    for name in keywords:
        if name in _NO_KEYWORDS:
            raise InvalidEnvelope(f"{call}() takes no {name}: {_NO_KEYWORDS[name]}.")
        if name not in _KEYWORDS:
            hint = nearest(name, (*_KEYWORDS, *own))
            raise InvalidEnvelope(
                f"{call}() has no keyword {name!r:.80}; the capability's parameters go into the dict, as in "
                f"delegate('page.read', {{'path': …}}).{hint if '?' in hint else f' Known: {_LISTED}.'}"
            )
