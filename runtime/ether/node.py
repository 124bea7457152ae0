"""A node: one process's place on the bus. It hosts agents, keeps the handles of what it delegates, and has one link.

Runtime ── delegate ──► Node ── link ──► broker        what is asked of others
broker ── link ──► Node.received ─┬─► Cell.post        what is asked of its agents
                                  ├─► Handle.deliver   what became of what it asked
                                  └─► Observing.post   what passed
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from ether.monitor import Monitor
from ether.observing import Observing
from ether_actors.agent import Agent
from ether_actors.cell import Cell, Work
from ether_actors.handle import Handle
from ether_actors.loop import LoopThread
from ether_actors.observer import Observer
from ether_actors.pool import Pool, current_pool
from ether_actors.task import Task
from ether_broker import errors
from ether_broker.clock import Clock
from ether_broker.codec import id_bytes, pack_delegation, pack_outcome, pack_request, pack_response
from ether_broker.delegation import Delegation
from ether_broker.errors import EtherError
from ether_broker.ids import new_id, to_text
from ether_broker.link import Link
from ether_broker.payload import EMPTY, MAX_PAYLOAD, Payload, pack, unpack
from ether_broker.response import ErrorInfo, Response
from ether_broker.router import HEARTBEAT, SILENCE
from ether_broker.status import Status
from ether_broker.version import SCHEMA_VERSION
from ether_broker.wire import Flag, Header, Kind, pack_envelope, read_header

if TYPE_CHECKING:
    from ether_actors.child_spec import SupervisorSpec
    from ether_actors.guardian import Guardian

__all__ = ["Node"]

logger = logging.getLogger("ether.node")

GRACE: Final = 2.0
"""Seconds after a deadline in which the supervisor's word must have come; then the broker is out of reach."""
_REPLY: Final = 10.0
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1
_BROKER_LOST: Final = "The broker was lost, or had given this node up, and this went with it."
_ACCEPT_AFTER: Final = 0.5
"""Seconds after which the first sign of long work, ACCEPTED, is sent."""
_SAMPLES: Final = 16
_CODES: Final = {
    error.code: error
    for error in (
        errors.DuplicateAgent, errors.InvalidEnvelope, errors.InvalidManifest, errors.IncompatibleVersion,
        errors.MalformedFrame,
    )
}  # fmt: skip


_T = TypeVar("_T")


class _Reply:
    """What a control envelope is answered."""

    __slots__ = ("body", "event", "kind")

    def __init__(self) -> None:
        self.event = threading.Event()
        self.kind = 0
        self.body: dict[str, Any] = {}


class Node:
    """One process's place on the bus.

    Args:
        name: unique on the bus; also the name of the agent that delegates from plain code.
        link: not yet open.
        clock: read for deadlines.
        threads: handlers of plain methods that run at a time.
        pool: where plain handlers run; default: one of `threads` threads.
        loop: where `async def` handlers run; default: one with a thread of its own.
    """

    handle_type: ClassVar[type[Handle]] = Handle
    """What `delegate` gives; the double of the runtime has another."""

    def __init__(
        self, name: str, link: Link, clock: Clock, *, threads: int = 4, pool: Pool | None = None,
        loop: LoopThread | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.lock = threading.Lock()
        self.loop = loop or LoopThread()
        self.pool = pool or Pool(threads)
        self.random = random.Random()  # noqa: S311  jitter is no secret
        self.make_id = new_id
        """Makes the request ids; the double of the runtime counts instead."""
        self._link = link
        self._clock = clock
        self._source = name.encode()
        self._pending: dict[bytes, Handle] = {}
        self._cells: dict[bytes, Cell] = {}
        self._private_pools: list[Pool] = []
        self._replies: dict[bytes, _Reply] = {}
        self._observing: dict[bytes, Observing] = {}
        self._monitors: dict[bytes, Monitor] = {}
        self._guardians: list[Guardian] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_ids = itertools.count()
        self._offsets: deque[float] = deque(maxlen=_SAMPLES)
        self._offset = 0.0
        self._session: tuple[str, int] = ("", 0)
        """The broker's incarnation, and its number for our stay there."""
        self._heard = 0.0
        self._next_beat = 0.0
        self._limit = MAX_PAYLOAD
        self._default_timeout = 60.0
        self._draining = False
        self._leaving: set[bytes] = set()
        """Agents that take nothing new."""
        self._orphans: set[Work] = set()
        """What still runs for a broker that was lost; its answer must not be taken for another run's."""
        self._left = False
        """Whether BYE has been said: nothing follows it."""
        self._farewell = threading.Event()
        self.on_escalation: Callable[[str, str], None] = lambda _tree, _reason: None
        """Told when a supervision tree gave up: its id and why."""

    @property
    def endpoint(self) -> str:
        """The broker's address."""
        return self._link.endpoint

    # -- joining and leaving -------------------------------------------------------------------------------------

    def join(self, timeout: float) -> None:
        """Say HELLO until the broker answers, then begin to receive.

        Raises:
            BrokerUnavailable: nobody answered within `timeout` seconds.
            NodeRefused, IncompatibleVersion: the broker does not let us in.
        """
        end = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            self._link.greet(self._hello())  # lost while the socket still connects: said again soon, then less often
            for envelope in self._link.first(min(pause, max(0.001, end - time.monotonic()))):
                header = read_header(envelope)
                if header.kind == Kind.WELCOME:
                    self._welcome(unpack(envelope[header.body :]))
                    self._link.open(self)
                    self._register_self()
                    return
                if header.kind == Kind.ERROR:
                    raise _error(unpack(envelope[header.body :]), errors.NodeRefused)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if time.monotonic() >= end:
                msg = f"No broker answers at {self.endpoint} (waited {timeout:g} s): start one with `ether up`."
                raise errors.BrokerUnavailable(msg)

    def _hello(self) -> bytes:
        info = {
            "node": self.name, "pid": os.getpid(), "host": os.uname().nodename, "schema_version": SCHEMA_VERSION,
            "python": sys.version.partition(" ")[0],
        }  # fmt: skip
        return pack_envelope(Kind.HELLO, request_id=new_id(), body=pack(info))

    def _welcome(self, body: dict[str, Any]) -> None:
        self._heard = self.monotonic()
        self._limit = body["max_payload"]
        self._default_timeout = body["default_timeout"]
        self._session = (body["broker"], body["session"])
        self._offsets.clear()
        self._note_clock(body["clock"])

    def _note_clock(self, broker_clock: float) -> None:
        """The message was under way, so each sample is early; the latest of them is the nearest to the truth."""
        self._offsets.append(broker_clock - self.monotonic())
        self._offset = max(self._offsets)

    def _register_self(self) -> None:
        body = pack({"role": "delegator"})
        self._link.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=self._source, body=body))

    def _welcome_back(self, body: dict[str, Any]) -> None:
        """Register again; a broker that was started anew, or has given us up, knows nothing of what was before.

        REGISTER goes out before the handles end: who delegates again at once is known there by then. What waited in the
        link until now goes ahead of it, and so is not taken for something new.
        """
        broker, stay = self._session
        self._welcome(body)
        if self._session == (broker, stay):
            return  # we had said HELLO twice
        owed = list(self._pending.values())
        self._register_again()
        self._forget_session(owed, is_new_broker=self._session[0] != broker)

    def _forget_session(self, owed: list[Handle], *, is_new_broker: bool) -> None:
        """End what the broker owed us, call off what was done for it, and watch on."""
        logger.warning("the broker was lost, and %d delegations with it", len(owed))
        for cell in list(self._cells.values()):
            for request_id, work in list(cell.works.items()):
                self._orphans.add(work)
                cell.cancel(request_id)
        for token, observing in list(self._observing.items()):
            if is_new_broker:
                observing.begin_again()
            self._link_send(self._wish(token, observing.observer, observing.following))
        for handle in owed:
            self._end_locally(handle, Status.FAILED_EXECUTION, "broker_lost", _BROKER_LOST)
        monitors, self._monitors = self._monitors, {}
        for monitor in monitors.values():  # as OTP's `noconnection`: nobody knows how the target is
            self.run(lambda lost=monitor: lost.fire("broker_lost"))  # type: ignore[misc]

    def close(self, drain: float) -> None:
        """Leave the bus: no new work; what runs has `drain` seconds, what was not started is handed back.

        What still runs after that is answered for by the broker (G3), before its handler is called off.
        """
        if self._draining:
            return
        self._draining = True
        self._link_send(pack_envelope(Kind.UNREGISTER, flags=Flag.HANDED_BACK))
        cells = list(self._cells.values())
        for cell in cells:
            self._hand_back(cell.take_unstarted())
        is_answered = self._await_deliveries()
        end = time.monotonic() + drain
        idle = [
            self.wait(cell.inbox.idle(), max(0.0, end - time.monotonic())) for cell in cells if cell.inbox is not None
        ]
        self._link_send(pack_envelope(Kind.BYE))
        self._left = True
        self._link.flush()
        if is_answered:
            self.wait(self._farewell, 1.0)
        for guardian in list(self._guardians):
            guardian.stop()
        for guardian in list(self._guardians):
            guardian.wait(max(0.5, end - time.monotonic()))
        for cell in list(self._cells.values()):
            cell.stop()
        for observing in list(self._observing.values()):
            observing.stop()
        for handle in list(self._pending.values()):
            self._end_locally(handle, Status.CANCELLED, "closed", "The runtime was closed.")
        self._link.close(1.0)
        patience = 2.0 if all(idle) else 0.2  # what has not ended in its time will not in two seconds more
        self.loop.close(patience)
        for pool in (self.pool, *self._private_pools):
            pool.close(patience)

    def _await_deliveries(self) -> bool:
        """Wait until everything is here that the broker sent before it read our last word; False if it does not answer.

        The broker answers a monitor of nobody at once, and the answer comes behind all that was under way.
        """
        if self._link.is_receiving_thread or not self._is_heard():
            return False
        token = new_id()
        reply = self._replies[token] = _Reply()
        self._link_send(pack_envelope(Kind.MONITOR, request_id=token, target=b"node:"))
        self._link.flush()
        self.wait(reply.event, 1.0)
        self._replies.pop(token, None)
        return reply.event.is_set()

    def _link_send(self, envelope: bytes, *, hold: bool = False) -> None:
        if self._left:
            return
        try:
            self._link.send(envelope, hold=hold)
        except EtherError as error:
            logger.warning("could not tell the broker: %s", error)

    def _hand_back(self, works: list[Work]) -> None:
        for work in reversed(works):
            header = work.header
            self._link_send(pack_envelope(
                Kind.RESPONSE, status=Status.REJECTED_OVERLOAD, flags=Flag.HANDED_BACK, request_id=header.request_id,
                source=header.target, target=header.source, capability=header.capability, attempt=header.attempt,
            ))  # fmt: skip

    def _confirm(self, cancel: Header) -> None:
        """Answer a CANCEL of what is not here any more: the broker waits for a last word to give the credit back."""
        self._link_send(pack_envelope(
            Kind.RESPONSE, status=Status.CANCELLED, request_id=cancel.request_id, source=cancel.target,
            capability=cancel.capability, body=pack({}),
        ))  # fmt: skip

    # -- delegating ----------------------------------------------------------------------------------------------

    def delegate(self, delegation: Delegation, deadline: float | None) -> Handle:
        """Send a delegation; every failure to do so is the handle's outcome, or raised before anything is sent.

        Args:
            delegation: with `from_agent` set.
            deadline: seconds by this node's clock; None takes the bus's default.

        Raises:
            PayloadTooLarge, InvalidEnvelope: it cannot be sent as it is.
            Closed: the runtime has been closed.
        """
        if self._draining and delegation.parent is None:
            msg = "The runtime has been closed and delegates nothing more."
            raise errors.Closed(msg)
        if deadline is None:
            deadline = self.monotonic() + self._default_timeout
        if delegation.context_sha256 is None and delegation.context_payload != EMPTY:
            delegation = delegation.model_copy(update={"context_sha256": delegation.context_payload.digest()})
        envelope = pack_delegation(delegation, deadline=deadline + self._offset, limit=self._limit)
        request_id = id_bytes(delegation.request_id)
        source = (delegation.from_agent or "").encode()
        return self._send(request_id, source, delegation.capability.encode(), envelope, deadline)

    def request(self, target: str | None, capability: str, params: Payload, timeout: float | None) -> Handle:
        """Delegate from plain code what has nothing to say but what, to whom, and until when.

        Args:
            target: None lets the registry choose.
            capability: both names have been checked.
            params: packed.
            timeout: seconds, positive; None takes the bus's default.

        Raises:
            PayloadTooLarge, Closed: as `delegate`.
        """
        if self._draining:
            msg = "The runtime has been closed and delegates nothing more."
            raise errors.Closed(msg)
        request_id = self.make_id()
        name = capability.encode()
        deadline = self.monotonic() + (self._default_timeout if timeout is None else timeout)
        envelope = pack_request(
            request_id, self._source, b"" if target is None else target.encode(), name, params, timeout=timeout,
            timestamp=self.wall(), deadline=deadline + self._offset, limit=self._limit,
        )  # fmt: skip
        return self._send(request_id, self._source, name, envelope, deadline)

    def _send(self, request_id: bytes, source: bytes, capability: bytes, envelope: bytes, deadline: float) -> Handle:
        handle = self.handle_type(self, request_id, source, capability, envelope, deadline)
        more = bool(self._pending)  # a delegator with others under way is likely to send yet another
        self._pending[request_id] = handle
        try:
            self._link.send(envelope, hold=more)
        except errors.MailboxFull as error:
            self._end_locally(handle, Status.REJECTED_OVERLOAD, "link_full", str(error), retry_after=1.0)
        return handle

    def cancel(self, handle: Handle) -> None:
        """Ask the supervisor to call a delegation off."""
        self._link_send(pack_envelope(
            Kind.CANCEL, request_id=handle.request_id, source=handle.source, capability=handle.capability
        ))  # fmt: skip
        self._link.flush()

    def flush(self) -> None:
        """Send what has been kept back."""
        self._link.flush()

    def check_may_wait(self) -> None:
        """Raise UsageError in a thread that would wait for itself (trap 9)."""
        if self.loop.is_current:
            msg = "This waits in the event loop, which then stands still: `await` the handle instead of `.result()`."
            raise errors.UsageError(msg)
        if self._link.is_receiving_thread:
            msg = "A callback of a handle runs in the receiving thread and must not wait: start a thread, or delegate."
            raise errors.UsageError(msg)

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait for an event; in a thread of a pool, another thread takes its place meanwhile."""
        pool = current_pool()
        if pool is None:
            return event.wait(timeout)
        with pool.blocking():
            return event.wait(timeout)

    def take(self, queue: SimpleQueue[_T], timeout: float | None) -> _T:
        """Wait for the next of a queue; as `wait`.

        Raises:
            Empty: `timeout` seconds were not enough.
        """
        pool = current_pool()
        if pool is None:
            return queue.get(timeout=timeout)
        with pool.blocking():
            return queue.get(timeout=timeout)

    def _end_locally(self, handle: Handle, status: Status, code: str, message: str, **fields: Any) -> None:
        self._pending.pop(handle.request_id, None)
        error = ErrorInfo(code=code, message=message, retryable=True)
        handle.end(Response(
            request_id=handle.id, status=status, from_agent=self.name, error=error, summary=message,
            timestamp=self.wall(), **fields,
        ))  # fmt: skip

    # -- what comes ----------------------------------------------------------------------------------------------

    def received(self, envelopes: list[bytes]) -> None:
        """Take envelopes from the link."""
        self._heard = self.monotonic()
        for envelope in envelopes:
            header = read_header(envelope)
            kind = header.kind
            if kind == Kind.RESPONSE:
                handle = self._pending.get(header.request_id)
                if handle is not None and handle.deliver(header, envelope):
                    self._pending.pop(header.request_id, None)
            elif kind == Kind.DELEGATION:
                self._take(header, envelope)
            else:
                self._control(header, envelope)

    def _take(self, header: Header, envelope: bytes) -> None:
        cell = self._cells.get(header.target)
        try:
            if cell is None or self._draining or header.target in self._leaving:
                msg = f"{header.target.decode(errors='replace')} is not on this node."
                raise errors.Closed(msg)  # noqa: TRY301  one way out for all
            cell.post(header, envelope)
        except errors.MailboxFull as error:
            self._refuse(header, Status.REJECTED_OVERLOAD, error, retry_after=1.0)
        except errors.Closed:
            self._hand_back([Work(header, envelope)])

    def _refuse(self, header: Header, status: Status, error: EtherError, **fields: Any) -> None:
        response = Response(
            request_id=to_text(header.request_id), status=status, from_agent=header.target.decode(),
            error=ErrorInfo(code=error.code, message=str(error), retryable=error.retryable), **fields,
        )  # fmt: skip
        self._link_send(pack_response(response, capability=header.capability, target=header.source))

    def _control(self, header: Header, envelope: bytes) -> None:  # noqa: C901  a case a row
        match header.kind:
            case Kind.CANCEL:
                cell = self._cells.get(header.target)
                if cell is None or not cell.cancel(header.request_id):
                    self._confirm(header)
            case Kind.HEARTBEAT:
                self._note_clock(unpack(envelope[header.body :])["clock"])
            case Kind.TAP:
                observing = self._observing.get(header.request_id)
                if observing is not None:
                    observing.post(envelope[header.body :])
            case Kind.REGISTERED | Kind.OBSERVE:
                self._replied(header, envelope)
            case Kind.ERROR:
                self._replied(header, envelope)
                if not self._replies.get(header.request_id):
                    self._rejoin_if_forgotten(unpack(envelope[header.body :]))
            case Kind.WELCOME:
                self._welcome_back(unpack(envelope[header.body :]))
            case Kind.DOWN:
                self._replied(header, envelope)
                monitor = self._monitors.pop(header.request_id, None)
                if monitor is not None:
                    body = unpack(envelope[header.body :])
                    self.run(lambda: monitor.fire(str(body.get("reason", ""))))
            case Kind.BYE:
                self._farewell.set()

    def _replied(self, header: Header, envelope: bytes) -> None:
        reply = self._replies.get(header.request_id)
        if reply is not None:
            reply.kind = header.kind
            reply.body = unpack(envelope[header.body :]) if len(envelope) > header.body else {}
            reply.event.set()

    def _rejoin_if_forgotten(self, body: dict[str, Any]) -> None:
        logger.warning("the broker refused a message: %s", body.get("message"))
        if "HELLO" in str(body.get("message")) and not self._draining:
            self._link.greet(self._hello())

    def _register_again(self) -> None:
        self._register_self()
        for cell in self._cells.values():
            if cell.agent is not None:
                self._link_send(self._registration(cell, new_id()))

    def _ask(self, envelopes: list[bytes], tokens: list[bytes]) -> list[_Reply]:
        """Send control envelopes and wait for their answers.

        Raises:
            BrokerUnavailable: an answer did not come within 10 s.
        """
        replies = [_Reply() for _ in tokens]
        self._replies.update(zip(tokens, replies, strict=True))
        try:
            for envelope in envelopes:
                self._link.send(envelope, hold=True)
            self._link.flush()
            end = time.monotonic() + _REPLY
            for reply in replies:
                if not self.wait(reply.event, max(0.0, end - time.monotonic())):
                    msg = f"The broker did not answer within {_REPLY:g} s."
                    raise errors.BrokerUnavailable(msg)
        finally:
            for token in tokens:
                self._replies.pop(token, None)
        return replies

    @property
    def agent_names(self) -> set[str]:
        """The agents of this node."""
        return {cell.name for cell in list(self._cells.values())}

    # -- agents --------------------------------------------------------------------------------------------------

    def start_agents(self, names: list[str], make: Callable[[], Agent], cls: type[Agent] | None) -> list[Cell]:
        """Start agents of one kind, each on its own: a crash of one restarts that one.

        Raises:
            DuplicateAgent, InvalidManifest, BrokerUnavailable: the registry did not take them.
            Exception: what `__init__` or `on_start` raised; none of them is left running.
        """
        cells: list[Cell] = []
        error: BaseException | None = None
        for name in names:
            if name.encode() in self._cells or name == self.name:
                error = errors.DuplicateAgent(f"An agent named {name!r} lives on this node: choose another name.")
                break
            cell = self.make_cell(name, make, cls)
            cells.append(cell)
            error = cell.boot()
            if error is not None:
                break
        try:
            if error is None:
                error = self._announce(cells)
        except EtherError as unanswered:
            error = unanswered
        if error is not None:
            for cell in cells:
                self.leave(cell, "it did not start")
            raise error
        for cell in cells:
            cell.open()
        return cells

    def make_cell(self, name: str, make: Callable[[], Agent], cls: type[Agent] | None) -> Cell:
        """A new cell under that name; its turns run where its class says."""
        dispatch = "pool" if cls is None else cls.dispatch
        if dispatch == "thread":
            pool = self.make_pool(cls.max_concurrency if cls else 1, f"ether-agent-{name}")
            self._private_pools.append(pool)
            cell = Cell(name, make, self, pool)
        elif dispatch == "loop":
            cell = Cell(name, make, self, _LoopDispatcher(self.loop))
        else:
            cell = Cell(name, make, self, self.pool)
        self._cells[name.encode()] = cell
        return cell

    def make_pool(self, size: int, name: str) -> Pool:
        """Threads of an agent's own."""
        return Pool(size, name)

    def announce(self, cell: Cell) -> BaseException | None:
        """Register a cell's agent and wait for the answer; returns what was refused."""
        try:
            return self._announce([cell])
        except EtherError as error:
            return error

    def _announce(self, cells: list[Cell]) -> BaseException | None:
        tokens = [new_id() for _ in cells]
        envelopes = [self._registration(cell, token) for cell, token in zip(cells, tokens, strict=True)]
        for reply in self._ask(envelopes, tokens):
            if reply.kind == Kind.ERROR:
                return _error(reply.body, errors.UsageError)
        return None

    def _registration(self, cell: Cell, token: bytes) -> bytes:
        assert cell.agent is not None
        body = type(cell.agent).packed_manifest()
        return pack_envelope(Kind.REGISTER, request_id=token, source=cell.name.encode(), body=body)

    def supervise(self, spec: SupervisorSpec, timeout: float) -> Guardian:
        """Start a supervision tree and wait until all its agents run.

        Raises:
            Exception: what kept the first agent from starting; none of them is left running.
            WaitTimeout: they did not all run after `timeout` seconds; they are stopped.
        """
        from ether_actors.guardian import Guardian

        guardian = Guardian(spec, self)
        self._guardians.append(guardian)
        if guardian.start(timeout):
            return guardian
        failure = guardian.failure
        if failure is None:
            guardian.stop()
            failure = errors.WaitTimeout(f"{spec.id} had not started after {timeout:g} s; its agents are stopped.")
        self._guardians.remove(guardian)
        raise failure

    def crashed(self, cell: Cell, error: BaseException) -> None:
        """Stop a crashed agent's turns at once, and let its guardian decide."""
        if not cell.crash():
            return
        logger.error("%s crashed", cell.name, exc_info=error)

        def mourn() -> None:
            cell.mourn(error)
            self._guardian_of(cell).crashed(cell, error)

        self.run(mourn)

    def _guardian_of(self, cell: Cell) -> Guardian:
        for guardian in self._guardians:
            if cell in guardian.cells:
                return guardian
        from ether_actors.child_spec import ChildSpec, SupervisorSpec
        from ether_actors.guardian import Guardian

        spec = SupervisorSpec(cell.name, children=(ChildSpec(cell.name, cell.make),))
        guardian = Guardian(spec, self, {cell.name: cell})
        self._guardians.append(guardian)
        guardian.adopt()
        return guardian

    def restarting(self, cell: Cell, reason: str) -> None:
        """Tell the broker that the agent comes back, unless none of this node's does."""
        if self._draining:
            return
        self._tell_condition(cell, {"condition": "restarting", "reason": reason})

    def leave(self, cell: Cell, reason: str) -> None:
        """Stop a cell for good and tell the broker, which answers for what runs before its handlers are called off."""
        self._hand_back(cell.take_unstarted())
        self._tell_condition(cell, {"condition": "gone", "reason": reason})
        self._link.flush()
        cell.stop()
        if self._cells.get(cell.name.encode()) is cell:
            del self._cells[cell.name.encode()]

    def _tell_condition(self, cell: Cell, body: dict[str, str]) -> None:
        self._link_send(pack_envelope(Kind.UNREGISTER, source=cell.name.encode(), body=pack(body)))

    def escalated(self, guardian: Guardian, reason: str) -> None:
        """Take note that a tree gave up."""
        if guardian in self._guardians:
            self._guardians.remove(guardian)
        self.on_escalation(guardian.spec.id, reason)

    def stop_requested(self, cell: Cell) -> None:
        """Stop an agent that was told so with its pykka ref."""
        self.run(lambda: self.leave(cell, "stopped"))

    def stop_agent(self, name: str, timeout: float) -> None:
        """Stop an agent: what runs has `timeout` seconds, what was not started goes back to the broker.

        Raises:
            UnknownAgent: it is not on this node.
        """
        cell = self._cells.get(name.encode())
        if cell is None:
            hint = errors.nearest(name, (key.decode() for key in self._cells))
            msg = f"There is no agent {name!r} on this node.{hint}"
            raise errors.UnknownAgent(msg)
        self._leaving.add(name.encode())
        self._link_send(pack_envelope(Kind.UNREGISTER, flags=Flag.HANDED_BACK, source=name.encode()))
        self._hand_back(cell.take_unstarted())
        self._await_deliveries()
        self.wait(cell.inbox.idle(), timeout)
        self.leave(cell, "stopped")
        self._leaving.discard(name.encode())

    # -- what tasks and guardians need ---------------------------------------------------------------------------

    def answer(self, work: Work, response: Response) -> None:
        """Send an outcome; one that cannot travel becomes FAILED_EXECUTION."""
        if self._orphans and work in self._orphans:
            self._orphans.discard(work)
            return
        header = work.header
        try:
            envelope = pack_response(response, capability=header.capability, target=header.source, limit=self._limit)
        except EtherError as error:
            failure = Response(
                request_id=response.request_id, status=Status.FAILED_EXECUTION, from_agent=response.from_agent,
                error=ErrorInfo(code=error.code, message=str(error)), summary=str(error),
            )  # fmt: skip
            envelope = pack_response(failure, capability=header.capability, target=header.source)
        self._link_send(envelope)

    def complete(self, work: Work, data: Payload, elapsed: float, *, more: bool) -> None:
        """Send the outcome of a handler that has nothing to say but its data; `more` outcomes follow at once."""
        if self._orphans and work in self._orphans:
            self._orphans.discard(work)
            return
        try:
            envelope = pack_outcome(work.header, data, elapsed=elapsed, timestamp=self.wall(), limit=self._limit)
        except errors.PayloadTooLarge as error:
            self._refuse(work.header, Status.FAILED_EXECUTION, error)
        else:
            self._link_send(envelope, hold=more)

    def progress(self, task: Task, response: Response) -> None:
        """Send a PROGRESS response."""
        delegation = task.delegation
        envelope = pack_response(
            response, capability=delegation.capability.encode(), target=(delegation.from_agent or "").encode(),
            limit=self._limit,
        )  # fmt: skip
        self._link_send(envelope)

    def new_id(self) -> str:
        """A request id."""
        return to_text(self.make_id())

    def monotonic(self) -> float:
        """This node's clock in seconds."""
        return self._clock.monotonic()

    def wall(self) -> float:
        """Seconds since 1970 in UTC."""
        return self._clock.wall()

    def local_deadline(self, broker_deadline: float) -> float | None:
        """A deadline by the broker's clock as one by this node's."""
        return broker_deadline - self._offset if broker_deadline else None

    def run(self, call: Callable[[], None]) -> None:
        """Run a callable in the pool."""
        self.pool.submit(call)

    def call_at(self, at: float, call: Callable[[], None]) -> None:
        """Run a callable in the pool at a time by this node's clock, or up to 0.1 s later."""
        with self.lock:
            heapq.heappush(self._timers, (at, next(self._timer_ids), call))

    # -- watching ------------------------------------------------------------------------------------------------

    def observe(self, observer: Observer, start: int) -> Observing:
        """Attach an observer from a number on; 0 is from now on."""
        token = new_id()
        observing = self.make_observing(observer, lambda position: self._acknowledge(token, position))
        self._observing[token] = observing
        reply = self._ask([self._wish(token, observer, start)], [token])[0]
        observing.start(int(reply.body["next"]))
        return observing

    def _wish(self, token: bytes, observer: Observer, start: int) -> bytes:
        body = pack({"from": start, "topics": list(observer.topics)})
        return pack_envelope(Kind.OBSERVE, request_id=token, body=body)

    def make_observing(self, observer: Observer, acknowledge: Callable[[int], None]) -> Observing:
        """Where an observer is to run."""
        return Observing(observer, acknowledge)

    def _acknowledge(self, token: bytes, position: int) -> None:
        self._link_send(pack_envelope(Kind.TAP_ACK, request_id=token, body=position.to_bytes(8)))
        self._link.flush()

    def unobserve(self, observer: Observer) -> None:
        """Detach an observer; what is under way to it is still handled."""
        for token, observing in list(self._observing.items()):
            if observing.observer is observer:
                del self._observing[token]
                self._link_send(pack_envelope(Kind.OBSERVE, request_id=token, body=pack({"stop": True})))
                self._link.flush()
                observing.stop()

    def observing(self, observer: Observer) -> Observing | None:
        """Where an observer runs."""
        return next((found for found in self._observing.values() if found.observer is observer), None)

    def monitor(self, target: str) -> Monitor:
        """Watch an agent, or `node:NAME`."""
        token = new_id()
        monitor = self._monitors[token] = Monitor(target, self.wait)
        self._link.send(pack_envelope(Kind.MONITOR, request_id=token, target=target.encode()))
        self._link.flush()
        return monitor

    # -- time ----------------------------------------------------------------------------------------------------

    def ticked(self) -> None:
        """Show life, fire timers, relieve the pool, and end what the broker will not end any more."""
        now = self.monotonic()
        self.pool.relieve()
        self._fire_timers(now)
        if now < self._next_beat:
            return
        self._next_beat = now + HEARTBEAT
        self._show_life()
        for handle in list(self._pending.values()):
            if handle.deadline + GRACE < now:
                message = "The deadline passed and the supervisor did not say so: the broker is out of reach."
                self._end_locally(handle, Status.TIMEOUT, "broker_unreachable", message)
        if not self._is_heard() and not self._draining:
            self._link.greet(self._hello())

    def _is_heard(self) -> bool:
        return self.monotonic() - self._heard < SILENCE

    def _show_life(self) -> None:
        loads = {}
        now = self.monotonic()
        for cell in list(self._cells.values()):
            if cell.works:
                loads[cell.name] = cell.load()
                self._say_accepted(cell, now)
                self._give_up_hanging(cell, now)
        self._link_send(pack_envelope(Kind.HEARTBEAT, body=pack({"agents": loads})))
        self._link.flush()

    def _give_up_hanging(self, cell: Cell, now: float) -> None:
        work = cell.overdue(now)
        if work is not None and work.task is not None:
            msg = f"{cell.name} hangs: its handler went on {now - work.cancelled_at:.0f} s after its delegation ended."
            self.crashed(cell, errors.AgentCrash(msg))
            cell.abandon(work)

    def _say_accepted(self, cell: Cell, now: float) -> None:
        """ACCEPTED is the heartbeat of long work: short work is over before it would be worth a message."""
        for work in list(cell.works.values()):
            task = work.task
            if task is not None and not work.cancelled and now - task.started > _ACCEPT_AFTER:
                header = work.header
                self._link_send(pack_envelope(
                    Kind.RESPONSE, status=Status.ACCEPTED, request_id=header.request_id, source=header.target,
                    target=header.source, capability=header.capability, attempt=header.attempt, body=pack({}),
                ))  # fmt: skip

    def _fire_timers(self, now: float) -> None:
        while True:
            with self.lock:
                if not self._timers or self._timers[0][0] > now:
                    return
                call = heapq.heappop(self._timers)[2]
            self.run(call)


class _LoopDispatcher:
    """Turns in the event loop."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    @property
    def has_more(self) -> bool:
        """Not known of a loop."""
        return False

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable in the loop soon."""
        self._loop.call(call)


def _error(body: dict[str, Any], default: type[EtherError]) -> EtherError:
    return _CODES.get(str(body.get("code")), default)(str(body.get("message", "the broker said no more")))
