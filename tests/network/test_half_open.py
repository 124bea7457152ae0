"""Connections that one end takes for dead and the other for alive: through a proxy on this machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ether import Runtime
from tests.network.agents import RUNS, Beta
from tests.network.deployment import way_to
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(RUNS, str(tmp_path / "runs"))
    with Runtime(bind="tcp://127.0.0.1:*", name="here", drain=0.0) as bus:
        yield bus


def test_a_node_comes_back_whose_connections_the_broker_still_takes_for_alive(bus: Runtime):
    with (
        way_to(bus.url.removeprefix("tcp://")) as way,
        Runtime.connect(f"tcp://127.0.0.1:{way.port}", name="there", drain=0.0) as node,
    ):
        node.start(Beta)
        assert bus.delegate("net.once", {"key": "a", "seconds": 0.0}).result(5.0).ok

        way.tell("forget")
        started = time.monotonic()

        def works() -> bool:
            return bus.delegate("net.once", {"key": "b", "seconds": 0.0}, to="beta", timeout=1.0).result(5.0).ok

        wait_until(works, timeout=30.0, what="it takes work again")
        assert time.monotonic() - started < 15.0
