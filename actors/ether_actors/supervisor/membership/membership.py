"""The membership of the bus: nodes that come, show life and go, their agents, and who is told when one goes. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.membership.departures import Departures
from ether_actors.supervisor.membership.monitors import NODE, Monitors
from ether_actors.supervisor.membership.outcome_replay import OutcomeReplay
from ether_actors.supervisor.membership.reconnection import Reconnection
from ether_actors.supervisor.membership.registering import Registering
from ether_actors.supervisor.membership.unanswered import Unanswered
from ether_actors.supervisor.registry.quota import check_observer, check_room, load_of, said_of_itself
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT
from ether_broker.envelope.names import MAX_NAME, SUPERVISOR, is_name, is_prefix
from ether_broker.envelope.payload import MAX_PAYLOAD, pack
from ether_broker.envelope.version import PROTOCOL_MAJOR, SCHEMA_VERSION, check_schema_version
from ether_broker.errors import (
    AccessDenied,
    AuthenticationFailed,
    EtherError,
    InvalidEnvelope,
    NameTaken,
    NodeRefused,
    TooMuch,
)
from ether_broker.observer_cursor import ObserverCursor
from ether_broker.text import brief, short_text
from ether_broker.transport.address import Address
from ether_broker.transport.sessions.cost import BLOCKED, LOADS_SHIFT
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import DRAINS, Header, Kind, pack_envelope

if TYPE_CHECKING:
    from ether_broker.security.identity import Identity

__all__ = ["Membership"]

_HELLO: Final = 4 << 10
"""Bytes of a HELLO."""
_ANOTHER: Final = "another process has its name after the broker was restarted"
_VERSION: Final = 40
"""Characters of a schema version."""
_CHECK: Final = 0.25
"""Seconds between two looks for nodes that are silent."""
_GONE: Final = "gone"
"""What UNREGISTER says of an agent that leaves for good."""
_REASON: Final = 200
"""Characters of what a peer said that others are told: of the reason for an agent's end, each monitor is."""
_TROUBLE: Final = 500
"""Characters of what is wrong with the journal; each node is told it once a second meanwhile."""


class Membership:
    """The supervisor's record of the nodes and agents on the bus."""

    def __init__(
        self, state: BrokerState, delivery: Delivery, reassignment: Reassignment, replay: OutcomeReplay, broker: str, *,
        on_lost: Callable[[Session], None],
    ) -> None:  # fmt: skip
        self._state = state
        self._broker = broker
        self._on_lost = on_lost
        self._unanswered = Unanswered(state)
        self._reconnection = Reconnection(state, delivery, reassignment, replay)
        self.monitors = Monitors(state, self._reconnection.is_absent)
        """Who is told when one goes down."""
        self.departures = Departures(state, delivery, reassignment, self.monitors.tell)
        """Agents that go."""
        self.registering = Registering(state, self._reconnection, self.departures)
        """Takes in agents."""
        self._replay = replay
        self._identities: dict[Session, Identity] = {}
        """Whose each session is, where connections have keys."""
        self._next_beat = 0.0
        self._next_check = 0.0
        self.job: Job = Job(state.schedule, self.beat)
        self.job.wake()
        state.session_table.on_lost = self.job.wake

    # -- nodes ---------------------------------------------------------------------------------------------------

    def hello(self, address: Address, header: Header, envelope: bytes) -> None:
        """Let a node in, or tell it why not."""
        state = self._state
        try:
            if len(envelope) > _HELLO:
                raise TooMuch(f"HELLO has {len(envelope):,} bytes, and {_HELLO:,} is the most.")
            said = _map(header, envelope)
            check_schema_version(short_text(said.get("schema_version", SCHEMA_VERSION), _VERSION))
            node = said.get("node", "")
            info = said_of_itself(said)
            _check_name(node)
            identity = self._identity(address, node)
            agent = state.registry.get(node.encode())
            if agent is not None and agent.is_hosted and not agent.session.lost and agent.session.node != node:
                raise NameTaken(
                    f"{node!r} is the name of an agent of node {agent.session.node!r}: choose another name for the node, as "
                    "agents and nodes share one set of names."
                )
            session = state.session_table.open(address, node, info, state.now)
        except EtherError as error:
            state.session_table.refusals.note("", error.code, error)
            body = pack({"code": error.code, "message": str(error)})
            state.session_table.reply(address, pack_envelope(Kind.ERROR, request_id=header.request_id, body=body))
            return
        if session.info is info:  # else it is in already, and says HELLO again
            if state.session_table.lost:  # who had the name before has gone before, to observers too
                self.beat()
            if identity is not None:
                self._identities[session] = identity
                info["key"] = identity.fingerprint
            state.event("node_up", node=node)
            if self._reconnection.arrived(session):
                self.monitors.tell(NODE + node.encode(), _ANOTHER, session)
        body = pack({
            "broker": self._broker, "session": session.channel.session, "journal": state.journal.identity,
            "clock": state.now, "wall": state.wall, **state.session_table.timing.as_dict(),
            "max_payload": MAX_PAYLOAD, "default_timeout": DEFAULT_TIMEOUT, "protocol": PROTOCOL_MAJOR,
            "schema_version": SCHEMA_VERSION,
        })  # fmt: skip
        state.session_table.reply(address, pack_envelope(Kind.WELCOME, request_id=header.request_id, body=body))

    def _identity(self, address: Address, node: str) -> Identity | None:
        """Whose connection it is, if connections have keys; the key decides which node it may be (G6)."""
        identify = self._state.identify
        if identify is None:
            return None
        identity = identify(address)
        if identity is None or not identity.is_allowed:
            raise AuthenticationFailed("The broker does not know the key of this connection, or not any more.")
        if not identity.may_be(node):
            allowed = " or ".join(map(repr, identity.nodes))
            self._state.session_table.refusals.note(identity.fingerprint, NodeRefused.code, f"it wants to be {node!r}")
            raise NodeRefused(f"The key {identity.fingerprint} may be the node {allowed}, not {node!r}.")
        return identity

    def _throw_out(self) -> None:
        """End the sessions of nodes whose keys were revoked, or may not have their names any more."""
        session_table = self._state.session_table
        for session, identity in list(self._identities.items()):
            if session.lost:
                del self._identities[session]
            elif not identity.may_be(session.node):
                del self._identities[session]
                session_table.refusals.note(session.node, "revoked_key", f"the key {identity.fingerprint} is out")
                body = pack({"code": AuthenticationFailed.code, "message": "The key of this node was revoked."})
                session_table.close(session, "its key was revoked")
                session_table.reply(session.receiver, pack_envelope(Kind.ERROR, body=body))

    def heartbeat(self, session: Session, header: Header, envelope: bytes) -> None:
        """Note how a node's agents are; with `more`, the rest of them is told by those that follow."""
        said = _map(header, envelope)
        agents = said.get("agents", {})
        if not isinstance(agents, dict):
            msg = f"HEARTBEAT: agents is a {type(agents).__name__} and has to be a map."
            raise InvalidEnvelope(msg)
        session.input.spend(
            len(agents) >> LOADS_SHIFT
        )  # reading so many maps costs more than could be seen of their bytes
        for name, load in agents.items():
            agent = session.agents.get(name.encode(errors="replace")) if isinstance(name, str) else None
            if agent is not None and isinstance(load, dict):
                session.reported.add(agent.name)
                before, agent.load = agent.load, load_of(load)
                blocking = agent.load.get("blocking")
                if isinstance(blocking, dict) and "blocking" not in before:
                    session.input.spend(BLOCKED)
                    self._state.event("loop_blocked", agent=agent.manifest.agent, node=session.node, **blocking)
        if said.get("more"):
            return
        for name in session.loaded.difference(session.reported):
            idle = session.agents.get(name)
            if idle is not None:
                idle.load = {}
        session.loaded, session.reported = session.reported, set()

    def beat(self) -> float:
        """Show life to every node, and end the sessions of those that show none; returns when to do that again."""
        state = self._state
        if state.now >= self._next_beat:
            self._next_beat = state.now + state.session_table.timing.heartbeat
            trouble = state.journal.trouble
            state.session_table.beat(state.now, "" if trouble is None else str(trouble)[:_TROUBLE])
        if state.now >= self._next_check or state.session_table.lost:
            self._next_check = state.now + _CHECK
            self.departures.remembered.sweep()
            if self._identities:
                self._throw_out()
            for session in state.session_table.sessions:
                if session.was_told_bye and not session.outbox_bytes and session.channel.sent == session.channel.last:
                    state.session_table.close(session, "it left")
            self._unanswered.look()
            for session in state.session_table.expire(state.now):
                self._lost(session)
            for session, was_back in self._reconnection.unreturned():
                if was_back:
                    self.departures.lost(session)
                else:  # unless the node is in as another process, it is down
                    self._lost(session, is_down=state.session_table.find(session.node) is None)
        return 0.0 if state.session_table.lost else min(self._next_beat, self._next_check)

    def expect(
        self, sessions: list[Session], works: dict[bytes, list[Entry]], kept: list[Registration],
        leaving: dict[Registration, str], silence: float = 0.0,
    ) -> None:  # fmt: skip
        """Wait for the nodes that a journal knows: until they are back, nobody knows what became of their work.

        Args:
            sessions: of the broker before this one, lost by definition.
            works: {agent: what was given to it, oldest first}.
            kept: agents whose node had been lost before.
            leaving: agents that leave for good, and why; nobody waits for them.
            silence: the longest `Timing.silence` by which one of the nodes goes.
        """
        self.departures.take_up(leaving)
        for session in sessions:
            session.is_expected = bool(session.agents)
        self._reconnection.expect([session for session in sessions if session.is_expected], works, silence)
        for agent in kept:
            self.departures.remembered.add(agent)

    def stood_still(self, now: float, seconds: float) -> None:
        """Note that this process did not run for so many seconds, until now: whoever is expected back has as much longer."""
        self._reconnection.stood_still(now, seconds)
        self._unanswered.begin_anew()

    def may_speak_for(self, session: Session, agent: Registration) -> bool:
        """Whether an agent that is expected back is one of a node's that is."""
        return self._reconnection.may_speak_for(session, agent)

    def resume(self, session: Session, header: Header, envelope: bytes) -> None:
        """Take note of what a node that is back holds, and of what it waits for."""
        session.has_resumed = True
        self._reconnection.resume(session, _map(header, envelope))

    def _lost(self, session: Session, *, is_down: bool = True) -> None:
        state = self._state
        self._replay.keep_unread(session)
        state.session_table.let_go(session)
        if is_down and not session.was_told_bye:
            state.event("node_down", node=session.node, reason=session.lost)
        self.departures.lost(session)
        if is_down:
            self.monitors.tell(NODE + session.node.encode(), session.lost, session)
        self.monitors.clear(session)
        for token in list(session.cursors):
            self._end_observer(session, token)
        self._on_lost(session)

    # -- agents --------------------------------------------------------------------------------------------------

    def unregister(self, session: Session, header: Header, envelope: bytes) -> None:
        """Note that an agent drains (`DRAINS`), restarts, moves or left; only its own node may say so.

        Without an agent it speaks of all of the node's.
        """
        if not header.source:
            self.departures.drain_all(session)
            return
        agent = self._state.registry.get(header.source)
        if agent is None or not agent.is_hosted:
            return
        if agent.session is not session and not self._reconnection.may_speak_for(session, agent):
            return
        said = _map(header, envelope)
        state, reason = said.get("condition", _GONE), short_text(said.get("reason"), _REASON)
        if state != _GONE and state != Condition.RESTARTING.value:  # noqa: PLR1714  a list is in no set
            msg = f"UNREGISTER: condition is {brief(state, _REASON)} and has to be {_GONE} or {Condition.RESTARTING.value}."
            raise InvalidEnvelope(msg)
        if state == Condition.RESTARTING.value:
            if agent.condition is not Condition.DRAINING:
                self._state.registry.condition(agent, Condition.RESTARTING)
            self._state.event("agent_restarting", agent=agent.manifest.agent, node=session.node, reason=reason)
            self.departures.restarts(agent)
            self.monitors.tell(agent.name, reason or "crashed", session)
        elif header.flags & DRAINS:
            self.departures.drain(agent)
        elif said.get("moves") is True:
            self.departures.move(agent, self._reconnection.let_go(agent, session))
        else:
            self.departures.remove(agent, reason)

    # -- watchers ------------------------------------------------------------------------------------------------

    def observe(self, session: Session, header: Header, envelope: bytes) -> None:
        """Send an observer the tap from a number on (0 is from now on), or with `stop` no more of it."""
        wish = _map(header, envelope)
        if wish.get("stop"):
            self._end_observer(session, header.request_id)
            return
        if not self._state.access.may_observe(session.node):
            raise AccessDenied(f"The node {session.node!r} may not observe: the access list does not have it.")
        since, prefixes = wish.get("from", 0), wish.get("topics", [])
        if type(since) is not int or since < 0:
            msg = f"OBSERVE: from is {brief(since, _REASON)} and has to be a whole number; 0 is from now on."
            raise InvalidEnvelope(msg)
        is_list = isinstance(prefixes, list)
        if is_list:
            check_observer(session, header.request_id, prefixes)  # first: each of them is looked at after that
        if not is_list or not all(isinstance(one, str) and is_prefix(one) for one in prefixes):
            msg = f"OBSERVE: topics is {brief(prefixes, _REASON)} and has to be a list of begins of capabilities."
            raise InvalidEnvelope(msg)
        position = since or self._state.tap.next
        cursor = ObserverCursor(capabilities=tuple(prefix.encode() for prefix in prefixes), position=position)
        before = session.cursors.get(header.request_id)
        check_room(session, self._state.memory, cursor.size - (0 if before is None else before.size))
        self._end_observer(session, header.request_id)
        self._state.memory.add(session.account, cursor.size)
        session.cursors[header.request_id] = cursor
        session.share_window()
        body = pack({"next": position})
        answer = pack_envelope(Kind.OBSERVE, request_id=header.request_id, body=body)
        self._state.session_table.send_aside(session, answer)  # what is observed waits for the journal

    def _end_observer(self, session: Session, token: bytes) -> None:
        cursor = session.cursors.pop(token, None)
        if cursor is not None:
            self._state.memory.add(session.account, -cursor.size)
            session.share_window()


def _check_name(node: object) -> None:
    if not isinstance(node, str) or not is_name(node.encode(errors="replace")):
        raise NodeRefused(
            f"{brief(node, MAX_NAME)} is no name of a node: up to {MAX_NAME} letters, digits and _ . : @ / -, "
            "of which the first is a letter, a digit or _."
        )
    if node == SUPERVISOR or node.startswith("node:"):
        raise NodeRefused(f"The name {node!r} is the bus's own: choose another.")


def _map(header: Header, envelope: bytes) -> dict[str, Any]:
    return read_map(envelope[header.body :], CONTROL)
