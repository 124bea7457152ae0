"""The invariant of priorities: none waits while others begin more often than by their shares."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ether_actors.supervisor.registry.registration import Condition
from ether_actors.task.work_item import Work
from ether_broker.envelope.priority import HIGH, LOW, NORMAL, priority_of
from ether_broker.mailbox.mailbox import Mailbox

if TYPE_CHECKING:
    from ether_actors.agent.inbox import Inbox
    from ether_actors.supervisor.state.ledger import Entry
    from ether_actors.supervisor.supervisor import Supervisor

__all__ = ["MOST", "Priorities", "Turns", "waiting_in"]

_I = TypeVar("_I")
MOST: Final = {HIGH: 2, NORMAL: 9, LOW: 40}
"""{priority: items of others that may be taken, one after the other, while one of it waits}, whatever comes and goes."""

_NAMES: Final = {HIGH: "high", NORMAL: "normal", LOW: "low"}


class Turns:
    """Counts for each priority what is taken of others while it waits."""

    def __init__(self) -> None:
        self._first: list[Any] = [None, None, None]
        """Of each priority what waited longest."""
        self._passed = [0, 0, 0]
        """Items of others that were taken since it waits, or since one of its priority was taken."""

    def see(self, taken: Iterable[int], waiting: Sequence[Container[Any] | None]) -> int | None:
        """Take note of what was taken since the last call.

        Args:
            taken: the priority of each.
            waiting: what waits now, of each priority.

        Returns:
            The priority that has waited for too many others; None if none has.
        """
        counts = [0, 0, 0]
        for priority in taken:
            counts[priority] += 1
        for priority, items in enumerate(waiting):
            first = self._first[priority]
            if counts[priority] or first is None or not items or first not in items:
                self._passed[priority] = 0
            else:
                self._passed[priority] += sum(counts)
            self._first[priority] = next(iter(items), None) if items else None  # type: ignore[call-overload]
        return next((priority for priority in MOST if self._passed[priority] > MOST[priority]), None)


class Priorities:
    """Who sees the mailboxes of the broker after each of its steps, and the inboxes of the nodes when a handler begins."""

    def __init__(self) -> None:
        self._boxes: dict[Mailbox[Entry], tuple[Turns, list[Entry]]] = {}
        self._inboxes: dict[Inbox, Turns] = {}

    def broker_began(self) -> None:
        """Forget the mailboxes of the broker before."""
        self._boxes.clear()

    def stepped(self, supervisor: Supervisor, *, is_moving: bool) -> str:
        """Look at all mailboxes.

        Args:
            supervisor: has them.
            is_moving: whether something may have been put back into one, or taken out for another agent, in this step.

        Returns:
            What has waited for too many others; empty if nothing has.
        """
        boxes: dict[Mailbox[Entry], tuple[Turns, list[Entry]]] = {}
        found = ""
        for agent in supervisor.state.registry.agents:
            box = agent.mailbox
            if not box.waiting_count:
                continue
            turns, before = self._boxes.get(box) or (Turns(), [])
            now = list(box._waiting)
            waiting = _by_priority(now, lambda entry: entry.priority)
            gone = set(before).difference(now)
            is_given = agent.condition is Condition.UP and not is_moving
            taken = [entry.priority for entry in gone if is_given and entry.holds_credit and entry.agent is agent]
            found = found or _told(turns.see(taken, waiting), f"the mailbox of {agent.name!r}")
            boxes[box] = turns, now
        self._boxes = boxes
        return found

    def began(self, inbox: Inbox, priority: int, name: str) -> str:
        """See a handler begin; give what has waited for too many others, empty if nothing has."""
        waiting = _by_priority(waiting_in(inbox), lambda work: priority_of(work.header.flags))
        return _told(self._inboxes.setdefault(inbox, Turns()).see([priority], waiting), f"the inbox of {name!r}")


def waiting_in(inbox: Inbox) -> list[Work]:
    """The delegations that wait for an agent, each priority's oldest first."""
    high, low = inbox._rare or ((), ())
    return [work for work in (*high, *(inbox.messages or ()), *low) if isinstance(work, Work)]


def _by_priority(items: Iterable[_I], priority: Callable[[_I], int]) -> tuple[list[_I], list[_I], list[_I]]:
    """What waits by what its delegator said, whichever class it stands in."""
    found: tuple[list[_I], list[_I], list[_I]] = ([], [], [])
    for item in items:
        found[priority(item)].append(item)
    return found


def _told(priority: int | None, place: str) -> str:
    return "" if priority is None else f"{_NAMES[priority]} delegations wait in {place}, and others take all turns"
