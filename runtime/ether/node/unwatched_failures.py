"""The failures of what nobody waits for: runs of timers, deliveries of events, and delegations of `after`.

AgentSchedules, AgentBus.after ──► watch ─┐
Responder (of an event) ──────────────────┴► tell ──► log (and a warning where nobody reads the log)
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, TypeVar

from ether.node.connection.session_state import SessionState
from ether_actors.delegator.handle import Handle
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.unread_log import warn_unread

__all__ = ["UnwatchedFailures"]

logger: logging.Logger = logging.getLogger("ether.unwatched")

_PAUSE: Final = 60.0
"""Seconds in which the same failure is told once."""
_AT_ONCE: Final = 10
"""Failures of one agent that are told within such a pause, whatever they are; the others are counted."""
_NAMED: Final = 80
_MOST: Final = 1_000
"""Failures that are remembered to have been told, and agents that had some; the oldest make room."""
_K = TypeVar("_K")
_V = TypeVar("_V")
_NO_FAILURE: Final = frozenset({Status.COMPLETED, Status.PARTIAL, Status.NEEDS_INPUT, Status.CANCELLED})


class UnwatchedFailures:
    """The failures of one node's agents that no delegator learns of.

    Each is logged; the same one once a minute at most, and of one agent ten in a minute.

    Args:
        session_state: with the broker: what ends as the node leaves is no failure.
        monotonic: the node's clock.
    """

    def __init__(self, session_state: SessionState, monotonic: Callable[[], float]) -> None:
        self._session_state = session_state
        self._monotonic = monotonic
        self._told: dict[tuple[str, str, str, str], list[float]] = {}
        """{(agent, what failed, code, class of the exception): [when it was told last, how often it failed since]}"""
        self._recent: dict[str, deque[float]] = {}
        """{agent: when failures of it were told last}"""
        self._untold: Counter[str] = Counter()
        """{agent: failures that nothing was told of}"""

    def watch(self, handle: Handle, trigger: str, *, is_repeated: bool = False) -> None:
        """Tell it if a delegation fails; of one that comes again by itself, not that its agent had no room for it."""

        def look(ended: Handle) -> None:
            response = ended.outcome()
            is_put_off = is_repeated and response.status is Status.REJECTED_OVERLOAD
            if response.status not in _NO_FAILURE and not is_put_off:
                self.tell(ended.source, f"{ended.capability} ({trigger})", response)

        handle.add_done_callback(look)

    def tell(self, agent: str, what: str, response: Response) -> None:
        """Log an outcome that is a failure, unless the same was logged within a minute, or much of its agent was."""
        if self._session_state.is_draining:
            return
        error, now = response.error, self._monotonic()
        code = "" if error is None else error.code
        said = response.summary if error is None else error.message
        key = agent, what, code, said.partition(":")[0][:_NAMED] if code == "exception" else ""
        before = self._told.get(key)
        if before is not None and now - before[0] < _PAUSE:
            before[1] += 1
            return
        recent = self._recent[agent] = self._recent.pop(agent, deque(maxlen=_AT_ONCE))  # the newest again
        if len(recent) == _AT_ONCE and now - recent[0] < _PAUSE:
            self._untold[agent] += 1
            return
        recent.append(now)
        self._told.pop(key, None)  # so that it is the newest again
        self._told[key] = [now, 0]
        _shorten(self._told)
        _shorten(self._recent)
        _shorten(self._untold)
        again = f" ({before[1]:.0f} more since it was last told)" if before is not None and before[1] else ""
        untold = self._untold.pop(agent, 0)
        again += f" ({untold:,} other failures of {agent} were not told)" if untold else ""
        trace = "" if error is None or not error.traceback else f"\n{error.traceback.rstrip()}"
        message = f"{agent}: {what} ended {response.status} {code}: {said}{again}{trace}"
        logger.warning("%s", message)
        warn_unread(logger, message)


def _shorten(told: dict[_K, _V]) -> None:
    if len(told) > _MOST:
        del told[next(iter(told))]
