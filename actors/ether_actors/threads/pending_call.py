"""A call that is to be made later, and can be taken back until then."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["PendingCall"]


class PendingCall:
    """A call that is made at most once, and keeps nothing once it is made or taken back; from any thread.

    Args:
        call: what is to be called.
    """

    __slots__ = ("_calls",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._calls = [call]  # pop() is atomic

    @property
    def is_void(self) -> bool:
        """Whether it was made or taken back."""
        return not self._calls

    def __call__(self) -> None:
        """Make it, unless it was taken back."""
        try:
            call = self._calls.pop()
        except IndexError:
            return
        call()

    def cancel(self) -> bool:
        """Take it back; whether it was still to be made."""
        try:
            self._calls.pop()
        except IndexError:
            return False
        return True
