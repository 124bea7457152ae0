"""The states of agents: saved with the outcome of the delegation that changed them, and read when the agent starts. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ether_actors.supervisor.capabilities.pages import text
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.agent_states import MOST_STATE, SavedState
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import AccessDenied, InvalidEnvelope, MalformedFrame
from ether_broker.transport.cost import ANSWER_SHIFT
from ether_broker.transport.session import Session
from ether_broker.wire.codec import pack_response
from ether_broker.wire.frame import Header, name_of, read_header
from ether_broker.wire.saved_state import split_state

__all__ = ["StateService"]

_FULL: Final = (
    "The work was done and the state of {} was not saved: the bus keeps no more states. Forget those of agents that are gone "
    "(bus.forget_state), or save less."
)


class StateService:
    """The part of the supervisor that keeps the states of agents."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.may_speak_for: Callable[[Session, Registration], bool] = lambda _session, _agent: False
        """Whether a session may say what became of an agent's work though the agent is not registered in it (yet)."""

    def take(self, session: Session, envelope: bytes) -> tuple[Header, bytes]:
        """Save the state that an answer brings, and return the answer without it.

        It is saved whether or not the answer still counts: it is how the agent is. Only its own node may say that. The event
        that tells it and the outcome are in one entry of the journal.

        Raises:
            MalformedFrame: it brings none.
        """
        try:
            said, answer = split_state(envelope)
            state = SavedState(said.number, said.version, said.data, session.owner)
        except InvalidEnvelope as error:
            raise MalformedFrame(str(error), envelope) from None
        header = read_header(answer)
        name = name_of(header.source)
        agent = self._state.registry.get(header.source)
        known = self._state.agent_states.get(name)
        if agent is None or not (agent.session is session or self.may_speak_for(session, agent)):
            return header, answer  # another instance's
        if known is not None and known.number >= state.number:
            return header, answer  # it came before
        session.input.spend(1 + (len(state.data) >> ANSWER_SHIFT))
        if len(state.data) > MOST_STATE or not self._state.agent_states.has_room(name, state):
            return self._refused(header)
        self._state.agent_states.put(name, state)
        self._state.event(
            "agent_state", agent=name, number=state.number, version=state.version, state=state.data, owner=state.owner
        )  # fmt: skip
        return header, answer

    def _refused(self, header: Header) -> tuple[Header, bytes]:
        """What an answer becomes whose state cannot be saved."""
        name = name_of(header.source)
        response = Response(
            request_id=to_text(header.request_id), status=Status.FAILED_EXECUTION, from_agent=name, attempt=header.attempt,
            error=ErrorInfo(code="state_full", message=_FULL.format(name)), timestamp=self._state.wall,
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
        return Payload.of(
            None if known is None else {"number": known.number, "version": known.version, "state": known.data}
        )

    def forget(self, _entry: Entry, params: dict[str, Any]) -> Payload:
        """Do `ether.forget-state` of `agent`, which is not on the bus; `forgotten` is whether it had one.

        Raises:
            InvalidEnvelope: no agent is named, or it is on the bus.
        """
        name = _agent(params)
        agent = self._state.registry.get(name.encode())
        if agent is not None and agent.condition is not Condition.DOWN:
            raise InvalidEnvelope(f"{name} is {agent.condition.value}: stop it before its state is forgotten.")
        is_forgotten = self._state.agent_states.discard(name)
        if is_forgotten:
            self._state.event("agent_state_forgotten", agent=name)
        return Payload.of({"forgotten": is_forgotten})


def _agent(params: dict[str, Any]) -> str:
    name = text(params, "agent")
    if not name:
        raise InvalidEnvelope("params.agent has to be the name of an agent.")
    return name
