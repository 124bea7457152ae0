from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.network.deployment import Delegator, Deployment, three_hosts
from tests.network.namespaces import Network, network_of


@pytest.fixture(scope="package")
def network() -> Iterator[Network]:
    with network_of("alpha", "beta", "gamma") as made:
        yield made
    known = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    assert not [name for name in made.namespaces if name in known]


@pytest.fixture
def deployment(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """No bus yet; at the end no process is left on any host, and no route is blocked."""
    yield from new_deployment(network, tmp_path_factory)


@pytest.fixture(scope="module")
def hosts(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, Delegator]]:
    """The bus of a file's tests: the broker on alpha, agents on beta and gamma, a delegator on gamma."""
    for made in new_deployment(network, tmp_path_factory):
        with three_hosts(made) as asker:
            yield made, asker


def new_deployment(network: Network, folders: pytest.TempPathFactory) -> Iterator[Deployment]:
    yield Deployment(network, folders.mktemp("hosts"))
    assert network.pids() == []
    for host in network.names:
        assert "blackhole" not in network.routes(host)
