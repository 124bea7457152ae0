"""`async with`, `await`, `async for` and `asyncio.wait_for` in a program whose specialists are on another host."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.network.asyncio_use import STEPS
from tests.network.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_an_event_loop_awaits_hears_progress_and_gives_up_what_runs_on_the_other_host(deployment: Deployment):
    with (
        deployment.up(),
        deployment.node("beta", "Beta", "Stairs"),
        deployment.program("gamma", "asyncio_use") as program,
    ):
        found = deployment.says(program, "asyncio_use")

    assert found["many"] == ["beta"] * 20
    assert deployment.times_run() == Counter({f"{n}": 1 for n in range(20)})
    assert found["climb"] == {"progress": [n / STEPS for n in range(STEPS)], "status": "COMPLETED", "data": STEPS}
    assert found["given_up"] == {"was_running": True, "gave_up": True, "status": "CANCELLED", "there": "COMPLETED"}
    assert found["closed"]
