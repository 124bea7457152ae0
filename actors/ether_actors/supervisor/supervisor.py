"""The supervisor: one step takes what arrived, rules on it, and leaves the answers in the outboxes. Sans-IO.

who calls whom       SupervisorActor ── step(arrivals, now) ──► Supervisor
                                                                   │ by the envelope's kind
                     DelegationPolicy  delegations ◄───────────────┤   ──► RecipientPolicy, Delivery
                     └─ Administration  `ether.*`                  │   ──► LeaseService, JournalGc
                     ResponsePolicy  responses, cancellations ◄────┤   ──► Progress, Reassignment, Delivery
                     Membership      nodes, agents, watchers ◄─────┤
                     Rebalancing     agents that scale ◄───────────┤   ──► Reassignment, ScaleReports
                     ObserverFeed    what observers are sent ◄─────┤
                     ArtifactRelay   bytes between nodes ◄─────────┘
                     all of them     ──► BrokerState: SessionTable, Registry, Ledger, DeadLetters, Tap
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Final

from ether_actors.supervisor.artifact_relay import ArtifactRelay
from ether_actors.supervisor.capabilities.administration import Administration
from ether_actors.supervisor.capabilities.event_service import EventService
from ether_actors.supervisor.capabilities.lease_service import LeaseService
from ether_actors.supervisor.capabilities.state_service import StateService
from ether_actors.supervisor.delegation_policy import DelegationPolicy
from ether_actors.supervisor.delegations.deadlines import Deadlines
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.fast_path import FastPath
from ether_actors.supervisor.delegations.progress import Progress
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.delegations.rebalancing import Rebalancing
from ether_actors.supervisor.delegations.recipient_policy import RecipientPolicy
from ether_actors.supervisor.delegations.response_policy import ResponsePolicy
from ether_actors.supervisor.delegations.scale_reports import ScaleReports
from ether_actors.supervisor.journal.journal_gc import JournalGc
from ether_actors.supervisor.membership.membership import Membership
from ether_actors.supervisor.membership.outcome_replay import OutcomeReplay
from ether_actors.supervisor.observer_feed import ObserverFeed
from ether_actors.supervisor.recovery import read_history, recover
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ended import REMEMBERED
from ether_actors.supervisor.state.job_schedule import Job
from ether_broker.envelope.ids import NO_ID, new_id, to_text
from ether_broker.envelope.names import check_names
from ether_broker.envelope.payload import MAX_PAYLOAD
from ether_broker.errors import (
    EtherError,
    MalformedFrame,
    NoSession,
    PayloadTooLarge,
    TooMuch,
)
from ether_broker.journal.journal import Journal
from ether_broker.journal.null import NullJournal
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.tap import KEPT, KEPT_BYTES, Tap
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import Address, Addressing, two_connections
from ether_broker.transport.sessions.cost import DEAREST, HOLDERS_SHIFT, reading
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.transport.sessions.turns import InputQueue
from ether_broker.wire.frame import Header, Kind, Message, read_header

if TYPE_CHECKING:
    from ether_broker.security.access_list import Access
    from ether_broker.transport.direct_link import DirectLink
    from ether_broker.transport.server import Guard
    from ether_broker.transport.sessions.account import Account

__all__ = ["Supervisor"]

logger = logging.getLogger("ether.supervisor")

_TOP: Final = 1 << 63
_AWAKE: Final = 0.3
"""Seconds: a little more than the longest that it sleeps."""
_RESPONSE: Final = int(Kind.RESPONSE)
_MEMBERS: Final = frozenset({Kind.REGISTER, Kind.UNREGISTER, Kind.BYE})
"""What nodes that are in say of who comes or goes."""
_STEP: Final = 1 << 10
"""Bytes that a step takes beside its envelopes until it is in the journal."""
_MOST_DIRECT: Final = 64
"""Envelopes that one step takes of a link of the same process at most."""
_Take = Callable[[Session, Header, bytes], None]
_DEAR: Final = (
    "An envelope of kind {} has {:,} bytes, and those, or the maps and lists in them, are too many to be read: "
    "say it in several smaller ones."
)


def _none_is_fast(_session: Session, _envelope: bytes) -> bool:
    return False


@cache
def _foreign(kind: int) -> MalformedFrame:
    return MalformedFrame(f"An envelope of kind {kind} is not for the broker.")


def _written(caused: dict[Account, int]) -> None:
    """Count what the journal has committed for its owners no more."""
    for account, size in caused.items():
        account.unwritten -= size


def _charge_reading(queue: InputQueue[Session], header: Header, envelope: bytes) -> None:
    """Charge what reading a body costs, before it is read.

    Raises:
        TooMuch: it would cost more than any may.
    """
    points = reading(envelope[header.body :])
    queue.spend(points)
    if points > DEAREST:
        raise TooMuch(_DEAR.format(header.kind, len(envelope)))


class Supervisor:
    """The state machine of the broker: holds every delegation to its contract (G1, G3, G4, G6, G8, G9, G10).

    Args:
        limits: bounds of each agent's mailbox.
        tap_count: envelopes that observers can still catch up on.
        tap_size: bytes that are kept for that.
        tap_interval: seconds that observers may be behind while fewer than 64 envelopes wait for them.
        journal: keeps what passed; default: nothing is kept.
        timing: how often it and its nodes show life, and for how long each waits for the other.
        make_id: makes the ids of events and of sessions; default: UUIDv7.
        addressing: of the transport, which tells whose an address is.
        guard: says whose a connection is; None where connections have no keys.
        access: who may do what; default: everybody everything.
        remembered: ended delegations that are told apart from unknown ones at least, without asking the journal.
        fast_path: whether ordinary envelopes take `FastPath`; outcomes are the same without it.
    """

    def __init__(
        self, *, limits: Limits | None = None, tap_count: int = KEPT, tap_size: int = KEPT_BYTES,
        tap_interval: float = 0.0, journal: Journal | None = None, timing: Timing = DEFAULT_TIMING,
        make_id: Callable[[], bytes] = new_id, guard: Guard | None = None, addressing: Addressing = two_connections,
        access: Access | None = None, remembered: int = REMEMBERED, fast_path: bool = True,
    ) -> None:  # fmt: skip
        journal, limits = journal or NullJournal(), limits or Limits()
        tap = Tap(count=tap_count, size=tap_size, start=journal.next)
        identify, refusals = (None, None) if guard is None else (guard.identify, guard.refusals)
        owner = (lambda _address: "") if guard is None else guard.key_of
        session_table = SessionTable(
            timing=timing, make_session=lambda: int.from_bytes(make_id()[8:]) ^ _TOP, refusals=refusals,
            owner=owner, most_kept=limits.backlog_bytes, addressing=addressing,
        )  # fmt: skip
        self.state: BrokerState = BrokerState(
            limits, tap, journal, session_table, make_id, identify=identify, access=access, remembered=remembered
        )  # fmt: skip
        self._remembered = remembered
        delivery, recipients = Delivery(self.state), RecipientPolicy(self.state)
        reassignment = Reassignment(self.state, delivery, recipients)
        self.lease_service: LeaseService = LeaseService(self.state, delivery)
        self.journal_gc: JournalGc = JournalGc(self.state, delivery)
        event_service, state_service = EventService(self.state, delivery), StateService(self.state)
        self._administration = Administration(
            self.state, delivery, self.lease_service, event_service, state_service, self.journal_gc
        )  # fmt: skip
        self._replay = OutcomeReplay(self.state)
        self._policy = DelegationPolicy(self.state, delivery, recipients, self._administration, self._replay)
        self._progress = Progress(self.state, delivery)
        deadlines = Deadlines(self.state, delivery, self._administration.late)
        self._replay.on_back = self._progress.look_again
        relay = ArtifactRelay(self.state)
        scale_reports = ScaleReports(self.state)
        self.rebalancing: Rebalancing = Rebalancing(self.state, recipients, reassignment, scale_reports)
        self._membership = Membership(
            self.state, delivery, reassignment, self._replay, to_text(make_id()), on_lost=relay.lost
        )  # fmt: skip
        self._membership.registering.listener = self.rebalancing.changed
        state_service.may_speak_for = self._membership.may_speak_for
        lost_agents = self._membership.departures.remembered
        event_service.down_until = lost_agents.until
        event_service.on_given_while_down = lost_agents.given
        self._policy.on_given_while_down = lost_agents.given
        reassignment.on_given_while_down = lost_agents.given
        self._responses = ResponsePolicy(
            self.state, delivery, reassignment, self._progress, self._membership.may_speak_for, state_service.take
        )
        self._observer_feed = ObserverFeed(self.state, tap_interval)
        self._take_fast = FastPath(self.state, delivery).take if fast_path else _none_is_fast
        self._work: dict[int, _Take] = {
            Kind.DELEGATION: self._policy.delegation,
            Kind.RESPONSE: self._responses.response,
            Kind.CANCEL: self._responses.cancel,
            Kind.TAP_ACK: self._observer_feed.acknowledge,
            Kind.FETCH: relay.fetch,
            Kind.CHUNK: relay.chunk,
        }
        """What takes an envelope of a kind that is charged by its kind alone."""
        membership = self._membership
        self._control: dict[int, _Take] = {
            Kind.HEARTBEAT: membership.heartbeat,
            Kind.REGISTER: membership.registering.register,
            Kind.UNREGISTER: membership.unregister,
            Kind.OBSERVE: self._observe,
            Kind.MONITOR: membership.monitors.monitor,
            Kind.HELLO: lambda session, header, envelope: membership.hello(session.input.address, header, envelope),
            Kind.BYE: lambda session, _header, _envelope: membership.departures.leave(session),
            Kind.RESEND: lambda session, _header, _envelope: session_table.resend(session),
            Kind.RESUME: membership.resume,
            Kind.SCALE: scale_reports.scaled,
        }
        """What takes an envelope of a kind of which the body is read, and charged before that."""
        self.state.schedule.jobs = (
            self._progress.job, delivery.job, deadlines.job, self._membership.job, self._membership.departures.job,
            self._membership.monitors.job, self.lease_service.job, self.rebalancing.job, scale_reports.telling,
            self._replay.job, self._observer_feed.job,
        )  # fmt: skip
        self._late: float = max(_AWAKE, min(2.0, timing.silence * 2 / 3))
        """Seconds between two steps after which it was this process that was late."""
        self._ticket = 0
        """Of the last step that the journal was given."""
        self._appended: deque[tuple[int, int, int, list[tuple[Job, int]], dict[Account, int]]] = deque()
        """(ticket, the number that follows, bytes, which jobs added how many, who caused how much) of what is not durable."""
        self._committed: list[tuple[int, dict[Account, int]]] = []
        """(bytes, who caused how much) of what is durable, while the journal has work left to do for it."""
        self._going_on: set[Account] = set()
        """Owners of whom a node that waited for the journal goes on in this step."""

    def recover(self, now: float, wall: float, boot: str = "") -> None:
        """Take up what the journal's last broker left; before the first step.

        Args:
            now: seconds by the broker's clock.
            wall: Unix time.
            boot: the machine's start, by which the clock may be known to be that broker's too; "" is unknown.

        Raises:
            JournalCorrupt: the journal is not what a broker wrote.
        """
        state, timing = self.state, self.state.session_table.timing
        state.now, state.wall = now, wall
        history = read_history(state.journal, remembered=self._remembered)
        state.has_recovered = history.next > 1
        window = state.bus.mailbox.limits.window
        history.begin(boot, now, wall, silence=float(timing.silence), window=window)
        recover(state, self._membership, self._administration, self.lease_service, history)
        state.journal.put_checkpoint(history.next, history.pack())

    def step(  # noqa: C901  no call for what most steps do not do
        self, arrivals: Iterable[tuple[Address, Message]], now: float, wall: float
    ) -> None:  # fmt: skip
        """Take in what arrived, rule on as much of what waits as one step may cost, and on everything that is due.

        Args:
            arrivals: (address, message).
            now: seconds by the broker's clock; never less than in the last step.
            wall: seconds since 1970 in UTC, for people.
        """
        state = self.state
        if now - state.now > self._late:
            if state.session_table.sessions:
                state.session_table.stood_still(now)
            self._membership.stood_still(now, now - state.now)
        state.now = now
        state.wall = wall
        schedule = state.schedule
        if self._appended or self._committed:
            self._release()
        if schedule.paused or schedule.deferred:
            schedule.begin()
        for address, message in arrivals:
            state.session_table.arrive(address, message, now)
        self._going_on.clear()
        for queue, envelope in state.session_table.turns.take():
            self._take(queue, envelope)
        if schedule.next <= now:
            schedule.run(now, state.passing)
        if state.passing:
            passing, state.passing = state.passing, []
            first = state.tap.next
            state.tap.append(passing, now)
            self._ticket = state.journal.append(first, now, wall, passing)
            if self._ticket > state.journal.committed or self._appended or schedule.added or schedule.paused:
                added, schedule.added = schedule.added, []
                size = _STEP + sum(map(len, passing))
                state.unwritten += size - sum(state.caused.values())
                self._appended.append((self._ticket, state.tap.next, size, added, state.caused))
            else:
                state.durable = state.tap.next
                state.unwritten -= sum(state.caused.values())
                _written(state.caused)
            state.caused = {}
            if self._observer_feed.watching:
                self._observer_feed.passed()
        committed = state.journal.committed
        state.session_table.end_step(self._ticket, committed, joins=state.journal.trouble is not None)
        if self._appended or self._ticket > committed:
            self._release()

    def step_direct(self, link: DirectLink, now: float, wall: float) -> list[bytes] | None:
        """Rule on the oldest envelopes that wait in a link of the same process, as long as all are ordinary.

        Nothing is numbered or kept to be sent again: what a link of the same process has been given has arrived.

        Args:
            link: the only one of a broker that keeps no journal.
            now: as of `step`.
            wall: as of `step`.

        Returns:
            What the node is to be given now. None: `step` has to be called, which goes on with what is left here.
        """
        state, schedule = self.state, self.state.schedule
        session_table = state.session_table
        session = session_table.by_address.get(link.address)
        turns = session_table.turns
        if (
            session is None or schedule.next <= now or schedule.paused or schedule.deferred or self._appended
            or session.outbox or turns.waiting or turns.blocked or session.gone_since is not None or session.blocked
            or session.channel.sent < session.channel.last or now - state.now > self._late or state.journal.identity
            or session.channel.received < link.packed  # a frame that found no room comes again, and goes first (G9)
        ):  # fmt: skip
            return None
        state.now, state.wall = now, wall
        session.heard = now
        waiting, take = link.waiting, self._take_fast
        for _ in range(_MOST_DIRECT):
            if not waiting:
                break
            envelope = waiting.popleft()
            link.waiting_bytes -= len(envelope)
            try:
                if not take(session, envelope):
                    waiting.appendleft(envelope)
                    link.waiting_bytes += len(envelope)
                    return None
            except Exception as bug:  # noqa: BLE001  it is logged
                self._note_bug(session, link.address, bug)
        if state.registry.index.looked:
            session.input.spend(state.registry.looked() >> HOLDERS_SHIFT)
        touched = session_table.touched
        if schedule.next <= now or session.outbox or len(touched) > 1 or (touched and session.receiver not in touched):
            return None
        if state.passing:
            passing, state.passing = state.passing, []
            first = state.tap.next
            state.tap.append(passing, now)
            self._ticket = state.journal.append(first, now, wall, passing)
            state.durable = state.tap.next
            if self._observer_feed.watching:
                self._observer_feed.passed()
        fresh, session.fresh = session.fresh, []
        session.outbox_bytes = 0
        session_table.touched.clear()
        return fresh

    def _release(self) -> None:
        """Let go of what the journal has committed."""
        state, committed = self.state, self.state.journal.committed
        state.session_table.release(committed)
        if self._appended and self._appended[0][0] <= committed:
            while self._appended and self._appended[0][0] <= committed:
                _, state.durable, size, added, caused = self._appended.popleft()
                self._committed.append((size, caused))
                for job, count in added:
                    job.unwritten -= count
            if state.schedule.paused:
                state.schedule.committed()
        if self._committed and not state.journal.index_lags:
            for size, caused in self._committed:
                state.unwritten -= size
                _written(caused)
            self._committed.clear()

    def finish(self, now: float, wall: float) -> None:
        """Rule on all that waits, however much the journal has to write for it: the broker ends."""
        turns, left = self.state.session_table.turns, (-1, -1)
        self.state.is_ending = True
        while left != (left := (turns.size, sum(len(queue.envelopes) for queue in turns.queues()))):
            self.step([], now, wall)

    def next_wake(self) -> float:
        """When to step again even if nothing arrives, in seconds by the broker's clock."""
        state = self.state
        turns, departures = state.session_table.turns, self._membership.departures.job
        waits_for_journal = departures.is_ahead or state.is_ahead or state.is_behind or state.is_unread
        if turns.waiting or (turns.blocked and (self._going_on or not waits_for_journal)):
            return state.now
        return max(state.now, state.schedule.next)

    def _take(self, queue: InputQueue[Session], envelope: bytes) -> None:
        session = queue.session
        try:
            is_taken = session is not None and self._take_fast(session, envelope)
        except Exception as bug:  # noqa: BLE001  it is logged
            is_taken = True
            self._note_bug(session, queue.address, bug)
        if not is_taken:
            self._take_any(queue, session, envelope)
        registry = self.state.registry
        if registry.index.looked:
            queue.spend(registry.looked() >> HOLDERS_SHIFT)

    def _take_any(self, queue: InputQueue[Session], session: Session | None, envelope: bytes) -> None:
        """Rule on an envelope, whatever it is; if its node has to wait for the journal, that waits, and all behind it."""
        state = self.state
        if session is not None and state.must_wait(session):
            queue.block(envelope, lambda: self._may_go_on(session), is_brief=True)
            return
        request_id = NO_ID
        try:
            header = read_header(envelope)
            request_id, kind = header.request_id, header.kind
            if kind != _RESPONSE:  # whose names are the ledger's, or else checked before it is kept
                check_names(header.source, header.target, header.capability)
            if session is None:
                self._greet(queue, header, envelope)
            elif len(envelope) > MAX_PAYLOAD:  # whoever it were passed on to would be cut off for its size
                state.session_table.refuse(queue.address, PayloadTooLarge(len(envelope), MAX_PAYLOAD), request_id)
            else:
                state.ruled_on = session
                (self._work.get(kind) or self._take_control)(session, header, envelope)
        except EtherError as error:
            state.session_table.refuse(queue.address, error, request_id)
        except Exception as bug:  # noqa: BLE001  it is logged
            self._note_bug(session, queue.address, bug)
        finally:
            state.ruled_on = None

    def _may_go_on(self, session: Session) -> bool:
        """Whether a node has waited for the journal: in each step one of an owner, as it may cause all that the owner may."""
        account = session.account
        if account in self._going_on or self.state.must_wait(session):
            return False
        self._going_on.add(account)
        return True

    def _note_bug(self, session: Session | None, address: Address, bug: Exception) -> None:
        """Count and log a bug as refusals are: whoever has found one may send what shows it a million times."""
        peer = session.node if session else ""
        if self.state.session_table.refusals.note(peer, "internal_error", repr(bug)):
            sender = address[:8].hex()
            logger.error("an envelope of %s broke the supervisor's step; it is dropped", sender, exc_info=bug)

    def _greet(self, queue: InputQueue[Session], header: Header, envelope: bytes) -> None:
        if header.kind != Kind.HELLO:
            raise NoSession("It has no session (any more), and has to say HELLO, as after a restart of the broker.")
        if self._waits(queue, envelope):
            return
        _charge_reading(queue, header, envelope)
        self._membership.hello(queue.address, header, envelope)

    def _waits(self, queue: InputQueue[Session], envelope: bytes) -> bool:
        """Whether who comes or goes has to wait for the journal; then so does all that is behind it in its queue."""
        state = self.state
        if not state.is_behind:
            return False
        queue.block(envelope, lambda: not state.is_behind)
        return True

    def _take_control(self, session: Session, header: Header, envelope: bytes) -> None:
        take = self._control.get(header.kind)
        if take is None:  # nobody waits for an answer to it, so it answers no request
            self.state.session_table.refuse(session.input.address, _foreign(header.kind))
            return
        if header.kind in _MEMBERS and self._waits(session.input, envelope):
            return
        _charge_reading(session.input, header, envelope)
        if self.state.session_table.lost:  # what it had is ended before anybody takes its names
            self._membership.beat()
        if not session.lost:
            take(session, header, envelope)

    def _observe(self, session: Session, header: Header, envelope: bytes) -> None:
        self._membership.observe(session, header, envelope)
        self._observer_feed.watch(session)
