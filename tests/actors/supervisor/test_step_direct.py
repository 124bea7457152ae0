"""A broker of the same process gives its node the same, directly or in frames, and keeps the same."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.transport.in_process.link import InProcessLink
from ether_broker.transport.in_process.server import InProcessServer
from ether_broker.wire.frame import Flag, Kind, make_frame, pack_envelope, read_header
from tests.actors.peers import request_id
from tests.actors.supervisor.test_fast_path import _ids, kept

AGENTS = ("a", "b", "c")
FIRST = 1_000


class Rig:
    """A broker, its one node, and everything that passes between them, in the calling thread."""

    def __init__(self, limits: Limits, *, is_direct: bool) -> None:
        self.is_direct = is_direct
        self.server = InProcessServer("inproc://rig")
        self.link: InProcessLink = self.server.connect()
        self.supervisor = Supervisor(limits=limits, make_id=_ids(), addressing=self.server.addressing)
        self.now = 1000.0
        self.got: list[bytes] = []
        self.direct = 0
        """Steps that went the direct way."""
        self.link._receiver = self  # type: ignore[assignment]  # without its thread
        self.link.asides.append(_frame(pack_envelope(Kind.HELLO, body=pack({"node": "n", "schema_version": "1.0"}))))
        self.settle()
        welcome = read_map(self.got[0][read_header(self.got[0]).body :], CONTROL)
        self.link.begin(welcome["session"], lambda left: left)
        for number, name in enumerate(("me", *AGENTS)):
            self.say(register(name, number + 1))
        self.settle()
        assert len(self.supervisor.state.registry) == 1 + len(AGENTS)
        self.got.clear()

    def received(self, envelopes: list[bytes]) -> None:
        self.got += envelopes

    def ticked(self) -> float:
        return 1.0

    def say(self, envelope: bytes) -> None:
        self.link.put(envelope)

    def settle(self) -> None:
        """Step until nothing is left to be said."""
        table = self.supervisor.state.session_table
        while self.server.has_news or table.turns.waiting:
            if self.is_direct and self.link.is_direct:
                sent = self.supervisor.step_direct(self.link, self.now, self.now)
                if sent is not None:
                    self.direct += 1
                    self.link.take_direct(sent)
                    continue
            self.supervisor.step(self.server.receive(0.0), self.now, self.now)
            self.server.transmit(table)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (wake := max(self.supervisor.next_wake(), self.now)) < end:
            self.now = wake
            self.link.asides.append(self.link._channel.acknowledgement())
            self.settle()
        self.now = end
        self.link.asides.append(self.link._channel.acknowledgement())
        self.settle()


def _frame(envelope: bytes) -> Any:
    return make_frame([envelope])


def register(name: str, number: int) -> bytes:
    """REGISTER of an agent with a capability of its own and a shared one; of `me` with none."""
    declared = () if name == "me" else (Capability(name=f"own.{name}"), Capability(name="shared"))
    body = Manifest(agent=name, capabilities=declared).model_dump(mode="json", exclude_defaults=True)
    del body["agent"]
    return pack_envelope(Kind.REGISTER, request_id=request_id(number), source=name.encode(), body=pack(body))


@dataclass(frozen=True)
class Op:
    """Something that happens: what a node says, or time that passes."""

    kind: str
    agent: str = "a"
    count: int = 1
    status: int = Status.COMPLETED.code
    flags: int = 0
    is_named: bool = False
    seconds: float = 0.0


ORDINARY = st.one_of(
    st.builds(Op, st.just("ask"), st.sampled_from(AGENTS), st.integers(1, 4), is_named=st.booleans()),
    st.builds(Op, st.just("answer"), count=st.integers(1, 4)),
)
OPS = st.one_of(
    ORDINARY,
    st.builds(Op, st.just("ask"), st.sampled_from(AGENTS), flags=st.sampled_from([0, int(Flag.VOLATILE), int(Flag.RESENT)])),
    st.builds(Op, st.sampled_from(["shared", "again", "cancel", "sub"]), st.sampled_from(AGENTS)),
    st.builds(
        Op, st.just("answer"), count=st.integers(1, 3),
        status=st.sampled_from([Status.COMPLETED.code] * 4 + [Status.ACCEPTED.code, Status.PARTIAL.code]),
    ),
    st.builds(Op, st.sampled_from(["restarting", "gone", "back", "observe"]), st.sampled_from(AGENTS)),
    st.builds(Op, st.just("time"), seconds=st.sampled_from([0.01, 0.5, 3.0])),
)  # fmt: skip


class Player:
    """Turns what happens into envelopes, the same for each rig that has received the same."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.next = FIRST
        self.held: deque[bytes] = deque()
        """Delegations that the node has and has not answered."""

    def play(self, ops: list[Op]) -> None:
        for op in ops:
            self._say(op)
        seen = len(self.rig.got)
        self.rig.settle()
        self.held += [envelope for envelope in self.rig.got[seen:] if envelope[0] == Kind.DELEGATION]

    def _delegate(self, capability: str, number: int, source: str = "me", to: str = "", **header: Any) -> None:
        self.rig.say(pack_envelope(
            Kind.DELEGATION, request_id=request_id(number), source=source.encode(), target=to.encode(),
            capability=capability.encode(), deadline=self.rig.now + 20.0, body=pack({"params": pack(number)}), **header,
        ))  # fmt: skip

    def _new(self) -> int:
        self.next += 1
        return self.next

    def _say(self, op: Op) -> None:
        match op.kind:
            case "ask":
                for _ in range(op.count):
                    self._delegate(f"own.{op.agent}", self._new(), to=op.agent if op.is_named else "", flags=op.flags)
            case "shared":
                self._delegate("shared", self._new())
            case "again":
                self._delegate(f"own.{op.agent}", max(FIRST, self.next - 1))
            case "cancel":
                self.rig.say(pack_envelope(Kind.CANCEL, request_id=request_id(self.next), source=b"me"))
            case "sub" if self.held:
                header = read_header(self.held[0])
                self._delegate(f"own.{op.agent}", self._new(), header.target.decode(), parent=header.request_id)
            case "answer":
                for _ in range(min(op.count, len(self.held))):
                    header = read_header(self.held[0] if op.status == Status.ACCEPTED.code else self.held.popleft())
                    self.rig.say(pack_envelope(
                        Kind.RESPONSE, request_id=header.request_id, source=header.target, target=header.source,
                        capability=header.capability, status=op.status, attempt=header.attempt, body=pack({}),
                    ))  # fmt: skip
            case "restarting" | "gone":
                body = pack({"condition": op.kind})
                self.rig.say(pack_envelope(Kind.UNREGISTER, source=op.agent.encode(), body=body))
            case "back":
                self.rig.say(register(op.agent, self._new()))
            case "observe":
                body = pack({"since": 0, "topics": []})
                self.rig.say(pack_envelope(Kind.OBSERVE, request_id=request_id(7), body=body))
            case "time":
                self.rig.settle()
                self.rig.pass_time(op.seconds)


def told(envelopes: list[bytes]) -> list[bytes]:
    """What a node is sent of its work; heartbeats, and what observers are sent, come in parts as steps make them."""
    return [envelope for envelope in envelopes if envelope[0] in {Kind.DELEGATION, Kind.RESPONSE, Kind.CANCEL}]


def state(supervisor: Supervisor) -> dict[str, Any]:
    found = kept(supervisor)
    found["ended"] = {**found["ended"], "asked_from": found["ended"]["asked_from"][1]}  # the incarnations are others
    return {name: found[name] for name in ("entries", "ledger", "agents", "ended", "counts", "letters")}


@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(st.one_of(st.lists(ORDINARY, min_size=1, max_size=3), st.lists(OPS, max_size=3)), max_size=20),
    window=st.integers(1, 3),
    count=st.integers(0, 3),
)  # fmt: skip
def test_it_is_the_same_directly_and_in_frames(script: list[list[Op]], window: int, count: int) -> None:
    rigs = [Rig(Limits(window=window, mailbox_count=count), is_direct=is_direct) for is_direct in (True, False)]
    direct, framed = players = [Player(rig) for rig in rigs]

    for ops in script:
        for player in players:
            player.play(ops)
        assert told(direct.rig.got) == told(framed.rig.got)
        assert state(direct.rig.supervisor) == state(framed.rig.supervisor)

    assert framed.rig.direct == 0


def test_ordinary_work_goes_the_direct_way() -> None:
    rig = Rig(Limits(), is_direct=True)
    player = Player(rig)
    player.play([Op("ask")])  # the first is looked up
    player.play([Op("answer")])
    before, rig.direct = rig.link.packed, 0

    for _ in range(10):
        player.play([Op("ask", count=3)])
        player.play([Op("answer", count=3)])

    assert rig.direct == 20
    assert rig.link.packed == before
    assert rig.link.waiting_bytes == 0


def test_what_goes_directly_does_not_overtake_a_frame_that_found_no_room() -> None:
    rig = Rig(Limits(), is_direct=True)
    player = Player(rig)
    for op in (Op("ask"), Op("answer")):
        player.play([op])
    session = rig.supervisor.state.session_table.by_address[rig.link.address]
    limit, session.input.limit = session.input.limit, 0
    rig.got.clear()

    player.play([Op("cancel"), Op("ask")])  # a CANCEL goes in a frame, and what is behind it too: there is no room
    player.play([Op("ask")])
    assert told(rig.got) == []
    session.input.limit = limit
    rig.link._rewind()
    rig.settle()

    numbers = [int.from_bytes(read_header(envelope).request_id) for envelope in told(rig.got)]
    assert numbers == [FIRST + 2, FIRST + 3]


@pytest.mark.parametrize("what", ["waiting", "asides", "rewound"])
def test_a_link_is_not_direct_while_something_has_to_go_first(what: str) -> None:
    rig = Rig(Limits(), is_direct=True)
    assert rig.link.is_direct
    if what == "asides":
        rig.link.asides.append(_frame(b""))
    elif what == "rewound":
        rig.link._rewind()
    assert rig.link.is_direct == (what == "waiting")
