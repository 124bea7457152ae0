"""The check of an agent's class: whether any of several instances may do what it does."""

from __future__ import annotations

from ether_actors.agent.agent import Agent
from ether_broker.errors import UsageError

__all__ = ["check_scalable"]


def check_scalable(cls: type[Agent]) -> None:
    """Check that any of several instances may do what an agent does.

    Raises:
        UsageError: it has a state, subscriptions or schedules, which each instance would have of its own.
    """
    found, fix = "", ""
    if cls.state_model() is not None:
        found = "has a state, and each instance would have one of its own"
        fix = "keep it outside, or in an agent that does not scale and that the instances ask"
    elif cls.event_handlers():
        found = "subscribes to events, and each instance would be given all of them"
        fix = "subscribe in an agent that does not scale and delegates to this one"
    elif cls.schedules():
        found = "has a schedule, and each instance would run it"
        fix = "put it into an agent that does not scale and delegates to this one"
    if found:
        raise UsageError(f"{cls.__qualname__} cannot scale: it {found}. Leave `scale` out, or {fix}.")
