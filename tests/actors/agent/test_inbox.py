"""The inbox alone, and against a model with places, turns and restarts."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.agent.inbox import Inbox
from ether_broker.envelope.priority import HIGH, LOW, NORMAL
from ether_broker.errors import Closed, MailboxFull


class Turns:
    """Counts the turns that an inbox asks for."""

    def __init__(self) -> None:
        self.wanted = 0

    def __call__(self) -> None:
        self.wanted += 1


def started(places: int = 1, limit: int = 10) -> tuple[Inbox, Turns]:
    inbox, turns = Inbox(limit, places), Turns()
    inbox.start(turns)
    return inbox, turns


def test_a_message_asks_for_a_turn_and_those_behind_it_ride_along():
    inbox, turns = started()
    for number in range(3):
        inbox.put(number)
    assert turns.wanted == 1

    handled = [inbox.take(begins=True)]
    while (message := inbox.take(frees=True)) is not None:
        handled.append(message)

    assert handled == [0, 1, 2]
    assert (inbox.busy, inbox.empty(), turns.wanted) == (0, True, 1)


def test_what_is_over_the_limit_is_refused_and_never_waited_for():
    inbox, _ = started(limit=2)
    inbox.put(1)
    inbox.put(2)

    with pytest.raises(MailboxFull, match="2 messages wait"):
        inbox.put(3)

    assert len(inbox) == 2


def test_each_place_takes_one_message_and_no_more_are_taken_than_there_are_places():
    inbox, turns = started(places=2)
    for number in range(3):
        inbox.put(number)
    assert turns.wanted == 2

    assert [inbox.take(begins=True), inbox.take(begins=True), inbox.take()] == [0, 1, None]
    inbox.done()

    assert turns.wanted == 3
    assert inbox.take(begins=True) == 2


def test_messages_that_came_before_the_start_get_their_turns_then():
    inbox, turns = Inbox(places=2), Turns()
    for number in range(3):
        inbox.put(number)

    inbox.start(turns)

    assert turns.wanted == 2


def test_a_paused_inbox_keeps_messages_and_hands_none_out_until_it_is_started_again():
    inbox, turns = started()
    inbox.put("before")
    inbox.pause()
    assert inbox.take(begins=True) is None
    inbox.put("meanwhile")
    assert turns.wanted == 1

    inbox.start(turns)

    assert turns.wanted == 2
    assert [inbox.take(begins=True), inbox.take(frees=True), inbox.take(frees=True)] == ["before", "meanwhile", None]


def test_a_closed_inbox_gives_back_what_was_never_handled_and_takes_nothing_more():
    inbox, _ = started(limit=5)
    inbox.put("work")
    inbox.put("more")

    assert inbox.close() == ["work", "more"]
    with pytest.raises(Closed):
        inbox.put("late")
    assert (inbox.take(begins=True), inbox.close(), len(inbox)) == (None, [], 0)


def test_waiting_messages_can_be_taken_out_by_kind():
    inbox, _ = started()
    for message in (1, "a", 2, "b"):
        inbox.put(message)

    assert inbox.drain(lambda message: isinstance(message, str)) == [1, 2]
    assert inbox.close() == ["a", "b"]


def test_what_is_discarded_is_given_to_nobody_and_makes_room():
    inbox, turns = started(limit=4)
    for priority in (NORMAL, HIGH, LOW):
        inbox.put(f"{priority} stays", priority)
    inbox.put("goes")

    assert inbox.discard("goes")

    assert (len(inbox), inbox.discard("goes")) == (3, False)
    for priority in (HIGH, LOW):
        inbox.put(f"{priority} goes", priority)
        assert inbox.discard(f"{priority} goes")
    assert (len(inbox), turns.wanted) == (3, 1)
    handled = [inbox.take(begins=True), *(inbox.take(frees=True) for _ in range(3))]
    assert handled == [f"{HIGH} stays", f"{NORMAL} stays", f"{LOW} stays", None]


def test_what_is_being_handled_cannot_be_discarded():
    inbox, _ = started()
    inbox.put("begun")
    assert inbox.take(begins=True) == "begun"

    assert not inbox.discard("begun")
    assert inbox.busy == 1


def test_a_turn_for_what_was_discarded_finds_nothing_and_the_next_message_asks_for_one_again():
    inbox, turns = started()
    inbox.put("goes")
    inbox.discard("goes")
    assert (inbox.take(begins=True), inbox.busy, inbox.idle().is_set()) == (None, 0, True)

    inbox.put("next")

    assert (turns.wanted, inbox.take(begins=True)) == (2, "next")


@pytest.mark.parametrize("state", ["paused", "never started"])
def test_what_waits_for_an_actor_that_takes_no_turns_can_be_discarded(state: str):
    inbox = Inbox()
    if state == "paused":
        inbox.start(Turns())
        inbox.pause()
    inbox.put("goes")
    inbox.put("stays")

    assert inbox.discard("goes")

    inbox.start(turns := Turns())
    assert (turns.wanted, inbox.close()) == (1, ["stays"])
    assert not inbox.discard("stays")


def test_to_discard_one_message_looks_at_no_other():
    class Message:
        looks = 0

        def __eq__(self, other: object) -> bool:
            Message.looks += 1
            return self is other

        def __hash__(self) -> int:
            return id(self)

    inbox = Inbox(limit=1_000)
    messages = [Message() for _ in range(1_000)]
    for message in messages:
        inbox.put(message)

    assert all(inbox.discard(message) for message in reversed(messages))

    assert (Message.looks, len(inbox)) == (0, 0)


def test_it_is_idle_once_nothing_is_being_handled():
    inbox, _ = started(places=2)
    assert inbox.idle().is_set()
    inbox.put(1)
    inbox.put(2)
    inbox.take(begins=True)
    inbox.take()

    idle = inbox.idle()
    other = inbox.idle()
    inbox.done()
    assert not idle.is_set()
    inbox.done()

    assert idle.is_set()
    assert other.is_set()


def test_pykkas_way_to_wait_at_an_inbox_is_not_for_one_with_turns():
    with pytest.raises(NotImplementedError):
        Inbox().get()


def test_no_message_is_lost_or_handled_twice_between_many_threads():
    """The race of a put with a discard and the close: each is handled, discarded or given back, or its putter was told."""
    inbox = Inbox(limit=100_000, places=2)
    turns: deque[None] = deque()
    handled: list[int] = []
    refused: list[int] = []
    discarded: list[int] = []
    over = threading.Event()

    def put(base: int) -> None:
        for number in range(base, base + 500):
            try:
                inbox.put(number)
            except Closed:
                refused.append(number)

    def work() -> None:
        while not over.is_set() or turns:
            try:
                turns.pop()
            except IndexError:
                continue
            message = inbox.take(begins=True)
            while message is not None:
                handled.append(message)
                message = inbox.take(frees=True)

    def discard() -> None:
        while not over.is_set():
            discarded.extend(number for number in range(3_500) if inbox.discard(number))

    inbox.start(lambda: turns.append(None))
    workers = [threading.Thread(target=work) for work in (work, work, discard)]
    putters = [threading.Thread(target=put, args=(base,)) for base in (0, 1000, 2000, 3000)]
    for thread in (*workers, *putters):
        thread.start()
    putters[0].join()
    left = inbox.close()
    for thread in putters:
        thread.join()
    over.set()
    for thread in workers:
        thread.join()

    everything = sorted([*handled, *left, *refused, *discarded])
    assert everything == [number for base in (0, 1000, 2000, 3000) for number in range(base, base + 500)]


class Places(RuleBasedStateMachine):
    """Turns of a pool that come in any order, beside puts, pauses and restarts."""

    @initialize(places=st.integers(1, 3), limit=st.integers(1, 6))
    def an_inbox(self, places: int, limit: int) -> None:
        self.inbox = Inbox(limit, places)
        self.places, self.limit = places, limit
        self.turns = Turns()
        self.turns_begun = 0
        self.waiting: list[int] = []
        self.busy: list[int] = []
        self.is_running = False
        self.made = 0

    @rule()
    def put(self) -> None:
        self.made += 1
        if len(self.waiting) < self.limit:
            self.inbox.put(self.made)
            self.waiting.append(self.made)
        else:
            with pytest.raises(MailboxFull):
                self.inbox.put(self.made)

    @rule()
    def start(self) -> None:
        self.inbox.start(self.turns)
        self.is_running = True

    @rule()
    def pause(self) -> None:
        self.inbox.pause()
        self.is_running = False

    @precondition(lambda self: self.turns.wanted > self.turns_begun)
    @rule()
    def a_turn_begins(self) -> None:
        self.turns_begun += 1
        self.took(self.inbox.take(begins=True))

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), goes_on=st.booleans())
    def one_is_handled(self, data: st.DataObject, goes_on: bool) -> None:
        self.busy.remove(data.draw(st.sampled_from(self.busy)))
        if goes_on:
            self.took(self.inbox.take(frees=True))
        else:
            self.inbox.done()

    @rule()
    def drain(self) -> None:
        assert self.inbox.drain(lambda message: message % 2 == 0) == [n for n in self.waiting if n % 2]
        self.waiting = [n for n in self.waiting if n % 2 == 0]

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        message = data.draw(st.integers(1, self.made + 1))
        assert self.inbox.discard(message) == (message in self.waiting)
        self.waiting = [waiting for waiting in self.waiting if waiting != message]

    def took(self, message: int | None) -> None:
        if self.is_running and self.waiting and len(self.busy) < self.places:
            assert message == self.waiting.pop(0)
            self.busy.append(message)
        else:
            assert message is None

    @invariant()
    def counts_agree_and_somebody_comes_for_what_waits(self) -> None:
        if not hasattr(self, "inbox"):
            return
        assert (len(self.inbox), self.inbox.busy) == (len(self.waiting), len(self.busy))
        to_come = self.turns.wanted - self.turns_begun
        assert self.inbox.idle().is_set() == (not self.busy)
        if self.is_running:
            wanted = min(self.places, len(self.waiting) + len(self.busy))
            assert to_come + len(self.busy) >= wanted, "a place stays empty though something waits"


TestPlaces = Places.TestCase
TestPlaces.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
