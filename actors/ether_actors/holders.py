"""Who may do one thing, in the order in which it is given to them: choosing the best is O(log n), amortised. Sans-IO."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator
from typing import Final

from ether_actors.registration import Choice, Condition, Registration

__all__ = ["MOST_PASSED", "Holders"]

_RESTARTING: Final = 128
"""Delegations that an agent which restarts counts as having, besides those that it has."""
_CLEARED: Final = 2
"""Items that do not count any more that each change takes from the top."""
_SLACK: Final = 64
MOST_PASSED: Final = 256
"""Agents that one choice passes over at most."""
_MOVED: Final = 8
"""Agents that have more to do than their items say that one choice moves down at most."""
_UP: Final = Condition.UP  # a member of an Enum is looked up in Python each time that it is named
_RESTARTS: Final = Condition.RESTARTING
_Item = tuple[int, int, float, float, int, "_Member"]
"""(tier, load, weight, -confidence, turn, member); the turn is unique, so members are never compared."""


class _Member:
    """A holder and where it stands in the heap."""

    __slots__ = ("choice", "item")

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.item: _Item | None = None
        """Its valid item in the heap; None while it takes no work."""


class Holders:
    """Agents that may do one thing.

    A heap in which an agent is entered anew by `update` when it has less to do than its item says. One that has more is moved
    down when it comes to the top. The item that counts is the member's; others are dropped when they come to the top, and all
    of them once they outnumber the members.

    Not promised: that the order is exact for an agent whose load fell without `update`; and that the best of all is chosen
    where 8 and more that stand before it were given work without a choice (by name) since: then it is the best of 8.
    """

    __slots__ = ("_heap", "_members", "_only", "_turn", "passed")

    def __init__(self) -> None:
        self._members: dict[Registration, _Member] = {}
        self._heap: list[_Item] = []
        self._only: Choice | None = None
        """The one member, where there is one."""
        self._turn = 0
        self.passed = 0
        """Agents that the last choice passed over, each in O(log n)."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Choice]:
        """Everybody, whatever their condition, in the order of registering."""
        return (member.choice for member in self._members.values())

    def add(self, choice: Choice) -> None:
        """Enter an agent, or what it declares now."""
        self.discard(choice.agent)
        member = self._members[choice.agent] = _Member(choice)
        self._only = choice if len(self._members) == 1 else None
        self._enter(member)

    def discard(self, agent: Registration) -> None:
        """Take an agent out, if it is here."""
        member = self._members.pop(agent, None)
        if member is not None:
            member.item = None
        self._only = next(iter(self)) if len(self._members) == 1 else None

    def update(self, agent: Registration) -> None:
        """Note that an agent has less to do, or takes work again: its turn comes after that of its equals."""
        if self._only is not None:
            return
        member = self._members[agent]
        item = member.item
        if item is None or item[1] > _load(agent):
            self._enter(member)

    def choose(  # noqa: C901  what is at the top is of one of five kinds
        self, without: Container[Registration] = (), accepts: Callable[[Registration], bool] | None = None
    ) -> Choice | None:  # fmt: skip
        """The best that takes work: of the lowest tier, with least to do, then the lightest, then the most confident.

        Those in `without`, and those that `accepts` says no of, are passed over in O(log n) each: `MOST_PASSED` at most, and
        who comes after them is not found.
        """
        only = self._only
        if only is not None:
            agent = only.agent
            condition = agent.condition
            if (condition is not _UP and condition is not _RESTARTS) or agent in without:
                return None
            return only if accepts is None or accepts(agent) else None
        heap = self._heap
        passed: list[_Item] = []
        moved: list[_Item] = []
        best: Choice | None = None
        while heap:
            item = heap[0]
            tier, load, weight, confidence, _, member = item
            if member.item is not item:
                heapq.heappop(heap)
                continue
            choice = member.choice
            agent = choice.agent
            if agent.condition is not _UP and agent.condition is not _RESTARTS:
                heapq.heappop(heap)
                member.item = None
            elif _load(agent) > load:
                member.item = self._rank(member)
                heapq.heapreplace(heap, member.item)
                if agent not in without and (accepts is None or accepts(agent)):
                    moved.append(member.item)
                    if len(moved) == _MOVED:
                        best = min(moved)[5].choice
                        break
            elif agent in without or (accepts is not None and not accepts(agent)):
                if len(passed) == MOST_PASSED:
                    break
                passed.append(heapq.heappop(heap))
            else:
                self._turn += 1  # which goes to the next of its equals
                member.item = tier, load, weight, confidence, self._turn, member
                heapq.heapreplace(heap, member.item)
                best = choice
                break
        self.passed = len(passed)
        for item in passed:
            heapq.heappush(heap, item)
        return best

    def _enter(self, member: _Member) -> None:
        item = member.item = self._rank(member)
        heap = self._heap
        heapq.heappush(heap, item)
        for _ in range(_CLEARED):  # so that no choice has to clear away what many changes have left
            if heap[0][5].item is heap[0]:
                break
            heapq.heappop(heap)
        if len(heap) > 2 * len(self._members) + _SLACK:
            heap[:] = [member.item for member in self._members.values() if member.item is not None]
            heapq.heapify(heap)

    def _rank(self, member: _Member) -> _Item:
        choice = member.choice
        self._turn = turn = self._turn + 1
        capability = choice.capability
        return choice.tier, _load(choice.agent), capability.latency_weight, -capability.confidence, turn, member


def _load(agent: Registration) -> int:
    mailbox = agent.mailbox
    load = mailbox.waiting_count + mailbox.in_flight
    return load if agent.condition is _UP else load + _RESTARTING
