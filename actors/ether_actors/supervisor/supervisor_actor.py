"""The supervisor as a pykka actor whose mailbox is the broker's socket.

pykka's own loop asks the inbox for the next envelope; ours waits at the socket and hands over everything that is there
as one message. So a batch of frames costs one actor hop, and the supervisor keeps pykka's life cycle: `start`, `stop`,
`is_alive`, and the messages that other threads tell it.

A server of the same process (`SharedServer`) lets the threads of handlers step it too, as each of their turns ends, and those
within `Runtime.ask`. Then the actor does what is due, what has been left to it, and what it is told.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

import pykka

from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.clock import Clock, SystemClock
from ether_broker.errors import EtherError
from ether_broker.transport.server import Server, SharedServer
from ether_broker.transport.step_lock import StepLock

if TYPE_CHECKING:
    from pykka._actor import ActorInbox

    from ether_broker.transport.address import Address
    from ether_broker.wire.frame import Message

__all__ = ["TAP_INTERVAL", "SupervisorActor"]

logger = logging.getLogger("ether.supervisor")
_RETRY = 0.01
_IN_A_ROW: Final = 4
"""Steps that a thread does for others before the actor goes on."""
TAP_INTERVAL: Final = 0.005
"""Seconds that observers may be behind while little passes: each batch costs a frame. When nothing follows, they wait 10 ms."""


class _Envelope:
    """A pykka envelope: a message and whom to answer."""

    __slots__ = ("message", "reply_to")

    def __init__(self, message: Any, reply_to: Any = None) -> None:
        self.message = message
        self.reply_to = reply_to


_LOOK: Final = _Envelope(())
"""Of a shared server: what has come is taken under its lock."""


class _SocketInbox:
    """The inbox of the supervisor's actor: what the socket has and what was told, system messages first."""

    def __init__(self) -> None:
        self._told: deque[Any] = deque()
        self._socket: Server | None = None
        self._shared: SharedServer | None = None
        self.timeout = 0.0
        """Seconds that the next `get` may wait."""

    def attach(self, socket: Server, shared: SharedServer | None) -> None:
        self._socket, self._shared = socket, shared

    def put(self, envelope: Any, /) -> None:
        self._told.append(envelope)
        if self._socket is not None:
            self._socket.wake()

    def get(self) -> Any:
        if self._told:
            return self._told.popleft()
        if self._shared is not None:
            self._shared.wait(self.timeout)
            return _LOOK
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
        self._shared = socket if isinstance(socket, SharedServer) else None
        self._lock = StepLock() if self._shared is None else self._shared.lock
        self._sleeps_until = inf
        self._has_stopped = False
        self._clock = clock or SystemClock()
        self.supervisor = supervisor or Supervisor(tap_interval=TAP_INTERVAL)
        self.supervisor.state.journal.on_commit = socket.wake  # what the commit holds may leave now
        self.actor_inbox.attach(socket, self._shared)
        if self._shared is not None:
            self._shared.on_turn_end = self._step_here

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
        result = None
        with self._lock:
            try:
                if callable(message):
                    result = message(self.supervisor)
                    message = ()
                self._sleeps_until = self._step(message)
            except Exception:
                logger.exception("what the supervisor was told failed")
        self.actor_inbox.timeout = max(0.0, self._sleeps_until - self._clock.monotonic())
        return result

    def _step(self, arrivals: Sequence[tuple[Address, Message]]) -> float:
        """Step under the lock; returns when to step again though nothing comes. A shared server is asked for what has come."""
        supervisor, socket, clock, shared = self.supervisor, self._socket, self._clock, self._shared
        try:
            if shared is not None:
                link = shared.only
                if link is not None and link.is_direct:
                    shared.is_told = False  # first: what is added from now on is said anew
                    sent = supervisor.step_direct(link, clock.monotonic(), clock.wall())
                    if sent is not None:
                        link.take_direct(sent)
                        return supervisor.state.schedule.next
                arrivals = shared.receive(0.0)
            supervisor.step(arrivals, clock.monotonic(), clock.wall())
            socket.transmit(supervisor.state.session_table)
        except Exception:
            logger.exception("a step of the supervisor failed")
        if not socket.is_blocked:
            return supervisor.next_wake()
        supervisor.state.session_table.retry()
        return min(supervisor.next_wake(), clock.monotonic() + _RETRY)

    def _step_here(self) -> None:
        """Step in the calling thread, unless another steps, which then goes on."""
        shared = self._shared
        assert shared is not None
        for _ in range(_IN_A_ROW):
            if not shared.lock.acquire(blocking=False):
                return  # who has it looks once more
            try:
                if self._has_stopped:
                    return
                if self._step(()) < self._sleeps_until:
                    shared.wake()
            except BaseException:  # noqa: BLE001  such as a log handler's exit: not the end of the turn after which this steps
                shared.wake()
            finally:
                shared.lock.release()
            if not shared.has_news:
                return
        shared.wake()

    def on_stop(self) -> None:
        """Commit and send what waits, and let go of the journal and the address."""
        state = self.supervisor.state
        with self._lock:
            self._has_stopped = True
            try:
                self.supervisor.finish(self._clock.monotonic(), self._clock.wall())
            except Exception:
                logger.exception("what waited at the end was not ruled on")
            try:
                state.journal.close()
            except EtherError as error:
                logger.warning("the journal was not closed in order: %s", error)
            state.session_table.release(state.journal.committed)
            self._socket.transmit(state.session_table)
        self._socket.close()
