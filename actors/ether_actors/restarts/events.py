"""The events that a supervision tree is told, and the effects that it asks for (`ether_actors.restarts.restart_machine`).

A path names a child by the ids from the root down: `("root", "writers", "outline")`. An incarnation is one
life of a child, from a StartChild to its end; its number rises through the whole tree and is never used
twice.

The life of an incarnation, as whoever runs the effects (the shell) has to report it:

    StartChild ──▶ ChildStarted ──▶ ChildExited      it ended by itself
        │               └──▶ StopChild ──▶ ChildStopped
        ├──▶ ChildStartFailed                        it never came up
        └──▶ StopChild ──▶ ChildStopped              given up while it was starting
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TypeAlias

from ether_actors.restarts.supervisor_spec import ChildSpec, SupervisorSpec

__all__ = [
    "Add",
    "ChildExited",
    "ChildPath",
    "ChildStartFailed",
    "ChildStarted",
    "ChildStopped",
    "Down",
    "Effect",
    "Escalate",
    "Event",
    "Exit",
    "Gone",
    "Remove",
    "Restarted",
    "SetTimer",
    "Start",
    "StartChild",
    "Stop",
    "StopChild",
    "TimerFired",
]

ChildPath: TypeAlias = tuple[str, ...]


@unique
class Exit(Enum):
    """The way in which an incarnation ended."""

    NORMAL = "normal"
    """It had nothing more to do."""
    SHUTDOWN = "shutdown"
    """It was told to stop."""
    CRASH = "crash"
    """Anything else, also a supervisor that gave up."""
    UNSTARTED = "unstarted"
    """It never came up."""
    ASKED = "asked"
    """Something from outside that was asked of it ended it: it is started again at once, and that does not count."""


# Events: what the tree is told


@dataclass(frozen=True, slots=True)
class Start:
    """The event that starts the root and all below it. Told once, before anything else."""


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """The event that a child is up."""

    path: ChildPath
    incarnation: int | None = None
    """The number in its StartChild; None means the present one. Give it where reports can come late, as from
    another
    process: a late report of an earlier life is then known for what it is, and ignored."""


@dataclass(frozen=True, slots=True)
class ChildStartFailed:
    """The event that a child could not be started; nothing of it is left running."""

    path: ChildPath
    reason: str = ""
    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class ChildExited:
    """The event that a child has ended by itself; nothing of it is left running."""

    path: ChildPath
    reason: Exit
    detail: str = ""
    """For people and logs, such as the exception's text."""
    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class ChildStopped:
    """The event that a StopChild is done, by whatever means; nothing of the child is left running."""

    path: ChildPath
    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The event that a SetTimer is due.

    There is no way to cancel one: a token that means nothing any more is ignored.
    """

    token: int


@dataclass(frozen=True, slots=True)
class Add:
    """The event that adds a last child to a running supervisor and starts it, as OTP's `start_child`.

    If it does not come up, it is forgotten (Down, then Gone) and not tried again. It is also forgotten when the
    supervisor itself is restarted, which brings back the children of its spec and no others.
    """

    path: ChildPath
    """The supervisor's."""
    spec: ChildSpec | SupervisorSpec


@dataclass(frozen=True, slots=True)
class Remove:
    """Forget a child for good, as OTP's `terminate_child` and `delete_child`: it is not started again by a sibling's restart.

    Other than with OTP it does not come back with its supervisor's restart either. Whoever tells it stops what runs of the
    child, and no answer is awaited. Siblings that were down and waited with it for its restart are started.
    """

    path: ChildPath
    """An agent's, or a supervisor's, which is forgotten with all below it; one that is not known, or the root's, changes
    nothing."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The event that stops a tree, all children in reverse start order. It has ended when Gone is told of the root."""


# Effects: what the tree wants done


@dataclass(frozen=True, slots=True)
class StartChild:
    """The effect that starts an agent; the answer is ChildStarted or ChildStartFailed.

    Never said of a child that runs.
    """

    path: ChildPath
    spec: ChildSpec
    incarnation: int


@dataclass(frozen=True, slots=True)
class StopChild:
    """The effect that stops an agent; the answer is ChildStopped, however that is brought about.

    It may come while the agent still starts: give the start up, or stop it as soon as it is up. If the agent
    ends by itself meanwhile, ChildExited will do as the answer.
    """

    path: ChildPath
    spec: ChildSpec
    timeout: float
    """Seconds it has to finish before it is killed or abandoned; 0 is at once, `math.inf` never."""
    incarnation: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """The effect that asks for TimerFired(token) at a time; the child of `path` waits in backoff until then."""

    token: int
    at: float
    """Seconds by the clock that `now` is read from."""
    path: ChildPath


@dataclass(frozen=True, slots=True)
class Restarted:
    """A child, or a supervisor with all below it, is up again."""

    path: ChildPath
    attempt: int
    """Which restart it was since the last quiet time; 0 when it was only taken along by a sibling's."""


@dataclass(frozen=True, slots=True)
class Down:
    """The effect that an incarnation has ended, for monitors; exactly one for each StartChild and each supervisor's start."""

    path: ChildPath
    reason: Exit
    detail: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The effect that a child will not be started again: what is in its mailbox has no reader.

    Until this is said, a child that is down is to come back, and its mailbox is kept. A transient child that
    ended normally can yet be started by a sibling's restart; StartChild says so.
    """

    path: ChildPath


@dataclass(frozen=True, slots=True)
class Escalate:
    """The effect that the root of a supervision tree gave up or could not start; nothing of the tree runs any more.

    There is nobody above to decide but you.
    """

    path: ChildPath
    reason: str


Event: TypeAlias = (
    Start | ChildStarted | ChildStartFailed | ChildExited | ChildStopped | TimerFired | Add | Remove | Stop
)
Effect: TypeAlias = StartChild | StopChild | SetTimer | Restarted | Down | Gone | Escalate
