"""The broker dies while a host is cut off: what was accepted gets its outcome."""

from __future__ import annotations

import time

import pytest

from tests.network.deployment import BROKER, Deployment, partition, three_hosts
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BETA = (("beta", BROKER), (BROKER, "beta"))


def test_a_broker_that_dies_while_a_host_is_cut_off_loses_nothing(deployment: Deployment):
    with three_hosts(deployment) as asker:
        began_at = time.time()
        asker.delegate("there", "net.once", to="beta", seconds=4.0, timeout=60.0)
        asker.delegate("here", "net.once", to="gamma", seconds=4.0, timeout=60.0)
        wait_until(lambda: len(deployment.times_run(began_at)) == 2, what="both run")

        with partition(deployment.network, *BETA) as cut_at:
            asker.delegate("beta", "net.once", to="beta", timeout=60.0, count=50)
            asker.delegate("any", "net.again", timeout=60.0, count=50)
            time.sleep(1.0)  # how long the partition lasts before the broker dies
            deployment.kill_broker()
            deployment.event("agent_up", cut_at + 1.0, agent="gamma", timeout=30.0)
            asker.delegate("after", "net.once", to="gamma", timeout=60.0, count=10)
        healed_at = time.time()
        deployment.event("agent_up", healed_at, agent="beta", timeout=30.0)
        keys = [f"{word}.{n}" for word, count in (("beta", 50), ("any", 50), ("after", 10)) for n in range(count)]
        outcomes = asker.all_outcomes(["there", "here", *keys])

        assert {key: outcome for key, outcome in outcomes.items() if outcome.status != "COMPLETED"} == {}
        once = {key: count for key, count in deployment.times_run(began_at).items() if not key.startswith("any")}
        assert set(once.values()) == {1}
