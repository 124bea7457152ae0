"""What a node's process does with the time that it has to start."""

from __future__ import annotations

import pytest

from ether.cluster import node_main


@pytest.mark.parametrize(
    ("passed", "left"),
    [
        (0.0, 27.0),  # what is left of 30 s, but for the 3 that it takes to tell who has not started
        (10.0, 17.0),
        (12.0, 15.0),
        (29.0, 15.0),  # the parent ends it then; but agents that were given no time could not start at all
    ],
)
def test_agents_of_a_reload_have_as_long_as_lets_the_process_tell_who_has_not_started(
    passed: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_main.time, "monotonic", lambda: 100.0 + passed)

    assert node_main._patience(30.0, began=100.0) == left
