"""The end of handlers that hang: they went on too long after their delegations had ended.

Node.ticked ──► HangingHandlers ──► Cell.abandon, EventLoop.give_up, and a crash of the agent for its supervision tree
"""

from __future__ import annotations

from collections.abc import Callable

from ether.node.agents.agent_host import AgentHost
from ether_actors.execution.cell import Cell
from ether_actors.execution.resources import Resources
from ether_broker import errors

__all__ = ["HangingHandlers"]


class HangingHandlers:
    """The part of a node that gives up the handlers that hang, and with them an event loop that stands still.

    Args:
        agent_host: has the agents.
        resources: whose event loop it is.
        crashed: told of an agent whose handler hangs, and why.
    """

    def __init__(
        self, agent_host: AgentHost, resources: Resources, *, crashed: Callable[[Cell, BaseException], None]
    ) -> None:  # fmt: skip
        self._agent_host = agent_host
        self._resources = resources
        self._crashed = crashed

    def give_up(self, cell: Cell, now: float) -> None:
        """Give up what hangs of an agent, if anything does: the agent has crashed, and its handlers' places are free."""
        hanging = cell.hanging(now)
        if not hanging:
            return
        loop = self._resources.loop
        is_lost = loop.stands_still and not set(hanging).isdisjoint(cell.in_loop())
        fresh = [work for work in hanging if not work.is_orphaned]
        if fresh:  # one crash, however many of an incarnation's handlers hang
            took = now - fresh[0].cancelled_at
            msg = f"{cell.name} hangs: its handler went on {round(took, 1):g} s after its delegation ended."
            self._crashed(cell, errors.AgentCrash(msg))
        for work in hanging:
            cell.abandon(work)
        if is_lost:
            self._lose_loop()
            loop.give_up()  # what had not begun in it begins in the next

    def _lose_loop(self) -> None:
        """Restart the agents whose handlers run in a loop that is to be given up: what they hold may belong to it."""
        for cell in self._agent_host.cells:
            if cell.uses_loop:
                self._crashed(cell, errors.AgentCrash("The event loop stood still and was given up."))
                for work in cell.in_loop():
                    cell.abandon(work)
