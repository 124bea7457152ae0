"""Events, timers, map, broadcast, priorities, state and retries between hosts, and after the loss of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.command import module_environment
from tests.network.daily_use import ENTRIES
from tests.network.deployment import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_what_a_program_reaches_for_first_works_between_hosts(deployment: Deployment):
    program = [sys.executable, "-W", "error", "-m", "tests.network.daily_use", deployment.url]
    with deployment.up(), deployment.node("beta", "Ledger") as lost, subprocess.Popen(
        deployment.network.command("gamma", program), env=module_environment({}), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        assert first, process.stderr.read()
        os.kill(deployment.node_pid("beta"), signal.SIGKILL)
        lost.wait(10.0)
        process.stdin.write("go on\n")
        process.stdin.flush()
        with deployment.node("gamma", "Ledger"):
            after = process.stdout.readline()
            assert after, process.stderr.read()
            assert process.wait(20.0) == 0, process.stderr.read()
    found, then = json.loads(first), json.loads(after)

    assert found["heard"]
    assert sorted(found["entries"]) == found["total"] == list(range(ENTRIES))
    assert found["mapped"] == [2 * n for n in range(50)]
    assert found["holders"] == {"ledger": "ledger"}
    assert found["order"] == ["high", "low 0", "low 1", "low 2"]
    assert then["total"] == found["total"], "its state is on the other host"
