"""A broker's timing on real sockets: the broker keeps it, and so does a node that was told it, or not told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from ether import Cluster, NodeSpec, Runtime, Status, Timing
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.wire.frame import Kind
from tests.runtime.raw_peer import RawPeer
from tests.runtime.terse_broker import TerseBroker
from tests.support import wait_until

QUICK: Final = Timing(heartbeat=0.2, silence=0.6, grace=0.3, max_backoff=0.5)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(bind=f"ipc://{tmp_path}/broker.sock", timing=QUICK) as bus:
        yield bus


def timing_of(runtime: Runtime) -> Timing:
    return runtime.node._session_state.timing


def test_welcome_tells_all_of_it_and_a_client_that_joins_keeps_it(bus: Runtime) -> None:
    with Runtime.connect(bus.url) as client:
        assert timing_of(client) == timing_of(bus) == replace(QUICK, patience=0.0)
        assert client.node._link._channel._max_backoff == QUICK.max_backoff


def test_a_broker_loses_a_node_that_is_silent_for_as_long_as_its_timing_says(bus: Runtime) -> None:
    with RawPeer(bus.url) as peer:
        peer.hello("mute")
        monitor = bus.monitor("node:mute")

        assert monitor.wait(10.0)
    assert QUICK.silence <= float(monitor.reason.split()[2]) < DEFAULT_TIMING.silence


def test_a_broker_shows_life_as_often_as_its_timing_says(bus: Runtime) -> None:
    with RawPeer(bus.url) as peer:
        peer.hello("counting")
        seen = [peer.expect(Kind.HEARTBEAT)[1]["clock"] for _ in range(3)]

    assert seen[2] - seen[0] < 2 * DEFAULT_TIMING.heartbeat


def test_a_node_shows_life_says_hello_again_and_ends_what_is_overdue_as_its_broker_says(tmp_path: Path) -> None:
    with TerseBroker(tmp_path, QUICK.as_dict()) as broker, Runtime.connect(broker.endpoint, drain=0.0) as client:
        began = time.monotonic()
        response = client.delegate("words.count", timeout=0.3).result(10.0)
        overdue_after = time.monotonic() - began
        wait_until(lambda: broker.heard[Kind.HELLO] > 1)
        greeted_after = time.monotonic() - began
        beats = broker.heard[Kind.HEARTBEAT]

    assert (response.status, response.error.code) == (Status.TIMEOUT, "broker_unreachable")
    assert QUICK.grace <= overdue_after < DEFAULT_TIMING.grace
    assert greeted_after < DEFAULT_TIMING.silence
    assert beats > greeted_after / DEFAULT_TIMING.heartbeat + 1


def test_a_node_keeps_the_defaults_with_a_broker_that_says_nothing_of_them(tmp_path: Path) -> None:
    with TerseBroker(tmp_path, {}) as broker, Runtime.connect(broker.endpoint, drain=0.0) as client:
        assert timing_of(client) == DEFAULT_TIMING


@pytest.mark.slow
def test_the_processes_of_a_cluster_have_the_timing_of_its_spec() -> None:
    with Cluster([NodeSpec("n")], timing=QUICK) as cluster, Runtime.connect(cluster.url) as client:
        assert timing_of(client) == replace(QUICK, patience=0.0)
