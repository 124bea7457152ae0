"""Two thousand delegations over a way that is slow, narrow and breaks twice a second."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from tests.network.deployment import BROKER, PORT, Deployment, way_to

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

COUNT = 500


def test_every_delegation_gets_its_one_outcome_over_connections_that_break(deployment: Deployment):
    target = f"{deployment.network.address(BROKER)}:{PORT}"
    bad = ("--delay", "0.002", "--jitter", "0.004", "--bandwidth", "4000000", "--reset-every", "0.5")
    with ExitStack() as stack:
        stack.enter_context(deployment.up())
        ways = {
            host: stack.enter_context(
                way_to(target, *bad, listen=f"{deployment.network.address(host)}:7000",
                       before=deployment.network.command(host, []))
            )
            for host in ("beta", "gamma")
        }  # fmt: skip
        urls = {host: f"tcp://{deployment.network.address(host)}:7000" for host in ways}
        stack.enter_context(deployment.node("beta", "Beta", "Single", url=urls["beta"]))
        asker = stack.enter_context(deployment.delegator("gamma", url=urls["gamma"]))
        started = time.time()

        for batch in range(COUNT // 50):
            asker.delegate(f"once{batch}", "net.once", to="beta", count=50)
            asker.delegate(f"again{batch}", "net.again", to="beta", count=100)
            asker.delegate(f"single{batch}", "net.once", to="single", count=50)
            time.sleep(0.8)  # the pace of the load, so that each batch meets resets
        keys = [
            f"{word}{batch}.{n}"
            for batch in range(COUNT // 50)
            for word, count in (("once", 50), ("again", 100), ("single", 50))
            for n in range(count)
        ]
        outcomes = asker.all_outcomes(keys)
        took = time.time() - started
        resets = sum(way.tell("resume") for way in ways.values())
        print(f"{len(keys)} delegations, {resets} resets, {took:.1f} s")

        assert resets > 10
        down = [(event.body["node"], event.body["reason"]) for event in deployment.events("node_down", started)]
        print(down)
        wrong = {key: outcome for key, outcome in outcomes.items() if outcome.status != "COMPLETED"}
        assert wrong == {}
        runs = deployment.times_run()
        assert {key: count for key, count in runs.items() if count != 1 and "again" not in key} == {}
        order = [run.key for run in deployment.runs() if run.agent == "single" and run.what == "begin"]
        assert order == [key for key in keys if key.startswith("single")]
        assert down == []
