"""The mailbox alone, and against a plain list of what it should hold."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_broker.mailbox.mailbox import Mailbox, Offer
from ether_broker.mailbox.mailbox_limits import Limits


@dataclass(eq=False)
class Letter:
    number: int
    size: int = 10
    is_over: bool = False
    priority: int = 1


def mailbox(**limits: int) -> Mailbox[Letter]:
    return Mailbox(Limits(**{"mailbox_count": 3, "mailbox_bytes": 100, "window": 2, **limits}))


def filled(box: Mailbox[Letter], count: int, size: int = 10) -> list[Letter]:
    letters = [Letter(number, size) for number in range(count)]
    for letter in letters:
        box.offer(letter)
    return letters


def test_a_letter_is_sent_at_once_while_there_is_credit():
    box = mailbox(window=2)

    assert [box.offer(Letter(number)) for number in range(3)] == [Offer.SEND, Offer.SEND, Offer.QUEUED]
    assert (box.in_flight, box.waiting_count, box.outstanding, box.waiting_bytes) == (2, 1, 3, 10)


def test_a_letter_does_not_overtake_those_that_wait():
    box = mailbox(window=1)
    filled(box, 2)
    box.release()

    assert box.offer(Letter(9)) is Offer.QUEUED
    assert box.next().number == 1


def test_what_waits_leaves_in_order_as_credit_comes_back():
    box = mailbox(window=1)
    filled(box, 4)

    left = []
    for _ in range(3):
        assert box.next() is None
        box.release()
        left.append(box.next().number)

    assert left == [1, 2, 3]
    assert (box.next(), box.waiting_count, box.waiting_bytes) == (None, 0, 0)


def test_a_letter_past_the_count_is_refused_and_not_kept():
    box = mailbox(window=1, mailbox_count=3)
    filled(box, 4)

    assert box.offer(Letter(9)) is Offer.FULL
    assert (box.waiting_count, box.waiting_bytes) == (3, 30)


def test_a_letter_past_the_bytes_is_refused_though_a_smaller_one_fits():
    box = mailbox(window=1, mailbox_count=99, mailbox_bytes=100)
    filled(box, 10)

    assert box.offer(Letter(9, size=11)) is Offer.FULL
    assert box.offer(Letter(9, size=10)) is Offer.QUEUED


def test_a_letter_that_ended_while_it_waited_makes_room_and_is_skipped():
    box = mailbox(window=1, mailbox_count=2)
    _, second, third = filled(box, 3)

    second.is_over = True
    box.forget(second)

    assert (box.waiting_count, box.waiting_bytes) == (1, 10)
    assert box.offer(Letter(9)) is Offer.QUEUED
    box.release()
    assert box.next() is third


def held(box: Mailbox[Letter]) -> set[int]:
    """The numbers of the letters that a mailbox keeps from being freed."""
    gc.collect()
    seen, found = {id(box)}, [box]
    for thing in found:
        new = [other for other in gc.get_referents(thing) if id(other) not in seen and not isinstance(other, type)]
        seen.update(map(id, new))
        found += new
    return {thing.number for thing in found if isinstance(thing, Letter)}


def test_a_letter_that_has_ended_is_not_kept_whatever_else_waits():
    box = mailbox(window=1, mailbox_count=10_000, mailbox_bytes=1 << 30)
    sent, *waiting = filled(box, 40)

    for number in range(1_000, 1_030):
        letter = Letter(number)
        box.offer(letter)
        letter.is_over = True
        box.forget(letter)

    assert held(box) == {letter.number for letter in waiting}
    assert sent.number not in held(box)


def test_a_letter_that_ends_while_it_is_taken_is_not_kept():
    box = mailbox(window=1)
    _, second, third, _fourth = filled(box, 4)

    taken = [box.take(), box.take()]
    third.is_over = True
    box.forget(third)
    box.keep([letter for letter in taken if letter is not None])

    assert held(box) == {second.number, 3}
    assert (box.waiting_count, box.waiting_bytes) == (2, 20)


def test_a_letter_that_was_accepted_is_taken_back_past_the_bounds_and_goes_first():
    box = mailbox(window=1, mailbox_count=1)
    first, _second = filled(box, 2)

    box.release()
    box.put_back(first)

    assert box.waiting_count == 2
    assert box.offer(Letter(9)) is Offer.FULL
    assert box.next() is first


def test_a_paused_mailbox_takes_letters_and_sends_none():
    box = mailbox(window=2)

    box.pause()

    assert box.offer(Letter(1)) is Offer.QUEUED
    assert box.next() is None
    box.resume()
    assert box.next().number == 1


def test_credit_stays_with_a_node_that_restarts_its_agent_and_comes_back_from_one_that_is_gone():
    box = mailbox(window=2)
    filled(box, 2)

    box.resume()
    assert box.in_flight == 2
    box.resume(reset=True)
    assert box.in_flight == 0


def test_what_was_taken_in_order_counts_until_it_is_forgotten_and_may_be_kept_at_its_place():
    box = mailbox(window=1)
    _, second, third, fourth = filled(box, 4)
    third.is_over = True
    box.forget(third)

    assert (box.take(), box.take()) == (second, fourth)
    assert (box.waiting_count, box.in_flight) == (2, 1)
    box.forget(second)
    box.keep([fourth])
    box.release()

    assert (box.waiting_count, box.waiting_bytes) == (1, fourth.size)
    assert (box.next(), box.next()) == (fourth, None)


def test_there_is_room_for_what_waits_elsewhere_within_both_bounds():
    box: Mailbox[Letter] = Mailbox(Limits(mailbox_count=2, mailbox_bytes=20, window=1))
    filled(box, 2)

    assert box.has_room(Letter(9, 10))
    assert not box.has_room(Letter(9, 11))
    box.offer(Letter(3, 1))
    assert not box.has_room(Letter(9, 1))


def test_more_credit_than_was_taken_is_a_bug():
    with pytest.raises(AssertionError):
        mailbox().release()


class Box(RuleBasedStateMachine):
    """The model: a list of what waits, and a count of what is with the node."""

    @initialize(count=st.integers(0, 4), size=st.integers(0, 60), window=st.integers(1, 3))
    def a_mailbox(self, count: int, size: int, window: int) -> None:
        self.limits = Limits(mailbox_count=count, mailbox_bytes=size, window=window)
        self.box: Mailbox[Letter] = Mailbox(self.limits)
        self.waiting: list[Letter] = []
        self.with_node: list[Letter] = []
        self.is_open = True
        self.put_back: set[int] = set()
        self.made = 0

    @rule(size=st.integers(1, 40))
    def offer(self, size: int) -> None:
        self.made += 1
        letter = Letter(self.made, size)
        offer = self.box.offer(letter)
        room = len(self.waiting) < self.limits.mailbox_count and self.bytes() + size <= self.limits.mailbox_bytes
        if self.is_open and not self.waiting and len(self.with_node) < self.limits.window:
            assert offer is Offer.SEND
            self.with_node.append(letter)
        elif room:
            assert offer is Offer.QUEUED
            self.waiting.append(letter)
        else:
            assert offer is Offer.FULL

    @rule()
    def next(self) -> None:
        letter = self.box.next()
        if self.is_open and self.waiting and len(self.with_node) < self.limits.window:
            assert letter is self.waiting.pop(0)
            self.with_node.append(letter)
        else:
            assert letter is None

    @precondition(lambda self: self.with_node)
    @rule(data=st.data(), back=st.booleans())
    def release(self, data: st.DataObject, back: bool) -> None:
        letter = self.with_node.pop(data.draw(st.integers(0, len(self.with_node) - 1)))
        self.box.release()
        if back:
            self.box.put_back(letter)
            self.waiting.insert(0, letter)
            self.put_back.add(letter.number)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def one_ends(self, data: st.DataObject) -> None:
        letter = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        letter.is_over = True
        self.box.forget(letter)

    @rule()
    def pause(self) -> None:
        self.is_open = False
        self.box.pause()

    @rule(reset=st.booleans())
    def resume(self, reset: bool) -> None:
        self.is_open = True
        self.box.resume(reset=reset)
        if reset:
            self.with_node.clear()

    @rule(data=st.data())
    def some_go_elsewhere(self, data: st.DataObject) -> None:
        kept: list[Letter] = []
        taken: list[Letter] = []
        for _ in range(data.draw(st.integers(0, 5))):
            letter = self.box.take()
            assert letter is (self.waiting[len(taken)] if len(taken) < len(self.waiting) else None)
            if letter is None:
                break
            taken.append(letter)
            if data.draw(st.booleans()):
                kept.append(letter)
            else:
                self.box.forget(letter)
        self.box.keep(kept)
        self.waiting[: len(taken)] = kept

    def bytes(self) -> int:
        return sum(letter.size for letter in self.waiting)

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if not hasattr(self, "box"):
            return
        assert self.box.waiting_count == len(self.waiting)
        assert self.box.waiting_bytes == self.bytes()
        assert self.box.in_flight == len(self.with_node) <= self.limits.window
        new = [letter for letter in self.waiting if letter.number not in self.put_back]
        assert len(new) <= self.limits.mailbox_count
        assert sum(letter.size for letter in new) <= self.limits.mailbox_bytes


TestBox = Box.TestCase
TestBox.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
