"""The restart budget of a supervisor: how many restarts lie within the last period."""

from __future__ import annotations

from collections import deque

__all__ = ["RestartIntensity"]


class RestartIntensity:
    """A count of restarts in a sliding window, as OTP's `add_restart`.

    Holds at most `intensity + 1` times, however often it is asked.
    """

    __slots__ = ("_intensity", "_period", "_times")

    def __init__(self, intensity: int, period: float) -> None:
        self._intensity = intensity
        self._period = period
        self._times: deque[float] = deque()

    def admit(self, now: float) -> bool:
        """Count a restart at `now`, and say whether the budget bears it.

        Args:
            now: seconds, not before those of an earlier call.

        Returns:
            False when more than `intensity` restarts lie in [now - period, now]; the supervisor then gives up
            and this window is at its end.
        """
        threshold = now - self._period
        while self._times and self._times[0] < threshold:
            self._times.popleft()
        self._times.append(now)
        return len(self._times) <= self._intensity
