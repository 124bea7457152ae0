from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.payload import unpack
from ether_broker.errors import MalformedFrame, NameTaken, NodeRefused, NoSession
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import INCARNATION, Address, NodeAddress
from ether_broker.transport.channel import UNTOLD
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.session_table import SessionTable, capability_of
from ether_broker.wire.frame import BATCH, Kind, join_frame, pack_envelope, read_frame, read_header

ONE, TWO = b"1" * INCARNATION, b"2" * INCARNATION


def entered(session_table: SessionTable, incarnation: bytes = ONE, node: str = "n", now: float = 10.0) -> Session:
    return session_table.open(b"r" + incarnation, node, {}, now)


def send(session_table: SessionTable, session: Session, *envelopes: bytes) -> None:
    """Send envelopes in a step whose journal entry is committed."""
    for envelope in envelopes:
        session_table.send(session, envelope)
    session_table.end_step(1)
    session_table.release(1)


def arrive(
    session_table: SessionTable, routing_id: bytes, message: bytes, now: float
) -> list[tuple[Session | None, bytes]]:
    """Let a message arrive; what is handled of everything that waits then: (session, envelope)."""
    session_table.arrive(routing_id, message, now)
    handled: list[tuple[Session | None, bytes]] = []
    while session_table.turns.waiting:
        handled += [(queue.session, envelope) for queue, envelope in session_table.turns.take()]
    return handled


def outgoing(session_table: SessionTable) -> list[tuple[bytes, list[bytes]]]:
    return [(routing_id, read_frame(frame).envelopes) for routing_id, frame in session_table.outgoing()]


def error_of(envelope: bytes) -> str:
    header = read_header(envelope)
    assert header.kind == Kind.ERROR
    return unpack(envelope[header.body :])["code"]


# -- who is who --------------------------------------------------------------------------------------------------


def test_a_node_is_known_by_both_of_its_routing_ids():
    session_table = SessionTable()
    session = entered(session_table)
    frame = join_frame([b"one", b"two"])

    assert arrive(session_table, b"r" + ONE, frame, 11.0) == [(session, b"one"), (session, b"two")]
    assert arrive(session_table, b"t" + ONE, frame, 12.0) == [(session, b"one"), (session, b"two")]
    assert session.heard == 12.0
    assert session_table.sessions == [session]


def test_a_peer_that_has_not_entered_has_no_session():
    session_table = SessionTable()

    assert arrive(session_table, b"t" + ONE, join_frame([b"one", b"two"]), 1.0) == [(None, b"one")]


@pytest.mark.parametrize("routing_id", [b"t" + ONE, b"r", b"r" + ONE[:-1], b"r" + ONE + b"x", b"", b"x" + ONE])
def test_only_a_listening_socket_with_a_whole_incarnation_enters(routing_id: bytes):
    with pytest.raises(NodeRefused, match="HELLO came from the address"):
        SessionTable().open(routing_id, "n", {}, 1.0)


def test_entering_twice_is_once_and_a_name_belongs_to_one_incarnation():
    session_table = SessionTable()
    session = entered(session_table)

    assert entered(session_table) is session
    with pytest.raises(NameTaken, match="choose another name"):
        entered(session_table, TWO)


def test_a_name_is_free_when_its_node_drains_or_is_lost():
    session_table = SessionTable()
    old = entered(session_table)
    old.has_said_bye = True

    new = entered(session_table, TWO)
    assert session_table.sessions == [new]
    session_table.close(new, "gone")
    newest = entered(session_table)

    assert session_table.sessions == [newest]
    assert [session.lost for session in session_table.expire(10.0)] == ["it left", "gone"]


# -- what is no frame --------------------------------------------------------------------------------------------


@given(st.binary(max_size=40), st.binary(max_size=60))
def test_whatever_arrives_is_taken_or_counted_and_answered(routing_id: bytes, message: bytes):
    session_table = SessionTable()
    session = entered(session_table)

    handled = arrive(session_table, routing_id, message, 20.0)

    assert all(found is None for found, _ in handled)
    if handled or message[:4] == b"ETHR":
        return
    assert (session_table.refused, session.heard) == (1, 10.0)
    ((receiver, (envelope,)),) = outgoing(session_table)
    is_talking = len(routing_id) == 17 and routing_id[:1] == b"t"
    assert receiver == (b"r" + routing_id[1:] if is_talking else routing_id)
    assert error_of(envelope) == MalformedFrame.code


def test_a_malformed_message_of_a_node_is_no_sign_of_life():
    session_table = SessionTable()
    session = entered(session_table)

    assert arrive(session_table, b"t" + ONE, b"junk", 99.0) == []
    assert session_table.refused == 1
    assert session.heard == 10.0


def test_answers_to_strangers_are_bounded():
    session_table = SessionTable()
    for number in range(5_000):
        arrive(session_table, b"?%16d" % number, b"junk", 1.0)

    assert session_table.refused == 5_000
    assert len(outgoing(session_table)) == 1_000


def test_of_refusals_of_one_kind_that_answer_the_same_a_peer_is_told_one_until_it_has_left():
    session_table = SessionTable()
    session = entered(session_table)
    mine, other = MalformedFrame("mine"), NoSession("another")

    def told() -> list[tuple[str, bytes]]:
        found = [(error_of(parts[0]), read_header(parts[0]).request_id) for _, parts in outgoing(session_table)]
        return sorted(found)

    for request_id in (b"", b"", b"a" * 16, b"a" * 16, b"b" * 16):
        for error in (mine, other):
            session_table.refuse(session.receiver, error, request_id or bytes(16))
    codes = [MalformedFrame.code, NoSession.code]
    assert told() == sorted((code, said) for code in codes for said in (bytes(16), b"a" * 16, b"b" * 16))
    session_table.refuse(session.receiver, mine)

    assert told() == [(MalformedFrame.code, bytes(16))]
    assert session_table.refused == 11


# -- what waits --------------------------------------------------------------------------------------------------


def test_envelopes_for_a_node_ride_together_in_their_order():
    session_table = SessionTable()
    session = entered(session_table)
    envelopes = [b"%d" % number for number in range(BATCH + 5)]
    send(session_table, session, *envelopes)

    frames = outgoing(session_table)

    assert [routing_id for routing_id, _ in frames] == [b"r" + ONE] * 2
    assert [len(parts) for _, parts in frames] == [BATCH, 5]
    assert [part for _, parts in frames for part in parts] == envelopes
    assert (session.outbox_bytes, outgoing(session_table)) == (0, [])


def test_each_node_gets_its_own():
    session_table = SessionTable()
    one, two = entered(session_table), entered(session_table, TWO, "m")
    send(session_table, one, b"a")
    send(session_table, two, b"b")

    assert dict(outgoing(session_table)) == {b"r" + ONE: [b"a"], b"r" + TWO: [b"b"]}


def test_what_the_socket_had_no_room_for_goes_first_when_it_is_tried_again():
    session_table = SessionTable()
    session = entered(session_table)
    send(session_table, session, b"a", b"b")
    for routing_id, frame in session_table.outgoing():
        session_table.undelivered(routing_id, frame)
    send(session_table, session, b"c")

    assert outgoing(session_table) == []
    session_table.retry()

    frames = [read_frame(frame) for _, frame in session_table.outgoing()]
    assert [(frame.number, frame.envelopes) for frame in frames] == [(1, [b"a", b"b"]), (2, [b"c"])]
    assert session.outbox_bytes == 0


def test_a_blocked_node_holds_up_no_other():
    session_table = SessionTable()
    slow, quick = entered(session_table), entered(session_table, TWO, "m")
    send(session_table, slow, *(b"%d" % number for number in range(3 * BATCH)))
    send(session_table, quick, b"x")

    taken = []
    for routing_id, frame in session_table.outgoing():
        if routing_id == slow.receiver:
            session_table.undelivered(routing_id, frame)
        else:
            taken.append(routing_id)

    assert taken == [quick.receiver]
    assert slow.unacknowledged() == [b"%d" % number for number in range(3 * BATCH)]
    session_table.retry()
    assert [envelope for _, frame in outgoing(session_table) for envelope in frame] == slow.unacknowledged()


def test_a_node_that_does_not_read_is_lost_when_too_much_waits_for_it():
    session_table = SessionTable()
    session = entered(session_table)
    session.blocked = True
    megabyte = bytes(1 << 20)
    for _ in range(128):
        send(session_table, session, megabyte)
    assert not session.lost
    send(session_table, session, megabyte)

    assert "does not read" in session.lost
    assert session_table.sessions == []
    assert session_table.expire(10.0) == [session]
    assert outgoing(session_table) == []


def test_a_node_that_reads_and_acknowledges_nothing_is_lost_when_too_much_waits_for_that():
    session_table = SessionTable()
    session = entered(session_table)
    megabyte = bytes(1 << 20)
    for _ in range(130):
        send(session_table, session, megabyte)
        outgoing(session_table)

    assert "does not read" in session.lost


def test_what_is_sent_to_a_lost_node_is_dropped():
    session_table = SessionTable()
    session = entered(session_table)
    send(session_table, session, b"a")
    session_table.close(session, "gone")
    send(session_table, session, b"b")
    session_table.send_aside(session, b"c")
    session_table.undelivered(session.receiver, join_frame([b"a"]))
    session_table.retry()

    assert outgoing(session_table) == []


# -- what waits for the journal ----------------------------------------------------------------------------------

RESEND = pack_envelope(Kind.RESEND)


def said(
    session_table: SessionTable, session: Session, *envelopes: bytes, number: int, acknowledged: int = 0
) -> list[bytes]:
    """Let a numbered frame of a node arrive; returns what the broker takes of it."""
    frame = join_frame(envelopes, session.channel.session, number, acknowledged)
    return [envelope for _, envelope in arrive(session_table, b"t" + session.incarnation, frame, 11.0)]


def frames(session_table: SessionTable) -> list[tuple[int, int, list[bytes]]]:
    """(number, acknowledged, envelopes) of what leaves."""
    return [read_frame(frame)[1:] for _, frame in session_table.outgoing()]


def test_what_a_step_sends_leaves_when_the_journal_has_it_and_what_came_is_acknowledged_then():
    session_table = SessionTable()
    session = entered(session_table)
    said(session_table, session, b"work", number=1)
    session_table.send(session, b"answer")
    assert frames(session_table) == []

    session_table.end_step(5)
    session_table.release(4)
    assert frames(session_table) == []
    assert session_table.uncommitted(session) == [b"answer"]

    session_table.release(5)
    assert frames(session_table) == [(1, 1, [b"answer"])]
    assert session_table.uncommitted(session) == []


def test_steps_are_released_in_their_order_and_only_so_far():
    session_table = SessionTable()
    session = entered(session_table)
    for ticket in (1, 2, 2, 3):
        session_table.send(session, b"%d" % ticket)
        session_table.end_step(ticket)

    session_table.release(2)
    assert frames(session_table) == [(1, 0, [b"1", b"2", b"2"])]
    session_table.release(9)
    assert frames(session_table) == [(2, 0, [b"3"])]


def test_what_does_not_wait_for_the_journal_overtakes_what_does_and_acknowledges_nothing_new():
    session_table = SessionTable()
    session = entered(session_table)
    said(session_table, session, b"work", number=1)
    session_table.send(session, b"sealed")
    session_table.send_aside(session, b"aside 1")
    session_table.send_aside(session, b"aside 2")
    session_table.end_step(1)

    assert frames(session_table) == [(1, 0, [b"aside 1", b"aside 2"])]
    session_table.release(1)
    assert frames(session_table) == [(2, 1, [b"sealed"])]


def test_much_that_came_is_acknowledged_though_nothing_is_sent_but_not_before_its_step_is_committed():
    session_table = SessionTable()
    session = entered(session_table)
    for number in range(1, UNTOLD + 1):
        said(session_table, session, b"x", number=number)
    session_table.end_step(1)
    said(session_table, session, b"x", number=UNTOLD + 1)
    session_table.end_step(2)
    assert frames(session_table) == []

    session_table.release(1)
    assert frames(session_table) == [(0, UNTOLD, [])]
    session_table.release(2)
    assert frames(session_table) == []  # too little to be worth a frame of its own
    send(session_table, session, b"beat")
    assert frames(session_table) == [(1, UNTOLD + 1, [b"beat"])]


def test_a_frame_is_taken_once_and_in_its_turn():
    session_table = SessionTable()
    session = entered(session_table)

    assert said(session_table, session, b"a", number=1) == [b"a"]
    assert said(session_table, session, b"a", number=1) == []
    assert said(session_table, session, b"c", number=3) == []
    assert frames(session_table) == [(0, 0, [RESEND])]
    assert said(session_table, session, b"d", number=4) == []
    assert frames(session_table) == []  # asked for already
    assert said(session_table, session, b"b", number=2) == [b"b"]
    assert said(session_table, session, b"c", number=3) == [b"c"]


def test_what_a_node_misses_is_sent_again_from_what_it_acknowledged_on():
    session_table = SessionTable()
    session = entered(session_table)
    for envelope in (b"a", b"b", b"c"):
        send(session_table, session, envelope)
        frames(session_table)
    said(session_table, session, RESEND, number=0, acknowledged=1)

    session_table.resend(session)

    assert frames(session_table) == [(2, 0, [b"b"]), (3, 0, [b"c"])]
    assert session.unacknowledged() == [b"b", b"c"]
    said(session_table, session, number=0, acknowledged=3)
    assert session.unacknowledged() == []


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_frame_of_an_earlier_session_counts_for_nothing(number: int):
    session_table = SessionTable()
    session = entered(session_table)
    send(session_table, session, b"a")
    frames(session_table)
    stale = join_frame([b"old"], session.channel.session + 1, number, 1)

    assert arrive(session_table, b"t" + ONE, stale, 12.0) == []

    assert session.unacknowledged() == [b"a"]
    assert (session.channel.received, session.heard) == (0, 10.0)


def test_what_a_node_may_not_have_got_is_known_after_it_is_lost():
    session_table = SessionTable()
    session = entered(session_table)
    send(session_table, session, b"sent")
    frames(session_table)
    send(session_table, session, b"waits")
    session_table.send(session, b"sealed")
    session_table.end_step(2)
    session_table.send(session, b"fresh")
    session_table.close(session, "gone")

    assert session.unacknowledged() == [b"sent", b"waits", b"fresh"]
    assert session_table.uncommitted(session) == [b"sealed"]
    session_table.release(2)
    assert sorted(session.unacknowledged()) == [b"fresh", b"sealed", b"sent", b"waits"]
    assert session_table.uncommitted(session) == []
    assert frames(session_table) == []


# -- who is lost -------------------------------------------------------------------------------------------------


def test_a_node_is_lost_once_by_silence_or_by_its_connection():
    session_table = SessionTable()
    silent, cut = entered(session_table), entered(session_table, TWO, "m")
    session_table.unreachable(b"r" + TWO)
    session_table.unreachable(b"r" + TWO)
    session_table.unreachable(b"unknown")
    assert session_table.lost

    assert session_table.expire(10.0 + DEFAULT_TIMING.silence) == [cut]
    assert session_table.expire(10.0 + DEFAULT_TIMING.silence + 0.1) == [silent]
    assert session_table.expire(99.0) == []
    assert (cut.lost, silent.lost) == ("its connection is gone", "silent for 3.1 s")
    assert not session_table.lost


def test_hello_is_a_sign_of_life_until_the_session_has_begun():
    session_table = SessionTable()
    session = entered(session_table)
    hello = join_frame([pack_envelope(Kind.HELLO)])
    arrive(session_table, b"r" + ONE, hello, 12.0)
    assert session_table.expire(12.0 + DEFAULT_TIMING.silence) == []

    beat = join_frame([pack_envelope(Kind.HEARTBEAT)], session.channel.session, 1)
    arrive(session_table, b"t" + ONE, beat, 13.0)
    arrive(session_table, b"r" + ONE, hello, 15.9)  # its node has heard nothing of us

    assert session_table.expire(13.0 + DEFAULT_TIMING.silence) == []
    assert session_table.expire(13.0 + DEFAULT_TIMING.silence + 0.1) == [session]


def test_a_node_whose_connection_broke_has_some_time_to_come_back():
    session_table = SessionTable(timing=Timing(patience=2.0))
    session = entered(session_table)
    send(session_table, session, b"a")
    ((receiver, _),) = session_table.outgoing()
    session_table.unreachable(receiver)
    send(session_table, session, b"b")

    assert outgoing(session_table) == []  # nobody is there
    assert session_table.expire(11.9) == []
    arrive(session_table, b"t" + ONE, join_frame([], session.channel.session), 11.9)

    assert [envelope for _, frame in outgoing(session_table) for envelope in frame] == [b"a", b"b"]
    assert session_table.expire(13.0) == []
    assert not session.lost


def test_a_node_that_does_not_come_back_in_time_is_lost():
    session_table = SessionTable(timing=Timing(patience=2.0))
    session = entered(session_table)
    arrive(session_table, b"t" + ONE, join_frame([], session.channel.session), 10.5)
    for _ in range(2):
        session_table.unreachable(session.receiver)

    assert session_table.expire(12.4) == []
    assert session_table.expire(12.5) == [session]
    assert session.lost == "its connection is gone"
    assert session_table.expire(12.6) == []


def test_the_capability_of_an_envelope_is_read_from_its_header():
    assert capability_of(pack_envelope(Kind.RESPONSE, capability=b"x.y")) == b"x.y"


def test_an_address_is_what_its_transport_says_and_one_may_serve_both_ways() -> None:
    at = Address(b"the one place where this node is")
    session_table = SessionTable(
        addressing=lambda address: NodeAddress(ONE, address, address) if address == at else None
    )
    session = session_table.open(at, "n", {}, 1.0)
    (handled,) = arrive(session_table, at, join_frame([b"a"]), 2.0)
    send(session_table, session, b"b")

    assert handled == (session, b"a")
    assert outgoing(session_table) == [(at, [b"b"])]
    with pytest.raises(NodeRefused, match="where no node listens"):
        session_table.open(Address(b"r" + ONE), "m", {}, 1.0)
    session_table.unreachable(at)
    assert session_table.expire(3.0) == [session]
    assert session_table.by_address == {}


def test_what_was_kept_for_a_node_is_its_keys_once_that_is_known() -> None:
    session_table = SessionTable(owner=lambda _address: "key")
    kept = [session_table.account("n"), session_table.account("n", of_events=True)]
    for account in kept:
        account.add(100)
    key = session_table.account("key")
    key.add(1)

    session = entered(session_table)

    assert session.account is key
    assert (key.size, session_table.account("key", of_events=True).size) == (101, 100)
    for account in kept:
        account.add(-100)
    assert (key.size, session_table.account("key", of_events=True).size) == (1, 0)
    assert session_table.account("n").size == 0
