"""The keywords of `delegate` and of the calls like it: a type checker finds a misspelt one, and so does the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ether_actors.delegator.retry import Retry, check_retry
from ether_broker.envelope.delegation import Budget, Delegation
from ether_broker.envelope.fields import DelegationFields
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.errors import InvalidEnvelope, UsageError
from ether_broker.name_hint import nearest

__all__ = ["DelegateOptions", "check_each", "check_keywords"]

_NO_KEYWORDS: Final = {
    "from_agent": "the agent that delegates is set by itself",
    "to_agent": "name the agent with `to`",
    "context_slice": "give it as `context`",
    "attempt": "the bus counts the attempts",
    "timestamp": "the time of the call is set by itself",
    "schema_version": "the version is set by itself",
}
"""Fields of a delegation that `delegate` does not take by keyword, and why."""


class DelegateOptions(DelegationFields, total=False):
    """The keyword arguments of `delegate`, without the agent's name."""

    timeout: float | None
    budget: Budget | None
    objective: str
    context: Any
    retry: Retry | None


_KEYWORDS: Final = ("to", *DelegateOptions.__annotations__)
_LISTED: Final = ", ".join(sorted(_KEYWORDS))


def check_keywords(keywords: Iterable[str], call: str = "delegate", *own: str) -> None:
    """Check that `delegate` takes each of these keywords.

    Args:
        keywords: that were given, besides those of the call's signature.
        call: what was called, which hands them on to `delegate`.
        own: further keywords of it, which may be meant.

    Raises:
        InvalidEnvelope: it does not take one; the message says what to do.
    """
    for name in keywords:
        if name in _NO_KEYWORDS:
            raise InvalidEnvelope(f"{call}() takes no {name}: {_NO_KEYWORDS[name]}.")
        if name not in _KEYWORDS:
            hint = nearest(name, (*_KEYWORDS, *own))
            raise InvalidEnvelope(
                f"{call}() has no keyword {name!r:.80}; the capability's parameters go into the dict, as in "
                f"delegate('page.read', {{'path': …}}).{hint if '?' in hint else f' Known: {_LISTED}.'}"
            )


def check_each(options: Mapping[str, object], what: str, capability: str, to: str | None = None) -> None:
    """Check what is for each of several delegations, once for all of them.

    Raises:
        UsageError: one of the keywords can be of one delegation only, or `retry` is no policy.
        InvalidEnvelope: `delegate` has no such keyword, or a value is none that it takes.
    """
    for name in ("request_id", "external_id"):
        if options.get(name) is not None:
            raise UsageError(f"{what} makes many delegations, and {name} is of one: leave it out.")
    if what == "broadcast" and "to" in options:
        raise UsageError(
            "broadcast delegates to all holders, and to= names one: leave it out, or delegate(..., to=...)."
        )
    check_keywords(options, what, *(() if what == "broadcast" else ("window",)))
    fields = {name: value for name, value in options.items() if name not in {"context", "objective", "retry"}}
    may_be_none = {
        "to_agent": to, "timeout": fields.pop("timeout", None), "budget": fields.pop("budget", None),
        "objective": options.get("objective") or None,
    }  # fmt: skip
    given = {name: value for name, value in may_be_none.items() if value is not None}
    Delegation.parse({"request_id": to_text(new_id()), "capability": capability, **given, **fields})
    if options.get("retry") is not None:
        check_retry(options["retry"])
