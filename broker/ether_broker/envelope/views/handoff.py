"""The views `RequestEnvelope` and `ResponseEnvelope` of a handoff (spec 2 §6).

    RequestEnvelope                    Delegation
    request_id                         request_id, and external_id when it is not the canonical text of a UUID
    timestamp (RFC 3339)               timestamp
    timeout_minutes                    timeout
    the others                         of the same name; params, budget and the like are the residue, `ether`

    ResponseEnvelope                   Response
    artifact_path                      artifacts: the first one's path
    metrics.elapsed_sec                elapsed: what comes off a bus is what the node measured, whatever the specialist told
    follow_up_recommended              follow_ups
    required_fields, alternative_agent as §11 asks of a refusal, and unexpected_fields
    diagnostic_notes                   error, as §11 asks of a failure
    the others                         of the same name; data and the like are the residue, `ether`

Of a request `request_id` and `capability` are required, and of a response `request_id` and `status`: the bus
sets the names and the time itself when they are absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ether_broker.encoding.frozen import FrozenDict, thaw
from ether_broker.envelope.delegation import Delegation, OutputContract
from ether_broker.envelope.model import AgentName, CapabilityName, FrozenMap
from ether_broker.envelope.response import Response
from ether_broker.envelope.views.notation import (
    ForeignId,
    FrozenValue,
    Positive,
    StatusName,
    Timestamp,
    foreign_name,
    identity,
    number,
    read_number,
    read_time,
    write_time,
)
from ether_broker.envelope.views.view import RequestView, ResponseView, plain

__all__ = ["RequestEnvelope", "ResponseEnvelope"]

_MINUTE = 60


class RequestEnvelope(RequestView):
    """A delegation in the words of spec 2 §6.2: what a delegator sends to a specialist.

    Example:
        asked = RequestEnvelope(request_id="order-7", capability="text.count", timeout_minutes=1)
        delegation = asked.to_delegation()
        assert delegation.timeout == 60.0
        assert RequestEnvelope.from_delegation(delegation) == asked
    """

    vocabulary: ClassVar[str] = "handoff"
    words: ClassVar[Mapping[str, str]] = {
        name: name
        for name in ("from_agent", "to_agent", "capability", "objective", "context_slice", "dependency_vector")
    }

    request_id: ForeignId
    from_agent: AgentName | None = None
    """The delegator."""
    to_agent: AgentName | None = None
    """The specialist; absent, the registry chooses by capability."""
    timestamp: Timestamp | None = None
    capability: CapabilityName
    objective: str = ""
    context_slice: FrozenValue = None
    """Minimal but sufficient (§9)."""
    dependency_vector: tuple[str, ...] = ()
    """The sections relied on (§9)."""
    output_contract: OutputContract | None = None
    timeout_minutes: Positive | None = None
    ether: FrozenMap = FrozenDict()
    """What the others cannot say."""

    def _fields(self) -> dict[str, Any]:
        minutes = read_number(self.timeout_minutes)
        return {
            **super()._fields(),
            **identity(self.request_id),
            "timestamp": read_time(self.timestamp),
            "output_contract": self.output_contract,
            "timeout": None if minutes is None else minutes * _MINUTE,
        }

    @classmethod
    def _document(cls, envelope: Delegation) -> dict[str, Any]:
        contract = envelope.output_contract
        return super()._document(envelope) | _present(
            request_id=foreign_name(envelope),
            timestamp=write_time(envelope.timestamp),
            output_contract=None if contract is None else plain(contract),
            timeout_minutes=None if envelope.timeout is None else number(envelope.timeout / _MINUTE) or None,
        )


class ResponseEnvelope(ResponseView):
    """A response in the words of spec 2 §6.4: what a specialist sends back.

    Example:
        response = bus.delegate("text.count", {"text": "two words"}).result()
        view = ResponseEnvelope.from_response(response)
        assert view.document()["status"] == "COMPLETED"
        assert view.to_response() == response
    """

    vocabulary: ClassVar[str] = "handoff"
    words: ClassVar[Mapping[str, str]] = {
        "from_agent": "from_agent", "summary": "summary", "follow_up_recommended": "follow_ups", "unresolved": "unresolved",
        "required_fields": "required_fields", "unexpected_fields": "unexpected_fields",
        "alternative_agent": "alternative_agent",
    }  # fmt: skip

    request_id: ForeignId
    status: StatusName
    from_agent: AgentName | None = None
    artifact_path: str | None = None
    """The specialist's working file."""
    summary: str = ""
    metrics: FrozenMap = FrozenDict()
    follow_up_recommended: tuple[str, ...] = ()
    """Capabilities."""
    unresolved: tuple[str, ...] = ()
    """Open issues; the delegator must address or defer them (§9)."""
    required_fields: tuple[str, ...] = ()
    """With REJECTED_CONTEXT: what is missing (§11)."""
    unexpected_fields: tuple[str, ...] = ()
    """With REJECTED_CONTEXT: what was given and does not fit."""
    alternative_agent: AgentName | None = None
    """With REJECTED_CAPABILITY (§11)."""
    diagnostic_notes: str | None = None
    """With FAILED_EXECUTION (§11)."""
    ether: FrozenMap = FrozenDict()
    """What the others cannot say."""

    def _fields(self) -> dict[str, Any]:
        metrics = thaw(self.metrics)
        elapsed = read_number(metrics.get("elapsed_sec"))
        if elapsed is not None:
            del metrics["elapsed_sec"]
        notes = self.diagnostic_notes
        return {
            **super()._fields(),
            **identity(self.request_id),
            "status": self.status,
            "artifacts": () if self.artifact_path is None else ({"path": self.artifact_path},),
            "metrics": metrics,
            "elapsed": elapsed,
            "error": None if notes is None else {"code": "failed", "message": notes},
        }

    @classmethod
    def _document(cls, envelope: Response) -> dict[str, Any]:
        metrics = thaw(envelope.metrics)
        if envelope.elapsed is not None:
            metrics["elapsed_sec"] = number(envelope.elapsed)
        return super()._document(envelope) | _present(
            request_id=foreign_name(envelope),
            status=envelope.status.name,
            artifact_path=envelope.artifacts[0].path if envelope.artifacts else None,
            metrics=metrics or None,
            diagnostic_notes=envelope.error.message if envelope.error else None,
        )


def _present(**fields: Any) -> dict[str, Any]:
    """A document's fields that are there; None stands for those that are not."""
    return {name: value for name, value in fields.items() if value is not None}
