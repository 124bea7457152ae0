"""How long the way of a delegation is: the calls of Python functions of ours that one round trip takes, in all threads."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from types import FrameType
from typing import Any, Final, Self

from ether import Agent, Runtime, capability
from tests.support import SOURCE_ROOTS

MOST: Final = 88
"""Calls of one round trip; whoever makes the way longer says here why. Three are those of a Latch, in the place of more of a
threading.Event, which are not ours and not counted."""
_ROOTS: Final = tuple(f"{root}/" for root in SOURCE_ROOTS)
_TRIPS: Final = 50
_QUIET: Final = 3
"""Looks in a row at which nothing was called, 1 ms between them: the trip is over in every thread."""


class Echo(Agent):
    @capability("call.echo")
    def echo(self, number: int) -> int:
        return number


class Calls:
    """Counts the calls of our functions, and each time that a generator of ours goes on, in every thread started under it."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._is_ours: dict[str, bool] = {}

    def __enter__(self) -> Self:
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            path = frame.f_code.co_filename
            if self._is_ours.setdefault(path, path.startswith(_ROOTS)):
                with self._lock:
                    self.count += 1

    def when_quiet(self) -> int:
        """How many there were, once nothing of ours runs in any thread."""
        count, quiet = self.count, 0
        while quiet < _QUIET:
            time.sleep(0.001)
            quiet = quiet + 1 if self.count == count else 0
            count = self.count
        return count


def round_trips() -> list[int]:
    """The calls of each round trip, in a thread that no signal's handler interrupts: pytest's may, in the main one."""
    trips: list[int] = []
    with Calls() as calls, Runtime() as bus:
        bus.start(Echo)
        for number in range(-10, _TRIPS):
            before = calls.when_quiet()
            response = bus.delegate("call.echo", {"number": number}).result()
            if number >= 0:
                trips.append(calls.when_quiet() - before)
            assert response.data == number
    return trips


def test_a_round_trip_takes_no_more_calls_than_it_did():
    """The median leaves out the trips into which a heartbeat, or another look at what is due, has fallen."""
    with ThreadPoolExecutor(1) as pool:
        trips = pool.submit(round_trips).result()

    assert MOST // 2 < median(trips) <= MOST, sorted(trips)
