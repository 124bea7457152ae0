"""One end of a session: frames are numbered both ways, kept until they are acknowledged, and sent again when missing. Sans-IO.

A transport may drop what its queues hold when a connection breaks, and say nothing. So the sender keeps each frame until the
other end has acknowledged its number, and the receiver takes them in order, each once:

    pack() ─► frame 7 ══► received = 7               in order: its envelopes count
    pack() ─► frame 8  ✕                             lost
    pack() ─► frame 9 ══► misses(9)                  a gap: dropped, and asked for
    rewind() ◄═════════════ RESEND, acknowledged 7
    unsent() ─► frames 8, 9 ══► received = 9

A frame is acknowledged when what it caused is committed: at a broker with a journal, in that (G2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from ether_broker.timing import DEFAULT_TIMING
from ether_broker.transport.heartbeat import BrokerHeartbeat
from ether_broker.wire.frame import (
    PREAMBLE,
    Frame,
    Kind,
    Message,
    join_frame,
    make_frame,
    make_next,
    make_next_parts,
    pack_envelope,
    read_envelopes,
    read_frame,
    read_preamble,
)

__all__ = ["JOINED", "PARTS", "UNTOLD", "Channel", "Framing", "receive"]

_M = TypeVar("_M", bound=Message)

UNTOLD: Final = 16
"""Committed frames after which an acknowledgement is sent by itself, when nothing else goes that way."""
_ASK_AGAIN: Final = 0.25
"""Seconds after which a missing frame is asked for once more."""
_HEARTBEAT_KIND: Final = int(Kind.HEARTBEAT)
_RESEND_KIND: Final = int(Kind.RESEND)
_RESEND: Final = pack_envelope(Kind.RESEND)


class Framing(NamedTuple, Generic[_M]):
    """The form of a transport's frames: bytes, or their parts."""

    make_next: Callable[[deque[bytes], int, int, int], tuple[_M, int, int]]
    """As `make_next`."""
    join: Callable[[Sequence[bytes], int, int, int], _M]
    """As `join_frame`."""


JOINED: Final = Framing(make_next, join_frame)
PARTS: Final = Framing(make_next_parts, make_frame)


class Channel(Generic[_M]):
    """One end of a session's numbered frames, sent and received.

    Sending (`pack`, `unsent`, `rewind`) and receiving (`received`, `misses`) may be in two threads: each touches its own
    half, and an acknowledgement that is noted while a frame is packed is at worst noted one frame later.

    Args:
        session: the session's id.
        max_backoff: seconds between two rewinds at most; as `Timing.max_backoff`.
        framing: whether its frames are bytes (`JOINED`), or their parts, as within a process (`PARTS`).
    """

    __slots__ = (
        "_asked", "_asked_at", "_join", "_make_next", "_max_backoff", "_retained", "_rewind_at", "_rewinds", "_rewound",
        "committed", "forgotten_bytes", "last", "packed_bytes", "received", "sent", "session", "taken", "told",
    )  # fmt: skip

    def __init__(
        self, session: int, max_backoff: float = DEFAULT_TIMING.max_backoff, *,
        framing: Framing[_M] = JOINED,  # type: ignore[assignment]  # of a Channel[bytes], which most are
    ) -> None:  # fmt: skip
        self.session: int = session
        self._make_next: Callable[[deque[bytes], int, int, int], tuple[_M, int, int]] = framing.make_next
        self._join: Callable[[Sequence[bytes], int, int, int], _M] = framing.join
        self.last: int = 0
        """Number of the last frame that was packed."""
        self.sent: int = 0
        """Number of the last frame that the socket took; below `last` if there are some that it did not."""
        self.received: int = 0
        """Number of the last frame that was taken in order: only the one after it may be taken next."""
        self.committed: int = 0
        """Number of the last of them that may be acknowledged: what it caused is in the journal, or at a node handed on."""
        self.taken: int = 0
        """Number of the last frame of ours that the other end said it has, committed or not."""
        self._max_backoff = max_backoff
        self.told: int = 0
        """Number up to which the other end was told last that frames are committed."""
        self.packed_bytes: int = 0
        """Bytes of all frames so far."""
        self.forgotten_bytes: int = 0
        """Those of the frames that are not kept any more; beside `packed_bytes`, as two threads count."""
        self._retained: deque[tuple[int, _M, int]] = deque()
        """(number, frame, its bytes)."""
        self._rewound = 0
        """Number of the last frame that the last rewind sent again."""
        self._rewinds = 0
        """Rewinds, one after the other, of which not everything has been acknowledged."""
        self._rewind_at = 0.0
        self._asked = -1
        self._asked_at = 0.0

    # -- sending -------------------------------------------------------------------------------------------------

    def pack(self, waiting: deque[bytes]) -> tuple[_M, int]:
        """Take from the front what rides in one frame, number that and keep it; returns it and the bytes of its envelopes.

        Set `sent` to `last` when the socket has taken it.
        """
        number = self.last + 1
        self.told = committed = self.committed
        frame, size, count = self._make_next(waiting, self.session, number, committed)
        kept = PREAMBLE.size + size
        packed_bytes = self.packed_bytes + kept
        self.last = number
        self.packed_bytes = packed_bytes  # both or none: a signal's handler runs only after a call or a jump back
        self._retained.append((number, frame, kept))  # if one raises from here on, something is said twice at worst
        for _ in range(count):
            waiting.popleft()
        return frame, size

    @property
    def retained_bytes(self) -> int:
        """Bytes of the frames that are kept, without their tables of lengths."""
        return self.packed_bytes - self.forgotten_bytes

    @property
    def first(self) -> int:
        """Number of the oldest frame that is not acknowledged; 0 if all are."""
        try:
            return self._retained[0][0]
        except IndexError:  # asked by another thread than the one that takes them out
            return 0

    @property
    def astray(self) -> int:
        """Number of the oldest frame of which the other end has not even said that it has it; 0 if there is none."""
        first = max(self.first, self.taken + 1)
        return first if self.first and first <= self.last else 0

    def unsent(self) -> list[tuple[int, _M]]:
        """(number, frame) of what was packed and not taken by the socket, in order."""
        return [(number, frame) for number, frame, _ in list(self._retained) if number > self.sent]

    def acknowledge(self, number: int) -> None:
        """Forget the frames up to a number: the other end has them. A number that was never given says nothing."""
        if number > self.last:
            return
        retained = self._retained
        while retained and retained[0][0] <= number:
            self.forgotten_bytes += retained.popleft()[2]
        self.sent = max(self.sent, number)

    def rewind(self) -> None:
        """Count as unsent what was not acknowledged: some of it did not arrive."""
        retained = self._retained
        self.sent = retained[0][0] - 1 if retained else self.last

    def may_rewind(self, now: float) -> bool:
        """Whether a peer that asks for what is missing gets it: at once the first time, and again after growing pauses.

        What was sent again may still be under way; who asks again and again must not be sent all of it each time. The pauses
        are 0.25 s, 0.5 s and so on to the longest, and start again when everything that was sent again has been acknowledged.
        """
        if not self._retained or self._retained[0][0] > self._rewound:
            self._rewinds = 0
        elif now < self._rewind_at:
            return False
        self._rewind_at = now + min(_ASK_AGAIN * 2**self._rewinds, self._max_backoff)
        self._rewinds += 1
        self._rewound = self.last
        return True

    def unacknowledged(self) -> list[bytes]:
        """The envelopes of every frame that is kept, in order."""
        return [envelope for _, frame, _ in list(self._retained) for envelope in read_frame(frame).envelopes]

    # -- receiving -----------------------------------------------------------------------------------------------

    def misses(self, number: int, now: float) -> bool:
        """Whether to ask for the frames up to a number that the other end has sent: one is missing, and was not just asked for.

        Without it nobody would notice that the last frames before a silence were lost with their connection.
        """
        if number <= self.received or (self._asked == self.received and now - self._asked_at < _ASK_AGAIN):
            return False
        self._asked, self._asked_at = self.received, now
        return True

    def acknowledgement(self) -> _M:
        """A frame of no envelopes, outside the count; it goes out by itself when `UNTOLD` frames are committed and not told."""
        self.told = self.committed
        return self._join((), self.session, 0, self.committed)

    def heartbeat(self, clock: float, trouble: str = "") -> _M:
        """A frame, outside the count, that tells the broker's clock, what was taken, committed or not, and what was sent.

        Args:
            clock: what the broker's shows, in seconds.
            trouble: why the broker's journal cannot be written now; empty when it can.
        """
        self.told = self.committed
        heartbeat = BrokerHeartbeat(clock, self.received, self.sent, trouble)
        return self._join((heartbeat.pack(),), self.session, 0, self.committed)

    def ask(self) -> _M:
        """A frame, outside the count, that asks for what is missing."""
        self.told = self.committed
        return self._join((_RESEND,), self.session, 0, self.committed)


def receive(
    channel: Channel[_M], message: _M, now: float, take: Callable[[list[bytes]], None], rewind: Callable[[], None]
) -> _M | None:
    """Let a message of the broker arrive at a node.

    Args:
        channel: the node's end of the session.
        message: as it came.
        now: seconds by the node's clock.
        take: gets the envelopes of a new frame in order, and those outside the count.
        rewind: sends again what was not acknowledged.

    Returns:
        A frame to answer with, if one is due.

    Raises:
        MalformedFrame, IncompatibleVersion: as `read_frame`.
        InvalidEnvelope: a HEARTBEAT that is none.
    """
    if isinstance(message, Frame):
        session, number, acknowledged, envelopes = message
    else:
        session, number, acknowledged = read_preamble(message)
        envelopes = read_envelopes(message) or read_frame(message).envelopes  # which says what is wrong with it
    if session == channel.session:
        channel.acknowledge(acknowledged)
    elif session:
        return None  # of an earlier session
    if not number:
        is_missing = False
        if envelopes and envelopes[0][0] == _RESEND_KIND:
            rewind()
        elif envelopes:
            if envelopes[0][0] == _HEARTBEAT_KIND:
                told = BrokerHeartbeat.read(envelopes[0])
                channel.taken = told.received
                is_missing = channel.misses(told.sent, now)
            take(envelopes)
        return channel.ask() if is_missing else None
    if number != channel.received + 1:
        return channel.ask() if channel.misses(number, now) else None
    channel.received = number
    take(envelopes)
    channel.committed = number
    return channel.acknowledgement() if number - channel.told >= UNTOLD else None
