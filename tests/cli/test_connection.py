"""Which bus a command talks to, and what it says where there is none."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from ether import Runtime
from tests.cli.agents import Greeter
from tests.cli.command import Command

COMMANDS = [
    ["agents"],
    ["nodes"],
    ["capabilities"],
    ["exec", "greeter", "greet"],
    ["delegate", "test.echo"],
    ["dead-letters", "list"],
    ["dead-letters", "show", "1"],
    ["dead-letters", "redrive", "1"],
    ["top"],
    ["node", "tests.cli.agents:Greeter"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_broker_is_one_line_that_names_the_fix(alone: Command, folder: Path, words: list[str]) -> None:
    done = alone(*words)

    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"ether: broker_unavailable: No broker listens at ipc://{folder}/ether/default.sock: "
        "start one with `ether up`, or name another with --connect.\n"
    )


def test_the_users_other_buses_are_named_where_his_own_is_not_there() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ether-named-"))
    try:
        (folder / "ether").mkdir(mode=0o700)
        (folder / "ether/gone.sock").touch()
        crew = f"ipc://{folder}/ether/crew.sock"
        with Runtime(bind=crew):
            done = Command(folder, None)("agents")
            given = Command(folder, f"ipc://{folder}/ether/none.sock")("agents")
    finally:
        shutil.rmtree(folder)

    for told in (done, given):
        assert told.err.endswith(f"or name another with --connect. These are there: {crew}.\n")


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if words[0] not in {"exec", "delegate", "node"}], ids=" ".join
)
def test_a_bus_that_was_started_by_a_name_is_named_alike(alone: Command, folder: Path, words: list[str]) -> None:
    done = alone(*words, "--name", "other")

    assert (done.code, done.out) == (3, "")
    assert f"No broker listens at ipc://{folder}/ether/other.sock: " in done.err


def test_an_empty_name_of_a_bus_is_told(alone: Command) -> None:
    done = alone("agents", "--name", "")

    assert (done.code, done.err) == (
        2,
        "ether: usage: --name is empty: name a bus, as in --name office, or leave it out.\n",
    )


def test_a_bus_of_ones_own_is_reached_by_its_name_also_where_a_parameter_may_be_named_name(
    alone: Command, folder: Path
) -> None:
    with Runtime(bind=f"ipc://{folder}/ether/other.sock", drain=0.0) as bus:
        bus.start(Greeter)
        listed = alone("agents", "--name", "other", "-o", "json").json
        greeting = alone("exec", "greeter", "greet", "--connect", "ipc://other", "--name", "Ada")
        one = alone("agents", "greeter", "--name", "other", "-o", "json").json
        none = alone("agents", "greter", "--name", "other")

    assert [row["agent"] for row in listed] == ["greeter"] == [row["agent"] for row in one]
    assert greeting.out == "Hello, Ada\n"
    assert none.err == "ether: unknown_agent: There is no agent 'greter'. Did you mean 'greeter'?\n"


def test_an_error_is_json_where_json_is_asked_for(alone: Command) -> None:
    error = json.loads(alone("agents", "-o", "json").err)["error"]

    assert (error["code"], error["retryable"], error["exit_code"]) == ("broker_unavailable", True, 3)


def test_debug_shows_the_traceback(alone: Command) -> None:
    assert "Traceback" in alone("--debug", "agents").err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:7421", "is no address of a broker: write tcp://HOST:PORT"),
        ("tcp://localhost", "is no TCP address"),
        ("tcp://localhost:99999", "is no TCP address"),
        ("tcp://*:7421", "is an address to bind"),
        ("inproc://bus", "is an address to bind"),
        ("ipc://run/relative.sock", "is no ipc address"),
        ("http://localhost:80", "is no address of a broker"),
    ],
)
def test_a_bad_url_is_a_usage_error(alone: Command, url: str, said: str) -> None:
    done = alone("agents", "--connect", url)

    assert done.code == 2
    assert said in done.err


def test_the_option_counts_more_than_the_environment(alone: Command, host: str) -> None:
    assert alone("agents", "--connect", host, ETHER_CONNECT="ipc:///nowhere.sock").code == 0
    assert alone("agents", ETHER_CONNECT=host).code == 0
    assert alone("agents", ETHER_CONNECT="ipc:///nowhere.sock").code == 3


def test_a_bus_on_tcp_is_reached(alone: Command) -> None:
    with Runtime(bind=f"tcp://127.0.0.1:{free_port()}", drain=0.0) as bus:
        bus.start(Greeter)
        done = alone("exec", "greeter", "greet", "--name", "Ada", "--connect", bus.url)

    assert done.out == "Hello, Ada\n"


def test_nobody_at_a_port_is_told_at_once(alone: Command) -> None:
    done = alone("agents", "--connect", f"tcp://127.0.0.1:{free_port()}")

    assert done.code == 3


def test_something_that_is_no_broker_is_told(alone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ether.cli.common.connection._PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        done = alone("agents", "--connect", f"tcp://127.0.0.1:{deaf.getsockname()[1]}")

    assert done.code == 3
    assert "No broker answers at" in done.err


def test_a_bus_that_is_not_there_yet_is_waited_for_and_so_is_its_agent(
    alone: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"ipc://{folder}/late.sock"
    bus = Runtime(bind=url, drain=0.0)
    steps = iter((bus.open, lambda: bus.start(Greeter)))

    def come_late() -> None:
        """Each time that the command waits, one thing more is there."""
        next(steps)()

    monkeypatch.setattr("ether.cli.common.connection.pause", come_late)
    monkeypatch.setattr("ether.cli.bus.delegate.pause", come_late)
    try:
        done = alone("exec", "greeter", "greet", "--name", "Ada", "--connect", url, "--wait", "20")
        by_capability = alone("delegate", "test.people.greet", "--name", "Ada", ETHER_CONNECT=url, ETHER_WAIT="20")
    finally:
        bus.close()

    assert done.out == by_capability.out == "Hello, Ada\n"


def test_what_never_comes_is_not_waited_for_longer_than_told(alone: Command, ether: Command) -> None:
    assert alone("agents", "--wait", "0.1").code == 3
    assert ether("exec", "nobody", "greet", "--wait", "0.1").code == 5


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
