from __future__ import annotations

from ether_actors.observers.metrics.open_delegations import OpenDelegations
from ether_broker.envelope.ids import foreign_id
from ether_broker.wire.frame import Kind, pack_envelope, read_header


def header(name: str, deadline: float = 0.0):
    return read_header(pack_envelope(Kind.DELEGATION, request_id=foreign_id(name), deadline=deadline))


def test_past_the_limit_the_oldest_make_room() -> None:
    table = OpenDelegations(limit=2)
    for name in ("a", "b", "c"):
        table.add(header(name, 100.0), 0.0)

    assert (len(table), table.dropped) == (2, 1)
    assert table.get(foreign_id("a")) is None
    assert table.get(foreign_id("c")) is not None


def test_without_a_deadline_an_entry_has_the_bus_default() -> None:
    table = OpenDelegations()
    table.add(header("a"), 1_000.0)
    table.sweep(1_064.0)
    assert len(table) == 1
    table.sweep(1_066.0)

    assert (len(table), table.dropped) == (0, 1)


def test_what_has_ended_is_not_dropped() -> None:
    table = OpenDelegations()
    table.add(header("a"), 0.0)
    table.discard(foreign_id("a"))
    table.discard(foreign_id("never seen"))
    table.sweep(1e9)
    table.clear()

    assert table.dropped == 0
