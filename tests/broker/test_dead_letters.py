from __future__ import annotations

import pytest

from ether_broker.dead_letters import DeadLetters, Reason
from ether_broker.errors import UnknownDeadLetter


def keep(letters: DeadLetters, *envelopes: bytes, reason: Reason = Reason.LATE) -> None:
    for envelope in envelopes:
        letters.keep(reason, envelope, node="n", time=1.0)


def numbers(letters: DeadLetters, below: int | None = None) -> list[int]:
    return [number for number, letter in letters.below(below) if letter is not None]


def test_a_dead_letter_is_kept_with_its_reason_node_and_detail():
    letters = DeadLetters()

    kept = letters.keep(Reason.EXPIRED, b"abc", node="n1", time=5.0, detail="waited")

    assert letters.get(1) is kept
    assert (kept.reason, kept.envelope, kept.node, kept.time, kept.detail) == (
        Reason.EXPIRED,
        b"abc",
        "n1",
        5.0,
        "waited",
    )


def test_the_newest_come_first_from_any_number_on_down():
    letters = DeadLetters()
    assert numbers(letters) == []
    keep(letters, b"1", b"2", b"3", b"4")
    letters.discard(2)

    assert numbers(letters) == [4, 3, 1]
    assert numbers(letters, 4) == [3, 1]
    assert numbers(letters, 1) == numbers(letters, 0) == []
    assert numbers(letters, 99) == [4, 3, 1]
    assert (2, None) in list(letters.below())


def test_the_oldest_make_room_when_there_are_too_many():
    letters = DeadLetters(count=2)
    keep(letters, b"1", b"2", b"3")

    assert numbers(letters) == [3, 2]
    assert (len(letters), letters.totals) == (2, {Reason.LATE: 3})


def test_the_oldest_make_room_when_they_are_too_large():
    letters = DeadLetters(size=10)
    keep(letters, b"12345", b"12345", b"1")

    assert numbers(letters) == [3, 2]


def test_one_that_is_larger_than_all_room_is_kept_alone():
    letters = DeadLetters(size=10)
    keep(letters, b"1", b"x" * 11)

    assert numbers(letters) == [2]


def test_one_that_was_taken_out_is_gone_and_its_room_is_free():
    letters = DeadLetters(size=10)
    keep(letters, b"12345", b"12345")

    assert letters.discard(1).envelope == b"12345"
    keep(letters, b"12345")

    assert numbers(letters) == [3, 2]
    with pytest.raises(UnknownDeadLetter, match=r"no dead letter 1 \(held: 2 to 3\)"):
        letters.get(1)


def test_an_unknown_number_of_none_says_that_there_are_none():
    with pytest.raises(UnknownDeadLetter, match="held: none"):
        DeadLetters().discard(7)


def test_a_number_is_never_used_twice():
    letters = DeadLetters(count=1)
    keep(letters, b"1", b"2")
    letters.discard(2)
    keep(letters, b"3")

    assert numbers(letters) == [3]


def test_only_work_that_was_not_done_can_be_redriven():
    assert {reason for reason in Reason if reason.can_redrive} == {
        Reason.UNKNOWN_AGENT,
        Reason.NO_HOLDER,
        Reason.EXPIRED,
        Reason.NODE_LOST,
        Reason.OVERLOAD,
    }


def test_details_take_room_too():
    letters = DeadLetters(count=1_000, size=100)
    for _ in range(50):
        letters.keep(Reason.LATE, b"abcde", node="n", time=1.0, detail="x" * 15)

    assert numbers(letters) == [50, 49, 48, 47, 46]
    letters.discard(48)
    keep(letters, b"y" * 20)
    assert numbers(letters) == [51, 50, 49, 47, 46]
