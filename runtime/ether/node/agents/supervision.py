"""The supervision trees of this node: a guardian each, which keeps its agents running.

Cell ── crashed ──► AgentSupervision ──► SupervisionRunner ── make_cell, announce, leave ──► AgentHost
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ether.node.agents.agent_host import AgentHost, NotStarted
from ether_actors.execution.cell import Cell, CellState
from ether_actors.execution.due_calls import DueCalls
from ether_actors.execution.resources import Resources
from ether_actors.threads.latch import Waitable
from ether_broker import errors
from ether_broker.unread_log import warn_unread

if TYPE_CHECKING:
    from ether_actors.agent.agent import Agent
    from ether_actors.restarts.runner import SupervisionRunner
    from ether_actors.restarts.supervisor_spec import SupervisorSpec

__all__ = ["AgentSupervision"]

logger: logging.Logger = logging.getLogger("ether.node")

_LOOK: Final = 0.02
"""Seconds between two looks at agents that are to stop."""


class AgentSupervision:
    """The guardians of one node; what a guardian needs of its node (`SupervisionHost`).

    Args:
        agent_host: where the agents are.
        resources: what the node runs on.
        due_calls: for restarts after a pause.
    """

    def __init__(self, agent_host: AgentHost, resources: Resources, due_calls: DueCalls) -> None:
        self.random: random.Random = resources.random
        self.monotonic: Callable[[], float] = resources.monotonic
        self.run: Callable[[Callable[[], None]], None] = resources.run
        self.wait: Callable[[Waitable, float | None], bool] = resources.wait
        self.call_at: Callable[[float, Callable[[], None]], None] = due_calls.add
        self.make_cell: Callable[[str, Callable[[], Any], type[Agent] | None], Cell] = agent_host.make_cell
        self.announce: Callable[[Cell], BaseException | None] = agent_host.announce
        self.restarting: Callable[[Cell, str], None] = agent_host.restarting
        self.ends_process: set[str] = set()
        """Trees that end this process when they give up; it is started again, so that its agents are down, and not gone."""
        self.is_process_ending: bool = False
        """Whether one of them gave up, or another process takes the node's name: the broker is told nothing."""
        self.trees: dict[str, SupervisorSpec] = {}
        """{agent: what its tree is like}, of the agents that were started alone and are not restarted by the defaults."""
        self.given_up: set[str] = set()
        """Agents that are gone because their tree gave up."""
        self._agent_host = agent_host
        self.on_left: Callable[[Cell], None] = lambda _cell: None
        """Told of an agent that gave up, or that its restart type does not start again."""
        self.on_made_again: Callable[[Cell], None] = lambda _cell: None
        """Told of the new cell of an agent that did not start and is started again."""
        self.on_escalation: Callable[[str, str], None] = _warn
        """Told when a supervision tree gave up: its id and why."""
        self._runners: list[SupervisionRunner] = []
        self._removed: set[Cell] = set()
        """Cells of agents that are being stopped for good: a crash of theirs restarts nothing."""
        self._lock = threading.Lock()
        """Of the two."""

    def supervise(self, spec: SupervisorSpec, timeout: float) -> SupervisionRunner:
        """Start a supervision tree and wait until all its agents run.

        Raises:
            NotStarted: what the first agent that did not start raised; none of them is left running.
            EtherError: the registry did not take one.
            WaitTimeout: they did not all run after `timeout` seconds; they are stopped.
        """
        from ether_actors.restarts.runner import SupervisionRunner

        runner = SupervisionRunner(spec, self)
        with self._lock:
            self._runners.append(runner)
        if runner.start(timeout):
            return runner
        failure = runner.failure
        if failure is not None and not runner.is_refused:
            failure = NotStarted(failure)
        if failure is None:
            runner.stop()
            failure = errors.WaitTimeout(f"{spec.id} had not started after {timeout:g} s; its agents are stopped.")
        self._forget(runner)
        raise failure

    def stop_agent(self, name: str, timeout: float) -> None:
        """Stop an agent for good, whatever its tree would do: what runs has `timeout` seconds, as has a start of it.

        Raises:
            UnknownAgent: it is not on this node.
        """
        self.stop_agents([name], timeout)

    def stop_agents(self, names: Iterable[str], timeout: float) -> list[str]:
        """Stop agents for good, as `stop_agent`, which all have the same `timeout` seconds.

        Returns:
            Those of which something still ran.

        Raises:
            UnknownAgent: one is not on this node.
        """
        return self.stop_cells([self._agent_host.cell(name) for name in names], timeout)

    def stop_cells(self, cells: list[Cell], timeout: float) -> list[str]:
        """Stop agents for good, as `stop_agents`; those that have left meanwhile are passed over."""
        self._agent_host.begin_draining(cells)
        late = []
        for cell, is_idle in self._as_they_end(cells, timeout):
            self.remove(cell)
            if not is_idle:
                late.append(cell.name)
        return late

    def take_down(
        self, names: Collection[str], timeout: float, reason: str, *, moves: bool = False
    ) -> Iterator[tuple[str, bool]]:
        """Stop agents whose names others are to take at once, each as soon as what runs of it has ended.

        The bus keeps their names, what waits for them, and what comes meanwhile. Those that have left are passed over.

        Args:
            names: of agents.
            timeout: seconds that what runs has; then its delegations fail, or end as those of a lost node if the agents move.
            reason: why.
            moves: whether another node is to take the names, and not this one's process or the next of its name.

        Yields:
            The name of each that is stopped, and whether something still ran.
        """
        cells = [cell for cell in self._agent_host.cells if cell.name in names]
        agents = [cell.agent for cell in cells]
        end = self.monotonic() + timeout
        self._agent_host.begin_giving_way(cells, reason)
        with ExitStack() as let_go:
            for cell in cells:  # a crash from here on restarts nothing: its successor comes
                self._await_start(cell, end - self.monotonic())
                let_go.enter_context(self._letting_go(cell))
            restarted = [cell for cell, agent in zip(cells, agents, strict=True) if cell.agent is not agent]
            if restarted:  # one that crashed meanwhile has registered again, and takes what comes
                self._agent_host.begin_giving_way(restarted, reason)
            for cell, is_idle in self._as_they_end(cells, max(0.0, end - self.monotonic())):
                if moves:
                    self._agent_host.leave(cell, reason, moves=True)
                yield cell.name, not is_idle if moves else self._agent_host.give_way(cell)
            if moves and cells:
                self._agent_host.await_left()

    def _await_start(self, cell: Cell, timeout: float) -> None:
        """Wait until a restart of an agent that is under way has ended, if there is one."""
        if (runner := self._runner_of(cell)) is not None:
            runner.await_start(cell.name, max(0.0, timeout))

    def _as_they_end(self, cells: list[Cell], timeout: float) -> Iterator[tuple[Cell, bool]]:
        """Yield each agent as soon as nothing of it runs or is being started, or the time is over; and whether nothing does.

        In that order, because one may wait for what another will do once it has been replaced.
        """
        end, left, budget = self.monotonic() + timeout, cells, timeout
        while left:
            budget = min(budget, end - self.monotonic())
            wait, is_last = max(0.0, budget if len(left) == 1 else min(budget, _LOOK)), budget <= 0.0 or len(left) == 1
            budget -= wait  # a clock that stands still, as in tests, does not make this endless
            busy: list[Cell] = []
            for cell in left:
                self._await_start(cell, wait)
                is_idle = self._agent_host.await_idle(cell, 0.0 if busy else wait)
                if is_idle or is_last:
                    yield cell, is_idle
                else:
                    busy.append(cell)
            left = busy

    def replace(
        self, name: str, tree: SupervisorSpec, make: Callable[[], Any], cls: type[Agent] | None
    ) -> Callable[[], None]:
        """Prepare an agent in the place of one that was taken down, or left; who stops it from now on finds it.

        Args:
            name: of both.
            tree: of the new one.
            make: makes it.
            cls: its class, if that is known.

        Returns:
            Starts it, unless it is stopped before that or meanwhile; if it does not start, it goes on by its tree. Raises
            NotStarted: `__init__` or `on_start` raised; unless it is temporary, its tree goes on starting it.
            EtherError: the registry did not take it; it has left the bus.
        """
        self.trees[name] = tree
        cell = self.make_cell(name, make, cls)
        cell.is_registered = True  # as the one before: the bus keeps the name, and what waits, while this one starts
        return lambda: self._start(cell, tree, cls)

    def _start(self, cell: Cell, tree: SupervisorSpec, cls: type[Agent] | None) -> None:
        from ether_actors.restarts.supervisor_spec import Restart

        failure = self._agent_host.boot(cell)
        if cell.is_stopped:
            return
        refused = self.announce(cell) if failure is None else None
        if cell.is_stopped:  # before it was announced, perhaps
            self._agent_host.leave(cell, "stopped")
            return
        if failure is None and refused is None:
            cell.open()
            return
        error = failure or refused
        assert error is not None
        is_final = refused is not None and not isinstance(refused, errors.Unavailable)
        if is_final or tree.children[0].restart is Restart.TEMPORARY:
            self._agent_host.leave(cell, "it did not start")
        else:
            cell.stop()
            self.start_again(cell.name, cell.make, cls, error)
        raise error if failure is None else NotStarted(failure)

    def remove(self, cell: Cell) -> None:
        """End an agent for good, at once; its tree lets go of it."""
        with self._letting_go(cell):
            self._agent_host.leave(cell, "stopped")

    @contextmanager
    def _letting_go(self, cell: Cell) -> Iterator[None]:
        """Have an agent's tree let go of it before it is stopped within the block."""
        with self._lock:
            self._removed.add(cell)
        runner = self._runner_of(cell)
        if runner is not None and runner.remove(cell):
            self._forget(runner)
        self.trees.pop(cell.name, None)
        self.ends_process.discard(cell.name)
        try:
            yield
        finally:
            with self._lock:
                self._removed.discard(cell)

    def crashed(self, cell: Cell, error: BaseException) -> None:
        """Stop a crashed agent's turns at once, and let its guardian decide."""
        if not cell.crash():
            return
        logger.error("%s crashed", cell.name, exc_info=error)

        def clean_up() -> None:
            cell.clean_up_crashed(error)
            runner = self._runner_of(cell) or self._adopt(cell)
            if runner is not None:
                runner.crashed(cell, error)

        self.run(clean_up)

    def start_again(self, name: str, make: Callable[[], Any], cls: type[Agent] | None, error: BaseException) -> None:
        """Go on starting an agent that did not start alone, as its tree starts one that crashed."""
        logger.error(
            "%s did not start: %s", name, error, exc_info=None if isinstance(error, errors.EtherError) else error
        )
        cell = self.make_cell(name, make, cls)
        cell.is_registered = True  # as by `replace`
        self.on_made_again(cell)
        runner = self._adopt(cell)
        if runner is not None:
            runner.start_failed(cell, error)

    def _runner_of(self, cell: Cell) -> SupervisionRunner | None:
        with self._lock:
            return next((runner for runner in self._runners if cell in runner.cells), None)

    def _adopt(self, cell: Cell) -> SupervisionRunner | None:
        """Give an agent that was started alone its tree; None if it is being stopped for good."""
        from ether_actors.restarts.runner import SupervisionRunner
        from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, SupervisorSpec

        like = self.trees.get(cell.name) or SupervisorSpec(cell.name)
        restart = next((child.restart for child in like.children), Restart.PERMANENT)
        child = ChildSpec(cell.name, cell.make, restart=restart)
        spec = replace(like, id=cell.name, children=(child,))
        runner = SupervisionRunner(spec, self, {cell.name: cell})
        with self._lock:
            if cell in self._removed or cell.state is CellState.STOPPED:
                return None
            runner.adopt()
            self._runners.append(runner)
        return runner

    def leave(self, cell: Cell, reason: str, *, gave_up: bool = False) -> None:
        """Stop an agent for good, or until this process is started again."""
        self.on_left(cell)
        if gave_up:
            self.given_up.add(cell.name)
        self._agent_host.leave(cell, reason, comes_back=gave_up and cell.name in self.ends_process)

    def escalated(self, runner: SupervisionRunner, reason: str) -> None:
        """Take note that a tree gave up."""
        if runner.spec.id in self.ends_process:
            self.is_process_ending = True
        self._forget(runner)
        self.on_escalation(runner.spec.id, reason)

    def _forget(self, runner: SupervisionRunner) -> None:
        with self._lock:
            if runner in self._runners:
                self._runners.remove(runner)

    def close(self, end: float) -> None:
        """Stop all trees; each may take until `end` by `time.monotonic()`, and half a second at least."""
        for runner in list(self._runners):
            runner.stop()
        for runner in list(self._runners):
            runner.wait(max(0.5, end - time.monotonic()))


def _warn(tree: str, reason: str) -> None:
    warn_unread(logger, f"{tree} gave up and is gone from the bus: {reason}.")
