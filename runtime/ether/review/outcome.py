"""The outcome of one task of a review."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ether.review.plan import ReviewTask
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import AgentStatus, Status
from ether_broker.errors import EtherError

__all__ = ["Outcome"]

_MOST: Final = 1e9
"""Seconds, and dollars, that are believed of one task."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A terminal response, as the report needs it."""

    task: ReviewTask
    status: Status
    request_id: str = ""
    agent: str = ""
    seconds: float = 0.0
    """From the start of the handler to its end."""
    cost: float = 0.0
    """US dollars; static analysis costs nothing, an agent that asks a model may say what it paid."""
    attempt: int = 1
    data: dict[str, Any] = field(default_factory=dict)
    code: str = ""
    """Of the error; empty when there is none."""
    message: str = ""
    unresolved: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the whole of the task was done."""
        return self.status is Status.COMPLETED

    @property
    def has_result(self) -> bool:
        """Whether there is something to report: all of it, or a part."""
        return self.status.agent_status is not AgentStatus.ERROR and bool(self.data)

    @property
    def result(self) -> dict[str, Any]:
        """What the pass found, if `has_result`."""
        found: dict[str, Any] = self.data["passes"][self.task.pass_name.value]
        return found

    @property
    def reason(self) -> str:
        """What kept it from being whole."""
        return "; ".join(self.unresolved) if self.has_result else self.message

    @classmethod
    def of(cls, task: ReviewTask, response: Response) -> Outcome:
        """Read a terminal response."""
        data = response.data_payload.thawed()
        cost = response.metrics.get("cost", response.metadata.get("cost", 0.0))
        return cls(
            task=task,
            status=response.status,
            request_id=response.request_id,
            agent=response.from_agent or "",
            seconds=min(response.elapsed or 0.0, _MOST),
            cost=min(float(cost), _MOST) if isinstance(cost, (int, float)) and cost > 0 else 0.0,
            attempt=response.attempt,
            data=data if isinstance(data, dict) else {},
            code=response.error.code if response.error else "",
            message=response.error.message if response.error else response.summary,
            unresolved=tuple(response.unresolved),
        )

    @classmethod
    def undelivered(cls, task: ReviewTask, error: EtherError) -> Outcome:
        """For a delegation that the bus did not even take."""
        return cls(task, Status.FAILED_EXECUTION, code=error.code, message=str(error))
