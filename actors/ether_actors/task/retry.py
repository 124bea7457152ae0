"""The retry policy of a delegator: which outcomes are tried again, how often, and after how long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ether_actors.backoff import Backoff, check_number
from ether_broker.envelope.fields import DelegateArguments
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidSpec, UsageError
from ether_broker.name_hint import nearest

__all__ = ["DelegateOptions", "Retry", "check_retry"]

_MOST: Final = 100
_UNKNOWN_END: Final = frozenset({"agent_crashed", "broker_lost", "broker_unreachable", "deadline", "node_lost"})
"""Codes after which nobody knows whether the work was done, or is being done still."""
_FINAL: Final = frozenset({Status.ACCEPTED, Status.PROGRESS, Status.COMPLETED, Status.CANCELLED})
"""Statuses that are never tried again."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: `bus.delegate(…, retry=Retry())` makes further attempts while outcomes are retryable.

    Each attempt is a delegation of its own. No attempt begins after the deadline of the whole, nor ends later.

    Tried again is what the bus says may go better the next time, if it is certain that the work did not happen: it was
    refused for overload (after `retry_after` at least), its agent was down, it expired before it was started, or its handler
    raised an error that is `retryable`. Not tried again, unless `on` names it: what ended without anybody knowing whether the
    work was done (`TIMEOUT`, `node_lost`, `broker_lost`, `agent_crashed`), and what failed by itself (`exception`,
    `REJECTED_CONTEXT`). A delegation that was cancelled is never tried again.

    Example:
        response = bus.delegate("text.count", {"text": "two words"}, retry=Retry(attempts=5, on={"node_lost"})).result()
        assert response.status is Status.COMPLETED

    Raises:
        InvalidSpec: a value is out of its range, or `on` names a status that is no failure.
    """

    attempts: int = 3
    """Attempts in all, 1 to 100."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delays between them: `initial`, then longer."""
    timeout: float | None = None
    """Seconds that one attempt has; None is all that is left of the delegation's timeout."""
    on: Collection[str] = frozenset()
    """Statuses and error codes that are tried again too, such as {"TIMEOUT", "node_lost", "exception"}. With one after which
    nobody knows whether the work was done, the work may be done twice."""

    def __post_init__(self) -> None:
        """Check the values."""
        wanted = f"a whole number of attempts, 1 to {_MOST}"
        check_number("Retry", "attempts", self.attempts, wanted, lambda v: isinstance(v, int) and 1 <= v <= _MOST)
        if self.timeout is not None:
            check_number("Retry", "timeout", self.timeout, "seconds above 0, or None", lambda v: v > 0)
        if not isinstance(self.backoff, Backoff):
            raise InvalidSpec(f"Retry: backoff is {self.backoff!r:.80}; give a Backoff, as in Backoff(initial=0.5).")
        if isinstance(self.on, str) or not all(isinstance(word, str) for word in self.on):
            raise InvalidSpec(
                f"Retry: on is {self.on!r:.80}; give a set of words, as in on={{'TIMEOUT', 'node_lost'}}."
            )
        object.__setattr__(self, "on", frozenset(map(str, self.on)))
        for word in sorted(self.on):
            if word in _FINAL or (word.isupper() and word not in Status.__members__):
                known = sorted(status.value for status in set(Status) - _FINAL)
                raise InvalidSpec(f"Retry: on has {word!r}, which is no failure.{nearest(word, known)}")

    def delay(self, response: Response, attempt: int, left: float, random: Random) -> float | None:
        """Say after how long another attempt is made; None if the outcome stands.

        Args:
            response: the outcome of the last attempt.
            attempt: its number, from 1.
            left: seconds to the deadline of the whole.
            random: where the jitter comes from.
        """
        if attempt >= self.attempts or not self._fits(response):
            return None
        delay = max(self.backoff.delay(attempt + 1, random), response.retry_after or 0.0)
        return delay if delay < left else None

    def _fits(self, response: Response) -> bool:
        status, error = response.status, response.error
        if status in _FINAL:
            return False
        code = "" if error is None else error.code
        if status in self.on or code in self.on:
            return True
        if status is Status.TIMEOUT:
            return code == "expired"
        is_retryable = status is Status.REJECTED_OVERLOAD or (error is not None and error.retryable)
        return is_retryable and code not in _UNKNOWN_END


class DelegateOptions(DelegateArguments, total=False):
    """The keyword arguments of `delegate`, without the agent's name."""

    retry: Retry | None


def check_retry(retry: object) -> Retry:
    """A retry policy.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(retry, Retry):
        raise UsageError(f"retry={retry!r:.80}: a policy, as in retry=Retry(attempts=3).")
    return retry
