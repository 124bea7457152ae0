"""A hundred thousand mutated frames: nothing escapes, nobody else notices, and the books stay right."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.attacks.frames import Arena, mutations, seeds

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*"))
BATCH = 25
"""Frames in one step."""
LIFE = 2_500
"""Frames that one bus sees."""


def test_what_nodes_say_changes_nothing_for_others_when_mallory_says_it():
    arena = Arena()
    for role, frame in seeds():
        arena.throw(role, frame)
        arena.step()
        arena.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_25_000_mutated_frames_change_nothing_for_others(seed: int):
    frames = mutations(seed, 25_000)
    while life := list(islice(frames, LIFE)):
        arena = Arena()
        for first in range(0, len(life), BATCH):
            for role, frame in life[first : first + BATCH]:
                arena.throw(role, frame)
            arena.step()
            arena.check()
        assert arena.bus.state.session_table.refused > LIFE // 10


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_the_fuzzer_found_worth_keeping_changes_nothing_for_others(path: Path):
    from tests.attacks.fuzz_frames import throw_all

    throw_all(path.read_bytes())
