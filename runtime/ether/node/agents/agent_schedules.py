"""The schedules of the agents of a node: each has its agent delegate a capability to itself when it says so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import ref

from ether.node.unwatched_failures import UnwatchedFailures
from ether_actors.agent.declarations.schedule import Schedule
from ether_actors.delegator.handle import Handle
from ether_actors.execution.cell import Cell, CellState
from ether_actors.execution.resources import Resources
from ether_broker.errors import Closed

if TYPE_CHECKING:
    from ether_actors.agent.agent import Agent

__all__ = ["AgentSchedules"]

logger: logging.Logger = logging.getLogger("ether.timers")

_DAY: Final = 86_400.0
"""Seconds by which a clock must have been wrong for a time to come again."""
_LOOK: Final = 30.0
"""Seconds after which a time by the wall clock, which may be set, is looked at again."""


class AgentSchedules:
    """The schedules of all agents of a node, each kept by a timer.

    Args:
        resources: whose clocks they go by.
        call_at: calls something in the pool at a time by the node's clock.
        delegate: (cell, capability, seconds) makes its agent delegate one of its capabilities to itself; None if the agent is
            given nothing any more.
        unwatched: told of runs that fail.
    """

    def __init__(
        self, resources: Resources, call_at: Callable[[float, Callable[[], None]], None],
        delegate: Callable[[Cell, str, float | None], Handle | None], unwatched: UnwatchedFailures,
    ) -> None:  # fmt: skip
        self._resources = resources
        self._call_at = call_at
        self.delegate: Callable[[Cell, str, float | None], Handle | None] = delegate
        self._unwatched = unwatched
        self._open: dict[tuple[str, str], Handle] = {}
        """{(agent, capability): the run that is open}, also one that an earlier agent of that name has left."""
        self._beginning: set[tuple[str, str]] = set()
        """(agent, capability) of runs that are being delegated."""
        self._lock = threading.Lock()

    def start(self, cell: Cell) -> None:
        """Begin the schedules of the agent that a cell has now; they end with it."""
        agent = cell.agent
        assert agent is not None
        for capability, schedule in type(agent).schedules():
            _Timer(self, cell, agent, capability, schedule).begin()

    def run(self, cell: Cell, capability: str, schedule: Schedule) -> None:
        """Have the agent of a cell delegate a capability to itself, unless a run of that is open.

        Raises:
            Closed: the agent has ended.
        """
        key = cell.name, capability
        with self._lock:
            last = self._open.get(key)
            if key in self._beginning or (last is not None and not last.done):
                return
            self._beginning.add(key)
        handle = None
        try:
            handle = self.delegate(cell, capability, schedule.timeout)
        finally:
            with self._lock:
                self._beginning.discard(key)
                if handle is not None:
                    self._open[key] = handle
        if handle is None:
            return
        handle.add_done_callback(lambda ended: self._end(key, ended))
        self._unwatched.watch(handle, str(schedule), is_repeated=True)

    def _end(self, key: tuple[str, str], ended: Handle) -> None:
        with self._lock:
            if self._open.get(key) is ended:
                del self._open[key]

    def wait(self, timer: _Timer) -> None:
        """Look at a timer when it is due."""
        now = self._resources.monotonic()
        left = timer.due - self.now(timer.schedule)
        self._call_at(now + (min(left, _LOOK) if timer.schedule.is_by_wall else left), timer)

    def now(self, schedule: Schedule) -> float:
        """The time by the clock of a schedule."""
        return self._resources.wall() if schedule.is_by_wall else self._resources.monotonic()


class _Timer:
    """A schedule of an agent, of which it keeps nothing; a call of `DueCalls`."""

    __slots__ = ("_agent", "_capability", "_cell", "_latest", "_schedules", "due", "schedule")

    def __init__(
        self, schedules: AgentSchedules, cell: Cell, agent: Agent, capability: str, schedule: Schedule
    ) -> None:  # fmt: skip
        self._schedules = schedules
        self._cell = ref(cell)
        self._agent = ref(agent)
        self._capability = capability
        self.schedule: Schedule = schedule
        self.due: float = 0.0
        self._latest: float = 0.0
        """The latest time that its clock has shown."""

    @property
    def cell(self) -> Cell | None:
        """Where its agent is; None if that has ended."""
        cell, agent = self._cell(), self._agent()
        is_there = cell is not None and agent is not None and cell.agent is agent and cell.state is CellState.RUNNING
        return cell if is_there else None

    @property
    def is_void(self) -> bool:
        """Whether its agent has ended."""
        return self.cell is None

    def begin(self) -> None:
        self._set(None)

    def _set(self, last: float | None) -> None:
        self._latest = self._schedules.now(self.schedule)
        self.due = self.schedule.due(last, self._latest)
        self._schedules.wait(self)

    def __call__(self) -> None:
        """Run if it is due; end with the agent."""
        schedules, cell = self._schedules, self.cell
        if cell is None:
            return
        now = schedules.now(self.schedule)
        if now < self.due:
            if self._latest - now > _DAY:
                logger.warning("%s: the clock was set back by days; %s is due anew", cell.name, self._capability)
                self._set(None)
            else:
                self._latest = max(self._latest, now)
                schedules.wait(self)
            return
        try:
            schedules.run(cell, self._capability, self.schedule)
        except Closed as error:
            logger.info("%s: the timer of %s ends: %s", cell.name, self._capability, error)
            return
        self._set(self.due)
