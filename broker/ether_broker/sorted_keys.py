"""Keys in order, so that what follows any of them is found without walking through all."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

__all__ = ["SortedKeys"]

_CHUNK: Final = 512
"""Keys that one chunk has at most before it is cut in two."""
_K = TypeVar("_K", bytes, int, str, tuple[Any, ...])


class SortedKeys(Generic[_K]):
    """A set of keys in order; adding, taking out and finding take O(log n), and moving some hundred references.

    They lie in chunks, as one list of 100,000 would be moved by half for every key that comes or goes.
    """

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[list[_K]] = []

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, key: _K) -> None:
        """Enter a key that is not there."""
        if not self._chunks:
            self._chunks.append([key])
            return
        index = min(self._chunk_of(key), len(self._chunks) - 1)
        chunk = self._chunks[index]
        insort(chunk, key)
        if len(chunk) > _CHUNK:
            self._chunks[index : index + 1] = [chunk[: _CHUNK // 2], chunk[_CHUNK // 2 :]]

    def remove(self, key: _K) -> None:
        """Take a key out that is there."""
        index = self._chunk_of(key)
        chunk = self._chunks[index]
        found = bisect_left(chunk, key)
        assert chunk[found] == key
        del chunk[found]
        if not chunk:
            del self._chunks[index]

    def retain(self, accepts: Callable[[_K], bool]) -> None:
        """Take out all but those that are accepted; in one go through them."""
        chunks = ([key for key in chunk if accepts(key)] for chunk in self._chunks)
        self._chunks = [chunk for chunk in chunks if chunk]

    def after(self, key: _K | None) -> Iterator[_K]:
        """The keys above one, which need not be there (any more); all of them after None."""
        chunks = self._chunks
        index = 0 if key is None else self._chunk_of(key)
        if key is not None and index < len(chunks):
            yield from chunks[index][bisect_right(chunks[index], key) :]
            index += 1
        for chunk in chunks[index:]:
            yield from chunk

    def around(self, key: _K) -> Iterator[_K]:
        """The keys above and below one, in turn, the next ones first; the key itself comes before them if it is there."""
        index = self._chunk_of(key)
        chunk = self._chunks[index] if index < len(self._chunks) else []
        found = bisect_left(chunk, key)
        above = chain(chunk[found:], chain.from_iterable(self._chunks[index + 1 :]))
        below = chain(reversed(chunk[:found]), chain.from_iterable(map(reversed, reversed(self._chunks[:index]))))
        return (key for both in zip_longest(above, below) for key in both if key is not None)

    def _chunk_of(self, key: _K) -> int:
        """The first chunk that does not end below the key; as many as there are when all do."""
        return bisect_left(self._chunks, key, key=_last)


_last: Final = itemgetter(-1)
