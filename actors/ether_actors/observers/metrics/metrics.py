"""The metrics observer: how the agents of a bus do, over all and in sliding windows."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ether_actors.observers.metrics.counters import Counters
from ether_actors.observers.metrics.open_delegations import OpenDelegation, OpenDelegations
from ether_actors.observers.metrics.prometheus import BOUNDS, exposition
from ether_actors.observers.metrics.rates_and_means import Figures
from ether_actors.observers.metrics.sliding_window import Count, SlidingWindow
from ether_actors.observers.metrics.snapshot import (
    NOBODY,
    OTHER,
    MetricsStatistics,
    PairTotals,
    WindowStatistics,
    window_name,
)
from ether_actors.observers.observer import Observation, Observer
from ether_broker.clock import Clock, SystemClock
from ether_broker.envelope.ids import to_bytes
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, InvalidSpec

__all__ = ["Metrics"]

_STEPS: Final = 12
"""Slots of the shortest window."""
_MOST_SLOTS: Final = 1_000
_HOUR: Final = 3_600.0
_MONTH: Final = 30 * 24 * _HOUR
_ADMINISTRATION: Final = f"{SUPERVISOR}."
_SUPERVISOR: Final = SUPERVISOR.encode()
_MOST_EVENTS: Final = 50
_SUGGESTIONS: Final = 10_000
"""Suggestions that are known again by their ids, the newest."""
_Pair = tuple[str, str]


class Metrics(Observer):
    """An observer that counts what becomes of delegations: the metrics of spec 2 §12 and of spec 3.

    They are kept for each agent, for each capability, and for all together.

        metrics = bus.observe(Metrics())
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        assert metrics.snapshot().windows["60"].overall.delegation_success_rate == 1.0
        assert json.loads(metrics.to_json())["seen"] > 0
        assert "# TYPE" in metrics.to_prometheus()

    `DEFINITIONS` and `Figures` say what each metric means. A delegation counts when and where its outcome passed: for the
    specialist that answered, or, when the supervisor ruled, for the agent that the delegation was last seen to be given to.
    Delegations to the bus itself (`ether.*`) are not counted.

    Windows go by the times that the broker gave the messages, so the same messages always give the same figures. Between
    two messages, and after the last, time goes on by `clock`.

    Every method may be called from any thread. Memory is bounded: by `limit` pairs of agent and capability, each with one
    record for each slot of the longest window in which it was active. With the defaults these are some 50 MB when every
    pair is busy all the time, and a few hundred kilobytes for ten agents.

    Args:
        windows: their lengths in seconds. Each has to be a multiple of a twelfth of the shortest: time is cut into such
            slots. What happened since the beginning, the window `all`, is always there.
        limit: pairs of an agent and a capability that are kept apart, those that the supervisor alone told of (such as
            capabilities that nobody has) counted apart from those that a specialist answered for. All others are `(other)`.
        clock: where the time since the last message is read.

    Raises:
        InvalidSpec: a window or limit that cannot be.
    """

    def __init__(
        self, windows: Sequence[float] = (60.0, 300.0), *, limit: int = 200, clock: Clock | None = None
    ) -> None:
        self._windows = _checked(windows)
        if limit < 1:
            msg = f"limit={limit}: keep at least one pair of agent and capability apart."
            raise InvalidSpec(msg)
        self._step = self._windows[0] / _STEPS if self._windows else 60.0
        self._slots = round(self._windows[-1] / self._step) if self._windows else 1
        self._limit = limit
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._pairs: dict[_Pair, SlidingWindow[Counters]] = {}
        self._admitted = Counter[bool]()
        self._open = OpenDelegations()
        self._messages = Counter[str]()
        self._events = Counter[str]()
        self._dead_letters = Counter[str]()
        self._suggested: dict[str, None] = {}
        self._suggestions = SlidingWindow(Count, _HOUR, round(_MONTH / _HOUR))
        self._gaps = SlidingWindow(Count, self._step, self._slots)
        self._gap = 0
        self._unmatched = 0
        self._unreadable = 0
        self._began: float | None = None
        self._time = 0.0
        self._read_at = 0.0

    # -- what passes ---------------------------------------------------------------------------------------------

    def on_message(self, observation: Observation) -> None:
        """Count one message."""
        with self._lock:
            self._advance(observation.time)
            super().on_message(observation)

    def on_delegation(self, observation: Observation) -> None:
        """Note that a delegation is under way."""
        self._messages["DELEGATION"] += 1
        if not observation.capability.startswith(_ADMINISTRATION):
            self._open.add(observation.header, observation.time)

    def on_response(self, observation: Observation) -> None:
        """Count an outcome, or a sign of life."""
        header = observation.header
        status = Status.of_code(header.status)
        self._messages["OUTCOME" if status.is_terminal else status.name] += 1
        opened = self._open.get(header.request_id)
        capability = opened.capability.decode(errors="replace") if opened else observation.capability
        if opened is None and capability.startswith(_ADMINISTRATION):
            return
        is_ruling = header.source == _SUPERVISOR
        agent = _target(opened) if is_ruling else observation.from_agent
        counters = self._pair((agent, capability), is_ruling=is_ruling).at(observation.time)
        if not status.is_terminal:
            counters.progress += status is Status.PROGRESS
            return
        self._open.discard(header.request_id)
        self._unmatched += opened is None
        turnaround = None if opened is None else observation.time - opened.time
        counters.add(status, header.attempt, turnaround, self._read(observation))

    def on_event(self, observation: Observation) -> None:
        """Count an event."""
        self._messages["EVENT"] += 1
        event = observation.event
        name = str(event.get("event"))
        if name not in self._events and len(self._events) >= _MOST_EVENTS:
            name = OTHER
        self._events[name] += 1
        if name == "suggestion":
            self._suggest(str(event.get("suggestion_id")), observation.time)
        elif name == "dead_letter":
            self._dead_letters[str(event.get("reason"))] += 1
        elif name == "reassigned":
            self._open.move(to_bytes(event["request_id"]), event["agent"].encode(), event["capability"].encode())

    def _suggest(self, suggestion: str, time: float) -> None:
        if suggestion in self._suggested:
            return
        self._suggested[suggestion] = None
        if len(self._suggested) > _SUGGESTIONS:
            del self._suggested[next(iter(self._suggested))]
        self._suggestions.at(time).value += 1

    def on_gap(self, first: int, last: int) -> None:
        """Note that messages were missed; they count in the windows as of the next message that is seen."""
        with self._lock:
            self._gap += last - first + 1

    def _advance(self, time: float) -> None:
        if self._began is None:
            self._began = time
        elif time < self._time:  # within one broker time never goes back: this is another one
            self._cut(time)
        self._time = time
        self._read_at = self._clock.monotonic()
        if self._gap:
            self._gaps.at(time).value += self._gap
            self._gap = 0

    def _cut(self, time: float) -> None:
        self._began = time
        self._open.clear()
        self._gaps.archive()
        self._suggestions.archive()
        for sliding in self._pairs.values():
            sliding.archive()

    def _pair(self, pair: _Pair, *, is_ruling: bool) -> SlidingWindow[Counters]:
        found = self._pairs.get(pair)
        if found is None:
            if self._admitted[is_ruling] >= self._limit:
                pair = (OTHER, OTHER)
            else:
                self._admitted[is_ruling] += 1
            found = self._pairs.setdefault(pair, SlidingWindow(Counters, self._step, self._slots))
        return found

    def _read(self, observation: Observation) -> Response | None:
        try:
            return observation.response
        except EtherError:
            self._unreadable += 1
            return None

    # -- what is known -------------------------------------------------------------------------------------------

    def snapshot(self) -> MetricsStatistics:
        """The metrics as of now; a few milliseconds, with 400 busy pairs some tenths of a second."""
        with self._lock:
            now = self._time
            if self._began is not None:
                now += max(0.0, self._clock.monotonic() - self._read_at)
            self._open.sweep(now)
            totals = {pair: sliding.total(now, None) for pair, sliding in sorted(self._pairs.items())}
            windows = {window_name(seconds): self._window(now, seconds) for seconds in self._windows}
            return MetricsStatistics(
                time=now,
                seen=self._messages.total(),
                missed=self._gaps.total(now, None).value + self._gap,
                open=len(self._open),
                outcomes_missed=self._open.dropped,
                delegations_missed=self._unmatched,
                unreadable=self._unreadable,
                gap_suggestion_frequency=self._suggestions_of_a_month(now),
                messages=dict(self._messages),
                events=dict(self._events),
                dead_letters=dict(self._dead_letters),
                pairs=tuple(_totals(pair, counters) for pair, counters in totals.items()),
                windows=windows | {window_name(None): self._scopes(now, None, totals)},
            )

    def _suggestions_of_a_month(self, now: float) -> int | None:
        return None if self._began is None else self._suggestions.total(now, _MONTH).value

    def _window(self, now: float, seconds: float) -> WindowStatistics:
        by_pair = {pair: sliding.total(now, seconds) for pair, sliding in sorted(self._pairs.items())}
        return self._scopes(now, seconds, by_pair)

    def _scopes(self, now: float, seconds: float | None, by_pair: dict[_Pair, Counters]) -> WindowStatistics:
        overall = Counters()
        by_agent: dict[str, Counters] = {}
        by_capability: dict[str, Counters] = {}
        for (agent, capability), counters in by_pair.items():
            if counters.outcomes or counters.progress:
                overall.merge(counters)
                by_agent.setdefault(agent, Counters()).merge(counters)
                by_capability.setdefault(capability, Counters()).merge(counters)
        observed = 0.0 if self._began is None else now - self._began
        return WindowStatistics(
            seconds=seconds,
            covered=observed if seconds is None else min(seconds, observed),
            missed=self._gaps.total(now, seconds).value + self._gap,
            overall=Figures.of(overall),
            by_agent={name: Figures.of(counters) for name, counters in by_agent.items()},
            by_capability={name: Figures.of(counters) for name, counters in by_capability.items()},
        )

    def to_json(self, *, indent: int | None = None) -> str:
        """The metrics as of now as JSON text; `MetricsStatistics` says what is in it."""
        return self.snapshot().to_json(indent=indent)

    def to_prometheus(self) -> str:
        """The metrics as of now in Prometheus's text format 0.0.4."""
        return exposition(self.snapshot())


def _target(opened: OpenDelegation | None) -> str:
    return opened.target.decode(errors="replace") if opened and opened.target else NOBODY


def _totals(pair: _Pair, counters: Counters) -> PairTotals:
    figures = Figures.of(counters)
    return PairTotals(
        agent=pair[0],
        capability=pair[1],
        by_status={status: count for status, count in figures.by_status.items() if count},
        retries=counters.retries,
        unresolved_items=counters.unresolved,
        turnaround_count=figures.turnaround.count,
        turnaround_sum=counters.turnaround_sum,
        turnaround_buckets=tuple(counters.turnarounds.at_most(BOUNDS)),
    )


def _checked(windows: Sequence[float]) -> tuple[float, ...]:
    found = tuple(sorted(set(windows)))
    for seconds in found:
        if not (math.isfinite(seconds) and seconds > 0):
            msg = f"A window of {seconds:g} s cannot be: give a length above 0; the window of all time is always there."
            raise InvalidSpec(msg)
        slots = seconds * _STEPS / found[0]
        if abs(slots - round(slots)) > 1e-6 or slots > _MOST_SLOTS:  # noqa: PLR2004  a rounding error of floats
            nearest = min(max(round(slots), _STEPS), _MOST_SLOTS) * found[0] / _STEPS
            msg = (
                f"A window of {seconds:g} s beside one of {found[0]:g} s cannot be: give a multiple of a twelfth of the "
                f"shortest, at most {_MOST_SLOTS} of them, as in {nearest:g} s."
            )
            raise InvalidSpec(msg)
    return found
