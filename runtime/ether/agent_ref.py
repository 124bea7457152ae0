"""A reference to an agent that was started here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Unpack

from ether_actors.agent.agent import default_name
from ether_actors.delegator.handle import Handle
from ether_actors.delegator.options import DelegateOptions
from ether_broker.envelope.names import GRAMMAR, NAME_PATTERN, is_name
from ether_broker.envelope.response import Response
from ether_broker.errors import UsageError

__all__ = ["AgentRef", "Bus", "check_agent_name"]


class Bus(Protocol):
    """The interface of the runtime that a reference belongs to."""

    def delegate(
        self, capability: str, params: Any = None, *, to: str | None = None, **options: Unpack[DelegateOptions]
    ) -> Handle:
        """Delegate work."""

    def ask(
        self, capability: str, params: Any = None, *, to: str | None = None, **options: Unpack[DelegateOptions]
    ) -> Response:
        """Delegate work and wait for its outcome."""

    def stop(self, name: str, timeout: float = 5.0) -> None:
        """Stop an agent."""


def check_agent_name(call: str, name: object) -> None:
    """Check that a method of the runtime was given an agent's name, and not what goes by it.

    Raises:
        UsageError: it was not, or nobody can have the name; the message has what to write.
    """
    if not isinstance(name, str):
        example = (
            name.name if isinstance(name, AgentRef) else default_name(name) if isinstance(name, type) else "writer"
        )
        raise UsageError(
            f"{call} takes the name of an agent, as in bus.{call}({example!r}) or bus.{call}(ref.name); this is {name!r:.80}."
        )
    if not is_name(name.encode(errors="replace")):
        raise UsageError(f"{call}: {name!r:.80} is no name of an agent: {GRAMMAR[NAME_PATTERN]}.")


class AgentRef:
    """A reference to an agent that this runtime has started: delegates to it by name, and stops it.

    Example:
        counter = bus.start(Counter, name="counter-2")
        assert counter.delegate("text.count", {"text": "two words"}).result().data == 2
        counter.stop()
    """

    __slots__ = ("_runtime", "name")

    def __init__(self, name: str, runtime: Bus) -> None:
        self.name: str = name
        """Its name on the bus."""
        self._runtime = runtime

    def delegate(self, capability: str, params: Any = None, **options: Unpack[DelegateOptions]) -> Handle:
        """Delegate to this very agent; as `Runtime.delegate`.

        Raises:
            UsageError: another agent is named, by `to`.
        """
        self._check_names_nobody(options)
        return self._runtime.delegate(capability, params, to=self.name, **options)

    def ask(self, capability: str, params: Any = None, **options: Unpack[DelegateOptions]) -> Response:
        """Delegate to this very agent and wait for the outcome; as `Runtime.ask`.

        Raises:
            UsageError: another agent is named, by `to`; and as `Runtime.ask`.
        """
        self._check_names_nobody(options)
        return self._runtime.ask(capability, params, to=self.name, **options)

    def _check_names_nobody(self, options: Mapping[str, object]) -> None:
        if "to" in options:
            msg = f"This ref delegates to {self.name} itself: leave `to` out, or use bus.delegate(…, to=NAME)."
            raise UsageError(msg)

    def stop(self, timeout: float = 5.0) -> None:
        """Stop it: what runs has `timeout` seconds, what was not started goes to other holders or is refused.

        Raises:
            UsageError: as `Runtime.stop`.
        """
        self._runtime.stop(self.name, timeout=timeout)

    def __repr__(self) -> str:
        return f"<AgentRef {self.name}>"
