"""The views `AgentInput` and `AgentOutput`: the standard input and output of a composable agent (spec 1 §3.1).

    AgentInput                         Delegation
    task_id                            request_id, and external_id when it is not the canonical text of a UUID
    agent, action, params              to_agent ("*" is none: whoever can), capability, params
    context.parent_task                extensions["agent_io"]: where the caller has it from; a delegation shows its parent here
    context.workflow .budget           workflow, budget (max_cost, max_tokens, max_time_sec, max_iterations)
    context.permissions                permissions
    context.…                          extensions["agent_io"]; context.ether is the residue

    AgentOutput                        Response
    status                             success COMPLETED, error FAILED_EXECUTION, partial PARTIAL
    data                               data; of an error data.error and data.traceback are its `error`, or its summary
    metadata.duration_ms .timestamp    elapsed, timestamp: of what comes off a bus as the node measured, whatever was told
    metadata.…                         metadata; metadata.ether is the residue
    next_actions                       next_actions

A body that is no dict stands as `{"value": …}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import PlainSerializer

from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.delegation import Budget, Delegation
from ether_broker.envelope.model import CapabilityName, FrozenMap
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import AgentStatus, Status
from ether_broker.envelope.views.boxed_body import boxed, unboxed
from ether_broker.envelope.views.notation import (
    ANYONE,
    AgentOrAnyone,
    ForeignId,
    foreign_name,
    identity,
    number,
    read_number,
)
from ether_broker.envelope.views.timing import read_timing, write_timing
from ether_broker.envelope.views.view import RequestView, ResponseView
from ether_broker.errors import InvalidEnvelope

__all__ = ["AgentInput", "AgentOutput"]

_FAILED: Final = "failed"
_WHOLE: Final = ("max_tokens", "max_iterations")


class AgentInput(RequestView):
    """A delegation in the words of spec 1 §3.1: the standard input of an agent.

    Example:
        asked = AgentInput(task_id="task-7", agent="counter", action="text.count", params={"text": "two words"})
        delegation = asked.to_delegation()
        assert (delegation.to_agent, delegation.capability) == ("counter", "text.count")
        assert AgentInput.from_delegation(delegation) == asked
    """

    vocabulary: ClassVar[str] = "agent_io"
    home: ClassVar[str] = "context"

    task_id: ForeignId
    """For provenance: a UUID, or an id of the caller's own."""
    agent: AgentOrAnyone
    """Which agent to invoke."""
    action: CapabilityName
    """What capability to use: its whole name, or the last word where that is enough."""
    params: FrozenMap
    """Arguments of the action."""
    context: FrozenMap | None = None
    """Parent task, workflow, budget, permissions, and what else the caller's agents agree upon."""

    def _fields(self) -> dict[str, Any]:
        context: Mapping[str, Any] = self.context or {}
        fields: dict[str, Any] = {
            **identity(self.task_id),
            "capability": self.action,
            "params": unboxed(self.params, bare=self._is_bare),
        }
        if self.agent != ANYONE:
            fields["to_agent"] = self.agent
        if isinstance(context.get("workflow"), str):
            fields["workflow"] = context["workflow"]
        if context.get("budget") is not None:
            fields["budget"] = _read_budget(context["budget"])
        if context.get("permissions") is not None:
            fields["permissions"] = context["permissions"]
        return fields

    @classmethod
    def _document(cls, envelope: Delegation) -> dict[str, Any]:
        params, residue = boxed(envelope.params)
        context: dict[str, Any] = dict(residue)
        if envelope.parent is not None:
            context["parent_task"] = envelope.parent
        if envelope.workflow is not None:
            context["workflow"] = envelope.workflow
        if envelope.budget is not None:
            context["budget"] = _write_budget(envelope.budget)
        if envelope.permissions:
            context["permissions"] = thaw(envelope.permissions)
        document = {
            "task_id": foreign_name(envelope),
            "agent": envelope.to_agent or ANYONE,
            "action": envelope.capability,
            "params": params,
        }
        return {**document, "context": context} if context else document


class AgentOutput(ResponseView):
    """A response in the words of spec 1 §3.1: the standard output of an agent.

    Example:
        response = bus.delegate("text.count", {"text": "two words"}).result()
        output = AgentOutput.from_response(response)
        assert output.document()["status"] == "success"
        assert output.data == {"value": 2}
        assert output.to_response() == response
    """

    vocabulary: ClassVar[str] = "agent_io"
    home: ClassVar[str] = "metadata"

    task_id: ForeignId
    """Links to the request."""
    status: Annotated[AgentStatus, PlainSerializer(lambda status: status.value)]
    agent: AgentOrAnyone
    """Who completed it."""
    data: FrozenMap
    """The result; of an error `error`, its message, and `traceback`."""
    metadata: FrozenMap
    """Cost, duration_ms, model, timestamp, and what else the agent has to say of the run."""
    next_actions: tuple[AgentInput, ...] | None = None
    """How the chain may go on; nothing runs them unasked."""

    def _fields(self) -> dict[str, Any]:
        data = thaw(self.data)
        fields = {
            **identity(self.task_id),
            **read_timing(self.metadata),
            "status": Status.of_agent_status(self.status),
        }
        if self.agent != ANYONE:
            fields["from_agent"] = self.agent
        if self.next_actions:
            fields["next_actions"] = [item.to_delegation() for item in self.next_actions]
        if self.status is AgentStatus.ERROR and isinstance(data.get("error"), str):
            fields["error"] = _read_error(data)
            data = data or None
        return {**fields, "data": unboxed(data, bare=self._is_bare)}

    @classmethod
    def _document(cls, envelope: Response) -> dict[str, Any]:
        status = envelope.status.agent_status
        data, residue = boxed(envelope.data)
        if status is AgentStatus.ERROR:
            data["error"] = envelope.error.message if envelope.error else envelope.summary or envelope.explain()
            if envelope.error is not None and envelope.error.traceback is not None:
                data["traceback"] = envelope.error.traceback
        document: dict[str, Any] = {
            "task_id": foreign_name(envelope),
            "status": status.value,
            "agent": envelope.from_agent or ANYONE,
            "data": data,
            "metadata": {**write_timing(envelope), **residue},
        }
        if envelope.next_actions:
            actions = [AgentInput.from_delegation(item).document() for item in envelope.next_actions]
            document["next_actions"] = actions
        return document


def _read_error(data: dict[str, Any]) -> dict[str, str]:
    """Take the error out of the data of an error."""
    error = {"code": _FAILED, "message": data.pop("error")}
    if isinstance(data.get("traceback"), str):
        error["traceback"] = data.pop("traceback")
    return error


def _read_budget(given: Any) -> Budget:
    """Read a budget; what is no limit is refused, as the work would go on without it.

    Raises:
        InvalidEnvelope: it is no dict, there is no limit of that name, or one is no number or below 0.
    """
    where, limits = "context.budget", thaw(given)
    try:
        budget = Budget.parse(limits)
    except InvalidEnvelope as error:
        raise InvalidEnvelope(f"{where} is {limits!r:.80}: {error}") from error
    for name, limit in limits.items():
        if limit is not None and read_number(limit) is None:
            raise InvalidEnvelope(
                f"{where}.{name} is {limit!r:.80}: write a number, 0 or more, such as {getattr(budget, name):g}."
            )
    return budget


def _write_budget(budget: Budget) -> dict[str, float]:
    limits = {name: getattr(budget, name) for name in Budget.model_fields}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return {name: limit if name in _WHOLE else number(limit) for name, limit in given.items()}
