"""`ether doctor`."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ether.cli.setup import checks
from ether.cli.setup.checks import Check, CheckResult
from tests.cli.command import Command


def test_all_is_well_here_and_no_bus_is_needed(alone: Command) -> None:
    done = alone("doctor", "-o", "json")

    assert done.code == 0, done
    found = {row["check"]: row["verdict"] for row in done.json}
    assert found.pop("lan") in ("ok", "warn"), "a machine need have no network"
    assert found == dict.fromkeys(
        ("python", "libraries", "libzmq", "curve", "keys", "ipc folder", "open files", "clock", "broker"), "ok"
    )
    assert "is free for `ether up`" in done.json[-1]["detail"]


def test_text_is_a_line_a_check(alone: Command) -> None:
    lines = alone("doctor").out.splitlines()

    assert lines[0].split() == ["VERDICT", "CHECK", "FOUND", "FIX"]
    assert lines[1].startswith("ok       python")


def test_a_bus_is_asked_and_timed(ether: Command) -> None:
    found = {row["check"]: row for row in ether("doctor", "-o", "json").json}

    assert "2 agents" in found["broker"]["detail"]
    assert "median of 20" in found["round trip"]["detail"]
    assert found["broker's clock"]["verdict"] == "ok"


def test_a_bus_that_should_be_there_and_is_not_fails(alone: Command, folder: Path) -> None:
    done = alone("doctor", "--connect", f"ipc://{folder}/nowhere.sock", "-o", "json")

    assert done.code == 1
    assert (done.json[-1]["verdict"], done.json[-1]["fix"]) == ("fail", f"ether up --bind ipc://{folder}/nowhere.sock")


def test_something_else_at_the_address_fails(alone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        done = alone("doctor", "--connect", f"tcp://127.0.0.1:{deaf.getsockname()[1]}", "-o", "json")

    assert done.code == 1
    assert "No broker answers" in done.json[-1]["detail"]


def test_a_bad_url_fails(alone: Command) -> None:
    assert alone("doctor", "--connect", "localhost").code == 1


@pytest.mark.parametrize(
    ("check", "verdict", "said"),
    [
        (lambda: checks.python((3, 10, 9)), CheckResult.FAIL, "install Python 3.11"),
        (lambda: checks.libzmq((4, 2, 5)), CheckResult.FAIL, "pip install --upgrade pyzmq"),
        (lambda: checks.curve(has_curve=False), CheckResult.WARN, "pip install --force-reinstall pyzmq"),
        (lambda: checks.open_files(512), CheckResult.WARN, "ulimit -n 1024"),
        (lambda: checks.open_files(64), CheckResult.FAIL, "ulimit -n 1024"),
        (lambda: checks.round_trip(0.2), CheckResult.WARN, "ether top"),
        (lambda: checks.wall_clock(-7.5), CheckResult.WARN, "time service"),
    ],
)
def test_what_is_wrong_is_told_with_its_fix(check: Callable[[], Check], verdict: CheckResult, said: str) -> None:
    found = check()

    assert found.verdict is verdict
    assert said in found.fix


def test_missing_libraries_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "installed_version", {"rich": None, "pykka": None}.get)

    assert checks.libraries().fix.startswith("pip install msgpack")


def test_where_ormsgpack_has_no_wheel_msgpack_does_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checks, "installed_version", {name: "1" for name in checks.LIBRARIES if name != "ormsgpack"}.get
    )

    assert checks.libraries().verdict is CheckResult.WARN


def test_a_folder_that_others_may_write_to_fails(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)

    found = checks.ipc_folder(f"ipc://{shared}/bus.sock")

    assert (found.verdict, found.fix) == (CheckResult.FAIL, f"chmod 700 {shared}")


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.lan().verdict in (CheckResult.OK, CheckResult.WARN)
    monkeypatch.setitem(sys.modules, "zeroconf", None)

    without = checks.lan()

    assert (without.verdict, without.detail) == (CheckResult.OK, "discovery is not installed")
    assert "agent-ether[lan]" in without.fix
