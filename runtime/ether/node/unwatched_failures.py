"""The failures of what nobody waits for: runs of timers, deliveries of events, and delegations of `after`.

AgentSchedules, AgentBus.after ──► watch ─┐
Responder (of an event) ──────────────────┴► tell ──► log (and a warning where nobody reads the log)
"""

from __future__ import annotations

import logging
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
_NAMED: Final = 80
_MOST_AGENTS: Final = 1_000
"""Agents that are remembered to have failed; the oldest make room."""
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


@dataclass(slots=True)
class _OfAgent:
    """The failures of one agent."""

    failures: dict[tuple[str, str, str], _Failure] = field(default_factory=dict)
    """{(what failed, code, class of the exception): failure}"""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_AT_ONCE))
    """When some were told last."""
    untold: int = 0
    """Others, of which nothing was told."""


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
        self._agents: dict[str, _OfAgent] = {}

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
        kind = said.partition(":")[0][:_NAMED] if code == "exception" else ""
        of_agent = _newest(self._agents, agent, _OfAgent, _MOST_AGENTS)
        failure = _newest(of_agent.failures, (what, code, kind), _Failure, _MOST_OF_ONE)
        recent = of_agent.recent
        if now - failure.at < _PAUSE:
            failure.more += 1
            return
        if len(recent) == _AT_ONCE and now - recent[0] < _PAUSE:
            of_agent.untold += 1
            return
        again = f" ({failure.more:,} more since it was last told)" if failure.more else ""
        again += f" ({of_agent.untold:,} other failures of {agent} were not told)" if of_agent.untold else ""
        recent.append(now)
        failure.at, failure.more, of_agent.untold = now, 0, 0
        trace = "" if error is None or not error.traceback else f"\n{error.traceback.rstrip()}"
        message = f"{agent}: {what} ended {response.status} {code}: {said}{again}{trace}"
        logger.warning("%s", message)
        warn_unread(logger, message)


def _newest(known: dict[_K, _V], key: _K, make: Callable[[], _V], most: int) -> _V:
    """The value of a key, or a new one, as the newest of so many."""
    value = known[key] = known.pop(key, None) or make()
    if len(known) > most:
        del known[next(iter(known))]
    return value
