"""What an account may have of the broker's memory beside its delegations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.memory_quota import MemoryQuota

MOST = 1 << 14
LEAST = MOST >> 10


def fill(quota: MemoryQuota, account: Account, size: int = LEAST) -> int:
    """Take as much as there is room for, so many bytes at a time; the bytes."""
    taken = 0
    while quota.has_room(account, size):
        quota.add(account, size)
        taken += size
    return taken


def test_an_account_may_have_half_and_a_little_also_when_two_have_filled_it():
    quota, accounts = MemoryQuota(MOST), [Account() for _ in range(4)]

    assert [fill(quota, account) for account in accounts] == [MOST // 2, MOST // 2, LEAST, LEAST]
    quota.add(accounts[0], -MOST // 2)
    assert fill(quota, accounts[2]) == MOST // 2 - 2 * LEAST
    assert quota.size == sum(account.kept for account in accounts)


def test_what_is_given_without_a_question_counts():
    quota, account = MemoryQuota(MOST), Account()
    quota.add(account, MOST)

    assert not quota.has_room(account, 1)
    assert not quota.has_room(Account(), LEAST + 1)


def test_what_an_account_had_before_its_owner_was_known_counts_for_the_owner():
    quota, before, owners = MemoryQuota(MOST), Account(), Account()
    quota.add(before, MOST // 2)
    before.into, owners.kept = owners, before.kept

    assert not quota.has_room(before, 1)
    assert not quota.has_room(owners, 1)
    quota.add(before, -MOST // 2)
    assert (quota.size, owners.kept) == (0, 0)


@pytest.mark.parametrize("order", [list, reversed, lambda taken: sorted(taken, key=lambda one: one[1])])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, MOST // 4)), max_size=40))
def test_what_had_room_has_it_again_in_any_order(
    order: Callable[[list[tuple[int, int]]], list[tuple[int, int]]], asked: list[tuple[int, int]]
):
    def take(these: list[tuple[int, int]]) -> list[tuple[int, int]]:
        quota, accounts, taken = MemoryQuota(MOST), [Account() for _ in range(4)], []
        for number, size in these:
            if quota.size + size <= MOST and quota.has_room(accounts[number], size):
                quota.add(accounts[number], size)
                taken.append((number, size))
        return taken

    had = take(asked)
    again = list(order(had))
    assert take(again) == again
