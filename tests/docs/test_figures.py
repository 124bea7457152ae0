"""Figures that stand in the text of a page, and the constants that hold to them."""

from __future__ import annotations

import pytest

from ether.cluster.reloading import reload
from ether.node.agents import agent_scaling
from ether.node.artifacts import artifact_server
from ether_actors.supervisor.capabilities import event_service
from ether_actors.supervisor.delegations import scale_reports
from ether_actors.supervisor.state import agent_states
from tests.support import REPOSITORY

MIB = 1 << 20
FIGURES = [
    (
        "events.md",
        "16 MiB (with a journal 2 MiB) for all",
        (event_service._MOST_BYTES, event_service._MOST_WRITTEN),
        (16 * MIB, 2 * MIB),
    ),
    ("state.md", "The bus keeps 64 MiB of states", agent_states.MOST_STATES, 64 * MIB),
    (
        "scaling.md",
        "1 s, and twice as long each time, up to 60 s",
        (agent_scaling._pause(1), agent_scaling._pause(2), agent_scaling._pause(9)),
        (1.0, 2.0, 60.0),
    ),
    ("scaling.md", "gave up within a minute", agent_scaling._LONGEST, 60.0),
    ("scaling.md", "told by the broker at most each 0.25 s", scale_reports.TELL, 0.25),
    (
        "artifacts.md",
        "reads one each 10 ms while 1 MiB waits to be sent, and none above 32 MiB",
        (artifact_server._PACE, artifact_server._MUCH_KEPT, artifact_server._MOST_KEPT),
        (0.01, MIB, 32 * MIB),
    ),
    (
        "reload.md",
        "three times `cluster.drain` and `cluster.start_timeout` together,\n  and 10 s",
        reload.limit_of(20.0, 30.0),
        160.0,
    ),
]


@pytest.mark.parametrize(
    ("page", "text", "held", "told"), FIGURES, ids=[f"{page}-{text[:30]}" for page, text, _, _ in FIGURES]
)
def test_a_figure_is_as_the_page_tells(page: str, text: str, held: object, told: object) -> None:
    assert text in (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    assert held == told
