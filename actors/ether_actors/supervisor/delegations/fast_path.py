"""The fast path: the rulings of the general path on ordinary envelopes, in one call for each. Sans-IO.

    Supervisor ── take(session, envelope) ──► taken: all is done
                                          └─► not ordinary: nothing has changed, and the general path rules on it

Ordinary are: a delegation without a parent that was not sent before, to an agent that declares exactly the capability asked
for (no prefix of it, and not `*`), whether it is named or chosen; and the outcome of a delegation that has no sub-delegations
and has told no progress. A delegation is not, with an access list or while the journal is in trouble.

`DelegationPolicy` and `ResponsePolicy` define the rulings. Each block here names the method whose effect it has; whoever
changes that changes it here too. `tests/actors/supervisor/test_fast_path.py` compares both paths after every step. Without
the fast path (`Supervisor(fast_path=False)`) all outcomes are the same.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ether_actors.supervisor.delegations.delivery import RECENT, Delivery
from ether_actors.supervisor.registry.registration import Condition, turns
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import ENTRY_OVERHEAD, Entry, State
from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.manifest.manifest import ANY, Interface
from ether_broker.envelope.payload import MAX_PAYLOAD
from ether_broker.envelope.status import BY_CODE, INTERIM, Status
from ether_broker.mailbox.mailbox import Offer
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import HEADER, Flag, Header, Kind

__all__ = ["FastPath"]

_DELEGATION: Final = int(Kind.DELEGATION)  # a member of an Enum costs a look-up each time that it is named
_RESPONSE: Final = int(Kind.RESPONSE)
_ROUTED: Final = int(Flag.ROUTED)
_OUTCOMES: Final = frozenset(BY_CODE) - INTERIM - {Status.TIMEOUT.code}
"""What a specialist may end a delegation with."""
_QUEUED, _SENT, _, _ = State
_FULL: Final = Offer.FULL
_UP: Final = Condition.UP
_ANYTHING: Final = ANY.encode()
_SINGLE: Final = Interface.SINGLE
_HEADER: Final = HEADER.size
_unpack: Final = HEADER.unpack_from
_pack: Final = HEADER.pack
_new: Final = tuple.__new__


class FastPath:
    """The rulings on ordinary envelopes."""

    def __init__(self, state: BrokerState, delivery: Delivery) -> None:
        self._state = state
        self._delivery = delivery

    def take(  # noqa: C901, PLR0912, PLR0915  one call for each envelope
        self, session: Session, envelope: bytes
    ) -> bool:  # fmt: skip
        """Rule on an envelope if it is ordinary; otherwise nothing has changed."""
        size = len(envelope)
        if not _HEADER < size <= MAX_PAYLOAD:
            return False
        (
            kind, status, flags, n_source, n_target, n_capability, attempt, deadline, request_id, parent
        ) = _unpack(envelope)  # fmt: skip
        target_at = _HEADER + n_source
        capability_at = target_at + n_target
        body = capability_at + n_capability
        if flags or body > size:
            return False
        source, target = envelope[_HEADER:target_at], envelope[target_at:capability_at]
        capability = envelope[capability_at:body]
        state = self._state
        ledger = state.ledger
        entry: Entry | None = ledger.get(request_id)

        if kind == _RESPONSE:
            if entry is None or status not in _OUTCOMES or state.unwritten > state.most_ahead:
                return False
            agent, asking = entry.agent, entry.asking_session
            if (
                agent.session is not session or source != agent.name or target != entry.source
                or capability != entry.capability or attempt != entry.attempt or entry.state is _QUEUED
                or entry.progress is not None or entry.children or entry.is_volatile or not entry.holds_credit
                or asking.lost or target not in asking.agents
            ):  # fmt: skip
                return False
            entry.holds_credit = False  # Delivery.finish
            mailbox = agent.mailbox  # Mailbox.release
            mailbox.in_flight -= 1
            if mailbox.on_change is not None:
                mailbox.on_change()
            ledger.end(entry)
            if not asking.fresh:  # BrokerState.end, SessionTable.send
                state.session_table.touched[asking.receiver] = asking
            asking.fresh.append(envelope)
            asking.outbox_bytes += size
            passing = state.passing
            state.ended.note(request_id, source, target, state.tap.next + len(passing), entry.asked_from)
            passing.append(envelope)
            if state.journal.identity:
                state.cause(session, envelope)
            # Delivery.count
            agent.ended[status] = agent.ended.get(status, 0) + 1
            if agent.recent is None:
                agent.recent = deque(maxlen=RECENT)
            agent.recent.append(state.now - entry.opened)
            state.outcomes[status] = state.outcomes.get(status, 0) + 1
            if mailbox.waiting_count:
                self._delivery.send_waiting(agent)
            return True

        ended, now = state.ended, state.now
        if (
            kind != _DELEGATION or entry is not None or attempt != 1 or status or parent != NO_ID or not state.access.is_open
            or source not in session.agents or not now < deadline <= now + LONGEST_TIMEOUT
            or request_id > state.ids_ahead.near or request_id in ended.uncollected or ended.may_know(request_id)
            or state.journal.trouble is not None or state.unwritten > state.most_ahead
        ):  # fmt: skip
            return False
        registry = state.registry  # RecipientPolicy.choose
        holder = registry.get(target) if target else registry.index.holder(capability)
        if (
            holder is None
            or holder.condition is not _UP
            or holder.session.lost
            or (replicas := holder.replicas) is None
        ):
            return False
        choice = holder.resolved.get(capability)
        if (
            choice is None or choice.tier or choice.name != capability or capability == _ANYTHING
            or (replicas.kind is not None and replicas.kind is not _SINGLE)
        ):  # fmt: skip
            return False
        mailbox = holder.mailbox
        limits = mailbox.limits
        header = _new(Header, (
            kind, status, flags, deadline, request_id, parent, attempt, source, target, capability, body
        ))  # fmt: skip
        if not target:  # rehead
            target = holder.name
            envelope = b"".join((
                _pack(
                    kind, status, _ROUTED, n_source, len(target), n_capability, attempt, deadline, request_id, parent
                ),
                source, target, envelope[capability_at:],
            ))  # fmt: skip
            size = len(envelope)
        if ledger.size + session.account.size + size + ENTRY_OVERHEAD > ledger.most:  # Ledger.has_room
            return False
        entry = Entry(  # DelegationPolicy._accept
            header, envelope, session, choice, pinned=header.target != b"", deadline=deadline, now=now
        )  # fmt: skip
        # Mailbox.offer
        is_sent = mailbox.is_open and mailbox.in_flight < limits.window and not mailbox.waiting_count
        if is_sent:
            mailbox.in_flight += 1
            if mailbox.on_change is not None:
                mailbox.on_change()
        elif mailbox.offer(entry) is _FULL:
            return False
        if not header.target and mailbox.on_change is None:  # Registry.choose
            holder.turn = next(turns)
        ledger.open(entry, _SENT if is_sent else _QUEUED)
        state.accepted += 1
        state.passing.append(envelope)
        if state.journal.identity:
            state.cause(session, envelope)
        if not is_sent:
            return True
        entry.holds_credit = True  # Delivery.send, SessionTable.send
        specialists = holder.session
        if not specialists.fresh:
            state.session_table.touched[specialists.receiver] = specialists
        specialists.fresh.append(envelope)
        specialists.outbox_bytes += size
        return True
