"""The bytes of a frame and of the envelopes in it; docs/protocol.md draws them in full.

A frame is one ZeroMQ message; the envelopes that wait at the time ride in it together:

    frame     = preamble count*( length:u32 ) count*( envelope )
    preamble  = "ETHR" major:u8 minor:u8 count:u16 session:u64 number:u64 acknowledged:u64    32 bytes
    envelope  = header source target capability body
    header    = kind:u8 status:u8 flags:u16 len(source):u8 len(target):u8
                len(capability):u8 attempt:u8 deadline:f64 request_id:16s parent:16s    48 bytes

All numbers are big-endian. The broker routes by the header and the three names behind it; it never reads a body
that is not addressed to itself.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from enum import IntEnum, IntFlag, unique
from typing import Final, NamedTuple, TypeAlias

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.priority import BITS
from ether_broker.envelope.status import BY_WORD, Status
from ether_broker.envelope.version import PROTOCOL_MAJOR, PROTOCOL_MINOR
from ether_broker.errors import IncompatibleVersion, MalformedFrame, PayloadTooLarge

__all__ = [
    "BATCH",
    "DRAINS",
    "HEADER",
    "MAX_FRAME_BYTES",
    "MAX_FRAME_ENVELOPES",
    "PARENT",
    "PREAMBLE",
    "REQUEST_ID",
    "Flag",
    "Frame",
    "Header",
    "Kind",
    "Message",
    "folded_of",
    "join_frame",
    "make_frame",
    "make_next",
    "make_next_parts",
    "mark",
    "name_of",
    "pack_envelope",
    "pack_lengths",
    "read_envelopes",
    "read_frame",
    "read_header",
    "read_number",
    "read_preamble",
    "rehead",
]

PREAMBLE: Final = struct.Struct(">4sBBHQQQ")
_ALONE: Final = struct.Struct(">4sBBHQQQI")
"""The preamble of a frame of one envelope, and its length."""
HEADER: Final = struct.Struct(">BBHBBBBd16s16s")
REQUEST_ID: Final = slice(16, 32)
PARENT: Final = slice(32, 48)
"""Of an envelope, as is `REQUEST_ID`: where the ids stand in it."""
MAGIC: Final = b"ETHR"
BATCH: Final = 64
"""Envelopes that ride in one frame at most, so that one sender's burst does not hold up the others' answers."""
MAX_FRAME_ENVELOPES: Final = 1_024
"""Envelopes that a frame has at most; one that announces more is refused unread."""
MAX_FRAME_BYTES: Final = 1 << 20
"""Bytes that they have together at most, unless it is one alone: libzmq cuts off a peer whose message is over a limit."""


@unique
class Kind(IntEnum):
    """The kinds of envelopes, as the header's kind byte has them."""

    DELEGATION = 1
    RESPONSE = 2
    CANCEL = 3
    """The delegator cancels a delegation; to the specialist, so does the supervisor."""
    EVENT = 4
    """Something happened that observers are told: an agent came or went, a dead letter was kept."""

    HELLO = 16
    """Node to broker: my name, what I run on, and the version of my schemas; my incarnation is in my address."""
    WELCOME = 17
    """Broker to node: you are in; my clock and my limits."""
    ERROR = 18
    """Broker to node: what you sent is refused, and why."""
    HEARTBEAT = 19
    """Both ways: I live; from a node also how its agents are."""
    REGISTER = 20
    """Node to broker: this agent is mine, with its manifest."""
    REGISTERED = 21
    """Broker to node: the agent is in the registry."""
    UNREGISTER = 22
    """Node to broker: this agent is gone, or drains."""
    OBSERVE = 23
    """Node to broker: send me the tap from this number on."""
    TAP = 24
    """Broker to node: numbered envelopes as they passed."""
    TAP_ACK = 25
    """Node to broker: I have handled the tap up to this number."""
    MONITOR = 26
    """Node to broker: tell me when this agent or node goes down."""
    DOWN = 27
    """Broker to node: what you monitor went down, and why."""
    BYE = 28
    """Both ways: I leave; nothing follows."""
    RESEND = 29
    """Both ways: frames are missing; send again what follows the number that this frame acknowledges."""
    RESUME = 30
    """Node to broker: what I hold and what I wait for, after a session ended without me."""
    STATE = 31
    """Broker to node: what is saved of this agent; what it was to be saved with was refused."""
    FETCH = 32
    """Node to broker, and on to the node that is its target: send me bytes of an artifact; without a body: not any more."""
    CHUNK = 33
    """Node to broker, and on to the node that asked: those bytes, or why there are none."""
    SCALE = 34
    """Broker to node: how much waits at the broker for agents that scale; from a node: how many instances there are now."""


@unique
class Flag(IntFlag):
    """The flag bits of an envelope's header."""

    NONE = 0
    REDELIVERED = 1
    """The delegation was given to a node before, which was lost."""
    HANDED_BACK = 2
    """Of a terminal RESPONSE: the work was not started, and is given to another. Of UNREGISTER it is `DRAINS`."""
    RESENT = 4
    """Sent in an earlier session too, where it was not acknowledged; it folds into the first by its request id."""
    VOLATILE = 8
    """Of a DELEGATION: neither it nor its outcome waits for the journal."""
    ROUTED = 16
    """Of a DELEGATION: its capability decided who gets it, and may decide again."""
    UNCOLLECTED = 32
    """Of a terminal RESPONSE: its delegator was gone when it came, and may collect it."""
    FALLTHROUGH = 64
    """Of a DELEGATION with a target: where that does not take it, its capability decides."""
    REFUSED = 128
    """Of a terminal RESPONSE: its delegation was not accepted, and so its request id is not taken for anybody else."""
    STATE = 256
    """Of a RESPONSE on its way to the broker: the specialist's state stands in front of its body."""
    HIGH = BITS["high"]
    """Of a DELEGATION: it goes before others of its agent, as `priority_of` says."""
    LOW = BITS["low"]
    """Of a DELEGATION: it goes behind others; with both it is as with neither."""


DRAINS: Final = Flag.HANDED_BACK
"""The same bit of UNREGISTER: the agent takes nothing new."""


class Header(NamedTuple):
    """The header of an envelope, decoded, with the offsets of the envelope's parts."""

    kind: int
    status: int
    flags: int
    deadline: float
    """Seconds by the broker's clock; 0.0 is none. Of PROGRESS it is `folded_of`."""
    request_id: bytes
    parent: bytes
    """Request id of the delegation whose handler made this one; zeros are none."""
    attempt: int
    source: bytes
    """The agent that speaks, UTF-8."""
    target: bytes
    """The agent spoken to, UTF-8; empty where the capability decides."""
    capability: bytes
    body: int
    """Where the body begins."""


_new: Final = tuple.__new__  # a third of the time of Header(…), which packs its arguments twice
_unpack: Final = HEADER.unpack_from
_MOST_FOLDED: Final = 1 << 53
_SIZE: Final = HEADER.size
_unpack_preamble: Final = PREAMBLE.unpack_from
_MAJOR: Final = bytes([PROTOCOL_MAJOR])
_UP_TO_MAJOR: Final = 5
_COUNT: Final = slice(6, 8)


def pack_envelope(
    kind: int,
    *,
    request_id: bytes = NO_ID,
    source: bytes = b"",
    target: bytes = b"",
    capability: bytes = b"",
    body: bytes = b"",
    status: Status | int = 0,
    flags: int = 0,
    deadline: float = 0.0,
    parent: bytes = NO_ID,
    attempt: int = 1,
    limit: int | None = None,
) -> bytes:
    """Make the bytes of one envelope; the caller has checked the names' lengths (255 at most).

    The status is a word, or a code that may have none.

    Raises:
        PayloadTooLarge: it has more bytes than `limit`.
    """
    envelope = b"".join((
        HEADER.pack(
            kind, BY_WORD[status] if isinstance(status, Status) else status, flags, len(source), len(target), len(capability),
            attempt, deadline, request_id, parent,
        ),
        source,
        target,
        capability,
        body,
    ))  # fmt: skip
    if limit is not None and len(envelope) > limit:
        raise PayloadTooLarge(len(envelope), limit)
    return envelope


def read_header(envelope: bytes) -> Header:
    """Read the header and the names of an envelope.

    Raises:
        MalformedFrame: it is shorter than its own header says.
    """
    try:
        kind, status, flags, n_source, n_target, n_capability, attempt, deadline, request_id, parent = _unpack(envelope)
    except struct.error:
        msg = f"An envelope of {len(envelope)} bytes is shorter than its header of {HEADER.size}."
        raise MalformedFrame(msg, envelope) from None
    end_source = _SIZE + n_source
    end_target = end_source + n_target
    body = end_target + n_capability
    if body > len(envelope):
        raise MalformedFrame(f"An envelope of {len(envelope)} bytes announces names that end at byte {body}.", envelope)
    return _new(Header, (
        kind, status, flags, deadline, request_id, parent, attempt,
        envelope[_SIZE:end_source], envelope[end_source:end_target], envelope[end_target:body], body,
    ))  # fmt: skip


def rehead(
    header: Header, envelope: bytes, *, target: bytes | None = None, capability: bytes | None = None,
    deadline: float | None = None, attempt: int | None = None, flags: int | None = None,
) -> bytes:  # fmt: skip
    """The envelope with some of its header changed and the same body."""
    kind, status, old_flags, old_deadline, request_id, parent, old_attempt, source, old_target, name, body = header
    if target is None:
        target = old_target
    if capability is None:
        capability = name
    packed = HEADER.pack(
        kind, status, old_flags if flags is None else flags, len(source), len(target), len(capability),
        old_attempt if attempt is None else attempt, old_deadline if deadline is None else deadline, request_id, parent,
    )  # fmt: skip
    return b"".join((packed, source, target, capability, envelope[body:]))


def folded_of(header: Header) -> int:
    """How many older responses were folded into a PROGRESS; its header has it in the place of the deadline."""
    return int(header.deadline) if 0 < header.deadline < _MOST_FOLDED else 0


def name_of(field: bytes) -> str:
    """A name in a header as a text for people: what is not UTF-8 is replaced."""
    return field.decode(errors="replace")


def mark(envelope: bytes, flag: Flag) -> bytes:
    """The envelope with a flag set."""
    return b"".join((envelope[:2], (int.from_bytes(envelope[2:4]) | flag).to_bytes(2), envelope[4:]))


class Frame(NamedTuple):
    """A frame as its parts: a message that was taken apart, or one that never was bytes, as within a process."""

    session: int
    """The id that the broker gave the session; 0 where there is none yet."""
    number: int
    """Its place in the session's direction, from 1; 0 is outside the count: never sent again, never acknowledged."""
    acknowledged: int
    """Every frame of the other direction up to this number has been taken."""
    envelopes: list[bytes]
    """Nobody changes the list."""


Message: TypeAlias = bytes | Frame
"""What a transport carries: bytes, or within a process a frame as its parts."""


def join_frame(envelopes: Sequence[bytes], session: int = 0, number: int = 0, acknowledged: int = 0) -> bytes:
    """Make one frame of several envelopes, 1,024 at most (`MAX_FRAME_ENVELOPES`)."""
    preamble = PREAMBLE.pack(MAGIC, PROTOCOL_MAJOR, PROTOCOL_MINOR, len(envelopes), session, number, acknowledged)
    return b"".join((preamble, pack_lengths(envelopes), *envelopes))


def make_frame(envelopes: Sequence[bytes], session: int = 0, number: int = 0, acknowledged: int = 0) -> Frame:
    """The frame that `join_frame` makes, as its parts."""
    return _new(Frame, (session, number, acknowledged, list(envelopes)))


def pack_lengths(envelopes: Sequence[bytes]) -> bytes:
    """The table of lengths that stands before several envelopes; one call for all is three times as fast as one each."""
    return struct.pack(f">{len(envelopes)}I", *map(len, envelopes))


def read_lengths(data: bytes, offset: int, count: int) -> tuple[int, ...]:
    """Read such a table.

    Raises:
        struct.error: the data end before the table does.
    """
    return struct.unpack_from(f">{count}I", data, offset)


def make_next(waiting: deque[bytes], session: int, number: int, acknowledged: int) -> tuple[bytes, int, int]:
    """Make a frame of what stands first and rides in one: the frame, the bytes of its envelopes, and how many they are."""
    if len(waiting) == 1:
        envelope = waiting[0]
        size = len(envelope)
        head = _ALONE.pack(MAGIC, PROTOCOL_MAJOR, PROTOCOL_MINOR, 1, session, number, acknowledged, size)
        return head + envelope, size, 1
    envelopes, size = _next(waiting)
    return join_frame(envelopes, session, number, acknowledged), size, len(envelopes)


def make_next_parts(waiting: deque[bytes], session: int, number: int, acknowledged: int) -> tuple[Frame, int, int]:
    """As `make_next`, but for what the frame is: its parts."""
    if len(waiting) == 1:
        envelope = waiting[0]
        return _new(Frame, (session, number, acknowledged, [envelope])), len(envelope), 1
    envelopes, size = _next(waiting)
    return _new(Frame, (session, number, acknowledged, envelopes)), size, len(envelopes)


def _next(waiting: deque[bytes]) -> tuple[list[bytes], int]:
    """What stands first and rides in one frame, and its bytes."""
    envelopes = [waiting[place] for place in range(min(BATCH, len(waiting)))]  # others may add meanwhile
    size = sum(map(len, envelopes))
    while size > MAX_FRAME_BYTES and len(envelopes) > 1:
        size -= len(envelopes.pop())
    return envelopes, size


def read_preamble(frame: bytes) -> tuple[int, int, int]:
    """The session, the number and the acknowledged number of a frame whose envelopes are not looked at yet.

    Raises:
        MalformedFrame: the bytes do not begin as a frame does, or it announces more than 1,024 envelopes.
        IncompatibleVersion: the frame has another major version of the protocol.
    """
    if frame[:4] != MAGIC:
        msg = f"A message that begins with {bytes(frame[:4])!r} and not with {MAGIC!r} is no frame."
        raise MalformedFrame(msg, frame)
    if frame[4:5] != _MAJOR:
        _check_major(frame)
    try:
        _magic, _major, _minor, count, session, number, acknowledged = _unpack_preamble(frame)
    except struct.error:
        msg = f"A message of {len(frame)} bytes is shorter than a frame's preamble of {PREAMBLE.size}."
        raise MalformedFrame(msg, frame) from None
    if count > MAX_FRAME_ENVELOPES:
        raise MalformedFrame(f"A frame announces {count:,} envelopes, and {MAX_FRAME_ENVELOPES:,} is the most.", frame)
    return session, number, acknowledged


def read_frame(frame: Message) -> Frame:
    """Take a frame apart.

    Raises:
        MalformedFrame: as `read_preamble`, or lengths and count do not add up.
        IncompatibleVersion: as `read_preamble`.
    """
    if isinstance(frame, Frame):
        return frame
    session, number, acknowledged = read_preamble(frame)
    envelopes = read_envelopes(frame)
    if envelopes is None:
        count = int.from_bytes(frame[_COUNT])
        msg = f"A frame of {len(frame)} bytes does not hold the {count} envelopes that it announces."
        raise MalformedFrame(msg, frame)
    return _new(Frame, (session, number, acknowledged, envelopes))


def read_envelopes(data: bytes, offset: int = PREAMBLE.size, count: int | None = None) -> list[bytes] | None:
    """Take apart a table of lengths and the envelopes behind it; None if they do not fill the data exactly.

    Args:
        data: a frame whose preamble has been read, or what else ends in such a table.
        offset: where the table begins.
        count: of its lengths; None is the frame's.
    """
    if count is None:
        count = int.from_bytes(data[_COUNT])
    if count == 1:
        start = offset + 4
        return [data[start:]] if int.from_bytes(data[offset:start]) == len(data) - start else None
    try:
        lengths = read_lengths(data, offset, count)
    except struct.error:
        return None
    start = offset + 4 * count
    if start + sum(lengths) != len(data):
        return None
    envelopes = []
    for length in lengths:
        end = start + length
        envelopes.append(data[start:end])
        start = end
    return envelopes


def read_number(frame: Message) -> int:
    """The number of a frame that was made here."""
    return frame.number if isinstance(frame, Frame) else int.from_bytes(frame[16:24])


def _check_major(frame: bytes) -> None:
    if len(frame) < _UP_TO_MAJOR:
        return
    major = frame[4]
    which = "here" if major > PROTOCOL_MAJOR else "there"
    msg = f"The peer speaks protocol {major} and this Ether {PROTOCOL_MAJOR}: upgrade agent-ether {which}."
    raise IncompatibleVersion(msg)
