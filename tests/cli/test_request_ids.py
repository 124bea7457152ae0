"""`ether exec --request-id`: the same request, asked once more by another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import Runtime
from ether_broker.errors import NameTaken
from tests.cli.agents import GATE, STARTED, Counter
from tests.cli.command import Command
from tests.support import wait_until

REQUEST = "018F6B1E-0000-7000-8000-000000000001"
NAME = f"request-{REQUEST.lower()}"
COUNT = ("exec", "counter", "count", "--to", "2", "--request-id", REQUEST)
WAIT = ("exec", "counter", "wait", "--request-id", REQUEST)


def opened(folder: Path, journal: Path) -> Runtime:
    return Runtime(bind=f"ipc://{folder}/again.sock", name="host", drain=0.0, journal=journal)


@pytest.fixture
def bus(folder: Path, tmp_path: Path) -> Iterator[Runtime]:
    GATE.clear()
    STARTED.clear()
    with opened(folder, tmp_path / "bus.db") as bus:
        bus.start(Counter)
        yield bus
        GATE.set()


@pytest.fixture
def command(folder: Path) -> Command:
    return Command(folder, f"ipc://{folder}/again.sock")


def done(bus: Runtime) -> object:
    return {agent["agent"]: agent["outcomes"] for agent in bus.agents()}["counter"]


def test_a_request_that_is_sent_again_gets_the_outcome_that_it_had(bus: Runtime, command: Command) -> None:
    first, second = command(*COUNT, "-o", "json"), command(*COUNT, "-o", "json")

    assert (first.code, second.code) == (0, 0), second
    assert first.json == second.json
    assert done(bus) == {"COMPLETED": 1}


def test_it_does_after_a_restart_of_the_bus_though_nobody_is_there_to_do_it(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    with opened(folder, tmp_path / "bus.db") as bus:
        bus.start(Counter)
        first = command(*COUNT, "-o", "json")
    with opened(folder, tmp_path / "bus.db"):
        second = command("delegate", "test.count", *COUNT[3:], "-o", "json")

    assert first.json == second.json


def test_an_id_that_stands_for_something_else_is_refused(bus: Runtime, command: Command) -> None:
    command(*COUNT)
    other = command("exec", "counter", "fail", "--request-id", REQUEST)

    assert other.code == 5
    assert "duplicate_request: This id is that of your test.count" in other.err


def test_what_is_no_id_is_told_before_anything_is_sent(alone: Command) -> None:
    refused = alone("exec", "counter", "count", "--request-id", "task-7")

    assert refused.code != 0
    assert "'task-7' is no UUID" in refused.err


@pytest.mark.slow
def test_of_two_at_a_time_the_second_waits_for_the_first(bus: Runtime, command: Command) -> None:
    with command.started(*WAIT) as one:
        assert STARTED.wait(15)
        with command.started(*WAIT) as other:
            wait_until(lambda: NameTaken.code in bus.delegate("ether.statistics").result().data["refused"])
            GATE.set()
            said = [process.communicate(timeout=15) for process in (one, other)]

    assert [out for out, _ in said] == ["waited\n", "waited\n"], said
    assert done(bus) == {"COMPLETED": 1}


def test_one_that_waits_in_vain_says_why(bus: Runtime, folder: Path, command: Command) -> None:
    with Runtime.connect(f"ipc://{folder}/again.sock", name=NAME):
        refused = command(*COUNT, "--timeout", "0.3")

    assert refused.code == 3
    assert f"Another command asks for the request {REQUEST.lower()}" in refused.err


@pytest.mark.slow
def test_who_was_killed_gets_the_outcome_when_it_asks_again(bus: Runtime, command: Command) -> None:
    with command.started(*WAIT) as process:
        assert STARTED.wait(15)
        process.kill()
        process.wait()
    GATE.set()
    again = command(*WAIT)

    assert (again.code, again.out) == (0, "waited\n"), again
    assert done(bus) == {"COMPLETED": 1}
