from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.deployment import Deployment
from tests.network.namespaces import Network, network_of


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with network_of("alpha", "beta", "gamma") as made:
        yield made
    known = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    assert not [name for name in made.namespaces if name in known]


@pytest.fixture
def deployment(network: Network, tmp_path: Path) -> Iterator[Deployment]:
    """No bus yet; at the end no process is left on any host, and no route is blocked."""
    yield Deployment(network, tmp_path)
    assert network.pids() == []
    for host in network.names:
        assert "blackhole" not in network.routes(host)
