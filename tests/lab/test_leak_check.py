"""The leak check finds each kind of thing that could be left."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether.lab.harness import leak_check
from ether.lab.harness.leak_check import MARK
from tests.support import wait_until


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    monkeypatch.setattr(leak_check, "_PATIENCE", 0.0)
    with tempfile.TemporaryDirectory(prefix="ether-leak-") as folder:
        yield Path(folder)


def test_nothing_left_is_nothing_found(scratch: Path) -> None:
    assert leak_check.left_behind("mine", scratch, "ipc:///x") == {"processes": [], "sockets": [], "files": []}


def test_a_process_is_found_whose_parent_has_died(scratch: Path) -> None:
    shell = ["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"]
    done = subprocess.run(
        shell, env={MARK: "mine", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    pid = done.stdout.strip()
    try:
        wait_until(lambda: leak_check.left_behind("mine", scratch, "ipc:///x")["processes"] == [f"{pid} sleep 60"])
        assert leak_check.left_behind("another", scratch, "ipc:///x")["processes"] == []
    finally:
        subprocess.run(["kill", "-9", pid], check=True)


def test_a_socket_and_its_file_are_found(scratch: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(scratch / "broker.sock"))
        left.listen()
        found = leak_check.left_behind("mine", scratch, f"ipc://{scratch}/broker.sock")

    assert found["files"] == ["broker.sock"]
    assert "broker.sock" in found["sockets"][0]


def test_a_port_that_is_listened_at_is_found(scratch: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as left:
        url = f"tcp://127.0.0.1:{left.getsockname()[1]}"

        assert len(leak_check.left_behind("mine", scratch, url)["sockets"]) == 1
    assert leak_check.left_behind("mine", scratch, url)["sockets"] == []
