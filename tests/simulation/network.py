"""The wire: one connection for each socket of a node, in order while it lasts; what is under way when it breaks is lost.

    Socket (a node's end) ── Connection ── Network.table (the broker's end)
                              up, down: Pipe

As libzmq: a socket that is not connected takes nothing (IMMEDIATE), a ROUTER knows a peer by its id until it sees the
connection end, and a connection over which nothing passes is given up after 3 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

import zmq

from ether_broker.transport.zeromq.reconnect_policy import PAUSE
from ether_broker.wire.frame import read_number
from tests.simulation.timeline import Timeline

if TYPE_CHECKING:
    from tests.simulation.member import Life
    from tests.simulation.raw import RawPeer
    from tests.simulation.scenario import Weather

__all__ = ["SILENCE", "Connection", "Network", "Pipe", "Socket"]

SILENCE: Final = 3.0
"""Seconds after which libzmq gives up a connection over which nothing passes."""
_KEPT: Final = 30
"""Frames from which one is repeated late."""


class Pipe:
    """One direction of a connection."""

    __slots__ = ("_is_scheduled", "_last", "_network", "_passed", "_queue", "_take", "is_blocked", "is_dead")

    def __init__(self, network: Network, take: Callable[[bytes], None]) -> None:
        self._network = network
        self._take = take
        self._queue: deque[tuple[float, bytes]] = deque()
        self._last = 0.0
        self._is_scheduled = False
        self._passed: deque[bytes] = deque(maxlen=_KEPT)
        self.is_blocked = False
        """Whether a partition holds up what is in it."""
        self.is_dead = False

    def send(self, frame: bytes) -> None:
        """Put a frame in; it comes out later, in order."""
        if self.is_dead:
            return
        network = self._network
        self._last = at = max(self._last, network.timeline.now + network.weather.latency(network.chance))
        self._queue.append((at, frame))
        if not self._is_scheduled and not self.is_blocked:
            self._is_scheduled = True
            network.timeline.at(at, self._deliver)

    def unblock(self) -> None:
        """Let it flow again."""
        self.is_blocked = False
        if self._queue and not self._is_scheduled:
            self._is_scheduled = True
            self._network.timeline.after(0.0, self._deliver)

    def die(self) -> None:
        """Lose what is in it."""
        self.is_dead = True
        self._queue.clear()

    def _deliver(self) -> None:
        self._is_scheduled = False
        if self.is_dead or self.is_blocked:
            return
        queue, network = self._queue, self._network
        now = network.timeline.now
        while queue and queue[0][0] <= now:
            frame = queue.popleft()[1]
            self._take(frame)
            if network.weather.repeats:
                self._repeat(frame)
            if self.is_dead:
                return
        if queue and not self._is_scheduled:
            self._is_scheduled = True
            network.timeline.at(queue[0][0], self._deliver)

    def _repeat(self, frame: bytes) -> None:
        """Deliver a numbered frame twice, or an old one again: TCP does not, and a `Channel` has to bear it."""
        if not read_number(frame):
            return
        chance = self._network.chance
        self._passed.append(frame)
        if chance.random() < self._network.weather.repeats:
            self._take(chance.choice(self._passed) if chance.random() < 0.5 else frame)


class Connection:
    """A socket's connection to the broker."""

    def __init__(self, network: Network, socket: Socket) -> None:
        self.socket = socket
        self.up = Pipe(network, lambda frame: network.arrive(socket.routing_id, frame))
        self.down = Pipe(network, socket.take)
        self.is_dead = False

    def die(self) -> None:
        """Lose what is under way both ways."""
        self.is_dead = True
        self.up.die()
        self.down.die()


class Socket:
    """A node's DEALER socket: it connects again by itself, for as long as its process lives."""

    def __init__(
        self, network: Network, life: Life | RawPeer, routing_id: bytes, take: Callable[[bytes], None]
    ) -> None:
        self._network = network
        self.life = life
        """Whose process it is; or a `RawPeer`."""
        self.routing_id = routing_id
        self.take = take
        self.connection: Connection | None = None
        self._is_closed = False
        self._try_in(0.0005)

    def send(self, frame: bytes) -> None:
        """Send a frame.

        Raises:
            zmq.Again: it is not connected.
        """
        if self.connection is None:
            raise zmq.Again
        self.connection.up.send(frame)

    def lost(self) -> None:
        """Learn that the connection is gone."""
        self.connection = None
        self._try_in(self._network.chance.uniform(0.05, 0.4))

    def renew(self) -> None:
        """Give up the connection, and make another one; what is sent meanwhile is not taken."""
        if self.connection is not None:
            self._network.broke(self.connection, node_sees=None, broker_sees=PAUSE / 2)
            self.lost()

    def close(self) -> None:
        """Connect no more."""
        self._is_closed = True

    def _try_in(self, seconds: float) -> None:
        self._network.timeline.after(seconds, self._try)

    def _try(self) -> None:
        if self._is_closed or self.connection is not None:
            return
        if not self.life.is_frozen and self._network.accepts(self):
            self.connection = self._network.connect(self)
        else:
            self._try_in(self._network.chance.uniform(0.1, 0.4))


class Network:
    """All connections of the world."""

    def __init__(self, timeline: Timeline, weather: Weather, chance: Random) -> None:
        self.timeline = timeline
        self.weather = weather
        self.chance = chance
        self.table: dict[bytes, Connection] = {}
        """The peers that the broker's socket knows, by routing id."""
        self.listener: Callable[[bytes, bytes], None] | None = None
        """Who takes what arrives: (routing id, frame); None while the broker is down."""

    def arrive(self, routing_id: bytes, frame: bytes) -> None:
        """Bring a frame to the broker."""
        if self.listener is not None:
            self.listener(routing_id, frame)

    def accepts(self, socket: Socket) -> bool:
        """Whether a socket can connect now."""
        return self.listener is not None and not socket.life.cuts and socket.routing_id not in self.table

    def connect(self, socket: Socket) -> Connection:
        """Make a connection."""
        connection = self.table[socket.routing_id] = Connection(self, socket)
        return connection

    def broke(self, connection: Connection, *, node_sees: float | None, broker_sees: float) -> None:
        """Break a connection; each end sees it so many seconds later, the node never if it is None."""
        if connection.is_dead:
            return
        connection.die()
        socket = connection.socket

        def gone() -> None:
            if self.table.get(socket.routing_id) is connection:
                del self.table[socket.routing_id]

        def lost() -> None:
            if socket.connection is connection:
                socket.lost()

        self.timeline.after(broker_sees, gone)
        if node_sees is not None:
            self.timeline.after(node_sees, lost)

    def collapse(self) -> None:
        """Break every connection at once: the broker is gone."""
        self.listener = None
        for connection in list(self.table.values()):
            self.broke(connection, node_sees=self.chance.uniform(0.0, 0.01), broker_sees=0.0)
        self.table.clear()

    def partition(self, life: Life, seconds: float, *, up: bool, down: bool) -> None:
        """Hold up what a process sends, what it is sent, or both, for a while; libzmq gives up after 3 s."""
        life.cuts += 1
        held = life.connections()
        for connection in held:
            connection.up.is_blocked |= up
            connection.down.is_blocked |= down

        def heal() -> None:
            life.cuts -= 1
            if not life.cuts:
                for connection in life.connections():
                    connection.up.unblock()
                    connection.down.unblock()

        def give_up() -> None:
            for connection in held:
                self.broke(connection, node_sees=0.0, broker_sees=self.chance.uniform(0.0, 0.5))

        if seconds > SILENCE:
            self.timeline.after(SILENCE, give_up)
        self.timeline.after(seconds, heal)
