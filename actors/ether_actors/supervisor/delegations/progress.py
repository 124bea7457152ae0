"""The progress of running work, bounded: what was not sent in time is folded into the newest, and counted. Sans-IO.

    PROGRESS ── within its bounds ──► delegator, observers, journal
             ── beyond them ────────► waits; the next one takes its place ── in its time, or before the outcome ──► as above
                                      for its time, or in line for room: of the node that says it, or that hears it

Whatever a specialist says, memory and journal hold a bounded part of it: each delegation passes `RATE` points a second, and
what is on its way is bounded for each owner of nodes that say it and for each node that hears it. Order is kept: of one
delegation only the newest ever waits, and it goes before the outcome. What waits for room is looked at when there is some, and
not before; a step looks at a share of it, and of what waits for its time.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from heapq import heappop, heappush
from math import inf
from typing import Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_actors.supervisor.state.ledger import Entry, State
from ether_actors.supervisor.state.progress_limiter import BURST, RATE, ProgressLimiter
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.cost import WAITED
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header, Kind, folded_of, pack_envelope, read_header, rehead

__all__ = ["PASSED_ON_PER_STEP", "UNCOMMITTED", "UNHEARD", "WAITING", "Progress"]

UNCOMMITTED: Final = 512 << 10
"""Bytes of one owner's progress that may be uncommitted."""
UNHEARD: Final = 16 << 20
"""Bytes under way to a delegator's node above which it is told no more progress for a while."""
WAITING: Final = 4 << 20
"""Bytes of progress of one node that may wait; what has no room is dropped, and counted as folded."""
PASSED_ON_PER_STEP: Final = 128
"""Delegations that one step looks at because their time has come, and as many because there is room for what they tell."""
_TURN: Final = 16
"""Of them those of one line, after which another has its turn."""
_4_KIB: Final = 12
_MOST_FOLDED: Final = 1 << 20
"""A node that says it has folded so many into one is not believed."""

_Place = Session | Account
"""Of a line, who must have room: the node that receives, or the owner of the one that sends."""
_Line = OrderedDict[Entry, None]
"""Delegations of which something waits for room, the first in line first."""


class Progress:
    """The part of the supervisor that sends the progress of work on to its delegators and observers."""

    def __init__(self, state: BrokerState, delivery: Delivery) -> None:
        self._state = state
        self._delivery = delivery
        self.timed: list[tuple[float, int, Entry]] = []
        """(when to look at it, order, delegation of which something waits), as a heap."""
        self._order = itertools.count()
        self._speaking: dict[Account, _Line] = {}
        """What waits for room for what the nodes of an owner say."""
        self._listening: dict[Session, _Line] = {}
        """What waits for room for what a node hears."""
        self.going: OrderedDict[_Place, None] = OrderedDict()
        """The lines for which there is room, which is next first."""
        self.uncommitted: deque[tuple[int, Account, int]] = deque()
        """(number in the journal, owner of the node that said it, bytes) of what was passed on and need not be written yet."""
        self._was_behind = False
        """Whether something may wait because the journal was behind."""
        self.job: Job = Job(state.schedule, self._due)
        state.session_table.backlog.on_freed = self._freed

    def take(self, entry: Entry, status: Status, envelope: bytes) -> None:
        """Pass on ACCEPTED or PROGRESS, at once or when there is room, and by then perhaps folded into a newer one."""
        progress = entry.progress
        if progress is None:
            progress = entry.progress = ProgressLimiter(entry.agent.session, entry.attempt, self._state.now)
        elif progress.attempt != entry.attempt:
            self._fold(progress)
            progress.session, progress.attempt, progress.folded = entry.agent.session, entry.attempt, 0
        is_first = entry.state is not State.RUNNING
        self._state.ledger.advance(entry, State.RUNNING)
        if not progress.envelope and self._may_pass(entry, progress):
            self._pass(entry, progress, envelope)
            return
        if is_first:  # the journal and the delegator are to know that it runs
            self._pass(entry, progress, _accepted(entry))
        if status is not Status.ACCEPTED:  # that says nothing more
            self._hold(entry, progress, envelope)

    def flush(self, entry: Entry) -> None:
        """Pass on what waits, as its delegation ends with the specialist's word."""
        progress = entry.progress
        if progress is not None and (progress.is_due or progress.envelope):
            if progress.envelope and progress.attempt == entry.attempt:
                self._release(entry, progress)
            progress.forget(entry)

    def look_again(self, entry: Entry) -> None:
        """Move waiting progress to the delegator's present node."""
        progress = entry.progress
        if progress is not None and progress.line is not None:
            del progress.line[entry]
            progress.line = None
            self._wait(entry, progress)

    def _freed(self, session: Session) -> None:
        """Note that a receiving node has room again, or that it is not expected back any more."""
        if session in self._listening:
            self._stand(session)

    def _due(self) -> float:
        """Pass on a share of what has waited for its time, and of what has waited for room that there is now."""
        uncommitted, state, lines = self.uncommitted, self._state, self._speaking
        while uncommitted and uncommitted[0][0] < state.durable:
            _, account, size = uncommitted.popleft()
            account.progress -= size
            if account in lines and account.progress < UNCOMMITTED:
                self.going[account] = None
        if self._was_behind and not state.is_behind:
            self._was_behind = False
            self.going.update(dict.fromkeys(lines))
        left = PASSED_ON_PER_STEP
        while self.timed and self.timed[0][0] <= state.now and left > 0:
            left -= 1
            self._look(heappop(self.timed)[2])
        left = PASSED_ON_PER_STEP
        while self.going and left > 0:
            left -= self._go_on(self.going.popitem(last=False)[0], min(_TURN, left))
        if lines:
            self.job.pause()
        elif uncommitted:
            self.job.defer()
        if self.going:
            return 0.0
        return self.timed[0][0] if self.timed else inf

    def _go_on(self, place: _Place, most: int) -> int:
        """Look at the first in a line while there is room; returns at how many, or 1 if there was none."""
        line, done = self._line(place), 0
        while line and done < most and self._has_room(place):
            entry = line.popitem(last=False)[0]
            assert entry.progress is not None
            entry.progress.line = None
            self._look(entry)
            done += 1
        if line:
            self._stand(place)
        else:
            if isinstance(place, Account):
                del self._speaking[place]
            else:
                del self._listening[place]
            self.going.pop(place, None)
        return done or 1

    def _line(self, place: _Place) -> _Line:
        if isinstance(place, Account):
            return self._speaking.setdefault(place, OrderedDict())
        return self._listening.setdefault(place, OrderedDict())

    def _look(self, entry: Entry) -> None:
        progress = entry.progress
        assert progress is not None
        progress.is_due = False
        progress.session.input.spend(WAITED)
        if entry.state is not State.RUNNING:
            self._fold(progress)
        elif progress.envelope and self._may_pass(entry, progress):
            self._release(entry, progress)
        elif progress.envelope:
            self._wait(entry, progress)

    def _has_room(self, place: _Place) -> bool:
        if isinstance(place, Session):
            return not place.is_expected and (
                place.outbox_bytes + place.channel.retained_bytes < UNHEARD or bool(place.lost)
            )
        if self._state.is_behind:
            self._was_behind = True
            return False
        return place.progress < UNCOMMITTED

    def _may_pass(self, entry: Entry, progress: ProgressLimiter) -> bool:
        now = self._state.now
        progress.left = min(float(BURST), progress.left + (now - progress.at) * RATE)
        progress.at = now
        return progress.left > 0 and self._has_room(progress.session.account) and self._has_room(entry.asking_session)

    def _pass(self, entry: Entry, progress: ProgressLimiter, envelope: bytes) -> None:
        state, session, size = self._state, progress.session, len(envelope)
        header = read_header(envelope)
        folded = progress.folded + _folded_before(header)
        if header.deadline != folded:
            envelope = rehead(header, envelope, deadline=float(folded))
        progress.folded = 0
        progress.left -= 1 + (size >> _4_KIB)
        self.uncommitted.append((state.tap.next + len(state.passing), session.account, size))
        session.account.progress += size
        self.job.defer()
        self._delivery.forward(entry, envelope)
        state.pass_on(session, envelope)

    def _hold(self, entry: Entry, progress: ProgressLimiter, envelope: bytes) -> None:
        """Let it wait in the place of what waits."""
        self._fold(progress)
        progress.session.progress_waiting += len(envelope)
        progress.envelope = envelope
        if progress.session.progress_waiting > WAITING:
            self._fold(progress)
        elif not progress.is_due:
            self._wait(entry, progress)

    def _fold(self, progress: ProgressLimiter) -> None:
        """Drop what waits, if anything does: it counts as a part of what comes next."""
        if not progress.envelope:
            return
        progress.session.progress_waiting -= len(progress.envelope)
        progress.folded += 1 + _folded_before(read_header(progress.envelope))
        progress.envelope = b""
        self._state.session_table.refusals.note(
            progress.session.node,
            "progress_folded",
            "its progress comes faster than it is passed on; of each delegation the newest is delivered",
        )

    def _release(self, entry: Entry, progress: ProgressLimiter) -> None:
        envelope, progress.envelope = progress.envelope, b""
        progress.session.progress_waiting -= len(envelope)
        self._pass(entry, progress, envelope)

    def _wait(self, entry: Entry, progress: ProgressLimiter) -> None:
        """Have it looked at again: in its time, or when the node for which it waits has room, or is back, or given up."""
        progress.is_due = True
        if progress.left <= 0:
            at = self._state.now + (1.0 - progress.left) / RATE
            heappush(self.timed, (at, next(self._order), entry))
            self.job.wake(at)
            return
        listener, speaker = entry.asking_session, progress.session.account
        place: _Place = listener if listener.is_expected or self._has_room(speaker) else speaker
        line = self._line(place)
        if not line:
            self._stand(place)
        line[entry] = None
        progress.line = line

    def _stand(self, place: _Place) -> None:
        """Have a line go on with the next step if there is room, and else when there is."""
        if self._has_room(place):
            self.going[place] = None
            self.job.wake()
        elif isinstance(place, Account):
            self.job.pause()
        elif not place.is_expected:
            self._state.session_table.backlog.awaited[place] = UNHEARD


def _folded_before(header: Header) -> int:
    """How many its node folded into a PROGRESS, as that says, while its link was full."""
    folded = folded_of(header)
    return folded if folded < _MOST_FOLDED else 0


def _accepted(entry: Entry) -> bytes:
    """ACCEPTED, and no more."""
    return pack_envelope(
        Kind.RESPONSE, status=Status.ACCEPTED, request_id=entry.request_id, source=entry.agent.name, target=entry.source,
        capability=entry.capability, attempt=entry.attempt, body=pack({}),
    )  # fmt: skip
