"""Peers that speak the protocol of frames by themselves: nothing of `ether.session` or `ether.node` is in them.

RawPeer     joins, numbers its frames, answers what it is given
Crowd       registers agents by the thousand, and lets them go again
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import zmq

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import INTERIM, Status
from ether_broker.errors import EtherError
from ether_broker.transport.channel import Channel, receive
from ether_broker.wire.frame import Header, Kind, join_frame, pack_envelope, read_frame, read_header
from tests.simulation.network import Connection, Socket
from tests.simulation.workload import ONCE

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Crowd", "RawPeer"]

_AGAIN = 0.3
"""Seconds between two HELLOs that have no answer."""


class RawPeer:
    """One process; it ends with the storm, and what it had is lost with it.

    Args:
        world: where it lives.
        name: of its node.
        agents: that it registers; each declares `capabilities`, and answers nothing by itself.
        chance: draws all that it does.
    """

    is_frozen = False
    cuts = 0
    capabilities = "raw.once", "raw.keen"
    """What its agents declare; the second may run twice."""

    def __init__(self, world: World, name: str, agents: list[str], chance: Random) -> None:
        self.world = world
        self.name = name
        self.agents = agents
        self.chance = chance
        self.is_dead = False
        self.is_in = False
        self.works: dict[bytes, Header] = {}
        """{request id: header} of what its agents were given and have not answered."""
        self.asked: set[bytes] = set()
        """Request ids of all that it delegated."""
        self.offset = 0.0
        """The broker's clock minus the timeline."""
        self._channel = Channel(0)
        incarnation = world.make_id()
        network = world.network
        self._sockets = (
            Socket(network, self, b"r" + incarnation, self._take), Socket(network, self, b"t" + incarnation, self._take)
        )  # fmt: skip
        self.after(0.01, self._greet)

    # -- its process ---------------------------------------------------------------------------------------------

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Do something later, if it still lives."""
        self.world.timeline.after(seconds, partial(self._run, call))

    def _run(self, call: Callable[[], None]) -> None:
        if not self.is_dead:
            call()

    def connections(self) -> list[Connection]:
        """Its connections that are up."""
        return [socket.connection for socket in self._sockets if socket.connection is not None]

    def end(self) -> None:
        """Die; its connections break at once."""
        self.is_dead = True
        for connection in self.connections():
            self.world.network.broke(connection, node_sees=None, broker_sees=0.0)
        for socket in self._sockets:
            socket.close()

    # -- frames --------------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        if self.is_in:
            return
        hello = pack_envelope(Kind.HELLO, body=pack({"node": self.name}))
        with contextlib.suppress(zmq.Again):
            self._sockets[0].send(join_frame([hello]))
        self.after(_AGAIN, self._greet)

    def say(self, *envelopes: bytes) -> None:
        """Send envelopes in one frame; none at all is a frame too."""
        self._channel.pack(deque(envelopes))
        self._push()

    def shout(self, message: bytes) -> None:
        """Send any bytes."""
        with contextlib.suppress(zmq.Again):
            self._sockets[1].send(message)

    def _push(self) -> None:
        for number, frame in self._channel.unsent():
            try:
                self._sockets[1].send(frame)
            except zmq.Again:
                return
            self._channel.sent = number

    def _rewind(self) -> None:
        self._channel.rewind()
        self._push()

    def _take(self, message: bytes) -> None:
        if self.is_dead:
            return
        with contextlib.suppress(EtherError):
            if not self.is_in:
                self._hear(read_frame(message).envelopes)
                return
            answer = receive(self._channel, message, self.world.timeline.now, self._hear, self._rewind)
            if answer is not None:
                self.shout(answer)

    def _hear(self, envelopes: list[bytes]) -> None:
        for envelope in envelopes:
            header = read_header(envelope)
            match header.kind:
                case Kind.WELCOME:
                    self._welcomed(unpack(envelope[header.body :]))
                case Kind.ERROR if unpack(envelope[header.body :]).get("code") == "no_session" and self.is_in:
                    self.is_in = False  # the broker was restarted, or has given this peer up
                    self._greet()
                case Kind.HEARTBEAT:
                    self.offset = unpack(envelope[header.body :])["clock"] - self.world.timeline.now
                case Kind.DELEGATION:
                    self.works[header.request_id] = header
                case Kind.CANCEL:
                    self.works.pop(header.request_id, None)
                case Kind.RESPONSE if header.status not in INTERIM:
                    self.world.auditor.told(self, header, envelope)

    def _welcomed(self, welcome: dict[str, Any]) -> None:
        if self.is_in and welcome["session"] == self._channel.session:
            return
        self.is_in = True
        self.offset = welcome["clock"] - self.world.timeline.now
        self._channel = Channel(welcome["session"])
        self.works.clear()
        for agent in (self.name, *self.agents):
            self.register(agent)
        self.after(1.0, self._beat)
        self.joined()

    def _beat(self) -> None:
        if self.is_in:
            self._push()
            self.say(pack_envelope(Kind.HEARTBEAT, body=pack({"agents": {}})))
            self.after(1.0, self._beat)

    def joined(self) -> None:
        """Begin with what it came for."""

    # -- envelopes -----------------------------------------------------------------------------------------------

    def register(self, agent: str, size: int = 0) -> None:
        """Register an agent; `size` bytes of its manifest are a description."""
        once, keen = self.capabilities
        declared = [{"name": once}, {"name": keen, "idempotent": True}] if agent != self.name else []
        fields = {"capabilities": declared, "max_concurrency": 9, **({"role": "x" * size} if size else {})}
        self.say(pack_envelope(Kind.REGISTER, source=agent.encode(), body=pack(fields)))

    def delegate(
        self, target: str = "", *, source: str = "", capability: str = ONCE, parent: bytes = NO_ID, request: bytes = b"",
        timeout: float = 1.0, flags: int = 0, params: object = None,
    ) -> bytes:  # fmt: skip
        """Delegate something; returns its request id."""
        request = request or self.world.make_id()
        self.asked.add(request)
        self.say(pack_envelope(
            Kind.DELEGATION, request_id=request, source=(source or self.name).encode(), target=target.encode(),
            capability=capability.encode(), parent=parent, flags=flags,
            deadline=self.world.timeline.now + self.offset + timeout,
            body=pack({"params": pack({"plan": -1}) if params is None else params}),
        ))  # fmt: skip
        return request

    def respond(self, header: Header, status: Status, source: bytes = b"") -> None:
        """Answer a delegation, in the name of who was given it or of somebody else."""
        if status not in INTERIM:
            self.works.pop(header.request_id, None)
        self.say(pack_envelope(
            Kind.RESPONSE, request_id=header.request_id, source=source or header.target, target=header.source,
            status=status, attempt=header.attempt, capability=header.capability, body=pack({}),
        ))  # fmt: skip


class Crowd(RawPeer):
    """Agents by the thousand, all of one kind; now and then some go and come again."""

    def joined(self) -> None:
        """Register them, some at a time."""
        self._come(0)

    def _come(self, first: int) -> None:
        last = first + self.chance.choice((50, 200, 1000))
        for number in range(first, min(last, self.world.scenario.crowd)):
            self.register(f"{self.name}-{number}")
        if last < self.world.scenario.crowd:
            self.after(0.02, partial(self._come, last))
        else:
            self.after(0.5, self._change)

    def _change(self) -> None:
        if not self.is_in:
            return
        for _ in range(20):
            agent = f"{self.name}-{self.chance.randrange(self.world.scenario.crowd)}".encode()
            self.say(pack_envelope(Kind.UNREGISTER, source=agent, body=pack({"condition": "gone"})))
            if self.chance.random() < 0.5:
                self.register(agent.decode())
        for header in list(self.works.values()):
            self.respond(header, Status.COMPLETED)
        self.after(0.5, self._change)
