"""Times on the command line."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.cli.journal.timestamps import moment_text, parse_duration, parse_moment
from ether_broker.errors import UsageError

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def _east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone two hours ahead of UTC."""
    monkeypatch.setenv("TZ", "EAST-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5s", 1.5), ("250ms", 0.25), ("10m", 600.0), ("1h30m", 5400.0), ("7d", 604_800.0), ("2w1d", 1_296_000.0)],
)  # fmt: skip
def test_a_duration_is_a_sum_of_units(text: str, seconds: float) -> None:
    assert parse_duration(text, "--older-than") == seconds


@pytest.mark.parametrize("text", ["", "7", "d7", "7 d", "-1h", "1h30", "1y", "soon", "7dd d"])
def test_a_moment_that_is_none_is_told_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since is .* has to be a time, as in 2026-11-22T10:30"):
        parse_moment(text, "--since", NOON)


@pytest.mark.parametrize("text", ["", "d7", "7 d", "-1h", "1h30", "1y", "nan", "inf"])
def test_a_duration_that_is_none_is_told_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--older-than is .* as in 7d or 1h30m"):
        parse_duration(text, "--older-than")


def test_a_unit_behind_a_number_is_how_long_ago() -> None:
    assert parse_moment("10m", "--since", NOON) == NOON - 600
    assert parse_moment(" 1d12h ", "--since", NOON) == NOON - 129_600


@pytest.mark.usefixtures("_east")
@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("2026-11-22T12:00Z", 0), ("2026-11-22 14:00", 0), ("2026-11-22T14:00:00.000", 0), ("14:00", 0), ("2026-11-22", -14),
        ("2026-11-22T12:00+05:00", -5), ("20261122T1400", 0),
    ],
)  # fmt: skip
def test_a_time_is_of_this_machines_zone_unless_it_says_another(text: str, hours: int) -> None:
    assert parse_moment(text, "--since", NOON) == NOON + hours * 3600


@pytest.mark.usefixtures("_east")
def test_the_date_is_left_out_where_it_is_todays() -> None:
    assert moment_text(NOON + 0.25) == "2026-11-22T14:00:00.250"
    assert moment_text(NOON, now=NOON + 3600) == "14:00:00.000"
    assert moment_text(NOON, now=NOON + 86_400) == "2026-11-22T14:00:00.000"


@pytest.mark.parametrize("seconds", [1e308, -1e308, math.inf, math.nan, 253_402_300_800.0])
def test_what_is_in_no_calendar_is_told_in_seconds(seconds: float) -> None:
    assert moment_text(seconds, now=NOON) == f"{seconds:g} s"


@given(st.integers(0, 4_000_000_000_000))
def test_what_is_shown_can_be_given_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000

    assert parse_moment(moment_text(seconds), "--since") == pytest.approx(seconds, abs=0.0011)
