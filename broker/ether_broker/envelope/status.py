"""The status table of a delegation: which codes there are, which end it, and what each means elsewhere."""

from __future__ import annotations

from enum import IntEnum, StrEnum, unique
from typing import Final

__all__ = ["GOOD", "INTERIM", "UNFINISHED", "AgentStatus", "Status"]


@unique
class AgentStatus(StrEnum):
    """The three outcomes of a task in the words of spec 1 §3.1, as `AgentOutput` has them.

    Example:
        assert Status.COMPLETED.agent_status is AgentStatus.SUCCESS
        assert Status.TIMEOUT.agent_status is AgentStatus.ERROR
    """

    SUCCESS = "success"
    ERROR = "error"
    PARTIAL = "partial"


@unique
class Status(IntEnum):
    """The status of a delegation; the number is the status byte on the wire.

    Codes 1 to 6 are spec 2 §6.5's. The others are extensions, registered the way spec 2 §15 asks
    (docs/guarantees.md has the failure matrix, `ether_actors.observers.metrics.definitions` the metrics).

    Example:
        status = bus.delegate("text.count", {"text": "two words"}).result().status
        assert status is Status.COMPLETED
        assert status.is_terminal and not status.is_rejection
    """

    ACCEPTED = 1
    """The specialist has started, and still works: a heartbeat of long work."""
    COMPLETED = 2
    """The work is done as asked."""
    REJECTED_CAPABILITY = 3
    """Nobody may do this; re-route it or report a gap. Nothing was begun."""
    REJECTED_CONTEXT = 4
    """Something needed is missing or of the wrong type; `required_fields` and `unexpected_fields` say what.
    Nothing was begun."""
    TIMEOUT = 5
    """The deadline passed. The supervisor alone says so."""
    FAILED_EXECUTION = 6
    """The handler raised, or its node was lost; `error` says which."""
    PROGRESS = 7
    """Extension: partial output of work that goes on."""
    PARTIAL = 8
    """Extension: ended early by budget or deadline, or parts failed; `unresolved` says what."""
    NEEDS_INPUT = 9
    """Extension: ended with questions; the answer is a new delegation in the same conversation."""
    REJECTED_OVERLOAD = 10
    """Extension: a bound was reached; `retry_after` says when to try again. Nothing was begun."""
    CANCELLED = 11
    """Extension: the delegator, or an ancestor's end, cancelled it."""

    def __str__(self) -> str:
        """The code's name, as people and logs write it."""
        return self.name

    def __format__(self, spec: str) -> str:
        """The name too: f"{status}" says what str(status) says."""
        return format(self.name, spec)

    @property
    def is_terminal(self) -> bool:
        """Whether it ends the delegation; nothing after it changes anything."""
        return self not in INTERIM

    @property
    def is_rejection(self) -> bool:
        """Whether it was refused before any work."""
        return self in _REJECTIONS

    @property
    def agent_status(self) -> AgentStatus:
        """The same in spec 1's words; running work has none yet and counts as `PARTIAL`."""
        if self is Status.COMPLETED:
            return AgentStatus.SUCCESS
        return AgentStatus.PARTIAL if self in UNFINISHED else AgentStatus.ERROR

    @classmethod
    def of_agent_status(cls, status: AgentStatus) -> Status:
        """The code that spec 1's word stands for: success, error and partial each have one."""
        return _OF_AGENT_STATUS[status]


INTERIM: Final = frozenset({Status.ACCEPTED.value, Status.PROGRESS.value})
"""The codes that do not end a delegation; plain numbers, as headers have them."""
_REJECTIONS = frozenset({Status.REJECTED_CAPABILITY, Status.REJECTED_CONTEXT, Status.REJECTED_OVERLOAD})
UNFINISHED: Final = frozenset({Status.ACCEPTED, Status.PROGRESS, Status.PARTIAL, Status.NEEDS_INPUT})
"""The codes that are `partial` in spec 1's words."""
GOOD: Final = 0.7
"""The confidence from which an answer is a success, used without a caveat (spec 3, "Partial Success Handling")."""
_OF_AGENT_STATUS = {
    AgentStatus.SUCCESS: Status.COMPLETED,
    AgentStatus.ERROR: Status.FAILED_EXECUTION,
    AgentStatus.PARTIAL: Status.PARTIAL,
}
