"""What `Clock` promises, held by every kind: the system's, the one that stands until it is moved, what is added here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

import pytest

from ether.testing import ManualClock
from ether_broker.clock import Clock, SystemClock


class Kind(NamedTuple):
    clock: Clock
    wait: Callable[[float], object]
    """Lets so many seconds pass by it."""


def _manual() -> Kind:
    clock = ManualClock()
    return Kind(clock, clock.advance)


KINDS: Final[dict[str, Callable[[], Kind]]] = {"system": lambda: Kind(SystemClock(), time.sleep), "manual": _manual}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]()


def test_time_goes_on_in_seconds_and_not_back(kind: Kind) -> None:
    seen = [kind.clock.monotonic()]
    for _ in range(5):
        kind.wait(0.01)
        seen.append(kind.clock.monotonic())

    assert all(isinstance(shown, float) for shown in seen)
    assert all(0.0099 < after - before < 5.0 for before, after in pairwise(seen))


def test_two_looks_without_a_wait_are_in_order(kind: Kind) -> None:
    seen = [kind.clock.monotonic() for _ in range(1_000)]

    assert seen == sorted(seen)


def test_the_time_of_day_goes_on_with_it(kind: Kind) -> None:
    before = kind.clock.wall() - kind.clock.monotonic()
    kind.wait(0.05)
    after = kind.clock.wall() - kind.clock.monotonic()

    assert isinstance(kind.clock.wall(), float)
    assert after - before == pytest.approx(0.0, abs=0.04)


def test_the_machines_start_is_one_text_as_long_as_time_goes_on(kind: Kind) -> None:
    before = kind.clock.boot
    kind.wait(0.01)

    assert isinstance(before, str)
    assert kind.clock.boot == before


def test_any_thread_may_look(kind: Kind) -> None:
    before, seen = kind.clock.monotonic(), []
    thread = threading.Thread(target=lambda: seen.append((kind.clock.monotonic(), kind.clock.wall(), kind.clock.boot)))
    thread.start()
    thread.join()

    assert before <= seen[0][0] <= kind.clock.monotonic()
    assert seen[0][2] == kind.clock.boot
