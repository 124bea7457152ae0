"""What a hostile broker sends to a node: whatever it is, the node's clock goes on and each handle ends (G4)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import pytest

from ether import Runtime, Status, Timing
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidEnvelope
from ether_broker.text import printable
from ether_broker.transport.heartbeat import BrokerHeartbeat
from ether_broker.wire.frame import Kind, join_frame, pack_envelope
from tests.runtime.terse_broker import TerseBroker

QUICK: Final = Timing(heartbeat=0.2, silence=0.6, grace=0.3, max_backoff=0.5)
GOOD: Final[dict[str, Any]] = {"clock": 1.0, "received": 0, "sent": 0}


def heartbeat(body: Any) -> bytes:
    return pack_envelope(Kind.HEARTBEAT, body=pack(body))


BABBLE: Final = {
    "no frame": b"x",
    "no clock": join_frame([heartbeat({"received": 0, "sent": 0})], 1),
    "text for a number": join_frame([heartbeat({**GOOD, "received": "x"})], 1),
    "a bomb": join_frame([pack_envelope(Kind.HEARTBEAT, body=b"\x80" * 900_000)], 1),
    "an unknown kind": join_frame([pack_envelope(200)], 1),
    "a body that is no map": join_frame([pack_envelope(Kind.ERROR, body=b"\x01")], 1),
}


@pytest.mark.parametrize("babble", BABBLE.values(), ids=BABBLE)
def test_a_handle_ends_whatever_the_broker_says(tmp_path: Path, babble: bytes) -> None:
    with (
        TerseBroker(tmp_path, QUICK.as_dict(), babble) as broker,
        Runtime.connect(broker.endpoint, drain=0.0) as client,
    ):  # fmt: skip
        began = time.monotonic()
        response = client.delegate("words.count", timeout=0.3).result(10.0)

        assert response.status is Status.TIMEOUT
        assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"clock": None}, {"clock": "1"}, {"clock": float("nan")}, {"clock": -1.0}, {"clock": 1e11}, {"clock": True},
        {"received": -1}, {"received": 1.0}, {"received": {}}, {"sent": "x"},
        {"trouble": ["x"]}, {"trouble": 5}, {"more": [0] * 2_000},
    ],
    ids=str,
)  # fmt: skip
def test_a_heartbeat_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidEnvelope):
        BrokerHeartbeat.read(heartbeat({**GOOD, **wrong}))


def test_the_trouble_of_a_heartbeat_is_kept_short_and_printable() -> None:
    read = BrokerHeartbeat.read(heartbeat({**GOOD, "trouble": "\x1b[2J" + "x" * 50_000}))

    assert len(read.trouble) == 1_000
    assert printable(read.trouble) == read.trouble


def test_a_heartbeat_is_read_as_it_was_packed() -> None:
    for one in (BrokerHeartbeat(5.5, 3, 4), BrokerHeartbeat(0.0, 0, 0, "The disk is full.")):
        assert BrokerHeartbeat.read(one.pack()) == one
