"""A host with agents is cut off by blackhole routes, and healed."""

from __future__ import annotations

import time

import pytest

from tests.network.deployment import BROKER, Delegator, Deployment, partition
from tests.support import wait_until

Hosts = tuple[Deployment, Delegator]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BOTH_WAYS = (("beta", BROKER), (BROKER, "beta"))
FROM_THE_NODE = (("beta", BROKER),)
TO_THE_NODE = ((BROKER, "beta"),)
CUTS = pytest.mark.parametrize(
    "cut", [BOTH_WAYS, FROM_THE_NODE, TO_THE_NODE], ids=["both ways", "from the node", "to the node"]
)
BACK = "the broker is back"
"""What a node says when it has a new session."""
SHORT = 1.2
"""Seconds. TCP sends again after 0.2, 0.6, 1.4, 3.0 s: what was sent as the cut began arrives after 1.4 s, and the last sign
of life before it is a second old at most."""


@CUTS
def test_a_short_partition_is_not_noticed_by_anybody(hosts: Hosts, cut):
    deployment, asker = hosts
    me = f"short-{len(asker.outcomes)}"
    started = time.time()
    sessions = deployment.log("beta").read_text().count(BACK)
    asker.delegate(f"{me}-before", "net.once", to="beta", seconds=0.5)
    wait_until(lambda: deployment.times_run(started), what="it runs")

    with partition(deployment.network, *cut):
        asker.delegate(f"{me}-during", "net.once", to="beta", count=20)
        asker.delegate(f"{me}-elsewhere", "net.once", to="gamma", count=5)
        time.sleep(SHORT)
    asker.delegate(f"{me}-after", "net.once", to="beta", count=20)
    parts = (("during", 20), ("elsewhere", 5), ("after", 20))
    keys = [f"{me}-before", *(f"{me}-{word}.{n}" for word, count in parts for n in range(count))]
    outcomes = asker.all_outcomes(keys)

    assert {outcome.status for outcome in outcomes.values()} == {"COMPLETED"}
    assert deployment.times_run(started) == dict.fromkeys(keys, 1)
    assert [event.body for event in deployment.events("node_down", started)] == []
    assert [event.body for event in deployment.events("dead_letter", started)] == []
    assert deployment.log("beta").read_text().count(BACK) == sessions, "it is still the same session"


@CUTS
def test_a_long_partition_is_noticed_in_time_and_the_host_comes_back_by_itself(hosts: Hosts, cut):
    deployment, asker = hosts
    me = f"long-{len(asker.outcomes)}"
    started = time.time()
    again, once = [f"{me}-again.0", f"{me}-again.1"], f"{me}-once"
    asker.delegate(f"{me}-again", "net.again", seconds=2.0, count=2)
    asker.delegate(once, "net.once", to="beta", seconds=2.0)
    wait_until(lambda: len(deployment.times_run(started)) == 3, what="all of them run")
    [cut_off] = [run.key for run in deployment.runs() if run.agent == "beta" and run.key in again]

    with partition(deployment.network, *cut) as cut_at:
        down = deployment.event("node_down", cut_at, node="beta-node")
        lost = asker.outcome(once)
        time.sleep(max(0.0, cut_at + 3.2 - time.time()))
    healed_at = time.time()
    deployment.event("agent_up", healed_at, agent="beta")
    asker.delegate(f"{me}-work", "net.once", to="beta")
    work = asker.outcome(f"{me}-work")
    outcomes = asker.all_outcomes(again)
    for request_id in (lost.id, outcomes[cut_off].id):
        deployment.event("dead_letter", cut_at, reason="late", request_id=request_id)

    print(f"noticed after {down.wall - cut_at:.2f} s, told {lost.at - down.wall:.3f} s later, "
          f"works {work.at - healed_at:.2f} s after healing")  # fmt: skip
    last_word = 1.0 if cut is TO_THE_NODE else 0.0  # a heartbeat still arrives, and its receipt does not
    assert down.wall - cut_at < last_word + 3.5
    assert (lost.status, lost.code) == ("FAILED_EXECUTION", "node_lost")
    assert lost.at - down.wall < 0.5
    assert {(outcome.status, outcome.data) for outcome in outcomes.values()} == {("COMPLETED", "gamma")}
    assert work.status == "COMPLETED"
    assert work.at - healed_at < 8.0
    runs = deployment.times_run(started)
    assert (runs.pop(cut_off), set(runs.values())) == (2, {1})


@pytest.mark.parametrize("seconds", [3.0, 3.4])
def test_a_host_comes_back_that_was_cut_off_for_about_as_long_as_silence_is_borne(hosts: Hosts, seconds: float):
    """The two ends then notice at different times, and one may reconnect while the other has the old connection."""
    deployment, asker = hosts
    with partition(deployment.network, *BOTH_WAYS):
        time.sleep(seconds)
    healed_at = time.time()

    def works() -> bool:
        key = f"try-{len(asker.outcomes)}"
        asker.delegate(key, "net.again", to="beta", timeout=2.0)
        return asker.outcome(key).status == "COMPLETED"

    wait_until(works, timeout=20.0, what="it works again")
    print(f"cut off for {seconds} s, works {time.time() - healed_at:.2f} s after healing")
