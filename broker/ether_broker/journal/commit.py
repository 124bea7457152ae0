"""A commit as it is stored: batches as they came, with large payloads cut out.

    body  = batch*            without the bytes that refs say
    batch = first:u64 time:f64 wall:f64 count:u32 count*( length:u32 ) count*( envelope )
    refs  = ( offset:u32 length:u32 sha256:32s )*          offset in the whole body, rising

All numbers are big-endian.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from ether_broker.journal.body_store import LARGE, payloads
from ether_broker.journal.journal import Replayed
from ether_broker.wire.frame import HEADER, pack_lengths, read_lengths

__all__ = ["Packed", "pack_row", "references", "restore", "unpack_row"]

_BATCH: Final = struct.Struct(">QddI")
_REF: Final = struct.Struct(">II32s")
_MOST_COMMIT_BYTES: Final = 1 << 30
"""Bytes of a commit: more than a step lets pass, whatever waits. A few bytes of refs could say any number."""
_THRESHOLD: Final = LARGE + HEADER.size


class Packed(NamedTuple):
    """The packed body of a commit, and the payloads that were cut out of it."""

    body: bytes
    refs: bytes
    cut: Sequence[tuple[bytes, bytes]]
    """The payloads that were cut out, as (SHA-256, bytes)."""


def pack_row(batches: Sequence[Replayed]) -> Packed:
    """Make the body of a commit.

    Raises:
        struct.error: the body has 4 GiB or more.
    """
    parts: list[bytes] = []
    large = False
    for first, time, wall, envelopes in batches:
        parts += (_BATCH.pack(first, time, wall, len(envelopes)), pack_lengths(envelopes))
        parts += envelopes
        large = large or max(map(len, envelopes), default=0) >= _THRESHOLD
    return _cut(batches, parts) if large else Packed(b"".join(parts), b"", ())


def _cut(batches: Sequence[Replayed], parts: Sequence[bytes]) -> Packed:
    kept: list[bytes] = []
    refs: list[bytes] = []
    cut: list[tuple[bytes, bytes]] = []
    envelopes = {id(envelope) for batch in batches for envelope in batch.envelopes}
    offset = 0
    for part in parts:
        done = 0
        if len(part) >= _THRESHOLD and id(part) in envelopes:  # a long table of lengths is no envelope
            for start, end in payloads(part):
                payload = part[start:end]
                digest = hashlib.sha256(payload).digest()
                refs.append(_REF.pack(offset + start, end - start, digest))
                cut.append((digest, payload))
                kept.append(part[done:start])
                done = end
        kept.append(part[done:] if done else part)
        offset += len(part)
    return Packed(b"".join(kept), b"".join(refs), cut)


def references(refs: bytes | None) -> Iterator[tuple[int, int, bytes]]:
    """The (offset, length, SHA-256) of each payload that was cut out.

    Raises:
        struct.error: there are bytes left over.
    """
    return _REF.iter_unpack(refs or b"")


def restore(body: bytes, refs: bytes | None, bodies: Mapping[bytes, bytes]) -> bytes:
    """Put the payloads back where they were.

    Raises:
        KeyError: one of them, by its SHA-256, is not among `bodies`.
        struct.error: `refs` is not what was written, or says more than a commit may have.
    """
    if not refs:
        return body
    parts: list[bytes] = []
    taken = whole = 0
    for offset, length, digest in references(refs):
        following, payload = taken + offset - whole, bodies[digest]
        if not (taken <= following <= len(body) and len(payload) == length and offset + length <= _MOST_COMMIT_BYTES):
            raise struct.error(f"a payload of {length} bytes at {offset}")
        parts += (body[taken:following], payload)
        taken, whole = following, offset + length
    parts.append(body[taken:])
    return b"".join(parts)


def unpack_row(body: bytes) -> list[Replayed]:
    """Take a whole body apart into its batches.

    Raises:
        struct.error: the lengths do not add up.
    """
    batches = []
    position, size = 0, len(body)
    while position < size:
        first, time, wall, count = _BATCH.unpack_from(body, position)
        position += _BATCH.size
        ends = list(accumulate(read_lengths(body, position, count), initial=position + 4 * count))
        position = ends[-1]
        if position > size:
            raise struct.error(f"a batch ends at byte {position} of {size}")
        batches.append(Replayed(first, time, wall, [body[a:b] for a, b in pairwise(ends)]))
    return batches
