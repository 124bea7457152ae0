"""The supervisor as a pykka actor whose mailbox is the broker's socket.

pykka's own loop asks the inbox for the next envelope; ours waits at the socket and hands over everything that is there
as one message. So a batch of frames costs one actor hop, and the supervisor keeps pykka's life cycle: `start`, `stop`,
`is_alive`, and the messages that other threads tell it.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import pykka

from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.clock import Clock, SystemClock
from ether_broker.errors import EtherError
from ether_broker.transport.server import Server

if TYPE_CHECKING:
    from pykka._actor import ActorInbox

__all__ = ["TAP_INTERVAL", "SupervisorActor"]

logger = logging.getLogger("ether.supervisor")
_RETRY = 0.01
TAP_INTERVAL: Final = 0.005
"""Seconds that observers may be behind while little passes: each feeding costs two frames."""


class _Envelope:
    """A pykka envelope: a message and whom to answer."""

    __slots__ = ("message", "reply_to")

    def __init__(self, message: Any, reply_to: Any = None) -> None:
        self.message = message
        self.reply_to = reply_to


class _SocketInbox:
    """The inbox of the supervisor's actor: what the socket has and what was told, system messages first."""

    def __init__(self) -> None:
        self._told: deque[Any] = deque()
        self._socket: Server | None = None
        self.timeout = 0.0
        """Seconds that the next `get` may wait."""

    def attach(self, socket: Server) -> None:
        self._socket = socket

    def put(self, envelope: Any, /) -> None:
        self._told.append(envelope)
        if self._socket is not None:
            self._socket.wake()

    def get(self) -> Any:
        if self._told:
            return self._told.popleft()
        assert self._socket is not None
        return _Envelope(self._socket.receive(self.timeout))

    def empty(self) -> bool:
        return not self._told


class SupervisorActor(pykka.ThreadingActor):
    """The pykka actor that owns the broker's socket and steps the supervisor; started with `start(socket)`.

    Promises: a bug in one step is logged and costs what that step had in hand, never the actor. When it stops it sends
    what waits in the outboxes, and closes the socket.
    """

    use_daemon_thread = True
    actor_inbox: _SocketInbox

    def __init__(self, socket: Server, supervisor: Supervisor | None = None, clock: Clock | None = None) -> None:
        super().__init__()
        self._socket = socket
        self._clock = clock or SystemClock()
        self.supervisor = supervisor or Supervisor(tap_interval=TAP_INTERVAL)
        self.supervisor.state.journal.on_commit = socket.wake  # what the commit holds may leave now
        self.actor_inbox.attach(socket)

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> Any:
        """Start it as pykka does, but outside pykka's registry.

        `ActorRegistry.stop_all()`, which pykka calls when any actor of the process raises a BaseException, must not stop the
        bus.
        """
        actor = cls(*args, **kwargs)
        actor._start_actor_loop()
        return actor.actor_ref

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return _SocketInbox()

    def on_receive(self, message: Any) -> Any:
        """Step with a batch of the socket; a callable, told or asked, runs with the supervisor."""
        supervisor = self.supervisor
        result = None
        try:
            if callable(message):
                result = message(supervisor)
                message = ()
            supervisor.step(message, self._clock.monotonic(), self._clock.wall())
            self._socket.transmit(supervisor.state.session_table)
        except Exception:
            logger.exception("a step of the supervisor failed")
        blocked = self._socket.is_blocked
        if blocked:
            supervisor.state.session_table.retry()
        wait = supervisor.next_wake() - self._clock.monotonic()
        self.actor_inbox.timeout = min(wait, _RETRY) if blocked else max(wait, 0.0)
        return result

    def on_stop(self) -> None:
        """Commit and send what waits, and let go of the journal and the address."""
        state = self.supervisor.state
        try:
            state.journal.close()
        except EtherError as error:
            logger.warning("the journal was not closed in order: %s", error)
        state.session_table.release(state.journal.committed)
        self._socket.transmit(state.session_table)
        self._socket.close()
