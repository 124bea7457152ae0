"""When a connection is replaced that is broken though ZeroMQ reports no fault."""

from __future__ import annotations

from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.zeromq.reconnect_policy import MUTE, ReconnectPolicy

DEAF = DEFAULT_TIMING.silence + DEFAULT_TIMING.heartbeat
SLOW = Timing(heartbeat=5.0, silence=15.0)


def moments(look, seconds: float) -> list[float]:
    """When it said yes, looking ten times a second."""
    return [round(tick / 10, 1) for tick in range(round(seconds * 10) + 1) if look(tick / 10)]


def test_who_hears_nothing_listens_anew_again_and_again():
    watchdog = ReconnectPolicy(0.0)

    assert moments(watchdog.is_deaf, 10.0) == [DEAF, DEAF + 2.0, DEAF + 4.0, DEAF + 6.0]


def test_who_hears_something_each_second_never_listens_anew():
    watchdog = ReconnectPolicy(0.0)

    def look(now: float) -> bool:
        if now == int(now):
            watchdog.heard = now
        return watchdog.is_deaf(now)

    assert moments(look, 20.0) == []


def test_the_brokers_own_intervals_count():
    assert moments(ReconnectPolicy(0.0, SLOW).is_deaf, 45.0) == [20.0, 30.0, 40.0]
    assert moments(listening(ReconnectPolicy(0.0, SLOW), lambda _now: 7), 16.0) == [8.8]


def listening(watchdog: ReconnectPolicy, first):
    """Hears the broker all the time; `first` tells the oldest frame that is not acknowledged."""

    def look(now: float) -> bool:
        watchdog.heard = now
        return watchdog.is_mute(1, first(now), now)

    return look


def test_whose_frames_are_acknowledged_one_after_the_other_goes_on_talking():
    assert moments(listening(ReconnectPolicy(0.0), lambda now: 1 + int(now)), 20.0) == []


def test_who_has_said_nothing_that_is_not_acknowledged_goes_on_talking():
    assert moments(listening(ReconnectPolicy(0.0), lambda _now: 0), 20.0) == []


def test_whose_frame_is_not_acknowledged_while_the_broker_is_heard_talks_anew_with_growing_pauses():
    found = moments(listening(ReconnectPolicy(0.0), lambda _now: 7), 16.0)

    assert found == [1.8, 5.3, 12.3]
    assert MUTE < found[0] < MUTE + 0.1


def test_who_hears_nothing_does_not_blame_the_talking_side():
    watchdog = ReconnectPolicy(0.0)

    assert moments(lambda now: watchdog.is_mute(1, 7, now), 20.0) == []


def test_a_new_session_has_all_its_time_though_its_frames_have_the_numbers_of_the_one_before():
    watchdog = ReconnectPolicy(0.0)

    def look(now: float) -> bool:
        watchdog.heard = now
        return watchdog.is_mute(1 if now < 5.0 else 2, 1, now)

    assert moments(look, 8.0) == [1.8, 6.8]
