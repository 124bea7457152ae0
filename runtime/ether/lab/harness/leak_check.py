"""The leak check after a campaign: processes, sockets and files that it left. Read in `/proc`; Linux only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["MARK", "left_behind"]

MARK: Final = "ETHER_TORTURE"
"""The environment variable that all processes of a campaign carry."""
_PATIENCE: Final = 5.0
_POLL: Final = 0.05


def left_behind(mark: str, scratch: Path, url: str) -> dict[str, list[str]]:
    """Say what is still there after some patience, for what is just ending: {kind: what is left of it}.

    Args:
        mark: of the campaign, in the environment of all that it started, directly or not.
        scratch: the folder for what must not be left.
        url: where the broker was.
    """
    looks: dict[str, Callable[[], list[str]]] = {
        "processes": lambda: [_describe(pid) for pid in _marked(mark)],
        "sockets": lambda: _sockets(scratch, url),
        "files": lambda: [str(path.relative_to(scratch)) for path in sorted(scratch.rglob("*"))],
    }
    limit = time.monotonic() + _PATIENCE
    found = {kind: look() for kind, look in looks.items()}
    while any(found.values()) and time.monotonic() < limit:
        time.sleep(_POLL)
        found = {kind: look() for kind, look in looks.items()}
    return found


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # it has ended, or is another user's
                continue
            if wanted in variables:
                yield int(entry.name)


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    return f"{pid} {b' '.join(words).decode(errors='replace').strip()}"


def _sockets(scratch: Path, url: str) -> list[str]:
    """Sockets that are bound in the folder, and whoever listens where the broker did."""
    found = [line for line in _table("unix") if str(scratch) in line]
    if url.startswith("tcp://"):
        port = int(url.rpartition(":")[2])
        found += [line for name in ("tcp", "tcp6") for line in _table(name) if _listens(line, port)]
    return found


def _table(name: str) -> list[str]:
    try:
        return Path(f"/proc/net/{name}").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return []


def _listens(line: str, port: int) -> bool:
    """Whether a line of `/proc/net/tcp` (proc(5)) is a listening socket of that port."""
    _, local, _, state, *_ = line.split()
    return state == "0A" and int(local.rpartition(":")[2], 16) == port
