"""The bounds of what a broker keeps: what can be said."""

from __future__ import annotations

from typing import Any

import pytest

from ether_broker.errors import InvalidSpec
from ether_broker.mailbox.mailbox_limits import Limits


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"mailbox_count": "2"}, "limits.mailbox_count is '2': give a whole number, 0 or more."),
        ({"window": 0}, "limits.window is 0: give a whole number, 1 or more."),
        ({"window": 2.5}, "limits.window is 2.5: give a whole number, 1 or more."),
        ({"total_bytes": True}, "limits.total_bytes is True: give a whole number, 1 or more."),
        ({"memory_bytes": -1}, "limits.memory_bytes is -1: give a whole number, 0 or more."),
    ],
)
def test_a_bound_that_cannot_be_is_refused_by_its_name_with_what_can_be(said: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        Limits(**said)

    assert str(caught.value) == told


def test_the_memory_of_a_broker_may_go_unwatched() -> None:
    assert Limits(memory_bytes=0).most_agents == Limits().most_agents


def test_delegations_have_a_quarter_of_the_memory_at_most() -> None:
    assert Limits().delegation_bytes == Limits().total_bytes
    assert Limits(memory_bytes=512 << 20).delegation_bytes == 128 << 20
    assert Limits(total_bytes=1_000, memory_bytes=512 << 20).delegation_bytes == 1_000
    assert Limits(total_bytes=1_000, memory_bytes=0).delegation_bytes == 1_000
