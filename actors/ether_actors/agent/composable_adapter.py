"""An agent of a bus made of an object that has spec 1's contract alone: `execute`, `can_handle` and `capabilities`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import WrongResult, capability
from ether_actors.agent.declarations.class_checks import is_marked
from ether_actors.task.task import Task
from ether_broker.envelope.names import BUS_PREFIX, CAPABILITY_PATTERN, GRAMMAR, is_capability
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput
from ether_broker.errors import EtherError, InvalidManifest, UsageError

__all__ = ["agent_of", "is_agent"]

_CONTRACT: Final = ("execute", "can_handle", "capabilities")


def is_agent(found: object) -> bool:
    """Whether a class, or an object, can be started: it is an Agent, or has the three members of spec 1's contract."""
    return isinstance(found, Agent) or all(hasattr(found, name) for name in _CONTRACT)


def agent_of(made: Any) -> Agent:
    """The agent that was made, or one that passes everything on to it and declares what it says it can do.

    Raises:
        UsageError: it is no agent.
        InvalidManifest: one of its capabilities has an impossible name, or it has methods that are declared for an Agent.
    """
    if isinstance(made, Agent):
        return made
    if isinstance(made, type):
        msg = f"The factory gave the class {made.__name__}, not an agent: let it give {made.__name__}()."
        raise UsageError(msg)
    if not is_agent(made):
        kind = type(made).__name__
        msg = f"{kind} is not an Agent: derive it from ether.Agent, or give it execute, can_handle and capabilities."
        raise UsageError(msg)
    cls = type(made)
    for member in dir(cls):
        if is_marked(inspect.getattr_static(cls, member)):
            raise InvalidManifest(
                f"{cls.__name__}.{member} is declared as a method of an ether.Agent, and nothing would come of that here: "
                f"derive {cls.__name__} from ether.Agent, or do it in `execute`."
            )
    name, is_async = type(made).__name__, inspect.iscoroutinefunction(made.execute)
    actions = tuple(made.capabilities)
    for action in actions:
        if not isinstance(action, str) or not is_capability(action.encode(errors="replace")):
            msg = f"{name}.capabilities: {action!r:.80} does not fit: {GRAMMAR[CAPABILITY_PATTERN]}."
            raise InvalidManifest(msg)
        if action.startswith(BUS_PREFIX.decode()):
            raise InvalidManifest(f"{name}.capabilities: {action!r}: what begins with `ether.` is the bus's own.")
    return _class_for(name, type(made).__doc__, actions, is_async=is_async)(made)


class _Adapter(Agent):
    def __init__(self, contract: Any) -> None:
        super().__init__()
        self._contract = contract

    def perform(self, task: Task) -> Response:
        asked = AgentInput.from_delegation(task.delegation)
        return self._refusal(asked, task) or _output(self._contract.execute(asked)).to_response()

    async def perform_async(self, task: Task) -> Response:
        asked = AgentInput.from_delegation(task.delegation)
        return self._refusal(asked, task) or _output(await self._contract.execute(asked)).to_response()

    def _refusal(self, asked: AgentInput, task: Task) -> Response | None:
        if self._contract.can_handle(asked.action):
            return None
        message = f"{self.agent_name} says that it cannot handle {asked.action!r}."
        error = ErrorInfo(code="not_declared", message=message)
        return task.respond(Status.REJECTED_CAPABILITY, error=error, summary=message)


@lru_cache(maxsize=1_000)
def _class_for(name: str, doc: str | None, actions: tuple[str, ...], *, is_async: bool) -> Callable[[Any], Agent]:
    methods = {f"action_{number}": _method(action, is_async=is_async) for number, action in enumerate(actions)}
    return type(name, (_Adapter,), {"__doc__": doc, **methods})


def _method(action: str, *, is_async: bool) -> Callable[..., Any]:
    def perform(self: _Adapter, params: Any, task: Task) -> Response:  # noqa: ARG001  they stand in the task, too
        return self.perform(task)

    async def perform_async(self: _Adapter, params: Any, task: Task) -> Response:  # noqa: ARG001
        return await self.perform_async(task)

    return capability(action)(perform_async if is_async else perform)


def _output(told: Any) -> AgentOutput:
    """What `execute` gave: our view, or an object or dict with the fields of spec 1's own class."""
    if isinstance(told, AgentOutput):
        return told
    document = _fields(told, AgentOutput)
    document["status"] = getattr(document.get("status"), "value", document.get("status"))
    if document.get("next_actions") is not None:
        document["next_actions"] = [_fields(action, AgentInput) for action in document["next_actions"]]
    try:
        return AgentOutput.parse(document)
    except EtherError as error:
        msg = f"execute returned a {type(told).__name__}, and has to return an AgentOutput: {error}"
        raise WrongResult(msg) from None


def _fields(told: Any, view: type[AgentInput | AgentOutput]) -> dict[str, Any]:
    if isinstance(told, Mapping):
        return dict(told)
    return {name: getattr(told, name) for name in view.model_fields if getattr(told, name, None) is not None}
