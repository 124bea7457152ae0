"""A watch on the node's event loop, which names the handler that blocks it.

Node.ticked ──► EventLoopWatch ──► log (and a warning where nobody reads the log), the node's heartbeat ──► broker ──► event
"""

from __future__ import annotations

import logging
from pathlib import PurePath
from typing import Final

from ether.node.agents.agent_host import AgentHost
from ether_actors.execution.resources import Resources
from ether_actors.task.work_item import Work
from ether_broker.envelope.ids import to_text
from ether_broker.unread_log import warn_unread

__all__ = ["EventLoopWatch"]

logger: logging.Logger = logging.getLogger("ether.loop")

_AT: Final = 160
"""Letters that tell a place in the code."""


class EventLoopWatch:
    """A watch on an event loop that tells once when it stands still: who keeps it, where, and when it goes on.

    Args:
        agent_host: whose handlers run there.
        resources: whose loop it is.
    """

    def __init__(self, agent_host: AgentHost, resources: Resources) -> None:
        self._agent_host = agent_host
        self._resources = resources
        self._work: Work | None = None
        self._agent = ""
        self._at = ""
        self._since: float | None = None

    def ticked(self, now: float) -> bool:
        """Called about every 0.1 s; whether there is something new for the node's heartbeat to tell."""
        loop = self._resources.loop
        stands_still = loop.ticked()
        if stands_still == (self._since is not None):
            return False
        if not stands_still:
            assert self._since is not None
            logger.info("the event loop goes on after %.1f s", now - self._since)
            self._since = self._work = None
            return True
        self._since = now - loop.STANDS_STILL
        self._agent, self._work = self._find_in_loop(loop.task)
        stack = loop.stack()
        newest = stack[-1] if stack else None
        self._at = "" if newest is None else f"{PurePath(newest.filename).name}:{newest.lineno} in {newest.name}"[:_AT]
        who = "something that no handler awaits"
        if self._work is not None:
            header = self._work.header
            who = f"{self._agent} ({header.capability.decode()}, request {to_text(header.request_id)})"
        message = (
            f"{who} blocks the event loop at {self._at}: every async handler of this process waits for it. "
            "Await instead, or use a plain def, or asyncio.to_thread."
        )
        logger.warning("%s\n%s", message, "".join(stack.format()))
        warn_unread(logger, message)
        return True

    def _find_in_loop(self, runner: object) -> tuple[str, Work | None]:
        """The agent and the work whose handler the event loop runs: in that task of asyncio, or as a plain call."""
        for cell in self._agent_host.busy_cells():
            for work in cell.in_loop():
                if work.runner is runner:
                    return cell.name, work
        return "", None

    def tell(self, loads: dict[str, dict[str, object]], now: float) -> None:
        """Add to the agents' loads who blocks the loop."""
        if self._since is not None and self._work is not None and self._agent in loads:
            header = self._work.header
            loads[self._agent]["blocking"] = {
                "capability": header.capability.decode(), "request_id": to_text(header.request_id), "at": self._at,
                "seconds": round(now - self._since, 3),
            }  # fmt: skip
