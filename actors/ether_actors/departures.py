"""Agents whose nodes are gone: their work is ruled on a share a step, and their names are kept for some time. Sans-IO."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Final

from ether_actors.quota import MOST_DOWN
from ether_actors.reassignment import Reassignment
from ether_actors.records import Records
from ether_actors.registration import Condition, Registration
from ether_broker.router import Session

__all__ = ["NODE_LOST", "SHARE", "Departures"]

NODE_LOST: Final = "node_lost"
SHARE: Final = 512
"""Agents and delegations of lost nodes that one step rules on, and what the last agent has above them."""
_FORGET_AFTER: Final = 600.0
"""Seconds that an agent of a lost node stays in the registry, so that its name can be answered for."""


class Departures:
    """The agents of lost nodes.

    All of them take no work from the moment of the loss. The journal is told of each when its work is ruled on: a broker that
    is started anew in between still knows that its node had that work.

    Args:
        records: of the broker.
        reassignment: rules on work.
        tell: tells those who monitor an agent, or `node:NAME`, why it went down; a node after its agents.
    """

    def __init__(self, records: Records, reassignment: Reassignment, tell: Callable[[bytes, str], None]) -> None:
        self._records = records
        self._reassignment = reassignment
        self._tell = tell
        self.waiting: dict[Registration, None] = {}
        """Those whose work has not been ruled on yet, in the order of the losses."""
        self._left: dict[Session, int] = {}
        """How many of them each node has."""
        self._down_since: dict[bytes, float] = {}

    def lost(self, session: Session, agents: Collection[Registration]) -> None:
        """Take the agents of a lost node out of every choice; their work is ruled on by `serve`."""
        for agent in agents:
            self._records.registry.condition(agent, Condition.DOWN)
            self.waiting[agent] = None
        self._left[session] = len(agents)
        self._tell_node(session)

    def serve(self) -> None:
        """Rule on the work of the next of them."""
        left = SHARE
        while self.waiting and left > 0:
            agent = next(iter(self.waiting))
            left -= 1 + len(agent.work)
            self.settle(agent)

    def settle(self, agent: Registration) -> None:
        """Rule on the work of an agent now, if that waits: somebody takes its name."""
        if agent not in self.waiting:
            return
        del self.waiting[agent]
        session = agent.session
        self._records.event("agent_down", agent=agent.manifest.agent, node=session.node, reason=NODE_LOST)
        self._tell(agent.name, NODE_LOST)
        self._reassignment.lost(agent, session.lost)
        self._left[session] -= 1
        self._tell_node(session)
        self._down_since.pop(agent.name, None)
        self._down_since[agent.name] = self._records.now
        if not agent.manifest.capabilities:
            self._forget(agent)
        self._forget_oldest()

    def _tell_node(self, session: Session) -> None:
        if not self._left[session]:
            del self._left[session]
            self._tell(b"node:" + session.node.encode(), session.lost)

    def keep(self, agents: Iterable[Registration]) -> None:
        """Keep the names of agents whose node was lost before the broker was started anew."""
        self._down_since = dict.fromkeys((agent.name for agent in agents), self._records.now)
        self._forget_oldest()

    def sweep(self) -> None:
        """Forget agents that have been down for long."""
        for name, since in list(self._down_since.items()):
            agent = self._records.registry.get(name)
            if agent is None or agent.condition is not Condition.DOWN:
                del self._down_since[name]
            elif self._records.now - since <= _FORGET_AFTER:
                break
            elif not agent.work:
                self._forget(agent)

    def _forget_oldest(self) -> None:
        """Forget agents that are down before their time, when there are too many of them."""
        for name in list(itertools.islice(self._down_since, max(0, len(self._down_since) - MOST_DOWN))):
            agent = self._records.registry.get(name)
            if agent is None or agent.condition is not Condition.DOWN or not agent.mailbox.waiting_count:
                del self._down_since[name]
                if agent is not None and agent.condition is Condition.DOWN:
                    self._forget(agent)

    def _forget(self, agent: Registration) -> None:
        """Take out an agent that is down: its name is free, and unknown."""
        self._down_since.pop(agent.name, None)
        self._records.registry.remove(agent)
        self._records.event("agent_forgotten", agent=agent.manifest.agent)
