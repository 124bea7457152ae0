"""One artifact on its way here: which of its bytes are asked for next, and in what order they are given on. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from ether_broker.errors import ArtifactUnavailable
from ether_broker.wire.chunk import MOST_CHUNK

__all__ = ["WINDOW", "ArtifactTransfer"]

WINDOW: Final = 4
"""Chunks that are asked for, or wait for one before them, at a time: 1 MiB."""


class ArtifactTransfer:
    """A file of a known size that comes in chunks, which may be answered in any order or not at all.

    Args:
        path: of the file, for errors.
        size: bytes.
    """

    __slots__ = ("_again", "_arrived", "_following", "_path", "_size", "absent", "asked", "silent", "written")

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self.asked: dict[bytes, int] = {}
        """{request id: offset} of what has no answer."""
        self.written: int = 0
        """Bytes that were given on."""
        self.silent: float = 0.0
        """Seconds without a byte while it had a place before."""
        self.absent: float = 0.0
        """Seconds of those since the last chunk in which its node was not on the bus."""
        self._following = 0
        self._arrived: dict[int, bytes] = {}
        self._again: deque[int] = deque()

    @property
    def is_done(self) -> bool:
        """Whether all bytes were given on."""
        return self.written == self._size

    @property
    def has_begun(self) -> bool:
        """Whether any chunk has come."""
        return bool(self.written or self._arrived)

    def wanted(self) -> tuple[int, int] | None:
        """The (offset, length) of the chunk to ask for now; None: the window is full, or nothing is left."""
        if len(self.asked) >= WINDOW:
            return None
        if self._again:
            offset = self._again.popleft()
        elif self._following < min(self._size, self.written + WINDOW * MOST_CHUNK):
            offset = self._following
            self._following += MOST_CHUNK
        else:
            return None
        return offset, self._length(offset)

    def refused(self, request_id: bytes) -> None:
        """Have a chunk asked for again."""
        self._again.append(self.asked.pop(request_id))

    def begin_again(self) -> list[bytes]:
        """Have all chunks asked for again that have no answer: the request ids by which they were."""
        self._again.extend(self.asked.values())
        asked, self.asked = list(self.asked), {}
        return asked

    def took(self, request_id: bytes, data: bytes) -> Iterator[bytes]:
        """Take a chunk; gives on what is next in the file, to be written before the next call of anything here.

        Raises:
            ArtifactUnavailable: it has not the length that was asked for.
        """
        offset = self.asked.pop(request_id)
        if len(data) != self._length(offset):
            wanted = f"{self._length(offset):,} bytes from {offset:,} on"
            raise ArtifactUnavailable(
                f"{self._path} of {self._size:,} bytes is cut off: of {wanted} {len(data):,} came."
            )
        self._arrived[offset] = data
        self.absent = 0.0
        while (following := self._arrived.pop(self.written, None)) is not None:
            self.written += len(following)
            yield following

    def _length(self, offset: int) -> int:
        return min(MOST_CHUNK, self._size - offset)
