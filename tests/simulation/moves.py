"""The invariants of agents that move: what waits is kept for the next node, in its order, and not for ever."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final

from ether.node.agents.begun_work import read_begun
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.ledger import State
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Header, Kind, read_header

if TYPE_CHECKING:
    from tests.simulation.member import Life
    from tests.simulation.workload import Plan
    from tests.simulation.world import World

__all__ = ["WHY", "Moves"]

WHY: Final = "it moves to another node"
_KEPT: Final = 10.0
"""Seconds that the name of an agent is kept at least; or as long as it had been registered."""
_LATE: Final = 2.0
"""Seconds in which the bus has seen that this time is over, and has ruled on what was left behind."""
_DUE: Final = 0.5
"""Seconds before its deadline in which a node may take something for late already."""


class Moves:
    """Who sees agents move: what their nodes say, and what the bus makes of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: set[str] = set()
        """Agents that have moved, or were to."""
        self.handed_back: dict[bytes, bytes] = {}
        """{request id: agent} of what nodes handed back unbegun as they let that go: it waits where it did."""
        self._complete: dict[bytes, int] = {}
        """{agent that is about to move: the life of the broker of which its node has got everything}."""
        self._settled: set[bytes] = set()
        """Agents that move, and whose nodes have said all; until they are up again."""
        self._begun: set[bytes] = set()
        """What had begun and not ended when its agent moved."""
        self._since: dict[bytes, float] = {}
        """{agent: since when this broker knows it}."""
        self._going: set[bytes] = set()
        """Agents that restart, or give way, as this broker was told."""
        self._moving: dict[bytes, float] = {}
        """{agent that moves: until when its name is kept at most}."""

    def broker_began(self) -> None:
        """Forget what the broker that is gone had said; what is on the disk is folded again."""
        for kept in (self._since, self._moving, self._going):
            kept.clear()  # type: ignore[attr-defined]

    # -- what the nodes say --------------------------------------------------------------------------------------

    def begin(self, agents: list[str]) -> None:
        """See a node be about to let agents go."""
        self.all.update(agents)
        self._world.stopped.update(agents)
        for agent in agents:
            self._complete.pop(agent.encode(), None)

    def await_deliveries(self, life: Life, wait: Callable[[], bool]) -> bool:
        """See whether all has come that the bus had sent for agents that give way; `wait` is the node's own."""
        broker, giving_way = self._world.broker, list(life.node.agent_host._giving_way)
        lives, has_all = broker.lives, wait()
        if has_all and broker.lives == lives:
            self._complete.update(dict.fromkeys(giving_way, lives))
        return has_all

    def returned(self, header: Header) -> None:
        """See a node hand back what had not begun, of an agent that gives way."""
        self.handed_back[header.request_id] = header.target

    def said(self, envelope: bytes) -> None:
        """See a node say something: that an agent moves, and what of it goes on."""
        if envelope[0] == Kind.UNREGISTER and (body := envelope[read_header(envelope).body :]):
            said = unpack(body)
            if said.get("moves"):
                self._begun.update(read_begun(said.get("begun", b"")))

    # -- what passes ---------------------------------------------------------------------------------------------

    def event(self, event: Mapping[str, Any], *, is_new: bool) -> None:
        """See what becomes of an agent; `is_new` unless it is read from the disk."""
        agent, now = str(event.get("agent", "")).encode(), self._world.timeline.now
        match event["event"], event.get("reason"):
            case "agent_up", _:
                self._moving.pop(agent, None)
                self._going.discard(agent)
                self._settled.discard(agent)
                self._complete.pop(agent, None)
                self._since.setdefault(agent, now if is_new else -inf)
            case "agent_restarting", _ if is_new:
                self._going.add(agent)
            case ("agent_leaving" | "agent_down") as what, "moves":
                if is_new and self._complete.pop(agent, None) == self._world.broker.lives:
                    self._settled.add(agent)
                self._moving[agent] = inf
                if is_new and what == "agent_down":
                    self._moving[agent] = now + max(_KEPT, now - self._since.get(agent, -inf))
            case (("agent_leaving" | "agent_down" | "agent_forgotten"), reason):
                if reason == WHY:
                    self._fail(f"{agent!r} left for good, and was to move")
                self._moving.pop(agent, None)
                self._going.discard(agent)
                if event["event"] != "agent_leaving":
                    self._settled.discard(agent)
                if event["event"] != "agent_leaving" and reason != "node_lost":
                    self._since.pop(agent, None)
            case _:
                pass

    def ended(self, plan: Plan | None, agent: bytes, header: Header, envelope: bytes) -> None:
        """See an outcome of what an agent was given: that of one that moves is no refusal, and no loss if it had not begun."""
        is_refusal = header.status == Status.REJECTED_CAPABILITY.code
        if not (is_refusal or header.status == Status.FAILED_EXECUTION.code) or not self._world.broker.is_up:
            return
        error = unpack(envelope[header.body :]).get("error") or {"code": ""}
        code, is_of_move = error["code"], WHY in error.get("message", "")
        if is_refusal and code == "agent_gone" and agent in self._moving:
            self._fail(f"{self._name(header)} was refused as {agent!r} had left, and it moves")
        has_all = agent in self._settled or self._complete.get(agent) == self._world.broker.lives
        if plan is None or not is_of_move or not has_all or plan.starts or header.request_id in self._begun:
            return
        if self._world.timeline.now < self._world.auditor.open_until(header.request_id) - _DUE:
            self._fail(f"{self._name(header)} was lost as {agent!r} moved, and had not begun")

    def stays(self, request_id: bytes, event: Mapping[str, Any]) -> bool:
        """Whether what is said to wait again does so where it did, as its agent moves, and in its place."""
        return event["attempt"] == 1 and self.handed_back.get(request_id) == event["agent"].encode()

    def stepped(self, supervisor: Supervisor) -> None:
        """Judge what waits for agents that move."""
        now, waiting = self._world.timeline.now, supervisor._membership.departures.waiting
        for name, until in self._moving.items():
            agent = supervisor.state.registry.get(name)
            if agent is None or agent.condition is not Condition.MOVING:
                self._fail(f"{name!r} moves, and is {'unknown' if agent is None else agent.condition}")
            elif agent.work and now > until + _LATE:
                self._fail(f"{len(agent.work)} wait for {name!r}, which no node took for {now - until:.1f} s too long")
            elif agent not in waiting:
                self._check_deadlock(agent, waiting)

    def _check_deadlock(self, agent: Registration, waiting: Container[Registration]) -> None:
        for entry in agent.work:
            holder = None if entry.parent is None or entry.state is not State.QUEUED else entry.parent.agent
            if holder is None or holder in waiting:  # it is seen to, a share a step
                continue
            if holder.name in self._going or holder.name in self._moving:
                self._fail(
                    f"{self._world.auditor.name(entry.request_id)} waits for {agent.name!r}, which moves, and "
                    f"{holder.name!r}, which delegated it, has to end before"
                )

    def _name(self, header: Header) -> str:
        return self._world.auditor.name(header.request_id)

    def _fail(self, message: str) -> None:
        self._world.auditor.fail("moves", message)
