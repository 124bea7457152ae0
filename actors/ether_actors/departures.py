"""Agents that go: their work is ruled on a share a step, and the names of those whose nodes were lost are kept. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from ether_actors.quota import let_go
from ether_actors.reassignment import Reassignment
from ether_actors.records import Records
from ether_actors.registration import Condition, Registration
from ether_actors.remembered import Remembered
from ether_broker.router import Session
from ether_broker.wire import Kind, pack_envelope

__all__ = ["SHARE", "Departures"]

_NODE_LOST: Final = "node_lost"
_LEFT: Final = "left"
_DRAINS: Final = ""
SHARE: Final = 128
"""Agents and delegations of agents that go that one step rules on, and what the last agent has above them."""


class Departures:
    """The agents of nodes that are lost, or leave; and those that drain.

    All of a node's take no work from that moment. The journal is told of each when its work is ruled on: a broker that is
    started anew in between still knows that its node had that work.

    Args:
        records: of the broker.
        reassignment: rules on work.
        tell: tells those who monitor an agent, or `node:NAME`, why it went down; of a node at once.
    """

    def __init__(self, records: Records, reassignment: Reassignment, tell: Callable[[bytes, str], None]) -> None:
        self._records = records
        self._reassignment = reassignment
        self._tell = tell
        self.waiting: OrderedDict[Registration, str] = (
            OrderedDict()
        )  # a dict is slow where its first items were removed
        """Those whose work has not been ruled on yet, in the order in which they went, and why they did; empty: it drains."""
        self._nodes: dict[Session, int] = {}
        """How many of them each node has that is lost, or leaves."""
        self.remembered = Remembered(records)
        """Agents of lost nodes whose work has been ruled on."""

    def lost(self, session: Session) -> None:
        """Take the agents of a lost node out of every choice; their work is ruled on by `serve`, and their names are kept."""
        self._go(session, _NODE_LOST)
        self._tell(b"node:" + session.node.encode(), session.lost)

    def leave(self, session: Session) -> None:
        """Take the agents of a node that leaves out of every choice, by `serve` out of the registry, and tell it BYE then."""
        session.is_leaving = True
        self._go(session, _LEFT)

    def _go(self, session: Session, reason: str) -> None:
        agents = _agents_of(session)
        for agent in agents:
            self._records.registry.condition(agent, Condition.DOWN)
            if self.waiting.get(agent) != _LEFT:
                self.waiting[agent] = reason
        self._nodes[session] = len(agents)
        self._is_through(session)

    def drain(self, agents: Iterable[Registration]) -> None:
        """Give agents nothing new; what waits for them goes to others with `serve`, and never to another of them."""
        for agent in agents:
            if agent.condition is not Condition.DRAINING and agent not in self.waiting:
                self._records.registry.condition(agent, Condition.DRAINING)
                self.waiting[agent] = _DRAINS

    def serve(self) -> None:
        """Rule on the work of the next of them."""
        left = SHARE
        while self.waiting and left > 0:
            agent = next(iter(self.waiting))
            left -= agent.places + len(agent.work)
            self.settle(agent)

    def settle(self, agent: Registration) -> None:
        """Rule on the work of an agent now, if that waits: somebody takes its name."""
        reason, session = self.waiting.pop(agent, None), agent.session
        if reason is None:
            return
        if reason == _DRAINS:
            self._records.event("agent_draining", agent=agent.manifest.agent, node=session.node)
            self._reassignment.drained(agent)
            return
        if reason == _NODE_LOST:
            self._gone(agent, reason)
            self._reassignment.lost(agent, session.lost)
            if agent.manifest.capabilities or agent.work:
                self.remembered.add(agent)
            else:
                self.remembered.forget(agent)
        else:
            self.remove(agent, reason)
        self._nodes[session] -= 1
        self._is_through(session)

    def remove(self, agent: Registration, reason: str = "") -> None:
        """Take out an agent that left for good; what it had is answered for."""
        if reason in {"", _NODE_LOST}:  # the second is the broker's own word: the journal would keep the agent
            reason = _LEFT
        self._records.registry.condition(agent, Condition.DOWN)
        self._gone(agent, reason)
        self._reassignment.gone(agent)
        self._records.ledger.forget_held(agent)
        let_go(agent)
        agent.session.told.discard(agent.name)
        self._records.registry.remove(agent)

    def _gone(self, agent: Registration, reason: str) -> None:
        self._records.event("agent_down", agent=agent.manifest.agent, node=agent.session.node, reason=reason)
        self._tell(agent.name, reason)

    def _is_through(self, session: Session) -> None:
        """Tell a node that leaves that it may, when the last of its agents has gone."""
        if self._nodes[session]:
            return
        del self._nodes[session]
        if not session.lost:
            self._records.router.send(session, pack_envelope(Kind.BYE))
            session.draining = True


def _agents_of(session: Session) -> list[Registration]:
    return [session.agents[name] for name in sorted(session.agents)]
