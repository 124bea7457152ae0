"""A process with its node, as small as docs/protocol.md lets it be; it shares no code with `ether.session`."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.transport.channel import Channel, receive
from ether_broker.wire.frame import Flag, Header, Kind, join_frame, mark, pack_envelope, read_header

__all__ = ["CAPABILITIES", "Peer", "number_of", "request_id"]

CAPABILITIES: Final = {"once": False, "twice": True}
"""{capability: whether it may run twice}"""
_RUNNING: Final = (Status.ACCEPTED, Status.PROGRESS)
_EMPTY: Final = pack({})


def request_id(number: int) -> bytes:
    """The request id of a delegation."""
    return number.to_bytes(16)


def number_of(request: bytes) -> int:
    """The delegation of a request id."""
    return int.from_bytes(request)


class Peer:
    """One name, and the process that has it at present.

    Args:
        name: of the node.
        agents: which of its agents do what they are asked.
    """

    def __init__(self, name: str, agents: tuple[str, ...]) -> None:
        self.name = name
        self.agents = agents
        self.life = 0
        self.up: deque[tuple[bytes, bytes]] = deque()
        """(routing id, frame) on their way to the broker."""
        self.down: deque[bytes] = deque()
        """Frames on their way here."""
        self.heard: dict[int, tuple[int, str]] = {}
        """{delegation: (status, code)} of the outcomes that this name was told, in any life."""
        self.wanted: dict[int, bytes] = {}
        """{delegation: as it was sent} of those without an outcome here."""
        self.given: dict[int, list[tuple[int, int]]] = {}
        """{delegation: (life, attempt) of each time that it came}"""
        self._begin()

    def _begin(self) -> None:
        self.life += 1
        self.incarnation = f"{self.name}{self.life}".encode().ljust(16, b"-")
        self.channel = Channel(0)
        self.broker = ""
        self.is_dead = False
        self.is_greeting = False
        self.is_in = False
        self.works: dict[int, tuple[str, int, bool]] = {}
        """{delegation: (agent, attempt, whether it said ACCEPTED)} of what it was given and has not answered."""
        self.up.clear()
        self.down.clear()

    @property
    def receiver(self) -> bytes:
        """The routing id on which it listens."""
        return b"r" + self.incarnation

    # -- speaking ------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Say HELLO; a process that has died is another one from now on."""
        if self.is_dead:
            self._begin()
        self.is_greeting = True
        hello = pack_envelope(Kind.HELLO, body=pack({"node": self.name}))
        self.up.append((self.receiver, join_frame([hello])))

    def say(self, *envelopes: bytes) -> None:
        """Send a frame; while it is not in, it is kept for later."""
        frame, _ = self.channel.pack(deque(envelopes))
        if self.is_in:
            self.channel.sent = self.channel.last
            self.up.append((b"t" + self.incarnation, frame))

    def live(self) -> bytes:
        """A frame outside the count: a sign of life."""
        return join_frame((), self.channel.session, 0, self.channel.committed)

    def delegate(self, number: int, pair: tuple[str, str], capability: str, parent: int, deadline: float) -> None:
        """Delegate, from one agent to another."""
        source, target = pair
        envelope = pack_envelope(
            Kind.DELEGATION, request_id=request_id(number), source=source.encode(), target=target.encode(),
            capability=capability.encode(), parent=request_id(parent), deadline=deadline, body=_EMPTY,
        )  # fmt: skip
        self.wanted[number] = envelope
        self.say(envelope)

    def cancel(self, number: int, source: str) -> None:
        """Cancel a delegation."""
        self.say(pack_envelope(Kind.CANCEL, request_id=request_id(number), source=source.encode()))

    def begin(self, number: int) -> None:
        """Say that work has begun."""
        agent, attempt, _ = self.works[number]
        self.works[number] = agent, attempt, True
        self._respond(number, agent, attempt, Status.ACCEPTED)

    def answer(self, number: int, status: Status = Status.COMPLETED) -> None:
        """End work."""
        agent, attempt, _ = self.works.pop(number)
        self._respond(number, agent, attempt, status)

    def _respond(self, number: int, agent: str, attempt: int, status: Status) -> None:
        """Answer; for whom that is the broker knows, so nobody has to believe the target."""
        self.say(pack_envelope(
            Kind.RESPONSE, request_id=request_id(number), source=agent.encode(), target=b"nobody", status=status,
            attempt=attempt, body=_EMPTY,
        ))  # fmt: skip

    # -- listening -----------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take the next frame; nothing is ever missing on these wires."""
        answer = receive(self.channel, self.down.popleft(), 0.0, self._take, lambda: None)
        if answer is not None:
            self.up.append((b"t" + self.incarnation, answer))

    def _take(self, envelopes: list[bytes]) -> None:
        for envelope in envelopes:
            header = read_header(envelope)
            match header.kind:
                case Kind.WELCOME:
                    self._welcomed(unpack(envelope[header.body :]))
                case Kind.ERROR:
                    self.is_greeting = False
                    if unpack(envelope[header.body :])["code"] == "no_session":
                        self._lose_session()
                case Kind.DELEGATION:
                    self._given(header)
                case Kind.CANCEL:
                    work = self.works.get(number_of(header.request_id))
                    if work is not None and work[1] == header.attempt:
                        self.answer(number_of(header.request_id), Status.CANCELLED)
                case Kind.RESPONSE:
                    self._outcome(header, envelope)

    def _lose_session(self) -> None:
        """Be out, though alive; what is on its way is of a session that is over, and would be dropped."""
        self.is_in = False
        self.channel.session = 0  # sessions of one broker have one id here
        self.up.clear()

    def _given(self, header: Header) -> None:
        number = number_of(header.request_id)
        self.given.setdefault(number, []).append((self.life, header.attempt))
        self.works[number] = header.target.decode(), header.attempt, False

    def _outcome(self, header: Header, envelope: bytes) -> None:
        number = number_of(header.request_id)
        if header.status in _RUNNING or number not in self.wanted:
            return
        error: dict[str, Any] = unpack(envelope[header.body :]).get("error") or {}
        self.heard[number] = header.status, error.get("code", "")
        del self.wanted[number]

    # -- joining -------------------------------------------------------------------------------------------------

    def _welcomed(self, welcome: dict[str, Any]) -> None:
        self.is_greeting, self.is_in = False, True
        if welcome["session"] == self.channel.session:
            return
        left = self.channel.unacknowledged()
        is_first, self.broker = not self.broker, welcome["broker"]
        self.channel = Channel(welcome["session"])
        awaiting = pack({"awaiting": [request_id(number) for number in self.wanted]})
        again = left if is_first else self._again(left)
        resume = [] if is_first else [pack_envelope(Kind.RESUME, body=pack({"holding": self._holding(left)}))]
        # What waits is asked for last, so that what was sent again has come before.
        self.say(*resume, *self._registrations(), *again, pack_envelope(Kind.RESUME, body=awaiting))

    def _again(self, left: list[bytes]) -> list[bytes]:
        kinds = (Kind.DELEGATION, Kind.RESPONSE, Kind.CANCEL)
        headers = [(read_header(envelope), envelope) for envelope in left]
        return [
            mark(envelope, Flag.RESENT) for header, envelope in headers
            if header.kind in kinds and (header.kind != Kind.DELEGATION or number_of(header.request_id) in self.wanted)
        ]  # fmt: skip

    def _holding(self, left: list[bytes]) -> dict[str, list[list[Any]]]:
        holding: dict[str, list[list[Any]]] = {}
        for number, (agent, attempt, _) in self.works.items():
            holding.setdefault(agent, []).append([request_id(number), attempt])
        for header in map(read_header, left):
            if header.kind == Kind.RESPONSE and header.status not in _RUNNING:
                holding.setdefault(header.source.decode(), []).append([header.request_id, header.attempt])
        return holding

    def _registrations(self) -> list[bytes]:
        found = []
        for agent in (self.name, *self.agents):
            capabilities = CAPABILITIES.items() if agent in self.agents else ()
            manifest = Manifest(
                agent=agent, max_concurrency=3,
                capabilities=tuple(Capability(name=name, idempotent=may_repeat) for name, may_repeat in capabilities),
            )  # fmt: skip
            fields = manifest.model_dump(mode="json", exclude_defaults=True)
            del fields["agent"]
            found.append(pack_envelope(Kind.REGISTER, source=agent.encode(), body=pack(fields)))
        return found
