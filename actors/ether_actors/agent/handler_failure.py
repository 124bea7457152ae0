"""The answer to a handler's exception, on the bus and off it, and whether its agent has crashed with it."""

from __future__ import annotations

import traceback
from typing import Any, Final

from ether_actors.agent.declarations.capability import WrongResult
from ether_actors.task.amount import is_amount
from ether_actors.task.parameter_errors import ParameterError
from ether_actors.task.work_item import Work
from ether_broker.asyncio_checks import is_cancellation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import AgentCrash, BudgetExceeded, EtherError, LeaseLost, OutcomeError
from ether_broker.text import error_text

__all__ = ["error_response", "is_crash", "judge", "told_of"]

_RETRYABLE: Final = frozenset({AgentCrash.code, "agent_restarted", LeaseLost.code, "node_full"})
"""Codes of what may go well the next time."""


def judge(work: Work, agent: str, error: BaseException, now: float) -> tuple[Response, bool]:
    """The outcome of work that raised, and whether the agent has crashed; `now` is seconds since 1970."""
    if work.cancelled and not isinstance(error, ParameterError):
        return error_response(work, agent, Status.CANCELLED, "cancelled", "The handler was cancelled.", now), False
    if is_cancellation(error) and work.is_orphaned:
        message = f"{agent} crashed while it worked on this."
        return error_response(work, agent, Status.FAILED_EXECUTION, "agent_restarted", message, now), False
    if work.task is None and isinstance(error, EtherError):
        return error_response(work, agent, Status.REJECTED_CONTEXT, error.code, error_text(error), now), False
    return error_response(work, agent, now=now, **told_of(error)), is_crash(error)


def told_of(error: BaseException) -> dict[str, Any]:
    """What is answered when a handler raised it, or its parameters raised it: arguments of `error_response`."""
    if isinstance(error, ParameterError):
        return {"status": Status.REJECTED_CONTEXT, "code": "misfit", "message": error_text(error), **error.fields}
    code = AgentCrash.code if is_crash(error) else "exception"
    code = type(error).code if isinstance(error, EtherError) else code  # of an outcome: not that one's own
    words = error_text(error)
    message = words if isinstance(error, OutcomeError) else f"{type(error).__name__}: {words}"
    if isinstance(error, BudgetExceeded):
        return {"status": Status.PARTIAL, "code": code, "message": message, "unresolved": (words,)}
    trace = "".join(traceback.format_exception(error))
    code = "wrong_result" if isinstance(error, WrongResult) else code
    said: dict[str, Any] = {"status": Status.FAILED_EXECUTION, "code": code, "message": message, "traceback": trace}
    if code == "exception" and getattr(error, "retryable", False) is True:
        after = getattr(error, "retry_after", None)
        said |= {"retryable": True, "retry_after": after if is_amount(after) else None}
    return said


def is_crash(error: BaseException) -> bool:
    """Whether an agent that raised it is to be restarted: it asked for it, or it meant to end the process."""
    return isinstance(error, AgentCrash) or not (isinstance(error, Exception) or is_cancellation(error))


def error_response(  # noqa: PLR0917  an error's parts, in the order of the response's
    work: Work, agent: str, status: Status, code: str, message: str, now: float, *, traceback: str | None = None,
    retryable: bool = False, **fields: Any,
) -> Response:  # fmt: skip
    """An outcome that is an error."""
    task = work.task
    return Response(
        request_id=to_text(work.header.request_id), status=status, from_agent=agent, summary=message,
        error=ErrorInfo(code=code, message=message, retryable=retryable or code in _RETRYABLE, traceback=traceback),
        attempt=work.header.attempt, elapsed=None if task is None else task.elapsed, timestamp=now, **fields,
    )  # fmt: skip
