"""Sequences of reloads over real processes, a few seeds of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.cluster.reload_sequences import check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", range(6))
def test_what_has_to_hold_of_each_reload_holds(seed: int, tmp_path: Path) -> None:
    assert check(seed, tmp_path, reloads=4)
