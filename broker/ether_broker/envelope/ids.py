"""Request ids: UUIDv7 (RFC 9562), so that they sort by the time they were made.

Those of one process rise, whatever its clock does, and their last 5 bytes are the same: the bus tells by them what it cannot
have seen before (`ether_actors.supervisor.state.ended`).
"""

from __future__ import annotations

import os
import threading
import time
import uuid

__all__ = ["NO_ID", "PROCESS", "foreign_id", "is_rising", "made_at", "new_id", "to_bytes", "to_text"]

NO_ID = bytes(16)
"""Stands for "none" in a header, as in the parent of a root delegation."""

PROCESS = slice(11, None)
"""The part of a request id that all ids of one process share."""

_PREFIX_SECONDS = 0.001


_FROM = 33
"""How far 64 random bits are shifted for the number at which the counter begins: 31 of its 32 bits, so that half of its numbers
follow."""
_STEPS = (1 << 20) - 1
"""The most that the counter rises by, less one: 2,048 ids find room in a millisecond, more than are made."""


class _Source:
    """A millisecond, a counter of 32 bits and 42 random bits drawn once a process.

    Drawing 10 random bytes an id costs more than the rest of it; RFC 9562 §6.2 method 1 allows a counter in their place, and
    the process's random bits keep two processes apart. In each millisecond the counter begins at a random number and rises by
    a random step, so that who knows an id cannot tell those to come, and use them first.
    """

    def __init__(self) -> None:
        self._seed()
        os.register_at_fork(after_in_child=self._seed)

    def _seed(self) -> None:
        # A lock of its own: the parent's may have been held by another thread when it forked.
        self._lock = threading.RLock()  # a finalizer that runs with it may make an id
        self._node = int.from_bytes(os.urandom(6)) & ((1 << 42) - 1)
        self._count, self._step = 0, 1
        self._since = self._until = 0.0
        self._high = 0

    def next(self) -> bytes:
        now = time.time()
        with self._lock:
            count = self._count + self._step
            if not self._since <= now < self._until:
                self._since, self._until = now, now + _PREFIX_SECONDS
                drawn = int.from_bytes(os.urandom(8))
                self._step = step = 1 + (drawn & _STEPS)
                high, count = int(now * 1000) << 80, self._count + step
                if high > self._high:  # of a clock that was set back the last time stays: ids rise
                    self._high, count = high, drawn >> _FROM
            if count > 0xFFFFFFFF:  # noqa: PLR2004  its 32 bits
                count = int.from_bytes(os.urandom(8)) >> _FROM
                self._high += 1 << 80
            self._count, high = count, self._high
        bits = high | 0x7 << 76 | (count >> 20) << 64 | 0b10 << 62 | (count & 0xFFFFF) << 42 | self._node
        return bits.to_bytes(16)


new_id = _Source().next
"""Make a request id of 16 bytes; unique among processes and hosts, rising within a process."""


def to_text(request_id: bytes) -> str:
    """The canonical form, as in `018f6b1e-…`."""
    text = request_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_bytes(text: str) -> bytes:
    """The 16 bytes of a UUID in any of its usual forms.

    Raises:
        ValueError: it is not a UUID.
    """
    return uuid.UUID(text).bytes


def is_rising(request_id: bytes) -> bool:
    """Whether it is a UUIDv7: those of one process rise."""
    return request_id[6] >> 4 == 7  # noqa: PLR2004  the version


def made_at(request_id: bytes) -> float | None:
    """When a request id was made, by the highest Unix time that its maker's clock had shown; None where it is no UUIDv7."""
    return int.from_bytes(request_id[:6]) / 1000 if is_rising(request_id) else None


def foreign_id(text: str) -> bytes:
    """The request id that stands for an id of another system, such as `dlg-2025-10-06-001`.

    A UUID stands for itself; anything else becomes a UUIDv8 of its SHA-256, so that the same foreign id always
    folds into the same request.
    """
    try:
        return to_bytes(text)
    except ValueError:
        import hashlib

        digest = bytearray(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:16])
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        return bytes(digest)
