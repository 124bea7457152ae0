"""The answer to a handler's exception, on the bus and off it, and whether its agent has crashed with it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
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
from ether_broker.text import error_text, error_with_class

__all__ = ["error_response", "is_crash", "judge", "told_of"]

_RETRYABLE: Final = frozenset({AgentCrash.code, "agent_restarted", LeaseLost.code, "node_full"})
"""Codes of what may go well the next time."""
_EXCEPTIONS: Final[Callable[[BaseExceptionGroup[BaseException]], tuple[BaseException, ...]]] = (
    BaseExceptionGroup.exceptions.__get__  # as C has it: a class of a user's may say it otherwise
)
_MOST_TOLD: Final = 4
"""Exceptions of a group whose words are told."""


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
    """What is answered when a handler raised it, or its parameters raised it: arguments of `error_response`.

    A group, as `asyncio.TaskGroup` raises it, is answered as what is in it: with the code of that if it is one code, else as a
    crash if one of them is, else as an exception. It is retryable if each exception says so, all have one code, by
    which its delegator can tell whether it may be done again, and none is the outcome of a sub-delegation.
    """
    leaves = _leaves(error)
    if isinstance(leaves[0], ParameterError):
        return {"status": Status.REJECTED_CONTEXT, "code": "misfit", "message": error_text(error), **leaves[0].fields}
    codes = {_code(leaf) for leaf in leaves}
    message = "; ".join(_message(leaf) for leaf in leaves[:_MOST_TOLD])
    message += f" (and {len(leaves) - _MOST_TOLD:,} more)" if len(leaves) > _MOST_TOLD else ""
    if codes == {BudgetExceeded.code}:
        words = tuple(map(error_text, leaves[:_MOST_TOLD]))
        return {"status": Status.PARTIAL, "code": BudgetExceeded.code, "message": message, "unresolved": words}
    code = next(iter(codes)) if len(codes) == 1 else AgentCrash.code if AgentCrash.code in codes else "exception"
    trace = "".join(traceback.format_exception(error))
    said: dict[str, Any] = {"status": Status.FAILED_EXECUTION, "code": code, "message": message, "traceback": trace}
    if len(codes) == 1 and code != AgentCrash.code and all(map(_is_retryable, leaves)):
        told = [getattr(leaf, "retry_after", None) for leaf in leaves]
        afters = [after for after in told if after is not None and is_amount(after)]
        said |= {"retryable": True, "retry_after": max(afters) if afters else None}
    return said


def _is_retryable(error: BaseException) -> bool:
    """Whether an exception says that the same may go well later; what an outcome said is its delegator's to try again."""
    return getattr(error, "retryable", False) is True and not isinstance(error, OutcomeError)


def is_crash(error: BaseException) -> bool:
    """Whether an agent that raised it, or a group with it, is to be restarted: it asked for it, or meant to end the process."""
    return any(_code(leaf) == AgentCrash.code for leaf in _leaves(error))


def _leaves(error: BaseException) -> list[BaseException]:
    """What is in a group, however deep; else the exception itself."""
    left, leaves, seen = [error], list[BaseException](), set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, BaseExceptionGroup):
            left += reversed(_EXCEPTIONS(one))
        else:
            leaves.append(one)
    return leaves


def _code(error: BaseException) -> str:
    if isinstance(error, AgentCrash) or not (isinstance(error, Exception) or is_cancellation(error)):
        return AgentCrash.code
    if isinstance(error, WrongResult):
        return "wrong_result"
    return type(error).code if isinstance(error, EtherError) else "exception"  # of an outcome: not that one's own


def _message(error: BaseException) -> str:
    return error_text(error) if isinstance(error, OutcomeError) else error_with_class(error)


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
