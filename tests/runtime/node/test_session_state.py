"""What a node takes over of a WELCOME: all of it, or nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ether.node.connection.session_state import SessionState, Welcome
from ether_broker.errors import InvalidEnvelope
from ether_broker.timing import Timing

SAID = {
    "broker": "b", "session": 7, "clock": 1.0, "journal": "", "max_payload": 1 << 20, "default_timeout": 60.0,
    **Timing().as_dict(),
}  # fmt: skip


def test_what_a_broker_says_is_taken_over() -> None:
    state = SessionState()
    state.begin(Welcome.read({**SAID, "heartbeat": 2, "silence": 5, "from_the_future": 1}))

    assert (state.broker, state.number, state.limit, state.timing) == ("b", 7, 1 << 20, Timing(heartbeat=2, silence=5))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session", "x"), ("session", -1), ("session", 1 << 64), ("session", None), ("session", 0),
        ("clock", "x"), ("clock", math.nan), ("clock", 1e30), ("clock", -1e308), ("default_timeout", 1e300),
        ("max_payload", 0), ("max_payload", "x"), ("default_timeout", -1.0), ("broker", 5), ("journal", None),
        ("grace", 3601.0), ("grace", 1e300), ("heartbeat", 1e9),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_its_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidEnvelope, match=rf"The broker's WELCOME cannot be followed: .*{field}"):
        Welcome.read({**SAID, field: value})


@pytest.mark.parametrize("said", [{}, [], None, {**SAID, "session": ...}])
def test_what_is_no_welcome_is_refused(said: Any) -> None:
    with pytest.raises(InvalidEnvelope, match=r"The broker's WELCOME"):
        Welcome.read(said)
