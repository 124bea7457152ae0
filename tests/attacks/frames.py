"""Frames of every kind as nodes send them, a seeded mutator of them, and the bus that they are thrown at. Sans-IO.

The bus has two nodes that mind their business and one, `mallory`, whose bytes are mutated. Whatever mallory sends, the two
must not notice, and what the supervisor keeps must be consistent.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator

from ether_actors.supervisor.membership.monitors import size_of
from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.transport.sessions.account import Account
from ether_broker.wire.chunk import MOST_OPEN
from ether_broker.wire.frame import DRAINS, HEADER, PREAMBLE, Flag, Kind, join_frame, pack_envelope
from tests.actors.peers import Bus, Peer, request_id

__all__ = ["Arena", "mutate", "seeds"]

_OWN = 900
"""Request ids of mallory's begin here; those of the others are below."""
_ALICE = b"%16d" % 1
_ROLES = (b"r", b"t", b"x", b"")


def _manifest(**fields: object) -> bytes:
    return pack({"capabilities": [{"name": "evil.do", "idempotent": True}], **fields})


def envelopes() -> dict[str, bytes]:
    """One envelope for each thing that a node can say, of mallory's and in the name of others: {name: bytes}."""
    own = request_id(_OWN)
    hers = {"source": b"mallory", "request_id": own}
    alices = {"source": b"alice", "request_id": request_id(1)}
    return {
        "hello": pack_envelope(Kind.HELLO, request_id=own, body=pack({"node": "nmallory", "schema_version": "1.0"})),
        "hello_as_alice": pack_envelope(Kind.HELLO, request_id=own, body=pack({"node": "nalice"})),
        "heartbeat": pack_envelope(
            Kind.HEARTBEAT, body=pack({"agents": {"mallory": {"running": 1}, "alice": {"running": 9}}})
        ),
        "register": pack_envelope(Kind.REGISTER, **hers, body=_manifest()),
        "register_alice": pack_envelope(Kind.REGISTER, **alices, body=_manifest()),
        "drain": pack_envelope(Kind.UNREGISTER, source=b"mallory", flags=int(DRAINS)),
        "restart": pack_envelope(Kind.UNREGISTER, source=b"mallory", body=pack({"condition": "restarting"})),
        "unregister_bob": pack_envelope(Kind.UNREGISTER, source=b"bob", body=pack({"condition": "gone"})),
        "delegation": pack_envelope(
            Kind.DELEGATION, **hers, capability=b"evil.do", deadline=2000.0, body=pack({"params": pack({"a": 1})})
        ),
        "delegation_routed": pack_envelope(Kind.DELEGATION, **hers, capability=b"evil", flags=int(Flag.ROUTED), attempt=2),
        "delegation_named": pack_envelope(Kind.DELEGATION, **hers, capability=b"evil.do", target=b"mallory"),
        "delegation_forged": pack_envelope(Kind.DELEGATION, source=b"alice", request_id=own, capability=b"x.y"),
        "delegation_again": pack_envelope(Kind.DELEGATION, **alices, capability=b"x.y", flags=int(Flag.RESENT)),
        "delegation_child": pack_envelope(
            Kind.DELEGATION, **hers, capability=b"evil.do", parent=request_id(1), flags=int(Flag.VOLATILE)
        ),
        "statistics": pack_envelope(Kind.DELEGATION, **hers, capability=b"ether.statistics"),
        "dead_letters": pack_envelope(
            Kind.DELEGATION, **hers, capability=b"ether.dead-letters", body=pack({"params": pack({"limit": 3})})
        ),
        "lease": pack_envelope(
            Kind.DELEGATION, **hers, capability=b"ether.lease", parent=request_id(1),
            body=pack({"params": pack({"resource": "/a"})}),
        ),
        "publish": pack_envelope(
            Kind.DELEGATION, **hers, capability=b"ether.publish",
            body=pack({"params": pack({"topic": "evil.done", "data": pack(1)})}),
        ),
        "state": pack_envelope(Kind.STATE, **hers, body=pack({"number": 1, "version": 1, "data": b"x"})),
        "accepted": pack_envelope(Kind.RESPONSE, **hers, status=Status.ACCEPTED),
        "response": pack_envelope(Kind.RESPONSE, **hers, status=Status.COMPLETED, body=pack({"summary": "done"})),
        "response_to_alice": pack_envelope(
            Kind.RESPONSE, source=b"mallory", request_id=request_id(1), status=Status.COMPLETED
        ),
        "response_forged": pack_envelope(Kind.RESPONSE, source=b"bob", request_id=request_id(1), status=Status.COMPLETED),
        "handed_back": pack_envelope(
            Kind.RESPONSE, source=b"bob", request_id=request_id(1), status=Status.REJECTED_OVERLOAD,
            flags=int(Flag.HANDED_BACK),
        ),
        "cancel": pack_envelope(Kind.CANCEL, **hers),
        "cancel_alice": pack_envelope(Kind.CANCEL, **alices),
        "observe": pack_envelope(Kind.OBSERVE, request_id=own, body=pack({"from": 1, "topics": ["x"]})),
        "tap_ack": pack_envelope(Kind.TAP_ACK, request_id=own, body=(9).to_bytes(8)),
        "monitor": pack_envelope(Kind.MONITOR, request_id=own, target=b"alice"),
        "monitor_node": pack_envelope(Kind.MONITOR, request_id=own, target=b"node:nbob"),
        "resend": pack_envelope(Kind.RESEND),
        "resume": pack_envelope(
            Kind.RESUME,
            body=pack({"awaiting": [request_id(1), own], "holding": {"bob": [[request_id(1), 1]], "mallory": [[own, 1]]}}),
        ),
        "fetch": pack_envelope(Kind.FETCH, request_id=own, target=b"nbob", body=b"which"),
        "fetch_own": pack_envelope(Kind.FETCH, request_id=own, target=b"nmallory", body=b"which"),
        "fetch_nobody": pack_envelope(Kind.FETCH, request_id=own, target=b"nobody", body=b"which"),
        "fetch_back": pack_envelope(Kind.FETCH, request_id=own),
        "scale": pack_envelope(Kind.SCALE, source=b"mallory", body=pack({"before": 1, "instances": 2, "why": "more"})),
        "chunk": pack_envelope(Kind.CHUNK, request_id=own, body=b"bytes"),
        "bye": pack_envelope(Kind.BYE),
        **{f"{kind.name.lower()}_backwards": pack_envelope(kind, **hers) for kind in (Kind.WELCOME, Kind.TAP, Kind.EVENT)},
    }  # fmt: skip


def seeds() -> list[tuple[int, bytes]]:
    """(index of the role, frame) for every envelope, and some frames of several."""
    every = list(envelopes().values())
    return [
        *((0 if envelope[0] == Kind.HELLO else 1, join_frame([envelope])) for envelope in every),
        *((1, join_frame(every[first : first + 5], 7, first, first)) for first in range(0, len(every), 5)),
    ]


class Arena:
    """A supervisor, two nodes at work, and mallory.

    Alice has delegated to bob (request 1, which bob has begun); whoever throws something at the supervisor asks `check`
    afterwards whether anything of theirs has changed.
    """

    def __init__(self) -> None:
        self.bus = Bus(Limits(mailbox_count=50, window=4, mailbox_bytes=1 << 20))
        alice, bob = self.bus.delegator("alice"), self.bus.node("nbob", "bob")
        self.honest = [alice, bob]
        self.mallory = Peer(self.bus, "nmallory")
        self.bus.peers.append(self.mallory)
        self._join()
        alice.delegate("alice", to="bob", timeout=1e9, number=1)
        self.bus.step()
        assert bob.work() == [1]
        bob.respond("bob", 1, Status.ACCEPTED)
        self.bus.step()
        self.forget()

    def _join(self) -> None:
        self.mallory.hello()
        self.mallory.register("mallory", "evil.do", idempotent=True)

    def throw(self, role: int, message: bytes) -> None:
        """Let mallory send a message with its number made to fit, so that more than the first gets past the channel."""
        self.bus.arrive(_ROLES[role % len(_ROLES)] + self.mallory.incarnation, self._numbered(message))

    def _numbered(self, message: bytes) -> bytes:
        session = next((found for found in self.bus.state.session_table.sessions if found.node == "nmallory"), None)
        if session is None or len(message) < PREAMBLE.size or message[8] & 1:
            return message  # half of what has a session id keeps what it says
        channel = session.channel
        numbers = struct.pack(">QQ", channel.session, channel.received + 1)
        return b"".join((message[:8], numbers, message[24:]))

    def step(self) -> None:
        """Step; mallory is let in again when it has left."""
        self.bus.now += 0.01
        for peer in self.honest:
            peer.send(Kind.HEARTBEAT, body={"agents": {}})
        self.bus.step()
        session_table = self.bus.state.session_table
        here = [session for session in session_table.sessions if session.node == "nmallory"]
        if not here or here[0].was_told_bye:
            self._join()
            self.bus.step()

    def forget(self) -> None:
        """Empty the inboxes."""
        for peer in self.bus.peers:
            peer.inbox.clear()

    def check(self) -> None:
        """What must hold whatever mallory has sent."""
        state, (alice, bob) = self.bus.state, self.honest
        for peer in self.honest:
            heard = {received.kind for received in peer.inbox} - {Kind.HEARTBEAT, Kind.FETCH}  # which it does not grant
            assert not heard, f"{peer.name} heard {heard}"
        sessions = {session.node: session for session in state.session_table.sessions}
        assert {"nalice", "nbob"} <= sessions.keys()
        entry = self.bus.entry(1)
        assert entry is not None, "the others' work was ended"
        assert entry.state is State.RUNNING, "the others' work was touched"
        assert (entry.asking_session, entry.agent.session) == (sessions["nalice"], sessions["nbob"])
        assert entry.agent.mailbox.in_flight == 1
        assert {name: self.bus.agent(name).session.node for name in ("alice", "bob")} == {
            "alice": "nalice",
            "bob": "nbob",
        }
        assert (sessions["nalice"].agents.keys(), sessions["nbob"].agents.keys()) == ({b"alice"}, {b"bob"})
        self._check_ledger()
        self.forget()
        alice.unheard.clear()
        bob.unheard.clear()

    def _check_ledger(self) -> None:
        state = self.bus.state
        ledger = state.ledger
        for agent in state.registry.agents:
            work = [entry for entry in ledger.running if entry.agent is agent]
            waiting = [entry for entry in work if entry.state is State.QUEUED]
            mailbox = agent.mailbox
            assert (mailbox.waiting_count, mailbox.waiting_bytes) == (
                len(waiting),
                sum(entry.size for entry in waiting),
            )
            assert 0 <= mailbox.in_flight <= mailbox.limits.window
        held = sum(entry.size for agent in state.registry.agents for entry in agent.ended_at_node.values())
        assert ledger.size == held + sum(entry.size for entry in ledger.running)
        kept = [*ledger.running, *(entry for agent in state.registry.agents for entry in agent.ended_at_node.values())]
        for account in {entry.account for entry in kept}:
            assert account.size == sum(entry.size for entry in kept if entry.account is account)
        ended = sum(count for status, count in state.outcomes.items() if status)
        assert len(ledger) <= state.accepted <= len(ledger) + ended
        kept: Counter[Account] = Counter()
        for session in state.session_table.sessions:
            kept[session.account] += sum(cursor.size for cursor in session.cursors.values())
            kept[session.account] += sum(size_of(watched.target) for watched in session.monitors.values())
            asked = len(self.bus.supervisor._replay.asked.get(session, ()))
            kept[session.account] += 64 * max(0, asked - 4_000)
        for lease in state.leases.after(0):
            kept[lease.account] += lease.size
        assert state.memory.size == kept.total()
        assert all(account.kept == size for account, size in kept.items())
        for session in state.session_table.sessions:
            assert len(session.agents) <= 100_000
            assert len(session.cursors) <= 64
            assert len(session.fetches) <= MOST_OPEN
            assert len(session.serves) <= MOST_OPEN
            assert all(fetch.asking is session for fetch in session.fetches.values())
            assert all(fetch.server is session for fetch in session.serves.values())


_SHORT = 400
_INTERESTING = (
    0,
    1,
    2,
    15,
    16,
    31,
    47,
    48,
    64,
    127,
    128,
    255,
    256,
    1024,
    1025,
    65_535,
    1 << 31,
    (1 << 32) - 1,
    (1 << 64) - 1,
)
_BOMBS = (
    b"\x91" * 900 + b"\xc0", b"\x91" * 5_000, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\xdc\x4e\x20" + b"\x80" * 20_000, b"\x81\xa8awaiting\xdc\x3e\x80" + b"\x90" * 16_000,
    pack({"holding": {"mallory": [[1 << 40, 1]]}}), pack({"holding": {"mallory": [[b"x" * 16, float("inf")]]}}),
    pack({"agents": {str(n): {"running": [[]] * 50} for n in range(50)}}), pack({"node": "n" * 5_000}),
    pack({"from": (1 << 64) - 1, "topics": ["\n\x1b[31m" * 400]}), pack({"capabilities": [{"name": "a." * 120 + "b"}] * 90}),
)  # fmt: skip


def mutate(frame: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """The frame with one to four things wrong with it."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        frame = rng.choice(_MUTATIONS)(bytearray(frame), rng, others)
    return frame


def _flip(frame: bytearray, rng: random.Random, _others: list[bytes]) -> bytes:
    for _ in range(rng.randint(1, 8)):
        if frame:
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
    return bytes(frame)


def _head(frame: bytearray, rng: random.Random, _others: list[bytes]) -> bytes:
    """Change a field of the preamble or of the first envelope's header to a number at some limit."""
    size = rng.choice((1, 2, 4, 8))
    at = rng.randrange(max(1, min(len(frame), PREAMBLE.size + 4 + HEADER.size)))
    value = rng.choice(_INTERESTING) & ((1 << 8 * size) - 1)
    frame[at : at + size] = value.to_bytes(size)
    return bytes(frame)


def _cut(frame: bytearray, rng: random.Random, _others: list[bytes]) -> bytes:
    return bytes(frame[: rng.randrange(len(frame) + 1)])


def _grow(frame: bytearray, rng: random.Random, others: list[bytes]) -> bytes:
    at = rng.randrange(len(frame) + 1)
    frame[at:at] = rng.choice((rng.randbytes(rng.randint(1, 64)), rng.choice(others)[:200]))
    return bytes(frame)


def _body(frame: bytearray, rng: random.Random, _others: list[bytes]) -> bytes:
    """Give the only envelope another body, with lengths that fit."""
    start = PREAMBLE.size + 4
    if len(frame) < start + HEADER.size:
        return bytes(frame)
    head = bytes(frame[start : start + HEADER.size])
    names = bytes(frame[start + HEADER.size :])[: head[4] + head[5] + head[6]]
    return join_frame([head + names + rng.choice(_BOMBS)], *struct.unpack_from(">QQQ", frame, 8))


def _names(frame: bytearray, rng: random.Random, _others: list[bytes]) -> bytes:
    """Give the only envelope giant or foreign names."""
    start = PREAMBLE.size + 4
    if len(frame) < start + HEADER.size:
        return bytes(frame)
    name = rng.choice((b"", b"alice", b"bob", b"ether", b"node:nbob", b"\xff" * 255, b"a" * 255, b"\n\x1b[2J", b"."))
    head = bytearray(frame[start : start + HEADER.size])
    head[4], head[5], head[6] = len(name), len(name), len(name)
    return join_frame([bytes(head) + name * 3], *struct.unpack_from(">QQQ", frame, 8))


def _many(frame: bytearray, rng: random.Random, others: list[bytes]) -> bytes:
    """The same envelope many times."""
    start = PREAMBLE.size + 4
    count = rng.choice((2, 64, 200)) if len(frame) < _SHORT else 2
    return join_frame([bytes(frame[start:])] * count, *rng.choices(_INTERESTING, k=3))


def _splice(frame: bytearray, rng: random.Random, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return bytes(frame[: rng.randrange(len(frame) + 1)]) + other[rng.randrange(len(other) + 1) :]


_MUTATIONS: tuple[Callable[[bytearray, random.Random, list[bytes]], bytes], ...] = (
    _flip, _flip, _head, _head, _head, _cut, _grow, _body, _names, _many, _splice,
)  # fmt: skip


def mutations(seed: int, count: int) -> Iterator[tuple[int, bytes]]:
    """(role, mutated frame), the same for the same seed."""
    rng = random.Random(seed)
    known = seeds()
    others = [frame for _, frame in known]
    for _ in range(count):
        role, frame = rng.choice(known)
        yield (role if rng.random() < 0.9 else rng.randrange(4)), mutate(frame, rng, others)
