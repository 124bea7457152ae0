"""A broker that crashes and is restarted from its journal, and processes that live on, or do not.

Everything is sans-IO. Frames lie on the wires until they are delivered; a crash takes them along, with what the journal has
not committed. A `Life` follows docs/protocol.md, "After a lost session", by itself: it shares no code with `ether.session`.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ether_actors.supervisor.state.ended import REMEMBERED
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.ids import to_bytes
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.manifest.subscription import Subscription
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import INTERIM, Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.channel import Channel, receive
from ether_broker.wire.frame import Flag, Header, Kind, join_frame, mark, pack_envelope, read_header, rehead
from tests.actors.fold import differences
from tests.actors.peers import request_id
from tests.actors.stored_journal import Disk, StoredJournal

__all__ = ["CAPABILITIES", "Asked", "Life", "Work", "World"]

CAPABILITIES = {"once": False, "twice": True}
"""{capability: whether it may run twice}."""
LATEST = 0.25
"""Seconds after a deadline in which TIMEOUT has to fall (G4)."""
_RUNNING = (Status.ACCEPTED, Status.PROGRESS)


class _Bugs(logging.Handler):
    """Lets an exception out that the supervisor survives and logs: in a test it is a bug."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)


@dataclass(eq=False)
class Asked:
    """A delegation as its delegator sees it."""

    number: int
    life: Life
    """Who wants the outcome."""
    target: str
    capability: str
    until: float
    """Wall time of the deadline."""
    outcomes: list[tuple[Status, str]] = field(default_factory=list)
    """(status, code of the error)."""
    given: list[int] = field(default_factory=list)
    """The attempts that reached a process, but for those that it gave back."""
    was_given: bool = False
    source: bytes = b""
    """The incarnation that asked; another one may collect."""
    envelope: bytes = b""
    """As it was first said."""
    before: list[tuple[Status, str]] = field(default_factory=list)
    """What it heard before it asked once more; it has to hear the same."""

    @property
    def is_volatile(self) -> bool:
        return bool(read_header(self.envelope).flags & Flag.VOLATILE)


@dataclass(eq=False)
class Work:
    """A delegation in the hands of a specialist."""

    number: int
    agent: str
    attempt: int
    is_started: bool = False
    is_called_off: bool = False


class Life:
    """One process with its node."""

    def __init__(self, world: World, name: str, agents: list[str]) -> None:
        self.world = world
        self.name = name
        self.agents = agents
        self.topics: list[str] = []
        """What its agents subscribe to."""
        self.hosted = set(agents)
        """Those that it ever had."""
        self.capabilities = CAPABILITIES
        """What each of them declares."""
        self.ahead = 0.0
        """Seconds that its machine takes it to be later."""
        self._highest = 0
        """The latest time that its machine has shown, in milliseconds."""
        self._process = next(world.ids)
        self.incarnation = b"%16d" % self._process
        self.channel = Channel(0)
        self.broker = ""
        self.offset = 0.0
        """Wall time minus the broker's clock."""
        self.heard = world.wall
        self.is_dead = False
        self.is_mute = False
        """Nothing passes in either direction."""
        self.inbound: deque[bytes] = deque()
        """On the wire to it."""
        self.early: list[bytes] = []
        """Said before the first WELCOME."""
        self.pending: dict[int, Asked] = {}
        self.works: dict[int, Work] = {}
        self.refusals: list[str] = []
        self.data: dict[int, Any] = {}
        """What came with outcomes of `ether.*`."""
        self.other: list[tuple[int, Status, str]] = []
        """Outcomes of what it never asked for: (number, status, code)."""
        self.down: list[tuple[str, str]] = []
        """What it monitored and went down: (agent or `node:NAME`, reason)."""

    # -- speaking ------------------------------------------------------------------------------------------------

    def make_number(self) -> int:
        """The number of a new request id: a UUIDv7, of which those of one process rise and end alike."""
        self._highest = max(self._highest, int((self.world.wall + self.ahead) * 1000))
        return self._highest << 80 | 7 << 76 | 2 << 62 | next(self.world.ids) << 40 | self._process

    def greet(self) -> None:
        hello = pack_envelope(Kind.HELLO, request_id=request_id(self.make_number()), body=pack({"node": self.name}))
        self.world.post(self, b"r", join_frame([hello]))

    def say(self, envelope: bytes) -> None:
        if self.channel.session:
            self.channel.pack(deque([envelope]))
            self.push()
        else:
            self.early.append(envelope)

    def push(self) -> None:
        for number, frame in self.channel.unsent():
            self.world.post(self, b"t", frame)
            self.channel.sent = number

    def monitor(self, target: str) -> None:
        number = request_id(self.make_number())
        self.say(pack_envelope(Kind.MONITOR, request_id=number, target=target.encode()))

    def beat(self) -> None:
        """What a node does each second."""
        if not self.channel.session or self.world.wall - self.heard > DEFAULT_TIMING.silence:
            self.greet()
        if self.channel.session:
            self.say(pack_envelope(Kind.HEARTBEAT, body=pack({"agents": {}})))

    def ask(
        self, capability: str, *, to: str = "", timeout: float = 10.0, flags: int = 0, source: str = "",
        parent: int = 0, params: Any = None,
    ) -> Asked:  # fmt: skip
        number = self.make_number()
        asked = Asked(number, self, to, capability, self.world.wall + timeout, source=self.incarnation)
        self.pending[number] = self.world.asked[number] = asked
        asked.envelope = pack_envelope(
            Kind.DELEGATION, request_id=request_id(number), source=(source or self.name).encode(), target=to.encode(),
            capability=capability.encode(), deadline=asked.until - self.offset, flags=flags, parent=request_id(parent),
            body=pack({} if params is None else {"params": pack(params)}),
        )  # fmt: skip
        self.say(asked.envelope)
        return asked

    def ask_again(self, asked: Asked, flags: int = 0) -> None:
        """Send once more what it had asked, however long ago."""
        asked.before, asked.outcomes = asked.outcomes or asked.before, []
        self.pending[asked.number] = asked
        header = read_header(asked.envelope)
        again = rehead(
            header, asked.envelope, deadline=self.world.wall + 10.0 - self.offset, flags=header.flags | flags
        )
        self.say(again)

    def register_anew(self, capabilities: dict[str, bool]) -> None:
        """Declare others from now on."""
        self.capabilities = capabilities
        for envelope in self._registrations():
            self.say(envelope)

    def leave(self, agent: str, *, moves: bool = False) -> None:
        """Stop an agent for good, or for another node: what it had not begun goes back; no more is said of what it had."""
        self.agents.remove(agent)
        for number in [number for number, work in self.works.items() if work.agent == agent]:
            if self.works[number].is_started:
                del self.works[number]
            else:
                self.hand_back(number)
        said = {"condition": "gone", **({"moves": True} if moves else {})}
        self.say(pack_envelope(Kind.UNREGISTER, source=agent.encode(), body=pack(said)))

    def bye(self) -> None:
        """Leave with all agents."""
        self.say(pack_envelope(Kind.BYE))

    def add(self, agent: str) -> None:
        """Start an agent."""
        self.agents.append(agent)
        if self.channel.session:
            self.say(self._registrations()[-1])

    def cancel(self, number: int) -> None:
        self.say(pack_envelope(Kind.CANCEL, request_id=request_id(number), source=self.name.encode()))

    def answer(self, number: int, status: Status = Status.COMPLETED, *, flags: int = 0) -> None:
        work = self.works[number]
        if status in _RUNNING:
            work.is_started = True
        else:
            del self.works[number]
        if flags & Flag.HANDED_BACK:
            self.world.asked[number].given.remove(work.attempt)
        self.say(pack_envelope(
            Kind.RESPONSE, request_id=request_id(number), source=work.agent.encode(), status=status, flags=flags,
            attempt=work.attempt, target=self.world.asked[number].life.name.encode(), body=pack({"summary": "done"}),
        ))  # fmt: skip

    def hand_back(self, number: int) -> None:
        self.answer(number, Status.REJECTED_OVERLOAD, flags=Flag.HANDED_BACK)

    def await_again(self, numbers: list[int]) -> None:
        self.say(pack_envelope(Kind.RESUME, body=pack({"awaiting": [request_id(number) for number in numbers]})))

    def collect(self) -> Asked:
        """Ask what an earlier life of this name is still owed; `claim` the answer."""
        return self.ask("ether.outcomes")

    def claim(self, question: Asked) -> list[Asked]:
        """Want what the answer to `collect` lists."""
        rows = unpack(self.data[question.number]["data"])["items"]
        found = [self.world.asked[number] for row in rows if (number := _number(row["request_id"])) in self.world.asked]
        wanted = [asked for asked in found if asked.life is not self]
        for asked in wanted:
            asked.life, asked.outcomes = self, []
            self.pending[asked.number] = asked
        self.await_again([asked.number for asked in wanted])
        return wanted

    # -- listening -----------------------------------------------------------------------------------------------

    def hear(self, count: int | None = None) -> None:
        """Take so many of the frames that are on the wire; default: all."""
        while self.inbound and count != 0:
            message = self.inbound.popleft()
            self.heard = self.world.wall
            answer = receive(self.channel, message, self.world.wall, self._take, self._rewind)
            if answer is not None:
                self.world.post(self, b"t", answer)
            count = None if count is None else count - 1

    def _rewind(self) -> None:
        self.channel.rewind()
        self.push()

    def _take(self, envelopes: list[bytes]) -> None:
        for envelope in envelopes:
            header = read_header(envelope)
            match header.kind:
                case Kind.WELCOME:
                    self._welcomed(unpack(envelope[header.body :]))
                case Kind.ERROR:
                    message = unpack(envelope[header.body :])["message"]
                    self.refusals.append(message)
                    if "HELLO" in message:
                        self.greet()
                case Kind.DELEGATION:
                    self._given(header)
                case Kind.CANCEL:
                    work = self.works.get(_number(header.request_id))
                    if work is not None and work.attempt == header.attempt:
                        work.is_called_off = True
                    else:  # a node answers for what it does not hold: the credit is given back with that
                        self.say(pack_envelope(
                            Kind.RESPONSE, status=Status.CANCELLED, request_id=header.request_id, source=header.target,
                            capability=header.capability, attempt=header.attempt, body=pack({}),
                        ))  # fmt: skip
                case Kind.RESPONSE:
                    self._outcome(header, envelope)
                case Kind.DOWN:
                    self.down.append((header.target.decode(), unpack(envelope[header.body :])["reason"]))

    def _given(self, header: Header) -> None:
        number, agent = _number(header.request_id), header.target.decode()
        asked = self.world.asked[number]
        assert header.attempt not in asked.given, "G3: the same run was given twice"
        assert CAPABILITIES[asked.capability] or not asked.given, "G3: may run twice"
        if asked.target and not asked.was_given and not asked.is_volatile:
            self.world.first_runs.setdefault((asked.source, agent), []).append(number)
        asked.was_given = True
        asked.given.append(header.attempt)
        self.works[number] = Work(number, agent, header.attempt)
        if agent not in self.agents:  # it has just left
            assert agent in self.hosted, "given to a node that does not host the agent"
            self.hand_back(number)

    def _outcome(self, header: Header, envelope: bytes) -> None:
        number, status, body = _number(header.request_id), Status(header.status), unpack(envelope[header.body :])
        code = (body.get("error") or {}).get("code", "")
        asked = self.pending.get(number)
        if asked is None:
            self.other.append((number, status, code))
        elif status.is_terminal:
            assert not asked.outcomes, "G1: a second outcome"
            asked.outcomes.append((status, code))
            assert asked.before in ([], asked.outcomes), "G2: another outcome than before"
            del self.pending[number]
            self.data[number] = body

    # -- joining -------------------------------------------------------------------------------------------------

    def _welcomed(self, welcome: dict[str, Any]) -> None:
        if welcome["session"] == self.channel.session:
            return
        is_first, shift = not self.broker, self.offset
        self.offset = self.world.wall - welcome["clock"]
        shift -= self.offset
        left = [] if is_first else self.channel.unacknowledged()
        self.broker = welcome["broker"]
        self.channel = Channel(welcome["session"])
        if is_first:
            first = [*self._registrations(), *(_shifted(envelope, shift) for envelope in self.early)]
            self.early.clear()
        else:
            first = self._resume([_shifted(envelope, shift) for envelope in left])
        for envelope in first:
            self.say(envelope)

    def _registrations(self) -> list[bytes]:
        found = []
        for agent in (self.name, *self.agents):
            capabilities = self.capabilities.items() if agent != self.name else ()
            manifest = Manifest(
                agent=agent,
                capabilities=tuple(Capability(name=name, idempotent=may_repeat) for name, may_repeat in capabilities),
                subscriptions=tuple(Subscription(topic=topic) for topic in self.topics if agent != self.name),
            )
            fields = manifest.model_dump(mode="json", exclude_defaults=True)
            number = self.make_number()
            found.append(pack_envelope(
                Kind.REGISTER, request_id=request_id(number), source=fields.pop("agent").encode(), body=pack(fields)
            ))  # fmt: skip
        return found

    def _resume(self, left: list[bytes]) -> list[bytes]:
        holding: dict[str, list[list[Any]]] = {}
        for work in self.works.values():
            holding.setdefault(work.agent, []).append([request_id(work.number), work.attempt])
        again, gone = [], set()
        for envelope in left:
            header = read_header(envelope)
            if header.kind == Kind.UNREGISTER and unpack(envelope[header.body :]).get("condition") == "gone":
                gone.add(header.source)  # a node takes no work for an agent that has left
            if header.kind == Kind.RESPONSE and header.status not in INTERIM:
                holding.setdefault(header.source.decode(), []).append([header.request_id, header.attempt])
            if header.kind == Kind.DELEGATION and _number(header.request_id) not in self.pending:
                continue
            if header.kind in (Kind.DELEGATION, Kind.RESPONSE, Kind.CANCEL, Kind.UNREGISTER):
                again.append(envelope if header.kind == Kind.UNREGISTER else mark(envelope, Flag.RESENT))
        registrations = self._registrations()
        return [
            pack_envelope(Kind.RESUME, body=pack({"holding": holding})),
            *(envelope for envelope in registrations if read_header(envelope).source not in gone),
            *again,
            *(envelope for envelope in registrations if read_header(envelope).source in gone),
            pack_envelope(Kind.RESUME, body=pack({"awaiting": [request_id(number) for number in self.pending]})),
        ]


TIMING: Final = Timing(patience=2.0)


class World:
    """One bus."""

    def __init__(
        self, *, synced: bool = True, window: int = 2, count: int = 1000, remembered: int = REMEMBERED,
        timing: Timing = TIMING,
    ) -> None:  # fmt: skip
        self.ids = itertools.count(1)
        self.wall = 1e9
        """The time."""
        self.ahead = 0.0
        """Seconds that the broker's machine takes it to be later."""
        self.boot = "boot-1"
        self.offset = self.wall - 1000.0
        self.limits = Limits(mailbox_count=count, window=window)
        self.journal = StoredJournal(Disk(), synced=synced, remembered=remembered)
        self.lives: list[Life] = []
        self.asked: dict[int, Asked] = {}
        self.first_runs: dict[tuple[bytes, str], list[int]] = {}
        """{(delegator, agent): what it was given of it for the first time, in order}."""
        self._to_broker: list[tuple[bytes, bytes]] = []
        self.has_stepped = False
        """Whether the present broker has stepped at the present time."""
        self.timing = timing
        """Of the next broker."""
        self.supervisor = self._start()

    def _start(self) -> Supervisor:
        make_id: Callable[[], bytes] = lambda: request_id(next(self.ids))  # noqa: E731  short
        supervisor = Supervisor(
            limits=self.limits, journal=self.journal, timing=self.timing, make_id=make_id,
            remembered=self.journal.remembered,
        )  # fmt: skip
        supervisor.recover(self.now, self.wall + self.ahead, self.boot)
        self.journal.live.begin(self.boot, self.now, self.wall + self.ahead)
        self.has_stepped = False
        return supervisor

    @property
    def now(self) -> float:
        """The broker's clock."""
        return self.wall - self.offset

    def crash(self, *, down: float = 0.5, clock: float | None = 5000.0, jump: float = 0.0) -> None:
        """End the broker, lose what is on the wires and not committed, and start another.

        Args:
            down: seconds until that.
            clock: what its clock shows then, since the machine was restarted too; None: it was not.
            jump: seconds by which the machine's wall clock was set meanwhile.
        """
        self._to_broker.clear()
        for life in self.lives:
            life.inbound.clear()
        self.journal = self.journal.crash()
        self.wall += down
        self.ahead += jump
        if clock is not None:
            self.offset = self.wall - clock
            self.boot = f"boot-{next(self.ids)}"
        self.supervisor = self._start()

    def life(self, name: str, *agents: str, topics: Sequence[str] = ()) -> Life:
        """A process that has just been started; it joins when the wires move."""
        life = Life(self, name, list(agents))
        life.topics.extend(topics)
        self.lives.append(life)
        life.greet()
        return life

    def post(self, life: Life, role: bytes, frame: bytes) -> None:
        if not life.is_mute:
            self._to_broker.append((role + life.incarnation, frame))

    def step(self) -> None:
        """Let everything that is under way to the broker arrive, and put on the wires what it sends."""
        arrivals, self._to_broker = self._to_broker, []
        logger, bugs = logging.getLogger("ether.supervisor"), _Bugs(logging.ERROR)
        logger.addHandler(bugs)
        try:
            self.supervisor.step(arrivals, self.now, self.wall + self.ahead)
        finally:
            logger.removeHandler(bugs)
        self.has_stepped = True
        assert differences(self.supervisor, self.journal.live) == [], "G2: the journal tells another state"
        session_table = self.supervisor.state.session_table
        by_id = {life.incarnation: life for life in self.lives}
        for routing_id, frame in session_table.outgoing():
            life = by_id.get(routing_id[1:])
            if life is None or life.is_dead:
                session_table.unreachable(routing_id)
            elif not life.is_mute:
                life.inbound.append(frame)

    def lose_frames(self, life: Life, *, both: bool) -> None:
        """Lose what is on one life's wires."""
        life.inbound.clear()
        if both:
            self._to_broker = [item for item in self._to_broker if item[0][1:] != life.incarnation]

    def settle(self, rounds: int = 12) -> None:
        """Let the frames move until nothing moves; everything is committed at once meanwhile."""
        for _ in range(rounds):
            self.journal.sync()
            self.step()
            for life in self.lives:
                if not life.is_dead:
                    life.hear()

    def pass_time(self, seconds: float, *, moving: bool = True) -> None:
        """Let the time pass in quarters of a second; with `moving` the wires and the journal work meanwhile."""
        for quarter in range(1, int(seconds * 4) + 1):
            self.wall += 0.25
            if quarter % 4 == 0:
                for life in self.lives:
                    if not life.is_dead:
                        life.beat()
            if moving:
                self.settle(3)
            else:
                self.step()


def _number(raw: bytes | str) -> int:
    return int.from_bytes(raw if isinstance(raw, bytes) else to_bytes(raw))


def _shifted(envelope: bytes, seconds: float) -> bytes:
    """A delegation's deadline by the clock of another broker."""
    header = read_header(envelope)
    if header.kind != Kind.DELEGATION:
        return envelope
    return rehead(header, envelope, deadline=header.deadline + seconds)
