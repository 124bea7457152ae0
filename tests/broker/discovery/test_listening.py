"""Which of this user's buses take connections."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from ether_broker.discovery.listening import is_listening, others


def listen(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    server.setblocking(False)
    return server


def test_only_sockets_in_the_users_own_folder_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ether-") as name:
        folder = Path(name)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        own, other, gone = (folder / "ether" / f"{word}.sock" for word in ("own", "other", "gone"))
        foreign = folder / "elsewhere" / "daemon.sock"
        with listen(own), listen(other), listen(gone):
            pass
        for path in (own, other):
            path.unlink()
        with listen(own), listen(other), listen(foreign) as daemon:
            assert others(f"ipc://{own}") == [f"ipc://{other}"], "of gone, only the file is left"
            assert others(f"ipc://{folder}/elsewhere/mine.sock") == [f"ipc://{other}", f"ipc://{own}"]
            with pytest.raises(BlockingIOError):
                daemon.accept()
            assert is_listening(f"ipc://{foreign}")
        assert not is_listening(f"ipc://{own}")
