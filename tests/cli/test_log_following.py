"""`ether log --follow`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.cli.trails import appending

COLUMNS = ["NUMBER", "TIME", "WHAT", "FROM", "TO", "CAPABILITY", "REQUEST", "SUMMARY"]


@pytest.mark.slow
def test_it_follows_a_journal_that_another_process_writes(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with appending(path) as appender:
        appender.append("before_one")
        appender.append("before_two")
        with alone.started("log", "-f", "-n", "1", "-o", "json", "--journal", str(path)) as process:
            assert process.stdout is not None
            assert '"event": "before_two"' in process.stdout.readline()
            appender.append("after_one")
            assert '"event": "after_one"' in process.stdout.readline()
            appender.append("+")
            for place in range(1000):
                assert f'"event": "event_{place}"' in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""


@pytest.mark.slow
def test_it_follows_with_filters_as_a_table(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with (
        appending(path) as appender,
        alone.started("log", "-f", "--event", "wanted", "--journal", str(path)) as process,
    ):
        assert process.stdout is not None
        appender.append("other")
        appender.append("wanted")
        assert process.stdout.readline().split() == COLUMNS
        assert process.stdout.readline().split()[2] == "wanted"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.slow
def test_a_journal_that_is_taken_away_ends_the_following(alone: Command, own_journal: Path) -> None:
    with alone.started("log", "-f", "-n", "1", "-o", "jsonl", "--journal", str(own_journal)) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        own_journal.rename(own_journal.with_name("elsewhere.db"))
        assert process.wait(10) == 3
        assert process.stderr is not None
        assert '"code": "journal_unavailable", "message": "The journal' in process.stderr.read()


@pytest.mark.slow
def test_a_line_is_cut_at_the_edge_of_a_terminal(alone: Command, journal: str) -> None:
    import pexpect

    with alone.terminal("log", "--journal", journal) as child:
        child.expect(pexpect.EOF)
        lines = str(child.before).splitlines()

    assert len(lines) == 27
    assert "…" in lines[1]
    assert "\x1b[31m" in next(
        line for line in lines if "FAILED_EXECUTION" in line
    )  # red is ours; the spade's is written out
