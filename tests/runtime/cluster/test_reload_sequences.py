"""Sequences of reloads over real processes: some seeds, of which each finds a defect that was put into a reload."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.cluster.reload_sequences import check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 28, 33])
def test_what_has_to_hold_of_each_reload_holds(seed: int, tmp_path: Path) -> None:
    assert check(seed, tmp_path)
