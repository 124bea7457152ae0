"""`ether top`."""

from __future__ import annotations

import signal
import termios
from collections.abc import Callable

import pexpect
import pytest

from ether import Runtime
from ether.cli.top import screen, top
from ether.cli.top.rates import Reading
from tests.cli.command import Command

SCREEN, BACK = r"\x1b\[\?1049h", r"\x1b\[\?1049l"


def test_a_reading_is_plain_lines_without_a_terminal(own: Command, own_bus: Runtime) -> None:
    own_bus.delegate("test.echo").result()

    lines = own("top", "-n", "2", "-i", "0.05").out.splitlines()

    assert len(lines) == 6
    assert lines[0].startswith("accepted/s=")
    assert " agents=2 " in lines[0]
    assert sorted(line.split()[0] for line in lines[1:3]) == ["counter", "greeter"]
    assert next(line for line in lines if "greeter" in line).split()[5:7] == ["rate/s=0.0", "completed=1"]


def test_json_is_a_list_of_readings_one_unless_told(own: Command) -> None:
    (reading,) = own("top", "-o", "json", "-i", "0.05").json

    assert {agent["agent"] for agent in reading["agents"]} == {"greeter", "counter"}
    assert len(own("top", "-o", "json", "-i", "0.05", "-n", "2").json) == 2


def test_json_lines_are_a_reading_each(own: Command) -> None:
    lines = own("top", "-o", "jsonl", "-i", "0.05", "-n", "2").lines

    assert [line["queued"] for line in lines] == [0, 0]
    assert lines[0]["interval"] >= 0.05


def test_work_between_two_samples_is_a_rate(own: Command, own_bus: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(_seconds: float) -> None:
        own_bus.delegate("test.echo").result()

    monkeypatch.setattr("ether.cli.top.top.sleep", work)

    (reading,) = own("top", "-o", "json").json

    assert reading["accepted_rate"] == pytest.approx(1 / reading["interval"])
    assert reading["agents"][0]["agent"] == "greeter"
    assert reading["agents"][0]["rate"] == pytest.approx(1 / reading["interval"])


def test_a_bus_that_stops_answering_is_told_on_the_screen(own_bus: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def show(first: Reading, read: Callable[[], Reading | str], *_: object) -> None:
        monkeypatch.setattr(own_bus, "statistics", lambda: own_bus.delegate("nobody").result().unwrap())
        seen.extend([first, read()])

    monkeypatch.setattr(screen, "show", show)

    top._on_screen(own_bus, 1.0, None, "ipc:///bus.sock")

    assert isinstance(seen[0], Reading)
    assert str(seen[1]).startswith("no answer: REJECTED_CAPABILITY")


@pytest.mark.parametrize("words", [["-i", "0"], ["-n", "0"]])
def test_an_impossible_interval_is_a_usage_error(alone: Command, words: list[str]) -> None:
    assert alone("top", *words).code == 2


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["q", "\x03"], ids=["q", "Ctrl-C"])
def test_it_takes_the_screen_and_gives_it_back(own: Command, own_bus: Runtime, leave: str) -> None:
    with own.terminal("top", "-i", "0.2", NO_COLOR="1") as child:
        before = termios.tcgetattr(child.child_fd)
        child.expect(SCREEN)
        child.expect("ether top")
        child.expect("2 agents on 2 nodes")
        child.expect("counter")
        own_bus.delegate("test.echo").result()
        child.expect("greeter +host +up +0 +0 +[0-9.]+ +1 +0")
        child.send(leave)
        child.expect(BACK)
        child.expect(pexpect.EOF)
        child.wait()
        assert termios.tcgetattr(child.child_fd) == before

    assert child.exitstatus == 0
    assert "Traceback" not in str(child.before)


@pytest.mark.slow
def test_a_terminal_that_cannot_draw_gets_plain_lines(own: Command) -> None:
    with own.terminal("top", "-n", "1", "-i", "0.05", TERM="dumb") as child:
        child.expect("accepted/s=")
        child.expect(pexpect.EOF)

    assert "\x1b[" not in str(child.before)


@pytest.mark.slow
def test_it_ends_quietly_when_its_reader_does(own: Command) -> None:
    with own.started("top", "-i", "0.05", "-o", "jsonl") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        code = process.wait(15)
        assert process.stderr is not None
        err = process.stderr.read()

    assert code == 128 + signal.SIGPIPE
    assert err == ""
