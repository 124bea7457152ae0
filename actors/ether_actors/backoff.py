"""Backoff: how long to wait before each further attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from ether_actors.number_check import check_number
from ether_broker.name_hint import hint_fields

__all__ = ["Backoff"]


@hint_fields
@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays between attempts: between the restarts of a child that keeps failing, and between those of a `Retry`.

    The delays are `initial`, `initial * factor`, `initial * factor²` … up to `maximum`. Before them, the first restart after a
    quiet time is immediate, as in OTP: most crashes do not repeat. A quiet time is one `period` of the supervisor without
    an end of the child. The first retry of a delegation is delayed by `initial`.

    Delayed restarts also count in the supervisor's `intensity`. If fewer than `intensity` restarts fit into `period`
    with these delays, one child alone never exceeds it, and is restarted without limit, every `maximum` seconds.

    Example:
        from random import Random

        backoff = Backoff(initial=0.5, factor=2.0, maximum=60.0, jitter=0.0)
        assert [backoff.delay(attempt, Random()) for attempt in (1, 2, 3, 4)] == [0.0, 0.5, 1.0, 2.0]

    Raises:
        InvalidSpec: a value is out of its range.
    """

    initial: float = 0.1
    """Seconds before the second restart, or the first retry; 0 is always at once."""
    factor: float = 2.0
    """What each further delay is multiplied by, at least 1."""
    maximum: float = 30.0
    """Seconds that no delay passes, at least `initial`."""
    jitter: float = 0.1
    """The part of a delay, 0 to 1, that chance may take away, so that children that fell together do not all
    come back in the same moment. It only shortens: `maximum` holds."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_number("Backoff", "initial", self.initial, "seconds, 0 or more", lambda v: 0 <= v < math.inf)
        check_number("Backoff", "factor", self.factor, "a finite number of at least 1", lambda v: 1 <= v < math.inf)
        wanted = f"seconds, at least `initial` ({self.initial:g})"
        check_number("Backoff", "maximum", self.maximum, wanted, lambda v: self.initial <= v < math.inf)
        check_number("Backoff", "jitter", self.jitter, "a number from 0 to 1", lambda v: 0 <= v <= 1)

    def delay(self, attempt: int, random: Random) -> float:
        """Say how long to wait before a restart.

        Args:
            attempt: 1 for the first restart since the last quiet time.
            random: where the jitter comes from; one number is drawn, and none for the first restart.

        Returns:
            Seconds in [0, maximum]; exactly 0 for the first attempt.
        """
        if attempt <= 1:
            return 0.0
        try:
            full = min(self.maximum, self.initial * self.factor ** (attempt - 2))
        except OverflowError:  # past about 1e308, long after any maximum
            full = self.maximum if self.initial else 0.0
        return full * (1.0 - self.jitter * random.random())
