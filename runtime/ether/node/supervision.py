"""The supervision trees of this node: a guardian each, which keeps its agents running.

Cell ── crashed ──► AgentSupervision ──► SupervisionRunner ── make_cell, announce, leave ──► AgentHost
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ether.node.agent_host import AgentHost
from ether.text_io.warning import warn_unread
from ether_actors.execution.cell import Cell
from ether_actors.execution.resources import Resources
from ether_actors.execution.timers import Timers
from ether_broker import errors

if TYPE_CHECKING:
    from ether_actors.agent.agent import Agent
    from ether_actors.restarts.child_spec import SupervisorSpec
    from ether_actors.restarts.runner import SupervisionRunner

__all__ = ["AgentSupervision"]

logger: logging.Logger = logging.getLogger("ether.node")


class AgentSupervision:
    """The guardians of one node; what a guardian needs of its node (`SupervisionHost`).

    Args:
        hosting: where the agents are.
        machinery: what the node runs on.
        timers: for restarts after a pause.
    """

    def __init__(self, agent_host: AgentHost, resources: Resources, timers: Timers) -> None:
        self.random: random.Random = resources.random
        self.monotonic: Callable[[], float] = resources.monotonic
        self.run: Callable[[Callable[[], None]], None] = resources.run
        self.wait: Callable[[threading.Event, float | None], bool] = resources.wait
        self.call_at: Callable[[float, Callable[[], None]], None] = timers.add
        self.make_cell: Callable[[str, Callable[[], Any], type[Agent] | None], Cell] = agent_host.make_cell
        self.announce: Callable[[Cell], BaseException | None] = agent_host.announce
        self.restarting: Callable[[Cell, str], None] = agent_host.restarting
        self.comes_back = False
        """Whether this process is started again when a tree gives up: its agents are down meanwhile, and not gone."""
        self.has_given_up: bool = False
        """Whether a tree gave up."""
        self._leave = agent_host.leave
        self.on_escalation: Callable[[str, str], None] = _warn
        """Told when a supervision tree gave up: its id and why."""
        self._guardians: list[SupervisionRunner] = []

    def supervise(self, spec: SupervisorSpec, timeout: float) -> SupervisionRunner:
        """Start a supervision tree and wait until all its agents run.

        Raises:
            Exception: what kept the first agent from starting; none of them is left running.
            WaitTimeout: they did not all run after `timeout` seconds; they are stopped.
        """
        from ether_actors.restarts.runner import SupervisionRunner

        runner = SupervisionRunner(spec, self)
        self._guardians.append(runner)
        if runner.start(timeout):
            return runner
        failure = runner.failure
        if failure is None:
            runner.stop()
            failure = errors.WaitTimeout(f"{spec.id} had not started after {timeout:g} s; its agents are stopped.")
        self._guardians.remove(runner)
        raise failure

    def crashed(self, cell: Cell, error: BaseException) -> None:
        """Stop a crashed agent's turns at once, and let its guardian decide."""
        if not cell.crash():
            return
        logger.error("%s crashed", cell.name, exc_info=error)

        def mourn() -> None:
            cell.mourn(error)
            self._guardian_of(cell).crashed(cell, error)

        self.run(mourn)

    def _guardian_of(self, cell: Cell) -> SupervisionRunner:
        for runner in self._guardians:
            if cell in runner.cells:
                return runner
        from ether_actors.restarts.child_spec import ChildSpec, SupervisorSpec
        from ether_actors.restarts.runner import SupervisionRunner

        spec = SupervisorSpec(cell.name, children=(ChildSpec(cell.name, cell.make),))
        runner = SupervisionRunner(spec, self, {cell.name: cell})
        self._guardians.append(runner)
        runner.adopt()
        return runner

    def leave(self, cell: Cell, reason: str, *, gave_up: bool = False) -> None:
        """Stop an agent for good, or until this process is started again."""
        self._leave(cell, reason, comes_back=gave_up and self.comes_back)

    def escalated(self, runner: SupervisionRunner, reason: str) -> None:
        """Take note that a tree gave up."""
        self.has_given_up = True
        if runner in self._guardians:
            self._guardians.remove(runner)
        self.on_escalation(runner.spec.id, reason)

    def close(self, end: float) -> None:
        """Stop all trees; each may take until `end` by `time.monotonic()`, and half a second at least."""
        for runner in list(self._guardians):
            runner.stop()
        for runner in list(self._guardians):
            runner.wait(max(0.5, end - time.monotonic()))


def _warn(tree: str, reason: str) -> None:
    warn_unread(logger, f"{tree} gave up and is gone from the bus: {reason}.")
