"""Sockets in Linux's abstract namespace, which have no file: their names, and whose process is at the other end.

Anybody may take a name there, so each end asks for the user of the other's process.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from pathlib import Path
from typing import Final

__all__ = ["abstract_names", "is_own", "name_digest"]

_CREDENTIALS: Final = struct.Struct("3i")
_ALL: Final = Path("/proc/net/unix")
"""Linux's list of the sockets, in which `@` begins an abstract name."""
_NAME_COLUMN: Final = 7


def abstract_names(prefix: str) -> list[str]:
    """The names of sockets in Linux's abstract namespace that begin with `prefix`, without the zero before it; anybody's."""
    try:
        lines = _ALL.read_bytes().decode(errors="replace").split("\n")  # anybody's name may have any bytes in it
    except OSError:
        return []
    rows = (line.split(maxsplit=_NAME_COLUMN) for line in lines)
    names = {row[_NAME_COLUMN] for row in rows if len(row) > _NAME_COLUMN}
    return sorted(name[1:] for name in names if name.startswith(f"@{prefix}"))


def is_own(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(said)
    return bool(user == os.getuid())


def name_digest(text: str, length: int) -> str:
    """So many hexadecimal digits that stand for a text of any length, as a part of a name."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]
