"""The one way out: whatever is put there, a terminal finds nothing in it to obey."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.live import Live
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from ether.text_io.terminal import console, log_to_stderr, put, say
from tests.hostile_text import FORGED, HOSTILE, obeyed

Capture = pytest.CaptureFixture[str]


@contextmanager
def without_handlers() -> Iterator[None]:
    """Let no logs be told but as the block says."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_what_was_asked_for_keeps_its_lines_and_its_length(capsys: Capture) -> None:
    put("a\tb\r\nc" + "x" * 100_000)

    assert capsys.readouterr().out == "a\tb\nc" + "x" * 100_000 + "\n"


def test_what_was_asked_for_moves_no_cursor(capsys: Capture) -> None:
    put(HOSTILE)

    assert obeyed(capsys.readouterr().out.replace(FORGED, "")) == []


def test_no_line_of_a_message_looks_like_another_message(capsys: Capture) -> None:
    say(HOSTILE)
    say(f"ether: it said:\n{HOSTILE}")

    assert obeyed(capsys.readouterr().err) == []


def test_a_message_has_an_end(capsys: Capture) -> None:
    say("x" * 1_000_000)

    assert len(capsys.readouterr().err) == 20_002


def test_a_message_that_nobody_reads_any_more_is_no_error() -> None:
    closed = io.StringIO()
    closed.close()

    say("too late", closed)


def test_logs_are_told_likewise_with_what_their_tracebacks_quote(capsys: Capture) -> None:
    with without_handlers():
        log_to_stderr(logging.INFO)
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logging.getLogger("ether.agent").exception("it failed: %s", HOSTILE)
        logging.getLogger(f"ether.{HOSTILE}").info("who is that?")
        logging.getLogger("ether.agent").debug("never told")

    told = capsys.readouterr().err
    assert obeyed(told) == []
    assert told.startswith("ERROR ether.agent: it failed: \\x1b]0;PWNED")
    assert "ValueError: \\x1b]0;PWNED" in told
    assert "never told" not in told


@pytest.mark.parametrize("drawn", [HOSTILE, Text(HOSTILE)], ids=["str", "text"])
def test_what_is_drawn_has_no_escapes_but_those_of_the_drawing(
    drawn: str | Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    stream = io.StringIO()
    screen = console(stream)
    table = Table(title="t")
    table.add_column("a")
    table.add_row(drawn)
    screen.print(drawn)
    screen.print(table)
    with Live(drawn, console=screen, auto_refresh=False) as live:
        live.update(drawn, refresh=True)
    with Progress(TextColumn("{task.description}", markup=False), console=screen, auto_refresh=False) as progress:
        progress.add_task(HOSTILE)

    assert obeyed(stream.getvalue().replace(FORGED, "")) == []
    assert "[bold red]markup[/]" in stream.getvalue()


def test_colours_of_our_own_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = io.StringIO()

    console(stream).print(Text("\x1b[31mevil", style="green"))

    assert stream.getvalue() == "\x1b[32m\\x1b[31mevil\x1b[0m\n"


def test_the_standard_streams_are_those_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    put("data")
    say("note")

    assert (out.getvalue(), err.getvalue()) == ("data\n", "note\n")
