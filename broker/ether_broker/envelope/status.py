"""The status table of a delegation: which codes there are, which end it, and what each means elsewhere."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Final

__all__ = ["BY_CODE", "BY_WORD", "GOOD", "INTERIM", "UNFINISHED", "AgentStatus", "Status"]


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
class Status(StrEnum):
    """The status of a delegation: a word, which compares with other text, and has a `code` on the wire.

    Codes 1 to 6 are spec 2 §6.5's. The others are extensions, registered the way spec 2 §15 asks
    (docs/guarantees.md has the failure matrix, `ether_actors.observers.metrics.definitions` the metrics).

    Example:
        status = bus.delegate("text.count", {"text": "two words"}).result().status
        assert status is Status.COMPLETED and status == "COMPLETED"
        assert status.is_terminal and not status.is_rejection
    """

    ACCEPTED = "ACCEPTED"
    """The specialist has started, and still works: a heartbeat of long work."""
    COMPLETED = "COMPLETED"
    """The work is done as asked."""
    REJECTED_CAPABILITY = "REJECTED_CAPABILITY"
    """Nobody may do this; re-route it or report a gap. Nothing was begun."""
    REJECTED_CONTEXT = "REJECTED_CONTEXT"
    """Something needed is missing or of the wrong type; `required_fields` and `unexpected_fields` say what.
    Nothing was begun."""
    TIMEOUT = "TIMEOUT"
    """The deadline passed. The supervisor alone says so."""
    FAILED_EXECUTION = "FAILED_EXECUTION"
    """The handler raised, or its node was lost; `error` says which."""
    PROGRESS = "PROGRESS"
    """Extension: partial output of work that goes on."""
    PARTIAL = "PARTIAL"
    """Extension: ended early by budget or deadline, or parts failed; `unresolved` says what."""
    NEEDS_INPUT = "NEEDS_INPUT"
    """Extension: ended with questions; the answer is a new delegation in the same conversation."""
    REJECTED_OVERLOAD = "REJECTED_OVERLOAD"
    """Extension: a bound was reached; `retry_after` says when to try again. Nothing was begun."""
    CANCELLED = "CANCELLED"
    """Extension: the delegator, or an ancestor's end, cancelled it."""

    def __repr__(self) -> str:
        """The member, as it is written."""
        return f"Status.{self.value}"

    @property
    def code(self) -> int:
        """The status byte on the wire."""
        return BY_WORD[self]

    @property
    def is_terminal(self) -> bool:
        """Whether it ends the delegation; nothing after it changes anything."""
        return self.code not in INTERIM

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
    def _missing_(cls, value: object) -> Status | None:
        """A document may have the code instead of the word."""
        return BY_CODE.get(value) if type(value) is int else None

    @classmethod
    def of_code(cls, code: int) -> Status:
        """The status that has a code on the wire.

        Raises:
            ValueError: none has it.
        """
        status = BY_CODE.get(code)
        if status is None:
            raise ValueError(f"{code!r} is no status code; there are 1 to {len(cls)}.")
        return status

    @classmethod
    def of_agent_status(cls, status: AgentStatus) -> Status:
        """The code that spec 1's word stands for: success, error and partial each have one."""
        return _OF_AGENT_STATUS[status]


BY_WORD: Final = {
    Status.ACCEPTED: 1,
    Status.COMPLETED: 2,
    Status.REJECTED_CAPABILITY: 3,
    Status.REJECTED_CONTEXT: 4,
    Status.TIMEOUT: 5,
    Status.FAILED_EXECUTION: 6,
    Status.PROGRESS: 7,
    Status.PARTIAL: 8,
    Status.NEEDS_INPUT: 9,
    Status.REJECTED_OVERLOAD: 10,
    Status.CANCELLED: 11,
}
"""{status: its code on the wire}."""
BY_CODE: Final = {code: status for status, code in BY_WORD.items()}
"""{code: status}."""
INTERIM: Final = frozenset({Status.ACCEPTED.code, Status.PROGRESS.code})
"""The codes that do not end a delegation, as headers have them."""
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
