"""Three classes, each first in, first out, each with its share."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ether_broker.envelope.priority import HIGH, LOW, NORMAL, priority_of
from ether_broker.mailbox.priority_queue import PriorityQueue, RebalancedQueue
from ether_broker.wire.frame import Flag
from tests.simulation.priorities import Turns

CLASSES = st.sampled_from([HIGH, NORMAL, LOW])


class Queues(RuleBasedStateMachine):
    """A queue beside three lists."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: PriorityQueue[int] = PriorityQueue()
        self.lists: dict[int, list[int]] = {HIGH: [], NORMAL: [], LOW: []}
        self.numbers = 0
        self.passed: Counter[int] = Counter()
        """{class that waits: how many of others have been taken since}."""

    def new(self) -> int:
        self.numbers += 1
        return self.numbers

    @rule(priority=CLASSES)
    def append(self, priority: int) -> None:
        self.queue.append(item := self.new(), priority)
        self.lists[priority].append(item)

    @rule(priority=CLASSES)
    def put_back(self, priority: int) -> None:
        self.queue.put_back(item := self.new(), priority)
        self.lists[priority].insert(0, item)

    @rule(data=st.data(), priority=CLASSES)
    def discard(self, data: st.DataObject, priority: int) -> None:
        if self.lists[priority]:
            item = data.draw(st.sampled_from(self.lists[priority]))
            self.queue.discard(item, priority)
            self.lists[priority].remove(item)

    @rule()
    def pop(self) -> None:
        waiting = [priority for priority, items in self.lists.items() if items]
        item = self.queue.pop()
        if not waiting:
            assert item is None
            return
        chosen = next(priority for priority in waiting if self.lists[priority][0] == item)
        self.lists[chosen].pop(0)
        for priority in self.lists:
            self.passed[priority] = self.passed[priority] + 1 if priority in waiting and priority != chosen else 0
            assert self.passed[priority] <= 3 * 21, "it starves"

    @invariant()
    def it_has_the_same(self) -> None:
        assert list(self.queue) == [item for priority in (HIGH, NORMAL, LOW) for item in self.lists[priority]]
        assert len(self.queue) == sum(map(len, self.lists.values()))


TestQueues = Queues.TestCase
TestQueues.settings = settings(max_examples=100, stateful_step_count=60)


def test_of_21_that_are_taken_16_are_high_and_one_is_low() -> None:
    queue: PriorityQueue[tuple[int, int]] = PriorityQueue()
    for number in range(100):
        for priority in (LOW, NORMAL, HIGH):
            queue.append((priority, number), priority)
    taken = [queue.pop() for _ in range(63)]

    assert Counter(item[0] for item in taken if item) == {HIGH: 48, NORMAL: 12, LOW: 3}
    for priority in (HIGH, NORMAL, LOW):
        numbers = [item[1] for item in taken if item and item[0] == priority]
        assert numbers == sorted(numbers)


def test_the_flags_of_a_header_say_the_priority() -> None:
    found = [
        priority_of(int(flags))
        for flags in (Flag.NONE, Flag.HIGH, Flag.LOW, Flag.HIGH | Flag.LOW, Flag.VOLATILE | Flag.LOW)
    ]
    assert found == [NORMAL, HIGH, LOW, NORMAL, LOW]


class RebalancedQueues(Queues):
    """A queue whose odd numbers may wait in another too."""

    def __init__(self) -> None:
        super().__init__()
        self.old = [self.new() for _ in range(3)]
        for item in self.old:
            self.queue.append(item, NORMAL)
            self.lists[NORMAL].append(item)
        self.rebalanced: RebalancedQueue[int] = RebalancedQueue(self.queue, lambda item: item % 2 == 1)
        self.queue = self.rebalanced
        self.withheld: set[int] = {*self.old}

    @rule(data=st.data())
    def withhold(self, data: st.DataObject) -> None:
        if items := list(self.queue):
            self.withheld.add(item := data.draw(st.sampled_from(items)))
            self.rebalanced.withhold(item)

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        for items in self.lists.values():
            items.clear()

    @invariant()
    def it_knows_which_may_wait_in_another(self) -> None:
        expected = [item for item in self.queue if item % 2 and item not in self.withheld]
        assert list(self.rebalanced.movable) == expected


TestRebalancedQueues = RebalancedQueues.TestCase
TestRebalancedQueues.settings = settings(max_examples=100, stateful_step_count=60)


@given(st.integers(min_value=0))
def test_no_priority_waits_for_many_others_whatever_comes_and_goes(seed: int) -> None:
    chance = random.Random(seed)
    queue: PriorityQueue[int] = PriorityQueue()
    turns, likelihoods = Turns(), [0.0, 0.0, 0.0]
    for number in range(300):
        if number % 10 == 0:
            likelihoods = [chance.choice((0.0, 0.1, 0.3, 0.6)) for _ in range(3)]
        for priority in (HIGH, NORMAL, LOW):
            if chance.random() < likelihoods[priority]:
                queue.append(3 * number + priority, priority)
        item = queue.pop()

        taken = [] if item is None else [item % 3]
        classes = queue.classes if len(queue.classes) == 3 else (None, *queue.classes, None)
        assert turns.see(taken, classes) is None
