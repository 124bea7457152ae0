"""A scan: what each rule takes for a gap, and what it does not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ether.governance.gaps.daily_traffic import DailyTraffic
from ether.governance.gaps.outcomes import Outcome
from ether.governance.gaps.rules import Cause
from ether.governance.gaps.scan import Scan
from ether_broker.envelope.status import Status

FIRST = 20_000
WORD = "text.translate"


def traffic(*parts: Iterable[Outcome]) -> DailyTraffic:
    """Traffic of these parts, beside capabilities of which nothing is to be found."""
    usual = (
        Outcome(FIRST + day, f"other.work-{number}", f"agent-{n % 3}", Status.COMPLETED, pace=1.0)
        for day in range(14)
        for number in range(5)
        for n in range(20)
    )
    return DailyTraffic(outcome for part in (usual, *parts) for outcome in part)


def work(
    days: range, bad: int, good: int, status: Status, *, delegators: int = 4, pace: float = 1.0, capability: str = WORD,
    is_held: bool = True,
) -> Iterable[Outcome]:  # fmt: skip
    """So many delegations a day that end badly and well, by delegators in turn."""
    for day in days:
        for n in range(bad):
            yield Outcome(FIRST + day, capability, f"agent-{n % delegators}", status, is_held, pace=pace)
        for n in range(good):
            yield Outcome(FIRST + day, capability, f"agent-{n % delegators}", Status.COMPLETED, pace=1.0)


def causes(found: Scan) -> dict[str, Cause]:
    return {finding.capability: finding.cause for finding in found.findings}


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (Status.REJECTED_CAPABILITY, Cause.REFUSED),
        (Status.PARTIAL, Cause.REFUSED),
        (Status.REJECTED_CONTEXT, Cause.UNCLEAR),
        (Status.NEEDS_INPUT, Cause.UNCLEAR),
        (Status.TIMEOUT, Cause.SLOW),
        (Status.REJECTED_OVERLOAD, None),
        (Status.FAILED_EXECUTION, None),
        (Status.CANCELLED, None),
    ],
)
def test_what_ends_badly_on_many_days_has_the_cause_of_its_status(status: Status, cause: Cause | None):
    found = Scan(traffic(work(range(14), 12, 12, status)))

    assert causes(found) == ({} if cause is None else {WORD: cause})
    if cause is not None:
        (finding,) = found.findings
        assert finding.opened - FIRST in range(4, 7), "three days of a rule that needs three days"
        (still,) = found.open.values()
        assert (still.affected, still.asked, still.delegators) == (7 * 12, 7 * 24, 4)
        assert "84 of 168 delegations (50%) by 4 delegators, on 7 of 7 days." in still.sentence


def test_what_is_slow_is_so_beside_the_usual_pace():
    slow = Scan(traffic(work(range(14), 20, 0, Status.COMPLETED, pace=3.5)))
    slower_than_some = Scan(traffic(work(range(14), 20, 0, Status.COMPLETED, pace=2.5)))

    assert causes(slow) == {WORD: Cause.SLOW}
    assert causes(slower_than_some) == {}


def test_one_bad_day_is_no_gap_nor_are_two():
    bad = work(range(5, 7), 40, 0, Status.PARTIAL)
    assert causes(Scan(traffic(work(range(14), 0, 10, Status.COMPLETED), bad))) == {}


def test_what_is_rare_is_no_gap():
    assert causes(Scan(traffic(work(range(14), 2, 20, Status.PARTIAL)))) == {}


def test_what_one_delegator_does_wrong_is_no_gap():
    wrong = (Outcome(FIRST + day, WORD, "newcomer", Status.REJECTED_CONTEXT) for day in range(14) for _ in range(30))
    assert causes(Scan(traffic(work(range(14), 0, 20, Status.COMPLETED), wrong))) == {}


def test_a_name_that_nobody_has_is_unserved_once_two_days_have_asked_for_it():
    asked = work(range(3, 14), 3, 0, Status.REJECTED_CAPABILITY, is_held=False, capability="image.describe")
    found = Scan(traffic(asked))

    assert [(finding.capability, finding.cause, finding.opened - FIRST) for finding in found.findings] == [
        ("image.describe", Cause.UNSERVED, 4)
    ]
    assert "image.describe: no agent has it: 33 of 33 delegations" in found.open["image.describe"].sentence


def test_an_outage_of_two_days_is_no_gap_and_a_holder_that_left_is():
    served = [*work(range(6), 0, 10, Status.COMPLETED), *work(range(8, 14), 0, 10, Status.COMPLETED)]
    gone = list(work(range(6, 8), 10, 0, Status.REJECTED_CAPABILITY, is_held=False))
    assert causes(Scan(traffic(served, gone))) == {}

    left = work(range(6, 14), 10, 0, Status.REJECTED_CAPABILITY, is_held=False)
    found = Scan(traffic(work(range(6), 0, 10, Status.COMPLETED), left))
    assert [(finding.cause, finding.opened - FIRST) for finding in found.findings] == [(Cause.UNSERVED, 8)]


def test_a_name_that_nobody_asks_for_any_more_is_forgotten():
    asked = work(range(2), 10, 0, Status.REJECTED_CAPABILITY, is_held=False, capability="image.describe")
    later = work(range(14, 30), 0, 5, Status.COMPLETED, capability="other.late")
    found = Scan(traffic(asked, later))

    assert causes(found) == {"image.describe": Cause.UNSERVED}
    assert found.open == {}


def test_a_misspelt_name_of_one_delegator_is_advice_and_of_two_a_gap():
    asked = list(
        work(range(14), 4, 0, Status.REJECTED_CAPABILITY, is_held=False, capability="other.wrok-1", delegators=1)
    )
    found = Scan(traffic(asked))
    assert causes(found) == {}
    (advice,) = found.advice
    assert advice.sentence == (
        "agent-0 asks for other.wrok-1 (56 delegations), which no agent has: other.work-1 is meant?"
    )

    found = Scan(traffic(asked, [asked[0]._replace(delegator="another")]))
    assert causes(found) == {"other.wrok-1": Cause.UNSERVED}


def test_what_ends_is_closed_after_a_week_and_opened_anew_when_it_comes_again():
    def part(days: range) -> Iterable[Outcome]:
        return work(days, 15, 10, Status.PARTIAL)

    found = Scan(traffic(part(range(8)), work(range(8, 45), 0, 40, Status.COMPLETED)))
    assert causes(found) == {WORD: Cause.REFUSED}
    assert found.open == {}

    again = Scan(traffic(part(range(8)), work(range(8, 45), 0, 40, Status.COMPLETED), part(range(45, 60))))
    assert [finding.cause for finding in again.findings] == [Cause.REFUSED] * 2
    assert again.findings[1].opened - FIRST > 45


def test_the_order_of_outcomes_changes_nothing():
    outcomes = [*work(range(14), 12, 12, Status.PARTIAL), *work(range(14), 3, 9, Status.NEEDS_INPUT)]
    assert Scan(traffic(outcomes)).findings == Scan(traffic(outcomes[::-1])).findings


def test_an_empty_traffic_has_no_gap():
    found = Scan(DailyTraffic())
    assert (found.findings, found.open, found.advice) == ([], {}, [])
