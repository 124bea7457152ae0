"""`ether log verify` and `ether log gc`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ether import Runtime
from tests.cli.agents import Greeter
from tests.cli.command import Command
from tests.cli.trails import appending


def test_a_whole_journal_gives_its_last_hash(alone: Command, journal: str) -> None:
    done = alone("log", "verify", "--journal", journal)
    verdict = alone("log", "verify", "-o", "json", "--journal", journal).json

    assert (done.code, len(done.out.strip())) == (0, 64)
    assert "with 27 envelopes, numbers 1 to 27" in done.err
    assert (verdict["whole"], verdict["hash"], verdict["problem"]) == (True, done.out.strip(), None)


def test_the_first_altered_row_is_named(alone: Command, own_journal: Path) -> None:
    with closing(sqlite3.connect(own_journal)) as connection, connection:
        rows = connection.execute("SELECT seq, body FROM commits WHERE first >= 12").fetchall()
        better = [(body.replace(b"a hole of", b"a hill of"), seq) for seq, body in rows]
        connection.executemany("UPDATE commits SET body = ? WHERE seq = ?", better)

    done = alone("log", "verify", "--journal", str(own_journal))
    verdict = alone("log", "verify", "-o", "json", "--journal", str(own_journal))

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("ether: altered: ")
    assert verdict.code == 1
    assert verdict.json["whole"] is False
    assert verdict.json["problem"]["flaw"] == "altered"
    assert f"commit {verdict.json['problem']['seq']}, number {verdict.json['problem']['number']}" in done.err


def test_a_hash_that_was_kept_has_to_be_in_the_chain(alone: Command, own_journal: Path) -> None:
    kept = alone("log", "verify", "--journal", str(own_journal)).out.strip()
    with appending(own_journal) as appender:
        appender.append("later")

    assert alone("log", "verify", "--expect", kept.upper(), "--journal", str(own_journal)).code == 0
    done = alone("log", "verify", "--expect", "0" * 64, "--journal", str(own_journal))
    assert done.code == 1
    assert done.err.startswith("ether: truncated: No commit has the hash 000")


def test_a_hash_that_is_none_is_a_usage_error(alone: Command, journal: str) -> None:
    done = alone("log", "verify", "--expect", "abc", "--journal", journal)

    assert done.code == 2
    assert "--expect is 'abc' and has to be a hash" in done.err


def test_what_is_old_is_given_up_and_the_rest_is_whole(alone: Command, own_journal: Path) -> None:
    words = ["log", "gc", "--older-than", "0s", "-o", "json", "--journal", str(own_journal)]
    before = alone("log", "-n", "1", "-o", "json", "--journal", str(own_journal)).json

    told = alone(*words, "--dry-run")
    assert told.json["dry_run"] is True
    assert alone("log", "-n", "1", "-o", "json", "--journal", str(own_journal)).json == before
    removed = alone(*words).json

    assert {**removed, "dry_run": True, "older_than": 0, "bytes": 0} == {**told.json, "older_than": 0, "bytes": 0}
    assert removed["commits"] > 0
    done = alone("log", "verify", "-o", "json", "--journal", str(own_journal))
    assert (done.code, done.json["first"]) == (0, removed["envelopes"] + 1)
    assert alone("log", "gc", "--older-than", "0s", "--journal", str(own_journal)).out.startswith(
        "0 envelopes in 0 commits"
    )


@pytest.mark.slow
def test_a_journal_in_use_is_left_alone_and_its_user_named(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with appending(path) as appender:
        appender.append("one")
        done = alone("log", "gc", "--older-than", "7d", "--journal", str(path))

        assert done.code == 3
        assert done.err.startswith("ether: journal_locked: ")
        assert f"process {appender.process.pid}" in done.err
        assert alone("log", "gc", "--older-than", "7d", "--dry-run", "--journal", str(path)).code == 0


@pytest.mark.parametrize("words", [[], ["--older-than", "a week"]])
def test_gc_has_to_be_told_how_old(alone: Command, journal: str, words: list[str]) -> None:
    assert alone("log", "gc", *words, "--journal", journal).code == 2


@pytest.mark.slow
def test_a_broker_gives_up_the_old_part_while_it_goes_on(folder: Path, tmp_path: Path) -> None:
    path, url = tmp_path / "journal.db", f"ipc://{folder}/kept.sock"
    words = ["log", "gc", "--older-than", "0s", "-o", "json", "--journal", str(path)]
    with Runtime(bind=url, journal=path, drain=0.0) as bus:
        bus.start(Greeter)
        greeting = bus.delegate("test.people.greet", {"name": "Ada"}, timeout=30).result(30).unwrap()
        done = Command(folder, url)(*words)
        assert bus.delegate("test.people.greet", {"name": "Ada"}, timeout=30).result(30).unwrap().data == greeting.data

    assert done.code == 0, done.err
    assert done.json["envelopes"] > 0
    assert Command(folder, None)("log", "verify", "--journal", str(path)).code == 0


@pytest.mark.slow
def test_a_broker_with_another_journal_is_not_asked_to_give_up_its_own(
    folder: Path, tmp_path: Path, host: str
) -> None:  # fmt: skip
    path = tmp_path / "journal.db"
    with appending(path) as appender:
        appender.append("one")
        done = Command(folder, host)("log", "gc", "--older-than", "7d", "--journal", str(path))

    assert (done.code, done.err.startswith("ether: journal_locked: ")) == (3, True)


def by_name(state: Path, name: str, source: Path) -> Path:
    """Put a journal where that of a cluster of this name is."""
    path = state / "ether" / name / "journal.db"
    path.parent.mkdir(parents=True)
    return source.rename(path)


@pytest.mark.slow
@pytest.mark.parametrize("named", ["--connect", "ETHER_CONNECT", "--name"])
def test_the_bus_that_is_named_gives_up_its_own_journal_and_no_other_is_touched(
    folder: Path, tmp_path: Path, own_journal: Path, named: str
) -> None:
    default = by_name(tmp_path, "default" if named != "--name" else "kept", own_journal)
    before = default.read_bytes()
    path = tmp_path / "mine.db"
    (folder / "ether").mkdir(exist_ok=True)
    url = f"ipc://{folder}/ether/kept.sock"
    words = {"--connect": ["--connect", url], "ETHER_CONNECT": [], "--name": ["--name", "kept"]}[named]
    ether = Command(folder, url if named == "ETHER_CONNECT" else None)
    with Runtime(bind=url, journal=path, drain=0.0) as bus:
        bus.start(Greeter)
        bus.delegate("test.people.greet", {"name": "Ada"}, timeout=30).result(30).unwrap()
        done = ether("log", "gc", "--older-than", "0s", "-o", "json", *words, XDG_STATE_HOME=str(tmp_path))

    assert (done.code, done.json["bus"], done.json["journal"]) == (0, url, None), done
    assert done.json["envelopes"] > 0
    assert default.read_bytes() == before


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_a_bus_that_cannot_do_it_is_told_and_nothing_is_changed(
    alone: Command, tmp_path: Path, own_journal: Path, words: list[str]
) -> None:
    default = by_name(tmp_path, "default", own_journal)
    before = default.read_bytes()

    nowhere = f"ipc://{tmp_path}/nowhere.sock"
    done = alone("log", "gc", "--older-than", "0s", "--connect", nowhere, *words, XDG_STATE_HOME=str(tmp_path))

    assert (done.code, done.out) == (2 if words else 3, "")
    assert nowhere in done.err
    assert default.read_bytes() == before


@pytest.mark.slow
def test_a_bus_without_a_journal_gives_up_nothing_of_another(
    folder: Path, host: str, tmp_path: Path, own_journal: Path
) -> None:  # fmt: skip
    default = by_name(tmp_path, "default", own_journal)
    before = default.read_bytes()

    done = Command(folder, host)("log", "gc", "--older-than", "0s", XDG_STATE_HOME=str(tmp_path))

    assert done.code == 3
    assert f"The broker at {host} has given up nothing" in done.err
    assert "keeps no journal" in done.err
    assert default.read_bytes() == before


def test_the_journal_of_a_cluster_that_is_not_there_is_named(alone: Command, tmp_path: Path, own_journal: Path) -> None:
    path = by_name(tmp_path, "still", own_journal)

    done = alone("log", "gc", "--older-than", "0s", "--name", "still", XDG_STATE_HOME=str(tmp_path))

    assert done.code == 0
    assert done.out.endswith(f"given up in {path}\n")
