"""The transport in memory: a real supervisor, frames as on a socket, and no time but the clock's."""

from __future__ import annotations

import pytest

from ether.testing import ManualClock, MemoryBroker, MemoryLink
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack, unpack
from ether_broker.errors import MailboxFull
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.transport.link import LINK_LIMIT, Link
from ether_broker.wire.frame import BATCH, Kind, pack_envelope, read_frame, read_header


class Receiver:
    """Writes down what comes."""

    def __init__(self) -> None:
        self.envelopes: list[bytes] = []
        self.was_receiving: list[bool] = []
        self.link: MemoryLink | None = None

    def received(self, envelopes: list[bytes]) -> None:
        self.envelopes += envelopes
        if self.link is not None:
            self.was_receiving.append(self.link.is_receiving_thread)

    def ticked(self) -> float:
        return 0.1

    @property
    def kinds(self) -> list[Kind]:
        return [Kind(read_header(envelope).kind) for envelope in self.envelopes]


def hello(name: str) -> bytes:
    return pack_envelope(Kind.HELLO, request_id=new_id(), body=pack({"node": name, "schema_version": "1.0"}))


def joined(broker: MemoryBroker, name: str = "n") -> tuple[MemoryLink, Receiver]:
    link, receiver = broker.connect(), Receiver()
    link.greet(hello(name))
    (welcome,) = link.first(5.0)
    assert read_header(welcome).kind == Kind.WELCOME
    link.begin(unpack(welcome[read_header(welcome).body :])["session"], lambda left: left)
    link.open(receiver)
    broker.exchange()
    assert set(receiver.kinds) <= {Kind.HEARTBEAT}
    receiver.envelopes.clear()
    receiver.link = link
    return link, receiver


def test_a_node_joins_and_hears_nothing_before_it_opens():
    broker = MemoryBroker(ManualClock())
    link: Link = broker.connect()
    assert link.first(99.0) == []

    link.greet(hello("n"))
    welcome, *_ = link.first(99.0)

    assert unpack(welcome[read_header(welcome).body :])["clock"] == 1_000_000.0
    assert [session.node for session in broker.supervisor.state.session_table.sessions] == ["n"]


def test_what_is_sent_arrives_when_a_link_is_flushed_or_the_broker_is_told_to_exchange():
    broker = MemoryBroker(ManualClock())
    link, receiver = joined(broker)
    link.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=b"a", body=pack({})))
    assert receiver.kinds == []

    link.flush()
    assert receiver.kinds == [Kind.REGISTERED]

    link.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=b"b", body=pack({})))
    assert broker.exchange()
    assert receiver.kinds == [Kind.REGISTERED] * 2
    assert not broker.exchange()
    assert receiver.was_receiving == [True, True]
    assert not link.is_receiving_thread


def test_envelopes_ride_in_frames_as_on_a_socket():
    broker = MemoryBroker(ManualClock())
    link, _ = joined(broker)
    frames: list[bytes] = []
    broker.server.inject = lambda routing_id, message: frames.append(message)  # type: ignore[method-assign]
    for number in range(BATCH + 1):
        link.send(b"%d" % number, more_follows=True)

    link.post()

    assert [len(read_frame(frame).envelopes) for frame in frames] == [BATCH, 1]


def test_any_bytes_may_be_injected():
    broker = MemoryBroker(ManualClock())

    broker.inject(b"who knows", b"junk")
    broker.exchange()

    assert broker.supervisor.state.session_table.refused == 1


def test_a_callback_that_flushes_moves_the_frames_without_running_in_circles():
    broker = MemoryBroker(ManualClock())
    link, receiver = joined(broker)
    seen: list[bool] = []

    class Chatty(Receiver):
        def received(self, envelopes: list[bytes]) -> None:
            super().received(envelopes)
            if len(self.envelopes) < 3:
                link.send(pack_envelope(Kind.MONITOR, request_id=new_id(), target=b"nobody"))
            link.flush()
            seen.append(broker.exchange())

    chatty = Chatty()
    link.open(chatty)
    link.send(pack_envelope(Kind.MONITOR, request_id=new_id(), target=b"nobody"))
    link.flush()

    assert chatty.kinds == [Kind.DOWN] * 3
    assert seen == [False] * 3
    assert receiver.envelopes == []


def test_a_cut_link_loses_what_comes_keeps_what_it_sends_and_is_noticed_as_silence():
    clock = ManualClock()
    broker = MemoryBroker(clock)
    link, receiver = joined(broker)
    link.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=b"a", body=pack({})))
    link.flush()
    link.cut()
    link.send(pack_envelope(Kind.HEARTBEAT))
    link.greet(hello("n"))
    assert link.is_cut

    for _ in range(3):
        clock.advance(DEFAULT_TIMING.silence / 2)
        broker.exchange()
    assert broker.supervisor.state.session_table.sessions == []
    assert receiver.kinds == [Kind.REGISTERED]

    link.mend()
    broker.exchange()
    assert receiver.kinds == [Kind.REGISTERED, Kind.ERROR]  # it has to say HELLO again


def test_a_link_that_was_disconnected_is_noticed_at_once():
    broker = MemoryBroker(ManualClock())
    gone, _ = joined(broker, "gone")
    watcher, receiver = joined(broker, "watcher")
    watcher.send(pack_envelope(Kind.MONITOR, request_id=new_id(), target=b"node:gone"))
    watcher.flush()

    broker.disconnect(gone)
    broker.clock.advance(1.0)  # type: ignore[attr-defined]
    broker.exchange()

    assert Kind.DOWN in receiver.kinds


def test_too_much_that_waits_is_refused():
    broker = MemoryBroker(ManualClock())
    link, _ = joined(broker)
    link.cut()
    megabyte = bytes(1 << 20)

    with pytest.raises(MailboxFull):
        for _ in range(2 * LINK_LIMIT // len(megabyte)):
            link.send(megabyte, is_new=True)


def test_closing_sends_what_waits():
    broker = MemoryBroker(ManualClock())
    link, _ = joined(broker)
    link.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=b"a", body=pack({})))

    link.close(1.0)

    assert broker.supervisor.state.registry.get(b"a") is not None
