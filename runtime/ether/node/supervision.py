"""The supervision trees of this node: a guardian each, which keeps its agents running.

Cell ── crashed ──► AgentSupervision ──► SupervisionRunner ── make_cell, announce, leave ──► AgentHost
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ether.node.agent_host import AgentHost, NotStarted
from ether.text_io.warning import warn_unread
from ether_actors.execution.cell import Cell, CellState
from ether_actors.execution.resources import Resources
from ether_actors.execution.timers import Timers
from ether_actors.threads.latch import Waitable
from ether_broker import errors

if TYPE_CHECKING:
    from ether_actors.agent.agent import Agent
    from ether_actors.restarts.runner import SupervisionRunner
    from ether_actors.restarts.supervisor_spec import SupervisorSpec

__all__ = ["AgentSupervision"]

logger: logging.Logger = logging.getLogger("ether.node")


class AgentSupervision:
    """The guardians of one node; what a guardian needs of its node (`SupervisionHost`).

    Args:
        agent_host: where the agents are.
        resources: what the node runs on.
        timers: for restarts after a pause.
    """

    def __init__(self, agent_host: AgentHost, resources: Resources, timers: Timers) -> None:
        self.random: random.Random = resources.random
        self.monotonic: Callable[[], float] = resources.monotonic
        self.run: Callable[[Callable[[], None]], None] = resources.run
        self.wait: Callable[[Waitable, float | None], bool] = resources.wait
        self.call_at: Callable[[float, Callable[[], None]], None] = timers.add
        self.make_cell: Callable[[str, Callable[[], Any], type[Agent] | None], Cell] = agent_host.make_cell
        self.announce: Callable[[Cell], BaseException | None] = agent_host.announce
        self.restarting: Callable[[Cell, str], None] = agent_host.restarting
        self.ends_process: set[str] = set()
        """Trees that end this process when they give up; it is started again, so that its agents are down, and not gone."""
        self.is_process_ending: bool = False
        """Whether one of them gave up."""
        self.trees: dict[str, SupervisorSpec] = {}
        """{agent: what its tree is like}, of the agents that were started alone and are not restarted by the defaults."""
        self._agent_host = agent_host
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
        cell = self._agent_host.cell(name)
        end = self.monotonic() + timeout
        self._agent_host.begin_leaving(cell)
        if (runner := self._runner_of(cell)) is not None:
            runner.await_start(name, timeout)
        self._agent_host.await_idle(cell, max(0.0, end - self.monotonic()))
        self.remove(cell)

    def remove(self, cell: Cell) -> None:
        """End an agent for good, at once; its tree lets go of it."""
        with self._lock:
            self._removed.add(cell)
        runner = self._runner_of(cell)
        if runner is not None and runner.remove(cell):
            self._forget(runner)
        self._agent_host.leave(cell, "stopped")
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
        logger.error("%s did not start", name, exc_info=error)
        cell = self.make_cell(name, make, cls)
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
