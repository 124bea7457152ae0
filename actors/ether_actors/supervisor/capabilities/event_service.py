"""The events that agents publish: each subscriber is given each of them, as a delegation of the bus's own. Sans-IO.

So what is promised of a delegation is promised of a delivery: it runs at most once (G3), waits in the subscriber's mailbox
within its bounds (G8), has a deadline (G4), and is in the journal with the others of its event, all or none (G2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ether_actors.supervisor.capabilities.pages import text
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.rejection import Rejection, broker_full
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import MOST_AHEAD, VOLATILE, BrokerState
from ether_actors.supervisor.state.ledger import ENTRY_OVERHEAD, Entry
from ether_actors.task.event import delivery_params
from ether_broker.dead_letters import Reason
from ether_broker.encoding.bounded import EVENT_CONTAINERS, check_containers
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import EVENT_PREFIX, GRAMMAR, TOPIC_PATTERN, is_topic
from ether_broker.envelope.payload import Payload, pack
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidEnvelope
from ether_broker.mailbox.mailbox import Offer
from ether_broker.number import is_number
from ether_broker.text import brief
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.cost import DELIVERED, DELIVERED_SHIFT, DELIVERY_ENDED, HOLDERS_SHIFT, reading
from ether_broker.wire.codec import pack_plain_delegation
from ether_broker.wire.frame import Flag, mark, name_of, read_header

__all__ = ["MOST_SUBSCRIBERS", "EventService"]

MOST_SUBSCRIBERS: Final = 1_024
"""Agents that one event is given to; all of them in one step, so that a broker that dies has given it to all or none."""
_MOST_BYTES: Final = 16 << 20
"""Bytes that all deliveries of one event have together at most."""
_MOST_WRITTEN: Final = MOST_AHEAD
"""The same on a bus with a journal, for which others wait as long as that takes to be written."""
_MOST_LOOKED: Final = 1 << 15
"""Agents that are looked at for one event, also those that the publisher may not reach."""
_HEADERS: Final = 256
"""Bytes of a delivery beside its event, about."""
_SHOWN: Final = 100
"""Subscribers without room that an answer names."""


class EventService:
    """The part of the supervisor that delivers events."""

    def __init__(self, state: BrokerState, delivery: Delivery) -> None:
        self._state = state
        self._delivery = delivery
        state.registry.subscriptions.on_most = self._note_subscribers
        self.on_given_while_down: Callable[[Registration], None] = lambda _agent: None
        """Told of an agent that is down and was given an event."""
        self.down_until: Callable[[Registration], float] = lambda _agent: 0.0
        """Until when an agent that is down is remembered: no event waits for it any longer."""

    def _note_subscribers(self, agents: int) -> None:
        self._state.session_table.turns.subscribers = min(agents, MOST_SUBSCRIBERS)

    def publish(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """Do `ether.publish`: `subscribers` is how many agents are given the event, `refused` who is not, for want of room.

        A subscriber that the publisher may not delegate `ether.event.TOPIC` to is none.

        Raises:
            InvalidEnvelope: the params do not fit, or the data has too many maps and lists.
            Rejection: there are too many subscribers, or the broker has no room.
        """
        state = self._state
        topic, data, timeout = _topic(params), params.get("data"), _timeout(params)
        if not isinstance(data, bytes):
            raise InvalidEnvelope("params.data has to be the packed data of the event.")
        entry.asking_session.input.spend(reading(data))
        check_containers(data, EVENT_CONTAINERS, "event's data")
        agents, refused = self._subscribers(entry, topic)
        body = pack(delivery_params(topic, data, name_of(entry.source), to_text(entry.request_id), state.wall))
        size = len(agents) * (len(body) + _HEADERS)
        most = _MOST_WRITTEN if state.journal.identity else _MOST_BYTES
        if size > most:
            message = (
                f"The event has {len(body):,} bytes and {len(agents):,} subscribers, together more than {most:,} bytes: "
                "publish where the data is, as an artifact."
            )
            raise Rejection(Status.REJECTED_OVERLOAD, "event_too_large", message)
        session = entry.asking_session
        account = state.session_table.account(session.principal, of_events=True)
        if not state.ledger.has_room(account, size + len(agents) * ENTRY_OVERHEAD):
            raise broker_full(state.ledger, account)
        queue = session.input
        queue.given = max(len(agents), queue.given >> 1)
        queue.spend(len(agents) * (DELIVERED + DELIVERY_ENDED) + (size >> DELIVERED_SHIFT))
        full = [
            name for agent in agents if (name := self._give(entry, agent, topic, body, timeout, account)) is not None
        ]
        given, refused = len(agents) - len(full), full + refused
        if refused:
            detail = f"{len(refused):,} subscribers have no room: {', '.join(refused[:_SHOWN])}"
            state.keep_dead_letter(Reason.OVERLOAD, entry.envelope, entry.asking_session, detail)
        return Payload.of({"subscribers": given, "refused": refused[:_SHOWN]})

    def _subscribers(self, entry: Entry, topic: str) -> tuple[list[Registration], list[str]]:
        """Whom an event is to be given to, and the names of those that are down for whom there is no room beside the others.

        Raises:
            Rejection: they are too many.
        """
        access, publisher, now = self._state.access, entry.asking_session.node, self._state.now
        grant = None if access.is_open else access.grant(publisher, name_of(entry.source))
        name = f"{EVENT_PREFIX.decode()}{topic}"
        agents: list[Registration] = []
        down: list[Registration] = []
        looked = 0
        for agent in self._state.registry.subscriptions.subscribers(topic):
            looked += 1
            if agent.condition is Condition.DRAINING or not (
                grant is None or grant.permits(name, agent.manifest.agent)
            ):
                pass
            elif agent.is_hosted:
                agents.append(agent)
            elif self.down_until(agent) > now:
                down.append(agent)
            if len(agents) > MOST_SUBSCRIBERS or looked >= _MOST_LOOKED:
                entry.asking_session.input.spend(looked >> HOLDERS_SHIFT)
                message = (
                    f"More than {MOST_SUBSCRIBERS:,} agents subscribe to {topic!r}: let one agent of each node subscribe "
                    "and tell the others, or split the topic."
                )
                raise Rejection(Status.REJECTED_OVERLOAD, "too_many_subscribers", message)
        entry.asking_session.input.spend(looked >> HOLDERS_SHIFT)
        room = max(0, MOST_SUBSCRIBERS - len(agents))
        return agents + down[:room], [agent.manifest.agent for agent in down[room:]]

    def _give(  # noqa: PLR0917  made for one call
        self, asked: Entry, agent: Registration, topic: str, body: bytes, timeout: float, account: Account
    ) -> str | None:  # fmt: skip
        """Delegate the handling of an event to a subscriber; its name if it has no room."""
        state, delivery = self._state, self._delivery
        choice = state.registry.resolve(agent, EVENT_PREFIX + topic.encode())
        assert choice is not None
        deadline = state.now + timeout
        if not agent.is_hosted:
            deadline = min(deadline, self.down_until(agent))
        envelope = pack_plain_delegation(
            state.make_id(), state.bus.name, agent.name, choice.name, body, timeout=timeout, timestamp=state.wall,
            deadline=deadline,
        )  # fmt: skip
        if asked.is_volatile:
            envelope = mark(envelope, Flag(VOLATILE))
        entry = Entry(
            read_header(envelope), envelope, state.bus.session, choice, account=account, pinned=True,
            deadline=deadline, now=state.now,
        )  # fmt: skip
        offer = agent.mailbox.offer(entry)
        if offer is Offer.FULL:
            return agent.manifest.agent
        state.ledger.open(entry)
        state.accepted += 1
        state.pass_on(asked.asking_session, envelope)
        if offer is Offer.SEND:
            delivery.send(entry)
        elif not agent.is_hosted:
            self.on_given_while_down(agent)
        return None


def _topic(params: dict[str, Any]) -> str:
    topic = text(params, "topic")
    if topic is None or not is_topic(topic):
        shown = brief(topic)
        raise InvalidEnvelope(f"{shown} is no topic of an event: {GRAMMAR[TOPIC_PATTERN]}.")
    return topic


def _timeout(params: dict[str, Any]) -> float:
    timeout = params.get("timeout")
    if timeout is None:
        return DEFAULT_TIMEOUT
    if not is_number(timeout) or not 0 < timeout <= LONGEST_TIMEOUT:
        raise InvalidEnvelope(
            f"params.timeout is {timeout!r:.80} and has to be seconds above 0, up to {LONGEST_TIMEOUT:g}."
        )
    return float(timeout)
