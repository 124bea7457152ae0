"""Child specs and supervisor specs, in the words and with the meaning of OTP.

    SupervisorSpec("root", children=(
        ChildSpec("researcher", Researcher),
        SupervisorSpec("writers", Strategy.REST_FOR_ONE, children=(ChildSpec("outline", Outline), …)),
    ))

A spec is a value: it starts nothing. `ether_actors.restarts.restart_machine` decides by it; whoever runs the effects reads
`start`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any, NoReturn

from ether_actors.backoff import Backoff
from ether_actors.number_check import check_number
from ether_broker.errors import InvalidSpec
from ether_broker.name_hint import hint_fields, nearest

__all__ = ["ChildSpec", "Restart", "Strategy", "SupervisorSpec"]


@unique
class Restart(Enum):
    """The restart type of a child: after which ends its supervisor starts it again.

    Example:
        assert Restart("transient") is Restart.TRANSIENT  # restarted after a crash, not after an orderly end
        once = ChildSpec("once", Counter, restart=Restart.TEMPORARY)  # never restarted
        bus.supervise(SupervisorSpec("runs", children=(once,)))
    """

    PERMANENT = "permanent"
    """Every end, also a normal one."""
    TRANSIENT = "transient"
    """A crash; after a normal end or a shutdown it stays ended, and its spec stays known."""
    TEMPORARY = "temporary"
    """None; its spec is forgotten when it ends."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        _refuse_name(cls, value)


@unique
class Strategy(Enum):
    """The restart strategy of a supervisor: which siblings are restarted with a child that has failed.

    Example:
        store, cache = ChildSpec("store", Counter), ChildSpec("cache", Counter)
        bus.supervise(SupervisorSpec("storage", strategy=Strategy.REST_FOR_ONE, children=(store, cache)))
        assert Strategy("rest_for_one") is Strategy.REST_FOR_ONE  # a new store needs a new cache
    """

    ONE_FOR_ONE = "one_for_one"
    """Nobody."""
    ONE_FOR_ALL = "one_for_all"
    """All siblings: stopped in reverse start order, then all started in start order."""
    REST_FOR_ONE = "rest_for_one"
    """The siblings that start after it."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        _refuse_name(cls, value)


@hint_fields
@dataclass(frozen=True, slots=True)
class ChildSpec:
    """The specification of an agent that a supervisor keeps running, as OTP's child spec.

    Example:
        counter = ChildSpec("second-counter", Counter, restart=Restart.TRANSIENT)
        bus.supervise(SupervisorSpec("counters", children=(counter,)))
        assert bus.delegate("text.count", {"text": "two words"}, to="second-counter").result().data == 2

    Raises:
        InvalidSpec: the id is empty, `start` is nothing that can be started, `restart` is no restart type, or
            `shutdown` is negative.
    """

    id: str
    """Its name among its siblings."""
    start: Callable[..., Any] | str
    """The agent's class, a callable that makes it, or `"module:Class"`. The machine never looks into it."""
    args: tuple[Any, ...] = ()
    """Passed to `start`, at each start the same."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Passed to `start`; the mapping is copied, its values are not."""
    restart: Restart = Restart.PERMANENT
    """Which ends make it start again; the word itself, as from a file, is taken too."""
    shutdown: float = 5.0
    """Seconds that it has to finish when told to stop; 0 kills it at once, `math.inf` waits for ever."""

    def __post_init__(self) -> None:
        """Check, and turn words and lists from a file into what the fields promise."""
        _check_id("A child", self.id)
        _check_start(self.id, self.start)
        check_number(f"Child {self.id!r}", "shutdown", self.shutdown, "seconds, 0 or more", lambda v: v >= 0)
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "kwargs", dict(self.kwargs))
        object.__setattr__(self, "restart", Restart(self.restart))


@hint_fields
@dataclass(frozen=True, slots=True)
class SupervisorSpec:
    """The specification of a supervisor: its children in start order, its strategy, and how many restarts it bears.

    Example:
        counters = (ChildSpec("one", Counter), ChildSpec("two", Counter))
        bus.supervise(SupervisorSpec("counters", strategy=Strategy.ONE_FOR_ALL, intensity=5, period=10.0, children=counters))
        assert {"one", "two"} <= {agent["agent"] for agent in bus.agents()}

    Raises:
        InvalidSpec: the id is empty or two children share one, `intensity` is negative, `period` is not
            positive, or `strategy` or `restart` is no such word.
    """

    id: str
    """Its name among its siblings; the root's is the first part of every path."""
    strategy: Strategy = Strategy.ONE_FOR_ONE
    """Which siblings restart with a child; the word itself is accepted too."""
    intensity: int = 3
    """Tolerated restarts within `period`; with one more, the supervisor gives up: it stops its children and itself,
    which its own supervisor handles as a crash. 0 gives up at the first."""
    period: float = 5.0
    """Seconds; restarts this old and no older still count."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delays between restarts of the same child."""
    children: tuple[ChildSpec | SupervisorSpec, ...] = ()
    """In start order; stopped in reverse."""
    restart: Restart = Restart.PERMANENT
    """How its own supervisor treats its end; means nothing at the root."""

    def __post_init__(self) -> None:
        """Check, and turn words and lists from a file into what the fields promise."""
        _check_id("A supervisor", self.id)
        where = f"Supervisor {self.id!r}"
        wanted = "a whole number of restarts, 0 or more"
        check_number(where, "intensity", self.intensity, wanted, lambda v: isinstance(v, int) and v >= 0)
        check_number(where, "period", self.period, "seconds above 0", lambda v: 0 < v < math.inf)
        object.__setattr__(self, "strategy", Strategy(self.strategy))
        object.__setattr__(self, "restart", Restart(self.restart))
        object.__setattr__(self, "children", tuple(self.children))
        _check_children(where, self.children)


def _check_children(where: str, children: tuple[object, ...]) -> None:
    places: dict[str, int] = {}
    for place, child in enumerate(children, 1):
        if not isinstance(child, ChildSpec | SupervisorSpec):
            raise InvalidSpec(
                f"{where}: child {place} is {child!r}; wrap it as ChildSpec(id, start) or SupervisorSpec(id)."
            )
        if child.id in places:
            raise InvalidSpec(
                f"{where}: children {places[child.id]} and {place} are both {child.id!r}; give each an id."
            )
        places[child.id] = place


def _check_id(what: str, id_: object) -> None:
    if not isinstance(id_, str) or not id_.strip():
        raise InvalidSpec(f"{what} has the id {id_!r}; give it a name that is not empty.")


def _check_start(id_: str, start: object) -> None:
    if isinstance(start, str):
        module, colon, name = start.partition(":")
        parts = (*module.split("."), *name.split("."))
        if colon and all(part.isidentifier() for part in parts):
            return
    elif callable(start):
        return
    raise InvalidSpec(f"Child {id_!r}: start is {start!r}; give an agent class, a callable or 'module:Class'.")


def _refuse_name(kind: type[Enum], value: object) -> NoReturn:
    """Refuse a word that is no member. `Enum` calls it, so that every way in gives the same message."""
    names = [str(member.value) for member in kind]
    raise InvalidSpec(f"{value!r} is not a {kind.__name__.lower()}.{nearest(str(value), names)}")
