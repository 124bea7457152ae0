"""A delegation that is made later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ether_actors.agent.delayed import Delayed


class Made:
    """A handle that was made."""

    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def test_one_that_is_cancelled_as_it_is_made_is_cancelled():
    calls: list[Callable[[], None]] = []
    made = Made()

    def delegate() -> Any:
        later.cancel()  # in another thread: it has no handle yet
        return made

    later = Delayed(1.0, delegate, lambda _seconds, call: calls.append(call))
    calls[0]()

    assert made.is_cancelled
