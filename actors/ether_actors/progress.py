"""How much is told of work that goes on: what is over is folded into the newest, and how much that was is told. Sans-IO.

    PROGRESS ── within its bounds ──► delegator, observers, journal
             ── beyond them ────────► waits; the next one takes its place ── in its time, or before the outcome ──► as above

Whatever a specialist says, memory and journal hold a bounded part of it: each delegation passes `RATE` points a second, and
what is on its way is bounded for each node that says it and for each that hears it. Order is kept: of one delegation only the
newest ever waits, and it goes before the outcome.
"""

from __future__ import annotations

import itertools
from collections import deque
from heapq import heappop, heappush
from typing import Final

from ether_actors.delivery import Delivery
from ether_actors.ledger import Entry, State
from ether_actors.records import Records
from ether_actors.telling import BURST, RATE, Telling
from ether_broker.payload import pack
from ether_broker.router import Session
from ether_broker.status import Status
from ether_broker.wire import Kind, pack_envelope, read_header, rehead

__all__ = ["UNHEARD", "UNSETTLED", "WAITING", "Progress"]

UNSETTLED: Final = 4 << 20
"""Bytes of progress that one node may have said and the journal not have yet."""
UNHEARD: Final = 16 << 20
"""Bytes under way to a delegator's node above which it is told no more progress for a while."""
WAITING: Final = 4 << 20
"""Bytes of progress of one node that may wait; what has no room is dropped, and counted as folded."""
_AGAIN: Final = 0.25
_4_KIB: Final = 12


class Progress:
    """Passes on that work goes on."""

    def __init__(self, records: Records, delivery: Delivery) -> None:
        self._records = records
        self._delivery = delivery
        self.timed: list[tuple[float, int, Entry]] = []
        """(when to look at it, order, delegation of which something waits), as a heap."""
        self._order = itertools.count()
        self.unsettled: deque[tuple[int, Session, int]] = deque()
        """(number in the journal, whose node said it, bytes) of what was passed on and need not be in the journal yet."""

    def take(self, entry: Entry, status: Status, envelope: bytes) -> None:
        """Pass on ACCEPTED or PROGRESS, at once or when there is room, and by then perhaps folded into a newer one."""
        telling = entry.progress
        if telling is None:
            telling = entry.progress = Telling(entry.agent.session, entry.attempt, self._records.now)
        elif telling.attempt != entry.attempt:
            self._fold(telling)
            telling.session, telling.attempt, telling.folded = entry.agent.session, entry.attempt, 0
        is_first = entry.state is not State.RUNNING
        self._records.ledger.advance(entry, State.RUNNING)
        if not telling.envelope and self._may_pass(entry, telling):
            self._pass(entry, telling, envelope)
            return
        if is_first:  # the journal and the delegator are to know that it runs
            self._pass(entry, telling, _accepted(entry))
        if status is not Status.ACCEPTED:  # that says nothing more
            self._hold(entry, telling, envelope)

    def flush(self, entry: Entry) -> None:
        """Pass on what waits, as its delegation ends with the specialist's word."""
        telling = entry.progress
        if telling is not None and telling.envelope and telling.attempt == entry.attempt:
            self._release(entry, telling)

    def due(self) -> None:
        """Pass on what has waited for its time."""
        unsettled, records = self.unsettled, self._records
        while unsettled and unsettled[0][0] < records.durable:
            _, session, size = unsettled.popleft()
            session.progress_unsettled -= size
        while self.timed and self.timed[0][0] <= records.now:
            entry = heappop(self.timed)[2]
            telling = entry.progress
            assert telling is not None
            telling.is_due = False
            if entry.state is not State.RUNNING:
                self._fold(telling)
            elif telling.envelope and self._may_pass(entry, telling):
                self._release(entry, telling)
            elif telling.envelope:
                self._look_again(entry, telling)

    def _may_pass(self, entry: Entry, telling: Telling) -> bool:
        now, hears = self._records.now, entry.asking_session
        telling.left = min(float(BURST), telling.left + (now - telling.at) * RATE)
        telling.at = now
        return (
            telling.left > 0
            and telling.session.progress_unsettled < UNSETTLED
            and hears.outbox_bytes + hears.channel.retained_bytes < UNHEARD
        )

    def _pass(self, entry: Entry, telling: Telling, envelope: bytes) -> None:
        records, session, size = self._records, telling.session, len(envelope)
        header = read_header(envelope)
        if header.deadline != telling.folded:
            envelope = rehead(header, envelope, deadline=float(telling.folded))
        telling.folded = 0
        telling.left -= 1 + (size >> _4_KIB)
        self.unsettled.append((records.tap.next + len(records.passing), session, size))
        session.progress_unsettled += size
        self._delivery.forward(entry, envelope)
        records.passing.append(envelope)

    def _hold(self, entry: Entry, telling: Telling, envelope: bytes) -> None:
        """Let it wait in the place of what waits."""
        self._fold(telling)
        telling.session.progress_waiting += len(envelope)
        telling.envelope = envelope
        if telling.session.progress_waiting > WAITING:
            self._fold(telling)
        elif not telling.is_due:
            self._look_again(entry, telling)

    def _fold(self, telling: Telling) -> None:
        """Drop what waits, if anything does: it counts as a part of what comes next."""
        if not telling.envelope:
            return
        telling.session.progress_waiting -= len(telling.envelope)
        telling.envelope = b""
        telling.folded += 1
        self._records.router.refusals.note(telling.session.node, "progress_folded", "it tells more than is passed on")

    def _release(self, entry: Entry, telling: Telling) -> None:
        envelope, telling.envelope = telling.envelope, b""
        telling.session.progress_waiting -= len(envelope)
        self._pass(entry, telling, envelope)

    def _look_again(self, entry: Entry, telling: Telling) -> None:
        telling.is_due = True
        wait = (1.0 - telling.left) / RATE if telling.left <= 0 else _AGAIN
        heappush(self.timed, (self._records.now + wait, next(self._order), entry))


def _accepted(entry: Entry) -> bytes:
    """ACCEPTED, and no more."""
    return pack_envelope(
        Kind.RESPONSE, status=Status.ACCEPTED, request_id=entry.request_id, source=entry.agent.name, target=entry.source,
        capability=entry.capability, attempt=entry.attempt, body=pack({}),
    )  # fmt: skip
