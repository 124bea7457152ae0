"""One request id, sent more than once."""

from __future__ import annotations

import pytest

from ether_broker.status import Status
from ether_broker.wire import Flag, Kind
from tests.actors.peers import Bus


def test_the_same_request_of_the_same_delegator_gets_its_outcome_again():
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()
    worker.respond("w", number)
    bus.step()
    assert desk.outcomes() == {number: Status.COMPLETED}

    desk.delegate("desk", number=number)
    bus.step()

    assert desk.outcomes() == {number: Status.COMPLETED}
    assert worker.work() == [number]


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("flags", [0, int(Flag.RESENT)])
def test_an_id_that_another_delegator_used_is_refused_at_once_and_tells_nothing_of_the_first(
    has_ended: bool, flags: int
):
    bus = Bus()
    desk, hall, worker = bus.delegator("desk"), bus.delegator("hall"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()
    if has_ended:
        worker.respond("w", number)
        bus.step()

    hall.delegate("hall", number=number, flags=flags)
    bus.step()

    refusal = hall.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (number, Status.REJECTED_CONTEXT, "duplicate_request")
    assert "desk" not in str(refusal.body)
    if not has_ended:
        worker.respond("w", number)
        bus.step()
    assert desk.outcomes() == {number: Status.COMPLETED}


def test_a_forged_request_with_a_known_id_is_answered_nothing():
    bus = Bus()
    desk, hall, _worker = bus.delegator("desk"), bus.delegator("hall"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()

    hall.delegate("desk", number=number)
    bus.step()

    assert hall.took(Kind.RESPONSE) == []
