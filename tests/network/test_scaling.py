"""An agent of one host has more instances while work of another host waits, and fewer afterwards."""

from __future__ import annotations

import time

import pytest

from tests.network.deployment import Delegator, Deployment
from tests.network.scaled_node import MOST
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ALL = ["single", *(f"single-{n}" for n in range(2, MOST + 1))]


def instances(asker: Delegator) -> list[str]:
    rows = [row for row in asker.ask("agents") if row["agent"].startswith("single") and row["condition"] == "up"]
    assert {row["node"] for row in rows} == {"scaled"}
    return sorted(row["agent"] for row in rows)


def test_instances_come_on_the_other_host_while_work_waits_and_go_when_it_is_done(deployment: Deployment):
    with deployment.up(), deployment.program("beta", "scaled_node") as node, deployment.delegator("gamma") as asker:
        assert deployment.says(node, "scaled_node")
        assert instances(asker) == ["single"]
        began_at = time.time()
        asker.delegate("work", "net.once", seconds=0.25, count=16)
        wait_until(lambda: instances(asker) == ALL, what="there are as many as there may be")
        outcomes = asker.all_outcomes([f"work.{n}" for n in range(16)])
        wait_until(lambda: instances(asker) == ["single"], what="one is left")
        asker.delegate("after", "net.once")
        after = asker.outcome("after")

    assert {outcome.status for outcome in outcomes.values()} == {"COMPLETED"}
    assert {outcome.data for outcome in outcomes.values()} == set(ALL), "what waited was shared"
    assert set(deployment.times_run(began_at).values()) == {1}
    assert (after.status, after.data) == ("COMPLETED", "single")
    told = [(event.body["before"], event.body["instances"]) for event in deployment.events("agent_scaled", began_at)]
    assert told[-(MOST - 1) :] == [(n, n - 1) for n in range(MOST, 1, -1)], "they go one at a time"
    assert all(before < then for before, then in told[: -(MOST - 1)])
