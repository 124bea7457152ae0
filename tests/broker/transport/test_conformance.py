"""What `Server` and `Link` promise, held by every kind of transport: ZeroMQ, memory, and what is added to `kinds.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack, unpack
from ether_broker.errors import MailboxFull
from ether_broker.transport.link import LINK_LIMIT, Link
from ether_broker.transport.server import Server, SharedServer
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.wire.frame import Kind, pack_envelope, read_frame, read_header
from tests.broker.transport.kinds import KINDS, Transport

PATIENCE = 10.0


def said(text: bytes) -> bytes:
    """An envelope that says something."""
    return pack_envelope(Kind.EVENT, request_id=new_id(), body=text)


def heard(envelope: bytes) -> bytes:
    return envelope[read_header(envelope).body :]


class Broker:
    """A session table behind a server: welcomes whoever says HELLO, and writes down what the nodes say."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.table = SessionTable(addressing=server.addressing)
        self.heard: list[tuple[str, bytes]] = []
        self.gone: list[str] = []
        self.was_blocked = False

    def step(self) -> None:
        with self.server.lock if isinstance(self.server, SharedServer) else nullcontext():
            self._step()

    def _step(self) -> None:
        table, now = self.table, time.monotonic()
        for address, message in self.server.receive(0.0):
            table.arrive(address, message, now)
        for queue, envelope in table.turns.take():
            header = read_header(envelope)
            if header.kind == Kind.HELLO:
                session = table.open(queue.address, heard(envelope).decode(), {}, now)
                body = pack({"session": session.channel.session})
                table.reply(queue.address, pack_envelope(Kind.WELCOME, request_id=header.request_id, body=body))
            else:
                assert queue.session is not None
                self.heard.append((queue.session.node, heard(envelope)))
        table.end_step(0)
        table.release(0)
        self.server.transmit(table)
        if self.server.is_blocked:
            self.was_blocked = True
            table.retry()
        self.gone += [session.node for session in table.expire(now)]

    def says(self, node: str, *texts: bytes) -> None:
        """Send something to a node in one step."""
        session = self.table.find(node)
        assert session is not None
        for text in texts:
            self.table.send(session, said(text))
        self.step()


class Node:
    """A link that has joined, and its receiver."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.heard: list[bytes] = []
        self.was_receiving_thread: list[bool] = []

    def received(self, envelopes: list[bytes]) -> None:
        self.link.call(lambda: self.was_receiving_thread.append(self.link.is_receiving_thread))
        self.heard += [heard(envelope) for envelope in envelopes if read_header(envelope).kind == Kind.EVENT]

    def ticked(self) -> float:
        return 0.1


class Bus:
    """A broker and its nodes, moved by the test."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.broker = Broker(transport.server)
        self.links: list[Link] = []

    def link(self) -> Link:
        link = self.transport.link()
        self.links.append(link)
        return link

    def until(self, condition: Callable[[], object]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, "not in time"
            for link in self.links:
                self.transport.move(link)
            self.broker.step()

    def welcome(self, link: Link, name: str) -> int:
        """Say HELLO until it is answered; returns the session's id."""
        answers: list[bytes] = []

        def is_answered() -> bool:
            if not answers:
                link.greet(pack_envelope(Kind.HELLO, request_id=new_id(), body=name.encode()))
            answers.extend(link.first(0.01))
            return bool(answers)

        self.until(is_answered)
        assert read_header(answers[0]).kind == Kind.WELCOME
        return int(unpack(heard(answers[0]))["session"])

    def join(self, name: str) -> Node:
        node = Node(self.link())
        node.link.begin(self.welcome(node.link, name), lambda left: left)
        node.link.open(node)
        return node

    def close(self) -> None:
        for link in self.links:
            link.close(0.0)
        self.transport.server.close(0.0)
        self.transport.close()


@pytest.fixture(params=KINDS)
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bus]:
    bus = Bus(KINDS[request.param](tmp_path))
    yield bus
    bus.close()


# -- joining -------------------------------------------------------------------------------------------------------


def test_each_who_says_hello_is_answered_where_it_listens(bus: Bus):
    one, two = bus.link(), bus.link()

    sessions = bus.welcome(one, "one"), bus.welcome(two, "two")

    assert sessions == tuple(session.channel.session for session in bus.broker.table.sessions)
    assert [session.node for session in bus.broker.table.sessions] == ["one", "two"]


def test_who_is_not_answered_hears_nothing(bus: Bus):
    assert bus.link().first(0.01) == []


def test_link_and_server_name_the_same_address_and_no_trouble(bus: Bus):
    link = bus.link()

    assert link.endpoint == bus.transport.server.endpoint
    assert link.explain() is None


# -- from a node to the broker -------------------------------------------------------------------------------------


def test_what_a_node_sends_comes_in_order_and_once(bus: Bus):
    node = bus.join("n")
    texts = [b"%d" % number for number in range(300)]
    for text in texts:
        node.link.send(said(text), more_follows=True)
    node.link.flush()
    bus.until(lambda: len(bus.broker.heard) >= len(texts))

    assert bus.broker.heard == [("n", text) for text in texts]


def test_what_is_held_back_goes_out_with_what_is_not(bus: Bus):
    node = bus.join("n")
    node.link.send(said(b"held"), more_follows=True)
    node.link.send(said(b"now"))

    bus.until(lambda: len(bus.broker.heard) == 2)

    assert bus.broker.heard == [("n", b"held"), ("n", b"now")]


def test_what_each_thread_sends_comes_in_its_order(bus: Bus):
    node = bus.join("n")

    def speak(name: int) -> None:
        for number in range(100):
            node.link.send(said(b"%d %d" % (name, number)), more_follows=number % 3 != 0)

    threads = [threading.Thread(target=speak, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    node.link.flush()
    bus.until(lambda: len(bus.broker.heard) == 400)

    for name in range(4):
        mine = [text for _, text in bus.broker.heard if text.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, number) for number in range(100)]


def test_messages_come_with_whose_they_are(bus: Bus):
    one, two = bus.join("one"), bus.join("two")
    one.link.send(said(b"1"))
    two.link.send(said(b"2"))

    bus.until(lambda: len(bus.broker.heard) == 2)

    assert sorted(bus.broker.heard) == [("one", b"1"), ("two", b"2")]


def test_nothing_is_sent_before_there_is_a_session_and_then_what_it_begins_with_goes_first(bus: Bus):
    node = Node(bus.link())
    node.link.send(said(b"early"))
    session = bus.welcome(node.link, "n")
    before = list(bus.broker.heard)
    left: list[bytes] = []

    def renew(envelopes: list[bytes]) -> list[bytes]:
        left.extend(map(heard, envelopes))
        return [said(b"first"), *envelopes]

    node.link.begin(session, renew)
    node.link.open(node)
    node.link.send(said(b"late"))
    bus.until(lambda: len(bus.broker.heard) == 3)

    assert before == []
    assert left == [b"early"]
    assert [text for _, text in bus.broker.heard] == [b"first", b"early", b"late"]


def test_a_new_session_is_given_what_no_earlier_one_acknowledged(bus: Bus):
    node = bus.join("n")
    for number in range(64):  # of which acknowledgements go out by themselves
        node.link.send(said(b"%d" % number))
        bus.until(lambda number=number: len(bus.broker.heard) > number)
    acknowledged = bus.broker.table.find("n").channel.committed
    node.link.send(said(b"under way"))
    left: list[bytes] = []
    node.link.begin(99, lambda envelopes: left.extend(map(heard, envelopes)) or [])

    assert acknowledged == 64
    assert left[-1] == b"under way"
    assert len(left) < 64 + 1


def test_when_more_waits_than_may_what_is_new_is_refused_and_what_is_owed_is_kept(bus: Bus):
    link = bus.link()
    megabyte = bytes(1 << 20)
    before = link.is_full

    with pytest.raises(MailboxFull):
        for _ in range(LINK_LIMIT // len(megabyte) + 2):
            link.send(megabyte, more_follows=True, is_new=True)
    link.send(b"owed", more_follows=True)

    left: list[bytes] = []
    assert (before, link.is_full) == (False, True)
    link.begin(7, lambda envelopes: left.extend(envelopes) or [])
    assert left[-1] == b"owed"
    assert len(left) == LINK_LIMIT // len(megabyte) + 2


def test_a_node_that_shows_life_is_heard_outside_the_count(bus: Bus):
    node = bus.join("n")
    session = bus.broker.table.find("n")
    session.heard, received = 0.0, session.channel.received

    node.link.show_life()
    node.link.flush()
    bus.until(lambda: session.heard > 0.0)

    assert session.channel.received == received


# -- from the broker to a node -------------------------------------------------------------------------------------


def test_what_the_broker_sends_comes_in_order_and_once_and_calls_run_in_the_receiving_thread(bus: Bus):
    node = bus.join("n")
    texts = [b"%d" % number for number in range(300)]
    for place in range(0, len(texts), 3):
        bus.broker.says("n", *texts[place : place + 3])
    bus.until(lambda: len(node.heard) >= len(texts))

    assert node.heard == texts
    bus.until(lambda: len(node.was_receiving_thread) >= 100)
    assert set(node.was_receiving_thread) == {True}
    assert not node.link.is_receiving_thread


def test_a_node_that_does_not_read_holds_up_nobody_and_gets_it_later(bus: Bus):
    other, silent = bus.join("other"), Node(bus.link())
    silent.link.begin(bus.welcome(silent.link, "silent"), lambda left: left)
    texts: list[bytes] = []
    while not bus.broker.was_blocked and len(texts) < 3_000:
        texts.append(b"%d " % len(texts) + bytes(16_000))
        bus.broker.says("silent", texts[-1])
    bus.broker.says("other", b"hello")
    bus.until(lambda: other.heard == [b"hello"])

    assert bus.broker.was_blocked
    silent.link.open(silent)
    bus.until(lambda: len(silent.heard) >= len(texts))
    assert silent.heard == texts


def test_a_link_that_is_closed_sends_what_waits_and_is_then_found_gone(bus: Bus):
    node = bus.join("n")
    node.link.send(said(b"last words"), more_follows=True)
    node.link.close(1.0)
    bus.links.remove(node.link)

    bus.until(lambda: bus.broker.heard)
    assert bus.broker.heard == [("n", b"last words")]

    def is_gone() -> bool:
        if bus.broker.table.find("n") is not None:
            bus.broker.says("n", b"?")
        return bus.broker.gone == ["n"]

    bus.until(is_gone)


# -- waiting -------------------------------------------------------------------------------------------------------


def test_a_wait_for_messages_ends_when_the_time_is_up(bus: Bus):
    began = time.monotonic()

    assert bus.transport.server.receive(0.05) == []
    assert 0.04 < time.monotonic() - began < PATIENCE


def test_a_wait_for_messages_ends_when_another_thread_says_so_and_only_then(bus: Bus):
    server = bus.transport.server
    waits, woken = threading.Event(), threading.Event()

    def wait() -> None:
        waits.set()
        assert server.receive(PATIENCE * 10) == []
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait(PATIENCE)
    was_woken = woken.wait(0.05)
    server.wake()

    assert not was_woken
    assert woken.wait(PATIENCE)
    thread.join()


def test_a_wait_for_messages_ends_when_one_comes(bus: Bus):
    node, server = bus.join("n"), bus.transport.server
    said_to_it: list[bytes] = []

    def wait() -> None:
        # HELLO is said until it is answered, so that a second one, or what its answer brings about, may still be under way.
        while not any(b"hello" in envelope for envelope in said_to_it):
            for _, message in server.receive(PATIENCE * 10):
                said_to_it.extend(read_frame(message).envelopes)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    node.link.send(said(b"hello"))
    node.link.flush()
    thread.join(PATIENCE)

    assert not thread.is_alive()
