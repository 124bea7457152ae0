"""The keeper of an agent's state beside a broker that takes and refuses."""

from __future__ import annotations

import itertools

import pytest
from pydantic import BaseModel

from ether_actors.agent.state_keeper import StateKeeper
from ether_broker.envelope.payload import pack, unpack
from ether_broker.errors import InvalidState
from ether_broker.wire.saved_state import BroughtState, SavedState


class Totals(BaseModel):
    total: int = 0


class Agent:
    agent_name = "tally"
    max_concurrency = 1
    state_version = 1
    state: Totals

    @classmethod
    def migrate_state(cls, data: dict, version: int) -> dict:
        return data


class Broker:
    """Takes what is made of the newest; what it refuses is told later."""

    def __init__(self) -> None:
        self.saved: SavedState | None = None
        self.refused: list[tuple[SavedState | None, bytes]] = []

    def take(self, brought: BroughtState, *, full: bool = False) -> bool:
        base = (0, b"") if self.saved is None else (self.saved.number, self.saved.incarnation)
        if full or base != (brought.base, brought.origin):
            self.refused.append((self.saved, brought.incarnation))
            return False
        self.saved = SavedState(brought.base + 1, brought.incarnation, brought.version, brought.data)
        return True

    def tell(self, keeper: StateKeeper) -> None:
        for told in self.refused:
            keeper.reset(*told)
        self.refused.clear()

    @property
    def total(self) -> int:
        return 0 if self.saved is None else unpack(self.saved.data)["total"]


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def keeper(agent: Agent, broker: Broker) -> StateKeeper:
    numbers = itertools.count(1)
    return StateKeeper(agent, Totals, broker.saved, lambda: next(numbers).to_bytes(16))


def add(keeper: StateKeeper, agent: Agent, n: int) -> BroughtState:
    """A handler adds, and what it is to be saved as is on its way."""
    keeper.begin()
    agent.state.total += n
    brought = keeper.proposed()
    assert brought is not None
    keeper.commit(brought)
    return brought


def test_of_many_that_are_on_their_way_behind_one_that_is_refused_none_is_saved(
    keeper: StateKeeper, agent: Agent, broker: Broker
) -> None:
    assert broker.take(add(keeper, agent, 1))
    way = [add(keeper, agent, n) for n in (10, 100, 1_000)]
    assert not broker.take(way[0], full=True)
    broker.tell(keeper)
    fourth = add(keeper, agent, 10_000)  # the node has heard of the first
    assert not any(map(broker.take, way[1:]))
    assert broker.take(fourth)
    broker.tell(keeper)  # and hears of the others, which set nothing back
    fifth = add(keeper, agent, 100_000)

    assert broker.take(fifth)
    assert broker.total == agent.state.total == 110_001


def test_where_nothing_is_saved_it_begins_again_with_what_it_began_with(broker: Broker) -> None:
    agent = Agent()
    agent.state = Totals(total=100)
    numbers = itertools.count(1)
    keeper = StateKeeper(agent, Totals, None, lambda: next(numbers).to_bytes(16))
    assert keeper.proposed() is None
    assert not broker.take(add(keeper, agent, 1), full=True)
    broker.tell(keeper)

    assert broker.take(add(keeper, agent, 5))
    assert broker.total == 105


def test_a_state_that_cannot_be_read_saves_nothing_of_what_was_there(
    keeper: StateKeeper, agent: Agent, broker: Broker
) -> None:
    brought = add(keeper, agent, 1)
    keeper.reset(SavedState(7, b"other" * 3, 2, pack({"total": 1})), brought.incarnation)

    for _ in range(2):
        with pytest.raises(InvalidState, match="version 2"):
            keeper.begin()


def test_another_broker_is_given_what_the_last_one_had(keeper: StateKeeper, agent: Agent, broker: Broker) -> None:
    assert broker.take(add(keeper, agent, 7))
    keeper.forget_saved()
    other = Broker()
    keeper.begin()
    brought = keeper.proposed()  # of a handler that changes nothing
    assert brought is not None
    assert other.take(brought)
    keeper.commit(brought)

    assert keeper.proposed() is None
    assert other.total == 7
    assert other.take(add(keeper, agent, 1))


def test_a_broker_that_is_lost_between_an_outcome_and_its_commit_is_not_taken_for_the_next(
    keeper: StateKeeper, agent: Agent, broker: Broker
) -> None:
    keeper.begin()
    agent.state.total = 5
    brought = keeper.proposed()
    keeper.forget_saved()
    keeper.commit(brought)
    again = keeper.proposed()

    assert again is not None
    assert (again.base, again.origin) == (0, b"")
    assert broker.take(again)


def test_an_agent_that_never_changed_its_state_gives_no_broker_any(keeper: StateKeeper) -> None:
    keeper.forget_saved()
    keeper.begin()

    assert keeper.proposed() is None


def test_what_failed_is_undone_to_a_new_object(keeper: StateKeeper, agent: Agent, broker: Broker) -> None:
    assert broker.take(add(keeper, agent, 1))
    before = agent.state
    agent.state.total = 50
    keeper.roll_back()

    assert agent.state.total == 1
    assert agent.state is not before
    assert keeper.proposed() is None


def test_what_is_refused_as_a_handler_begins_is_gone_on_with_by_the_next():
    agent, numbers = Agent(), itertools.count(1)
    newer: list[SavedState] = []

    def make_id() -> bytes:
        if newer:  # in another thread, which has still seen the incarnation of before
            keeper.reset(newer.pop(), keeper._incarnation)
        return next(numbers).to_bytes(16)

    keeper = StateKeeper(agent, Totals, None, make_id)
    keeper.reset(SavedState(1, bytes(16), 1, pack({"total": 5})), keeper._incarnation)
    newer.append(SavedState(2, bytes(16), 1, pack({"total": 7})))

    keeper.begin()
    assert agent.state.total == 5
    keeper.begin()
    assert agent.state.total == 7


def test_what_a_broker_that_is_lost_had_refused_is_nothing_to_the_next(
    keeper: StateKeeper, agent: Agent, broker: Broker
) -> None:
    add(keeper, agent, 1)
    keeper.reset(SavedState(7, b"o" * 16, 1, pack({"total": 50})), keeper._incarnation)
    keeper.forget_saved()
    keeper.begin()

    assert agent.state.total == 1
    agent.state.total += 1
    proposed = keeper.proposed()
    assert proposed is not None
    assert (proposed.base, proposed.origin) == (0, b"")
