"""The hash chain: each commit's hash covers all that is stored of it, and the hash of the commit before.

    hash(0) = sha256("ether journal" identity)
    hash(n) = sha256(hash(n - 1) seq:u64 first:u64 next:u64 time:f64 wall:f64 len(refs):u32 len(checkpoint):u32
                     refs checkpoint body)

All numbers are big-endian. A large body is covered through its own SHA-256, which stands in `refs`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["checkpoint_digest", "genesis", "link"]

_FIELDS: Final = struct.Struct(">QQQddII")
_NUMBER: Final = struct.Struct(">Q")


def genesis(identity: str) -> bytes:
    """The hash before the first commit of a journal."""
    return hashlib.sha256(b"ether journal" + identity.encode()).digest()


def link(before: bytes, head: tuple[int, int, int, float, float], refs: bytes, checkpoint: bytes, body: bytes) -> bytes:
    """The hash of a commit whose `head` is (seq, first, next, time, wall).

    Raises:
        struct.error: a field is not of its type, or out of its range.
        TypeError: likewise.
    """
    fields = _FIELDS.pack(*head, len(refs), len(checkpoint))
    digest = hashlib.sha256(b"".join((before, fields, refs, checkpoint)))
    digest.update(body)  # apart: large ones are not copied, and are hashed without the interpreter's lock
    return digest.digest()


def checkpoint_digest(number: int, parts: Iterable[bytes | memoryview]) -> bytes:
    """What a commit says about the checkpoint that it carries; wherever its body is cut into parts."""
    digest = hashlib.sha256(_NUMBER.pack(number))
    for part in parts:
        digest.update(part)
    return digest.digest()
