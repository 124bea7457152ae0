"""Agents that are named on the command line, as `module:Class`, for a bus in this process."""

from __future__ import annotations

import importlib
import sys
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from ether.cluster.cluster_spec import AgentSpec
from ether_actors.agent.composable import ComposableAgent
from ether_actors.agent.composable_adapter import is_agent
from ether_broker.errors import InvalidSpec
from ether_broker.name_hint import nearest

__all__ = ["load_agent"]


def load_agent(text: str) -> type[ComposableAgent]:
    """Import an agent's class; modules of the folder that we are in are found too.

    Raises:
        InvalidSpec: it is no `module:Class`, cannot be imported, or is no agent.
    """
    module_name, _, path = AgentSpec(text).start.partition(":")
    module = _import(module_name)
    try:
        found: Any = reduce(getattr, path.split("."), module)
    except AttributeError:
        raise InvalidSpec(f"Module {module_name!r} has no {path!r}.{nearest(path, _agents_of(module))}") from None
    if not isinstance(found, type) or not is_agent(found):
        raise InvalidSpec(f"{text} is no Agent: derive it from ether.Agent.{nearest(path, _agents_of(module))}")
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise InvalidSpec(f"Module {name!r} needs {error.name!r}, which is not installed.") from error
        raise InvalidSpec(f"There is no module {error.name!r}, neither installed nor in {here}.") from error
    except Exception as error:
        raise InvalidSpec(f"Module {name!r} cannot be imported: {type(error).__name__}: {error}.") from error


def _agents_of(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and is_agent(value) and value.__module__ == module.__name__
    ]
