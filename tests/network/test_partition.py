"""A host with agents is cut off by blackhole routes, and healed."""

from __future__ import annotations

import time

import pytest

from tests.network.deployment import BROKER, Deployment, partition, three_hosts
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BOTH_WAYS = (("beta", BROKER), (BROKER, "beta"))
NODE_SENDS = (("beta", BROKER),)
BROKER_SENDS = ((BROKER, "beta"),)


@pytest.mark.parametrize(
    "cut", [BOTH_WAYS, NODE_SENDS, BROKER_SENDS], ids=["both ways", "from the node", "to the node"]
)
def test_a_short_partition_is_not_noticed_by_anybody(deployment: Deployment, cut):
    with three_hosts(deployment) as asker:
        asker.delegate("before", "net.once", to="beta", seconds=1.0)
        wait_until(deployment.times_run, what="it runs")
        started = time.time()

        with partition(deployment.network, *cut):
            asker.delegate("during", "net.once", to="beta", count=20)
            asker.delegate("elsewhere", "net.once", to="gamma", count=5)
            time.sleep(1.5)
        asker.delegate("after", "net.once", to="beta", count=20)
        keys = ["before", *(f"{word}.{n}" for word in ("during", "after") for n in range(20))]
        outcomes = asker.all_outcomes(keys, timeout=20.0)
        print({key: outcome for key, outcome in list(outcomes.items())[:3]})

        assert {outcome.status for outcome in outcomes.values()} == {"COMPLETED"}
        assert set(deployment.times_run().values()) == {1}
        assert [event.body for event in deployment.events("node_down", started)] == []
        assert [event.body for event in deployment.events("dead_letter", started)] == []


@pytest.mark.parametrize(
    "cut", [BOTH_WAYS, NODE_SENDS, BROKER_SENDS], ids=["both ways", "from the node", "to the node"]
)
def test_a_long_partition_is_noticed_in_time_and_healed_by_itself(deployment: Deployment, cut):
    with three_hosts(deployment) as asker:
        asker.delegate("again", "net.again", seconds=5.0, to=None)
        asker.delegate("again2", "net.again", seconds=5.0, to=None)
        asker.delegate("once", "net.once", to="beta", seconds=5.0)
        wait_until(lambda: len(deployment.times_run()) == 3, what="all run")
        with partition(deployment.network, *cut) as cut_at:
            down = deployment.event("node_down", cut_at, node="beta-node")
            once = asker.outcome("once", timeout=5.0)
            asker.outcome("again")
            asker.outcome("again2")
            time.sleep(0.5)
        healed_at = time.time()
        print("noticed", down.wall - cut_at, "outcome", once.at - cut_at, down.body)

        up = deployment.event("agent_up", healed_at, agent="beta", timeout=20)
        print("back", up.wall - healed_at)
        asker.delegate("work", "net.once", to="beta")
        print("first work", asker.outcome("work", 10).at - healed_at)
        print([(e.body["reason"], e.body["detail"]) for e in deployment.events("dead_letter", cut_at)])
        print(asker.outcomes, deployment.times_run())
