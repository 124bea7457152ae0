"""The check of a handler's answer against the delegation's budget and output contract."""

from __future__ import annotations

from typing import Any, Final

from ether_actors.task.output_contract import misses
from ether_actors.task.task import Task
from ether_broker.encoding.frozen import freeze
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status

__all__ = ["checked"]

_ANSWERS: Final = frozenset({Status.COMPLETED, Status.PARTIAL})


def checked(task: Task, response: Response) -> Response:
    """The response as it is sent: COMPLETED only when budget and contract held, else PARTIAL; `unresolved` says what did not.

    PARTIAL says so too. Another outcome keeps its status and is held to the budget alone, as it is no answer. The metadata
    tells the cost, the tokens and the iterations of the task and its sub-delegations together.
    """
    delegation = task.delegation
    contract = delegation.output_contract
    totals, broken = task.budget.close(response)
    if contract is not None and response.status in _ANSWERS:
        broken = (*misses(contract, response), *broken)
    update: dict[str, Any] = {}
    if totals:
        update["metadata"] = freeze({**response.metadata, **totals})
    if broken:
        if response.status is Status.COMPLETED:
            update["status"] = Status.PARTIAL
        update["unresolved"] = tuple(dict.fromkeys((*response.unresolved, *broken)))
    return response.model_copy(update=update)
