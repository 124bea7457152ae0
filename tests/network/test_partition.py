"""A host with agents is cut off by blackhole routes, and healed."""

from __future__ import annotations

import time

import pytest

from tests.network.deployment import BROKER, Delegator, Deployment, partition, three_hosts
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BOTH_WAYS = (("beta", BROKER), (BROKER, "beta"))
FROM_THE_NODE = (("beta", BROKER),)
TO_THE_NODE = ((BROKER, "beta"),)
CUTS = pytest.mark.parametrize(
    "cut", [BOTH_WAYS, FROM_THE_NODE, TO_THE_NODE], ids=["both ways", "from the node", "to the node"]
)
SHORT = 1.2
"""Seconds. TCP sends again after 0.2, 0.6, 1.4, 3.0 s: what was sent as the cut began arrives after 1.4 s, and the last sign
of life before it is a second old at most."""


@CUTS
def test_a_short_partition_is_not_noticed_by_anybody(deployment: Deployment, cut):
    with three_hosts(deployment) as asker:
        asker.delegate("before", "net.once", to="beta", seconds=0.5)
        wait_until(deployment.times_run, what="it runs")
        started = time.time()

        with partition(deployment.network, *cut):
            asker.delegate("during", "net.once", to="beta", count=20)
            asker.delegate("elsewhere", "net.once", to="gamma", count=5)
            time.sleep(SHORT)
        asker.delegate("after", "net.once", to="beta", count=20)
        parts = (("during", 20), ("elsewhere", 5), ("after", 20))
        outcomes = asker.all_outcomes(["before", *(f"{word}.{n}" for word, count in parts for n in range(count))])

        assert {outcome.status for outcome in outcomes.values()} == {"COMPLETED"}
        assert set(deployment.times_run().values()) == {1}
        assert [event.body for event in deployment.events("node_down", started)] == []
        assert [event.body for event in deployment.events("dead_letter", started)] == []
        assert "the broker is back" not in deployment.log("beta").read_text(), "it is still the same session"


@CUTS
def test_a_long_partition_is_noticed_in_time_and_the_host_comes_back_by_itself(deployment: Deployment, cut):
    with three_hosts(deployment) as asker:
        asker.delegate("again", "net.again", seconds=2.0, count=2)
        asker.delegate("once", "net.once", to="beta", seconds=2.0)
        wait_until(lambda: len(deployment.times_run()) == 3, what="all of them run")
        [cut_off] = [run.key for run in deployment.runs() if run.agent == "beta" and run.key != "once"]

        with partition(deployment.network, *cut) as cut_at:
            down = deployment.event("node_down", cut_at, node="beta-node")
            once = asker.outcome("once")
            time.sleep(max(0.0, cut_at + 3.2 - time.time()))
        healed_at = time.time()
        deployment.event("agent_up", healed_at, agent="beta")
        worked = first_work(asker)
        outcomes = asker.all_outcomes(["again.0", "again.1"])
        for request_id in (once.id, asker.outcomes[cut_off].id):
            deployment.event("dead_letter", cut_at, reason="late", request_id=request_id)

        print(f"noticed after {down.wall - cut_at:.2f} s, told {once.at - down.wall:.3f} s later, "
              f"back {worked - healed_at:.2f} s after healing")  # fmt: skip
        assert down.wall - cut_at < 3.5
        assert once.at - down.wall < 0.5
        assert (once.status, once.code) == ("FAILED_EXECUTION", "node_lost")
        assert {(outcome.status, outcome.data) for outcome in outcomes.values()} == {("COMPLETED", "gamma")}
        runs = deployment.times_run()
        assert (runs.pop(cut_off), set(runs.values())) == (2, {1})
        assert worked - healed_at < 8.0


def first_work(asker: Delegator) -> float:
    """The Unix time at which beta has done something."""
    asker.delegate("work", "net.once", to="beta")
    outcome = asker.outcome("work")
    assert outcome.status == "COMPLETED"
    return outcome.at


def test_a_host_comes_back_however_long_it_was_cut_off(deployment: Deployment):
    with three_hosts(deployment) as asker:
        for number, seconds in enumerate((2.5, 3.0, 3.4, 4.2)):
            with partition(deployment.network, *BOTH_WAYS):
                time.sleep(seconds)
            healed_at = time.time()

            def works(number=number) -> bool:
                key = f"try{number}.{len(asker.outcomes)}"
                asker.delegate(key, "net.again", to="beta", timeout=2.0)
                return asker.outcome(key).status == "COMPLETED"

            wait_until(works, timeout=20.0, what=f"beta works again after {seconds} s")
            print(f"cut off for {seconds} s, back after {time.time() - healed_at:.2f} s")
