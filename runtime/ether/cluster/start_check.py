"""A check of what makes an agent: whether its class is there and takes its arguments, before another is stopped for it."""

from __future__ import annotations

import inspect
import threading

from ether.cluster.cluster_spec import AgentSpec
from ether_actors.agent.agent import Agent
from ether_actors.agent.scale import check_scalable
from ether_actors.restarts.runner import resolve
from ether_broker.errors import InvalidSpec, UsageError
from ether_broker.name_hint import nearest

__all__ = ["why_not_made"]


def why_not_made(agent: AgentSpec, patience: float) -> str | None:
    """Why the class of an agent cannot be called with its arguments, as far as can be known without a call; None if it can.

    Args:
        agent: what it is to be.
        patience: seconds; a module that takes longer to be imported is not waited for, and nothing is known of it.
    """
    found: list[str] = []
    check = threading.Thread(target=lambda: found.extend(_look(agent)), name="ether-start-check", daemon=True)
    check.start()
    check.join(patience)
    return found[0] if found else None


def _look(agent: AgentSpec) -> list[str]:
    try:
        make = resolve(agent.start)
    except InvalidSpec as error:
        return [str(error)]
    except BaseException as error:  # noqa: BLE001  of the module
        return [f"{agent.start} cannot be imported: {type(error).__name__}: {error}"]
    if agent.scale is not None and isinstance(make, type) and issubclass(make, Agent):
        try:
            check_scalable(make)
        except UsageError as error:
            return [str(error)]
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        return []
    try:
        signature.bind(*agent.args, **agent.kwargs)
    except TypeError as error:
        parameters = signature.parameters
        unknown = next((name for name in agent.kwargs if name not in parameters), None)
        hint = "" if unknown is None else nearest(unknown, parameters)
        return [f"{agent.start} does not take these arguments: {error}.{hint}"]
    return []
