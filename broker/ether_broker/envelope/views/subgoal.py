"""The views `SubgoalRequest` and `AgentResponse`: a subgoal with its context, and the agent's response (spec 3).

    SubgoalRequest                     Delegation
    subgoal.id                         external_id; request_id: made of it, and of query_id if there is one
    subgoal.description .criticality   objective, criticality
    subgoal.…                          extensions["subgoal"]
    context                            context_slice: what earlier subgoals gave
    timeout                            timeout, in seconds
    query_id                           workflow
    agent_id, capability               to_agent, with fallback as spec 3 looks agents up, and capability ("*" is anything)

    AgentResponse                      Response
    subgoal_id                         external_id; request_id: made of it
    summary                            summary; without one the status is told
    tools_used                         tools_used, as far as they are standard tool types; the others are in the residue
    data                               data; what is neither dict nor list stands as `{"value": …}`
    confidence                         confidence; without one the least that spec 3 says of such a status
    metadata.duration_ms .timestamp    elapsed, timestamp: of what comes off a bus as the node measured, whatever was told
    metadata.…                         metadata; metadata.ether is the residue

Spec 3 has no status. By its "Partial Success Handling" and its scoring guidelines 0.7 and more is COMPLETED,
less is PARTIAL, and under 0.3 FAILED_EXECUTION; any other status is in the residue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, PlainSerializer, WithJsonSchema

from ether_broker.encoding.frozen import FrozenDict, freeze, thaw
from ether_broker.envelope.delegation import Criticality, Delegation
from ether_broker.envelope.model import AgentName, CapabilityName, FrozenMap
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import GOOD, UNFINISHED, Status
from ether_broker.envelope.views.boxed_body import boxed, unboxed
from ether_broker.envelope.views.notation import (
    ANYONE,
    Confidence,
    ForeignId,
    FrozenValue,
    Positive,
    canonical_id,
    foreign_name,
    identity,
    number,
    read_number,
)
from ether_broker.envelope.views.timing import read_timing, write_timing
from ether_broker.envelope.views.view import RequestView, ResponseView
from ether_broker.name_hint import nearest

__all__ = ["AgentResponse", "SubgoalRequest"]

_USABLE: Final = 0.3
"""Under it the output is unusable (spec 3, "Scoring Guidelines")."""
_PARTIAL: Final = 0.5
_TOOLS: Final = (
    "file_reader", "file_writer", "code_analyzer", "test_runner", "database_query", "database_migration", "git_operations",
    "shell_command", "llm_call", "search",
)  # fmt: skip
"""The standard tool types (spec 3, "tools_used")."""


def _subgoal(value: FrozenDict) -> FrozenDict:
    if not isinstance(value.get("id"), str) or not value["id"]:
        raise ValueError("a subgoal has an id, such as 'sg1'")
    return value


def _structured(value: Any) -> Any:
    if value is not None and not isinstance(value, (Mapping, list, tuple)):
        raise ValueError(f"expected a dict, a list or None, and found a {type(value).__name__}")
    return freeze(value)


def _summary(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty, and has to say what was done, in 2 to 10 sentences")
    return value


def _tool(value: str) -> str:
    if value not in _TOOLS:
        raise ValueError(f"{value!r} is no standard tool type.{nearest(value, _TOOLS)}")
    return value


_SUBGOAL_SCHEMA: Final = {
    "type": "object",
    "properties": {"id": {"type": "string", "minLength": 1}, "description": {"type": "string"}},
    "required": ["id"],
}


class SubgoalRequest(RequestView):
    """A delegation in the words of spec 3: a subgoal, its context and its timeout, as `execute` gets them.

    Example:
        goal = {"id": "sg1", "description": "Count the words"}
        asked = SubgoalRequest(subgoal=goal, capability="text.count", timeout=5, query_id="query-1")
        delegation = asked.to_delegation()
        assert (delegation.external_id, delegation.workflow) == ("sg1", "query-1")
        assert SubgoalRequest.from_delegation(delegation) == asked
    """

    vocabulary: ClassVar[str] = "subgoal"
    words: ClassVar[Mapping[str, str]] = {"context": "context_slice", "query_id": "workflow", "agent_id": "to_agent"}

    subgoal: Annotated[FrozenMap, AfterValidator(_subgoal), WithJsonSchema(_SUBGOAL_SCHEMA)]
    """`id`, `description`, `criticality`, and what else the decomposition says."""
    context: FrozenValue = None
    timeout: Positive | None = None
    """Seconds."""
    query_id: str | None = None
    """The query that was decomposed. Subgoal ids start again with each query: without it, the `sg1` of two
    queries are one and the same request, and the second folds into the first."""
    agent_id: AgentName | None = None
    capability: CapabilityName | None = None
    ether: FrozenMap = FrozenDict()
    """What the others cannot say."""

    def _fields(self) -> dict[str, Any]:
        goal = self.subgoal
        fields: dict[str, Any] = {
            **super()._fields(),
            **identity(goal["id"]),
            "timeout": read_number(self.timeout),
            "fallback": self.agent_id is not None,
            "capability": self.capability or ANYONE,
        }
        if self.query_id is not None and "external_id" in fields:
            fields["request_id"] = canonical_id(f"{self.query_id}/{goal['id']}")
        if isinstance(goal.get("description"), str):
            fields["objective"] = goal["description"]
        criticality = str(goal.get("criticality")).lower()
        if criticality in _CRITICALITIES:
            fields["criticality"] = criticality
        return fields

    @classmethod
    def _document(cls, envelope: Delegation) -> dict[str, Any]:
        goal = {"id": foreign_name(envelope)}
        if envelope.objective:
            goal["description"] = envelope.objective
        if envelope.criticality is not Criticality.MEDIUM:
            goal["criticality"] = envelope.criticality.name
        document = {"subgoal": goal, **super()._document(envelope)}
        if envelope.timeout is not None:
            document["timeout"] = number(envelope.timeout)
        if envelope.capability != ANYONE:
            document["capability"] = envelope.capability
        return document


_CRITICALITIES: Final = frozenset(item.value for item in Criticality)


class AgentResponse(ResponseView):
    """A response as every agent returns it (spec 3, "Required Format").

    Example:
        response = bus.delegate("text.count", {"text": "two words"}).result()
        view = AgentResponse.from_response(response)
        assert view.data == {"value": 2}
        assert view.confidence >= 0.7  # COMPLETED
        assert view.to_response() == response
    """

    vocabulary: ClassVar[str] = "subgoal"
    home: ClassVar[str] = "metadata"

    subgoal_id: ForeignId
    """Which subgoal it addresses."""
    summary: Annotated[str, AfterValidator(_summary), WithJsonSchema({"type": "string", "pattern": r"\S"})]
    """What was done, in 2 to 10 sentences; that they are so many is not checked."""
    data: Annotated[
        Any,
        AfterValidator(_structured),
        PlainSerializer(thaw),
        WithJsonSchema({"type": ["object", "array", "null"]}),
    ] = None
    confidence: Confidence
    tools_used: tuple[Annotated[str, AfterValidator(_tool), WithJsonSchema({"enum": list(_TOOLS)})], ...]
    """Standard tool types."""
    metadata: FrozenMap
    """`duration_ms`, `model_used`, `tokens_used`, `agent_version`, `retries`, `warnings`, `debug_info`, …

    They are kept as they were told: nothing holds them to a type, and who counts one passes over what is no number."""

    def to_response(self, request_id: str | None = None) -> Response:
        """The response that this is; the same gives the same.

        Args:
            request_id: of the delegation that it answers, where the subgoal's id does not tell; see
                `SubgoalRequest.query_id`.

        Raises:
            InvalidEnvelope: a residue under `metadata.ether` that is none.
        """
        response = super().to_response()
        return response if request_id is None else response.model_copy(update={"request_id": request_id})

    def _fields(self) -> dict[str, Any]:
        return {
            **identity(self.subgoal_id),
            **read_timing(self.metadata),
            "status": _status_of(self.confidence),
            "summary": self.summary,
            "data": self._body(),
            "confidence": float(self.confidence),
            "tools_used": self.tools_used,
        }

    def _body(self) -> Any:
        return unboxed(self.data, bare=self._is_bare) if isinstance(self.data, Mapping) else thaw(self.data)

    @classmethod
    def _document(cls, envelope: Response) -> dict[str, Any]:
        data = thaw(envelope.data)
        residue: dict[str, Any] = {}
        if data is not None and not isinstance(data, (dict, list)):
            data, residue = boxed(data)
        confidence = envelope.confidence
        return {
            "subgoal_id": foreign_name(envelope),
            "summary": envelope.summary if envelope.summary.strip() else envelope.explain(),
            "data": data,
            "confidence": _confidence_of(envelope.status) if confidence is None else confidence,
            "tools_used": [tool for tool in envelope.tools_used if tool in _TOOLS],
            "metadata": {**write_timing(envelope), **residue},
        }


def _status_of(confidence: float) -> Status:
    if confidence >= GOOD:
        return Status.COMPLETED
    return Status.PARTIAL if confidence >= _USABLE else Status.FAILED_EXECUTION


def _confidence_of(status: Status) -> float:
    if status is Status.COMPLETED:
        return GOOD
    return _PARTIAL if status in UNFINISHED else 0.0
