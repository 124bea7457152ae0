"""`ether gaps`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from ether.governance.gaps.outcomes import Outcome
from ether_broker.envelope.status import Status
from tests.cli.command import Command, table
from tests.governance.gaps.journals import write_traffic

FIRST = 20_000  # 2024-10-04


def traffic(days: int) -> Iterable[Outcome]:
    """Days on which one capability is refused half of the time, one is missing, and one name is misspelt."""
    for day in range(FIRST, FIRST + days):
        for n in range(12):
            delegator = f"agent-{n % 3}"
            yield Outcome(day, "text.count", delegator, Status.COMPLETED, pace=1.0)
            status = Status.PARTIAL if n % 2 else Status.COMPLETED
            yield Outcome(day, "text.review", f"agent-{n % 3}", status, pace=1.0)
            if n < 3:
                yield Outcome(day, "image.describe", delegator, Status.REJECTED_CAPABILITY, is_held=False)
            if n == 5:
                yield Outcome(day, "text.cuont", "agent-2", Status.REJECTED_CAPABILITY, is_held=False)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_traffic(tmp_path_factory.mktemp("month") / "journal.db", traffic(10))


def test_a_scan_lists_each_gap_with_its_cause_and_advises_about_names(alone: Command, month: Path):
    done = alone("gaps", "scan", "--journal", str(month))

    head, *rows = table(done)
    assert done.code == 0
    assert head == ["CAPABILITY", "CAUSE", "SINCE", "AFFECTED", "ASKED", "DAYS", "DELEGATORS", "SCORE"]
    assert rows == [
        ["text.review", "refused", "2024-10-08", "42", "84", "7", "3", "0.50"],
        ["image.describe", "unserved", "2024-10-05", "30", "30", "10", "3", "0.40"],
    ]
    assert done.err.splitlines() == [
        "agent-2 asks for text.cuont (10 delegations), which no agent has: text.count is meant?"
    ]


def test_as_json_it_has_the_evidence_and_the_sentence(alone: Command, month: Path):
    found = alone("gaps", "scan", "--journal", str(month), "-o", "json").json

    refused, unserved = found["gaps"]
    assert (found["days"], [one["meant"] for one in found["advice"]]) == (10, ["text.count"])
    assert (refused["first"], refused["last"]) == ("2024-10-07", "2024-10-13")
    assert refused["justification"]["rejection_rate"] == 0.5
    assert unserved["sentence"] == (
        "image.describe: no agent has it: 30 of 30 delegations (100%) by 3 delegators, on 10 of 10 days."
    )


def test_a_young_journal_says_that_it_needs_days(alone: Command, tmp_path: Path):
    path = write_traffic(tmp_path / "journal.db", traffic(3))

    done = alone("gaps", "scan", "--journal", str(path))

    assert [row[0] for row in table(done)[1:]] == ["image.describe"]
    assert done.err.splitlines()[-1] == "not enough yet: 3 of 7 days"


def test_a_journal_without_delegations_has_nothing_to_list(alone: Command, tmp_path: Path):
    done = alone("gaps", "scan", "--journal", str(write_traffic(tmp_path / "journal.db", [])))

    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == ["nothing to list", "not enough yet: 0 of 7 days"]


def test_a_simulation_says_how_well_the_rules_did_and_the_same_by_its_seed(alone: Command):
    done = alone("gaps", "simulate", "--months", "1", "--seed", "3")
    again = alone("gaps", "simulate", "--months", "1", "--seed", "3", "-o", "json").json

    names = [line.split("  ")[0] for line in done.out.splitlines()]
    assert names == [name.replace("_", " ") for name in again]
    assert again["gaps_found"] >= 1
    assert 0.0 <= again["precision"] <= 1.0
    assert alone("gaps", "simulate", "--months", "0").code == 2
