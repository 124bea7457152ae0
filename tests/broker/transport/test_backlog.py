"""What is kept for nodes that acknowledge nothing: bounded for each, for a key's nodes together, and in all."""

from __future__ import annotations

from ether_broker.transport.address import INCARNATION
from ether_broker.transport.channel import Channel
from ether_broker.transport.sessions.backlog import GRAIN, Backlog
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.wire.frame import join_frame

MEGABYTE = bytes(1 << 20)


class Nodes:
    """A session table with nodes, whose names begin with their keys."""

    def __init__(self, most: int, *, keys: bool = True) -> None:
        self.owners: dict[bytes, str] = {}
        self.session_table = SessionTable(owner=lambda routing_id: self.owners.get(routing_id, ""), most_kept=most)
        self.keys = keys

    def enter(self, node: str) -> Session:
        incarnation = node.encode().ljust(INCARNATION, b"_")
        if self.keys:
            self.owners[b"r" + incarnation] = node.partition("/")[0]
        return self.session_table.open(b"r" + incarnation, node, {}, 1.0)

    def send(self, session: Session, megabytes: int = 1) -> None:
        """Send so much in a step that is committed; the socket takes it all."""
        for _ in range(megabytes):
            self.session_table.send(session, MEGABYTE)
        self.session_table.end_step(1)
        self.session_table.release(1)
        for _ in self.session_table.outgoing():
            pass

    def acknowledge(self, session: Session) -> None:
        channel = session.channel
        self.session_table.arrive(b"t" + session.incarnation, join_frame([], channel.session, 0, channel.last), 1.0)


def test_of_the_nodes_of_a_key_that_acknowledge_nothing_the_one_with_most_is_cut_off() -> None:
    nodes = Nodes(40 << 20)
    greedy = [nodes.enter(f"mallory/{number}") for number in range(8)]
    honest = nodes.enter("laptop/1")
    nodes.send(honest, 10)

    nodes.send(greedy[3], 6)
    for session in greedy:
        nodes.send(session, 2)

    lost = nodes.session_table.expire(1.0)
    assert lost == [greedy[3]]
    assert "does not read" in lost[0].lost
    assert nodes.session_table.backlog.size <= 30 << 20


def test_in_all_too_much_is_paid_for_by_the_key_for_which_most_is_kept() -> None:
    nodes = Nodes(40 << 20)
    few = nodes.enter("laptop/1")
    nodes.send(few, 12)
    many = [nodes.enter(f"{key}/{number}") for key in ("m1", "m2") for number in range(16)]
    for session in many:
        nodes.send(session)

    lost = nodes.session_table.expire(1.0)
    assert lost
    assert {session.owner for session in lost} <= {"m1", "m2"}
    assert nodes.session_table.backlog.size <= 40 << 20
    nodes.send(few)
    assert not few.lost


def test_without_keys_the_bound_is_for_all_nodes_together() -> None:
    nodes = Nodes(20 << 20, keys=False)
    sessions = [nodes.enter(f"n{number}") for number in range(19)]
    for session in sessions:
        nodes.send(session)
    assert not nodes.session_table.lost

    nodes.send(sessions[0], 3)

    assert nodes.session_table.expire(1.0) == [sessions[0]]


def test_what_is_acknowledged_counts_no_more_and_so_does_what_is_kept_for_who_is_gone() -> None:
    nodes = Nodes(20 << 20)
    one, other = nodes.enter("k/1"), nodes.enter("k/2")
    for _ in range(50):
        for session in (one, other):
            nodes.send(session, 2)
            nodes.acknowledge(session)
    nodes.send(other, 2)
    nodes.session_table.close(other, "gone")
    nodes.send(other, 2)

    backlog = nodes.session_table.backlog
    assert (one.lost, backlog.size, backlog.most_of_one, backlog._of) == ("", 0, 0, {})


def test_what_waits_for_the_journal_counts_too() -> None:
    nodes = Nodes(20 << 20)
    session = nodes.enter("k/1")
    for ticket in range(1, 30):
        nodes.session_table.send(session, MEGABYTE)
        nodes.session_table.end_step(ticket)  # which is never committed

    assert "does not read" in session.lost


def test_little_that_is_kept_is_not_even_counted() -> None:
    nodes = Nodes(20 << 20)
    session = nodes.enter("k/1")
    for _ in range(10):
        nodes.session_table.send(session, bytes(GRAIN // 20))
        nodes.session_table.end_step(1)
        nodes.session_table.release(1)

    assert (session.counted, nodes.session_table.backlog.size) == (0, 0)


def test_when_memory_is_short_the_node_with_most_goes_and_one_at_a_time() -> None:
    closed: list[tuple[str, str]] = []
    backlog = Backlog(1 << 30, lambda session, reason: closed.append((session.node, reason)))
    sessions = [Session(f"n{number}", b"%16d" % number, 0.0, channel=Channel(number)) for number in (1, 2, 3)]
    for size, session in zip((10 << 20, 30 << 20, 20 << 20), sessions, strict=True):
        backlog.grow(session, size)
    backlog.shrink()
    assert (closed, backlog.most_of_one) == ([], 30 << 20)

    backlog.must_shrink = True
    backlog.shrink()
    backlog.shrink()

    assert [node for node, _ in closed] == ["n2"]
    assert not backlog.must_shrink
