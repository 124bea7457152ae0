"""The leak check after a campaign: processes, sockets and files that it left. Read in `/proc`; Linux only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
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
    limit = time.monotonic() + _PATIENCE
    while True:
        found = {
            "processes": list(_processes(f"{MARK}={mark}".encode())),
            "sockets": _sockets(scratch, url),
            "files": [str(path.relative_to(scratch)) for path in sorted(scratch.rglob("*"))],
        }
        if not any(found.values()) or time.monotonic() >= limit:
            return found
        time.sleep(_POLL)


def _processes(variable: bytes) -> Iterator[str]:
    """Id and command of those that have a variable in their environment."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                yield f"{entry.name} {words.decode(errors='replace').strip()}"


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
