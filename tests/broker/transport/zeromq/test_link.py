"""A node's link, against a raw ROUTER that plays the broker."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from ether_broker.errors import InvalidEndpoint, MailboxFull
from ether_broker.transport.channel import UNTOLD, Channel, receive
from ether_broker.transport.link import LINK_LIMIT, Link
from ether_broker.transport.zeromq import link as links
from ether_broker.transport.zeromq.link import FULL, ZmqLink
from ether_broker.wire.frame import BATCH, MAX_FRAME_BYTES, join_frame, read_frame
from tests.support import wait_until

PATIENCE = 10.0


class Recorder:
    """A receiver."""

    def __init__(self) -> None:
        self.envelopes: list[bytes] = []
        self.ticks = 0
        self.news = threading.Condition()
        self.on_envelope = lambda envelope: None
        self.wait_at_most = 0.1
        """Seconds until the next tick."""

    def received(self, envelopes: list[bytes]) -> None:
        with self.news:
            self.envelopes += envelopes
            self.news.notify_all()
        for envelope in envelopes:
            self.on_envelope(envelope)

    def ticked(self) -> float:
        with self.news:
            self.ticks += 1
            self.news.notify_all()
        return self.wait_at_most

    def wait(self, condition) -> None:
        with self.news:
            assert self.news.wait_for(condition, PATIENCE)


SESSION = 7


class Hub:
    """The broker's end."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self._socket = context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE * 1000))
        self._socket.bind(endpoint)

    def frame(self) -> tuple[bytes, bytes]:
        routing_id, message = self._socket.recv_multipart()
        return routing_id, message

    def envelopes(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            found += read_frame(self.frame()[1]).envelopes
        return found

    def send(self, routing_id: bytes, message: bytes) -> None:
        self._socket.send_multipart([routing_id, message])

    def close(self) -> None:
        self._socket.close(0)


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        yield made


@pytest.fixture
def hub(context) -> Iterator[Hub]:
    made = Hub(context, "inproc://hub")
    yield made
    made.close()


@pytest.fixture
def link(context, hub: Hub) -> Iterator[ZmqLink]:
    made = ZmqLink("inproc://hub", context)
    made.begin(SESSION, lambda left: left)
    yield made
    made.close(0.0)


def test_it_greets_from_the_listening_side_and_hears_the_first_answer_before_it_is_open(link: ZmqLink, hub: Hub):
    link.greet(b"hello")
    routing_id, message = hub.frame()
    assert routing_id == b"r" + link.incarnation
    assert read_frame(message).envelopes == [b"hello"]

    assert link.first(0.01) == []
    hub.send(routing_id, join_frame([b"welcome", b"more"]))

    assert link.first(PATIENCE) == [b"welcome", b"more"]


def test_it_talks_on_the_other_side_at_once_and_in_order(link: ZmqLink, hub: Hub):
    for number in range(200):
        link.send(b"%d" % number)

    routing_id, message = hub.frame()
    assert routing_id == b"t" + link.incarnation
    rest = hub.envelopes(199)
    assert [*read_frame(message).envelopes, *rest] == [b"%d" % number for number in range(200)]


def test_what_is_held_back_rides_with_what_follows(link: ZmqLink, hub: Hub):
    link.send(b"first", more_follows=True)
    link.send(b"second", more_follows=True)
    link.send(b"third")

    assert read_frame(hub.frame()[1]).envelopes == [b"first", b"second", b"third"]


def test_what_is_held_back_goes_out_though_nothing_follows(link: ZmqLink, hub: Hub):
    link.open(Recorder())
    link.send(b"alone", more_follows=True)

    assert read_frame(hub.frame()[1]).envelopes == [b"alone"]


def test_closing_does_not_wait_for_the_next_tick(monkeypatch: pytest.MonkeyPatch, context, hub: Hub):
    monkeypatch.setattr(links, "_OPTIONS", [*links._OPTIONS, (zmq.RCVTIMEO, 60_000)])
    link = ZmqLink("inproc://hub", context)
    link.open(Recorder())
    receiving = link._threads[0]

    link.close(0.0)  # waits 2 s for its threads

    assert not receiving.is_alive()


def test_flushing_sends_what_is_held_back(link: ZmqLink, hub: Hub):
    link.send(b"held", more_follows=True)
    link.flush()

    assert read_frame(hub.frame()[1]).envelopes == [b"held"]


def test_a_frame_is_bounded_in_count_and_in_bytes(link: ZmqLink, hub: Hub):
    big = bytes(MAX_FRAME_BYTES // 2 + 1)
    for envelope in (big, big, *[b"x"] * (BATCH + 1)):
        link.send(envelope, more_follows=True)
    link.flush()

    frames = [read_frame(hub.frame()[1]).envelopes for _ in range(3)]

    assert [[len(envelope) for envelope in frame[:2]] for frame in frames] == [[len(big)], [len(big), 1], [1, 1]]
    assert [len(frame) for frame in frames] == [1, FULL - 1, BATCH + 3 - FULL]  # the first FULL went without a flush


def test_threads_that_send_at_once_lose_nothing_and_each_keeps_its_order(link: ZmqLink, hub: Hub):
    link.open(Recorder())

    def send(name: int) -> None:
        for number in range(500):
            link.send(b"%d %d" % (name, number), more_follows=number % 3 > 0)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    envelopes = hub.envelopes(2_000)
    for thread in threads:
        thread.join()

    assert len(envelopes) == 2_000
    for name in range(4):
        mine = [envelope for envelope in envelopes if envelope.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, number) for number in range(500)]


def test_waking_the_sender_from_two_threads_at_once_is_no_error(link: ZmqLink):
    """Both may see that it has not been woken."""
    link._wake_sender()
    link._wake_sender()


def test_too_much_that_waits_is_refused(context):
    lonely = ZmqLink("tcp://127.0.0.1:1", context)
    megabyte = bytes(1 << 20)
    with pytest.raises(MailboxFull, match="bytes wait to be sent"):
        for _ in range(2 * LINK_LIMIT // len(megabyte)):
            lonely.send(megabyte, more_follows=True, is_new=True)
    assert lonely.is_full

    lonely.close(0.0)


def test_what_the_broker_could_not_take_yet_is_kept_and_sent_in_order(context, tmp_path):
    endpoint = f"ipc://{tmp_path}/later.sock"
    link = ZmqLink(endpoint, context)
    link.begin(SESSION, lambda left: left)
    for number in range(2 * BATCH):
        link.send(b"%d" % number)
    hub = Hub(context, endpoint)
    link.open(Recorder())

    assert hub.envelopes(2 * BATCH) == [b"%d" % number for number in range(2 * BATCH)]
    link.close(0.0)
    hub.close()


def test_what_comes_is_received_in_order_in_one_thread(link: ZmqLink, hub: Hub):
    recorder = Recorder()
    where: list[bool] = []
    recorder.on_envelope = lambda envelope: where.append(link.is_receiving_thread)
    link.open(recorder)
    link.greet(b"hello")
    routing_id, _ = hub.frame()

    for number in range(100):
        hub.send(routing_id, join_frame([b"%d a" % number, b"%d b" % number]))
    recorder.wait(lambda: len(recorder.envelopes) == 200)

    assert recorder.envelopes == [b"%d %s" % (number, letter) for number in range(100) for letter in (b"a", b"b")]
    assert set(where) == {True}
    assert not link.is_receiving_thread


def test_a_receiver_that_has_nothing_to_do_is_not_ticked_until_it_has(link: ZmqLink, hub: Hub):
    recorder = Recorder()
    recorder.wait_at_most = 60.0
    link.open(recorder)
    link.greet(b"hello")
    routing_id, _ = hub.frame()
    recorder.wait(lambda: recorder.ticks == 1)

    for number in range(100):
        hub.send(routing_id, join_frame([b"%d" % number]))
    recorder.wait(lambda: len(recorder.envelopes) == 100)

    assert recorder.ticks == 1


def test_a_message_that_is_no_frame_and_a_receiver_that_raises_cost_only_themselves(link: ZmqLink, hub: Hub, caplog):
    recorder = Recorder()
    link.open(recorder)
    link.greet(b"hello")
    routing_id, _ = hub.frame()

    def fail(envelope: bytes) -> None:
        if envelope == b"bad":
            raise ValueError(envelope)

    recorder.on_envelope = fail
    with caplog.at_level(logging.WARNING, "ether.link"):
        hub.send(routing_id, b"no frame")
        hub.send(routing_id, join_frame([b"bad"]))
        hub.send(routing_id, join_frame([b"good"]))
        recorder.wait(lambda: b"good" in recorder.envelopes)

    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "shorter than a frame" in caplog.text or "is no frame" in caplog.text
    assert "ValueError" in caplog.text


def test_it_ticks_while_nothing_comes_and_while_much_does(link: ZmqLink, hub: Hub):
    recorder = Recorder()
    link.open(recorder)
    recorder.wait(lambda: recorder.ticks >= 2)

    link.greet(b"hello")
    routing_id, _ = hub.frame()
    before = recorder.ticks
    while recorder.ticks < before + 2:
        hub.send(routing_id, join_frame([b"x"]))
        count = len(recorder.envelopes)
        recorder.wait(lambda wanted=count: len(recorder.envelopes) >= wanted)


def test_closing_sends_what_waits_and_ends_the_threads(context, hub: Hub):
    link = ZmqLink("inproc://hub", context)
    link.begin(SESSION, lambda left: left)
    link.open(Recorder())
    link.send(b"last words", more_follows=True)

    link.close(1.0)

    assert read_frame(hub.frame()[1]).envelopes == [b"last words"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ether-link")]


def test_closing_in_the_receiving_thread_does_not_wait_for_itself(context, hub: Hub):
    link = ZmqLink("inproc://hub", context)
    recorder = Recorder()
    closed = threading.Event()
    recorder.on_envelope = lambda envelope: (link.close(0.0), closed.set())
    link.open(recorder)
    link.greet(b"hello")
    hub.send(hub.frame()[0], join_frame([b"bye"]))

    assert closed.wait(PATIENCE)


def test_an_address_that_is_none_is_refused(context):
    with pytest.raises(InvalidEndpoint):
        ZmqLink("nowhere", context)


def test_it_is_a_link(link: ZmqLink):
    found: Link = link

    assert found.endpoint == "inproc://hub"


# -- connections that break --------------------------------------------------------------------------------------


class Broker:
    """A hub that keeps the broker's end of a session, and whose socket can be closed and bound again."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self._context = context
        self._endpoint = endpoint
        self._socket: zmq.Socket[bytes] | None = None
        self._receiver = b""
        self.channel = Channel(SESSION)
        self.taken: list[bytes] = []
        self.bind()

    def bind(self) -> None:
        socket = self._context.socket(zmq.ROUTER)
        for option, value in (
            (zmq.LINGER, 0), (zmq.ROUTER_MANDATORY, 1), (zmq.ROUTER_HANDOVER, 1), (zmq.RCVTIMEO, 20),
        ):  # fmt: skip
            socket.setsockopt(option, value)

        def is_bound() -> bool:
            with contextlib.suppress(zmq.ZMQError):
                socket.bind(self._endpoint)
                return True
            return False

        wait_until(is_bound, what="the address is free again")
        self._socket = socket

    def monitor(self) -> zmq.Socket[bytes]:
        """Where connections that come and go are told."""
        assert self._socket is not None
        return self._socket.get_monitor_socket()

    def close(self) -> None:
        """Let go of every connection; what the sockets' queues hold is lost."""
        assert self._socket is not None
        self._socket.close(0)

    def turn(self) -> None:
        """Take one message if one comes, as the broker does."""
        assert self._socket is not None
        with contextlib.suppress(zmq.Again):
            routing_id, message = self._socket.recv_multipart()
            self._receiver = b"r" + routing_id[1:]
            self._arrive(*read_frame(message))

    def _arrive(self, session: int, number: int, acknowledged: int, envelopes: list[bytes]) -> None:
        if not session:
            return  # HELLO, which says where the node listens
        self.channel.acknowledge(acknowledged)
        if not number and envelopes:
            self.channel.rewind()
        elif number:
            if number == self.channel.received + 1:
                self.taken += envelopes
                self.channel.received = self.channel.committed = number
                if number - self.channel.told >= UNTOLD:
                    self._transmit(self.channel.acknowledgement())
            elif self.channel.misses(number, time.monotonic()):
                self._transmit(self.channel.ask())
        self.push()

    def send(self, *envelopes: bytes) -> None:
        self.channel.pack(deque(envelopes))
        self.push()

    def push(self) -> None:
        for number, frame in self.channel.unsent():
            if not self._transmit(frame):
                return
            self.channel.sent = number

    def _transmit(self, frame: bytes) -> bool:
        assert self._socket is not None
        try:
            self._socket.send_multipart([self._receiver, frame], zmq.NOBLOCK)
        except zmq.ZMQError:  # nobody is there at the moment, or there is no room
            return False
        return True


def test_connections_that_break_lose_and_double_nothing_in_either_direction(context, tmp_path):
    broker = Broker(context, f"ipc://{tmp_path}/b.sock")
    link = ZmqLink(f"ipc://{tmp_path}/b.sock", context)
    link.begin(SESSION, lambda left: left)
    recorder = Recorder()
    link.open(recorder)
    link.greet(b"hello")
    mine, its = [b"to the broker %d" % n for n in range(3000)], [b"to the node %d" % n for n in range(3000)]

    for turn in range(3000):
        link.send(mine[turn], more_follows=turn % 3 > 0)
        broker.send(its[turn])
        broker.turn()
        if turn in {500, 1200, 1201, 2500}:
            broker.close()
            broker.bind()
    deadline = time.monotonic() + PATIENCE
    beats = 0
    while (len(recorder.envelopes) < 3000 + beats or len(broker.taken) < 3000) and time.monotonic() < deadline:
        if beats * 0.1 < PATIENCE - (deadline - time.monotonic()):
            beats += 1  # as heartbeats do, so that the last frames are missed too
            link.send(b"beat")
            broker.send(b"beat")
            link.greet(b"hello")
        broker.turn()

    assert [envelope for envelope in broker.taken if envelope != b"beat"] == mine
    assert [envelope for envelope in recorder.envelopes if envelope != b"beat"] == its
    link.close(0.0)
    broker.close()


def test_a_connection_that_is_made_anew_takes_the_place_of_the_one_before(context, tmp_path):
    """However often: several under one routing id would take it from each other for ever."""
    broker = Broker(context, f"ipc://{tmp_path}/b.sock")
    monitor = broker.monitor()
    link = ZmqLink(f"ipc://{tmp_path}/b.sock", context)
    link.begin(SESSION, lambda left: left)
    open_connections = 0

    def look() -> int:
        nonlocal open_connections
        while monitor.poll(0):
            event = recv_monitor_message(monitor)["event"]
            open_connections += {zmq.Event.ACCEPTED: 1, zmq.Event.DISCONNECTED: -1}.get(event, 0)
        return open_connections

    wait_until(lambda: look() == 2, what="both sides are connected")

    for _ in range(3):
        link._renew(b"r", 0.02)
    link.open(Recorder())
    link.greet(b"hello")
    for _ in range(3):
        link._renew(b"t", 0.02)
        link.send(b"still there")
    wait_until(lambda: (broker.turn(), len(broker.taken) == 3)[1], what="all of it arrives")

    wait_until(lambda: look() == 2, what="two connections are left")
    link.close(0.0)
    monitor.close(0)
    broker.close()


def test_only_what_the_broker_has_not_got_makes_a_connection_anew(context, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """What it has and does not acknowledge waits for its disk."""
    link = ZmqLink(f"ipc://{tmp_path}/b.sock", context)
    link.begin(SESSION, lambda left: left)
    broker, renewed = Channel(SESSION), []
    monkeypatch.setattr(link, "_renew", lambda role, pause: renewed.append(role))
    now = time.monotonic()

    def wait(seconds: float) -> None:
        """Hear the broker each half second, as it says what it has."""
        nonlocal now
        for _ in range(round(seconds / 0.5)):
            now += 0.5
            link._watchdog.heard = now
            receive(link._channel, broker.heartbeat(now), now, lambda _envelopes: None, lambda: None)
            link._look_at_connections(now)

    broker.received = read_frame(link._channel.pack(deque([b"one"]))[0]).number
    wait(30.0)
    assert (renewed, link._channel.first) == ([], 1)

    link._channel.pack(deque([b"lost"]))
    wait(2.5)
    assert renewed == [b"t"]
    link.close(0.0)


def test_what_is_acknowledged_is_not_kept(link: ZmqLink, hub: Hub):
    link.open(Recorder())
    link.greet(b"hello")
    routing_id, _ = hub.frame()
    for number in range(10):
        link.send(b"%d" % number)
    hub.envelopes(10)
    assert link._channel.retained_bytes

    hub.send(routing_id, join_frame([], SESSION, 0, link._channel.last))

    wait_until(lambda: not link._channel.retained_bytes, what="nothing is kept any more")


def test_too_much_that_is_not_acknowledged_is_refused(link: ZmqLink, hub: Hub):
    megabyte = bytes(1 << 20)
    with pytest.raises(MailboxFull, match="or for its receipt"):
        for _ in range(2 * LINK_LIMIT // len(megabyte)):
            link.send(megabyte, is_new=True)
            hub.frame()


def test_what_is_owed_is_kept_by_a_link_that_is_full(link: ZmqLink, hub: Hub):
    link.backlog = 1_000
    for number in range(100):
        link.send(b"%d" % number + bytes(100))

    assert link.is_full
    assert [envelope.rstrip(b"\0") for envelope in hub.envelopes(100)] == [b"%d" % number for number in range(100)]


def test_a_link_shows_life_outside_the_count_and_before_what_waits(link: ZmqLink, hub: Hub):
    link.send(b"kept back", more_follows=True)
    link.show_life()

    assert read_frame(hub.frame()[1]) == (SESSION, 0, 0, [])
    assert hub.envelopes(1) == [b"kept back"]


def test_life_that_cannot_be_shown_does_not_pile_up(context, tmp_path):
    link = ZmqLink(f"ipc://{tmp_path}/nobody.sock", context)
    link.begin(SESSION, lambda left: left)
    for _ in range(10):
        link.show_life()

    assert len(link._aside) == 1
    link.close(0.0)


def test_a_new_session_begins_with_what_the_one_before_did_not_acknowledge(link: ZmqLink, hub: Hub):
    link.open(Recorder())
    link.greet(b"hello")
    routing_id, _ = hub.frame()
    for envelope in (b"acknowledged", b"under way", b"too"):
        link.send(envelope)
        hub.frame()
    hub.send(routing_id, join_frame([], SESSION, 0, 1))
    wait_until(lambda: len(link._channel.unacknowledged()) == 2, what="the acknowledgement is there")
    seen: list[list[bytes]] = []

    def renew(left: list[bytes]) -> list[bytes]:
        seen.append(left)
        return [b"register", *left[1:]]

    link.begin(SESSION + 1, renew)
    link.send(b"new")

    assert seen == [[b"under way", b"too"]]
    frames = [read_frame(hub.frame()[1]) for _ in range(2)]
    assert [(frame.session, frame.number, frame.envelopes) for frame in frames] == [
        (SESSION + 1, 1, [b"register", b"too"]), (SESSION + 1, 2, [b"new"]),
    ]  # fmt: skip


def test_what_is_said_before_the_first_session_waits_for_it_and_comes_after_what_begins_it(context, hub: Hub):
    link = ZmqLink("inproc://hub", context)
    link.open(Recorder())
    link.send(b"early")
    link.send(b"bird")

    link.begin(SESSION, lambda left: [b"register", *left])

    assert read_frame(hub.frame()[1]) == (SESSION, 1, 0, [b"register", b"early", b"bird"])
    link.close(0.0)


def test_frames_of_an_earlier_session_are_not_received(link: ZmqLink, hub: Hub):
    recorder = Recorder()
    link.open(recorder)
    link.greet(b"hello")
    routing_id, _ = hub.frame()
    link.begin(SESSION + 1, lambda left: left)

    hub.send(routing_id, join_frame([b"old"], SESSION, 1))
    hub.send(routing_id, join_frame([b"new"], SESSION + 1, 1))
    recorder.wait(lambda: recorder.envelopes)

    assert recorder.envelopes == [b"new"]
