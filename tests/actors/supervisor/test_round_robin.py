"""Who is served next, whatever comes: first in, first out for each owner, a share a step, and who had none comes first."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from ether_actors.supervisor.state.ledger import owner_of
from ether_actors.supervisor.state.round_robin import EACH, RoundRobin
from ether_broker.transport.sessions.session import Session

MOST = 20


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=40), max_size=12), st.lists(st.integers(1, 9), max_size=4))
def test_each_owner_is_served_in_its_order_and_nobody_has_more_than_a_share(
    batches: list[list[str]], mosts: list[int]
) -> None:
    turns: RoundRobin[str, int] = RoundRobin(MOST)
    waiting: dict[str, list[int]] = {}
    number = 0
    for step, batch in enumerate([*batches, *[[]] * 60]):
        newest = [owner for owner in dict.fromkeys(batch) if not waiting.get(owner)]
        for owner in batch:
            number += 1
            turns.put(owner, number)
            waiting.setdefault(owner, []).append(number)
        most = mosts[step] if step < len(mosts) else None
        owners = [owner for owner, items in waiting.items() if items]
        bound = min(MOST if most is None else most, EACH * len(owners))
        taken = list(turns.take(most))
        assert len(taken) == min(bound, sum(map(len, waiting.values())))
        served = [next(owner for owner, items in waiting.items() if item in items) for item in taken]
        assert set(served[: len(newest)]) <= set(newest) or not newest
        for owner, item in zip(served, taken, strict=True):
            assert waiting[owner].pop(0) == item
    assert not turns.owners
    assert not any(waiting.values())


def test_the_nodes_of_one_key_have_one_line_and_nodes_without_keys_one_each() -> None:
    def entry(node: str, owner: str) -> SimpleNamespace:
        return SimpleNamespace(asking_session=Session(node, b"", 0.0, owner=owner))

    assert owner_of(entry("a", "key")) == owner_of(entry("b", "key"))  # type: ignore[arg-type]  # as much of it as is used
    assert owner_of(entry("a", "")) != owner_of(entry("b", ""))  # type: ignore[arg-type]  # as much of it as is used
