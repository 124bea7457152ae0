"""A delegator is cut off: what was accepted gets its outcome."""

from __future__ import annotations

import time

import pytest

from tests.network.deployment import BROKER, Delegator, Deployment, partition
from tests.support import wait_until

Hosts = tuple[Deployment, Delegator]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

DELEGATOR = (("gamma", BROKER), (BROKER, "gamma"))


def test_a_delegator_that_was_cut_off_gets_its_outcomes_within_their_deadlines(hosts: Hosts):
    deployment, asker = hosts
    began_at = time.time()
    asker.delegate("long", "net.once", to="beta", seconds=4.5, timeout=30.0)
    asker.delegate("short", "net.once", to="beta", seconds=1.0, timeout=30.0)
    asker.delegate("late", "net.once", to="beta", seconds=9.0, timeout=6.0)
    wait_until(lambda: len(deployment.times_run(began_at)) == 3, what="all of them run")

    with partition(deployment.network, *DELEGATOR) as cut_at:
        deployment.event("node_down", cut_at, node="asker")
        asker.delegate("meanwhile", "net.once", to="beta", timeout=30.0)
        time.sleep(0.5)
    outcomes = asker.all_outcomes(["long", "short", "late", "meanwhile"], timeout=20.0)

    assert {key: outcome.status for key, outcome in outcomes.items()} == {
        "long": "COMPLETED", "short": "COMPLETED", "late": "TIMEOUT", "meanwhile": "COMPLETED",
    }  # fmt: skip
    assert outcomes["late"].at - outcomes["late"].sent < 6.0 + 2.5
    assert set(deployment.times_run(began_at).values()) == {1}
