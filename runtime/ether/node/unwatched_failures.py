"""The failures of what nobody waits for: runs of timers, deliveries of events, and delegations of `after`.

AgentSchedules, AgentBus.after ──► watch ─┐
Responder (of an event) ──────────────────┴► tell ──► log (and a warning where nobody reads the log)
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
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
_AT_ONCE_IN_ALL: Final = 100
"""The same of all agents together."""
_NAMED: Final = 80
_MOST_SAID: Final = 1_000
"""Characters of what an error says."""
_MOST_TRACE: Final = 8_000
"""The same of a traceback, of which the end tells most."""
_MOST_AGENTS: Final = 1_000
"""Agents of which something was told that are remembered; the one of which nothing was told for longest makes room."""
_MOST_OF_ONE: Final = 64
"""The same of one agent's failures."""
_K = TypeVar("_K")
_V = TypeVar("_V")
_NO_FAILURE: Final = frozenset({Status.COMPLETED, Status.PARTIAL, Status.NEEDS_INPUT, Status.CANCELLED})


@dataclass(slots=True)
class _Failure:
    """One that was told."""

    at: float = -inf
    """When it was told last."""
    more: int = 0
    """How often it happened since."""


def _times(most: int) -> deque[float]:
    return deque(maxlen=most)


@dataclass(slots=True)
class _OfAgent:
    """The failures of one agent of which some were told."""

    failures: dict[tuple[str, str, str], _Failure] = field(default_factory=dict)
    """{(what failed, code, class of the exception): failure}"""
    recent: deque[float] = field(default_factory=lambda: _times(_AT_ONCE))
    """When some were told last."""
    untold: int = 0
    """Others, of which nothing was told since."""


class UnwatchedFailures:
    """The failures of one node's agents that no delegator learns of.

    Each is logged; the same one once a minute at most, of one agent ten in a minute, and of all 100. Any thread may tell it.

    Args:
        session_state: with the broker: what ends as the node leaves is no failure.
        monotonic: the node's clock.
    """

    def __init__(self, session_state: SessionState, monotonic: Callable[[], float]) -> None:
        self._session_state = session_state
        self._monotonic = monotonic
        self._agents: dict[str, _OfAgent] = {}
        self._recent = _times(_AT_ONCE_IN_ALL)
        self._untold = 0
        """Failures of any agent of which nothing was told since, as much had been told of all."""
        self._lock = threading.Lock()

    def watch(self, handle: Handle, trigger: str, *, is_repeated: bool = False) -> None:
        """Tell it if a delegation fails; of one that comes again by itself, not that its agent had no room, or was to end."""

        def look(ended: Handle) -> None:
            response = ended.outcome()
            is_put_off = is_repeated and (
                response.status is Status.REJECTED_OVERLOAD
                or (response.error is not None and response.error.code == "agent_draining")
            )
            if response.status not in _NO_FAILURE and not is_put_off:
                self.tell(ended.source, f"{ended.capability} ({trigger})", response)

        handle.add_done_callback(look)

    def tell(self, agent: str, what: str, response: Response) -> None:
        """Log an outcome that is a failure, unless the same was logged within a minute, or much else was."""
        if self._session_state.is_draining:
            return
        error, now = response.error, self._monotonic()
        code = "" if error is None else error.code
        said = response.summary if error is None else error.message
        kind = said.partition(":")[0][:_NAMED] if code == "exception" else ""
        with self._lock:
            again = self._again(agent, (what, code, kind), now)
        if again is None:
            return
        trace = "" if error is None or not error.traceback else f"\n{error.traceback.rstrip()[-_MOST_TRACE:]}"
        message = f"{agent}: {what} ended {response.status} {code}: {said[:_MOST_SAID]}{again}{trace}"
        logger.warning("%s", message)
        warn_unread(logger, message)

    def _again(self, agent: str, key: tuple[str, str, str], now: float) -> str | None:
        """Count a failure: what is to be told of those since the last that was told, or None if it is not to be told."""
        of_agent = self._agents.get(agent) or _OfAgent()
        failure = of_agent.failures.get(key) or _Failure()
        if now - failure.at < _PAUSE:
            failure.more += 1
            return None
        if _is_full(of_agent.recent, now):
            of_agent.untold += 1
            return None
        if _is_full(self._recent, now):
            self._untold += 1
            return None
        again = f" ({failure.more:,} more since it was last told)" if failure.more else ""
        again += f" ({of_agent.untold:,} other failures of {agent} were not told)" if of_agent.untold else ""
        again += f" ({self._untold:,} failures on this node were not told)" if self._untold else ""
        of_agent.recent.append(now)
        self._recent.append(now)
        failure.at, failure.more, of_agent.untold, self._untold = now, 0, 0, 0
        if (gone := _put_newest(self._agents, agent, of_agent, _MOST_AGENTS)) is not None:
            self._untold += gone.untold + sum(one.more for one in gone.failures.values())
        if (left_out := _put_newest(of_agent.failures, key, failure, _MOST_OF_ONE)) is not None:
            of_agent.untold += left_out.more
        return again


def _is_full(times: deque[float], now: float) -> bool:
    return len(times) == times.maxlen and now - times[0] < _PAUSE


def _put_newest(known: dict[_K, _V], key: _K, value: _V, most: int) -> _V | None:
    """Put a value in; returns the oldest, if that has to make room."""
    known.pop(key, None)
    known[key] = value
    return known.pop(next(iter(known))) if len(known) > most else None
