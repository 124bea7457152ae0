"""The durations of a bus: what can be said, and what a WELCOME says."""

from __future__ import annotations

import math

import pytest

from ether_broker.errors import InvalidEnvelope, InvalidSpec
from ether_broker.timing import DEFAULT_TIMING, Timing


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"heartbeat": 0.1}, "timing.heartbeat is 0.1: give seconds, 0.2 to 3600."),
        ({"heartbeat": "1"}, "timing.heartbeat is '1': give seconds, 0.2 to 3600."),
        ({"heartbeat": True}, "timing.heartbeat is True: give seconds, 0.2 to 3600."),
        ({"silence": math.inf}, "timing.silence is inf: give seconds, 0 to 3600."),
        ({"silence": math.nan}, "timing.silence is nan: give seconds, 0 to 3600."),
        ({"silence": None}, "timing.silence is None: give seconds, 0 to 3600."),
        ({"patience": -1}, "timing.patience is -1: give seconds, 0 to 3600."),
        ({"grace": -0.5}, "timing.grace is -0.5: give seconds, 0 to 3600."),
        ({"max_backoff": 0.0}, "timing.max_backoff is 0.0: give seconds, 0.25 to 3600."),
    ],
)
def test_a_duration_that_cannot_be_is_refused_by_its_name_with_what_can_be(said: dict, told: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        Timing(**said)

    assert str(caught.value) == told


@pytest.mark.parametrize(("heartbeat", "silence"), [(1.0, 2.0), (5.0, 3.0)])
def test_a_silence_has_to_be_longer_than_two_heartbeats(heartbeat: float, silence: float) -> None:
    with pytest.raises(InvalidSpec, match=rf"timing.silence is {silence:g} s .*longer than two heartbeats"):
        Timing(heartbeat=heartbeat, silence=silence)

    assert Timing(heartbeat=heartbeat, silence=2 * heartbeat + 0.1).heartbeat == heartbeat


def test_a_patience_is_no_longer_than_the_silence_that_ends_it():
    with pytest.raises(InvalidSpec, match=r"timing.patience is 30 s and timing.silence 3 s: .* Give 3 s or less."):
        Timing(patience=30.0)

    assert Timing(patience=3.0).patience == 3.0


@pytest.mark.parametrize(
    ("endpoint", "patience"), [("tcp://127.0.0.1:*", 4.0), ("ipc:///run/broker.sock", 0.0), ("", 0.0)]
)
def test_only_a_connection_over_tcp_may_be_made_anew_unless_that_is_said(endpoint: str, patience: float) -> None:
    assert Timing(heartbeat=2.0, silence=5.0).over(endpoint).patience == patience
    assert Timing(patience=2.5).over(endpoint).patience == 2.5


def test_nodes_have_ten_seconds_to_come_back_to_a_broker_and_more_where_it_takes_them_longer_to_miss_it() -> None:
    assert DEFAULT_TIMING.reclaim == 10.0
    assert Timing(heartbeat=5.0, silence=15.0).reclaim == 45.0


def test_a_welcome_is_read_as_it_was_said_and_what_is_missing_is_the_default() -> None:
    timing = Timing(5.0, 15.0, 1.0, 4.0, 20.0)

    assert Timing.of_welcome({"session": 7, **timing.as_dict(), "from_the_future": 1}) == timing
    assert Timing.of_welcome({"heartbeat": 5, "silence": 15}) == Timing(heartbeat=5, silence=15)
    assert Timing.of_welcome({}) == DEFAULT_TIMING


def test_a_welcome_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(InvalidEnvelope, match=r"WELCOME cannot be followed: timing.silence is 'x'"):
        Timing.of_welcome({"silence": "x"})
