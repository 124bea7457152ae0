"""The replay of outcomes to delegators that are back or in doubt, a share a step. Sans-IO.

Looking them up must hold up nobody, nor must sending them: a request of a hundred bytes may ask for a MiB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from ether_actors.supervisor.registry.quota import MOST_AWAITED, MOST_RESUMED, check_room
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import INTERIM, Status
from ether_broker.errors import JournalCorrupt, JournalUnavailable, TooMuch
from ether_broker.transport.sessions.cost import AGAIN_SHIFT, ANSWER
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header, Kind, read_header

__all__ = ["LOOK_UPS_PER_STEP", "OutcomeReplay"]

_LOST: Final = "This bus knows nothing of it: it never arrived, or the broker that had taken it was lost."
_REMOVED: Final = "Its outcome is not known any more: the old part of the journal, where it may have been, was removed."
_UNREAD: Final = "Its outcome cannot be read."
_GONE: Final = "Its outcome is for its delegator alone: this node did not ask for it, and does not have that agent."
_TAKEN: Final = (
    "Its outcome goes to another node, which has asked for it since: that has the delegator, or asked first."
)
_RETRY: Final = 0.5
_TOLD: Final = 1_000
"""Request ids in one event."""
_RATE: Final = 16 << 20
"""Bytes a second that are given again, to all delegators together and each in its turn; beyond the first `_BURST`."""
_BURST: Final = 1 << 20
_LOOK: Final = 2 << 10
"""Bytes as which a look for an outcome counts where there is a journal."""
_READ_SHIFT: Final = 6
"""Of the number of envelopes on their way that are looked through: what is charged for that, in points."""
_IN_ANY_CASE: Final = 4 * MOST_RESUMED
"""Request ids that may wait of a node whatever else its key has: those who are owed something need not have room for more."""
_WAITING: Final = 64
"""Bytes of memory of a request id that waits."""
LOOK_UPS_PER_STEP: Final = 32
"""Outcomes that one step looks up. Each may be a question to the journal's file, of some 0.15 ms; thousands of them in
one step would make every deadline late (G4)."""


class OutcomeReplay:
    """The queue of delegations that have ended and whose outcomes are sent again.

    What is still open is given to its delegator at once.
    """

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._until = 0
        """The number of the outcome that has to be in the journal before anything more is given out."""
        self._not_before = 0.0
        """When more is given out: the journal could not be read, or enough was given for now."""
        self.asked: dict[Session, deque[bytes]] = {}
        """{session: what it waits for}, the next to be served first."""
        self.job: Job = Job(state.schedule, self._serve)
        self.on_back: Callable[[Entry], None] = lambda _entry: None
        """Told of each delegation that is open when its delegator asks for what it is owed."""

    def again(self, session: Session, request_id: bytes, outcome: bytes) -> None:
        """Give a delegator the outcome of a request that it has sent again: now, or in its turn.

        Raises:
            TooMuch: as `ask`.
        """
        if not self.asked and self._state.now >= self._not_before:
            self._send(session, outcome)
        else:
            self._wait(session, [request_id])

    def ask(self, session: Session, request_ids: list[bytes]) -> None:
        """Take what a delegator waits for; an outcome that is on its way to it already may be told twice.

        Raises:
            TooMuch: it waits for too much.
        """
        ledger, later, claimed = self._state.ledger, list[bytes](), list[bytes]()
        for request_id in dict.fromkeys(request_ids):
            entry = ledger.get(request_id)
            if entry is not None and self._is_for(session, entry) and not self._is_taken_from_another(session, entry):
                claimed += self._take(session, entry)
            else:
                later.append(request_id)
        self._note_claimed(session, claimed)
        if later:
            self._wait(session, later)

    def _wait(self, session: Session, request_ids: list[bytes]) -> None:
        self.job.wake()
        waiting = self.asked.setdefault(session, deque())
        if len(waiting) + len(request_ids) > MOST_AWAITED:
            raise TooMuch(
                f"The node waits for {len(waiting):,} outcomes that it asked for again; {MOST_AWAITED:,} is the most."
            )
        if len(waiting) + len(request_ids) > _IN_ANY_CASE:
            check_room(session, self._state.memory, _WAITING * len(request_ids))
        self._recount(session, len(waiting), len(waiting) + len(request_ids))
        waiting.extend(request_ids)

    def _recount(self, session: Session, before: int, after: int) -> None:
        """Count the memory of what waits of a node, but for what may wait in any case, which must not take others' room."""
        more = max(0, after - _IN_ANY_CASE) - max(0, before - _IN_ANY_CASE)
        self._state.memory.add(session.account, _WAITING * more)

    def _serve(self) -> float:
        """Give out the next of them, as soon as it is in the journal."""
        if self._state.durable <= self._until or self._state.journal.trouble is not None:
            self.job.pause()
            return inf
        if self.asked and self._state.now >= self._not_before:
            self._serve_first()
        return self._not_before if self.asked else inf

    def _serve_first(self) -> None:
        """Give out what is next; what a session asked for that was lost since stays where it is."""
        session, waiting = next(iter(self.asked.items()))
        if session.lost:
            self._recount(session, len(waiting), 0)
            del self.asked[session]
            return
        share = [waiting.popleft() for _ in range(min(LOOK_UPS_PER_STEP, len(waiting)))]
        ended = self._state.ended
        endings = map(ended.get, share)
        self._until = max((ended.forgotten_to if ending is None else ending.number for ending in endings), default=0)
        left = share if self._state.durable <= self._until else self._give(session, share)
        before = len(waiting) + len(share)
        waiting.extendleft(reversed(left))
        self._recount(session, before, len(waiting))
        del self.asked[session]
        if waiting:
            self.asked[session] = waiting  # behind the others

    def _give(self, session: Session, request_ids: list[bytes]) -> list[bytes]:
        """Give a delegator that is back the outcomes that it missed; returns those for which the journal cannot be read now."""
        refusals = self._state.session_table.refusals
        collected: list[bytes] = []
        claimed: list[bytes] = []
        left = deque(request_ids)
        while left and self._state.now >= self._not_before:
            request_id = left[0]
            try:
                if (entry := self._state.ledger.get(request_id)) is not None:
                    claimed += self._claim(session, entry)
                elif self._look_up(session, request_id):
                    collected.append(request_id)
            except JournalUnavailable as error:
                self._not_before = self._state.now + _RETRY
                refusals.note(session.node, error.code, error)
                break
            except JournalCorrupt as error:
                refusals.note(session.node, error.code, error)
                self._tell_failed(session, request_id, error.code, f"{_UNREAD} {error}")
            left.popleft()
        if collected:
            self._state.event("outcomes_collected", outcomes=collected)
        self._note_claimed(session, claimed)
        return list(left)

    def go_on(self, session: Session, entry: Entry) -> None:
        """Let the outcome of what is still open go to who asks for it last.

        Who may not have it is told so, as is another process that has asked for it before: it waits no more.
        """
        self._note_claimed(session, self._claim(session, entry))

    def _claim(self, session: Session, entry: Entry) -> list[bytes]:
        """As `go_on`; returns its id, if the process is another than before."""
        if not self._is_for(session, entry):
            self._tell_failed(session, entry.request_id, "delegator_gone", _GONE)
            return []
        if self._is_taken_from_another(session, entry):
            self._tell_failed(entry.asking_session, entry.request_id, "delegator_gone", _TAKEN, payer=session)
        return self._take(session, entry)

    def _take(self, session: Session, entry: Entry) -> list[bytes]:
        is_another = session.life != entry.asked_from
        entry.asking_session, entry.asked_from = session, session.life
        self.on_back(entry)
        return [entry.request_id] if is_another else []

    def _is_for(self, session: Session, entry: Entry) -> bool:
        """Whether a process may have the outcome of what is open: it asked for it last, or has the delegator."""
        return session.life == entry.asked_from or self._has(session, entry.source)

    @staticmethod
    def _is_taken_from_another(session: Session, entry: Entry) -> bool:
        """Whether another process that is in waits for it: it has to be told."""
        return session.life != entry.asked_from and not entry.asking_session.lost

    def _note_claimed(self, session: Session, claimed: list[bytes]) -> None:
        node, digest = session.life
        for start in range(0, len(claimed), _TOLD):
            outcomes = claimed[start : start + _TOLD]
            self._state.event("outcomes_claimed", node=node, incarnation=digest, outcomes=outcomes)

    def _look_up(self, session: Session, request_id: bytes) -> bool:
        """Send an outcome from before this session to whom it is for (G6), or say that there is none.

        Returns:
            Whether it was kept for that delegator until now.
        """
        state = self._state
        if state.journal.identity:
            self._count(session, _LOOK)
        outcome = state.outcome(request_id)
        ending = state.ended.get(request_id)
        is_its_own = ending is not None and session.life == ending.asked_from
        if outcome is not None and (is_its_own or self._has(session, read_header(outcome).target)):
            self._send(session, outcome)
            if request_id in state.ended.uncollected:
                state.ended.collected(request_id)
                return True
            return False
        if outcome is not None and not state.was_rejected_aside(request_id, outcome):
            code, message = "delegator_gone", _GONE
        elif request_id in state.ended or state.may_be_removed(request_id):
            code, message = "outcome_removed", _REMOVED
        else:
            code, message = "broker_lost", _LOST
        self._tell_failed(session, request_id, code, message)
        return False

    def _tell_failed(
        self, session: Session, request_id: bytes, code: str, message: str, *, payer: Session | None = None
    ) -> None:  # fmt: skip
        (payer or session).input.spend(ANSWER)
        self._state.tell(session, request_id, Status.FAILED_EXECUTION, ErrorInfo(code=code, message=message))

    def _has(self, session: Session, delegator: bytes) -> bool:
        """Whether a process has an agent, as far as the bus knows."""
        agent = self._state.registry.get(delegator)
        return agent is not None and session.life == agent.session.life

    def _send(self, session: Session, outcome: bytes) -> None:
        self._count(session, len(outcome))
        self._state.session_table.send(session, outcome)

    def _count(self, session: Session, size: int) -> None:
        self._not_before = max(self._not_before, self._state.now - _BURST / _RATE) + size / _RATE
        session.input.spend(size >> AGAIN_SHIFT)

    def is_on_its_way(self, request_id: bytes, delegator: bytes, payer: Session) -> bool:
        """Whether a delegator that is in has not acknowledged an outcome that it was sent; another pays for the look."""
        agent = self._state.registry.get(delegator)
        if agent is None:
            return False
        under_way = self._under_way(agent.session)
        payer.input.spend(len(under_way) >> _READ_SHIFT)
        return any(envelope[0] == Kind.RESPONSE and envelope.startswith(request_id, 16) for envelope in under_way)

    def keep_unread(self, session: Session) -> None:
        """Keep the outcomes that a lost node may not have got, until its agents ask for them; it waits for nothing more."""
        state = self._state
        self._recount(session, len(self.asked.pop(session, ())), 0)
        kept: list[tuple[bytes, bytes]] = []
        for header, envelope in self._unread(session):
            request_id, source = header.request_id, header.target
            entry, ending = state.ledger.get(request_id), state.ended.get(request_id)
            kept_for = source if ending is None else ending.source
            kept_for = state.ended.uncollected.get(request_id, (kept_for,))[0]
            if entry is not None or kept_for != source:
                continue  # what it was told of another's request is not that one's outcome
            is_stored = bool(state.journal.identity) and ending is not None
            state.ended.keep(request_id, source, b"" if is_stored else envelope)
            kept.append((request_id, source))
        for start in range(0, len(kept), _TOLD):
            state.event("outcomes_unread", outcomes=kept[start : start + _TOLD])

    def _unread(self, session: Session) -> list[tuple[Header, bytes]]:
        """The outcomes on their way to a node, but for what `BrokerState.tell` said outside the journal: that is said again."""
        under_way = self._under_way(session)
        found = ((read_header(envelope), envelope) for envelope in under_way if envelope[0] == Kind.RESPONSE)
        return [(header, envelope) for header, envelope in found if header.target and header.status not in INTERIM]

    def _under_way(self, session: Session) -> tuple[bytes, ...]:
        return (*session.unacknowledged(), *self._state.session_table.uncommitted(session))
