"""What a handler's exception is answered, and whether its agent has crashed with it."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from ether_actors.capability import Misfit, WrongResult
from ether_actors.work import Work
from ether_broker.errors import AgentCrash, BudgetExceeded, EtherError
from ether_broker.ids import to_text
from ether_broker.response import ErrorInfo, Response
from ether_broker.status import Status

__all__ = ["is_crash", "judge", "refusal"]


def judge(work: Work, agent: str, error: BaseException, now: float) -> tuple[Response, bool]:
    """The outcome of work that raised, and whether the agent has crashed; `now` is seconds since 1970."""
    if isinstance(error, Misfit):
        fields: dict[str, Any] = error.fields
        return refusal(work, agent, Status.REJECTED_CONTEXT, "misfit", str(error), now, **fields), False
    if work.cancelled:
        return refusal(work, agent, Status.CANCELLED, "cancelled", "The handler was called off.", now), False
    if _is_cancellation(error) and work.is_orphaned:
        message = f"{agent} crashed while it worked on this."
        return refusal(work, agent, Status.FAILED_EXECUTION, "agent_crashed", message, now), False
    if work.task is None and isinstance(error, EtherError):
        return refusal(work, agent, Status.REJECTED_CONTEXT, error.code, str(error), now), False
    code = type(error).code if isinstance(error, EtherError) else "exception"  # of an outcome: not that one's own
    code = "wrong_result" if isinstance(error, WrongResult) else code
    trace = "".join(traceback.format_exception(error))
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, BudgetExceeded):
        return refusal(work, agent, Status.PARTIAL, code, message, now, unresolved=(str(error),)), False
    failure = refusal(work, agent, Status.FAILED_EXECUTION, code, message, now, traceback=trace)
    return failure, is_crash(error)


def is_crash(error: BaseException) -> bool:
    """Whether an agent that raised it is to be restarted: it asked for it, or it meant to end the process."""
    return isinstance(error, AgentCrash) or not (isinstance(error, Exception) or _is_cancellation(error))


def refusal(  # noqa: PLR0917  an error's parts, in the order of the response's
    work: Work, agent: str, status: Status, code: str, message: str, now: float, *, traceback: str | None = None,
    **fields: Any,
) -> Response:  # fmt: skip
    """An outcome that is an error."""
    task = work.task
    return Response(
        request_id=to_text(work.header.request_id), status=status, from_agent=agent, summary=message,
        error=ErrorInfo(code=code, message=message, traceback=traceback), attempt=work.header.attempt,
        elapsed=None if task is None else task.elapsed, timestamp=now, **fields,
    )  # fmt: skip


def _is_cancellation(error: BaseException) -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)
