"""A transfer: whatever comes in whatever order, all bytes are given on once and in order, within a window."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.node.artifacts.artifact_transfer import WINDOW, ArtifactTransfer
from ether_broker.errors import ArtifactUnavailable
from ether_broker.wire.chunk import MOST_CHUNK

sizes = st.one_of(
    st.integers(0, 3 * MOST_CHUNK),
    st.integers(0, 12).flatmap(
        lambda n: st.sampled_from([n * MOST_CHUNK, n * MOST_CHUNK + 1, max(0, n * MOST_CHUNK - 1)])
    ),
)


@given(sizes, st.data())
def test_all_bytes_are_given_on_once_and_in_order(size: int, data: st.DataObject):
    transfer = ArtifactTransfer("file", size)
    lengths: dict[bytes, tuple[int, int]] = {}
    numbers = itertools.count()
    given_on, patience = 0, 60
    while not transfer.is_done:
        while (wanted := transfer.wanted()) is not None:
            request_id = next(numbers).to_bytes(16)
            transfer.asked[request_id] = wanted[0]
            lengths[request_id] = wanted
        assert 0 < len(transfer.asked) <= WINDOW
        ahead = max(offset + length for offset, length in (lengths[one] for one in transfer.asked))
        assert ahead - transfer.written <= WINDOW * MOST_CHUNK, "what waits for one before it is within the window"
        request_id = data.draw(st.sampled_from(sorted(transfer.asked)))
        patience -= 1
        what = data.draw(st.sampled_from(["chunk", "chunk", "refused", "session"])) if patience > 0 else "chunk"
        if what == "refused":
            transfer.refused(request_id)
        elif what == "session":
            asked = set(transfer.asked)
            assert set(transfer.begin_again()) == asked
        else:
            offset, length = lengths[request_id]
            for part in transfer.took(request_id, _bytes(offset, length)):
                assert part == _bytes(given_on, len(part))
                given_on += len(part)
    assert given_on == size == transfer.written
    assert transfer.wanted() is None
    assert transfer.asked == {}


def _bytes(offset: int, length: int) -> bytes:
    """So many bytes that say where they stand."""
    return bytes([offset // MOST_CHUNK % 256]) * length


@pytest.mark.parametrize("length", [0, 9, 11, MOST_CHUNK])
def test_a_chunk_of_another_length_is_cut_off(length: int):
    transfer = ArtifactTransfer("the/file", 10)
    assert transfer.wanted() == (0, 10)
    transfer.asked[b"x"] = 0

    with pytest.raises(ArtifactUnavailable, match=r"the/file of 10 bytes is cut off: of 10 bytes from 0 on"):
        list(transfer.took(b"x", bytes(length)))


def test_nothing_is_asked_for_of_an_empty_file():
    transfer = ArtifactTransfer("file", 0)

    assert transfer.is_done
    assert transfer.wanted() is None
    assert not transfer.has_begun
