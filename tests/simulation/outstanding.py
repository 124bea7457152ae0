"""The invariant of what nodes are told of their instances: how much waits or runs for each, by what passed, at most so old."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from ether_actors.supervisor.delegations.scale_reports import TELL
from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.payload import unpack
from ether_broker.wire.frame import Kind, read_header

if TYPE_CHECKING:
    from ether_actors.supervisor.supervisor import Supervisor
    from ether_broker.transport.sessions.session import Session

__all__ = ["Outstanding"]

_LATE: Final = 2 * TELL
"""Seconds: between two words, and until the step that says the next one."""


class _Instance:
    """What one instance has to do, and what its node knows of it."""

    __slots__ = ("counts", "told")

    def __init__(self) -> None:
        self.counts: deque[tuple[float, int]] = deque([(0.0, 0)])
        """(since when, how many), oldest first; the last one is true now."""
        self.told = 0
        """What its node goes by: nothing, until it was told since the instance registered."""


class Outstanding:
    """The counts of what waits or runs for each instance of agents that scale; nothing here is the product's count.

    A delegation counts from when it passed to when its outcome did, and longer if the bus ended it and its node did not answer.
    """

    def __init__(self) -> None:
        self._holders: dict[bytes, bytes] = {}
        """{request id: the agent that has it}, of what is open."""
        self._open: Counter[bytes] = Counter()
        self._moments: dict[bytes, list[int]] = {}
        """{agent: how many were open at each moment of this step}."""
        self._said: dict[bytes, int] = {}
        """{agent: what its node was told in this step}."""
        self._instances: dict[bytes, _Instance] = {}

    def broker_began(self) -> None:
        """Forget what the broker before knew."""
        for kept in (self._holders, self._open, self._moments, self._said, self._instances):
            kept.clear()  # type: ignore[attr-defined]

    def watch(self, supervisor: Supervisor) -> None:
        """See what nodes are told."""
        session_table = supervisor.state.session_table
        send_aside = session_table.send_aside

        def seen(session: Session, envelope: bytes) -> None:
            if envelope[0] == Kind.SCALE:
                for agent, count in unpack(envelope[read_header(envelope).body :])["outstanding"].items():
                    self._said[agent.encode()] = count
            send_aside(session, envelope)

        session_table.send_aside = seen  # type: ignore[method-assign]

    def given(self, request_id: bytes, agent: bytes) -> None:
        """See an agent be given a delegation, or another one be given it."""
        self.ended(request_id)
        self._holders[request_id] = agent
        self._count(agent, 1)

    def ended(self, request_id: bytes) -> None:
        """See an outcome."""
        agent = self._holders.pop(request_id, None)
        if agent is not None:
            self._count(agent, -1)

    def registered(self, agent: bytes) -> None:
        """See an agent register: its node is told anew."""
        self._instances.pop(agent, None)

    def _count(self, agent: bytes, more: int) -> None:
        self._moments.setdefault(agent, [self._open[agent]]).append(self._open[agent] + more)
        self._open[agent] += more

    def stepped(self, supervisor: Supervisor, now: float) -> str:
        """Compare what nodes were told with what is true now, or was a moment ago; what is wrong, or an empty text."""
        found = ""
        for agent in supervisor.state.registry.agents:
            if agent.listener is None:
                continue
            if agent.condition is Condition.DOWN or agent.session.lost:
                self._instances.pop(agent.name, None)
                continue
            instance, held = self._instances.setdefault(agent.name, _Instance()), len(agent.ended_at_node)
            counts, instance.told = instance.counts, self._said.get(agent.name, instance.told)
            counts += [(now, count + held) for count in self._moments.get(agent.name, ())]
            if counts[-1][1] != self._open[agent.name] + held:
                counts.append((now, self._open[agent.name] + held))
            while len(counts) > 1 and counts[1][0] < now - _LATE:
                counts.popleft()
            if all(count != instance.told for _, count in counts):
                found = found or (
                    f"the node of {agent.manifest.agent!r} was told that {instance.told} wait or run for it, "
                    f"and it had {sorted({count for _, count in counts})} for {_LATE:g} s"
                )
        self._moments.clear()
        self._said.clear()
        return found
