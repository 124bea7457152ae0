"""The delegations that an agent which leaves had begun, as its UNREGISTER says them: a request id and the attempt, 17 bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["MOST_BEGUN", "pack_begun", "read_begun"]

MOST_BEGUN: Final = 20_000
"""Delegations that one UNREGISTER names."""
_ID: Final = 16


def pack_begun(works: Iterable[tuple[bytes, int]]) -> bytes:
    """Pack request ids with their attempts, as bytes: the broker, which only keeps them for the node, need not read each."""
    return b"".join(request_id + bytes((attempt,)) for request_id, attempt in works)


def read_begun(packed: bytes) -> dict[bytes, int]:
    """{request id: attempt}."""
    starts = range(0, len(packed), _ID + 1)
    return {packed[start : start + _ID]: packed[start + _ID] for start in starts}
