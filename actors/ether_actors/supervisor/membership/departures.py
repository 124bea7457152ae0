"""The departure and return of agents: their work is ruled on a share a step, and the names of the lost are kept. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from math import inf
from typing import Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.membership.lost_agents import LostAgents
from ether_actors.supervisor.registry.quota import let_go
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import OWN, Job, StepShare
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.transport.sessions.cost import HOLDERS_SHIFT
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["MOVES", "NOT_TAKEN", "POINTS_PER_STEP", "Departures"]

_NODE_LOST: Final = "node_lost"
MOVES: Final = "moves"
"""Why an agent is down whose node let it go for another."""
_IT_MOVES: Final = "it moves to another node"
NOT_TAKEN: Final = "not_taken"
"""Why one is down for good that no node has taken in time."""
_WHY: Final = {NOT_TAKEN: "moved, and no node has taken it"}
_LEFT: Final = "left"
_DRAINS: Final = "drains"
_RETURNED: Final = "returned"
_RESTARTS: Final = "restarts"
POINTS_PER_STEP: Final = 128
"""The budget of a step: an agent that goes costs 1, a delegation that is ruled on or moved `_RULING`. Half as much is
added where REGISTERs used it up."""
_RULING: Final = 16
_TURN: Final = 16
"""The part of the budget that one agent may use before another has its turn."""

_Work = Generator[int, None, int | None]
"""Yields the cost of each delegation; returns the agent's own."""


class Departures:
    """The agents of nodes that are lost, or leave; those that drain; and those that are back with another manifest.

    An agent that goes takes no work from that moment. `agent_down` is journaled when its work has been ruled on. If it
    leaves for good, `agent_leaving` is journaled before, in the same step: its node says nothing of it any more, so a
    broker that is restarted in between continues by itself. With any other agent, a restarted broker waits for its
    node. The agent's node is charged.

    Args:
        state: of the broker.
        delivery: sends what waited.
        reassignment: rules on work.
        tell: tells those who monitor an agent why it went down, and has a session pay for it.
    """

    def __init__(
        self, state: BrokerState, delivery: Delivery, reassignment: Reassignment,
        tell: Callable[[bytes, str, Session], None],
    ) -> None:  # fmt: skip
        self._state = state
        self._delivery = delivery
        self._reassignment = reassignment
        self._tell = tell
        self.waiting: OrderedDict[Registration, str] = (
            OrderedDict()
        )  # a dict is slow where its first items were removed
        """Agents with unfinished work and the reason, next first."""
        self._begun: dict[Registration, _Work] = {}
        """The unfinished generators of agents already begun."""
        self._again: dict[Registration, _Work] = {}
        """What is done before that, whatever else becomes of the agent: what it had begun waits again."""
        self._wanted: OrderedDict[Registration, None] = OrderedDict()
        """Those of them whose names somebody waits for; they have every other turn."""
        self.job: Job = Job(state.schedule, self._go_on, most=OWN)
        self._share = StepShare(state.schedule, POINTS_PER_STEP)
        self.remembered = LostAgents(state, self.expire)
        """Agents of lost nodes whose work has been ruled on."""

    # -- who goes, and who comes back ----------------------------------------------------------------------------

    def lost(self, session: Session) -> None:
        """Take the agents of a lost node, or those that it did not bring back, out of every choice.

        Their work is ruled on a share a step; their names are kept.
        """
        self._go(list(session.agents.values()), _NODE_LOST)

    def leave(self, session: Session) -> None:
        """Take the agents of a node that leaves out of every choice; it is told BYE when they are out of the registry too.

        A second call handles the agents that registered since the first.
        """
        if not session.has_said_bye:
            session.newcomers.update(session.agents)
        session.has_said_bye = True
        leaving = self._newcomers(session)
        self._go(leaving, _LEFT)
        for agent in leaving:
            left = self._share.left - POINTS_PER_STEP // 2  # the job has so much in any case
            if left <= 0:
                break
            if agent in self.waiting:
                self._run(agent, min(_TURN, left))
        if leaving and session.agents:
            self._state.event("node_leaving", node=session.node, incarnation=session.digest)
        self._let_leave(session)

    def _newcomers(self, session: Session) -> list[Registration]:
        """The agents that were registered since this was last asked; the node pays for each."""
        found, session.newcomers = session.newcomers, set()
        session.input.spend(len(found))
        return [session.agents[name] for name in sorted(found) if name in session.agents]

    def _go(self, agents: list[Registration], reason: str) -> None:
        going = [agent for agent in agents if agent in self.waiting or agent.condition is not Condition.DOWN]
        self._state.registry.condition_all(agents, Condition.DOWN)
        for agent in going:
            if agent.condition is not Condition.DOWN:
                self._state.registry.condition(agent, Condition.DOWN)
            if self.waiting.get(agent) != _LEFT:
                self._begin(agent, reason)

    def lost_alone(self, agent: Registration, why: str) -> None:
        """Rule on the work of an agent that its node has lost."""
        self._state.registry.condition(agent, Condition.DOWN)
        self._begin(agent, _NODE_LOST, self._lose(agent, why))

    def move(self, agent: Registration, again: list[Entry]) -> None:
        """Keep the name of an agent and what waits for it, as its node lets it go for another node, which takes them over.

        What its node had not handed back is ruled on as that of a lost node. If it had nothing, all is done in this step: the
        node says nothing of the agent any more.

        Args:
            agent: of a node that is there.
            again: of its work what is to be run again, oldest first.
        """
        session = agent.session
        let_go(agent)
        session.reported.discard(agent.name)
        session.newcomers.discard(agent.name)
        del session.agents[agent.name]
        self._state.registry.condition(agent, Condition.MOVING)
        if again:
            self._again[agent] = self._reassignment.run_again(again)
        self._begin(agent, _NODE_LOST, self._lose(agent, _IT_MOVES))
        self._run(agent, max(1, self._share.left))
        if agent in self.waiting:
            held = [entry for entry in agent.oldest_first if entry.holds_credit]
            for entry in held:
                if entry.state is State.SENT:
                    self._state.ledger.advance(entry, State.RUNNING)
            self._state.event(
                "agent_leaving", agent=agent.manifest.agent, node=session.node, reason=MOVES,
                held=[entry.request_id for entry in held],
            )  # fmt: skip

    def restarts(self, agent: Registration) -> None:
        """Have an agent whose node has it end its work not wait for agents that move, which may wait for its end."""
        if agent.work and agent not in self.waiting:  # else it is seen to
            self._begin(agent, _RESTARTS, self._reassignment.restarts(agent))

    def expire(self, agent: Registration) -> None:
        """Give up an agent that moves and that no node has taken in time: what waits for it goes to others, or is refused."""
        self.remembered.discard(agent)
        self._state.registry.condition(agent, Condition.DOWN)
        self._begin(agent, _LEFT, self._leave(agent, NOT_TAKEN))
        self._state.event("agent_leaving", agent=agent.manifest.agent, node=agent.session.node, reason=NOT_TAKEN)

    def remove(self, agent: Registration, reason: str) -> None:
        """Take out an agent that left for good, as soon as what it had is answered for; its node speaks for it no more."""
        if reason in {"", _NODE_LOST, MOVES, NOT_TAKEN}:  # the broker's own words: the journal would keep the agent
            reason = _LEFT
        let_go(agent)
        agent.session.reported.discard(agent.name)
        self.take_up({agent: reason})
        self._run(agent, self._share.left)
        if agent in self.waiting:
            self._state.event("agent_leaving", agent=agent.manifest.agent, node=agent.session.node, reason=reason)

    def take_up(self, leaving: dict[Registration, str]) -> None:
        """Take agents that leave for good, or move, from their nodes; their work is ruled on a share a step.

        Args:
            leaving: {agent: why}.
        """
        for agent, reason in leaving.items():
            moves = reason == MOVES
            self._state.registry.condition(agent, Condition.MOVING if moves else Condition.DOWN)
            del agent.session.agents[agent.name]
            if moves:
                self._begin(agent, _NODE_LOST, self._lose(agent, _IT_MOVES))
            else:
                self._begin(agent, _LEFT, self._leave(agent, reason))

    def drain(self, agent: Registration) -> None:
        """Give an agent nothing new; what waits for it goes to others, in this step and the next ones."""
        if agent.condition is not Condition.DRAINING and agent.condition is not Condition.DOWN:
            self._state.registry.condition(agent, Condition.DRAINING)
            self._begin(agent, _DRAINS)

    def drain_all(self, session: Session) -> None:
        """Give all agents of a node nothing new; what waits for one of them goes to others, and never to another of them.

        A second call handles the agents that registered since the first.
        """
        if session.has_said_bye:
            self.leave(session)
            return
        draining = [
            agent
            for agent in self._newcomers(session)
            if agent.condition is not Condition.DRAINING and agent.condition is not Condition.DOWN
        ]
        self._state.registry.condition_all(draining, Condition.DRAINING)
        for agent in draining:
            self._begin(agent, _DRAINS)

    def returned(self, agent: Registration, again: list[Entry], *, is_changed: bool) -> None:
        """Send what waited for an agent that has registered again, what it does not declare any more to others.

        Args:
            agent: is registered.
            again: of its work what is to be run again, oldest first.
            is_changed: whether its manifest or its session is another one.
        """
        if again:
            self._again[agent] = self._reassignment.run_again(again)
        if self.waiting.get(agent) == _RESTARTS:
            self._end(agent)
        if agent.condition is Condition.UP and (agent.mailbox.waiting_count or agent in self.waiting or again):
            if is_changed:
                self._begin(agent, _RETURNED)
            if agent in self.waiting:
                agent.mailbox.pause()
                self._run(agent, self._share.left)
            else:
                self._delivery.send_waiting(agent)

    # -- what is done for them -----------------------------------------------------------------------------------

    def _go_on(self) -> float:
        """Rule on the work of the next of them."""
        share = self._share
        share.keep_half()
        while self.waiting and share.left > 0:
            for agents in (self._wanted, self.waiting):
                if agents and share.left > 0:
                    agent = next(iter(agents))
                    agents.move_to_end(agent)
                    self._run(agent, min(_TURN, share.left))
        return 0.0 if self.waiting else inf

    def finish_work(self, agent: Registration) -> bool:
        """Rule on the work of an agent that is down, as somebody takes its name: as much as this step may.

        Returns:
            Whether all of it has been ruled on, and the name can be taken. If not, it will be soon.
        """
        if not self.is_waiting(agent.name):
            return True
        self._wanted[agent] = None
        self._run(agent, self._share.left)
        return agent not in self.waiting

    def is_waiting(self, name: bytes) -> bool:
        """Whether the work of an agent that is down has not all been ruled on."""
        agent = self._state.registry.get(name)
        return agent is not None and not agent.is_hosted and agent in self.waiting

    def _begin(self, agent: Registration, reason: str, work: _Work | None = None) -> None:
        """Let an agent wait; what had been begun for it for another reason ends where it is."""
        begun = self._begun.pop(agent, None)
        if begun is not None:
            begun.close()
        self.waiting[agent] = reason
        self.job.wake()
        if work is not None:
            self._begun[agent] = work

    def _end(self, agent: Registration) -> None:
        """Let an agent wait no more."""
        del self.waiting[agent]
        self._begun.pop(agent, None)
        self._wanted.pop(agent, None)

    def _run(self, agent: Registration, share: int) -> None:
        if share <= 0:
            return
        work = self._begun.get(agent)
        if work is None:
            work = self._begun[agent] = self._work(agent, self.waiting[agent])
        session, done, gone = agent.session, 0, 0
        for cost in self._again.get(agent, ()):  # goes on where it was left
            done += cost
            if done * _RULING >= share:
                break
        else:
            self._again.pop(agent, None)
        try:
            while done * _RULING < share:
                done += next(work) + (self._state.registry.looked() >> HOLDERS_SHIFT)
        except StopIteration as end:
            gone = end.value or 1
            self._end(agent)
        self._share.spend(done * _RULING + gone)
        session.input.spend(done + gone)

    def _work(self, agent: Registration, reason: str) -> _Work:
        if reason == _NODE_LOST:
            return self._lose(agent, agent.session.lost)
        if reason == _LEFT:
            return self._leave(agent, reason)
        return self._return(agent) if reason == _RETURNED else self._drain(agent)

    def _return(self, agent: Registration) -> _Work:
        yield from self._reassignment.returned(agent)
        if agent.condition is not Condition.UP:  # it went meanwhile
            yield from self._reassignment.restarts(agent)
        return None

    def _drain(self, agent: Registration) -> _Work:
        self._state.event("agent_draining", agent=agent.manifest.agent, node=agent.session.node)
        yield from self._reassignment.drained(agent)
        yield from self._reassignment.restarts(agent)
        return None

    def _lose(self, agent: Registration, why: str) -> _Work:
        reason = MOVES if agent.condition is Condition.MOVING else _NODE_LOST
        self._tell(agent.name, reason, agent.session)
        yield from self._reassignment.lost(agent, why)
        self._down(agent, reason)
        if agent.manifest.declared or agent.work:
            self.remembered.add(agent)
        else:
            self.remembered.forget(agent)
        return agent.places

    def _leave(self, agent: Registration, reason: str) -> _Work:
        session = agent.session
        self._tell(agent.name, reason, session)
        yield from self._reassignment.gone(agent, _WHY.get(reason, "has left"))
        self._down(agent, reason)
        self._state.ledger.forget_ended_at_node(agent)
        let_go(agent)
        session.reported.discard(agent.name)
        self._state.registry.remove(agent)
        if session.has_said_bye:
            self._let_leave(session)
        return agent.places

    def _down(self, agent: Registration, reason: str) -> None:
        self._state.event("agent_down", agent=agent.manifest.agent, node=agent.session.node, reason=reason)

    def _let_leave(self, session: Session) -> None:
        """Tell a node that leaves that it may, when the last of its agents has gone."""
        if not session.agents and not session.lost and not session.was_told_bye:
            self._state.session_table.send(session, pack_envelope(Kind.BYE))
            session.was_told_bye = True
