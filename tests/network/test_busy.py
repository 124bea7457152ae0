"""An agent that is busy is not dead; a process that stands still is stalled, and lost after three seconds."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.network.deployment import Delegator, Deployment
from tests.support import wait_until

Hosts = tuple[Deployment, Delegator]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def row(asker: Delegator, name: str) -> dict:
    return next(row for row in asker.ask("agents") if row["agent"] == name)


def stalled(asker: Delegator, name: str) -> dict | None:
    found = row(asker, name)
    return found if found["stalled_for"] else None


def test_an_agent_that_computes_for_longer_than_silence_is_borne_is_busy(hosts: Hosts):
    deployment, asker = hosts
    began_at = time.time()
    for number in range(4):  # all of its places
        asker.delegate(f"busy{number}", "net.busy", to="beta", seconds=5.5)
    wait_until(lambda: row(asker, "beta")["busy_for"] > 3.5, timeout=10.0, what="it is busy for so long")
    found = row(asker, "beta")

    assert (found["condition"], found["stalled_for"]) == ("up", 0.0)
    outcomes = asker.all_outcomes([f"busy{number}" for number in range(4)])
    assert {outcome.status for outcome in outcomes.values()} == {"COMPLETED"}
    assert deployment.events("node_down", began_at) == []
    wait_until(lambda: row(asker, "beta")["busy_for"] == 0.0, what="it is idle again")


def test_a_node_that_stands_still_for_a_while_is_stalled_and_goes_on(hosts: Hosts):
    deployment, asker = hosts
    began_at = time.time()
    pid = deployment.node_pid("beta")
    asker.delegate("before", "net.once", to="beta", seconds=1.0)
    wait_until(lambda: deployment.times_run(began_at), what="it runs")
    os.kill(pid, signal.SIGSTOP)
    stopped_at = time.time()
    asker.delegate("during", "net.once", to="beta", count=5)
    found = wait_until(lambda: stalled(asker, "beta"), what="it is stalled")
    os.kill(pid, signal.SIGCONT)

    assert found["condition"] == "up"
    assert 1.5 <= found["stalled_for"] < 3.0
    outcomes = asker.all_outcomes(["before", *(f"during.{n}" for n in range(5))])
    assert {outcome.status for outcome in outcomes.values()} == {"COMPLETED"}
    assert set(deployment.times_run(began_at).values()) == {1}
    assert deployment.events("node_down", stopped_at) == []
    assert row(asker, "beta")["stalled_for"] == 0.0


def test_a_node_that_stands_still_for_longer_is_lost_and_comes_back_fenced(hosts: Hosts):
    deployment, asker = hosts
    began_at = time.time()
    pid = deployment.node_pid("beta")
    asker.delegate("stopped", "net.once", to="beta", seconds=1.0)
    wait_until(lambda: deployment.times_run(began_at), what="it runs")
    os.kill(pid, signal.SIGSTOP)
    stopped_at = time.time()
    down = deployment.event("node_down", stopped_at, node="beta-node")
    lost = asker.outcome("stopped")
    assert row(asker, "beta")["condition"] == "down"
    time.sleep(1.5)
    woken_at = time.time()  # before it is woken: it may be back before this process runs again
    os.kill(pid, signal.SIGCONT)
    deployment.event("agent_up", woken_at, agent="beta")
    late = deployment.event("dead_letter", woken_at, reason="late")
    asker.delegate("woken", "net.once", to="beta")

    assert (lost.status, lost.code) == ("FAILED_EXECUTION", "node_lost")
    assert down.wall - stopped_at < 3.5
    assert late.body["request_id"] == lost.id
    assert asker.outcome("woken").status == "COMPLETED"
    assert set(deployment.times_run(began_at).values()) == {1}
