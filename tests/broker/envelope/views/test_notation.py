from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.views.notation import (
    canonical_id,
    foreign_name,
    identity,
    milliseconds,
    number,
    read_number,
    read_time,
    write_time,
)
from tests.broker.strategies import nonnegative, times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2025-10-06T15:40:00Z", 1759765200.0),
        ("2025-10-06t15:40:00z", 1759765200.0),
        ("2025-10-06 17:40:00.5+02:00", 1759765200.5),
    ],
)
def test_times_of_rfc_3339_are_read(text: str, seconds: float):
    assert read_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "now", "2025-10-06", "20251006T154000Z", "2025-10-06T15:40:00", "2025-02-30T00:00:00Z", 0, None],
)
def test_what_is_no_such_time_is_none(text: Any):
    assert read_time(text) is None


@given(times)
def test_a_written_time_is_read_back_to_the_microsecond(seconds: float):
    text = write_time(seconds)
    if text is None:
        assert not -62135596800 <= seconds < 253402300799
    else:
        assert read_time(text) == pytest.approx(seconds, abs=1e-3 if abs(seconds) > 1e10 else 1e-6)


@pytest.mark.parametrize("seconds", [None, float("nan"), float("inf"), 1e300, -1e300])
def test_a_year_that_cannot_be_written_is_none(seconds: float | None):
    assert write_time(seconds) is None


def test_whole_numbers_are_written_without_a_point():
    assert repr(number(15.0)) == "15"
    assert repr(number(0.5)) == "0.5"
    assert repr(number(2.0**60)) == "1.152921504606847e+18"


@pytest.mark.parametrize(("seconds", "text"), [(3.5, "3500"), (4.567, "4567"), (1e-6, "0.001"), (0.0, "0")])
def test_milliseconds_are_whole_where_that_is_exact(seconds: float, text: str):
    assert repr(milliseconds(seconds)) == text


@given(nonnegative)
def test_whole_milliseconds_give_the_seconds_back(seconds: float):
    scaled = milliseconds(seconds)
    if isinstance(scaled, int):
        assert scaled / 1000 == seconds


@pytest.mark.parametrize("value", [True, "1", None, -1, -0.5, float("nan"), 10**400, [1]])
def test_what_is_no_number_from_0_up_is_none(value: Any):
    assert read_number(value) is None


def test_an_id_is_kept_as_text_unless_it_is_canonical():
    canonical = to_text(new_id())

    assert identity(canonical) == {"request_id": canonical}
    assert identity(canonical.upper()) == {"request_id": canonical, "external_id": canonical.upper()}
    assert identity("sg1") == {"request_id": canonical_id("sg1"), "external_id": "sg1"}


def test_an_envelope_without_any_id_has_a_name_nevertheless():
    assert foreign_name(Delegation(request_id="", capability="a")) == canonical_id("")
