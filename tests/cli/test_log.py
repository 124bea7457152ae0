"""`ether log`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ether_broker.journal.sqlite.journal import SqliteJournal
from tests.audit.crew import Commit, play
from tests.cli.command import Command, table
from tests.cli.trails import alter, appending, write

COLUMNS = ["NUMBER", "TIME", "WHAT", "FROM", "TO", "CAPABILITY", "REQUEST", "SUMMARY"]
PLAN = "00000000-0000-7000-8000-000000000006"
LAST = 27


@pytest.fixture
def log(alone: Command, journal: str):
    """`ether log` of the journal that nobody changes."""

    def run(*words: str):
        return alone("log", *words, "--journal", journal)

    return run


def numbers(done) -> list[int]:
    return [row["number"] for row in done.lines]


# -- the list --------------------------------------------------------------------------------------------------------


def test_the_newest_stands_last(log) -> None:
    head, *rows = table(log())

    assert head == COLUMNS
    assert [int(row[0]) for row in rows] == list(range(1, 26))
    assert rows[-1][2:7] == ["COMPLETED", "chief", "desk", "chief.plan", PLAN]
    assert rows[5][1].startswith("2023-11-")


def test_the_journal_is_that_of_the_cluster_to_which_ether_connect_leads(alone: Command, tmp_path: Path) -> None:
    for name in ("default", "mine"):
        write(tmp_path / "ether" / name / "journal.db", play())
    state = {"XDG_STATE_HOME": str(tmp_path)}

    def told(*words: str, **environment: str) -> str:
        done = alone(*words, **state, **environment)
        assert len(table(done)) > 1, done.err
        return done.err

    assert told("log") == f"the journal is {tmp_path}/ether/default/journal.db\n"
    assert f"the journal is {tmp_path}/ether/mine/journal.db\n" in told("trace", PLAN, ETHER_CONNECT="ipc://mine")
    assert told("log", "--name", "mine") == ""
    assert told("log", "--name", "mine", ETHER_CONNECT="tcp://127.0.0.1:7421") == ""
    refused = alone("log", **state, ETHER_CONNECT="tcp://127.0.0.1:7421")
    assert refused.code == 2
    assert "ETHER_CONNECT is tcp://127.0.0.1:7421, and a journal is read from a file of this machine" in refused.err
    assert "no journal" in alone("log", **state, ETHER_CONNECT="ipc://nobody").err


def test_columns_are_aligned(log) -> None:
    lines = log().out.splitlines()
    place = lines[0].index("CAPABILITY")

    assert all(line[place - 2 : place] == "  " and line[place] != " " for line in lines)


def test_fifty_are_listed_unless_told(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with appending(path) as appender:
        appender.append("+")

    assert numbers(alone("log", "-o", "jsonl", "--journal", str(path))) == list(range(951, 1001))
    assert numbers(alone("log", "-n", "3", "-o", "jsonl", "--journal", str(path))) == [998, 999, 1000]


def test_what_the_bus_is_asked_about_itself_is_left_out_and_told(log) -> None:
    done = log()

    assert "ether.statistics" not in done.out
    assert done.err == "2 of the bus's own (ether.*) are left out; --all lists them\n"
    assert numbers(log("--all", "-o", "jsonl"))[-2:] == [26, LAST]
    assert numbers(log("--capability", "ether", "-o", "jsonl")) == [26, LAST]


def test_json_is_one_list_and_json_lines_a_row_each(log) -> None:
    assert log("-o", "json").json == log("-o", "jsonl").lines


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--agent", "checker"], [5, 12, 13, 20, 21]),
        (["--agent", "checker", "--agent", "desk", "--kind", "event"], [2, 5]),
        (["--capability", "worker.dig", "--kind", "DELEGATION"], [7, 8]),
        (["--capability", "worker", "--status", "completed"], [14, 22]),
        (["--status", "FAILED_EXECUTION", "--status", "PROGRESS"], [11, 19, 24]),
        (["--agent", "chief", "--agent", "worker", "--capability", "worker.break"], [23, 24]),
        (["--capability", "worker.break", "--capability", "worker"], [7, 8, 10, 11, 14, 16, 18, 19, 22, 23, 24]),
        (["--event", "node_up"], [1]),
        (["--event", "agent_up", "--agent", "worker"], [4]),
        (["--event", "node_up", "--kind", "response"], []),
        (["--kind", "delegation", "-n", "2"], [20, 23]),
        (["--agent", "nobody"], []),
    ],
)
def test_filters_of_different_kinds_have_to_fit_all(log, words: list[str], found: list[int]) -> None:
    assert numbers(log(*words, "-o", "jsonl")) == found


def test_times_bound_the_list(log) -> None:
    rows = log("-o", "jsonl").lines
    moments = sorted({int(row["time"]) for row in rows})
    since, until = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment)) for moment in moments[1:3])

    found = log("--since", since, "--until", until, "-o", "jsonl").lines

    assert {int(row["time"]) for row in found} == {moments[1]}
    assert numbers(log("--since", "10m", "-o", "jsonl")) == []


def test_nothing_is_noted(log) -> None:
    done = log("--agent", "nobody")

    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("nothing to list: there is no agent 'nobody'. Known: checker, chief, ")
    assert log("--agent", "chief", "--status", "timeout").err == "nothing to list\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--agent", "cheif"], "nothing to list: there is no agent 'cheif'. Did you mean 'chief'?"),
        (["--event", "agent_pu"], "nothing to list: there is no event 'agent_pu'. Did you mean 'agent_up'?"),
        (["--agent", "chief", "--event", "agent_pu"], "nothing to list: there is no event 'agent_pu'. "),
    ],
)
def test_names_that_the_journal_has_not_are_told_with_the_nearest(log, words: list[str], said: str) -> None:
    assert log(*words).err.startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--status", "COMPLETE"], "There is no status 'COMPLETE'. Did you mean 'COMPLETED'?"),
        (["--kind", "events"], "There is no kind 'events'. Did you mean 'event'?"),
        (["--since", "soon"], "--since is 'soon' and has to be a time"),
        (["--follow", "--until", "10m"], "--until ends a list and --follow goes on"),
        (["--limit", "0"], "Invalid value for '--limit'"),
    ],
)
def test_a_filter_that_cannot_be_is_a_usage_error(log, words: list[str], said: str) -> None:
    done = log(*words)

    assert done.code == 2
    assert said in done.err


def test_options_before_a_commands_name_are_refused(alone: Command) -> None:
    done = alone("log", "--agent", "worker", "verify")

    assert done.code == 2
    assert "--agent before `verify` would do nothing" in done.err


def test_the_format_may_stand_before_a_commands_name(alone: Command, journal: str) -> None:
    assert alone("log", "-o", "json", "verify", "--journal", journal).json["whole"] is True


def test_request_ids_are_as_short_as_they_can_be(alone: Command, tmp_path: Path, commits: list[Commit]) -> None:
    from ether_broker.envelope.ids import to_bytes
    from ether_broker.wire.frame import Kind, pack_envelope

    ids = [
        "019a0000-0001-7000-8000-000000000000",
        "019a0000-0002-7000-8000-000000000000",
        "019a0000-0002-7010-8000-0000000000ff",
    ]
    envelopes = [
        pack_envelope(Kind.DELEGATION, request_id=to_bytes(text), capability=b"a.b", body=b"\x80") for text in ids
    ]
    path = write(tmp_path / "journal.db", [Commit(1, 1.0, 1.0, envelopes)])

    shown = [row[6] for row in table(alone("log", "--journal", str(path)))[1:]]

    assert shown == ["019a0000-0001", "019a0000-0002-700", "019a0000-0002-701"]
    for text, short in zip(ids, shown, strict=True):
        (found,) = alone("log", "show", short, "-o", "json", "--journal", str(path)).json
        assert found["request_id"] == text


# -- one in full -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "which", ["8", "#8", "16", "22", "00000000-0000-7000-8000-000000000008", "00000000000070008000000000000008"]
)
def test_a_delegation_is_shown_whole_by_any_of_its_names(alone: Command, journal: str, which: str) -> None:
    found = alone("log", "show", which, "-o", "json", "--journal", journal).json

    assert [entry["number"] for entry in found] == [8, 16, 18, 19, 22]
    assert found[0]["body"]["params"] == {"hours": 2}
    assert found[-1]["body"]["data"] == "a hole of 2 h"
    assert alone("log", "show", which, "-o", "jsonl", "--journal", journal).lines == found


def test_for_people_each_has_a_headline_and_a_field_a_line(alone: Command, journal: str) -> None:
    lines = alone("log", "show", "23", "--journal", journal).out.splitlines()

    assert lines[0].startswith("#23  2023-11-")
    assert lines[0].endswith("DELEGATION  chief → worker  worker.break")
    assert [line.split(maxsplit=1) for line in lines if "error" in line.split()[:1]] == [
        ["error", "exception: ValueError: the spade \\x1b[31mbroke"]
    ]
    assert any(line.strip() == 'raise ValueError("the spade \\x1b[31mbroke")' for line in lines)
    assert any("0 µs after #23" in line for line in lines)


def test_an_event_that_is_about_no_delegation_is_shown_alone(alone: Command, journal: str) -> None:
    (found,) = alone("log", "show", "3", "-o", "json", "--journal", journal).json

    assert (found["event"], found["body"]["agent"]) == ("agent_up", "chief")


def test_a_dead_letter_belongs_to_the_story_of_its_delegation(alone: Command, tmp_path: Path) -> None:
    def orphan(bus) -> None:
        handle = bus.delegate("nobody.there")
        bus.advance(0)
        assert not handle.result().ok

    path = str(write(tmp_path / "journal.db", play(orphan)))

    found = alone("log", "show", "27", "-o", "json", "--journal", path).json

    assert [entry["kind"] for entry in found] == ["DELEGATION", "EVENT", "RESPONSE"]
    assert found == alone("log", "show", str(found[0]["number"]), "-o", "json", "--journal", path).json
    assert found[1]["request_id"] == found[0]["request_id"]
    assert "dead_letter" in alone("log", "show", "27", "--journal", path).out


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("99", "There is no entry 99: the journal has 1 to 27."),
        ("0000", "'0000' is the begin of several request ids: 00000000-0000-7000-8000-000000000006, 0"),
        ("ff", "No delegation in the journal has 'ff'"),
        ("dlg-2025-10-06", "No delegation in the journal has 'dlg-2025-10-06'"),
    ],
)
def test_what_is_not_there_is_told(alone: Command, journal: str, which: str, said: str) -> None:
    done = alone("log", "show", which, "--journal", journal)

    assert done.code == 2
    assert done.err.startswith("ether: unknown_entry: ")
    assert said in done.err


# -- which journal ---------------------------------------------------------------------------------------------------


def test_a_cluster_has_its_journal_in_the_users_state_folder(alone: Command, tmp_path: Path, commits) -> None:
    for name in ("default", "shop"):
        write(tmp_path / "ether" / name / "journal.db", commits)
    state = {"XDG_STATE_HOME": str(tmp_path)}

    assert alone("log", "verify", "-o", "json", **state).json["whole"] is True
    assert alone("log", "verify", "--name", "shop", **state).code == 0
    done = alone("log", "--name", "shpo", **state)
    assert done.code == 2
    assert done.err.startswith("ether: unknown_journal: The cluster 'shpo' has no journal in ")
    assert "Did you mean 'shop'?" in done.err


def test_clusters_and_requests_are_completed(alone: Command, tmp_path: Path, commits) -> None:
    write(tmp_path / "ether" / "default" / "journal.db", commits)

    def complete(words: str, position: int) -> list[str]:
        done = alone(
            _ETHER_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(position), XDG_STATE_HOME=str(tmp_path)
        )
        assert done.err == ""
        return done.out.split()

    assert complete("ether log --name de", 3) == ["default"]
    assert complete("ether log show 00000000-0000-7000-8000-000000000006", 3) == [
        "00000000-0000-7000-8000-000000000006"
    ]
    assert complete("ether log --status REJ", 3) == ["REJECTED_CAPABILITY", "REJECTED_CONTEXT", "REJECTED_OVERLOAD"]
    assert complete("ether log --status com", 3) == ["completed"]
    assert complete("ether log --kind d", 3) == ["delegation"]
    assert complete("ether log show --name nothing 0", 5) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--journal", "{folder}/jornal.db"], 2, "There is no journal at {folder}/jornal.db. Did you mean 'journal.db'?"),
        (["--journal", "{folder}"], 2, "{folder} is a folder: name the journal's file in it. Known: "),
        (["--journal", "{folder}/journal.db", "--name", "shop"], 2, "usage: --journal names a file and --name a cluster"),
        (["--journal", "{folder}/nowhere/journal.db"], 2, "There is no journal at {folder}/nowhere/journal.db."),
        (["--journal", "{folder}/text.db"], 1, "journal_corrupt: "),
        (["--journal", "{folder}/newer.db"], 8, "journal_too_new: "),
        (["--name", "a/b"], 2, "invalid_spec: 'a/b' cannot be the name of a cluster"),
    ],
)  # fmt: skip
def test_what_is_no_journal_is_told(
    alone: Command, own_journal: Path, words: list[str], code: int, said: str
) -> None:  # fmt: skip
    folder = own_journal.parent
    (folder / "text.db").write_text("no journal\n" * 1000)
    SqliteJournal(folder / "newer.db").close()
    alter(folder / "newer.db", "PRAGMA user_version = 99")

    done = alone("log", *(word.format(folder=folder) for word in words))

    assert done.code == code
    assert said.format(folder=folder) in " ".join(done.err.split())
    assert done.err.count("\n") == 1


def test_an_empty_journal_is_nothing_to_list(alone: Command, tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    SqliteJournal(path).close()

    assert alone("log", "--journal", path).err == "nothing to list\n"
    assert alone("log", "verify", "--journal", path).code == 0
    assert "the journal is empty" in alone("log", "show", "1", "--journal", path).err
