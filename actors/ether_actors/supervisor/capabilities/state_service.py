"""The states of agents: saved with the outcome of the delegation that changed them, and read when the agent starts. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from ether_actors.supervisor.capabilities.pages import Place, page, text
from ether_actors.supervisor.delegations.reassignment import MAX_ATTEMPTS
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.encoding.bounded import MOST_STATE
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.payload import Payload, pack
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import BY_CODE, INTERIM, Status
from ether_broker.errors import AccessDenied, EtherError, InvalidEnvelope, MalformedFrame
from ether_broker.transport.sessions.cost import ANSWER_SHIFT
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.codec import pack_response
from ether_broker.wire.frame import Flag, Header, Kind, name_of, pack_envelope, read_header
from ether_broker.wire.saved_state import BroughtState, SavedState, split_state

__all__ = ["StateService"]

_OUTCOMES: Final = frozenset(
    code for code, status in BY_CODE.items() if status is not Status.TIMEOUT and code not in INTERIM
)
"""What a specialist may say at the end."""
_MOST_LATE: Final = 16_384
_MOST_BETWEEN: Final = 1 << 20
"""States of an incarnation that may be lost one after the other: nobody uses up the numbers."""
_LOOKED_UP: Final = 16
"""Points for a look into the journal."""
_REFUSED: Final = {
    "state_full": "The work was done and the state of {} was not saved, and is undone: the bus has no room for it. Forget the "
    "states of agents that are gone (bus.states, bus.forget_state), or save less.",
    "state_stale": "The work was done by an incarnation of {} that had not begun with its newest state; its change is undone.",
}


class StateService:
    """The part of the supervisor that keeps the states of agents."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._late: OrderedDict[tuple[bytes, bytes, int], None] = OrderedDict()
        """The newest runs whose states came late, and were saved."""
        self.may_speak_for: Callable[[Session, Registration], bool] = lambda _session, _agent: False
        """Whether a session may say what became of an agent's work though the agent is not registered in it (yet)."""

    def take(self, session: Session, envelope: bytes) -> tuple[Header, bytes]:
        """Save the state that an answer brings, and return the answer without it.

        It is saved whether or not the answer still counts, as long as there was such a delegation, since it is how the
        agent is. Only its own node may say that, and only of the state that is saved now: what was made of an older one is
        refused, its delegation fails, and the node is told what is saved. The event that tells a state and the outcome are
        in one entry of the journal.

        Raises:
            MalformedFrame: it brings none, or is no outcome.
        """
        said, header, answer = _split(envelope)
        state = self._state
        if header.status not in _OUTCOMES or header.flags & Flag.HANDED_BACK:
            return header, answer  # which is judged as it is
        name, agent = name_of(header.source), state.registry.get(header.source)
        entry = state.ledger.get(header.request_id)
        is_open = entry is not None and entry.agent is agent and entry.attempt == header.attempt
        if agent is None or not (agent.session is session or self.may_speak_for(session, agent)):
            return header, answer  # another incarnation's
        if not is_open and not self._may_bring(session, agent, header):
            return header, answer  # it brought one, or nobody has delegated it
        if agent.condition is Condition.MOVING and (entry is None or not is_open or not entry.holds_credit):
            return header, answer  # another node may have read its state
        known, code = state.agent_states.get(name), ""
        kept = SavedState(said.base + 1, said.incarnation, said.version, said.data, session.principal)
        session.input.spend(1 + (len(said.data) >> ANSWER_SHIFT))
        is_newest = said.incarnation != agent.refused_incarnation and _follows(said, known)
        if not is_open and (not is_newest or self._came_before(header)):
            return header, answer  # of an older one, or what it brought was refused
        if not is_newest:
            code = "state_stale"
        elif len(said.data) > MOST_STATE or not state.agent_states.has_room(name, kept):
            code = "state_full"
        if code:
            agent.refused_incarnation = said.incarnation
            return self._refused(session, header, code, known, said.incarnation)
        if not is_open:
            self._note_late(header)
        self._save(name, kept)
        return header, answer

    def _note_late(self, header: Header) -> None:
        self._late[_run(header)] = None
        if len(self._late) > _MOST_LATE:
            self._late.popitem(last=False)

    def _save(self, name: str, kept: SavedState) -> None:
        self._state.agent_states.put(name, kept)
        self._state.event(
            "agent_state", agent=name, number=kept.number, instance=kept.incarnation, version=kept.version, state=kept.data,
            owner=kept.owner,
        )  # fmt: skip

    def _may_bring(self, session: Session, agent: Registration, header: Header) -> bool:
        """Whether a state may come with a late answer: each agent's run of a delegation brings one at most."""
        if not 1 <= header.attempt <= MAX_ATTEMPTS or _run(header) in self._late:
            return False
        is_open = self._state.ledger.get(header.request_id) is not None  # as another run, or with another agent
        may_be_unknown = agent.is_from_before and self._state.is_young
        return is_open or may_be_unknown or self._was_given(session, header.request_id)

    def _was_given(self, session: Session, request_id: bytes) -> bool:
        """Whether a delegation has ended that was not refused, as far as is known.

        A volatile one of the broker before is unknown to this one, or was refused when it was sent again.
        """
        state, ended = self._state, self._state.ended
        if (ending := ended.get(request_id)) is not None:
            return bool(ending.by)
        if not ended.may_know(request_id):
            return False
        if not state.journal.identity:
            return True
        session.input.spend(_LOOKED_UP)
        try:
            outcome = state.outcome(request_id)
        except EtherError:  # the journal cannot be read now
            return True
        return outcome is not None and not read_header(outcome).flags & Flag.REFUSED

    def _came_before(self, header: Header) -> bool:
        """Whether an answer that is sent again has given its delegation the outcome."""
        ending = self._state.ended.get(header.request_id) if header.flags & Flag.RESENT else None
        return ending is not None and ending.by == header.source

    def _refused(
        self, session: Session, header: Header, code: str, known: SavedState | None, incarnation: bytes
    ) -> tuple[Header, bytes]:  # fmt: skip
        """What an answer becomes whose state is not saved; the node is told what is saved of its agent."""
        name = name_of(header.source)
        saved = None if known is None else known.told()
        body = pack({"saved": saved, "refused": incarnation})
        told = pack_envelope(Kind.STATE, source=SUPERVISOR.encode(), target=header.source, body=body)
        self._state.session_table.send_aside(session, told)
        response = Response(
            request_id=to_text(header.request_id), status=Status.FAILED_EXECUTION, from_agent=name, attempt=header.attempt,
            error=ErrorInfo(code=code, message=_REFUSED[code].format(name)), timestamp=self._state.wall,
        )  # fmt: skip
        envelope = pack_response(response, capability=header.capability, target=header.source)
        return read_header(envelope), envelope

    def tell(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """Do `ether.state`: `number`, `version`, `state` of `agent`, or nil; for a node that may host it.

        Raises:
            InvalidEnvelope: no agent is named.
            AccessDenied: the node may not host it.
        """
        name, node = _agent(params), entry.asking_session.node
        if not self._state.access.may_register(node, name):
            raise AccessDenied(
                f"The node {node!r} may not host {name!r}, nor know its state: the access list does not have it."
            )
        known = self._state.agent_states.get(name)
        return Payload.of(None if known is None else known.told())

    def forget(self, _entry: Entry, params: dict[str, Any]) -> Payload:
        """Do `ether.forget-state` of `agent`, which the registry does not have; `forgotten` is whether it had one.

        With `expected` also of one whose node is lost, or is not back since the broker began.

        Raises:
            InvalidEnvelope: no agent is named, or it is on the bus.
        """
        name = _agent(params)
        agent = self._state.registry.get(name.encode())
        may_come = agent is not None and (agent.session.lost or agent.session.is_expected)
        if agent is not None and not (may_come and params.get("expected") is True):
            fix = (
                "stop it"
                if agent.is_hosted
                else "a node may bring it back: try again when it is not in the list of agents any more"
            )
            raise InvalidEnvelope(f"{name} is {agent.condition.value}, so its state is not forgotten: {fix}.")
        is_forgotten = self._state.agent_states.discard(name)
        if is_forgotten:
            self._state.event("agent_state_forgotten", agent=name)
        return Payload.of({"forgotten": is_forgotten})

    def list(self, params: dict[str, Any]) -> Payload:
        """Do `ether.states`: every agent that has saved a state, by name: `agent`, `number`, `version`, `bytes`."""
        states = self._state.agent_states
        after = text(params, "after")
        rows: Iterator[tuple[Place, dict[str, Any] | None]] = (
            (name, {"agent": name, "number": state.number, "version": state.version, "bytes": len(state.data)})
            for name, state in states.after(after)
        )
        return page(rows, params)


def _split(envelope: bytes) -> tuple[BroughtState, Header, bytes]:
    """The state that an answer brings, and the answer without it.

    Raises:
        MalformedFrame: it brings none, or is no outcome.
    """
    try:
        said, answer = split_state(envelope)
    except InvalidEnvelope as error:
        raise MalformedFrame(str(error), envelope) from None
    header = read_header(answer)
    if header.status in INTERIM:
        raise MalformedFrame("A state comes with an outcome, and this is none.", envelope)
    return said, header, answer


def _run(header: Header) -> tuple[bytes, bytes, int]:
    """An agent's run of a delegation."""
    return header.request_id, header.source, header.attempt


def _follows(said: BroughtState, known: SavedState | None) -> bool:
    """Whether a state was made of the one that is saved, by its incarnation or by one that began with it.

    Between the two there may be others of the same incarnation: of volatile work that a broker took along, or that came late.
    """
    if known is None:
        return (said.base, said.origin) == (0, b"")
    if said.origin != known.incarnation:
        return False
    is_its = said.incarnation == said.origin
    return said.base == known.number or (is_its and known.number < said.base < known.number + _MOST_BETWEEN)


def _agent(params: dict[str, Any]) -> str:
    name = text(params, "agent")
    if not name:
        raise InvalidEnvelope("params.agent has to be the name of an agent.")
    return name
