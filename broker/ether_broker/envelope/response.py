"""The response envelope: what became of a delegation, or how far it is."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final, Self

from pydantic import Field

from ether_broker import errors
from ether_broker.encoding.frozen import FrozenDict
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.model import AgentName, FrozenMap, Model, SchemaVersion
from ether_broker.envelope.payload import EMPTY, Payload
from ether_broker.envelope.status import Status
from ether_broker.envelope.version import SCHEMA_VERSION

__all__ = ["ErrorInfo", "Response"]


class ErrorInfo(Model):
    """The reason why a delegation failed or was refused: a code for programs, and a message for people.

    Example:
        response = bus.delegate("no.such.capability").result()
        assert response.status is Status.REJECTED_CAPABILITY
        assert response.error.code == "no_holder"
    """

    code: str
    """A stable word for programs, such as `node_lost`; `docs/guarantees.md` lists them."""
    message: str
    traceback: str | None = None
    retryable: bool = False
    """Whether the same delegation may succeed later without a change. The work may have been done all the same, or a part
    of it, as after `node_lost`: a `Retry` does not try that again by itself."""


class Response(Model):
    """The response envelope: a delegation's outcome or its progress (spec 2 §6.4, spec 3); immutable once made.

    Example:
        response = bus.delegate("text.count", {"text": "two words"}).result()
        assert response.status is Status.COMPLETED
        assert response.unwrap().data == 2  # unwrap raises for any other status
    """

    request_id: str
    status: Status
    from_agent: AgentName | None = None
    """The specialist; the supervisor's name for a refusal or an ending that it ruled."""
    summary: str = ""
    data_payload: Payload = Field(default=EMPTY, alias="data")
    """The result."""
    artifacts: tuple[Artifact, ...] = ()
    confidence: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    tools_used: tuple[str, ...] = ()
    metrics: FrozenMap = FrozenDict()
    metadata: FrozenMap = FrozenDict()
    follow_ups: tuple[str, ...] = ()
    """Capabilities recommended next (spec 2 `follow_up_recommended`)."""
    next_actions: tuple[Delegation, ...] = ()
    """Delegations that the specialist suggests (spec 1); nothing runs them unasked."""
    unresolved: tuple[str, ...] = ()
    """What is still open; the delegator must address or defer it (spec 2 §9)."""
    questions: tuple[str, ...] = ()
    """With NEEDS_INPUT: what the specialist must know to go on."""
    required_fields: tuple[str, ...] = ()
    """With REJECTED_CONTEXT: the fields that are missing (spec 2 §11)."""
    unexpected_fields: tuple[str, ...] = ()
    """With REJECTED_CONTEXT: the fields that were given and do not fit: superfluous, or of the wrong type or value."""
    alternative_agent: AgentName | None = None
    """With REJECTED_CAPABILITY: an agent that holds the capability."""
    retry_after: Annotated[float, Field(ge=0)] | None = None
    """With REJECTED_OVERLOAD: seconds after which to try again."""
    error: ErrorInfo | None = None
    progress: Annotated[float, Field(ge=0, le=1)] | None = None
    """With PROGRESS: the part done, 0 to 1."""
    elapsed: Annotated[float, Field(ge=0)] | None = None
    """Seconds from the start of the handler to its end, as its node measured it: what the handler says itself is replaced."""
    attempt: Annotated[int, Field(ge=1, le=255)] = 1
    """The number of the delegation's run that it is of; see `Delegation.attempt`."""
    timestamp: float | None = None
    """Seconds since 1970 in UTC, when it was sent; set by its node."""
    external_id: str | None = None
    extensions: FrozenMap = FrozenDict()
    schema_version: SchemaVersion = SCHEMA_VERSION

    @property
    def data(self) -> Any:
        """The result, deeply frozen."""
        return self.data_payload.value

    @property
    def ok(self) -> bool:
        """Whether the work is done as asked: COMPLETED."""
        return self.status is Status.COMPLETED

    def unwrap(self) -> Self:
        """Return itself when COMPLETED.

        Raises:
            Rejected, TimedOut, Cancelled, Failed, Unfinished: by the status; each carries the response.
        """
        if self.status is Status.COMPLETED:
            return self
        raise _ERRORS.get(self.status, errors.Unfinished)(self)

    def verify(self, root: str | os.PathLike[str] = "") -> Self:
        """Check that every artifact is still what the specialist sealed, and return itself (G5).

        Args:
            root: where relative paths begin; default: the working directory of this process.

        Raises:
            ArtifactMismatch: one was changed, is not there, or was never sealed.
        """
        for artifact in self.artifacts:
            artifact.verify(root=root)
        return self

    def explain(self) -> str:
        """One sentence: the status and its reason; of PARTIAL and NEEDS_INPUT also the first thing that is open."""
        reason = f"{self.error.code}: {self.error.message}" if self.error else self.summary
        first, *more = self.questions or self.unresolved or ("",)
        if first and self.status in _UNFINISHED:
            reason = " ".join(filter(None, (reason, first, f"(and {len(more)} more)" if more else "")))
        return f"{self.status.name} by {self.from_agent or 'nobody'}{': ' if reason else ''}{reason}"


_UNFINISHED: Final = (Status.PARTIAL, Status.NEEDS_INPUT)
_ERRORS: Final[dict[Status, type[errors.OutcomeError]]] = {
    Status.REJECTED_CAPABILITY: errors.Rejected,
    Status.REJECTED_CONTEXT: errors.Rejected,
    Status.REJECTED_OVERLOAD: errors.Rejected,
    Status.TIMEOUT: errors.TimedOut,
    Status.CANCELLED: errors.Cancelled,
    Status.FAILED_EXECUTION: errors.Failed,
}
