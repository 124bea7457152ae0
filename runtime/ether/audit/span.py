"""A delegation with its sub-delegations and timings, put together from the entries of a journal.

What a span tells of time:

    begin ─────────────┬───────── … ─────────┬──────────────────┬───────── end
          accepted     │  an attempt that    │  queued          │  run
                       │  was lost with its  │  waiting, and    │  in the handler, as the
                       │  node, and again    │  under way       │  specialist told it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ether.audit.entry import AuditEntry
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.status import Status
from ether_broker.text import one_line
from ether_broker.wire.frame import Kind

__all__ = ["Attempt", "Moment", "Span", "grow"]

_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Moment:
    """One point in time by both clocks that a journal knows."""

    clock: float
    """Seconds by the broker's clock, which never goes back in one life of its machine."""
    wall: float
    """Seconds since 1970 in UTC."""

    @classmethod
    def of(cls, entry: AuditEntry) -> Moment:
        """When an entry passed."""
        return cls(entry.time, entry.wall)

    def since(self, other: Moment) -> float:
        """Seconds between two, by the broker's clock; by the wall's if the machine was restarted between them."""
        lapse = self.clock - other.clock
        return lapse if lapse >= 0.0 else max(0.0, self.wall - other.wall)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run, or what was to be one."""

    number: int
    """From 1."""
    agent: str
    begin: Moment
    """When it was accepted, or given to another."""


@dataclass(slots=True, eq=False)
class Span:
    """A delegation as a journal shows it, from the entry that accepted it to its outcome."""

    entry: AuditEntry
    """Its DELEGATION."""
    horizon: Moment
    """The journal's last word: how far an open one can be followed."""
    attempts: list[Attempt] = field(default_factory=list)
    sign: AuditEntry | None = None
    """The first ACCEPTED or PROGRESS of the last attempt."""
    outcome: AuditEntry | None = None
    """Its one terminal response; None while it is open."""
    signs: int = 0
    """Of life: ACCEPTED and PROGRESS."""
    letters: list[AuditEntry] = field(default_factory=list)
    """Dead letters about it."""
    children: list[Span] = field(default_factory=list)
    """The delegations that its handler made, as they were accepted."""

    def __post_init__(self) -> None:
        self.attempts.append(Attempt(self.entry.header.attempt, self.entry.to_agent, self.begin))

    @property
    def begin(self) -> Moment:
        """When it was accepted, or refused."""
        return Moment.of(self.entry)

    @property
    def end(self) -> Moment:
        """When it ended; the journal's last word for one that is open."""
        return self.horizon if self.outcome is None else Moment.of(self.outcome)

    @property
    def status(self) -> Status | None:
        """How it ended; None while it is open."""
        return None if self.outcome is None else self.outcome.status

    @property
    def state(self) -> str:
        """The status by name; of an open one RUNNING if it has shown signs of life, else OPEN."""
        if self.status is not None:
            return self.status.name
        return "OPEN" if self.sign is None else "RUNNING"

    @property
    def agent(self) -> str:
        """The specialist that it was last given to; "" if nobody was found."""
        return self.attempts[-1].agent

    @property
    def duration(self) -> float:
        """Seconds from acceptance to outcome, or to the journal's last word."""
        return self.end.since(self.begin)

    @property
    def lost(self) -> float:
        """Seconds of earlier attempts, until it was given to another."""
        return self.attempts[-1].begin.since(self.begin)

    @property
    def run(self) -> float | None:
        """Seconds in the handler, as the specialist told it.

        Of one that the supervisor ended, or that is open, the seconds since its first sign of life: it ran for so long
        at least. None where nothing tells.
        """
        elapsed = None if self.outcome is None else self.outcome.body.get("elapsed")
        if elapsed is not None:
            return min(float(elapsed), self.duration - self.lost)
        return None if self.sign is None else self.end.since(Moment.of(self.sign))

    @property
    def queued(self) -> float | None:
        """Seconds of the last attempt that are not its run: in the mailbox, on the wire, in the inbox.

        All of it for one that was refused or expired before it was started; None where nothing tells.
        """
        current = self.duration - self.lost
        run = self.run
        if run is not None:
            return max(0.0, current - run)
        return current if self.was_not_started else None

    @property
    def was_not_started(self) -> bool:
        """Whether it ended before any work."""
        return self.status is not None and (self.status.is_rejection or self.error.get("code") == "expired")

    @property
    def error(self) -> dict[str, Any]:
        """Why it failed or was refused; empty if it was not."""
        return {} if self.outcome is None else self.outcome.body.get("error") or {}

    @property
    def retries(self) -> int:
        """Runs after the first: the bus's, and those that the specialist told of (`metadata.retries`)."""
        told = {} if self.outcome is None else self.outcome.body.get("metadata") or {}
        own = told.get("retries", 0)
        return self.attempts[-1].number - 1 + (own if isinstance(own, int) and own > 0 else 0)

    def take(self, entry: AuditEntry) -> None:
        """Take in an entry about it; entries come in the order of their numbers."""
        match entry.header.kind:
            case Kind.RESPONSE:
                self._answered(entry)
            case Kind.EVENT if entry.event_name == "reassigned":
                body = entry.body
                said = body.get("attempt")
                number = said if isinstance(said, int) else self.attempts[-1].number
                self.attempts.append(Attempt(number, str(body.get("agent", "")), Moment.of(entry)))
                self.sign = None
            case Kind.EVENT if entry.event_name == "dead_letter":
                self.letters.append(entry)

    def _answered(self, entry: AuditEntry) -> None:
        if entry.status is None or self.outcome is not None:
            return
        if entry.header.attempt > self.attempts[-1].number:
            self.attempts.append(self._unannounced(entry))
            self.sign = None
        if entry.status.is_terminal:
            self.outcome = entry
            return
        self.signs += 1
        self.sign = self.sign or entry

    def _unannounced(self, entry: AuditEntry) -> Attempt:
        """An attempt that the journal first tells of by its response: it began before that, and nobody says when."""
        agent = self.agent if entry.from_agent == SUPERVISOR else entry.from_agent
        elapsed = float(entry.body.get("elapsed") or 0.0)
        begin = Moment(entry.time - elapsed, entry.wall - elapsed)
        return Attempt(entry.header.attempt, agent, begin)

    def walk(self) -> Iterator[Span]:
        """Itself and all below it, each before its children."""
        waiting = [self]
        while waiting:
            span = waiting.pop()
            yield span
            waiting.extend(reversed(span.children))

    def row(self) -> dict[str, Any]:
        """Its fields for JSON, without the children."""
        header = self.entry.header
        return {
            "request_id": self.entry.request_id,
            "parent": None if header.parent == NO_ID else to_text(header.parent),
            "number": self.entry.number,
            "outcome": None if self.outcome is None else self.outcome.number,
            "capability": self.entry.capability,
            "from_agent": self.entry.from_agent or None,
            "agent": self.agent or None,
            "state": self.state,
            "status": None if self.status is None else self.status.name,
            "error": self.error.get("code"),
            "summary": "" if self.outcome is None else self.outcome.summary,
            "begin": self.begin.wall,
            "end": None if self.outcome is None else self.end.wall,
            "duration": self.duration,
            "queued": self.queued,
            "run": self.run,
            "attempt": self.attempts[-1].number,
            "retries": self.retries,
            "attempts": [
                {"attempt": attempt.number, "agent": attempt.agent or None, "begin": attempt.begin.wall}
                for attempt in self.attempts
            ],
            "signs": self.signs,
            "dead_letters": [
                {
                    "number": letter.number,
                    "reason": letter.body.get("reason"),
                    "detail": one_line(str(letter.body.get("detail", "")), _MOST),
                }
                for letter in self.letters
            ],
        }


def grow(root: bytes, entries: Iterable[AuditEntry], horizon: Moment) -> Span | None:
    """Put a delegation and all below it together.

    Args:
        root: request id of the uppermost.
        entries: in the order of their numbers; those about others are left out.
        horizon: the journal's last word.

    Returns:
        None if the entries do not have the delegation itself.
    """
    spans: dict[bytes, Span] = {}
    for entry in entries:
        about = entry.about
        if about is None:
            continue
        span = spans.get(about)
        if span is not None:
            span.take(entry)
        elif entry.header.kind == Kind.DELEGATION and (about == root or entry.header.parent in spans):
            spans[about] = Span(entry, horizon)
            if about != root:
                spans[entry.header.parent].children.append(spans[about])
    return spans.get(root)
