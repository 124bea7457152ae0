"""Turns: whoever costs much waits for the others, nothing is lost, and nobody is held back on an idle broker."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ether_broker.timing import DEFAULT_TIMING
from ether_broker.transport.address import INCARNATION
from ether_broker.transport.sessions import session_table as router_module
from ether_broker.transport.sessions import turns
from ether_broker.transport.sessions.cost import DEAREST, PER_8_KIB, PRICES
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.transport.sessions.turns import DEAR, QUANTUM, STEP
from ether_broker.wire.frame import Kind, join_frame, pack_envelope, read_frame

HONEST = 0
SPENT = 300
"""Points that handling may turn out to cost beside what can be seen."""
BOUND = 3 * QUANTUM + DEAR + SPENT
"""Points that each other session may be served before an honest one."""
BOUND_OF_ALL = 2 * (2 * DEAREST + SPENT)
"""Points of all their dear envelopes that may be so."""


def enter(session_table: SessionTable, number: int) -> Session:
    return session_table.open(b"r" + b"%16d" % number, f"n{number}", {}, 0.0)


class Peer:
    """A session, what was put for it and what of that was handled."""

    def __init__(self, session_table: SessionTable, number: int) -> None:
        self.session_table = session_table
        self.session = enter(session_table, number)
        self.number = 0
        self.said = 0
        self.handled: list[int] = []
        self.spends = 0

    def say(self, *sizes: tuple[int, int]) -> None:
        """Send one numbered frame of envelopes: (kind, bytes of the body)."""
        self.number += 1
        envelopes = [
            pack_envelope(kind, request_id=(self.said + place + 1).to_bytes(16), source=b"a", body=b"\x90" * size)
            for place, (kind, size) in enumerate(sizes)
        ]
        self.said += len(sizes)
        self.session_table.arrive(
            b"t" + self.session.incarnation, join_frame(envelopes, self.session.channel.session, self.number), 1.0
        )


class Fairness(RuleBasedStateMachine):
    """An honest session among others that send whatever they like."""

    @initialize(others=st.integers(1, 6))
    def some_sessions(self, others: int) -> None:
        self.session_table = SessionTable()
        self.peers = [Peer(self.session_table, number) for number in range(others + 1)]
        self.by_session = {peer.session: peer for peer in self.peers}
        self.waited: int | None = None
        """Points of others that were handled since the honest one's only frame came; None while it waits for nothing."""
        self.steps = 0
        self.strangers = 0
        """Frames that peers without a session have sent."""
        self.late: list[Session] = []
        """Of them, who was let in."""

    @rule(
        who=st.integers(0, 3), kinds=st.lists(st.sampled_from([Kind.HELLO, Kind.HEARTBEAT]), min_size=1, max_size=4),
        size=st.sampled_from([0, 6_000]),
    )  # fmt: skip
    def strangers_say(self, who: int, kinds: list[Kind], size: int) -> None:
        for kind in kinds:
            body = b"\x90" * size if kind is Kind.HEARTBEAT else b""
            self.session_table.arrive(b"r%16d" % (1_000 + who), join_frame([pack_envelope(kind, body=body)]), 1.0)
            self.strangers += 1

    @rule(
        who=st.integers(1, 6), frames=st.integers(1, 40), spends=st.sampled_from([0, 0, 1, SPENT]),
        sizes=st.lists(
            st.tuples(
                st.sampled_from([Kind.CANCEL, Kind.RESPONSE, Kind.REGISTER, Kind.HEARTBEAT, 77]),
                st.sampled_from([0, 10, 1_000, 9_000, 40_000]),
            ),
            max_size=12,
        ),
    )  # fmt: skip
    def another_sends(self, who: int, frames: int, spends: int, sizes: list[tuple[int, int]]) -> None:
        peer = self.peers[1 + (who - 1) % (len(self.peers) - 1)]
        peer.spends = spends
        for _ in range(frames):
            peer.say(*sizes)

    @rule()
    def the_honest_one_asks(self) -> None:
        if self.waited is None:
            self.peers[HONEST].say((Kind.DELEGATION, 500))
            self.waited = self.steps = 0

    @rule(count=st.integers(1, 8))
    def the_broker_steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def _step(self) -> None:
        points = last = 0
        self.steps += 1
        had_waiting = self.session_table.turns.waiting
        for queue, envelope in self.session_table.turns.take():
            cost = PRICES[envelope[0]] + (len(envelope) >> PER_8_KIB)
            if queue.session is None or queue.session in self.late:
                if envelope[0] == Kind.HELLO and queue.session is None:
                    self.late.append(self.session_table.open(queue.address, f"late{len(self.late)}", {}, 0.0))
                last = cost
                points += cost
                if self.waited is not None:
                    self.waited += cost
                continue
            peer = self.by_session[queue.session]
            peer.handled.append(int.from_bytes(read_id(envelope)))
            queue.spend(peer.spends)
            last = cost + peer.spends
            points += last
            if peer is self.peers[HONEST]:
                self.waited = None
            elif self.waited is not None:
                self.waited += last
        assert points <= STEP + last + QUANTUM, "a step has its end"
        if had_waiting and self.session_table.turns.waiting:
            frames = 3 * self.strangers + sum(peer.number for peer in self.peers)
            assert points + frames >= STEP, "nothing waits for nothing"

    @invariant()
    def each_queue_in_which_something_waits_has_one_place(self) -> None:
        if hasattr(self, "session_table"):
            places = [id(queue) for queue in self.session_table.turns.queues()]
            queues = [session.input for session in self.session_table.sessions]
            assert sorted(places) == sorted(set(places))
            assert [id(queue) in places for queue in queues] == [queue.is_waiting for queue in queues]

    @invariant()
    def the_honest_one_waits_for_a_bounded_share_of_each_other(self) -> None:
        if getattr(self, "waited", None) is not None:
            assert self.waited <= (len(self.peers) + len(self.late)) * BOUND + BOUND_OF_ALL

    @invariant()
    def each_sessions_envelopes_are_handled_in_order_and_once(self) -> None:
        for peer in getattr(self, "peers", []):
            assert peer.handled == list(range(1, len(peer.handled) + 1))

    def teardown(self) -> None:
        if not hasattr(self, "peers"):
            return
        while self.session_table.turns.waiting:
            self._step()
        assert self.waited is None
        for peer in self.peers:
            assert len(peer.handled) == peer.said, "something was lost"
            assert self.session_table.turns.handled.get(peer.session, 0) == peer.number == peer.session.channel.received
        assert self.session_table.turns.size == 0


TestFairness = Fairness.TestCase
TestFairness.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def handled(session_table: SessionTable) -> list[str]:
    """Whose envelopes one step handles."""
    return [queue.session.node if queue.session else "" for queue, _ in session_table.turns.take()]


def read_id(envelope: bytes) -> bytes:
    return envelope[16:32]


def test_one_that_is_alone_is_served_for_whole_steps_whatever_it_has_cost():
    session_table = SessionTable()
    alone = Peer(session_table, 1)
    for _ in range(10):
        alone.say(*[(Kind.CANCEL, 0)] * 200)
    alone.session.input.spend(100_000)

    taken = []
    while session_table.turns.waiting:
        taken.append(len(handled(session_table)))
    assert sum(taken) == 2_000
    assert all(STEP - 40 <= count <= STEP + QUANTUM for count in taken[:-1])


def test_what_handling_turned_out_to_cost_is_waited_for_by_who_caused_it():
    session_table = SessionTable()
    dear, cheap = Peer(session_table, 1), Peer(session_table, 2)
    for _ in range(20):
        dear.say((Kind.DELEGATION, 0))
        cheap.say((Kind.DELEGATION, 0))
    order = []
    for queue, _ in session_table.turns.take():
        order.append(queue)
        if queue is dear.session.input:
            queue.spend(100)

    assert order[0] is dear.session.input
    assert order[1:12] == [cheap.session.input] * 11


def test_who_comes_new_waits_for_nobodys_debt():
    session_table = SessionTable()
    deep, busy, fresh = Peer(session_table, 1), Peer(session_table, 2), Peer(session_table, 3)
    for peer in (deep, busy):
        for _ in range(100):
            peer.say(*[(Kind.DELEGATION, 0)] * 10)
    for queue, _ in session_table.turns.take():
        if queue is deep.session.input:
            queue.spend(100_000)
    handled(session_table)
    fresh.say((Kind.DELEGATION, 0))

    assert "n3" in handled(session_table)[:QUANTUM]


def test_whoever_comes_first_is_first_when_nothing_waited():
    session_table = SessionTable()
    one, two = Peer(session_table, 1), Peer(session_table, 2)
    one.say(*[(Kind.DELEGATION, 0)] * 9)
    assert handled(session_table) == ["n1"] * 9
    one.say((Kind.DELEGATION, 0))
    two.say((Kind.DELEGATION, 0))

    assert handled(session_table) == ["n1", "n2"]


def test_a_frame_is_acknowledged_when_its_last_envelope_was_handled():
    session_table = SessionTable()
    peer = Peer(session_table, 1)
    peer.say(*[(Kind.CANCEL, 0)] * 900)
    peer.say((Kind.CANCEL, 0))
    for _ in range(3):
        handled(session_table)
        session_table.end_step(1)
        session_table.release(1)
        assert peer.session.channel.committed == 0
    handled(session_table)
    session_table.end_step(1)
    session_table.release(1)

    assert peer.session.channel.committed == 2


def test_what_waits_of_a_node_that_is_silent_or_cut_off_has_another_silence_to_be_handled():
    session_table = SessionTable()
    silent, cut, handled_one = Peer(session_table, 1), Peer(session_table, 2), Peer(session_table, 3)
    handled_one.say((Kind.CANCEL, 0))
    heard = handled_one.session.heard
    while session_table.turns.waiting:
        handled(session_table)
    for peer in (silent, cut):
        peer.say(*[(Kind.CANCEL, 0)] * 1_000)
    silence = DEFAULT_TIMING.silence

    def lost(after: float) -> set[str]:
        return {session.node for session in session_table.expire(heard + after)}

    assert lost(0.0) == set()
    session_table.unreachable(cut.session.receiver)
    assert lost(silence - 0.01) == set()
    assert lost(silence + 0.01) == {"n2", "n3"}, "the connection of n2 has been gone for that long"
    assert lost(2 * silence - 0.01) == set()
    assert lost(2 * silence + 0.01) == {"n1"}


def test_a_node_that_is_silent_or_cut_off_is_lost_as_soon_as_what_waits_of_it_was_handled():
    session_table = SessionTable()
    silent, cut = Peer(session_table, 1), Peer(session_table, 2)
    for peer in (silent, cut):
        peer.say(*[(Kind.CANCEL, 0)] * 1_000)
    session_table.unreachable(cut.session.receiver)
    while session_table.turns.waiting:
        handled(session_table)

    assert {session.node for session in session_table.expire(silent.session.heard)} == {"n2"}
    assert {session.node for session in session_table.expire(silent.session.heard + DEFAULT_TIMING.silence + 0.01)} == {
        "n1"
    }


def test_what_waits_of_a_lost_node_is_forgotten():
    session_table = SessionTable()
    peer = Peer(session_table, 1)
    peer.say(*[(Kind.CANCEL, 0)] * 1_000)
    taking = session_table.turns.take()
    next(taking)
    session_table.close(peer.session, "gone")

    assert list(taking) == []
    assert (session_table.turns.size, session_table.turns.waiting) == (0, [])


def test_a_peer_that_was_let_in_while_its_next_frame_waited_is_no_stranger_any_more():
    session_table = SessionTable()
    for kind in (Kind.HELLO, Kind.REGISTER):
        session_table.arrive(b"r" + b"1" * INCARNATION, join_frame([pack_envelope(kind)]), 1.0)
    seen = []
    for queue, envelope in session_table.turns.take():
        seen.append((queue.session is None, envelope[0]))
        if queue.session is None:
            session_table.open(queue.address, "n", {}, 1.0)

    assert seen == [(True, Kind.HELLO), (False, Kind.REGISTER)]


def test_strangers_of_one_key_share_one_queue_and_those_of_another_have_theirs():
    session_table = SessionTable(owner=lambda routing_id: routing_id[:1].decode())
    for number in range(5_000):
        session_table.arrive(b"a%16d" % number, b"junk", 1.0)
    session_table.arrive(b"b" * 17, join_frame([pack_envelope(Kind.HELLO)]), 1.0)

    assert session_table.refusals.by_reason["input_full"] > 3_000
    handled_ids = [queue.address for queue, _ in session_table.turns.take()]
    assert handled_ids == [b"b" * 17]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(Kind.REGISTER, 1_200), (Kind.REGISTER, 40_000), (Kind.RESUME, 40_000), (Kind.OBSERVE, 40_000), (77, 900_000)],
)
def test_what_costs_little_does_not_wait_for_the_dear_envelopes_of_all_others_and_those_are_handled_in_the_end(
    kind: Kind, size: int
) -> None:
    session_table = SessionTable()
    large = [Peer(session_table, number) for number in range(50)]
    quick = Peer(session_table, 99)
    for peer in large:
        peer.say((kind, size))

    order: list[str] = []
    for _ in range(600):
        quick.say((Kind.DELEGATION, 10))
        for queue, envelope in session_table.turns.take():
            assert queue.session is not None
            order.append("large" if envelope[0] == kind else "quick")
            queue.spend(900 if envelope[0] == kind else 0)

    assert order[:3] == ["large", "quick", "large"] or order[0] == "quick"
    places = [place for place, who in enumerate(order) if who == "quick"]
    assert max(later - earlier for earlier, later in pairwise(places)) <= 2
    assert order.count("large") == 50


def test_when_too_much_waits_in_all_the_longest_queue_loses_its_newest_which_come_again(monkeypatch):
    for module in (turns, router_module):
        monkeypatch.setattr(module, "MOST_WAITING", 1_000_000)
    session_table = SessionTable()
    long, short = Peer(session_table, 1), Peer(session_table, 2)
    short.say((Kind.DELEGATION, 1_000))
    frames = []
    for number in range(1, 13):
        frames.append(
            join_frame([pack_envelope(Kind.DELEGATION, body=bytes(90_000))], long.session.channel.session, number)
        )
        session_table.arrive(b"t" + long.session.incarnation, frames[-1], 1.0)

    assert session_table.refusals.by_reason == {"input_full": 1}
    assert session_table.turns.size <= 1_000_000
    kept = long.session.channel.received
    assert 4 <= kept <= 7
    while session_table.turns.waiting:
        handled(session_table)
    assert (session_table.turns.handled[long.session], session_table.turns.handled[short.session]) == (kept, 1)
    session_table.arrive(b"t" + long.session.incarnation, frames[-1], 2.0)
    assert [envelope[0] for _, frame in session_table.outgoing() for envelope in read_frame(frame).envelopes] == [
        Kind.RESEND
    ]
    for frame in frames[kept:]:
        session_table.arrive(b"t" + long.session.incarnation, frame, 2.0)
    while session_table.turns.waiting:
        handled(session_table)
    assert session_table.turns.handled[long.session] == 12


def test_when_too_much_waits_in_frames_that_are_held_whoever_sent_the_longest_is_cut_off(monkeypatch):
    monkeypatch.setattr(turns, "MAX_FRAME_BYTES", 100_000)
    for module in (turns, router_module):
        monkeypatch.setattr(module, "MOST_WAITING", 1_000_000)
    session_table = SessionTable()
    peers = [Peer(session_table, number) for number in range(1, 7)]

    for number, peer in enumerate(peers):
        peer.say((Kind.REGISTER, 0), (Kind.RESPONSE, 150_000 + number))
        step_holding(session_table, Kind.REGISTER, [])
    assert [bool(peer.session.lost) for peer in peers] == [False] * 6
    honest = Peer(session_table, 7)
    honest.say((Kind.DELEGATION, 110_000))

    assert session_table.turns.size <= 1_000_000
    assert [bool(peer.session.lost) for peer in (*peers, honest)] == [False] * 5 + [True, False]


def test_a_queue_takes_no_more_than_its_limit():
    session_table = SessionTable()
    session = enter(session_table, 1)
    session.input.limit = 1_000

    for size in (745, 744):
        body = bytes(size - len(join_frame([pack_envelope(Kind.DELEGATION)])))
        frame = join_frame([pack_envelope(Kind.DELEGATION, body=body)], session.channel.session, 1)
        assert len(frame) == size
        session_table.arrive(b"t" + session.incarnation, frame, 1.0)

    assert [queue.session for queue, _ in session_table.turns.take()] == [session]
    assert session_table.refused == 1


def step_holding(session_table: SessionTable, kind: Kind, free: list[bool]) -> list[tuple[str, int]]:
    """Who was given which envelope in one step; those of a kind are held until `free` has something in it."""
    given = []
    for queue, envelope in session_table.turns.take():
        assert queue.session is not None
        given.append((queue.session.node, int.from_bytes(read_id(envelope))))
        if envelope[0] == kind and not free:
            queue.block(envelope, lambda: bool(free))
    return given


def test_what_is_held_is_given_again_once_it_is_free_before_all_else_of_its_queue_and_others_go_on():
    session_table, free = SessionTable(), list[bool]()
    waits, other = Peer(session_table, 1), Peer(session_table, 2)
    waits.say((Kind.CANCEL, 0), (Kind.REGISTER, 0), (Kind.CANCEL, 0))
    waits.say((Kind.CANCEL, 0))
    other.say((Kind.CANCEL, 0))

    assert step_holding(session_table, Kind.REGISTER, free) == [("n1", 1), ("n1", 2), ("n2", 1)]
    other.say((Kind.CANCEL, 0))
    assert step_holding(session_table, Kind.REGISTER, free) == [("n2", 2)]
    assert (
        session_table.turns.waiting,
        session_table.turns.handled.get(waits.session, 0),
        waits.session.input.is_waiting,
    ) == (
        [],
        0,
        True,
    )
    free.append(True)
    assert step_holding(session_table, Kind.REGISTER, free) == [("n1", 2), ("n1", 3), ("n1", 4)]
    assert (
        session_table.turns.handled.get(waits.session, 0),
        session_table.turns.blocked,
        session_table.turns.size,
    ) == (
        2,
        [],
        0,
    )


def test_who_was_held_has_saved_no_turns_meanwhile():
    session_table, free = SessionTable(), list[bool]()
    waits, other = Peer(session_table, 1), Peer(session_table, 2)
    waits.say((Kind.REGISTER, 0), *[(Kind.CANCEL, 0)] * 1_000)
    assert step_holding(session_table, Kind.REGISTER, free) == [("n1", 1)]
    for _ in range(4):
        other.say(*[(Kind.CANCEL, 0)] * 1_000)
    for _ in range(8):
        assert {node for node, _ in step_holding(session_table, Kind.REGISTER, free)} == {"n2"}
    free.append(True)

    given = [node for _ in range(3) for node, _ in step_holding(session_table, Kind.REGISTER, free)]
    assert 0.4 < given.count("n1") / len(given) < 0.6


def test_a_session_that_ends_while_it_is_held_leaves_nothing():
    session_table = SessionTable()
    waits = Peer(session_table, 1)
    waits.say((Kind.REGISTER, 0), (Kind.CANCEL, 0))
    assert step_holding(session_table, Kind.REGISTER, []) == [("n1", 1)]
    session_table.close(waits.session, "its connection is gone")

    assert step_holding(session_table, Kind.REGISTER, []) == []
    assert (session_table.turns.waiting, session_table.turns.blocked, session_table.turns.size) == ([], [], 0)


@pytest.mark.parametrize("size", [0, 400, 1_000, 40_000])
def test_whoever_waited_with_a_dear_envelope_is_owed_nothing_for_that(size: int) -> None:
    """Many wait with one beside one that works all the time, and have cheap ones behind it."""
    session_table = SessionTable()
    busy, honest = Peer(session_table, 100), Peer(session_table, 101)
    others = [Peer(session_table, number) for number in range(40)]
    for peer in others:
        peer.say((Kind.REGISTER, size))
        for _ in range(30):
            peer.say(*[(Kind.DELEGATION, 0)] * 100)

    longest = waited = 0
    for _ in range(1_500):
        if not busy.session.input.frames:
            busy.say(*[(Kind.DELEGATION, 0)] * 200)
        if not honest.session.input.is_waiting:
            honest.say((Kind.DELEGATION, 0))
            waited = 0
        for queue, envelope in session_table.turns.take():
            waited = 0 if queue is honest.session.input else waited + PRICES[envelope[0]]
            longest = max(longest, waited)

    assert longest <= 42 * (2 * QUANTUM + DEAR)
    assert all(peer.session.input.tag for peer in others)


def test_a_dear_envelope_waits_for_one_of_each_other_that_sends_such_and_a_turn_of_the_rest_between_two() -> None:
    session_table, count = SessionTable(), 10
    dear = [Peer(session_table, number) for number in range(count)]
    busy = [Peer(session_table, 100 + number) for number in range(count)]
    honest = Peer(session_table, 200)
    for peer in dear:
        peer.say((Kind.REGISTER, 1_000))
    for peer in busy:
        for _ in range(20):
            peer.say(*[(Kind.DELEGATION, 0)] * 200)
    honest.say((Kind.REGISTER, 1_000))

    waited = 0
    while honest.session.input.is_waiting:
        for queue, envelope in session_table.turns.take():
            if envelope[0] == Kind.REGISTER:
                queue.spend(SPENT)
            waited += PRICES[envelope[0]] + SPENT * (envelope[0] == Kind.REGISTER)

    assert waited < 2 * (count + 1) * (SPENT + count * QUANTUM)
