"""A file of one host is read on another, which has not the file: both ways, over the connections to the broker alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import module_environment
from tests.network.deployment import BROKER, Deployment, partition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

DISK_OF_ITS_OWN = 'mount -t tmpfs none "$0" && exec "$@"'
BETWEEN = (("beta", "gamma"), ("gamma", "beta"))
"""Beta and gamma reach the broker alone."""


def test_files_are_read_on_the_other_host(deployment: Deployment, tmp_path: Path):
    assert BROKER == "alpha"
    reader = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.network.other_machine",
        deployment.url,
        str(tmp_path),
        "3000000",
    ]
    command = ["unshare", "--mount", "sh", "-c", DISK_OF_ITS_OWN, str(tmp_path), *reader]
    with deployment.up(), deployment.node("beta", "Archive"), partition(deployment.network, *BETWEEN):
        done = subprocess.run(
            deployment.network.command("gamma", command), env=module_environment({"HOME": str(tmp_path)}), check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)

    assert not found["is_here"]
    assert found["fetched"] == found["sealed"]
    assert found["read_there"] == found["mine"]
    assert [path.name for path in tmp_path.iterdir()] == ["there"], "what the other host made is not on this one"
