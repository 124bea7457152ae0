"""The sharing of what waits among the instances of agents that scale, and what their nodes are told of it. Sans-IO.

a mailbox changes ──► changed ──► job ──► Reassignment.share   what waits goes to who is free
                                      └─► SCALE ──► the node   how much waits for each instance
a node ── SCALE ──► scaled ──► event                           how many instances it has now
"""

from __future__ import annotations

from math import inf
from typing import Final

from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import OWN, Job, StepShare
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.payload import pack
from ether_broker.errors import AccessDenied, InvalidEnvelope
from ether_broker.transport.cost import BLOCKED, HOLDERS_SHIFT
from ether_broker.transport.session import Session
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["SHARED_PER_STEP", "TELL", "Sharing"]

SHARED_PER_STEP: Final = 16
"""Delegations that one step gives to other instances."""
TELL: Final = 0.25
"""Seconds between two words to nodes of how much waits."""
_MOST_TOLD: Final = 256
"""Agents of which one SCALE tells."""
_WHY: Final = 200
"""Characters of why a node has another number of instances."""
_MOST_INSTANCES: Final = 1 << 17


class Sharing:
    """The part of the supervisor that treats the mailboxes of an agent's instances as one queue.

    As soon as an instance is free, it is given the oldest delegation that waits for another one and names none; the instances
    for which something waits give in turn. Nothing here runs for agents that do not scale.

    Args:
        state: of the broker.
        reassignment: gives what waits to others.
    """

    def __init__(self, state: BrokerState, reassignment: Reassignment) -> None:
        self._state = state
        self._reassignment = reassignment
        self._backlog: dict[object, dict[Registration, None]] = {}
        """{instances that are alike: those for which something waits that others may have, whose turn it is first}."""
        self._untold: dict[Registration, None] = {}
        """Instances of which their nodes may have to be told another number."""
        self._tell_at = -inf
        self.job: Job = Job(state.schedule, self._go_on, most=OWN)
        self._share = StepShare(state.schedule, SHARED_PER_STEP)

    def changed(self, agent: Registration) -> None:
        """Note that an instance has more or less to do, or another condition."""
        waiting = agent.mailbox.waiting_count
        if waiting and agent.replicas is not None:
            self._backlog.setdefault(agent.replicas, {}).setdefault(agent)
        if waiting or agent.told:  # what waits may be sent later in this step: the numbers are compared when it ends
            self._untold[agent] = None
        if self._backlog or self._untold:
            self.job.wake()

    def scaled(self, session: Session, header: Header, envelope: bytes) -> None:
        """Tell observers that a node has another number of instances of an agent.

        Raises:
            AccessDenied: the node may not host it.
            InvalidEnvelope: the numbers are none.
        """
        agent, said = name_of(header.source), read_map(envelope[header.body :], CONTROL)
        if not self._state.access.may_register(session.node, agent):
            raise AccessDenied(f"The node {session.node!r} may not host {agent!r}: the access list does not have it.")
        numbers = {key: said.get(key) for key in ("before", "instances")}
        for key, number in numbers.items():
            if type(number) is not int or not 0 <= number < _MOST_INSTANCES:
                raise InvalidEnvelope(f"SCALE: {key} is {repr(number)[:40]} and has to be a number of instances.")
        session.input.spend(BLOCKED)
        why = str(said.get("why", ""))[:_WHY]
        self._state.event("agent_scaled", agent=agent, node=session.node, **numbers, why=why)

    def _go_on(self) -> float:
        state, share, at = self._state, self._share, inf
        if state.journal.trouble is None:
            share.keep_half()
            for group, agents in list(self._backlog.items()):
                self._give_on(agents)
                if not agents:
                    del self._backlog[group]
            if self._backlog and share.left <= 0:
                at = 0.0
        elif self._backlog:
            self.job.pause()  # until the journal can be written
        if self._untold and state.now >= self._tell_at:
            self._tell()
        return min(at, self._tell_at) if self._untold else at

    def _give_on(self, agents: dict[Registration, None]) -> None:
        """Give what waits for some instances to those that are free."""
        while agents and self._share.left > 0:
            agent = next(iter(agents))
            del agents[agent]
            given = self._reassignment.share(agent)
            agent.session.input.spend(self._state.registry.looked() >> HOLDERS_SHIFT)
            if given is not None and agent.mailbox.waiting_count:
                agents[agent] = None
            if given is False:
                return
            if given:
                self._share.spend()

    def _tell(self) -> None:
        """Tell the nodes how much waits for their instances."""
        self._tell_at = self._state.now + TELL
        told: dict[Session, dict[str, int]] = {}
        for agent in self._untold:
            session, waiting = agent.session, agent.mailbox.waiting_count
            if waiting != agent.told and session.agents.get(agent.name) is agent and not session.lost:
                agent.told = waiting
                told.setdefault(session, {})[agent.manifest.agent] = waiting
        self._untold.clear()
        for session, numbers in told.items():
            rows = list(numbers.items())
            for first in range(0, len(rows), _MOST_TOLD):
                body = pack({"waiting": dict(rows[first : first + _MOST_TOLD])})
                self._state.session_table.send_aside(session, pack_envelope(Kind.SCALE, body=body))
