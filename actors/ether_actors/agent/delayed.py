"""A delegation that is made some seconds later."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ether_actors.threads.pending_call import PendingCall
from ether_broker.errors import Closed, EtherError, UsageError
from ether_broker.number import is_number
from ether_broker.unread_log import warn_unread

if TYPE_CHECKING:
    from ether_actors.delegator.handle import Handle

__all__ = ["Delayed"]

logger: logging.Logger = logging.getLogger("ether.timers")


class Delayed:
    """A delegation that is yet to be made, of `after`.

    Example:
        class Reminder(Agent):
            def on_start(self) -> None:
                self.later = self.bus.after(60.0, "text.count", {"text": "two words"})

            @capability("reminder.stop")
            def stop(self) -> bool:
                self.later.cancel()
                return self.later.handle is None

        bus.start(Reminder)
        assert bus.delegate("reminder.stop").result().data is True
    """

    __slots__ = ("_is_cancelled", "_pending", "handle")

    def __init__(
        self, seconds: float, delegate: Callable[[], Handle], call_after: Callable[[float, Callable[[], None]], None]
    ) -> None:  # fmt: skip
        if not is_number(seconds) or not 0 <= seconds < float("inf"):
            raise UsageError(f"after({seconds!r:.40}, …): seconds, 0 or more.")
        self.handle: Handle | None = None
        """Of the delegation, once it is made."""
        self._is_cancelled = False
        self._pending = PendingCall(lambda: self._make(delegate))
        call_after(float(seconds), self._pending)

    def cancel(self) -> None:
        """Do not make it; if it has been made, cancel it."""
        self._is_cancelled = True
        self._pending.cancel()
        if self.handle is not None:
            self.handle.cancel()

    def _make(self, delegate: Callable[[], Handle]) -> None:
        try:
            self.handle = delegate()
        except Closed as error:  # the end of the agent, or of its node
            logger.info("a delegation of `after` is not made: %s", error)
            return
        except EtherError as error:
            msg = f"a delegation of `after` is not made: {error}"
            logger.warning(msg)
            warn_unread(logger, msg)
            return
        if self._is_cancelled:
            self.handle.cancel()
