"""The exit codes of `ether`; scripts may rely on these numbers, and `docs/cli.md` has the same table.

     0  OK            done
     1  FAILED        the work failed, a task of a review failed, a check of `doctor` did, or a journal is not what was written
     2  USAGE         the command line, a file or a value is wrong; nothing was sent
     3  UNAVAILABLE   no broker answers, its address is taken, it does not let us in, a process of `up` did not come up, or
                      a journal cannot be used now
     4  TIMEOUT       the deadline passed
     5  REJECTED      refused before any work: capability, context or overload
     6  UNFINISHED    an answer, but not the whole of it: PARTIAL or NEEDS_INPUT
     7  CANCELLED     the work was cancelled
     8  INCOMPATIBLE  the other end speaks another version, or not this protocol, or a newer Ether wrote the journal
    70  SOFTWARE      a bug of Ether's; of `up` and `node`, that something crashed again and again
   130  INTERRUPTED   Ctrl-C
   141  PIPE          whoever read the output went away

As is the custom, 128 and a signal's number is the code of a process that the signal ended.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Final

from ether_broker import errors
from ether_broker.envelope.status import Status

__all__ = ["ExitCode", "code_of_error", "code_of_status"]


@unique
class ExitCode(IntEnum):
    """The exit codes of the command `ether`; the module's docstring is the table."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    TIMEOUT = 4
    REJECTED = 5
    UNFINISHED = 6
    CANCELLED = 7
    INCOMPATIBLE = 8
    SOFTWARE = 70
    INTERRUPTED = 130
    PIPE = 141


_OF_STATUS: Final = {
    Status.COMPLETED: ExitCode.OK,
    Status.FAILED_EXECUTION: ExitCode.FAILED,
    Status.TIMEOUT: ExitCode.TIMEOUT,
    Status.PARTIAL: ExitCode.UNFINISHED,
    Status.NEEDS_INPUT: ExitCode.UNFINISHED,
    Status.CANCELLED: ExitCode.CANCELLED,
}

# The first that fits counts: a base stands below what derives from it.
_OF_ERROR: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (errors.WaitTimeout, ExitCode.TIMEOUT),
    (errors.UsageError, ExitCode.USAGE),
    (errors.AccessDenied, ExitCode.REJECTED),
    (errors.Forbidden, ExitCode.UNAVAILABLE),
    (errors.Unavailable, ExitCode.UNAVAILABLE),
    (errors.ProtocolError, ExitCode.INCOMPATIBLE),
    (errors.InternalError, ExitCode.SOFTWARE),
)


def code_of_status(status: Status) -> ExitCode:
    """The exit code of a delegation that ended with this status."""
    return ExitCode.REJECTED if status.is_rejection else _OF_STATUS[status]


def code_of_error(error: BaseException) -> ExitCode:
    """The exit code of a command that ended with this error; FAILED for one that has no row of its own."""
    if isinstance(error, errors.OutcomeError):
        return code_of_status(error.response.status)
    return next((code for kind, code in _OF_ERROR if isinstance(error, kind)), ExitCode.FAILED)
