from __future__ import annotations

import math
import threading
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.delegator.handle import Handle
from ether_actors.task.budget import BudgetAccount
from ether_broker.envelope.delegation import Budget
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import BudgetExceeded, InvalidEnvelope, UsageError
from tests.actors.work_counter import WorkCounter


class Watch:
    """Seconds that a task has run."""

    def __init__(self) -> None:
        self.elapsed = 0.0

    def __call__(self) -> float:
        return self.elapsed


def account(**limits: float) -> BudgetAccount:
    return BudgetAccount(Budget(**limits), Watch())


def test_without_limits_there_is_always_enough_and_what_is_wanted_is_given():
    free = BudgetAccount(None, Watch())

    assert free.spend(cost=1e9, tokens=10**9)
    assert (free.limits, free.remaining) == (None, None)
    assert free.reserve(None) is None
    assert free.reserve(Budget(max_tokens=5)) == Budget(max_tokens=5)
    assert free.spent.max_tokens == 10**9


def test_a_use_is_taken_off_and_says_whether_the_budget_still_holds():
    spending = account(max_tokens=10, max_cost=1.0)

    assert spending.spend(tokens=10, cost=1.0)
    assert not spending.spend(tokens=1)
    assert (spending.remaining.max_tokens, spending.remaining.max_cost) == (0, 0.0)
    assert spending.spent.max_tokens == 11


def test_a_use_that_is_the_limit_but_for_rounding_holds():
    spending = account(max_cost=1.0 - 0.3 - 0.3 - 0.3)

    assert spending.spend(cost=0.1)
    assert not spending.spend(cost=0.001)


def test_what_has_no_limit_runs_out_never():
    spending = account(max_tokens=1)

    assert spending.spend(cost=1e6, iterations=10**6)
    assert spending.remaining == Budget(max_tokens=1)


@pytest.mark.parametrize("use", [
    {"cost": -0.1}, {"tokens": -1}, {"iterations": -1}, {"cost": math.nan}, {"iterations": math.nan}, {"cost": "0.1"},
    {"tokens": None}, {"cost": Decimal("0.10")}, {"cost": Decimal("nan")}, {"cost": math.inf}, {"tokens": 10**400},
    {"cost": Fraction(1, 10)},
])  # fmt: skip
def test_a_use_that_is_negative_or_no_number_is_refused_and_changes_nothing(use: dict[str, float]):
    spending = account(max_tokens=1)

    with pytest.raises(UsageError, match=r"spend\(.*: each use is a number, 0 or more"):
        spending.spend(**use)

    assert spending.remaining.max_tokens == 1
    assert spending.spend(cost=0.5)
    assert spending.spent == Budget(max_cost=0.5, max_tokens=0, max_iterations=0, max_time_sec=0.0)
    assert (spending.part(1).max_tokens, spending.reserve(None).max_tokens) == (1, 1)


def test_a_sub_delegation_gets_what_it_wants_and_never_more_than_is_left():
    spending = account(max_tokens=10, max_cost=2.0)

    first = spending.reserve(Budget(max_tokens=6, max_cost=1.0, max_iterations=3))
    second = spending.reserve(Budget(max_tokens=6, max_cost=0.5))

    assert first == Budget(max_tokens=6, max_cost=1.0, max_iterations=3)
    assert second == Budget(max_tokens=4, max_cost=0.5)
    assert spending.remaining == Budget(max_tokens=0, max_cost=0.5)


@pytest.mark.parametrize("limits", [{"max_cost": 0.3}, {"max_tokens": 3}, {"max_iterations": 3, "max_cost": 9.0}])
@pytest.mark.parametrize("wanted", [None, Budget(max_cost=0.0, max_tokens=0, max_iterations=0)])
def test_what_is_all_set_aside_is_given_to_nobody_else_until_it_comes_back(
    limits: dict[str, float], wanted: Budget | None
):
    spending = account(**limits)
    given = [spending.reserve(Budget(max_cost=0.1, max_tokens=1, max_iterations=1)) for _ in range(3)]

    with pytest.raises(
        BudgetExceeded, match=r"part = task\.budget\.part\(4\) once, before the first, and then budget=part"
    ) as refused:
        spending.reserve(wanted)
    assert refused.value.retryable
    assert spending.close(told())[1] == (), "whoever waits has all that it wants"

    spending.note(refused.value)
    assert spending.close(told())[1] == (str(refused.value),)
    spending.charge(given[0])
    spending.reserve(None)
    assert spending.close(told()) == ({}, ())


def test_equal_parts_are_of_what_is_left_and_none_is_too_small_to_be_one():
    spending = account(max_cost=1.0, max_tokens=5, max_iterations=2, max_time_sec=9.0)
    spending.spend(cost=0.25, tokens=1)

    assert spending.part(3) == Budget(max_cost=0.25, max_tokens=1, max_iterations=1, max_time_sec=9.0)
    assert BudgetAccount(None, Watch()).part(3) is None
    assert spending.part(0) == spending.part(1)

    spending.spend(tokens=4)
    assert spending.part(3) == Budget(max_cost=0.25, max_tokens=0, max_iterations=1, max_time_sec=9.0)


@pytest.mark.parametrize("count", [-1, "4", None, math.nan, pytest.param(10**400, id="huge"), Decimal(4)])
def test_a_part_of_what_is_no_number_of_sub_delegations_is_refused(count: int):
    with pytest.raises(UsageError, match=r"part\(.*\): the number of sub-delegations is a number, 0 or more"):
        account(max_cost=1.0).part(count)


@pytest.mark.parametrize("count", [3, 7, 10])
def test_as_many_equal_parts_as_were_asked_for_are_there(count: int):
    spending = account(max_cost=1.0, max_tokens=24)
    part = spending.part(count)

    given = [spending.reserve(part) for _ in range(count)]

    assert all(one.max_cost == pytest.approx(1.0 / count) and one.max_tokens == 24 // count for one in given)


def test_what_was_set_aside_comes_back_when_the_sub_delegation_ends_but_for_what_it_used():
    spending = account(max_tokens=10)
    given = spending.reserve(Budget(max_tokens=6))

    spending.charge(given, tokens=2)

    assert (spending.remaining.max_tokens, spending.spent.max_tokens) == (8, 2)


def test_a_sub_delegation_that_used_more_than_it_was_given_is_counted_in_full():
    spending = account(max_tokens=10)

    spending.charge(spending.reserve(Budget(max_tokens=1)), tokens=12)

    assert (spending.remaining.max_tokens, spending.spent.max_tokens) == (0, 12)
    assert not spending.spend()


def test_time_is_what_is_left_of_the_tasks_own():
    watch = Watch()
    spending = BudgetAccount(Budget(max_time_sec=10.0), watch)
    watch.elapsed = 4.0

    assert spending.remaining.max_time_sec == 6.0
    assert spending.reserve(Budget(max_time_sec=60.0)).max_time_sec == 6.0
    assert spending.reserve(Budget(max_time_sec=1.0)).max_time_sec == 1.0
    watch.elapsed = 99.0
    assert spending.remaining.max_time_sec == 0.0


def told(**metadata: object) -> Response:
    return Response(request_id=to_text(new_id()), status=Status.COMPLETED, metadata=metadata)


def test_when_a_limit_is_used_up_nothing_more_is_delegated_and_the_outcome_says_so():
    spending = account(max_cost=0.5)
    spending.charge(spending.reserve(Budget(max_cost=0.3)), cost=0.3)
    spending.spend(cost=0.2)

    with pytest.raises(BudgetExceeded, match=r"max_cost 0\.5 is used up") as refused:
        spending.reserve(None)
    assert not refused.value.retryable
    spending.note(refused.value)

    totals, broken = spending.close(told())
    assert totals == {"cost": 0.5}
    assert broken == ("max_cost 0.5 is used up (0.5): nothing more is delegated.",)


def test_what_is_left_out_for_good_is_told_though_others_are_made_later():
    spending = account(max_tokens=4)
    spending.note(BudgetExceeded("the items 3 to 9"), for_good=True)
    spending.note(BudgetExceeded("one"))
    spending.reserve(Budget(max_tokens=1))

    assert spending.close(told())[1] == ("the items 3 to 9",)


class Host:
    """The owner of handles."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


@pytest.mark.parametrize("order", ["first", "last", "before it is followed"])
def test_sub_delegations_without_number_cost_each_the_same(order: str):
    work = {}
    for count in (100, 800):
        spending, host = account(max_tokens=10**9), Host()
        handles = [Handle(host, new_id(), b"a", b"x.y", b"", 1e9) for _ in range(count)]  # type: ignore[arg-type]  # its double
        with WorkCounter() as counter:
            for handle in handles:
                given = spending.reserve(Budget(max_tokens=10))
                if order == "before it is followed":
                    handle.end(told(tokens_used=3))
                spending.follow(handle, given)
            for handle in handles if order == "first" else handles[::-1] if order == "last" else []:
                handle.end(told(tokens_used=3))
                assert spending.spent.max_tokens is not None
        assert spending.spent.max_tokens == 3 * count
        assert spending.remaining.max_tokens == 10**9 - 3 * count
        work[count] = counter.work
    assert work[800] < 1.5 * 8 * work[100]


@pytest.mark.parametrize("name", ["max_cost", "max_time_sec"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_limit_without_end_is_none(name: str, value: float):
    with pytest.raises(InvalidEnvelope, match=f"{name}: Input should be a finite number"):
        Budget(**{name: value})


def test_a_limit_of_0_with_nothing_used_may_be_delegated():
    assert account(max_cost=0.0).reserve(None) == Budget(max_cost=0.0)


def test_what_the_outcome_tells_and_what_was_spent_are_the_same_use_and_sub_delegations_come_on_top():
    spending = account(max_cost=1.0)
    spending.spend(cost=0.25)
    spending.charge(spending.reserve(None), cost=0.5)

    assert spending.close(told(cost=0.25)) == ({"cost": 0.75}, ())


def test_each_limit_that_did_not_hold_is_told():
    watch = Watch()
    spending = BudgetAccount(Budget(max_cost=1.0, max_tokens=10, max_time_sec=1.0), watch)
    watch.elapsed = 1.5

    totals, broken = spending.close(told(cost=1.5, tokens_used=10))

    assert totals == {"cost": 1.5, "tokens_used": 10}
    assert broken == ("max_cost 1 did not hold: 1.5 was used.", "max_time_sec 1 did not hold: 1.5 was used.")


@pytest.mark.parametrize("use", [True, "0.5", -1, float("nan"), float("inf"), [1]])
@pytest.mark.parametrize(
    ("limit", "key"), [("max_cost", "cost"), ("max_tokens", "tokens_used"), ("max_iterations", "iterations")]
)
def test_a_use_that_is_no_amount_is_not_counted_and_the_outcome_says_so(use: object, limit: str, key: str):
    totals, (broken,) = account(**{limit: 5}).close(told(**{key: use}))

    assert totals == {}
    assert broken == f"{limit} 5: None told {key} {use!r}, which is no amount and was not counted."
    assert BudgetAccount(Budget(), Watch()).close(told(**{key: use})) == ({}, ())
    assert account(**{limit: 0}).close(told(**{key: None})) == ({}, ())


def test_iterations_are_counted_as_tokens_are():
    spending = account(max_iterations=20)
    given = spending.reserve(Budget(max_iterations=50))
    assert given.max_iterations == 20
    spending.charge(given, iterations=12)

    assert spending.remaining.max_iterations == 8
    assert spending.close(told(iterations=9)) == (
        {"iterations": 21}, ("max_iterations 20 did not hold: 21 was used.",),
    )  # fmt: skip


class Spending(RuleBasedStateMachine):
    """Concurrent sub-delegations never get more together than is left (G4)."""

    @initialize(tokens=st.none() | st.integers(0, 50), iterations=st.none() | st.integers(0, 50))
    def a_budget(self, tokens: int | None, iterations: int | None) -> None:
        self.limits = {"max_tokens": tokens, "max_iterations": iterations}
        self.account = BudgetAccount(Budget(**self.limits), Watch())
        self.given: list[Budget] = []
        self.used = {"max_tokens": 0, "max_iterations": 0}

    @rule(tokens=st.integers(0, 5), iterations=st.integers(0, 5))
    def spend(self, tokens: int, iterations: int) -> None:
        holds = self.account.spend(tokens=tokens, iterations=iterations)
        self.used["max_tokens"] += tokens
        self.used["max_iterations"] += iterations
        assert holds == all(self.left(name) is None or self.left(name) >= 0 for name in self.limits)

    @rule(tokens=st.none() | st.integers(0, 30), iterations=st.none() | st.integers(0, 30))
    def reserve(self, tokens: int | None, iterations: int | None) -> None:
        before = {name: self.left(name) for name in self.limits}
        wanted = Budget(max_tokens=tokens, max_iterations=iterations)
        if any(limit is not None and before[name] <= 0 < limit for name, limit in self.limits.items()) or any(
            limit == 0 < self.used[name] for name, limit in self.limits.items()
        ):
            with pytest.raises(BudgetExceeded):
                self.account.reserve(wanted)
            return
        given = self.account.reserve(wanted)
        for name, wanted in (("max_tokens", tokens), ("max_iterations", iterations)):
            got, left = getattr(given, name), before[name]
            if left is None:
                assert got == wanted
            else:
                assert got == max(0, left if wanted is None else min(left, wanted))
        self.given.append(given)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), tokens=st.integers(0, 10), iterations=st.integers(0, 10))
    def settle(self, data: st.DataObject, tokens: int, iterations: int) -> None:
        given = self.given.pop(data.draw(st.integers(0, len(self.given) - 1)))
        self.account.charge(given, tokens=tokens, iterations=iterations)
        self.used["max_tokens"] += tokens
        self.used["max_iterations"] += iterations

    def left(self, name: str) -> int | None:
        limit = self.limits[name]
        return None if limit is None else limit - self.used[name] - sum(getattr(one, name) for one in self.given)

    @invariant()
    def what_remains_is_the_limit_less_what_was_used_and_given(self) -> None:
        if not hasattr(self, "account"):
            return
        remaining = self.account.remaining
        for name in self.limits:
            left = self.left(name)
            assert getattr(remaining, name) == (None if left is None else max(0, left))


TestSpending = Spending.TestCase
TestSpending.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
