"""The bus as an agent uses it outside of a delegation: to ask others by itself."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack
from uuid import UUID

from ether_actors.agent.delayed import Delayed
from ether_actors.agent.publishing import publish_params
from ether_actors.delegator.options import check_keywords
from ether_actors.delegator.retry import check_retry
from ether_broker.envelope.delegation import Delegation, Durability
from ether_broker.envelope.names import PUBLISH
from ether_broker.errors import Closed, UsageError
from ether_broker.name_hint import misses
from ether_broker.wire.codec import pack_delegation

if TYPE_CHECKING:
    from ether_actors.delegator.handle import Handle
    from ether_actors.delegator.options import DelegateOptions

__all__ = ["AgentBus", "AgentBusServices", "NamedAgent"]

_ELSEWHERE: Final = {
    "ask": "self.bus.delegate(…).result() waits for the outcome",
    "map": "task.map(…) in a handler; else self.bus.delegate(…) for each",
    "broadcast": "an agent delegates by name, as in self.bus.delegate(…, to=NAME)",
    "artifact": "task.artifact(path) in a handler",
}
"""{what is looked for here: what to write instead}"""
_ANY_ID: Final = str(UUID(int=0))
_ANY_NAME: Final = "a"


class NamedAgent(Protocol):
    """An agent, as far as its node has to know it here."""

    agent_name: str
    actor_stopped: threading.Event


class AgentBusServices(Protocol):
    """The interface of the node that an agent delegates from."""

    def delegate_as(
        self, agent: NamedAgent, capability: str, params: Any, to: str | None, options: Mapping[str, Any]
    ) -> Handle:  # fmt: skip
        """Delegate in an agent's name; in the node's as long as the bus does not know the agent.

        Raises:
            Closed: the agent has ended.
        """
        ...

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the pool after some seconds."""
        ...

    def watch(self, handle: Handle, trigger: str) -> None:
        """Log it if a delegation fails that nobody waits for, with what made it."""
        ...


class AgentBus:
    """The bus for what an agent does by itself, in `on_start`, or in a thread or timer of its own: `agent.bus`.

    What it delegates has no parent: it does not end with a task, and is not within a task's budget and deadline. In a handler,
    `task.delegate` is the right one.

    Example:
        class Warm(Agent):
            def on_start(self) -> None:
                self.words = self.bus.delegate("text.count", {"text": "two words"})

            @capability("warm.words")
            def count(self) -> int:
                return self.words.result().data

        bus.start(Warm)
        assert bus.delegate("warm.words").result().data == 2
    """

    __slots__ = ("_agent", "_services")

    def __init__(self, agent: NamedAgent, services: AgentBusServices) -> None:
        self._agent = weakref.ref(agent)  # which keeps this
        self._services = services

    def delegate(
        self, capability: str, params: Any = None, *, to: str | None = None, **options: Unpack[DelegateOptions]
    ) -> Handle:  # fmt: skip
        """Delegate in this agent's name; as `Runtime.delegate`.

        In `on_start` the bus does not know the agent yet: the delegation is in the name of its node.

        Raises:
            Closed: the agent has ended, also by a restart; another incarnation has its name.
        """
        agent = self._agent()
        if agent is None:
            raise Closed("The agent has ended, and delegates nothing more.")
        return self._services.delegate_as(agent, capability, params, to, options)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise misses(self, name, _ELSEWHERE)

    def publish(
        self, topic: str, data: Any = None, *, timeout: float | None = None, durability: Durability | None = None
    ) -> Handle:  # fmt: skip
        """Publish an event in this agent's name; as `Runtime.publish`, and in `on_start` as `delegate`.

        Raises:
            InvalidEnvelope, Unserialisable: as `Runtime.publish`.
            Closed: as `delegate`.
        """
        return self.delegate(PUBLISH, publish_params(topic, data, timeout), durability=durability)

    def after(
        self, seconds: float, capability: str, params: Any = None, *, to: str | None = None,
        **options: Unpack[DelegateOptions],
    ) -> Delayed:  # fmt: skip
        """Delegate after some seconds, up to 0.3 s later, what is given now; not if the agent ends before, also by a restart.

        Raises:
            UsageError: `seconds` is no number, or below 0; or `capability` is no text, such as a method.
            InvalidEnvelope: there is no such keyword, or a name or another field is of the wrong form.
            Unserialisable: the params are nothing that can be packed.
            PayloadTooLarge: the delegation has more than 1 MiB.
        """
        check_keywords(options, "after")
        if not isinstance(capability, str):
            msg = f"the capability's name, as in 'report.note'; this is a {type(capability).__name__}."
            raise UsageError(f"after({seconds!r:.40}, …): {msg}")
        given = {"capability": capability, "params": params, "to_agent": to, **options}
        given["context_slice"] = given.pop("context", None)
        retry = given.pop("retry", None)
        if retry is not None:
            check_retry(retry)
        given = {name: value for name, value in given.items() if value is not None}
        agent = self._agent()
        name = _ANY_NAME if agent is None else agent.agent_name
        asked = Delegation.parse({"request_id": _ANY_ID, "from_agent": name, "timestamp": 0.5} | given)
        pack_delegation(asked)
        kept: dict[str, Any] = {name: getattr(asked, name) for name in options if name in given and name != "context"}
        kept |= {"context": asked.context_payload} if "context_slice" in given else {}

        def delegate() -> Handle:
            handle = self.delegate(capability, asked.params_payload, to=to, retry=retry, **kept)
            self._services.watch(handle, f"after {seconds:g} s")
            return handle

        return Delayed(seconds, delegate, self._services.call_after)
