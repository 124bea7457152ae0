"""The cost of an envelope, in points, by which turns are shared out. Sans-IO.

A point is about 10 µs of the broker's time for work, and 3 µs for what is none: so a step that is full of that is short, and
those who work beside it wait less.
"""

from __future__ import annotations

from typing import Final

from ether_broker.encoding.bounded import count_containers, possible_containers
from ether_broker.envelope.names import BUS_PREFIX
from ether_broker.wire.frame import HEADER, Kind

__all__ = [
    "AGAIN_SHIFT", "AGENT", "ANSWER", "ANSWER_SHIFT", "AWAITING_SHIFT", "BLOCKED", "CAPABILITY",
    "DEAD_LETTER", "DEAREST", "DELIVERED",
    "DELIVERED_SHIFT", "FEW_GROUPS", "FRAME_SHIFT", "GROUPS_SHIFT", "HELD_SHIFT", "HINT_SHIFT", "HOLDERS_SHIFT",
    "JOURNAL_READ", "LEASES_SHIFT", "LOADS_SHIFT", "LOOK_UP", "MANIFEST_SHIFT", "MATCH", "MATCHES_SHIFT", "MOVED",
    "NAMED_SHIFT",
    "OBSERVERS_SHIFT", "PASSED_SHIFT", "PER_8_KIB", "PRICES", "REBALANCED", "REFUSAL", "RIGHTS_SHIFT",
    "TAP_BATCH", "TOLD_SHIFT", "WAITED", "possible", "reading",
]  # fmt: skip

DEAREST: Final = 1_024
"""Points of a body that is still read; one that would cost more is refused unread, and counts as one above it."""
_BASE: Final = {
    Kind.CANCEL: 1, Kind.TAP_ACK: 1, Kind.DELEGATION: 2, Kind.RESPONSE: 2, Kind.REGISTER: 12, Kind.HELLO: 12,
    Kind.FETCH: 2, Kind.CHUNK: 2,
}  # fmt: skip
PRICES: Final = bytes(_BASE.get(kind, 4) for kind in range(256))  # type: ignore[call-overload]  # an IntEnum's keys
"""Points of an envelope by its first byte, its kind: CANCEL and TAP_ACK 1, work, FETCH and CHUNK 2, REGISTER and HELLO 12,
others 4."""
_UNREAD: Final = frozenset(map(int, (Kind.RESPONSE, Kind.CANCEL, Kind.TAP_ACK, Kind.FETCH, Kind.CHUNK)))
_LARGE: Final = 1 << 14
_POSSIBLE_SHIFT: Final = 6
_MOST_AGENTS: Final = 64
_DELEGATION: Final = int(Kind.DELEGATION)
_REGISTER: Final = int(Kind.REGISTER)
_NAME: Final = b"name"
_HEADER: Final = HEADER.size
_PAGE: Final = 128
"""A list that a question is answered, or a part of an envelope."""
_ANSWERED_MUCH: Final = frozenset(
    BUS_PREFIX + name
    for name in (
        b"agents", b"manifests", b"capabilities", b"nodes", b"outcomes", b"dead-letters", b"dead-letter", b"leases",
    )
)  # fmt: skip
"""Questions to the bus that are so; the others are work of the bus, such as the claim of a lease."""
_PUBLISH: Final = BUS_PREFIX + b"publish"
_N_SOURCE: Final = 4
_N_TARGET: Final = 5
_N_CAPABILITY: Final = 6
"""Where the header has the lengths of the names."""
PER_8_KIB: Final = 13
"""An envelope costs a point more for each 8 KiB: its size, shifted right by this."""

# What is done for an envelope is charged where it is done, to the node that caused it. Of what ends with _SHIFT a point is
# charged for each two to the power of it.

FRAME_SHIFT: Final = 5
"""Envelopes of a frame, beside a point for the frame."""
REFUSAL: Final = 4
"""A message that is answered ERROR."""
ANSWER: Final = 12
"""A response of the bus's own."""
ANSWER_SHIFT: Final = 9
"""Bytes that a question is answered."""
DEAD_LETTER: Final = 12
DELIVERED: Final = 4
"""A subscriber that an event is given to."""
DELIVERY_ENDED: Final = 4
"""The same, for its outcome: who published it pays for that beforehand."""
DELIVERED_SHIFT: Final = 13
"""Bytes of all of that together."""
HINT_SHIFT: Final = 4
"""Letters of the names that an unknown one is compared with, each name for 8 more."""
REBALANCED: Final = 1
"""A look for who may have a delegation that waits for an instance of an agent that scales, charged to the node of that one."""
MOVED: Final = 4
"""A delegation that another agent gets, charged to the node of the one that had it."""
WAITED: Final = 2
"""A look at progress that had to wait, charged to the node that said it."""
TOLD_SHIFT: Final = 1
"""Monitors that are told DOWN, charged to the node of whom they monitor."""
AGENT: Final = 4
CAPABILITY: Final = 2
"""Each agent of a REGISTER, and each capability of each."""
MANIFEST_SHIFT: Final = 8
"""Bytes of a manifest that is not known yet."""
HOLDERS_SHIFT: Final = 3
"""Capabilities and manifests that a choice looks at in vain, or to compare."""
FEW_GROUPS: Final = 8
GROUPS_SHIFT: Final = 2
"""Groups in which an agent's place is found again when it takes work again; few cost nothing."""
LOADS_SHIFT: Final = 1
BLOCKED: Final = 4
"""Agents whose load a HEARTBEAT tells, and each that blocks its event loop."""
RIGHTS_SHIFT: Final = 3
"""Rules for a node's agents that are looked through for whether it may monitor another."""
AWAITING_SHIFT: Final = 4
"""Outcomes that a RESUME waits for."""
HELD_SHIFT: Final = 2
"""Delegations that a RESUME says its node holds, and agents that it names."""
DISOWNED_SHIFT: Final = 1
"""Of those delegations the ones that are cancelled there."""
NAMED_SHIFT: Final = 5
"""Agents that a question names."""
LEASES_SHIFT: Final = 3
"""Leases and claims that are looked through for a circle, or passed over when a lease is given to the next in line."""
LOOK_UP: Final = 16
"""A look for an outcome, perhaps in the journal's file."""
AGAIN_SHIFT: Final = 11
"""Bytes of an outcome that is given again."""
JOURNAL_READ: Final = 32
"""A look of an observer's into the journal's file, of some 0.15 ms, beside a point for each 8 KiB that are read."""
TAP_BATCH: Final = 2
"""A batch for an observer, beside a point for each 8 KiB that are sent."""
OBSERVERS_SHIFT: Final = 4
"""Observers of a node that are looked through for one that gets a batch."""
PASSED_SHIFT: Final = 4
"""Envelopes of a batch for an observer of all capabilities."""
MATCH: Final = 128
MATCHES_SHIFT: Final = 9
"""Comparisons for an observer of some capabilities: one of each envelope with each prefix, and `MATCH` for its capability."""

_SIZE_SHIFT: Final = 10
_CONTAINERS_SHIFT: Final = 4
_COUNTED_SHIFT: Final = 6


def possible(envelope: bytes, subscribers: int = 0) -> int:
    """Points that an envelope may turn out to cost, 2,048 at most; 0 for work, of which no body is read.

    An event costs what it is given to, of which the topic is not read here: it is taken for what its session published before,
    `subscribers`.

    A REGISTER says 64 agents of 8 capabilities in 315 bytes: without a source it is of several agents, 64 at most, and each
    capability has a `name`. Many a question to the bus is answered a list.
    """
    size = len(envelope)
    if size < _HEADER:
        return 0
    kind = envelope[0]
    if kind in _UNREAD:
        return 0
    is_work = kind == _DELEGATION
    if is_work:
        start = _HEADER + envelope[_N_SOURCE] + envelope[_N_TARGET]
        if not envelope.startswith(BUS_PREFIX, start):
            return 0
    points = reading(envelope) if size <= _LARGE else size >> _POSSIBLE_SHIFT
    if is_work:
        capability = envelope[start : start + envelope[_N_CAPABILITY]]
        points += _PAGE if capability in _ANSWERED_MUCH else DELIVERED * subscribers if capability == _PUBLISH else 0
    elif kind == _REGISTER:
        agents = 1 if envelope[_N_SOURCE] else _MOST_AGENTS
        points += agents * AGENT + (agents + 1) * CAPABILITY * envelope.count(_NAME) + (size >> MANIFEST_SHIFT)
    return min(points, 2 * DEAREST)


def reading(body: bytes) -> int:
    """Points of reading a body of msgpack, beside what its envelope costs: 1 for each KiB, and for each 16 maps and lists.

    Of most work the broker reads no body. msgpack says a map in one byte, and Python needs 64 bytes and half a microsecond for
    each; a MiB of them is a bomb. Bytes within text count too where they look the same, unless the body would be refused for
    that: then its maps and lists are counted one by one, which costs a point more for each 64.
    """
    size = len(body) >> _SIZE_SHIFT
    points = size + (possible_containers(body) >> _CONTAINERS_SHIFT)
    if points > DEAREST:
        containers = count_containers(body, DEAREST << _CONTAINERS_SHIFT)
        points = size + (containers >> _CONTAINERS_SHIFT) + (containers >> _COUNTED_SHIFT)
    return min(points, DEAREST + 1)
