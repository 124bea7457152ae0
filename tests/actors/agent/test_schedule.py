"""Schedules: when each is due next, and what cannot be one."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether import Agent, capability, cron, every, on_event
from ether_actors.agent.declarations.schedule import Schedule, schedule_of
from ether_broker.errors import InvalidManifest, MissingExtra


def schedule(mark: Any) -> Schedule:
    def method() -> None: ...

    found = schedule_of(mark(method))
    assert found is not None
    return found


@given(st.floats(0.1, 1e5), st.floats(0, 1e6), st.lists(st.floats(0, 1e5), max_size=20))
def test_an_interval_keeps_its_grid_and_leaves_out_what_was_not_seen(
    seconds: float, start: float, delays: list[float]
) -> None:
    found = schedule(every(seconds))
    due = found.due(None, start)
    assert due == start + seconds
    for late in delays:
        now = due + late
        following = found.due(due, now)
        assert following > now or following - now > -1e-6 * now, "what fell due meanwhile is left out"
        assert following <= now + seconds * (1 + 1e-9) + 1e-6
        steps = (following - due) / seconds
        assert abs(steps - round(steps)) < 1e-5 * max(1.0, steps)
        due = following


def test_the_first_of_an_interval_is_after_it_or_at_once() -> None:
    assert schedule(every(5.0)).due(None, 100.0) == 105.0
    assert schedule(every(5.0, at_start=True)).due(None, 100.0) == 100.0
    assert schedule(every(5.0)).due(105.0, 3_705.0 + 2.0) == 3_710.0, "late by an hour, it is due once"


@given(st.integers(1_577_836_800, 2_051_222_400), st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]))
def test_a_cron_time_is_the_next_that_fits(now: int, zone: str) -> None:
    found = schedule(cron("30 7 * * MON-FRI", zone=zone))
    due = found.due(None, now)
    there = datetime.fromtimestamp(due, ZoneInfo(zone))

    assert now < due <= now + timedelta(days=4).total_seconds()
    assert (there.hour, there.minute, there.second, there.weekday() < 5) == (7, 30, 0, True)
    assert found.due(due, due - 0.5) > due, "a clock that was set back brings it no second time"
    assert found.due(due, due + 86_400 * 30) > due + 86_400 * 30


_CHANGES = [
    ("Europe/Berlin", 1_792_890_000), ("Europe/Berlin", 1_774_746_000), ("America/New_York", 1_793_512_800),
    ("America/New_York", 1_772_953_200), ("Australia/Lord_Howe", 1_775_314_800), ("America/Havana", 1_793_509_200),
]  # fmt: skip
"""(zone, when its clocks change)."""


def by_the_clock(zone: str, hours: set[int], minutes: set[int], second: int, after: float) -> float:
    """Look at a clock minute by minute: the next time that it shows first, or goes past."""
    shown_before = datetime.fromtimestamp(after, ZoneInfo(zone)).replace(second=0, microsecond=0)
    time = shown_before.timestamp()
    latest = max(  # of all that it has shown, as it may have been set back by now
        datetime.fromtimestamp(earlier, ZoneInfo(zone)).replace(tzinfo=None)
        for earlier in range(int(time) - 7_200, int(time) + 1, 60)
    )
    if (
        latest.hour in hours
        and latest.minute in minutes
        and shown_before.replace(tzinfo=None) == latest
        and time + second > after
    ):
        return time + second
    while True:
        time += 60
        shown = datetime.fromtimestamp(time, ZoneInfo(zone)).replace(tzinfo=None)
        while latest < shown:
            latest += timedelta(minutes=1)
            if latest.hour in hours and latest.minute in minutes:
                return time + second


@given(
    st.sampled_from(_CHANGES), st.floats(-7_200, 7_200),
    st.sampled_from([("2", {2}), ("1-4", {1, 2, 3, 4}), ("0,1", {0, 1})]),
    st.sampled_from([("30", {30}), ("0,30", {0, 30}), ("15", {15}), ("0", {0})]),
    st.sampled_from([("", 0), ("0 ", 0), ("20 ", 20)]),
)  # fmt: skip
def test_a_time_of_the_day_comes_once_a_day_however_its_clocks_change(
    change: tuple[str, int], seconds: float, hour: tuple[str, set[int]], minute: tuple[str, set[int]],
    second: tuple[str, int],
) -> None:  # fmt: skip
    zone, at = change
    found = schedule(cron(f"{second[0]}{minute[0]} {hour[0]} * * *", zone=zone))
    now = at + seconds
    for _ in range(10):
        due = found.due(None, now)
        assert due == by_the_clock(zone, hour[1], minute[1], second[1], now)
        now = due


@given(
    st.sampled_from(_CHANGES),
    st.floats(-7_200, 7_200),
    st.sampled_from(["30 * * * *", "*/20 2 * * *", "10 30 * * * *"]),
)
def test_a_time_of_the_hour_comes_in_each_hour(change: tuple[str, int], seconds: float, expression: str) -> None:
    zone, at = change
    found = schedule(cron(expression, zone=zone))
    now = at + seconds
    for _ in range(5):
        due = found.due(None, now)
        there = datetime.fromtimestamp(due, ZoneInfo(zone))
        assert due > now
        assert (there.minute, there.second) in {(30, 0), (30, 10), (0, 0), (20, 0), (40, 0)}
        assert expression != "30 * * * *" or due <= now + 5_400, "an hour, or one of 90 minutes"
        now = due


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: every(0), r"@every\(0\): the interval is a number of seconds, 0.1 or more"),
        (lambda: every(float("inf")), r"@every\(inf\)"),
        (lambda: every(float("nan")), r"@every\(nan\)"),
        (lambda: every("60"), r"@every\('60'\)"),
        (lambda: every(True), r"@every\(True\)"),
        (lambda: every(60, timeout=0), r"@every: timeout=0: seconds above 0, or None"),
        (lambda: cron("0 0 30 2 *"), r"@cron\('0 0 30 2 \*'\): Bad day-of-month; .*there is no 30 February"),
        (lambda: cron("0 0 */30 2 MON#2"), "the time never comes; give a day that one of its months has"),
        (lambda: cron("61 * * * *"), "Bad minute; a field is out of its range, or the time never comes"),
        (lambda: cron("every day"), "Wrong number of fields; give five fields, as in"),
        (lambda: every(print), r"@every needs seconds, in parentheses: @every\(60\)\."),
        (lambda: cron(print), r"@cron needs an expression, in parentheses: @cron\('0 7 \* \* \*'\)\."),
        (lambda: cron(5), "give five fields"),
        (
            lambda: cron("* * * * *", zone="Mars/Base"),
            "there is no time zone 'Mars/Base'; give one as in 'Europe/Berlin'",
        ),
        (lambda: cron("* * * * *", zone=7), "there is no time zone 7"),
    ],
)
def test_what_is_no_schedule_says_what_would_be(make: Any, said: str) -> None:
    with pytest.raises(InvalidManifest, match=said):
        make()


def test_a_method_has_one_schedule_and_needs_a_capability_that_takes_nothing() -> None:
    with pytest.raises(InvalidManifest, match=r"tick has two schedules: give each a method of its own"):

        class Twice(Agent):
            @every(5.0)
            @cron("* * * * *")
            @capability("a.tick")
            def tick(self) -> None: ...

    class Bare(Agent):
        @every(5.0)
        def tick(self) -> None: ...

    with pytest.raises(
        InvalidManifest, match=r'Bare.tick has a schedule and no capability: put @capability\("…"\) below it'
    ):
        Bare.schedules()

    class Needy(Agent):
        @every(5.0)
        @capability("a.tick")
        def tick(self, count: int) -> None: ...

    with pytest.raises(InvalidManifest, match=r"Needy.tick has a schedule, so each of its parameters needs a default"):
        Needy.schedules()


def test_two_schedules_of_one_name_are_refused() -> None:
    class Twice(Agent):
        @every(5.0)
        @capability("a.tick")
        def often(self) -> None: ...

        @cron("0 7 * * *")
        @capability("a.tick")
        def daily(self) -> None: ...

    with pytest.raises(InvalidManifest, match=r"Twice declares 'a.tick' twice: daily and often; give each a name of"):
        Twice.schedules()


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)

    with pytest.raises(MissingExtra, match=r"@cron needs cronsim, .* pip install 'agent-ether\[cron\]'"):
        cron("* * * * *")


def test_two_methods_of_one_name_are_refused_where_the_class_is_defined() -> None:
    with pytest.raises(InvalidManifest, match=r"Twice\.tick is declared twice, and Python keeps only the last"):

        class Twice(Agent):
            @every(1.0)
            @capability("x.a")
            def tick(self) -> None: ...

            @every(2.0)
            @capability("x.b")
            def tick(self) -> None: ...  # noqa: F811

    with pytest.raises(InvalidManifest, match=r"Twice\.note is declared twice"):

        class Twice(Agent):  # type: ignore[no-redef]
            @on_event("a.b")
            def note(self) -> None: ...

            @on_event("a.c")
            def note(self) -> None: ...  # noqa: F811

    class Again(Agent):
        @capability("x.a")
        def tick(self) -> None: ...

    class Again(Agent):  # type: ignore[no-redef]  # noqa: F811  as in a notebook
        @capability("x.a")
        def tick(self) -> None: ...

    class Third(Again):
        @capability("x.b")
        def tick(self) -> None: ...

    assert list(Again.handlers()) == ["x.a"]


@pytest.mark.parametrize("at_start", ["no", 5.0, None, 1])
def test_at_start_is_a_truth_value(at_start: Any) -> None:
    with pytest.raises(InvalidManifest, match=r"@every\(…, at_start=.*\): True or False"):
        every(5.0, at_start=at_start)
