"""A broadcast to holders on several hosts, of which one is lost or stands still: an outcome of each, within the deadline."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from tests.network.deployment import BROKER, Deployment, three_hosts
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HOLDERS = ["beta", "gamma", "single"]


def test_each_holder_of_a_broadcast_has_its_outcome_though_hosts_die_and_stand_still(deployment: Deployment):
    with three_hosts(deployment) as asker, deployment.node(BROKER, "Single"):
        assert asker.broadcast("killed", "net.once", seconds=3.0, timeout=20.0) == HOLDERS
        wait_until(lambda: len(deployment.runs()) == len(HOLDERS), timeout=2.5, what="all of them run")
        os.kill(deployment.node_pid("beta"), signal.SIGKILL)
        killed = asker.all_outcomes([f"killed.{name}" for name in HOLDERS], timeout=20.0)

        with deployment.node("beta", "Beta"):
            pid = deployment.node_pid("beta")
            os.kill(pid, signal.SIGSTOP)
            try:
                assert asker.broadcast("late", "net.once", timeout=1.5) == HOLDERS
                assert asker.broadcast("lost", "net.once", timeout=20.0) == HOLDERS
                late = asker.all_outcomes([f"late.{name}" for name in HOLDERS], timeout=20.0)
                lost = asker.all_outcomes([f"lost.{name}" for name in HOLDERS], timeout=20.0)
            finally:
                os.kill(pid, signal.SIGCONT)
    for outcomes, timeout in ((killed, 20.0), (late, 1.5), (lost, 20.0)):
        others = [outcome for key, outcome in outcomes.items() if not key.endswith(".beta")]
        assert [(outcome.status, outcome.data) for outcome in others] == [
            ("COMPLETED", "gamma"),
            ("COMPLETED", "single"),
        ]
        assert all(outcome.at - outcome.sent < timeout + 1.0 for outcome in outcomes.values())
    assert (killed["killed.beta"].status, killed["killed.beta"].code) == ("FAILED_EXECUTION", "node_lost")
    assert late["late.beta"].status == "TIMEOUT"
    assert (lost["lost.beta"].status, lost["lost.beta"].code) == ("FAILED_EXECUTION", "node_lost")
    begun = Counter((run.key, run.agent) for run in deployment.runs() if run.what == "begin")
    assert set(begun.values()) == {1}
