from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.errors import MalformedFrame
from ether_broker.payload import unpack
from ether_broker.router import INCARNATION, SILENCE, Router, Session, topic_of
from ether_broker.wire import BATCH, Kind, join_frame, pack_envelope, read_frame, read_header

ONE, TWO = b"1" * INCARNATION, b"2" * INCARNATION


def entered(router: Router, incarnation: bytes = ONE, node: str = "n", now: float = 10.0) -> Session:
    return router.open(b"r" + incarnation, node, {}, now)


def send(router: Router, session: Session, *envelopes: bytes) -> None:
    """Send envelopes in a step whose journal entry is committed."""
    for envelope in envelopes:
        router.send(session, envelope)
    router.seal(1)
    router.release(1)


def outgoing(router: Router) -> list[tuple[bytes, list[bytes]]]:
    return [(routing_id, read_frame(frame).envelopes) for routing_id, frame in router.outgoing()]


def error_of(envelope: bytes) -> str:
    header = read_header(envelope)
    assert header.kind == Kind.ERROR
    return unpack(envelope[header.body :])["code"]


# -- who is who --------------------------------------------------------------------------------------------------


def test_a_node_is_known_by_both_of_its_routing_ids():
    router = Router()
    session = entered(router)
    frame = join_frame([b"one", b"two"])

    assert router.arrive(b"r" + ONE, frame, 11.0) == (session, [b"one", b"two"])
    assert router.arrive(b"t" + ONE, frame, 12.0) == (session, [b"one", b"two"])
    assert session.heard == 12.0
    assert router.sessions == [session]


def test_a_peer_that_has_not_entered_has_no_session():
    router = Router()

    assert router.arrive(b"t" + ONE, join_frame([b"one"]), 1.0) == (None, [b"one"])


@pytest.mark.parametrize("routing_id", [b"t" + ONE, b"r", b"r" + ONE[:-1], b"r" + ONE + b"x", b"", b"x" + ONE])
def test_only_a_listening_socket_with_a_whole_incarnation_enters(routing_id: bytes):
    with pytest.raises(ValueError, match="HELLO came on routing id"):
        Router().open(routing_id, "n", {}, 1.0)


def test_entering_twice_is_once_and_a_name_belongs_to_one_incarnation():
    router = Router()
    session = entered(router)

    assert entered(router) is session
    with pytest.raises(ValueError, match="choose another name"):
        entered(router, TWO)


def test_a_name_is_free_when_its_node_drains_or_is_lost():
    router = Router()
    old = entered(router)
    old.draining = True

    new = entered(router, TWO)
    assert router.sessions == [new]
    router.close(new, "gone")
    newest = entered(router)

    assert router.sessions == [newest]
    assert [session.lost for session in router.expire(10.0)] == ["it left", "gone"]


# -- what is no frame --------------------------------------------------------------------------------------------


@given(st.binary(max_size=40), st.binary(max_size=60))
def test_whatever_arrives_is_taken_or_counted_and_answered(routing_id: bytes, message: bytes):
    router = Router()
    session = entered(router)

    found, envelopes = router.arrive(routing_id, message, 20.0)

    assert found is None
    if envelopes or message[:4] == b"ETHR":
        return
    assert (router.refused, session.heard) == (1, 10.0)
    ((receiver, (envelope,)),) = outgoing(router)
    assert receiver == b"r" + routing_id[1:]
    assert error_of(envelope) == MalformedFrame.code


def test_a_malformed_message_of_a_node_is_no_sign_of_life():
    router = Router()
    session = entered(router)

    assert router.arrive(b"t" + ONE, b"junk", 99.0) == (session, [])
    assert session.heard == 10.0


def test_answers_to_strangers_are_bounded():
    router = Router()
    for _ in range(5_000):
        router.arrive(b"?" * 17, b"junk", 1.0)

    assert router.refused == 5_000
    assert len(outgoing(router)) == 1_000


# -- what waits --------------------------------------------------------------------------------------------------


def test_envelopes_for_a_node_ride_together_in_their_order():
    router = Router()
    session = entered(router)
    envelopes = [b"%d" % number for number in range(BATCH + 5)]
    send(router, session, *envelopes)

    frames = outgoing(router)

    assert [routing_id for routing_id, _ in frames] == [b"r" + ONE] * 2
    assert [len(parts) for _, parts in frames] == [BATCH, 5]
    assert [part for _, parts in frames for part in parts] == envelopes
    assert (session.outbox_bytes, outgoing(router)) == (0, [])


def test_each_node_gets_its_own():
    router = Router()
    one, two = entered(router), entered(router, TWO, "m")
    send(router, one, b"a")
    send(router, two, b"b")

    assert dict(outgoing(router)) == {b"r" + ONE: [b"a"], b"r" + TWO: [b"b"]}


def test_what_the_socket_had_no_room_for_goes_first_when_it_is_tried_again():
    router = Router()
    session = entered(router)
    send(router, session, b"a", b"b")
    for routing_id, frame in router.outgoing():
        router.undelivered(routing_id, frame)
    send(router, session, b"c")

    assert outgoing(router) == []
    router.retry()

    frames = [read_frame(frame) for _, frame in router.outgoing()]
    assert [(frame.number, frame.envelopes) for frame in frames] == [(1, [b"a", b"b"]), (2, [b"c"])]
    assert session.outbox_bytes == 0


def test_a_blocked_node_holds_up_no_other():
    router = Router()
    slow, quick = entered(router), entered(router, TWO, "m")
    send(router, slow, *(b"%d" % number for number in range(3 * BATCH)))
    send(router, quick, b"x")

    taken = []
    for routing_id, frame in router.outgoing():
        if routing_id == slow.receiver:
            router.undelivered(routing_id, frame)
        else:
            taken.append(routing_id)

    assert taken == [quick.receiver]
    assert slow.unacknowledged() == [b"%d" % number for number in range(3 * BATCH)]
    router.retry()
    assert [envelope for _, frame in outgoing(router) for envelope in frame] == slow.unacknowledged()


def test_a_node_that_does_not_read_is_lost_when_too_much_waits_for_it():
    router = Router()
    session = entered(router)
    session.blocked = True
    megabyte = bytes(1 << 20)
    for _ in range(128):
        send(router, session, megabyte)
    assert not session.lost
    send(router, session, b"x")

    assert "does not read" in session.lost
    assert router.sessions == []
    assert router.expire(10.0) == [session]
    assert outgoing(router) == []


def test_a_node_that_reads_and_acknowledges_nothing_is_lost_when_too_much_waits_for_that():
    router = Router()
    session = entered(router)
    megabyte = bytes(1 << 20)
    for _ in range(130):
        send(router, session, megabyte)
        outgoing(router)

    assert "does not read" in session.lost


def test_what_is_sent_to_a_lost_node_is_dropped():
    router = Router()
    session = entered(router)
    send(router, session, b"a")
    router.close(session, "gone")
    send(router, session, b"b")
    router.send_aside(session, b"c")
    router.undelivered(session.receiver, join_frame([b"a"]))
    router.retry()

    assert outgoing(router) == []


# -- who is lost -------------------------------------------------------------------------------------------------


def test_a_node_is_lost_once_by_silence_or_by_its_connection():
    router = Router()
    silent, cut = entered(router), entered(router, TWO, "m")
    router.unreachable(b"r" + TWO)
    router.unreachable(b"r" + TWO)
    router.unreachable(b"unknown")
    assert router.has_lost

    assert router.expire(10.0 + SILENCE) == [cut]
    assert router.expire(10.0 + SILENCE + 0.1) == [silent]
    assert router.expire(99.0) == []
    assert (cut.lost, silent.lost) == ("its connection is gone", "silent for 3.1 s")
    assert not router.has_lost


def test_the_topic_of_an_envelope_is_its_capability():
    assert topic_of(pack_envelope(Kind.RESPONSE, capability=b"x.y")) == b"x.y"
