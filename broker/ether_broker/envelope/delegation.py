"""The delegation envelope: work that one agent asks of another."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict

from ether_broker.encoding.frozen import FrozenDict
from ether_broker.envelope.model import AgentName, CapabilityName, FrozenMap, Model, RequestId, SchemaVersion
from ether_broker.envelope.payload import EMPTY, Payload
from ether_broker.envelope.priority import Priority
from ether_broker.envelope.version import SCHEMA_VERSION

__all__ = ["DEFAULT_TIMEOUT", "LONGEST_TIMEOUT", "Budget", "Criticality", "Delegation", "Durability", "OutputContract"]

Durability: TypeAlias = Literal["memory", "journal"]

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds that a delegation has when the delegator says nothing (spec 3, "Per-Agent Timeout")."""
LONGEST_TIMEOUT: Final = 366 * 86_400.0
"""Seconds, a year: a later deadline, infinity among them, is brought down to it."""

_KEPT: Final = ("can_delegate", "can_modify_files")
"""Permissions that a specialist's node keeps."""
_BOOL: Final[JsonDict] = {"type": "boolean"}
_NEAR: Final = 0.91
"""Of `difflib`: `can_delgate` is near `can_delegate`, and `can_delete` is another."""
_PIECE: Final = 8
"""Letters of one that are taken for it, as `modify_files`."""


def _permissions(permissions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse what would permit everything by mistake: whoever gives a permission of the bus means it to be kept."""
    for name, value in permissions.items():
        if name in _KEPT:
            if type(value) is not bool:
                raise ValueError(f"{name} is {value!r:.80}: write True or False")
        elif meant := _meant(name.lower()):
            raise ValueError(f"{name!r:.80} is no permission that the bus enforces. Did you mean {meant!r}?")
    return permissions


def _meant(name: str) -> str | None:
    """The permission of the bus that a name stands for by mistake: it begins so, or is a part of it, or is but misspelt."""
    for kept in _KEPT:
        if name.startswith(kept[:-3]) or (len(name) >= _PIECE and name in kept):
            return kept
    if len(name) > 2 * len(_KEPT[-1]):
        return None
    import difflib

    near = difflib.get_close_matches(name, _KEPT, 1, _NEAR)
    return near[0] if near else None


@unique
class Criticality(StrEnum):
    """The weight of a delegation's failure for the whole of which it is a part (spec 3, "Unrecoverable errors").

    Example:
        handle = bus.delegate("text.count", {"text": "a b"}, criticality=Criticality.LOW)
        assert handle.delegation.criticality is Criticality.LOW
    """

    CRITICAL = "critical"
    """The whole query is to be given up."""
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Budget(Model):
    """The limits of what a delegation may use; None is no limit.

    The budget of a sub-delegation never exceeds what is left of its parent's (G4).

    Work that used more is PARTIAL at best; once a limit is used up, nothing more is delegated for it.

    Example:
        handle = bus.delegate("text.count", {"text": "two words"}, budget=Budget(max_time_sec=5.0, max_tokens=1000))
        assert handle.result().ok
    """

    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """In the currency of the caller, usually US dollars."""
    max_tokens: int | None = Field(default=None, ge=0)
    max_time_sec: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds from sending to the outcome: the deadline is never later, and past it comes TIMEOUT."""
    max_iterations: int | None = Field(default=None, ge=0)


class OutputContract(Model):
    """The form of the answer that a delegator expects (spec 2 §6.2).

    An answer that does not have it is PARTIAL, and `unresolved` says what it lacks.

    Example:
        contract = OutputContract(expected_sections=("Sources",))
        response = bus.delegate("text.count", {"text": "two words"}, output_contract=contract).result()
        assert response.status is Status.PARTIAL
        assert response.unresolved == ("output contract: there is no section 'Sources'",)
    """

    artifact_type: str = ""
    expected_sections: tuple[str, ...] = ()
    quality_gates: tuple[str, ...] = ()


class Delegation(Model):
    """The delegation envelope: work that one agent asks of another (spec 2 §6.2); immutable once made.

    `from_agent`, `timestamp` and, where no agent was named, `to_agent` are set by the bus when it is sent.

    Example:
        from uuid import uuid4

        asked = Delegation(request_id=uuid4(), capability="text.count", params={"text": "two words"}, timeout=5.0)
        assert bus.send(asked).result().data == 2
    """

    request_id: RequestId
    """A UUID; the same id is the same request, so a duplicate folds into it."""
    from_agent: AgentName | None = None
    """The delegator; the broker holds it to the connection that registered it (G6)."""
    to_agent: AgentName | None = None
    """The specialist; None lets the registry choose by capability."""
    fallback: bool = False
    """Whether another may have it where `to_agent` is not there, does not take it, or goes before it is done: who holds the
    capability, and last an agent that takes anything (spec 3, "Agent Lookup"). The event `fell_through` says so, whose
    `found` is `capability` then, or `fallback` for that last one; `reassigned` tells of what moves later."""
    capability: CapabilityName
    objective: str = ""
    """The aim in words, for specialists that read."""
    params_payload: Payload = Field(default=EMPTY, alias="params")
    """The capability's arguments."""
    context_payload: Payload = Field(default=EMPTY, alias="context_slice")
    """The minimal context of the work (spec 2 §9)."""
    context_sha256: str | None = None
    """Digest of the context slice, so that two delegations can prove that they saw the same (spec 2 §10 rule 3)."""
    dependency_vector: tuple[str, ...] = ()
    """The sections relied on (spec 2 §9)."""
    output_contract: OutputContract | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds from sending to the deadline; None takes the budget's `max_time_sec`, or else the bus's default."""
    budget: Budget | None = None
    permissions: Annotated[
        FrozenMap, AfterValidator(_permissions), Field(json_schema_extra={"properties": dict.fromkeys(_KEPT, _BOOL)})
    ] = FrozenDict()
    """What the specialist may do, as in `{"can_modify_files": False}`; what is not named is permitted.

    Its node holds it to `can_modify_files` (no lease on a file) and `can_delegate`, which are true or false; others are for
    its handler to keep, and none has a name that begins as one of these, is a part of one or is one misspelt. A sub-delegation
    never has more of them, as far as values can be compared: of two that differ, `task.delegate` takes False, the smaller
    number and what stands in both lists, and refuses what is neither.
    """
    criticality: Criticality = Criticality.MEDIUM
    parent: RequestId | None = None
    """The request id of the delegation whose handler made this one."""
    workflow: str | None = None
    conversation: str | None = None
    traceparent: str | None = None
    """W3C trace context."""
    durability: Durability | None = None
    """`memory` waits for no journal: it is faster and may be lost with the broker. None is as the bus has it; what the bus
    does not have cannot be asked of it."""
    priority: Priority = "normal"
    """Which of the delegations that wait for one agent go first; see `PriorityQueue`. A sub-delegation has its parent's unless
    it says another."""
    attempt: Annotated[int, Field(ge=1, le=255)] = 1
    """The number of the run: 1 for the first; rises when an idempotent capability is redelivered (G3). Each attempt of a
    `Retry` is a delegation of its own, with its own runs; its number is in `extensions["retry"]`."""
    timestamp: float | None = None
    """Seconds since 1970 in UTC, when it was sent."""
    external_id: str | None = None
    """The id that another system knows it by, where that is no UUID."""
    extensions: FrozenMap = FrozenDict()
    """What a view of another vocabulary carries and the bus does not read."""
    schema_version: SchemaVersion = SCHEMA_VERSION

    @property
    def params(self) -> Any:
        """The capability's arguments, deeply frozen: a dict, or any other packed value such as bytes."""
        return self.params_payload.value

    @property
    def context_slice(self) -> Any:
        """The minimal context of the work, deeply frozen (spec 2 §9)."""
        return self.context_payload.value

    @property
    def deadline(self) -> float | None:
        """Seconds since 1970 in UTC by the delegator's clock; the supervisor's decides."""
        return None if self.timestamp is None or self.timeout is None else self.timestamp + self.timeout
