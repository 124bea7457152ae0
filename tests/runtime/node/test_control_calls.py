"""Who asks the broker something does not wait for an answer that cannot come any more."""

from __future__ import annotations

import threading

import pytest

from ether import Closed, Runtime
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import Kind, pack_envelope
from tests.support import wait_until

PATIENCE = 5.0
UNANSWERED = pack_envelope(Kind.HEARTBEAT, body=pack({"agents": {}}))


def test_who_asks_as_the_node_closes_is_told_so_at_once() -> None:
    bus = Runtime().open()
    calls, token = bus.node._control_calls, new_id()
    told: list[Closed] = []

    def ask() -> None:
        try:
            calls.ask([UNANSWERED], [token])
        except Closed as error:
            told.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: token in calls._open)
    bus.close()
    asking.join(PATIENCE)

    assert len(told) == 1
    with pytest.raises(Closed, match="has left the bus"):
        calls.ask([UNANSWERED], [token])
    assert not calls._open
