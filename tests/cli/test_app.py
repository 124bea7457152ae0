"""The command as a whole: help, global options, completion, and what an error becomes."""

from __future__ import annotations

import pytest

from ether import __version__
from tests.cli.command import Command
from tests.support import run_python

COMMANDS = [
    "up", "node", "review", "exec", "delegate", "agents", "capabilities", "nodes", "dead-letters", "top", "log",
    "trace", "keys", "bench", "torture", "soak", "schema", "doctor", "version",
]  # fmt: skip
SUBCOMMANDS = [
    "dead-letters list", "dead-letters show", "dead-letters redrive", "log show", "log verify", "log gc",
    "keys new", "keys show", "keys list", "keys allow", "keys revoke", "keys rotate",
]  # fmt: skip


def test_help_names_every_command(alone: Command) -> None:
    done = alone("--help")

    assert done.code == 0
    assert [name for name in COMMANDS if f" {name} " not in done.out] == []
    assert alone().out == done.out


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_every_command_has_help(alone: Command, command: str) -> None:
    done = alone(*command.split(), "--help")

    assert done.code == 0
    assert f"Usage: ether {command}" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agnts"], "No such command 'agnts'. Did you mean 'agents'?"),
        (["dead-letters", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["log", "veryfy"], "No such command 'veryfy'. Did you mean 'verify'?"),
        (["trace"], "Missing argument 'ID'"),
        (["up", "--metrics", "x"], "No such option: --metrics. (`ether up"),
        (["states", "-q", "list"], "No such option: -q. It stands before the command, as in `ether -q agents`"),
        (["log", "--debug"], "No such option: --debug. It stands before the command, as in `ether --debug agents`"),
        (["states", "--name", "x", "list"], "No such option: --name. Options come after the subcommand (`ether states"),
        (["agents", "--conect", "x"], "No such option: --conect. Did you mean '--connect'?"),
        (["exec", "greeter"], "Missing argument 'CAPABILITY'"),
        (["up"], "Missing argument"),
        (["node"], "Missing argument"),
        (["review"], "Missing argument"),
        (["dead-letters", "show", "one"], "Invalid value for 'NUMBER'"),
        (["top", "--interval"], "Option '--interval' requires an argument"),
        (["nodes", "too", "many"], "Got unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_nearest(alone: Command, words: list[str], said: str) -> None:
    done = alone(*words)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ether: usage: ")
    assert said in done.err
    assert "--help` tells more)" in done.err
    assert done.err.count("\n") == 1


def test_the_version_is_told_in_short_and_in_full(alone: Command) -> None:
    full = alone("version", "-o", "json").json

    assert alone("--version").out == f"ether {__version__}\n"
    assert full["ether"] == __version__
    assert {"protocol", "schema", "python", "libzmq", "pyzmq", "pydantic"} <= set(full)
    assert alone("version").out.splitlines()[0].split() == ["ether", __version__]


def test_a_library_that_is_missing_is_told(alone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ether.cli.setup.versions.LIBRARIES", ("no-such-library",))

    assert alone("version", "-o", "json").json["no-such-library"] == "missing"


def test_a_bug_is_told_with_its_traceback_and_code_70(alone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def versions() -> None:
        raise RuntimeError("the bug")

    monkeypatch.setattr("ether.cli.setup.version.versions", versions)

    done = alone("version")

    assert done.code == 70
    assert "Traceback" in done.err
    assert "RuntimeError('the bug') is a bug of Ether's" in done.err


def test_only_what_is_drawn_or_run_is_imported() -> None:
    heavy = (
        "rich",
        "yaml",
        "asyncio",
        "ether_broker.journal.sqlite.tables",
        "ether.audit.trail",
        "jinja2",
        "ether.bench",
        "ether.review",
        "ether.review.scout",
        "ether.lab",
        "ether.cluster",
    )
    code = f"import sys, ether.cli.app; print([name for name in {heavy} if name in sys.modules])"

    assert run_python(code) == "[]\n"


def test_commands_are_completed(alone: Command) -> None:
    done = complete(alone, "ether dead-letters re", 2)

    assert done == ["redrive"]


def test_agents_and_capabilities_are_completed_from_the_bus(ether: Command) -> None:
    assert complete(ether, "ether exec gr", 2) == ["greeter"]
    assert complete(ether, "ether delegate test.c", 2) == ["test.count"]


def test_without_a_bus_completion_is_empty_and_silent(alone: Command) -> None:
    assert complete(alone, "ether exec gr", 2) == []


def complete(ether: Command, words: str, position: int) -> list[str]:
    done = ether(_ETHER_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(position))
    assert done.err == ""
    return done.out.split()
