"""One end of a session, and two of them over a wire that drops, doubles, delays and reorders."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_broker.transport.channel import UNTOLD, Channel, receive
from ether_broker.wire.frame import PREAMBLE, Kind, join_frame, pack_envelope, read_frame

SESSION = 7
LENGTH = 4
"""Bytes of an envelope's place in the table of lengths."""
RESEND = pack_envelope(Kind.RESEND)


def opened() -> Channel:
    return Channel(SESSION)


def packed(channel: Channel, *envelopes: bytes) -> list[bytes]:
    """A frame for each of them, as taken by the socket."""
    frames = [channel.pack(deque([envelope]))[0] for envelope in envelopes]
    channel.sent = channel.last
    return frames


# -- sending -----------------------------------------------------------------------------------------------------


def test_frames_are_numbered_from_one_and_say_what_is_settled():
    channel = opened()
    channel.committed = 4

    first, second = packed(channel, b"a", b"b")

    assert read_frame(first) == (SESSION, 1, 4, [b"a"])
    assert read_frame(second) == (SESSION, 2, 4, [b"b"])
    assert channel.last == 2


def test_what_is_packed_is_kept_until_it_is_acknowledged():
    channel = opened()
    frames = packed(channel, b"a", b"b", b"c")

    assert channel.retained_bytes == sum(len(frame) - LENGTH for frame in frames)
    channel.acknowledge(2)
    assert channel.unacknowledged() == [b"c"]
    assert channel.retained_bytes == len(frames[2]) - LENGTH
    channel.acknowledge(1)  # an older one that was under way for longer
    assert channel.unacknowledged() == [b"c"]
    channel.acknowledge(3)
    assert (channel.unacknowledged(), channel.retained_bytes) == ([], 0)


@pytest.mark.parametrize("after", range(3))
def test_a_send_that_a_signal_interrupts_loses_nothing_and_keeps_the_count_of_bytes(after: int):
    class Interrupted(deque[bytes]):
        def popleft(self) -> bytes:
            if len(self) == 3 - after and not raised:
                raised.append(True)
                raise KeyboardInterrupt
            return super().popleft()

    raised: list[bool] = []
    channel = opened()
    waiting = Interrupted([b"a", b"b", b"c"])
    with pytest.raises(KeyboardInterrupt):
        channel.pack(waiting)
    while waiting:
        channel.pack(waiting)

    assert set(channel.unacknowledged()) == {b"a", b"b", b"c"}
    assert channel.retained_bytes == sum(
        PREAMBLE.size + sum(map(len, read_frame(frame).envelopes)) for _, frame in channel.unsent()
    )
    channel.acknowledge(channel.last)
    assert channel.retained_bytes == 0


def test_an_acknowledgement_of_what_was_never_sent_says_nothing():
    channel = opened()
    packed(channel, b"a")

    channel.acknowledge(2)

    assert channel.unacknowledged() == [b"a"]


def test_what_the_socket_did_not_take_is_unsent_until_it_does():
    channel = opened()
    packed(channel, b"a")
    frame = channel.pack(deque([b"b"]))[0]

    assert channel.sent < channel.last
    assert channel.unsent() == [(2, frame)]
    channel.sent = 2
    assert channel.sent == channel.last
    assert channel.unsent() == []


def test_rewinding_makes_all_that_is_kept_unsent_and_only_that():
    channel = opened()
    frames = packed(channel, b"a", b"b", b"c")
    channel.acknowledge(1)

    channel.rewind()

    assert channel.unsent() == [(2, frames[1]), (3, frames[2])]
    channel.acknowledge(2)
    assert channel.unsent() == [(3, frames[2])]
    channel.acknowledge(3)
    channel.rewind()
    assert channel.sent == channel.last


# -- receiving ---------------------------------------------------------------------------------------------------


def test_a_frame_is_taken_in_its_turn_and_once():
    node, frames = Node(), [join_frame([b"%d" % number], SESSION, number) for number in range(4)]

    assert [node.hear(frames[number]) for number in (1, 2, 2, 1, 3)] == [None] * 5
    assert (node.taken, node.channel.received) == ([b"1", b"2", b"3"], 3)


def test_a_gap_is_asked_for_once_and_again_when_nothing_comes():
    channel = opened()

    gaps = ((2, 1.0), (3, 1.1), (4, 1.2), (5, 1.3))
    assert [channel.misses(number, now) for number, now in gaps] == [True, False, False, True]
    channel.received = 1
    assert not channel.misses(1, 1.31)
    assert channel.misses(3, 1.32)  # another gap


def test_an_acknowledgement_is_owed_for_what_is_settled_and_not_told():
    channel = opened()
    channel.received = channel.committed = UNTOLD - 1
    assert channel.committed - channel.told < UNTOLD
    channel.committed = UNTOLD
    assert channel.committed - channel.told >= UNTOLD

    assert read_frame(channel.acknowledgement()) == (SESSION, 0, UNTOLD, [])
    assert channel.committed - channel.told < UNTOLD
    channel.committed = 2 * UNTOLD
    assert read_frame(channel.ask()) == (SESSION, 0, 2 * UNTOLD, [RESEND])
    assert channel.committed - channel.told < UNTOLD
    channel.committed = 3 * UNTOLD
    channel.pack(deque([b"rides along"]))
    assert channel.committed - channel.told < UNTOLD


# -- a node's end ------------------------------------------------------------------------------------------------


class Node:
    """What `receive` is given."""

    def __init__(self) -> None:
        self.channel = opened()
        self.taken: list[bytes] = []
        self.rewinds = 0

    def hear(self, message: bytes, now: float = 0.0) -> bytes | None:
        return receive(self.channel, message, now, self.taken.extend, self._rewind)

    def _rewind(self) -> None:
        self.rewinds += 1


def test_a_node_takes_what_is_in_turn_and_asks_for_what_is_missing():
    node = Node()

    assert node.hear(join_frame([b"a"], SESSION, 1)) is None
    assert node.hear(join_frame([b"a"], SESSION, 1)) is None
    answer = node.hear(join_frame([b"c"], SESSION, 3))

    assert node.taken == [b"a"]
    assert answer is not None
    assert read_frame(answer) == (SESSION, 0, 1, [RESEND])


def test_a_node_takes_what_is_outside_the_count_as_it_comes():
    node = Node()

    node.hear(join_frame([b"welcome"]))
    node.hear(join_frame([b"error"], SESSION))

    assert node.taken == [b"welcome", b"error"]
    assert node.channel.received == 0


def test_a_node_sends_again_when_it_is_asked():
    node = Node()
    packed(node.channel, b"a", b"b")

    node.hear(join_frame([RESEND], SESSION, 0, 1))

    assert (node.rewinds, node.taken) == (1, [])
    assert node.channel.unacknowledged() == [b"b"]


def test_what_comes_from_an_earlier_session_counts_for_nothing():
    node = Node()
    packed(node.channel, b"a")

    for number in (0, 1):
        assert node.hear(join_frame([b"old"], SESSION + 1, number, 1)) is None

    assert node.taken == []
    assert node.channel.unacknowledged() == [b"a"]
    assert node.channel.received == 0


def test_a_node_acknowledges_by_itself_when_it_has_nothing_to_say():
    node = Node()

    answers = [node.hear(join_frame([b"x"], SESSION, number)) for number in range(1, 2 * UNTOLD + 1)]

    told = [read_frame(answer).acknowledged for answer in answers if answer is not None]
    assert told == [UNTOLD, 2 * UNTOLD]


def test_a_frame_that_breaks_its_receiver_is_not_acknowledged_by_itself_but_with_the_next():
    node = Node()

    def fail(_envelopes: list[bytes]) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        receive(node.channel, join_frame([b"bad"], SESSION, 1), 0.0, fail, node._rewind)
    assert node.channel.committed == 0

    node.hear(join_frame([b"good"], SESSION, 2))
    assert (node.taken, node.channel.committed) == ([b"good"], 2)


# -- two of them over a bad wire ---------------------------------------------------------------------------------


class End:
    """One end, with a shell that sends what it can and settles when it is told."""

    def __init__(self) -> None:
        self.channel = opened()
        self.other: End
        self.wire: list[bytes] = []
        """What is under way to this end."""
        self.said: list[bytes] = []
        self.heard: list[bytes] = []
        self.is_blocked = False

    def say(self, envelopes: list[bytes]) -> None:
        self.said += envelopes
        self.channel.pack(deque(envelopes))
        self.push()

    def push(self) -> None:
        for number, frame in self.channel.unsent():
            if self.is_blocked:
                return
            self.other.wire.append(frame)
            self.channel.sent = number

    def hear(self, message: bytes, now: float) -> None:
        session, number, acknowledged, envelopes = read_frame(message)
        assert session == SESSION
        assert acknowledged <= self.other.channel.committed, "told before it was settled"
        self.channel.acknowledge(acknowledged)
        if not number:
            if envelopes:
                assert envelopes == [RESEND]
                self.channel.rewind()
                self.push()
            return
        if number == self.channel.received + 1:
            self.channel.received = number
            self.heard += envelopes
        elif self.channel.misses(number, now):
            self.other.wire.append(self.channel.ask())

    def settle(self, count: int) -> None:
        channel = self.channel
        channel.committed = min(channel.received, channel.committed + count)
        if channel.committed - channel.told >= UNTOLD:
            self.other.wire.append(channel.acknowledgement())


class Wire(RuleBasedStateMachine):
    """Whatever the wire does, what arrives is what was said, in order and once; a fair wire brings all of it."""

    @initialize()
    def two_ends(self) -> None:
        self.ends = End(), End()
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]
        self.now = 0.0
        self.next = 0

    def end(self, which: bool) -> End:
        return self.ends[which]

    @rule(which=st.booleans(), count=st.integers(0, 3))
    def it_says_something(self, which: bool, count: int) -> None:
        envelopes = [b"%d" % (self.next + index) for index in range(count)]
        self.next += count
        self.end(which).say(envelopes)

    @rule(which=st.booleans(), data=st.data())
    def something_arrives(self, which: bool, data: st.DataObject) -> None:
        end = self.end(which)
        if end.wire:
            end.hear(end.wire.pop(data.draw(st.integers(0, len(end.wire) - 1))), self.now)

    @rule(which=st.booleans(), data=st.data())
    def something_is_doubled(self, which: bool, data: st.DataObject) -> None:
        wire = self.end(which).wire
        if wire:
            wire.append(data.draw(st.sampled_from(wire)))

    @rule(which=st.booleans(), data=st.data())
    def something_is_lost(self, which: bool, data: st.DataObject) -> None:
        wire = self.end(which).wire
        if wire:
            wire.pop(data.draw(st.integers(0, len(wire) - 1)))

    @rule(which=st.booleans())
    def everything_under_way_is_lost(self, which: bool) -> None:
        self.end(which).wire.clear()

    @rule(which=st.booleans(), count=st.integers(1, 40))
    def it_settles_some(self, which: bool, count: int) -> None:
        self.end(which).settle(count)

    @rule(which=st.booleans())
    def it_rewinds_unasked(self, which: bool) -> None:
        self.end(which).channel.rewind()
        self.end(which).push()

    @rule(which=st.booleans())
    def its_socket_is_full_or_free_again(self, which: bool) -> None:
        end = self.end(which)
        end.is_blocked = not end.is_blocked
        end.push()

    @rule(seconds=st.sampled_from([0.01, 0.3]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.next)
    @rule()
    def the_wire_is_fair(self) -> None:
        """Everything arrives in order from now on; each end says a word now and then, as with heartbeats."""
        for end in self.ends:
            end.is_blocked = False
        for _ in range(4):
            self.now += 1.0
            for end in self.ends:
                end.settle(1000)
                end.say([b"beat"])
            while any(end.wire for end in self.ends):
                for end in self.ends:
                    while end.wire:
                        end.hear(end.wire.pop(0), self.now)
        for end in self.ends:
            assert end.heard == end.other.said
            end.settle(1000)
            end.other.channel.acknowledge(end.channel.committed)
        for end in self.ends:
            assert (end.channel.retained_bytes, end.channel.unacknowledged()) == (0, [])
            assert end.channel.sent == end.channel.last

    @invariant()
    def what_was_heard_was_said_in_that_order_and_once(self) -> None:
        for end in self.ends:
            assert end.heard == end.other.said[: len(end.heard)]
            channel = end.channel
            assert channel.committed <= channel.received <= end.other.channel.last
            assert channel.sent <= channel.last

    @invariant()
    def what_is_kept_is_what_the_other_has_not_settled_or_not_told(self) -> None:
        for end in self.ends:
            kept = end.channel.unacknowledged()
            assert kept == end.said[len(end.said) - len(kept) :]
            assert len(end.said) - len(kept) <= len(end.other.heard), "forgotten before it was heard"
            assert bool(kept) <= bool(end.channel.retained_bytes)


TestWire = Wire.TestCase
TestWire.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_what_the_broker_says_it_has_is_not_astray_though_it_is_not_acknowledged():
    node, broker = Channel(7), Channel(7)
    for envelope in (b"one", b"two"):
        broker.received = read_frame(node.pack(deque([envelope]))[0]).number
    node.pack(deque([b"three"]))
    assert node.astray == 1

    receive(node, broker.heartbeat(12.5), 0.0, lambda _envelopes: None, lambda: None)

    assert (node.taken, node.astray, node.first) == (2, 3, 1)
    broker.received = 3
    receive(node, broker.heartbeat(13.5), 0.0, lambda _envelopes: None, lambda: None)
    assert (node.astray, node.first) == (0, 1)

    broker.committed = broker.received
    receive(node, broker.heartbeat(14.5), 0.0, lambda _envelopes: None, lambda: None)
    assert (node.astray, node.first) == (0, 0)


def test_the_last_frames_before_a_silence_are_asked_for_when_they_were_lost():
    node, broker = Channel(7), Channel(7)
    receive(node, broker.pack(deque([b"one"]))[0], 0.0, lambda _envelopes: None, lambda: None)
    lost = [broker.pack(deque([b"two"]))[0], broker.pack(deque([b"three"]))[0]]
    broker.sent = broker.last

    asked = receive(node, broker.heartbeat(12.5), 0.0, lambda _envelopes: None, lambda: None)
    again = receive(node, broker.heartbeat(12.5), 0.1, lambda _envelopes: None, lambda: None)

    assert asked is not None
    assert (read_frame(asked).envelopes, again) == ([pack_envelope(Kind.RESEND)], None)
    for frame in lost:
        receive(node, frame, 0.2, lambda _envelopes: None, lambda: None)
    assert receive(node, broker.heartbeat(13.5), 1.0, lambda _envelopes: None, lambda: None) is None


def test_a_frame_that_waits_for_the_disk_is_not_asked_for():
    node, broker = Channel(7), Channel(7)
    broker.pack(deque([b"sealed"]))[0]

    assert receive(node, broker.heartbeat(12.5), 0.0, lambda _envelopes: None, lambda: None) is None
