"""The retry policy of a delegator: which outcomes are tried again, how often, and after how long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ether_actors.backoff import Backoff
from ether_actors.number_check import check_number
from ether_broker import errors
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, InvalidSpec, UsageError
from ether_broker.name_hint import hint_fields, is_typo, nearest

__all__ = ["Retry", "check_retry"]

_MOST: Final = 100
_CODES: Final = frozenset((
    "access_denied", "agent_crash", "agent_down", "agent_draining", "agent_gone", "agent_restarted", "artifact_mismatch",
    "artifact_too_large", "artifact_unavailable", "broker_full", "broker_lost", "broker_unreachable", "budget_exceeded",
    "call_cycle", "cancelled", "closed", "deadline", "delegator_gone", "duplicate_request", "event_too_large", "exception",
    "expired", "failed", "forged_sender", "handed_back", "id_ahead", "invalid_envelope", "invalid_state", "journal_corrupt",
    "journal_unavailable", "lease_deadlock", "lease_held", "lease_lost", "link_full", "mailbox_full", "misfit", "no_holder",
    "no_parent", "node_full", "node_lost", "not_declared", "not_in_interface", "not_permitted", "not_your_parent",
    "outcome_removed", "parent_ended", "payload_too_large", "rejected", "state_full", "state_stale", "timed_out",
    "too_deep", "too_many_leases", "too_many_subscribers", "unfinished", "unknown_agent", "unknown_parent",
    "unreadable_response", "unserialisable", "usage", "wait_timeout", "wrong_result",
))  # fmt: skip
"""Codes that outcomes have from the bus itself; agents may give others."""
_OF_ERRORS: Final = frozenset(
    one.code
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, EtherError) and not one.__subclasses__()
)
"""Codes that an outcome has whose handler let such an error out."""
_PERHAPS_DONE: Final = frozenset(
    {"agent_crash", "agent_restarted", "broker_lost", "broker_unavailable", "lease_lost", "node_lost", "wait_timeout"}
)
"""Codes of retryable failures after which the work may have been done, or a part of it."""
_BY_ITSELF: Final = frozenset({Status.REJECTED_CAPABILITY, Status.REJECTED_OVERLOAD, Status.FAILED_EXECUTION})
"""Statuses that are tried again if their error is retryable."""
_FINAL: Final = frozenset({Status.ACCEPTED, Status.PROGRESS, Status.COMPLETED, Status.CANCELLED})
"""Statuses that are never tried again."""


@hint_fields
@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: `bus.delegate(…, retry=Retry())` makes further attempts while outcomes are retryable.

    Each attempt is a delegation of its own. No attempt begins after the deadline of the whole, nor ends later.

    Tried again is what may go better the next time and did not happen: what was refused for overload (after `retry_after` at
    least), whose agent was down, or which expired before it was started; and what the agent itself calls retryable, by an
    exception with `retryable = True` or by its answer, or an error of the bus that it lets out. Not tried again, unless `on`
    names it: what may have been done, or a part of it (`TIMEOUT`, `node_lost`, `broker_lost`, `agent_crash`,
    `agent_restarted`, `lease_lost`, `wait_timeout`, `broker_unavailable`), and what failed (`exception`, `REJECTED_CONTEXT`).
    A delegation that was cancelled is never tried again.

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
    the work may have been done, it may be done twice. The bus's own codes, and others in lower case, as agents may give."""

    def __post_init__(self) -> None:
        """Check the values."""
        wanted = f"a whole number of attempts, 1 to {_MOST}"
        check_number("Retry", "attempts", self.attempts, wanted, lambda v: isinstance(v, int) and 1 <= v <= _MOST)
        if self.timeout is not None:
            check_number("Retry", "timeout", self.timeout, "seconds above 0, or None", lambda v: v > 0)
        if not isinstance(self.backoff, Backoff):
            raise InvalidSpec(f"Retry: backoff is {self.backoff!r:.80}; give a Backoff, as in Backoff(initial=0.5).")
        if (
            isinstance(self.on, str)
            or not isinstance(self.on, Collection)
            or not all(isinstance(word, str) for word in self.on)
        ):
            raise InvalidSpec(
                f"Retry: on is {self.on!r:.80}; give a set of words, statuses and codes, as in on={{'exception'}}: that is"
                " whatever a handler raises. What has `retryable = True` is tried again without a word."
            )
        object.__setattr__(self, "on", frozenset(map(str, self.on)))
        for word in sorted(self.on):
            _check_word(word)

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
        if status is Status.REJECTED_OVERLOAD:
            return True
        return status in _BY_ITSELF and error is not None and error.retryable and code not in _PERHAPS_DONE


def _check_word(word: str) -> None:
    known = sorted(status.value for status in set(Status) - _FINAL)
    codes = _CODES | _OF_ERRORS
    if word in known or word in codes:
        return
    if word.upper() in _FINAL or word.isupper():
        raise InvalidSpec(f"Retry: on has {word!r}, which is no failure.{nearest(word, known)}")
    status = next((status for status in known if status.replace("_", "") == word.upper().replace("_", "")), None)
    if status is not None:
        raise InvalidSpec(f"Retry: on has {word!r}, which is no code. Did you mean {status!r}?")
    meant = next((code for code in sorted(codes) if is_typo(word, code)), None)
    if not word.islower() or meant is not None:
        hint = "Of an exception in a handler the code is 'exception'." if meant is None else f"Did you mean {meant!r}?"
        raise InvalidSpec(f"Retry: on has {word!r}, which is no code. {hint}")


def check_retry(retry: object) -> Retry:
    """A retry policy.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(retry, Retry):
        raise UsageError(f"retry={retry!r:.80}: a policy, as in retry=Retry(attempts=3).")
    return retry
