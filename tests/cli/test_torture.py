"""`ether torture`, as a command; tests/torture has the campaigns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ether.lab.report import Report, Violation
from ether.lab.torture import campaign
from ether.lab.torture.campaign import reread
from ether.lab.torture.history.history import read_evidence
from ether.lab.torture.report import make_report
from ether.lab.torture.settings import TortureSettings, Victim
from tests.cli.command import Command
from tests.hostile_text import HOSTILE, obeyed
from tests.torture.story import Story


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The logs of a campaign that went well."""
    story = Story(tmp_path / "kept")
    story.done()
    story.end()
    story.write()
    return story.folder


def broken(kept: Path, *violations: Violation) -> Report:
    """The report of the same logs, with broken promises."""
    return make_report(read_evidence(kept), violations, kept)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, kept: Path) -> list[TortureSettings]:
    """What was asked for, in place of minutes of torture."""
    asked: list[TortureSettings] = []

    def run(settings: TortureSettings) -> Report:
        asked.append(settings)
        return reread(kept)

    monkeypatch.setattr(campaign, "run", run)
    return asked


def test_options_are_settings(alone: Command, runs: list[TortureSettings]) -> None:
    alone("torture", "--delegations", "500", "--nodes", "4", "--seed", "9", "--seconds", "7", "--kills", "3",
          "--victims", "node, supervisor", "--transport", "tcp")  # fmt: skip

    (settings,) = runs
    assert (settings.delegations, settings.nodes, settings.seed) == (500, 4, 9)
    assert (settings.seconds, settings.kills, settings.transport) == (7.0, 3, "tcp")
    assert settings.victims == (Victim.BROKER, Victim.NODE)


def test_a_good_report_is_code_0_and_has_every_format(alone: Command, runs: list[TortureSettings]) -> None:
    done = alone("torture")

    assert done.code == 0
    assert done.out.startswith("no promise was broken  seed 7")
    assert alone("torture", "-o", "json").json["ok"] is True
    assert alone("torture", "--markdown").out.startswith("no promise was broken  seed 7")
    assert not [line for line in alone("torture", "-o", "jsonl").lines if "rule" in line]


def test_a_broken_promise_is_code_1_with_the_seed_and_the_folder(
    alone: Command, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "run", lambda _settings: broken(kept, Violation("twice", "it ran twice", "d1")))

    done = alone("torture")

    assert done.code == 1
    assert "1 broken promises  seed 7" in done.out
    assert str(kept) in done.out
    assert "twice  d1          it ran twice" in done.out
    assert alone("torture", "-o", "jsonl").lines[0] == {"rule": "twice", "text": "it ran twice", "id": "d1"}


def test_of_many_violations_of_one_rule_five_are_shown_and_json_has_all(
    alone: Command, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [Violation("twice", f"it ran {number} times", "d1") for number in range(2, 9)]
    monkeypatch.setattr(campaign, "run", lambda _settings: broken(kept, *many))

    done = alone("torture")

    assert "it ran 6 times" in done.out
    assert "it ran 7 times" not in done.out
    assert "and 2 more; -o json has all" in done.out
    assert len(alone("torture", "-o", "json").json["violations"]) == 7


@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
def test_what_agents_said_of_a_broken_promise_is_obeyed_by_no_terminal(
    alone: Command, kept: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    report = broken(kept, Violation("twice", HOSTILE, HOSTILE))
    report = replace(report, tables={"outcomes": [{"outcome": HOSTILE, "count": 1}]})
    monkeypatch.setattr(campaign, "run", lambda _settings: report)

    assert obeyed(alone("torture", "-o", output).out) == []


def test_kept_logs_are_checked_again(alone: Command, kept: Path) -> None:
    assert alone("torture", "--check", str(kept)).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--victims", "brokr"], "There is no victim 'brokr'. Did you mean 'broker'?"),
        (["--transport", "udp"], "Input should be 'ipc' or 'tcp'"),
        (["--seconds", "-1"], "seconds=-1.0: Input should be greater than or equal to 0"),
        (["--markdown", "-o", "json"], "--markdown is a format of its own"),
        (["--check", "nowhere"], "campaign.json is missing"),
    ],
)
def test_a_campaign_that_cannot_be_is_a_usage_error(alone: Command, words: list[str], said: str) -> None:
    done = alone("torture", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err
