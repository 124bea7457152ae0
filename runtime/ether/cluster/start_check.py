"""A check of what makes an agent: whether its class is there and takes its arguments, before another is stopped for it.

It says so of the process that it runs in: one that imported the module earlier has the code of then.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ether.cluster.cluster_spec import AgentSpec, NamedAgents
from ether.node.agents.scalable import check_scalable
from ether_actors.agent.agent import Agent
from ether_actors.restarts.runner import resolve
from ether_broker.errors import InvalidSpec, UsageError
from ether_broker.name_hint import nearest
from ether_broker.text import error_with_class

__all__ = ["check", "check_arguments", "why_not_made"]


def check(carried: Iterable[Mapping[str, Any]], patience: float) -> dict[str, str]:
    """Why some agents cannot be made in this process: {name by which a report tells of one: why}.

    Args:
        carried: the agents, as a request carries them.
        patience: seconds that their modules have to be imported.
    """
    end = time.monotonic() + patience
    failed: dict[str, str] = {}
    for one in carried:
        kind = NamedAgents(AgentSpec.of_dict(one["agent"]), tuple(one["names"]))
        if (why := why_not_made(kind.agent, end - time.monotonic())) is not None:
            failed.update(dict.fromkeys(kind.told, why))
    return failed


def why_not_made(agent: AgentSpec, patience: float) -> str | None:
    """Why the class of an agent cannot be called with its arguments, as far as can be known without a call; None if it can.

    Args:
        agent: what it is to be.
        patience: seconds that its module has to be imported.
    """
    found: list[str | None] = []
    check = threading.Thread(target=lambda: found.append(_look(agent)), name="ether-start-check", daemon=True)
    check.start()
    check.join(max(0.0, patience))
    return found[0] if found else f"{agent.start} could not be imported in time."


def _look(agent: AgentSpec) -> str | None:
    try:
        make: Any = resolve(agent.start)
        if agent.scale is not None and issubclass(make, Agent):
            check_scalable(make)
        check_arguments(agent.start, make, agent.args, agent.kwargs)
    except (InvalidSpec, UsageError) as error:
        return str(error)
    except BaseException as error:  # noqa: BLE001  of the module
        return f"{agent.start} cannot be imported: {error_with_class(error)}"
    return None


def check_arguments(start: str, make: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Check that a class can be called with these arguments, as far as its signature says.

    Raises:
        InvalidSpec: it cannot.
    """
    takes = make.__init__ if make.__init__ is not object.__init__ else make.__new__
    if takes is object.__new__:
        if args or kwargs:
            raise InvalidSpec(f"{start} takes no arguments.")
        return
    try:
        signature = inspect.signature(takes, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        names = list(signature.parameters)[1:]
        unknown = next((name for name in kwargs if name not in names), None)
        hint = "" if unknown is None else nearest(unknown, names)
        raise InvalidSpec(f"{start} does not take these arguments: {error}.{hint}") from None
