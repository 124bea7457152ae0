"""A cluster file whose bus is on the network: another host works with it while it is reloaded, and reads its metrics."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.network.conftest import new_deployment
from tests.network.deployment import BROKER, Deployment
from tests.network.namespaces import Network
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

OPEN, OWN = 9464, 9465
"""The ports of the metrics that other hosts may read, and of those that only their own may."""
SCRAPE = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())"


def nodes(network: Network, word: str) -> str:
    return f"""
  - name: front
    agents:
      - {{start: "tests.network.agents:Desk", kwargs: {{word: {word}}}}}
      - {{start: "tests.network.agents:Beta"}}
  - name: open
    metrics: {{host: {network.address(BROKER)}, port: {OPEN}}}
  - name: own
    metrics: {{port: {OWN}}}
"""


@pytest.fixture(scope="module")
def cluster(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    for deployment in new_deployment(network, tmp_path_factory):
        with deployment.cluster(nodes(network, "first")):
            yield deployment


def scrape(cluster: Deployment, host: str, address: str, port: int) -> subprocess.CompletedProcess[str]:
    return cluster.run(host, "-c", SCRAPE, f"http://{address}:{port}/metrics")


def test_a_reload_refuses_and_loses_nothing_of_what_the_other_host_delegates_meanwhile(cluster: Deployment):
    with cluster.program("gamma", "steady") as program:
        assert cluster.says(program, "steady") == "first"
        for word in ("second", "third"):
            cluster.write_file(nodes(cluster.network, word))
            done = cluster.reload()
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines() == [
                "restarted front/desk (kwargs)", "unchanged front, open, own, front/beta",
            ]  # fmt: skip
            assert cluster.says(program, "steady") == word
        assert program.stdin is not None
        program.stdin.close()
        found = cluster.says(program, "steady")

    assert found["refused"] == []
    assert found["statuses"] == {"COMPLETED": found["sent"]}
    assert found["words"] == ["first", "second", "third"]
    assert cluster.times_run() == Counter({f"{n}": 1 for n in range(found["sent"])})


def test_metrics_are_read_on_another_host_only_where_the_file_names_an_address_of_the_network(cluster: Deployment):
    alpha = cluster.network.address(BROKER)
    with cluster.delegator("gamma") as asker:
        asker.delegate("counted", "net.again", to="beta", count=7)
        asker.all_outcomes([f"counted.{n}" for n in range(7)])
    line = 'ether_delegations_total{agent="beta",capability="net.again",status="COMPLETED"} 7\n'

    for host, address, port in (("gamma", alpha, OPEN), (BROKER, "127.0.0.1", OWN)):
        wait_until(
            lambda host=host, address=address, port=port: line in scrape(cluster, host, address, port).stdout,
            what=f"all are counted, as {host} reads at port {port}",
        )
    shut = scrape(cluster, "gamma", alpha, OWN)
    assert shut.returncode == 1
    assert "Connection refused" in shut.stderr
