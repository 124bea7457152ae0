"""The walk: every state that can be reached, breadth first, each once."""

from __future__ import annotations

import gc
import io
import logging
import pickle
import threading
import time
import types
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from ether_broker.security.access_list import Access
from tests.simulation.small_world.laws import broken, left_over
from tests.simulation.small_world.snapshot import digest
from tests.simulation.small_world.world import FAULTS, Action, Relation, World, _Ear

__all__ = ["Walk", "replay", "walk"]

_SHARED: list[Any] = []
_NUMBERS: dict[int, int] = {}
_KEYS: Final = type({}.keys())
_LOCK: Final = type(threading.Lock())
_ENDINGS: Final = (*FAULTS, "say")


@dataclass
class Walk:
    """What a walk saw."""

    relation: Relation
    states: int = 0
    steps: int = 0
    depth: int = 0
    resting: int = 0
    """States in which nothing more can happen by itself."""
    is_complete: bool = False
    seconds: float = 0.0
    violations: list[tuple[str, tuple[Action, ...]]] = field(default_factory=list)
    """(what is broken, how to get there), the shortest first."""


class _Pickler(pickle.Pickler):
    """Copies what never changes by reference: functions, manifests, an access list."""

    def reducer_override(self, found: Any) -> Any:
        if type(found) is types.FunctionType and "<" in found.__qualname__:
            return _shared, (_number_of(found),)
        if isinstance(found, BaseModel | Access):
            return _shared, (_number_of(found),)
        if type(found) is _LOCK:
            return threading.Lock, ()
        if type(found) is _KEYS:
            return dict.keys, (gc.get_referents(found)[0],)
        return NotImplemented


def _shared(number: int) -> Any:
    return _SHARED[number]


def _number_of(found: Any) -> int:
    number = _NUMBERS.get(id(found))
    if number is None:
        number = _NUMBERS[id(found)] = len(_SHARED)
        _SHARED.append(found)
    return number


def _freeze(world: World) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, 5).dump(world)
    return buffer.getvalue()


@contextmanager
def _listening() -> Iterator[None]:
    root, logger, ear = logging.getLogger("ether"), logging.getLogger("ether.supervisor"), _Ear(logging.ERROR)
    level = root.level
    root.setLevel(logging.ERROR)
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)
        root.setLevel(level)


def walk(relation: Relation, *, most_states: int | None = None, seconds: float | None = None) -> Walk:
    """Visit the states of a small world.

    Args:
        relation: what is asked in it, and what may go wrong.
        most_states: where to stop; default: at the end.
        seconds: after how long to stop; default: never.
    """
    with _listening():
        return _walk(relation, most_states, seconds)


def _walk(relation: Relation, most_states: int | None, seconds: float | None) -> Walk:
    seen, began = Walk(relation), time.monotonic()
    first = World(relation)
    known = {digest(first)}
    ahead: deque[tuple[bytes, tuple[Action, ...]]] = deque([(_freeze(first), ())])
    while ahead:
        frozen, path = ahead.popleft()
        seen.states += 1
        seen.depth = max(seen.depth, len(path))
        world = pickle.loads(frozen)
        actions = list(world.actions())
        if not any(_is_due(action) for action in actions):
            seen.resting += 1
            if why := left_over(world):
                seen.violations.append((why, path))
        for index, action in enumerate(actions):
            if index:
                world = pickle.loads(frozen)
            seen.steps += 1
            try:
                world.do(action)
                why = broken(world)
            except Exception as bug:
                why = f"{bug!r} {bug.__cause__!r}"
            if why:
                seen.violations.append((why, (*path, action)))
                continue
            name = digest(world)
            if name not in known:
                known.add(name)
                ahead.append((_freeze(world), (*path, action)))
        seen.seconds = time.monotonic() - began
        if (most_states and seen.states >= most_states) or (seconds and seen.seconds > seconds):
            return seen
    seen.is_complete = True
    return seen


def _is_due(action: Action) -> bool:
    """Whether something happens by itself: no fault, and nothing that somebody decides to ask."""
    return action[0] not in _ENDINGS or action[1:] == ("ends",)


def replay(relation: Relation, path: tuple[Action, ...]) -> World:
    """The state to which a path leads."""
    with _listening():
        world = World(relation)
        for action in path:
            world.do(action)
    return world
