"""What the simulator itself promises: order, loss, and what a disk keeps."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from ether_actors.supervisor.state import broker_state
from ether_broker.envelope.payload import pack
from ether_broker.transport.sessions.turns import Turns
from ether_broker.wire.frame import Kind, join_frame, pack_envelope, read_header
from tests.actors.peers import Bus
from tests.actors.stored_journal import Disk as StoredDisk
from tests.actors.stored_journal import StoredJournal
from tests.simulation.disk import Disk, SimulatedJournal
from tests.simulation.network import Network, Pipe
from tests.simulation.scenario import CHANCES, Weather, draw
from tests.simulation.timeline import SkewedClock, Timeline
from tests.simulation.waits import Waits
from tests.simulation.world import World

ENVELOPE = pack_envelope(Kind.EVENT, request_id=bytes(16))


def _journal(disk: Disk, timeline: Timeline, seed: int = 1) -> SimulatedJournal:
    return SimulatedJournal(disk, timeline, Weather(commit=0.01), Random(seed), lambda _first, _envelopes: None)


def _run(timeline: Timeline, end: float) -> None:
    while timeline.step(end):
        pass


def test_things_happen_in_the_order_of_their_times_and_then_of_their_adding() -> None:
    timeline, happened = Timeline(), list[str]()
    timeline.at(2.0, lambda: happened.append("c"))
    timeline.at(1.0, lambda: happened.append("a"))
    timeline.at(1.0, lambda: happened.append("b"))
    _run(timeline, 3.0)
    assert (happened, timeline.now) == (["a", "b", "c"], 3.0)


def test_a_clock_tells_when_it_will_show_a_time() -> None:
    timeline = Timeline()
    clock = SkewedClock(timeline, 500.0, 1.00005)
    _run(timeline, 10.0)
    assert clock.truth(clock.monotonic()) == pytest.approx(10.0)


def test_a_pipe_keeps_the_order_whatever_its_delays() -> None:
    timeline, came = Timeline(), list[bytes]()
    network = Network(timeline, Weather(jitter=0.1, spikes=0.3), Random(4))
    pipe = Pipe(network, came.append)
    frames = [join_frame([ENVELOPE], 1, number) for number in range(1, 50)]
    for frame in frames:
        pipe.send(frame)
    _run(timeline, 100.0)
    assert came == frames


def test_what_is_in_a_pipe_that_breaks_is_lost() -> None:
    timeline, came = Timeline(), list[bytes]()
    pipe = Pipe(Network(timeline, Weather(), Random(4)), came.append)
    pipe.send(b"one")
    pipe.die()
    pipe.send(b"two")
    _run(timeline, 1.0)
    assert came == []


def test_what_is_held_up_by_a_partition_comes_when_it_heals() -> None:
    timeline, came = Timeline(), list[bytes]()
    pipe = Pipe(Network(timeline, Weather(), Random(4)), came.append)
    pipe.send(b"one")
    pipe.is_blocked = True
    _run(timeline, 1.0)
    assert came == []
    pipe.unblock()
    _run(timeline, 2.0)
    assert came == [b"one"]


def test_a_socket_without_a_connection_takes_nothing() -> None:
    world = World(1)
    world.members[0].start()
    life = world.members[0].life
    assert life is not None
    with pytest.raises(zmq.Again):
        life.link.sockets[1].send(b"frame")


def test_a_commit_is_durable_when_its_time_is_over_and_not_before() -> None:
    disk, timeline = Disk(), Timeline()
    journal = _journal(disk, timeline)
    ticket = journal.append(1, 0.0, 0.0, [ENVELOPE])
    assert (journal.committed, disk.next) == (0, 1)
    _run(timeline, 1.0)
    assert (journal.committed, disk.next) == (ticket, 2)
    assert journal.read(1) is not None
    assert journal.read(2) is None


def test_what_waits_for_a_commit_is_lost_in_a_crash_and_what_is_being_written_may_be_torn() -> None:
    kept = set()
    for seed in range(60):
        disk, timeline = Disk(), Timeline()
        journal = _journal(disk, timeline, seed)
        journal.append(1, 0.0, 0.0, [ENVELOPE])
        _run(timeline, 1.0)
        for number in (2, 3, 4):
            journal.append(number, 0.0, 0.0, [ENVELOPE])
        journal._end()  # the second is durable, and the two behind it are being written
        journal.append(5, 0.0, 0.0, [ENVELOPE])
        journal.crash()
        kept.add(disk.next)
    assert kept == {3, 4, 5}


def test_a_broken_disk_says_so_and_writes_on_when_it_is_mended() -> None:
    disk, timeline = Disk(), Timeline()
    journal = _journal(disk, timeline)
    disk.is_broken = True
    journal.append(1, 0.0, 0.0, [ENVELOPE])
    _run(timeline, 1.0)
    assert journal.trouble is not None
    disk.is_broken = False
    _run(timeline, 2.0)
    assert journal.committed == 1
    assert not journal.trouble


def test_what_only_some_worlds_have_comes_with_its_chance_and_leaves_the_rest_as_it_is() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1_000):
        with_it, without = World(seed).scenario, World(seed, is_plain=True).scenario
        counts.update(with_it.draws)
        assert (without.draws, with_it.requests, with_it.timeouts) == (frozenset(), without.requests, without.timeouts)
        assert with_it.pile or with_it.limits == without.limits
    for what, chance in CHANCES.items():
        assert 0.5 * chance < counts[what] / 1_000 < 2 * chance


def test_seeds_draw_worlds_with_and_without_each_fault() -> None:
    scenarios = [draw(Random(seed)) for seed in range(200)]
    for kind in ("broker", "partition", "node", "disk", "freeze"):
        with_it = sum(kind in scenario.faults for scenario in scenarios)
        assert 20 < with_it < 180
    assert any(not scenario.faults for scenario in scenarios)


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_what_is_handled_while_a_frame_waits_for_the_disk_is_none_of_its_wait(
    is_forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not look again when the disk is well makes it wait for others."""
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", -1)
    bus = Bus()
    journal = bus.state.journal = StoredJournal(StoredDisk())
    honest, other = bus.node("honest", "a"), bus.node("other")
    world: Any = SimpleNamespace(broker=SimpleNamespace(supervisor=bus.supervisor), honest={honest.incarnation})
    waits = Waits(world)
    waits.count(bus.supervisor)

    def go_on(steps: int) -> None:
        for _ in range(steps):
            for _ in range(20):
                other.send(Kind.CANCEL, request_id=bytes(16), source=b"other")
            bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
            waits.stepped(bus.supervisor)

    # Given an agent that leaves while the disk is full
    journal.fail()
    frame = join_frame([pack_envelope(Kind.UNREGISTER, source=b"a")], honest.session.channel.session, 1)
    honest.raw(frame)
    waits.arrived(b"t" + honest.incarnation, frame)
    go_on(30)
    assert honest.session.handled == 0

    # When the disk is well again
    with monkeypatch.context() as forgetting:
        journal.mend()
        if is_forgotten:
            forgetting.setattr(Turns, "_let_go_on", lambda _self: None)
        go_on(30)
    go_on(1)

    # Then it has waited for one turn at most
    assert honest.session.handled == 1
    assert (waits.longest >= 30 * 20) if is_forgotten else (waits.longest <= 2 * 21)


def test_a_node_that_is_refused_for_each_of_its_agents_registers_them_once_more() -> None:
    world = World(1)
    member = world.members[0]
    member.start()
    assert member.life is not None
    node, tries = member.life.node, list[float]()
    node.agent_host.registrations = lambda: tries.append(world.timeline.now) or []  # type: ignore[assignment, func-returns-value]
    refused = pack_envelope(
        Kind.ERROR, request_id=bytes(16), body=pack({"code": "duplicate_agent", "message": "taken"})
    )
    for _ in range(5):
        node._control(read_header(refused), refused)

    _run(world.timeline, 2.0)

    assert len(tries) == 1
