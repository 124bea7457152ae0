"""A broker's timing on real sockets: the broker keeps it, and so does a node that was told it, or not told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest
import zmq

from ether import Cluster, NodeSpec, Runtime, Status, Timing
from ether_broker.envelope.payload import pack
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.wire.frame import Kind, join_frame, pack_envelope, read_frame, read_header
from tests.runtime.raw_peer import RawPeer
from tests.support import wait_until

QUICK: Final = Timing(heartbeat=0.2, silence=0.6, grace=0.3, max_backoff=0.5)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(bind=f"ipc://{tmp_path}/broker.sock", timing=QUICK) as bus:
        yield bus


class TerseBroker:
    """A ROUTER socket that says WELCOME with the given fields, and nothing else ever."""

    def __init__(self, folder: Path, timing: dict[str, Any]) -> None:
        self.endpoint = f"ipc://{folder}/terse.sock"
        self.heard: Counter[Kind] = Counter()
        self._timing = timing
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.bind(self.endpoint)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while not self._is_over.is_set():
            if not self._socket.poll(20):
                continue
            routing_id, message = self._socket.recv_multipart()
            for envelope in read_frame(message).envelopes:
                header = read_header(envelope)
                self.heard[Kind(header.kind)] += 1
                if header.kind == Kind.HELLO and self.heard[Kind.HELLO] == 1:
                    body = pack({
                        "broker": "b", "session": 1, "journal": "", "clock": time.monotonic(), "wall": time.time(),
                        "max_payload": 1 << 20, "default_timeout": 60.0, "protocol": 2, "schema_version": "1.0",
                        **self._timing,
                    })  # fmt: skip
                    welcome = pack_envelope(Kind.WELCOME, request_id=header.request_id, body=body)
                    self._socket.send_multipart([routing_id, join_frame([welcome])])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close(0)
        self._context.term()


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
