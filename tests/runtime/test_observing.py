from __future__ import annotations

from ether import Observer
from ether.observing import Observing
from tests.support import wait_until


def test_with_another_broker_an_observer_counts_from_one_and_misses_nothing():
    acknowledged: list[int] = []
    observing = Observing(Observer(), acknowledged.append)
    observing.start(14)
    assert observing.following == 14
    observing.begin_again()
    assert observing.following == 1
    wait_until(lambda: acknowledged)
    observing.stop()

    assert acknowledged == [1]
    assert observing.observer.position == 1
    assert observing.observer.missed == 0
