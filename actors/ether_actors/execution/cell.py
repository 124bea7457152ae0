"""A cell: one agent's place on a node. It gives the turns, runs the handlers, and outlives the agent's crashes.

    link ──► Node.received ──► Cell.post ──► Inbox ──► a turn on the pool ──► handler ──► CellServices.answer ──► link
                                                        └ async def ──► event loop ┘

Whatever a handler raises, exits with or returns becomes a response; nothing reaches pykka, which would stop every actor
in the process on a BaseException.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable
from contextvars import Context
from functools import partial
from itertools import chain
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

from ether_actors.agent import local_message as pykka_message
from ether_actors.agent.agent import Agent, call_hook, check_hang_limit
from ether_actors.agent.agent_bus import AgentBusServices
from ether_actors.agent.composable_adapter import agent_of
from ether_actors.agent.declarations.capability import Handler, WrongResult
from ether_actors.agent.declarations.event_handler import EventHandler
from ether_actors.agent.handler_failure import error_response, is_crash, judge
from ether_actors.agent.state_keeper import StateKeeper, warn_of_unsaved
from ether_actors.execution.dispatcher import Dispatcher, LoopDispatcher
from ether_actors.task.answer_check import checked
from ether_actors.task.task import NOT_YOURS, RUNNING, Task, TaskServices
from ether_actors.task.work_item import Work
from ether_actors.threads.latch import Waitable
from ether_actors.threads.pool import Room
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import NO_ID, to_bytes
from ether_broker.envelope.manifest.manifest import ANY
from ether_broker.envelope.names import EVENT_PREFIX
from ether_broker.envelope.payload import Payload, pack
from ether_broker.envelope.priority import NOT_NORMAL, priority_of
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import AgentCrash, EtherError, InvalidState
from ether_broker.number import is_number
from ether_broker.text import error_text
from ether_broker.unread_log import warn_unread
from ether_broker.wire.codec import plain_params
from ether_broker.wire.frame import Header
from ether_broker.wire.saved_state import BroughtState, SavedState

if TYPE_CHECKING:
    from ether_actors.threads.event_loop import EventLoop

__all__ = ["BrokerOffset", "Cell", "CellServices"]

logger = logging.getLogger("ether.agent")

_ANY: Final = ANY.encode()
TURN: Final = 32
"""Messages that an agent handles before it lets others have the thread."""
_RETRY_AFTER: Final = 1.0


class BrokerOffset(Protocol):
    """The interface through which a cell reads how far the broker's clock is ahead."""

    offset: float
    """Seconds that it is ahead of the node's."""


class CellServices(TaskServices, AgentBusServices, Protocol):
    """The interface of the services that a node gives to its cells and their tasks."""

    loop: EventLoop
    broker_clock: BrokerOffset
    """By which the deadlines of delegations are."""

    def answer(self, work: Work, response: Response) -> bool:
        """Send an outcome; whether it went as it is, with the state that is to be saved with it."""

    def complete(self, work: Work, data: bytes, elapsed: float, *, more: bool) -> bool:
        """Send the outcome of a handler that has nothing to say but its packed data; `more` outcomes follow at once.

        Whether it went as it is, with the state that is to be saved with it.
        """

    def flush(self) -> None:
        """Send what has been kept back."""

    def load_state(self, agent: str) -> SavedState | None:
        """The state that an agent of that name saved last; None if it saved none.

        Raises:
            EtherError: the bus does not tell.
        """

    def start_schedules(self, cell: Cell) -> None:
        """Begin the schedules of a cell's agent."""

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """Wait for an event; False when `timeout` seconds were not enough."""

    def crashed(self, cell: Cell, error: BaseException) -> None:
        """Decide whether the agent is restarted."""

    def stop_requested(self, cell: Cell) -> None:
        """Stop the agent for good: it was told so with its pykka ref."""


class CellState(enum.Enum):
    """The states of a cell in its life."""

    NEW = enum.auto()
    """No agent yet."""
    RUNNING = enum.auto()
    """The agent takes turns."""
    DOWN = enum.auto()
    """The agent crashed; the inbox is kept for the next one."""
    STOPPED = enum.auto()
    """No agent any more, and none to come."""


class Cell:
    """An agent's place on a node: keeps its inbox, runs its handlers, and outlives its crashes.

    Args:
        name: the agent's name on the bus.
        make: makes an incarnation: an Agent, or what has spec 1's contract; called again for each restart.
        services: the node's services.
        dispatcher: where the turns run.
    """

    __slots__ = (
        "__weakref__", "_dispatcher", "_handlers", "_services", "agent", "inbox", "is_registered", "keeper", "make",
        "most_outstanding", "name", "outstanding", "state", "works",
    )  # fmt: skip

    def __init__(self, name: str, make: Callable[[], Any], services: CellServices, dispatcher: Dispatcher) -> None:
        self.name: str = name
        self.make: Callable[[], Any] = make
        self._services = services
        self._dispatcher = dispatcher
        self._handlers: dict[bytes, Handler] = {}
        self.agent: Agent | None = None
        self.keeper: StateKeeper | None = None
        """Of an agent whose class declares a state."""
        self.inbox: Any = None
        self.state: CellState = CellState.NEW
        self.is_registered: bool = False
        """Whether the bus has taken its REGISTER, so that it is said again where a session begins anew."""
        self.works: dict[bytes, Work] = {}
        """What is in the inbox or with a handler: {request id: work}."""
        self.outstanding: int = 0
        """Delegations that wait for it or are with it, as the broker said last; of instances of agents that scale only."""
        self.most_outstanding: int = 0
        """The most that waited for all of its instances, or were with them, since somebody looked."""

    # -- life ----------------------------------------------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        """Whether there is no agent any more, and none to come."""
        return self.state is CellState.STOPPED

    def boot(self) -> BaseException | None:
        """Make an agent, run its `on_start`, and return what failed; call it in a thread that may wait.

        The first agent's inbox is kept for all that follow. Turns begin with `open`.
        """
        try:
            agent = agent_of(self.make())
            handlers = type(agent).encoded_handlers()
            if agent.hang_limit is not type(agent).hang_limit:  # else it was checked with the class
                check_hang_limit(type(agent), agent.hang_limit)
        except BaseException as error:  # noqa: BLE001  `start` must say what failed, whatever it is
            return error
        agent.agent_name = self.name
        agent.bus_services = self._services
        model = type(agent).state_model()
        if model is not None:
            try:
                saved = self._services.load_state(self.name)
                self.keeper = StateKeeper(agent, model, saved, lambda: to_bytes(self._services.new_id()))
            except BaseException as error:  # noqa: BLE001  as above
                return error
        else:
            warn_of_unsaved(agent)
        if self.inbox is None:
            self.inbox = agent.actor_inbox
        agent.actor_inbox = agent.actor_ref.actor_inbox = self.inbox
        self.agent, self._handlers = agent, handlers
        if type(agent).on_start is Agent.on_start:
            return None
        return call_hook(agent.on_start)

    def open(self) -> None:
        """Let the agent take turns."""
        self.state = CellState.RUNNING
        self.inbox.start(partial(self._dispatcher.submit, self._turn))
        if type(self.agent).schedules():  # type: ignore[union-attr]  # it has been booted
            self._services.start_schedules(self)

    def crash(self) -> bool:
        """Stop the turns and keep the inbox; False if it was down already. Any thread may call it."""
        if self.state is not CellState.RUNNING:
            return False
        self.state = CellState.DOWN
        self.inbox.pause()
        self._orphan_works()
        return True

    def clean_up_crashed(self, error: BaseException) -> None:
        """Let a crashed agent clean up; call it in a thread that may wait."""
        agent = self.agent
        assert agent is not None
        agent.actor_stopped.set()
        raised = call_hook(agent.on_failure, type(error), error, error.__traceback__)
        if raised is not None:
            self._tell_hook("on_failure", raised)

    def dismiss(self) -> None:
        """Let an agent clean up that came up and is not to take turns; call it in a thread that may wait."""
        self._say_goodbye()

    def rest(self, timeout: float) -> None:
        """Stop the agent for a restart with its siblings: the inbox is kept, a running handler has `timeout` seconds."""
        if not self.crash():
            return
        self._services.wait(self.inbox.idle(), timeout)
        self._say_goodbye()

    def _orphan_works(self) -> None:
        for work in list(self.works.values()):
            work.is_orphaned = work.has_begun
            if work.runner is not None:
                self._services.loop.cancel(work.runner)

    def _say_goodbye(self) -> None:
        agent = self.agent
        assert agent is not None
        agent.actor_stopped.set()
        raised = call_hook(agent.on_stop)
        if raised is not None:
            self._tell_hook("on_stop", raised)

    def _tell_hook(self, hook: str, raised: BaseException) -> None:
        logger.error("%s: %s raised", self.name, hook, exc_info=raised)
        warn_unread(logger, f"{self.name}: {hook} raised {raised!r:.200}")

    def stop(self) -> list[Work]:
        """End the agent; returns the work that it had not started. Call it in a thread that may wait."""
        was, self.state = self.state, CellState.STOPPED
        left = self.inbox.close() if self.inbox is not None else []
        for work in list(self.works.values()):
            work.is_orphaned = work.has_begun
            self._cancel(work)
        if was is CellState.RUNNING:
            self._say_goodbye()
        works = []
        for item in left:
            if isinstance(item, Work):
                self._forget(item)
                works.append(item)
            else:
                pykka_message.refuse(item, self.name)
        return works

    def take_unstarted(self) -> list[Work]:
        """Take out the delegations that have not been started."""
        works: list[Work] = self.inbox.drain(lambda item: not isinstance(item, Work)) if self.inbox is not None else []
        for work in works:
            self._forget(work)
        return works

    def load(self) -> dict[str, object]:
        """How it is, for the heartbeat: places taken, messages that wait, seconds that the oldest task runs."""
        now = self._services.monotonic()
        started = [work.task.started for work in list(self.works.values()) if work.task is not None]
        return {
            "running": self.inbox.busy if self.inbox is not None else 0,
            "waiting": len(self.inbox) if self.inbox is not None else 0,
            "busy_for": round(now - min(started), 3) if started else 0.0,
        }

    # -- work ----------------------------------------------------------------------------------------------------

    def post(self, header: Header, envelope: bytes) -> None:
        """Take a delegation from the link; one that is here already is not taken twice.

        Raises:
            Closed, MailboxFull: as `Inbox.put`.
        """
        known = self.works.get(header.request_id)
        if known is not None and known.header.attempt == header.attempt:
            return
        work = Work(header, envelope)
        self.works[header.request_id] = work
        try:
            if header.flags & NOT_NORMAL:
                self.inbox.put(work, priority_of(header.flags))
            else:
                self.inbox.put(work)
        except EtherError:
            del self.works[header.request_id]
            raise

    def _forget(self, work: Work) -> None:
        """Take work out that is answered for; a later attempt at the same delegation stays."""
        if self.works.get(work.header.request_id) is work:
            del self.works[work.header.request_id]

    def cancel(self, request_id: bytes, attempt: int) -> bool:
        """Tell a handler that its delegation has ended without it; one that waits for its turn is taken out, in O(1).

        Returns:
            Whether the cell answers. If not, the caller does: that attempt is not here any more, or was never.
        """
        work = self.works.get(request_id)
        if work is None or work.header.attempt != attempt:
            return False
        if self.inbox.discard(work):
            self._forget(work)
            return False
        self._cancel(work)
        return True

    def hanging(self, now: float) -> list[Work]:
        """Work whose handlers go on too long after its delegation has ended: they hang, or swallow their cancellation."""
        limit = None if self.agent is None else self.agent.hang_limit
        if not is_number(limit) or self.state is not CellState.RUNNING:
            return []
        return [
            work
            for work in list(self.works.values())
            if work.cancelled and work.task is not None and now - work.cancelled_at > limit
        ]

    @property
    def uses_loop(self) -> bool:
        """Whether a handler of the agent runs in the event loop."""
        handlers: Iterable[Handler | EventHandler] = self._handlers.values()
        if self.agent is not None:
            handlers = chain(handlers, type(self.agent).event_handlers().values())
        is_async = any(handler.is_async for handler in handlers)
        return is_async or isinstance(self._dispatcher, LoopDispatcher)

    def in_loop(self) -> list[Work]:
        """What has begun in the event loop and not ended; a plain handler of an `AsyncAgent` has no runner."""
        is_loop = isinstance(self._dispatcher, LoopDispatcher)
        return [work for work in list(self.works.values()) if work.task and (work.runner is not None or is_loop)]

    def cut_off(self, message: str) -> bool:
        """End what runs still as failed, and tell its handlers to stop; whether anything ran."""
        running = [work for work in list(self.works.values()) if work.task is not None]
        for work in running:
            work.is_orphaned = True
            self.abandon(work, message)
            self._cancel(work)
        return bool(running)

    def abandon(
        self, work: Work, message: str = "The event loop in which it ran stood still and was given up."
    ) -> None:  # fmt: skip
        """Give a handler up: its place is free, and what it may yet say comes late. The agent has crashed, or is to go.

        A plain handler's thread is left to itself, as is the task of an `async def` that swallows its cancellation.
        """
        if not work.end():
            return  # it has just ended by itself
        if work.cancelled:
            response = self._error_response(
                work, Status.CANCELLED, "abandoned", "The handler went on and was given up."
            )
        else:
            response = self._error_response(work, Status.FAILED_EXECUTION, "agent_restarted", message)
        self._finish(work, response)
        self.inbox.done()

    def _cancel(self, work: Work) -> None:
        if not work.cancelled:
            work.cancelled = True
            work.cancelled_at = self._services.monotonic()
        if work.task is not None:
            work.task.cancel()
        if work.runner is not None:
            self._services.loop.cancel(work.runner)

    def _turn(self) -> None:
        inbox, dispatcher = self.inbox, self._dispatcher
        room = dispatcher.room
        wanted = self._has_right if room is Room.SUB_DELEGATIONS else None
        item = inbox.take(wanted, begins=True)
        handled = 0
        while item is not None:
            if type(item) is not Work:
                is_done = self._run_message(item)
            elif room is Room.NONE and self._may_wait(item):
                is_done = self._turn_away(item)
            else:
                is_done = self._run(item)
                if is_done and (item.cancelled or item.is_place_free) and not item.end():
                    return  # it was given up, and so was this thread
            handled += 1
            if not is_done:  # an async def keeps its place until it ends
                item = inbox.take(wanted)
            elif handled < TURN:
                item = inbox.take(wanted, frees=True)
            else:
                inbox.done()
                break
        if wanted is not None and not inbox.empty():
            dispatcher.call_when_room(inbox.wake)

    def _has_right(self, message: Any) -> bool:
        """Whether a message is handled though many handlers wait: sub-delegations (they may wait for it), and async work."""
        return type(message) is not Work or message.header.parent != NO_ID or not self._may_wait(message)

    def _may_wait(self, work: Work) -> bool:
        handler = self._handlers.get(work.header.capability) or self._other_handler(work.header.capability)
        return handler is not None and not handler.is_async

    def _other_handler(self, capability: bytes) -> Handler | EventHandler | None:
        """What handles an event, or what nobody declares."""
        if capability.startswith(EVENT_PREFIX) and self.agent is not None:
            return type(self.agent).event_handler(capability.removeprefix(EVENT_PREFIX).decode())
        return self._handlers.get(_ANY)

    def _turn_away(self, work: Work) -> bool:
        message = f"The node of {self.name} has as many handlers that wait as it can have."
        response = self._error_response(work, Status.REJECTED_OVERLOAD, "node_full", message, retry_after=_RETRY_AFTER)
        self._finish(work, response)
        return True

    def _run(self, work: Work) -> bool:  # noqa: C901, PLR0912  on each one's way
        """Run a delegation; False if it goes on in the event loop."""
        header = work.header
        services = self._services
        deadline = header.deadline - services.broker_clock.offset if header.deadline else None
        if work.cancelled:
            response = self._error_response(
                work, Status.CANCELLED, "not_started", "It had ended before it was started."
            )
            self._finish(work, response)
            return True
        if deadline is not None and services.monotonic() >= deadline:
            self._forget(work)  # the supervisor alone says TIMEOUT; the node answers its CANCEL
            return True
        try:
            handler = self._handlers.get(header.capability) or self._other_handler(header.capability)
            if handler is None:
                message = f"{self.name} does not declare {header.capability.decode(errors='replace')!r}."
                self._finish(work, self._error_response(work, Status.REJECTED_CAPABILITY, "not_declared", message))
                return True
            request: Delegation | Work = work
            params = plain_params(header, work.envelope)
            if params is None:
                request = work.read()
                params = request.params_payload.packed
                if deadline is not None and request.budget is not None and request.budget.max_time_sec is not None:
                    deadline = min(deadline, services.monotonic() + request.budget.max_time_sec)
            context = Context()  # which sees what no other handler has set, and leaves the thread's own alone
            agent, keeper = self.agent, self.keeper
            if keeper is not None:
                agent, work.keeper = keeper.agent, keeper
                if self.state is not CellState.RUNNING:  # it crashed before it could know of this work
                    message = f"{self.name} crashed or was stopped before it began this."
                    self._finish(work, self._error_response(work, Status.FAILED_EXECUTION, "agent_restarted", message))
                    return True
            arguments = context.run(handler.arguments, params)
            if keeper is not None:
                self._begin_state(keeper)
            task = work.task = Task(request, self.name, services, deadline)
            if handler.task_name is not None:  # as `Handler.call`
                arguments[handler.task_name] = task
            context.run(RUNNING.set, task)
            value = context.run(handler.function, agent, **arguments)
            if isinstance(value, CoroutineType):
                if not services.loop.call(lambda: self._begin(work, handler, value)):
                    value.close()  # the node is closed
                return False
            value = context.run(handler.result, value)
            if isinstance(value, Response):
                value = _sealed(value, lambda: not task.cancelled)
            self._complete(work, task, value)
        except BaseException as error:  # noqa: BLE001  pykka would stop every actor in the process
            self._fail(work, error)
        return True

    def _begin(self, work: Work, handler: Handler | EventHandler, coroutine: Any) -> None:
        work.runner = self._services.loop.spawn(self._await(work, handler, coroutine))

    async def _await(self, work: Work, handler: Handler | EventHandler, coroutine: Any) -> None:
        assert work.task is not None
        RUNNING.set(work.task)
        try:
            if work.cancelled:  # while it waited for the loop: what has ended is never started (G4)
                coroutine.close()
                message = "It had ended before it was started."
                self._finish(work, self._error_response(work, Status.CANCELLED, "not_started", message))
            else:
                value = handler.result(await coroutine)
                if isinstance(value, Response) and any(one.sha256 is None for one in value.artifacts):
                    value = await _sealed_beside(value, work.task)
                self._complete(work, work.task, value)
        except BaseException as error:  # noqa: BLE001  an exit would end the event loop, and a cancelled handler must be answered for
            self._fail(work, error)
        finally:
            if work.end():
                self.inbox.done()
            self._services.flush()

    def _begin_state(self, keeper: StateKeeper) -> None:
        """Make an agent's state ready for a handler.

        Raises:
            AgentCrash: it cannot be read; the next incarnation says so as it starts.
        """
        try:
            keeper.begin()
        except InvalidState as error:
            raise AgentCrash(str(error)) from error

    def _complete(self, work: Work, task: Task, value: Any) -> None:
        keeper: StateKeeper | None = work.keeper
        if keeper is not None and (work.is_orphaned or keeper is not self.keeper):
            message = f"{self.name} was restarted or stopped while it worked; what it changed of its state is undone."
            self._finish(work, self._error_response(work, Status.FAILED_EXECUTION, "agent_restarted", message))
            return
        if not isinstance(value, Response):
            data = pack(value, where="the result", bounded=True)
            if not task.is_bound:
                if keeper is not None:
                    work.state = keeper.proposed()
                elapsed = task.close()
                header, works = work.header, self.works
                if works.get(header.request_id) is work:  # as `_forget`
                    del works[header.request_id]
                more = bool(self._dispatcher.backlog() or self.inbox.messages)
                is_sent = self._services.complete(work, data, elapsed, more=more)
                if keeper is not None:
                    _settle(keeper, work.state, is_sent=is_sent)
                return
            value = task.respond(data=Payload(data))
        if value.status in NOT_YOURS:
            msg = f"{self.name} returned a Response with status {value.status}, which only the bus answers."
            raise WrongResult(msg)
        response = value.model_copy(update={
            "request_id": task.request_id, "from_agent": self.name, "elapsed": task.elapsed,
            "attempt": task.attempt, "timestamp": self._services.wall(),
        })  # fmt: skip
        if keeper is not None:
            work.state = keeper.proposed()
        is_sent = self._finish(work, response)
        if keeper is not None:
            _settle(keeper, work.state, is_sent=is_sent)

    def _fail(self, work: Work, error: BaseException) -> None:
        if work.is_place_free:
            logger.info("%s: a handler that was given up ended with %r", self.name, error)
            return
        work.state = None
        keeper = self.keeper
        if keeper is not None and work.keeper is keeper and not work.is_orphaned:
            try:
                keeper.roll_back()
            except BaseException as unread:  # noqa: BLE001  such as of its validators: the next incarnation says so
                error = AgentCrash(f"The state of {self.name} cannot be undone: {error_text(unread)}")
        try:
            response, has_crashed = judge(work, self.name, error, self._services.wall())
        except BaseException:  # noqa: BLE001  whatever an exception does when it is looked at, its place is freed
            message = f"{type(error).__name__}, of which nothing can be told."
            response = self._error_response(work, Status.FAILED_EXECUTION, "exception", message)
            has_crashed = is_crash(error)
        self._finish(work, response)
        if has_crashed:
            self._services.crashed(self, error)

    def _error_response(self, work: Work, status: Status, code: str, message: str, **fields: Any) -> Response:
        return error_response(work, self.name, status, code, message, self._services.wall(), **fields)

    def _finish(self, work: Work, response: Response) -> bool:
        """Send an outcome; whether it went as it is."""
        if work.task is not None:
            work.task.close(has_failed=response.status is Status.FAILED_EXECUTION)
            if work.task.is_bound:
                response = checked(work.task, response)
        if response.external_id != work.external_id:
            response = response.model_copy(update={"external_id": work.external_id})
        self._forget(work)
        return self._services.answer(work, response)

    def run_only(self, request_id: bytes) -> bool:
        """Use a scheduled turn to run one delegation in the calling thread, and nothing else.

        Returns:
            Whether the turn was used. False: that delegation is not all that the agent has, or its pool is short of threads;
            then the turn is still to be run.
        """
        work = self.works.get(request_id)
        if work is None or len(self.works) != 1 or self._dispatcher.room is not Room.ALL:
            return False
        inbox = self.inbox
        if inbox.take(lambda message: message is work, begins=True) is None:
            inbox.wake()  # another turn has taken it, or there is no place: what waits gets a turn of the pool
        elif not self._run(work):
            inbox.wake()  # an async def keeps its place
        elif not (work.cancelled or work.is_place_free) or work.end():
            inbox.done()
        return True

    # -- pykka's messages ----------------------------------------------------------------------------------------

    def _run_message(self, envelope: Any) -> bool:
        """Handle what was told or asked with a pykka ref."""
        agent = self.agent
        assert agent is not None
        if pykka_message.asks_to_stop(envelope):
            self._services.stop_requested(self)
            pykka_message.refuse(envelope, self.name)
            return True
        error = pykka_message.serve(agent, envelope)
        if error is not None and is_crash(error):
            self._services.crashed(self, error)
        return True


def _settle(keeper: StateKeeper, proposed: BroughtState | None, *, is_sent: bool) -> None:
    """Note that a state went with its outcome, or that neither did."""
    if is_sent:
        keeper.commit(proposed)
    else:
        keeper.roll_back()


def _sealed(value: Response, is_wanted: Callable[[], bool]) -> Response:
    """A response whose artifacts are sealed, as long as somebody waits for it."""
    if not value.artifacts:
        return value
    return value.model_copy(update={"artifacts": tuple(artifact.sealed(is_wanted) for artifact in value.artifacts)})


async def _sealed_beside(value: Response, task: Task) -> Response:
    """A response whose artifacts are sealed, in a thread of its own: the loop's executor may be full of others' calls.

    A cancellation leaves them as they are: the handler has returned, and its answer is a late one.
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    is_cancelled = False
    threads = ThreadPoolExecutor(1, "ether-seal")
    sealing = asyncio.get_running_loop().run_in_executor(
        threads, _sealed, value, lambda: not (is_cancelled or task.cancelled)
    )  # fmt: skip
    threads.shutdown(wait=False)
    while not sealing.done():
        try:
            await asyncio.shield(sealing)
        except asyncio.CancelledError:
            is_cancelled = True
    return sealing.result()
