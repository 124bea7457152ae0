"""The contract of an agent in spec 1: `execute`, `can_handle` and `capabilities`, with or without a bus."""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any

from ether_actors.agent.handler_failure import told_of
from ether_actors.task.answer_check import checked
from ether_actors.task.task import Task
from ether_actors.task.work_item import check_seal
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ether_actors.agent.declarations.capability import Handler
    from ether_broker.envelope.delegation import Delegation
    from ether_broker.envelope.manifest.manifest import Manifest
    from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput

__all__ = ["ComposableAgent"]


class ComposableAgent:
    """The base of agents with the contract of spec 1 §4.1: `capabilities`, `can_handle` and `execute`, off the bus too.

    Example:
        from ether.views import AgentInput

        counter = Counter()  # an Agent has the three from its decorated methods
        asked = AgentInput(task_id="7", agent="counter", action="text.count", params={"text": "two words"})
        assert counter.can_handle("text.count")
        assert counter.execute(asked).data == {"value": 2}
    """

    @classmethod
    def manifest(cls, name: str | None = None) -> Manifest:
        """The agent's entry in the registry."""
        raise NotImplementedError

    @classmethod
    def handlers(cls) -> dict[str, Handler]:
        """{capability: handler}."""
        raise NotImplementedError

    @property
    def capabilities(self) -> list[str]:
        """The actions that this agent supports, by their full names."""
        return [capability.name for capability in self.manifest().capabilities]

    def can_handle(self, action: str) -> bool:
        """Whether the agent supports the action: a capability's full name, or the last word of just one."""
        return self.manifest().resolve(action) is not None

    def execute(self, input: AgentInput) -> AgentOutput:  # noqa: A002  the name is spec 1's
        """Run one action here and now, in the calling thread and off the bus.

        Nobody supervises it: no deadline, no restart, no sub-delegations. An unsupported action, parameters that do not
        fit and a handler that raises are outputs with status `error`, not exceptions (spec 1 §4.2).

        Raises:
            RuntimeError: the action is `async def` and the calling thread runs an event loop.
        """
        from ether_broker.envelope.views.agent_io import AgentOutput

        return AgentOutput.from_response(perform(self, input.to_delegation()))


def perform(agent: ComposableAgent, delegation: Delegation) -> Response:
    """Run the handler of a delegation in the calling thread."""
    manifest = agent.manifest()
    task = Task(delegation, delegation.to_agent or manifest.agent, None, None)
    declared = manifest.resolve(delegation.capability)
    try:
        if declared is None:
            message = f"Unsupported action: {delegation.capability}"
            response = _error_response(task, Status.REJECTED_CAPABILITY, "not_declared", message)
        else:
            check_seal(delegation)
            handler = agent.handlers()[declared.name]
            value = handler.call(agent, handler.arguments(delegation.params_payload.packed), task)
            if inspect.iscoroutine(value):
                value = _run(value)
            response = handler.result(value)
            if not isinstance(response, Response):
                response = task.respond(data=Payload.of(response, where="the result"))
        response = checked(task, response)
    except _LoopRuns:
        raise
    except Exception as error:  # noqa: BLE001  whatever the handler raises is its outcome
        response = checked(task, _error_response(task, **told_of(error)))
    known = {"request_id": delegation.request_id, "external_id": delegation.external_id, "from_agent": task.agent}
    return response.model_copy(update={**known, "elapsed": task.elapsed, "timestamp": time.time()})


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    coroutine.close()
    msg = "An event loop runs in this thread, so an `async def` action cannot: call execute in a thread, or use a bus."
    raise _LoopRuns(msg)


class _LoopRuns(RuntimeError):
    pass


def _error_response(
    task: Task,
    status: Status,
    code: str,
    message: str,
    *,
    traceback: str | None = None,
    retryable: bool = False,
    **fields: Any,
) -> Response:
    error = ErrorInfo(code=code, message=message, traceback=traceback, retryable=retryable)
    return task.respond(status, error=error, summary=message, **fields)
