"""The reconnection of nodes, after the broker was restarted, or after a session ended without them. Sans-IO."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.reassignment import MAX_ATTEMPTS, Reassignment
from ether_actors.supervisor.membership.outcome_replay import OutcomeReplay
from ether_actors.supervisor.registry.quota import read_resume
from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.status import Status
from ether_broker.transport.sessions.cost import AWAITING_SHIFT, DISOWNED_SHIFT, HELD_SHIFT
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, Kind, mark, pack_envelope

__all__ = ["Reconnection"]

_YOUNG: Final = 60.0
"""Seconds from its first step on in which a broker takes nodes for those of a broker before it, at the least."""
_RETURNS: Final = 3
"""Times that a node has as long as the others to come back, from its first return on."""
_NOT_BACK: Final = "it did not come back after the broker was restarted"
_WITHOUT_IT: Final = "it came back without it after the broker was restarted"


@dataclass(eq=False, slots=True)
class _ExpectedNode:
    """A node that a journal knows, until all of its agents are back."""

    session: Session
    """Its last at the broker before this one."""
    until: float | None = None
    """When nobody waits for its agents any more; None while it is not back, and waited for as all are."""
    end: float = inf
    """Until when coming back once more gives it time."""
    received: tuple[Session, int] | None = None
    """When its time was over: its session, and the last frame that had come of it."""


class Reconnection:
    """The nodes that are expected back, and what those that are back hold and wait for."""

    def __init__(
        self, state: BrokerState, delivery: Delivery, reassignment: Reassignment, replay: OutcomeReplay
    ) -> None:  # fmt: skip
        self._state = state
        self._delivery = delivery
        self._reassignment = reassignment
        self._expected: dict[bytes, _ExpectedNode] = {}
        """{digest: node}"""
        self._absent: set[str] = set()
        """Their names, as long as no process of such a name is in."""
        self._unclaimed: dict[bytes, list[Entry]] = {}
        """What had been given to each of their agents, oldest first."""
        self._until: float | None = None
        """When nobody waits for them any more; None before the first step, as a long journal takes long to read."""
        self._back: deque[tuple[float, Session]] = deque()
        """(deadline for a returned node to send RESUME, its earlier session)."""
        self._looked_at = 0.0
        """When `unreturned` was asked last."""
        self._replay = replay
        self._silence = state.session_table.timing.silence
        self._reclaim = state.session_table.timing.reclaim
        """Seconds that a node has to come back, from the broker's first step on; and then between two of its agents."""

    def expect(self, sessions: list[Session], works: dict[bytes, list[Entry]], silence: float = 0.0) -> None:
        """Wait for the nodes that a journal knows: until they are back, nobody knows what became of their work.

        Args:
            sessions: of the broker before this one, lost by definition.
            works: {agent: what was given to it, oldest first}.
            silence: the longest `Timing.silence` by which one of them notices that the broker is gone.
        """
        timing = self._state.session_table.timing
        self._reclaim = replace(timing, silence=max(timing.silence, silence)).reclaim
        self._looked_at = self._state.now
        self._expected = {session.digest: _ExpectedNode(session) for session in sessions}
        self._absent = {session.node for session in sessions}
        self._unclaimed = works

    def is_absent(self, node: str) -> bool:
        """Whether a node is waited for, and no process of its name is in."""
        return node in self._absent

    def arrived(self, session: Session) -> bool:
        """Give a node that is back time to register its agents.

        Returns:
            Whether it is another process than the one that was waited for under its name.
        """
        was_absent = session.node in self._absent
        self._absent.discard(session.node)
        node = self._expected.get(session.digest)
        is_back = node is not None and session.life == node.session.life
        if node is not None and is_back:
            now = self._state.now
            if node.until is None:
                node.until, node.end = now, now + _RETURNS * self._reclaim
            later = min(now + self._reclaim, node.end)  # it may break again and again as it comes back
            node.until = max(node.until, later)
        return was_absent and not is_back

    def stood_still(self, now: float, seconds: float) -> None:
        """Note that this process did not run for a while: that does not count, and what came meanwhile is still to be read.

        Args:
            now: when it ran again.
            seconds: how long it did not.
        """
        earliest = now + self._silence
        self._state.young_until += seconds
        if self._until is not None:
            self._until = max(self._until + seconds, earliest)
        for node in self._expected.values():
            if node.until is not None:
                node.until, node.end = max(node.until + seconds, earliest), max(node.end + seconds, earliest)
        self._back = deque((max(until + seconds, earliest), session) for until, session in self._back)

    def unreturned(self) -> list[tuple[Session, bool]]:
        """Those whose agents are not all back in time, and whether the node was; nobody waits for them any more.

        While the broker is behind its journal it lets nobody in, so that time does not count.
        """
        now = self._state.now
        seconds, self._looked_at = now - self._looked_at, now
        if self._state.is_behind:
            self.stood_still(now, seconds)
            return []
        while self._back and self._back[0][0] <= now:
            self._give_up(self._back.popleft()[1])
        if self._until is None:
            self._until = now + self._reclaim
            self._state.young_until = now + max(_YOUNG, self._reclaim)
        if not self._expected:
            self._unclaimed.clear()
            return []
        missing = [
            node for node in self._expected.values()
            if now >= (self._until if node.until is None else node.until) and not self._is_still_read(node)
        ]  # fmt: skip
        unreturned = []
        for node in missing:
            session, was_back = node.session, node.until is not None
            del self._expected[session.digest]
            self._absent.discard(session.node)
            session.lost = _WITHOUT_IT if was_back else _NOT_BACK
            self._give_up(session)
            unreturned.append((session, was_back))
        return unreturned

    def _is_still_read(self, node: _ExpectedNode) -> bool:
        """Whether a node is back and what it had sent when its time was over is not read yet: its agents may be in that."""
        session = self._state.session_table.find(node.session.node)
        if session is None or session.digest != node.session.digest or not session.input.is_waiting:
            return False
        # Of the first session after its time only: a node that comes back anew again and again is not waited for without end.
        if node.received is None:
            node.received = session, session.channel.received
        of_session, number = node.received
        return of_session is session and session.handled < number

    def _give_up(self, session: Session) -> None:
        """Let what waits for a node go on without it."""
        session.is_expected = False
        self._state.session_table.backlog.on_freed(session)

    def may_speak_for(self, session: Session, agent: Registration) -> bool:
        """Whether an agent that is expected back is one of a node's that is."""
        return agent.session.digest in self._expected and session.life == agent.session.life

    def is_another_life(self, before: Session, session: Session) -> bool:
        """Whether an agent that the broker expects back comes from another process than the one that had its work."""
        return before.digest in self._expected and session.life != before.life

    def resume(self, session: Session, body: dict[str, Any]) -> None:
        """Take note of what a node that is back holds of what it was given, cancel the rest, and of what it waits for.

        What it was given and holds is compared when its agent is registered again; it may have ended until then.
        """
        holding, awaiting = read_resume(body)
        named, disowned = len(holding), 0
        for name, held in holding.items():
            named += len(held)
            for request_id, attempt in held.items():
                entry = self._given(session, name, request_id, attempt)
                if entry is None:
                    disowned += 1
                    self._cancel_there(session, name, request_id, attempt)
                elif entry.agent.session is not session:  # what it was given in this one need not be compared
                    session.holding.setdefault(name, {})[request_id] = attempt
        session.input.spend((len(awaiting) >> AWAITING_SHIFT) + (named >> HELD_SHIFT) + (disowned >> DISOWNED_SHIFT))
        self._replay.ask(session, awaiting)

    def _given(self, session: Session, name: bytes, request_id: bytes, attempt: int) -> Entry | None:
        """What an agent of this process was given under that id and attempt, as far as the bus knows."""
        entry = self._state.ledger.get(request_id)
        is_its = (
            entry is not None and entry.holds_credit and entry.attempt == attempt
            and entry.agent.name == name and entry.agent.session.life == session.life
        )  # fmt: skip
        return entry if is_its else None

    def reclaim(self, agent: Registration, before: Session | None) -> list[Entry]:
        """Let an agent that is registered again go on with what its node says it holds.

        Returns:
            What it had begun and its node knows nothing of, oldest first: it is to be run again (`Reassignment.run_again`).
        """
        again: list[Entry] = []
        held = agent.session.holding.pop(agent.name, {})
        works = self._unclaimed.pop(agent.name, [])
        if before is not None and before is not agent.session and agent.session.life == before.life:
            again = self._compare(agent, works, held)
            node = self._expected.get(before.digest)
            if node is not None and node.session is before:  # not what was back before it broke: that gives time once
                node.until, node.received = self._state.now + self._reclaim, None
            if node is not None and not node.session.agents:
                del self._expected[before.digest]
                self._back.append((self._state.now + self._reclaim, node.session))
        if held:
            self._disown(agent.session, agent, held)
        return again

    def let_go(self, agent: Registration, session: Session) -> list[Entry]:
        """Compare what a node that is back holds of an agent that it lets go before it has registered it again, if it is one.

        Returns:
            As `reclaim`.
        """
        if agent.session is session:
            return []
        held = session.holding.pop(agent.name, {})
        agent.mailbox.resume(reset=True)
        agent.mailbox.pause()
        return self._compare(agent, self._unclaimed.pop(agent.name, []), held)

    def _compare(self, agent: Registration, works: list[Entry], held: dict[bytes, int]) -> list[Entry]:
        """Compare what a node that is back holds of an agent's work with what the journal knew as given to it.

        What it holds goes on there. The rest waits again, with what it has just handed back, in the order in which all of that
        came. It never reached the node, unless it was RUNNING: then an incarnation of the agent that is no more had begun it.

        Args:
            agent: registered again, or let go; its credit reset.
            works: given to it before the broker ended, oldest first.
            held: {request id: attempt} as the node says.

        Returns:
            What was RUNNING, is not held, and may be run again.
        """
        missing: list[Entry] = []
        again: list[Entry] = []
        self._state.ledger.forget_ended_at_node(agent)
        for entry in works:
            if entry.is_over or entry.agent is not agent:
                continue
            if not entry.holds_credit:
                if entry.state is State.QUEUED:
                    missing.append(entry)
            elif held.get(entry.request_id) == entry.attempt:
                agent.mailbox.take_credit()
            elif entry.state is State.RUNNING and not (entry.idempotent and entry.attempt < MAX_ATTEMPTS):
                entry.holds_credit = False
                message = f"{agent.manifest.agent} had begun and its node knows nothing of it: it may be done in part."
                self._delivery.rule(entry, Status.FAILED_EXECUTION, "node_lost", message)
            elif entry.state is State.RUNNING:
                entry.holds_credit = False
                again.append(entry)
            else:
                missing.append(entry)
        for entry in reversed(missing):
            if entry.holds_credit:
                self._reassignment.reopen(entry, again=False)
                entry.envelope = mark(entry.envelope, Flag.RESENT)
            else:
                agent.mailbox.forget(entry)
            agent.mailbox.put_back(entry)
        return again

    def _disown(self, session: Session, agent: Registration, held: dict[bytes, int]) -> None:
        """Cancel what a node that is back still holds of an agent's and that has ended, or gone to another, meanwhile."""
        for request_id, attempt in held.items():
            if self._given(session, agent.name, request_id, attempt) is None:
                self._cancel_there(session, agent.name, request_id, attempt)

    def _cancel_there(self, session: Session, agent: bytes, request_id: bytes, attempt: int) -> None:
        stop = pack_envelope(
            Kind.CANCEL, request_id=request_id, source=SUPERVISOR.encode(), target=agent, attempt=attempt,
            status=Status.CANCELLED,
        )  # fmt: skip
        self._state.session_table.send(session, stop)
