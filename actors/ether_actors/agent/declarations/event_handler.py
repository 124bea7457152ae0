"""The methods of an agent that handle events, and the decorator that declares them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ether_actors.agent.declarations.capability import hints_of, is_declared, task_parameter
from ether_actors.agent.declarations.class_checks import EVENT_MARK, check_is_new
from ether_actors.task.event import Event
from ether_actors.task.parameter_errors import ParameterError
from ether_broker.envelope.manifest.subscription import Subscription
from ether_broker.envelope.names import GRAMMAR, SUBSCRIPTION_PATTERN
from ether_broker.envelope.payload import unpack
from ether_broker.errors import InvalidEnvelope, InvalidManifest

__all__ = ["EventHandler", "event_handlers_of", "on_event"]

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Declaration:
    topic: str
    idempotent: bool
    description: str


def on_event(topic: str, *, idempotent: bool = False, description: str = "") -> Callable[[_F], _F]:
    """Have a method of an `Agent` called for each event of a topic that is published while the agent is on the bus.

    The method takes the `Event`, and besides an optional `task: Task`; it may be `async def`. What it returns is not used.
    If several methods of an agent fit, the one that names most of the topic gets the event.

    Args:
        topic: `orders.new`; `orders.*` for all topics below `orders`; or `*` for all.
        idempotent: whether it may run twice. If its node is lost, an event that is with it is given again to the agent when
            it is back; another ends FAILED_EXECUTION with the code `node_lost` (G3).
        description: default: the first line of the method's docstring.

    Raises:
        InvalidManifest: it is no topic.
    """
    try:
        Subscription(topic=topic, idempotent=idempotent)
    except InvalidEnvelope:
        example = "give a topic in parentheses, as in @on_event('orders.*')"
        msg = f"@on_event({topic!r:.80}): {example}: {GRAMMAR[SUBSCRIPTION_PATTERN]}."
        raise InvalidManifest(msg) from None

    def mark(function: _F) -> _F:
        check_is_new(function, sys._getframe(1).f_locals)  # noqa: SLF001  where the decorator stands
        if hasattr(function, EVENT_MARK) or is_declared(function):
            raise InvalidManifest(
                f"{function.__qualname__} handles one topic, or is a capability: write a method for each."
            )
        text = description or (inspect.getdoc(function) or "").partition("\n")[0]
        setattr(function, EVENT_MARK, _Declaration(topic, idempotent, text))
        return function

    return mark


class EventHandler:
    """The method for the events of a topic; for a cell it is as the `Handler` of a capability."""

    __slots__ = ("_parameter", "function", "is_async", "subscription", "task_name")

    def __init__(self, function: Callable[..., Any], namespace: dict[str, Any]) -> None:
        declared: _Declaration = getattr(function, EVENT_MARK)
        self.function: Callable[..., Any] = function
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self.task_name: str | None
        self.task_name, parameters = task_parameter(function, namespace)
        if len(parameters) != 1 or parameters[0].kind not in {
            inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        }:  # fmt: skip
            msg = f"{function.__qualname__} takes the event and nothing else but a task: def {function.__name__}(self, event)."
            raise InvalidManifest(msg)
        self._parameter = parameters[0].name
        hint = hints_of(function, namespace).get(self._parameter, Event)
        if hint is not Any and hint is not Event:
            msg = f"{function.__qualname__}: {self._parameter} is an Event, as in def {function.__name__}(self, event: Event)."
            raise InvalidManifest(msg)
        self.subscription: Subscription = Subscription(
            topic=declared.topic, idempotent=declared.idempotent, description=declared.description
        )

    def arguments(self, params: bytes) -> dict[str, Any]:
        """Turn a delivery's packed parameters into the method's argument.

        Raises:
            ParameterError: they are no event's.
            InvalidEnvelope: as `unpack`.
        """
        try:
            return {self._parameter: Event.of_delivery(unpack(params, bounded=True))}
        except (KeyError, TypeError):
            raise ParameterError("these are not the params of an event") from None

    def result(self, _value: Any) -> None:
        """Nothing: nobody waits for it."""


def event_handlers_of(cls: type, namespace: dict[str, Any]) -> dict[str, EventHandler]:
    """{topic: handler} of a class, those of its bases included.

    Raises:
        InvalidManifest: two methods have one topic, or one does not take just the event.
    """
    found: dict[str, EventHandler] = {}
    for name in dir(cls):
        function = inspect.getattr_static(cls, name, None)
        if not hasattr(function, EVENT_MARK) or not callable(function):
            continue
        handler = EventHandler(function, namespace)
        other = found.setdefault(handler.subscription.topic, handler)
        if other is not handler:
            msg = (
                f"{cls.__qualname__} handles {handler.subscription.topic!r} twice: "
                f"{other.function.__name__} and {function.__name__}."
            )
            raise InvalidManifest(msg)
    return found
