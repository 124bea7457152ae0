from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from ether_broker.security.keyring import Keyring
from ether_broker.security.keys import KeyPair
from ether_broker.transport.zeromq.curve_server import CurveGuard
from ether_broker.transport.zeromq.server import ZmqServer


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    with zmq.Context() as made:
        yield made


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "keys", "broker")


@pytest.fixture
def alice(ring: Keyring) -> KeyPair:
    """A pair that is let in."""
    pair = KeyPair.new("alice")
    ring.allow(pair.public, "alice")
    return pair


@pytest.fixture
def broker(context: zmq.Context[Any], ring: Keyring) -> Iterator[ZmqServer]:
    made = ZmqServer("tcp://127.0.0.1:*", context, security=CurveGuard(ring))
    yield made
    made.close(0.0)
