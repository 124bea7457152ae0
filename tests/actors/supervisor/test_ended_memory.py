"""What has ended is not kept, whoever still has its entry: the bytes that the books reach are counted."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Final

import pytest

from ether_actors.supervisor.delegations.delivery import ENDED_PER_STEP
from ether_actors.supervisor.state.ledger import Entry
from ether_actors.supervisor.state.round_robin import EACH, RoundRobin
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, Peer, request_id

SIZE: Final = 10_000
MANY: Final = 50


def kept(bus: Bus) -> int:
    """How many large texts the supervisor reaches beside what counts its bytes: tap, journal, dead letters, frames."""
    state = bus.state
    counted = (state.tap, state.journal, state.dead_letters, state.session_table)
    seen = {id(thing) for thing in (*counted, *bus.peers)}
    large, found = 0, [bus.supervisor]
    for thing in found:
        for other in gc.get_referents(thing):
            is_program = isinstance(other, (type, ModuleType)) or (isinstance(other, dict) and "__builtins__" in other)
            if id(other) not in seen and not is_program and not isinstance(other, Session):
                seen.add(id(other))
                large += isinstance(other, bytes) and len(other) >= SIZE
                found.append(other)
    return large


def full(bus: Bus) -> tuple[Peer, Peer]:
    """An agent whose window is full, and for which others wait; and a delegator."""
    worker, d = bus.node("nw", "w"), bus.delegator("d")
    for _ in range(5):
        d.delegate("d", to="w", timeout=1_000.0)
    bus.step()
    return worker, d


def many(d: Peer, *, timeout: float = 1_000.0, parent: int = 0) -> list[int]:
    return [d.delegate("d", to="w", params=bytes(SIZE), timeout=timeout, parent=parent) for _ in range(MANY)]


def cancelled(bus: Bus, _worker: Peer, d: Peer) -> None:
    for number in many(d):
        d.cancel("d", number)


def expired(bus: Bus, _worker: Peer, d: Peer) -> None:
    many(d, timeout=1.0)
    bus.pass_time(2.0)


def of_a_parent_that_ended(bus: Bus, _worker: Peer, d: Peer) -> None:
    caller = bus.node("nc", "c")
    root = d.delegate("d", to="c")
    bus.step()
    for _ in range(MANY):
        caller.delegate("c", to="w", params=bytes(SIZE), parent=root)
    bus.step()
    assert kept(bus) == MANY
    caller.respond("c", root)


def answered(bus: Bus, worker: Peer, d: Peer) -> None:
    numbers = many(d)
    bus.step()
    left = worker.work()
    while left:
        number = left.pop(0)
        worker.respond("w", number)
        bus.step()
        left += worker.work()
    assert set(d.outcomes()) >= set(numbers)


def cancelled_at_the_node(bus: Bus, worker: Peer, d: Peer) -> None:
    other = bus.node("no", "o")
    numbers = [d.delegate("d", to="o", params=bytes(SIZE)) for _ in range(2)]
    bus.step()
    assert other.work() == numbers
    for number in numbers:
        other.send(Kind.RESPONSE, request_id=request_id(number), source=b"o", status=Status.ACCEPTED)
        d.cancel("d", number)


def moved_and_cancelled(bus: Bus, worker: Peer, d: Peer) -> None:
    standby = bus.node("ns", "s")
    for _ in range(2):
        d.delegate("d", to="s", timeout=1_000.0)
    bus.step()
    numbers = [d.delegate("d", params=bytes(SIZE), timeout=1_000.0) for _ in range(MANY)]
    bus.step()
    standby.send(Kind.BYE)
    bus.step()
    for number in numbers:
        d.cancel("d", number)


@pytest.mark.parametrize(
    "end",
    [cancelled, expired, of_a_parent_that_ended, answered, cancelled_at_the_node, moved_and_cancelled],
    ids=lambda end: str(end.__name__).replace("_", " "),
)
def test_of_what_has_ended_nothing_large_is_kept(end: Callable[[Bus, Peer, Peer], None]):
    bus = Bus(Limits(window=2))
    worker, d = full(bus)
    assert kept(bus) == 0

    end(bus, worker, d)
    bus.step()

    assert kept(bus) == 0


def waiting(orphans: RoundRobin[str, Entry]) -> int:
    return sum(map(len, orphans.owners.values()))


def test_what_waits_to_be_called_off_keeps_nothing_of_what_has_ended_meanwhile():
    bus = Bus(Limits(window=2))
    _, d = full(bus)
    caller = bus.node("nc", "c")
    root = d.delegate("d", to="c", timeout=1_000.0)
    bus.step()
    numbers = [
        caller.delegate("c", to="w", params=bytes(SIZE), parent=root, timeout=1_000.0)
        for _ in range(4 * ENDED_PER_STEP)
    ]
    bus.step()
    caller.respond("c", root)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    orphans = bus.supervisor._policy._delivery.orphans
    assert waiting(orphans) == kept(bus) == 3 * ENDED_PER_STEP - EACH

    for number in numbers[-10:]:
        caller.cancel("c", number)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)

    assert (waiting(orphans), kept(bus)) == (3 * ENDED_PER_STEP - 2 * EACH, 3 * ENDED_PER_STEP - 2 * EACH - 10)
