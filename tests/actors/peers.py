"""A supervisor and its nodes, sans-IO: peers that send exactly the envelopes they are told to, on a manual clock."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.ended import REMEMBERED, Ended
from ether_actors.supervisor.state.ledger import Entry
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.journal.null import NullJournal
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.observer_cursor import ObserverCursor
from ether_broker.tap import read_batch
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, Header, Kind, join_frame, pack_envelope, read_frame, read_header
from tests.actors.stored_journal import StoredJournal

__all__ = ["Bus", "Peer", "Received", "request_id", "uncollected"]


def request_id(number: int) -> bytes:
    """The request id of that number."""
    return number.to_bytes(16)


def uncollected(ended: Ended, source: bytes) -> list[bytes]:
    """The request ids of what a delegator may not have got, oldest first."""
    return [request_id for _, request_id in ended.uncollected_of(source) if request_id is not None]


class _Bugs(logging.Handler):
    """Lets an exception out that the supervisor survives and logs: in a test it is a bug."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)


_BUGS = _Bugs(logging.ERROR)
_logger = logging.getLogger("ether.supervisor")


class Received(NamedTuple):
    """An envelope that the broker sent to a peer."""

    header: Header
    envelope: bytes

    @property
    def kind(self) -> Kind:
        return Kind(self.header.kind)

    @property
    def status(self) -> Status:
        return Status(self.header.status)

    @property
    def number(self) -> int:
        """The number of its request."""
        return int.from_bytes(self.header.request_id)

    @property
    def body(self) -> Any:
        data = self.envelope[self.header.body :]
        return unpack(data) if data else {}

    @property
    def code(self) -> str:
        """The code of the error in it; empty without one."""
        error = self.body.get("error") or {}
        return str(error.get("code", self.body.get("code", "")))


class _Folding(NullJournal):
    """Keeps nothing but what recovery would make of it."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        assert first == self._history.next
        self._history.apply(first, time, wall, envelopes)
        return super().append(first, time, wall, envelopes)


class Bus:
    """One supervisor with its peers."""

    def __init__(self, limits: Limits | None = None, now: float = 1000.0, **options: Any) -> None:
        self.history = History(remembered=options.get("remembered", REMEMBERED))
        """What a journal would tell."""
        self.supervisor = Supervisor(limits=limits, journal=_Folding(self.history), **options)
        self.state = self.supervisor.state
        self.now = now
        self.ahead = 0.0
        """Seconds that the broker's wall clock is set to be later."""
        self.peers: list[Peer] = []
        self._arrivals: list[tuple[bytes, bytes]] = []
        self._ids = itertools.count(1)
        self._cursor = ObserverCursor()
        self.tapped: list[Received] = []
        """Everything that the tap numbered."""
        self._first = 1

    def restart(self, journal: StoredJournal, **options: Any) -> None:
        """Become another broker process, which has this journal and no peers yet."""
        self.supervisor = Supervisor(journal=journal, **options)
        self.state = self.supervisor.state
        self.supervisor.recover(self.now, self.wall)
        self._cursor, self._first = ObserverCursor(), journal.next
        self.peers.clear()
        self.tapped.clear()

    @property
    def wall(self) -> float:
        """Unix time as the broker's machine shows it."""
        return self.now + 1e9 + self.ahead

    def node(self, name: str, *agents: str, **registration: Any) -> Peer:
        """A peer that has joined and registered these agents; each declares `x.y` unless told otherwise."""
        peer = Peer(self, name)
        self.peers.append(peer)
        peer.hello()
        for agent in agents:
            peer.register(agent, **registration)
        self.step()
        peer.inbox.clear()
        return peer

    def delegator(self, agent: str) -> Peer:
        """A peer with an agent that declares nothing, on a node named after it."""
        peer = self.node(f"n{agent}")
        peer.register_manifest(Manifest(agent=agent))
        self.step()
        peer.inbox.clear()
        return peer

    def arrive(self, routing_id: bytes, message: bytes) -> None:
        """Let a message wait for the next step."""
        self._arrivals.append((routing_id, message))

    def take_arrivals(self) -> list[tuple[bytes, bytes]]:
        """Take what waits for the next step."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def step(self) -> None:
        """Step until everything that waits was handled; what the supervisor sends lies in the peers' inboxes then."""
        arrivals = self.take_arrivals()
        _logger.addHandler(_BUGS)
        try:
            self.supervisor.step(arrivals, self.now, self.wall)
            turns = self.state.session_table.turns
            while turns.waiting or (turns.blocked and self._goes_on()):
                self.supervisor.step([], self.now, self.wall)
        finally:
            _logger.removeHandler(_BUGS)
        for routing_id, frame in self.state.session_table.outgoing():
            for envelope in read_frame(frame).envelopes:
                for peer in self.peers:
                    if routing_id[1:] == peer.incarnation:
                        mail = peer.unheard if peer.is_dead else peer.inbox
                        mail.append(Received(read_header(envelope), envelope))
        while (body := self.state.tap.read(self._cursor, lambda envelope: b"")) is not None:
            batch = read_batch(body)
            self._cursor.acknowledge(batch.next)
            for number, _, envelope in batch.envelopes:
                assert number == self._first + len(self.tapped), "the tap has a gap"
                self.tapped.append(Received(read_header(envelope), envelope))

    def _goes_on(self) -> bool:
        """Whether what is blocked need not wait for the journal."""
        return bool(self.supervisor._going_on) or not (self.state.is_behind or self.state.is_ahead)

    def pass_time(self, seconds: float) -> None:
        """Move the clock, stepping whenever the supervisor wants to and every living peer showing life."""
        end = self.now + seconds
        while (wake := max(self.supervisor.next_wake(), self.now)) < end:
            self._move(wake)
        self._move(end)

    def _move(self, to: float) -> None:
        self.now = to
        for peer in self.peers:
            if not peer.is_dead:
                peer.send(Kind.HEARTBEAT, body={"agents": {}})
        self.step()

    def next_id(self) -> int:
        return next(self._ids)

    def agent(self, name: str) -> Registration:
        found = self.state.registry.get(name.encode())
        assert found is not None
        return found

    def entry(self, number: int) -> Entry | None:
        return self.state.ledger.get(request_id(number))

    def reasons(self) -> list[str]:
        """Why each dead letter is one, oldest first."""
        letters = [letter for _, letter in self.state.dead_letters.below() if letter is not None]
        return [letter.reason.value for letter in reversed(letters)]

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """What observers were told, of one kind or all."""
        bodies = [seen.body for seen in self.tapped if seen.kind is Kind.EVENT]
        return [body for body in bodies if name in (None, body["event"])]


class Peer:
    """One node as the broker sees it."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.bus = bus
        self.name = name
        self.incarnation = b"%16d" % (len(bus.peers) + 1)
        self.inbox: list[Received] = []
        self.attempts: dict[int, int] = {}
        self.asked: dict[int, Header] = {}
        """The delegations that came, as they came last."""
        self.is_dead = False
        """It neither sends nor receives."""
        self.said_session = 0
        """The session that its frames name; 0 as long as it counts none."""
        self.unheard: list[Received] = []
        """What was sent to it since."""

    # -- speaking ------------------------------------------------------------------------------------------------

    def hello(self, **info: Any) -> None:
        body = {"node": self.name, "schema_version": "1.0", **info}
        self.raw(
            join_frame([pack_envelope(Kind.HELLO, request_id=request_id(self.bus.next_id()), body=pack(body))]), b"r"
        )

    def raw(self, message: bytes, role: bytes = b"t") -> None:
        """Send any bytes."""
        self.bus.arrive(role + self.incarnation, message)

    def send(self, kind: int, *, body: Any = None, **header: Any) -> None:
        packed = b"" if body is None else body if isinstance(body, bytes) else pack(body)
        self.raw(join_frame([pack_envelope(kind, body=packed, **header)], self.said_session))

    def acknowledge(self) -> None:
        """Say that all that was sent has come."""
        channel = self.session.channel
        self.raw(join_frame((), channel.session, 0, channel.last))

    def register(
        self,
        agent: str,
        *capabilities: str,
        idempotent: bool = False,
        max_concurrency: int = 1,
        exclusions: Iterable[str] = (),
    ) -> int:
        declared = tuple(Capability(name=name, idempotent=idempotent) for name in capabilities or ("x.y",))
        manifest = Manifest(
            agent=agent, capabilities=declared, max_concurrency=max_concurrency, exclusions=tuple(exclusions)
        )
        return self.register_manifest(manifest)

    def register_manifest(self, manifest: Manifest) -> int:
        fields = manifest.model_dump(mode="json", exclude_defaults=True)
        number = self.bus.next_id()
        self.send(Kind.REGISTER, request_id=request_id(number), source=fields.pop("agent").encode(), body=fields)
        return number

    def delegate(
        self, source: str, capability: str = "x.y", *, to: str = "", timeout: float | None = 10.0, parent: int = 0,
        number: int | None = None, params: Any = None, **header: Any,
    ) -> int:  # fmt: skip
        number = self.bus.next_id() if number is None else number
        deadline = 0.0 if timeout is None else self.bus.now + timeout
        fields = {
            "request_id": request_id(number), "source": source.encode(), "target": to.encode(),
            "capability": capability.encode(), "deadline": deadline, "parent": request_id(parent),
            "body": {} if params is None else {"params": pack(params)},
        }  # fmt: skip
        self.send(Kind.DELEGATION, **{**fields, **header})
        return number

    def respond(self, agent: str, number: int, status: int = Status.COMPLETED, *, flags: int = 0, **body: Any) -> None:
        header = {"request_id": request_id(number), "source": agent.encode(), "status": status, "flags": flags}
        attempt = self._attempt(number)
        if (asked := self.asked.get(number)) is not None:
            header |= {"target": asked.source, "capability": asked.capability}
        self.send(Kind.RESPONSE, body=body, attempt=attempt, **header)

    def _attempt(self, number: int) -> int:
        """The attempt of the delegation as it last came here."""
        for received in self.inbox:
            if received.kind is Kind.DELEGATION:
                self.attempts[received.number] = received.header.attempt
                self.asked[received.number] = received.header
        return self.attempts.get(number, 1)

    def hand_back(self, agent: str, number: int) -> None:
        self.respond(agent, number, Status.REJECTED_OVERLOAD, flags=Flag.HANDED_BACK)

    def cancel(self, source: str, number: int) -> None:
        self.send(Kind.CANCEL, request_id=request_id(number), source=source.encode())

    def die(self) -> None:
        """Fall silent."""
        self.is_dead = True
        self.inbox.clear()

    # -- listening -----------------------------------------------------------------------------------------------

    def took(self, kind: Kind) -> list[Received]:
        """Take the envelopes of a kind out of the inbox."""
        self._attempt(0)
        found = [received for received in self.inbox if received.kind is kind]
        self.inbox = [received for received in self.inbox if received.kind is not kind]
        return found

    def work(self) -> list[int]:
        """Take the numbers of the delegations that came."""
        return [received.number for received in self.took(Kind.DELEGATION)]

    def outcomes(self) -> dict[int, Status]:
        """Take the responses that came: {number: status}; each number once."""
        found: dict[int, Status] = {}
        for received in self.took(Kind.RESPONSE):
            assert received.number not in found
            found[received.number] = received.status
        return found

    def outcome(self) -> Received:
        """Take the one response that came."""
        (received,) = self.took(Kind.RESPONSE)
        return received

    def refusal(self) -> Received:
        """Take the one ERROR that came."""
        (received,) = self.took(Kind.ERROR)
        return received

    @property
    def session(self) -> Session:
        (session,) = [session for session in self.bus.state.session_table.sessions if session.node == self.name]
        return session
