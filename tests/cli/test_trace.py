"""`ether trace`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pexpect
import pytest

from ether.runtime import Runtime
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind, pack_envelope
from tests.audit.crew import Commit, play
from tests.cli.command import Command, table
from tests.cli.trails import write

COLUMNS = ["NUMBER", "DELEGATION", "AGENT", "STATE", "START", "QUEUED", "RUN", "TOOK", "TIME"]
TREE = """\
chief.plan
├─ worker.dig
│  └─ checker.check
├─ worker.dig
│  └─ checker.check
└─ worker.break"""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(tmp_path_factory.mktemp("trace") / "journal.db", play()))


def drawn(out: str) -> list[str]:
    """The names in the tree, with what is drawn before them."""
    lines = out.partition("\n\n")[0].splitlines()
    begin, end = lines[0].index("DELEGATION"), lines[0].index("AGENT")
    return [line[begin:end].rstrip() for line in lines[1:]]


@pytest.mark.parametrize("which", ["6", "25", "13", "00000000-0000-7000-8000-000000000006"])
def test_the_whole_tree_is_drawn_from_any_of_its_delegations(alone: Command, journal: str, which: str) -> None:
    done = alone("trace", which, "--journal", journal)

    assert done.code == 0
    assert table(done)[0] == COLUMNS
    assert "\n".join(drawn(done.out)).replace(" ◄", "") == TREE
    assert done.err == "6 delegations in 3 s, for desk\n"


def test_the_one_that_was_asked_for_is_marked(alone: Command, journal: str) -> None:
    done = alone("trace", "13", "--journal", journal)

    assert [line for line in drawn(done.out) if "◄" in line] == ["│  └─ checker.check ◄"]


def test_times_are_told_and_drawn(alone: Command, journal: str) -> None:
    lines = alone("trace", "6", "--journal", journal).out.splitlines()
    rows = [re.split(" {2,}", line.strip())[-5:] for line in lines[1:7]]

    assert rows[0] == ["0 µs", "0 µs", "3 s", "3 s", "█" * 32]
    assert rows[1] == ["0 µs", "0 µs", "1 s", "1 s", "█" * 11]
    assert rows[3] == ["0 µs", "1 s", "2 s", "3 s", "·" * 11 + "█" * 21]
    assert lines[3].rindex("█") - lines[1].index("█") == 10


def test_why_something_failed_stands_below(alone: Command, journal: str) -> None:
    remarks = alone("trace", "6", "--journal", journal).out.partition("\n\n")[2].splitlines()

    assert remarks == ["#23 worker.break: FAILED_EXECUTION by worker: exception: ValueError: the spade \\x1b[31mbroke"]


def test_a_subtree_begins_with_the_one_that_was_asked_for(alone: Command, journal: str) -> None:
    done = alone("trace", "7", "--subtree", "--journal", journal)

    assert drawn(done.out) == ["worker.dig ◄", "└─ checker.check"]
    assert done.err == "2 delegations in 1 s, for chief\n"


def test_levels_can_be_left_out(alone: Command, journal: str) -> None:
    done = alone("trace", "6", "--depth", "1", "--journal", journal)

    assert drawn(done.out) == ["chief.plan ◄", "├─ worker.dig", "├─ worker.dig", "└─ worker.break"]
    assert done.err.startswith("2 more below --depth 1\n")
    assert drawn(alone("trace", "6", "--depth", "0", "--journal", journal).out) == ["chief.plan ◄"]


def test_json_nests_and_json_lines_have_a_level(alone: Command, journal: str) -> None:
    tree = alone("trace", "13", "-o", "json", "--journal", journal).json
    lines = alone("trace", "13", "-o", "jsonl", "--journal", journal).lines

    assert [child["capability"] for child in tree["children"]] == ["worker.dig", "worker.dig", "worker.break"]
    assert tree["children"][0]["children"][0]["marked"] is True
    assert tree["children"][1]["queued"] == pytest.approx(1.0)
    assert [(line["capability"], line["level"], line["marked"]) for line in lines] == [
        ("chief.plan", 0, False), ("worker.dig", 1, False), ("checker.check", 2, True), ("worker.dig", 1, False),
        ("checker.check", 2, False), ("worker.break", 1, False),
    ]  # fmt: skip
    assert "children" not in lines[0]
    assert json.dumps(lines[2])[1:-1] in json.dumps(tree)


def test_another_attempt_and_dead_letters_are_told(alone: Command, tmp_path: Path) -> None:
    one = bytes(15) + b"\x01"

    def event(**body: object) -> bytes:
        return pack_envelope(Kind.EVENT, request_id=bytes(16), source=b"ether", body=pack(body))

    asked = pack_envelope(
        Kind.DELEGATION,
        request_id=one,
        source=b"desk",
        target=b"first",
        capability=b"dig",
        body=pack({"params": pack({})}),
    )
    done = pack_envelope(
        Kind.RESPONSE, request_id=one, status=Status.COMPLETED, attempt=2, source=b"second", target=b"desk",
        capability=b"dig", body=pack({"elapsed": 4.0}),
    )  # fmt: skip
    again = event(event="reassigned", request_id=to_text(one), agent="second", attempt=2)
    late = event(
        event="dead_letter", request_id=to_text(one), number=1, reason="late", detail="the delegation had ended"
    )
    steps = [(10.0, asked), (15.0, again), (20.0, done), (30.0, late)]
    path = write(tmp_path / "journal.db", [Commit(n, at, at, [envelope]) for n, (at, envelope) in enumerate(steps, 1)])

    shown = alone("trace", "1", "--journal", str(path))
    lines = shown.out.splitlines()

    assert lines[1].split()[2:4] == ["◄", "second"]
    assert lines[1].endswith("░" * 16 + "·" * 3 + "█" * 13)
    assert lines[3:] == [
        "#1 dig: attempt 2 by second, 5 s after it was accepted", "#1 dig: dead letter late: the delegation had ended",
    ]  # fmt: skip
    assert shown.err == "1 delegation in 10 s, for desk\n"


def test_an_open_one_lasts_until_the_journals_last_word(alone: Command, tmp_path: Path) -> None:
    commits = [commit for commit in play() if commit.time < 1_000_002.5]
    path = write(tmp_path / "journal.db", commits)

    done = alone("trace", "6", "--journal", str(path))

    assert done.err == "4 delegations (2 without an outcome) in 1.5 s, for desk\n"
    assert [row[3] for row in table(done)[1:2]] == ["chief"]
    assert "RUNNING" in done.out


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("1", "Entry 1 is node_up, which is about no delegation: name another."),
        ("999", "There is no entry 999: the journal has 1 to 25."),
        ("ff", "No delegation in the journal has 'ff'"),
    ],
)
def test_what_has_no_tree_is_told(alone: Command, journal: str, which: str, said: str) -> None:
    done = alone("trace", which, "--journal", journal)

    assert done.code == 2
    assert said in done.err


def test_a_tree_whose_root_was_given_up_begins_with_what_is_left(alone: Command, tmp_path: Path) -> None:
    commits = [commit._replace(first=commit.first) for commit in play() if commit.time >= 1_000_001.0]
    path = write(tmp_path / "journal.db", commits)

    done = alone("trace", "12", "--journal", str(path))
    gone = alone("trace", "15", "--journal", str(path))

    assert drawn(done.out) == ["checker.check ◄"]
    assert gone.code == 2
    assert "has not, or not any more, how 00000000-0000-7000-8000-000000000006 was accepted" in gone.err


@pytest.mark.slow
def test_a_terminal_shows_colours_and_folds_nothing(alone: Command, journal: str) -> None:
    with alone.terminal("trace", "6", "--journal", journal) as child:
        child.expect(pexpect.EOF)
        lines = str(child.before).splitlines()

    assert "\x1b[32m" in lines[1]
    assert "\x1b[31m" in next(line for line in lines if "FAILED_EXECUTION" in line)
    assert len(lines) == 10


def test_what_was_refused_as_its_own_parent_has_a_trace(alone: Command, tmp_path: Path) -> None:
    first, second = ("0190c8a0-0000-7000-8000-00000000000" + digit for digit in "12")
    journal = tmp_path / "journal.db"
    with Runtime(journal=journal, drain=0.0) as bus:
        for request_id, parent in ((first, first), (second, first), (first, second)):
            bus.delegate("chief.plan", request_id=request_id, parent=parent).result(10.0)
    for request_id in (first, second):
        done = alone("trace", request_id, "--journal", str(journal))
        assert done.code == 0
        assert "chief.plan" in done.out
