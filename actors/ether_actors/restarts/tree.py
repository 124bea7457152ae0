"""The records of a supervision tree: children, supervisors, and where each stands. They decide nothing.

`ether_actors.restarts.restart_machine` decides, and is the only one to write here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import TypeAlias

from ether_actors.restarts.events import ChildPath, Exit
from ether_actors.restarts.restart_intensity import RestartIntensity
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, Strategy, SupervisorSpec

__all__ = [
    "Child",
    "ChildStatistics",
    "Lifecycle",
    "Plan",
    "SupervisorState",
    "TreeStatistics",
    "Worker",
    "make",
    "survey",
    "walk",
]


@unique
class Lifecycle(Enum):
    """The states of a child, or of a supervisor, in its lifecycle."""

    PENDING = "pending"  # known, and nothing of it runs; its supervisor starts it in its turn
    STARTING = "starting"  # told to start; a supervisor: some of its children are not up yet
    RUNNING = "running"  # up
    STOPPING = "stopping"  # told to stop; a supervisor also when it gave up by itself
    ENDED = "ended"  # nothing of it runs, and what follows is decided when its supervisor is free to
    BACKOFF = "backoff"  # nothing of it runs until a timer fires; its mailbox is kept
    DONE = "done"  # it will not be started again, unless a sibling's restart takes it along

    @property
    def is_alive(self) -> bool:
        """Whether something of it may run."""
        return self in _ALIVE


_ALIVE = frozenset({Lifecycle.STARTING, Lifecycle.RUNNING, Lifecycle.STOPPING})
_STEPS = {
    Lifecycle.PENDING: {Lifecycle.STARTING, Lifecycle.DONE},
    Lifecycle.STARTING: {Lifecycle.RUNNING, Lifecycle.STOPPING, Lifecycle.ENDED},
    Lifecycle.RUNNING: {Lifecycle.STOPPING, Lifecycle.ENDED},
    Lifecycle.STOPPING: {Lifecycle.ENDED},
    Lifecycle.ENDED: {Lifecycle.PENDING, Lifecycle.STARTING, Lifecycle.BACKOFF, Lifecycle.DONE},
    Lifecycle.BACKOFF: {Lifecycle.PENDING, Lifecycle.STARTING, Lifecycle.DONE},
    Lifecycle.DONE: {Lifecycle.STARTING},
}


class _Child:
    """The common part of workers and supervisors."""

    __slots__ = (
        "attempt",
        "detail",
        "exit",
        "fresh",
        "id",
        "parent",
        "path",
        "restart",
        "since",
        "state",
        "timer",
        "ups",
    )

    def __init__(self, id_: str, restart: Restart, parent: SupervisorState | None) -> None:
        self.id = id_
        self.restart = restart
        self.parent = parent
        self.path: ChildPath = (*parent.path, id_) if parent else (id_,)
        self.state = Lifecycle.PENDING
        self.ups = 0
        """How often it came up."""
        self.since: float | None = None
        """When it came up; None before that."""
        self.attempt = 0
        """Restarts since its last quiet time that its own ends have cost."""
        self.timer: int | None = None
        """The token that it waits for in BACKOFF; None once that has fired."""
        self.exit = Exit.NORMAL
        """How it ended last, with `detail`; means nothing before."""
        self.detail = ""
        self.fresh = False
        """Added, and has not come up yet: if it does not, it is forgotten."""

    def move(self, state: Lifecycle) -> None:
        """Change the state; the only way it changes."""
        assert state in _STEPS[self.state], f"{'/'.join(self.path)}: {self.state.name} to {state.name}"
        self.state = state


class Worker(_Child):
    """An agent."""

    __slots__ = ("incarnation", "spec")

    def __init__(self, spec: ChildSpec, parent: SupervisorState) -> None:
        super().__init__(spec.id, spec.restart, parent)
        self.spec = spec
        self.incarnation = 0


class SupervisorState(_Child):
    """A supervisor; at the root one without a parent."""

    __slots__ = ("children", "plan", "queue", "removed", "spec", "verdict", "window")

    def __init__(self, spec: SupervisorSpec, parent: SupervisorState | None) -> None:
        super().__init__(spec.id, spec.restart, parent)
        self.spec = spec
        self.children: dict[str, Child] = {}
        """{id: child}, in start order."""
        self.plan: Plan | None = None
        """What it is in the middle of."""
        self.queue: deque[Child] = deque()
        """Children about which something is to be decided when there is no plan."""
        self.removed: set[str] = set()
        """Ids of children that are not to come back."""
        self.verdict = (Exit.NORMAL, "")
        """What to tell its own supervisor when the stopping is over."""
        self.window = RestartIntensity(spec.intensity, spec.period)

    def rebuild(self) -> list[Child]:
        """Make ready for a start, with the children of the spec and an unspent budget, as OTP's `init`.

        Returns:
            The children that were added later: they do not come back, as with OTP.
        """
        assert self.plan is None
        assert not self.queue
        known, self.children = self.children, {}
        for spec in self.spec.children:
            if spec.id in self.removed:
                continue
            child = known.get(spec.id)
            if child is not None and child.spec is spec:
                del known[spec.id]
                child.attempt = 0
            else:
                child = make(spec, self)
            self.children[spec.id] = child
        self.window = RestartIntensity(self.spec.intensity, self.spec.period)
        return list(known.values())

    def group(self, child: Child) -> list[str]:
        """The ids, in start order, that are restarted when `child` is, itself among them.

        Not asked under one_for_one, where it would be the child alone.
        """
        ids = list(self.children)
        return ids[ids.index(child.id) :] if self.spec.strategy is Strategy.REST_FOR_ONE else ids


Child: TypeAlias = Worker | SupervisorState


class Plan:
    """The steps that a supervisor takes one by one: the stops from the last to the first, then the starts in order.

    While there is a plan, nothing else is decided, as OTP's supervisor reads no message while it restarts a
    group.
    """

    __slots__ = ("initial", "starts", "stops")

    def __init__(self, stops: Iterable[str] = (), starts: Iterable[str] = (), *, initial: bool = False) -> None:
        self.stops: dict[str, None] = dict.fromkeys(stops)
        """Ids still to be stopped, in start order; a dict, because it is asked for membership at each
        exit."""
        self.starts = deque(starts)
        """Ids still to be started, in start order."""
        self.initial = initial
        """Whether it is the supervisor's own start, which fails with the first start that does."""


def make(spec: ChildSpec | SupervisorSpec, parent: SupervisorState) -> Child:
    """Make the record of a child; it is not among the children of `parent` yet."""
    return Worker(spec, parent) if isinstance(spec, ChildSpec) else SupervisorState(spec, parent)


@dataclass(frozen=True, slots=True)
class ChildStatistics:
    """The state of one child at one moment."""

    state: Lifecycle
    restarts: int
    """How often it came up again, for whatever reason."""


@dataclass(frozen=True, slots=True)
class TreeStatistics:
    """A snapshot of a tree: agents and supervisors, in start order, each supervisor before its children."""

    children: Mapping[ChildPath, ChildStatistics]
    """{path: where it stood}, the root's path among them; children that were forgotten are not there."""


def survey(root: SupervisorState) -> TreeStatistics:
    """Take the snapshot; O(children)."""
    children = {child.path: ChildStatistics(child.state, max(0, child.ups - 1)) for child in walk(root)}
    return TreeStatistics(MappingProxyType(children))


def walk(root: Child) -> Iterator[Child]:
    """The child and all below it, each supervisor before its children."""
    left: list[Child] = [root]
    while left:
        child = left.pop()
        yield child
        if isinstance(child, SupervisorState):
            left.extend(reversed(child.children.values()))
