"""A handle on a delegation under way: wait for it, await it, follow it, cancel it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from ether_actors.delegator.updates import Unread, Update, Updates
from ether_actors.threads.latch import Latch, Waitable
from ether_actors.threads.loop_queue import LoopQueue, call_in
from ether_broker.encoding.bounded import possible_containers
from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import SUPERVISOR, is_name
from ether_broker.envelope.payload import EMPTY, unpack
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import INTERIM, Status
from ether_broker.errors import EtherError, UsageError, WaitTimeout
from ether_broker.name_hint import misses
from ether_broker.number import is_number
from ether_broker.text import printable
from ether_broker.wire.codec import read_delegation, read_response
from ether_broker.wire.frame import Flag, Header, name_of, read_header

if TYPE_CHECKING:
    import asyncio

    from ether_broker.envelope.delegation import Delegation

__all__ = ["Handle", "HandleHost", "Stream", "checked_timeout"]

_MOST_SAID: Final = 1_000
"""Characters of why a response cannot be read."""
_SHALLOW: Final = 200
"""Maps and lists that can always be frozen, however they lie within each other."""
_LEAVES: Final = frozenset(bytes([first]) for first in (*range(0x80), *range(0xA0, 0xDC), *range(0xE0, 0x100)))
"""What msgpack begins a value with that is neither a map nor a list."""
_RESENT: Final = int(Flag.RESENT)
_PROGRESS: Final = Status.PROGRESS.code
_OF_RESPONSE: Final = "the outcome has it: `await` the handle, or handle.result()"
_ELSEWHERE: Final = {
    **dict.fromkeys((
        "confidence", "data", "error", "from_agent", "ok", "retry_after", "status", "summary", "unresolved", "unwrap",
    ), _OF_RESPONSE),
    "wait": "handle.result(timeout) waits, and `await` the handle does in an event loop",
    "progress": "iterate over handle.stream(), as in `for update in handle.stream(): print(update.progress)`",
}  # fmt: skip
_T = TypeVar("_T")


class HandleHost(Protocol):
    """The interface of the node that made a handle."""

    @property
    def lock(self) -> AbstractContextManager[bool, None]:
        """One that its holder may take again."""

    @property
    def earlier(self) -> Sequence[Response]:
        """The outcomes of the attempts before the last, where there is a retry policy."""

    def cancel(self, handle: Handle) -> None:
        """Ask the supervisor to cancel the delegation."""

    def flush(self) -> None:
        """Send what has been kept back."""

    def call(self, call: Callable[[], object]) -> None:
        """Call a user's callback where that may run: see `Link.call`."""

    def check_may_wait(self, *, in_own_loop: bool = False) -> None:
        """Raise UsageError if the calling thread must not wait; a user's own event loop may do so for the bus itself."""

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """Wait for an event; False when `timeout` seconds were not enough."""

    def take(self, queue: SimpleQueue[_T], timeout: float | None) -> _T:
        """Wait for the next of a queue.

        Raises:
            Empty: `timeout` seconds were not enough.
        """

    async def take_in_loop(self, queue: LoopQueue[_T], timeout: float | None) -> _T:
        """As `take`, in an event loop."""


class Handle:
    """The delegator's handle on a delegation under way: waits for the outcome, follows it, and cancels it.

    It ends with exactly one outcome (G1), which is a value, not an exception.

    Safe to use from any thread, and to await in any event loop.

    Example:
        handle = bus.delegate("text.count", {"text": "two words"})
        response = handle.result(timeout=5.0)
        assert response.status is Status.COMPLETED and response.data == 2
        assert handle.done
    """

    __ether_instead__: ClassVar[str] = "await it, or .result()"
    """What to write where a handle is given for the outcome, as an answer that forgot to await it."""

    __slots__ = (
        "_callbacks", "_capability", "_delegation", "_done", "_ended", "_envelope", "_header", "_listeners", "_owner",
        "_response", "_sent", "_source", "_updates", "_waiter", "deadline", "external_id", "key",
    )  # fmt: skip

    done: Final[bool] = property(attrgetter("_done"))  # type: ignore[assignment]  # read in C
    """Whether there is an outcome."""

    def __init__(  # noqa: PLR0917  made once a delegation, in one place
        self,
        owner: HandleHost,
        request_id: bytes,
        source: bytes,
        capability: bytes,
        sent: bytes,
        deadline: float,
        external_id: str | None = None,
    ) -> None:
        self._owner = owner
        self.key: bytes = request_id
        """The 16 bytes of `request_id`."""
        self._source = source
        self._capability = capability
        self.deadline: float = deadline
        """Seconds by the node's clock."""
        self.external_id: str | None = external_id
        """The id that the delegator's own vocabulary has for it; every response to it has it too, and no other."""
        self._sent = sent
        self._done = False
        self._ended: deque[Handle] | None = None
        """Where it puts itself with its outcome."""
        self._delegation: Delegation | None = None
        self._header: Header | None = None
        self._envelope = b""
        self._response: Response | None = None
        self._waiter: Latch | None = None
        self._callbacks: list[Callable[[Handle], None]] | None = None
        self._listeners: list[Callable[[Update | None], None]] | None = None
        self._updates: Updates | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise misses(self, name, _ELSEWHERE)

    @property
    def is_followed(self) -> bool:
        """Whether it has an outcome or was cancelled, or somebody waits for one or is called with it."""
        return self._done or self._waiter is not None or self._callbacks is not None or bool(self._listeners)

    @property
    def delegation(self) -> Delegation:
        """The delegation as it was sent."""
        if self._delegation is None:
            self._delegation = read_delegation(read_header(self._sent), self._sent)
        return self._delegation

    @property
    def request_id(self) -> str:
        """Its id, by which it is sent again or collected; the same as that of its delegation and its responses."""
        return to_text(self.key)

    @property
    def id(self) -> str:
        """The same as `request_id`."""
        return to_text(self.key)

    @property
    def earlier(self) -> tuple[Response, ...]:
        """With a retry policy, the outcomes of the attempts before the last; `request_id` is that of the last."""
        return tuple(self._owner.earlier)

    @property
    def source(self) -> str:
        """The delegator."""
        return self._source.decode()

    @property
    def capability(self) -> str:
        """The requested capability; "" for a handle that `collect` made from an id alone."""
        return self._capability.decode()

    def result(self, timeout: float | None = None) -> Response:
        """Wait for the outcome.

        Args:
            timeout: seconds to wait; None and infinity wait for the outcome, which the deadline bounds.

        Raises:
            WaitTimeout: no outcome after `timeout` seconds; the delegation continues, and `result` may be called again.
            UsageError: `timeout` is no number; or the calling thread runs an event loop or a callback of a handle, which
                would stand still: `await` the handle there.
        """
        patience = None if timeout is None else checked_timeout(timeout)
        if not self._done:
            self._owner.check_may_wait()
            self._wait(patience)
        return self.outcome()

    def answer(self, timeout: float) -> Response:
        """As `result`, also in a user's own event loop, which stands still meanwhile: the bus itself answers at once."""
        if not self._done:
            self._owner.check_may_wait(in_own_loop=True)
            self._wait(timeout)
        return self.outcome()

    def _wait(self, timeout: float | None) -> None:
        owner = self._owner
        owner.flush()
        made = self._waiter or Latch()  # not with the lock: any call may run a user's finalizer, which may wait
        with owner.lock:
            waiter = self._waiter = self._waiter or made
        if self._done:
            waiter.set()
        if not owner.wait(waiter, timeout):
            msg = f"{self.capability} ({self.id}) had no outcome after {timeout} s; it goes on."
            raise WaitTimeout(msg)

    def outcome(self) -> Response:
        """The outcome, once it is `done`.

        Raises:
            UsageError: there is none yet.
        """
        if self._response is None:
            if self._header is None:
                raise UsageError(
                    f"{self.capability} ({self.id}) has no outcome yet: `.result()` or `await` waits for it."
                )
            self._response = self.read(self._header, self._envelope)
        return self._response

    def add_done_callback(self, callback: Callable[[Handle], None]) -> None:
        """Call `callback(handle)` once there is an outcome, at once if there is one.

        It runs in the node's receiving thread, so it must be short and must not wait.

        Raises:
            UsageError: the callback is one of asyncio's own, which may run in its event loop's thread alone.
        """
        if getattr(getattr(callback, "func", callback), "__module__", None) == "asyncio.tasks":
            raise UsageError("asyncio.wait needs futures: asyncio.ensure_future(handle).")
        if not self._when_done(lambda handle: self._owner.call(lambda: callback(handle))):
            callback(self)

    def _when_done(self, callback: Callable[[Handle], None]) -> bool:
        """Have something called as soon as there is an outcome, in whatever thread brings it; False if there is one."""
        made: list[Callable[[Handle], None]] = []
        with self._owner.lock:
            if self._done:
                return False
            if self._callbacks is None:
                self._callbacks = made
            self._callbacks.append(callback)
            return True

    def put_when_done(self, ended: deque[Handle]) -> None:
        """Put it at the end of a queue with its outcome, or now if it has it."""
        with self._owner.lock:
            if self._done:
                ended.append(self)
            else:
                self._ended = ended

    def take_ended(self, ended: deque[Handle]) -> list[Handle]:
        """Take all handles of its owner out of such a queue: each is there whose `done` was seen before."""
        with self._owner.lock:
            found = list(ended)
            ended.clear()
        return found

    def cancel(self) -> None:
        """Cancel the delegation; the outcome is CANCELLED unless another came first.

        The handler sees it in `task.cancelled` (an `async def` is cancelled), and its sub-delegations end too.
        """
        if not self._done:
            made: list[Callable[[Handle], None]] = []
            with self._owner.lock:
                if self._callbacks is None:  # whoever cancels it has not forgotten it
                    self._callbacks = made
            self._owner.cancel(self)

    def stream(self) -> Stream:
        """Follow it: ACCEPTED and PROGRESS responses as they come, then the outcome; iterate with for or async for."""
        return Stream(self)

    def __await__(self) -> Generator[Any, None, Response]:
        """Await the outcome in any event loop; if the task that awaits it is cancelled, so is the delegation.

        So `asyncio.wait_for` and `asyncio.timeout` end the work too; `asyncio.shield(handle)` lets it go on.
        """
        import asyncio

        if not self._done:
            self._owner.flush()
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def wake(_handle: Handle) -> None:
                call_in(loop, lambda: None if future.done() else future.set_result(None))

            if self._when_done(wake):
                try:
                    yield from future.__await__()
                except asyncio.CancelledError:
                    self.cancel()
                    raise
        return self.outcome()

    def __repr__(self) -> str:
        state = self.outcome().status.name if self._done else "running"
        return f"<Handle {self.capability} {self.id} {state}>"

    def read(self, header: Header, envelope: bytes) -> Response:
        """A response to it, with the external id that the delegator gave it, whatever is answered.

        An outcome whose body, or whose data, nobody can read is FAILED_EXECUTION `unreadable_response`: every ending is a
        value, and so is every part of it. A sign of running work that nobody can read says that and keeps its status.
        """
        try:
            response = read_response(header, envelope)
            if (data := response.data_payload) is not EMPTY:
                packed = data.packed
                if packed[:1] in _LEAVES or possible_containers(packed) < _SHALLOW:
                    unpack(packed, bounded=True)  # a third of the time of `value`, which freezes it too
                else:
                    _ = response.data
        except EtherError as error:
            name = name_of(header.source) if is_name(header.source) else SUPERVISOR
            message = (
                f"{name} answered with status {header.status} and what nobody can read: {printable(error, _MOST_SAID)}"
            )
            is_interim = header.status in INTERIM
            response = Response(
                request_id=self.id, from_agent=name, summary=message,
                status=Status.of_code(header.status) if is_interim else Status.FAILED_EXECUTION,
                error=ErrorInfo(code="unreadable_response", message=message),
            )  # fmt: skip
        if not self._sent or response.external_id == self.external_id:
            return response  # what was taken up by its id has that of its answer
        return response.model_copy(update={"external_id": self.external_id})

    # -- the node's side -----------------------------------------------------------------------------------------

    def deliver(self, header: Header | None, envelope: bytes, response: Response | None = None) -> bool:
        """Take a response from the broker, or without a header one that was made here; whether it was the outcome."""
        if header is not None and header.status in INTERIM:
            self._update((header, envelope))
            return False
        with self._owner.lock:
            if self._done:
                return False
            self._header, self._envelope, self._response = header, envelope, response
            self._done = True  # it says that all is there to readers who do not take the lock
            if self._ended is not None:
                self._ended.append(self)
                self._ended = None
            waiter, callbacks, listeners = self._waiter, self._callbacks, self._listeners
            self._waiter = self._callbacks = self._listeners = None
        if waiter is not None:
            waiter.set()
        for callback in callbacks or ():
            callback(self)
        for listener in listeners or ():
            listener(None)
        return True

    def _update(self, update: Update) -> None:
        with self._owner.lock:
            if self._updates is None:
                self._updates = Updates()
            if update[0].flags & _RESENT and self._came_before(*update):
                return
            self._updates.append(update)
            listeners = self._listeners or ()
        for listener in listeners:
            listener(update)

    def _came_before(self, header: Header, envelope: bytes) -> bool:
        """Whether what is sent again, because a broker died, or something later of that run, has been heard already."""
        for past, said in reversed(self._updates.items if self._updates is not None else ()):
            if past.attempt != header.attempt or header.status != _PROGRESS:
                return past.attempt >= header.attempt
            if past.status == _PROGRESS:
                return (self.read(past, said).timestamp or 0.0) >= (self.read(header, envelope).timestamp or 0.0)
        return False

    def end(self, response: Response) -> None:
        """Give an outcome without the broker, because it cannot be reached."""
        self.deliver(None, b"", response)

    def share(self, other: Handle) -> None:
        """Give another handle of the same request the outcome of this one; only once `done`."""
        other.deliver(self._header, self._envelope, self._response if self._header is None else None)

    def twin(self, owner: HandleHost, deadline: float) -> Handle:
        """Another handle of the same delegation, for another owner."""
        return type(self)(owner, self.key, self._source, self._capability, self._sent, deadline, self.external_id)

    def stand_for(self, other: Handle) -> None:
        """Be a handle of another delegation from now on."""
        self.key, self._sent, self._delegation = other.key, other._sent, None

    def listen(self, listener: Callable[[Update | None], None]) -> None:
        """Call `listener` with each update so far and to come, and with None at the end."""
        with self._owner.lock:
            past = [] if self._updates is None else list(self._updates.items)
            is_over = self._done
            if not is_over:
                self._listeners = [*(self._listeners or ()), listener]
            for update in past:
                listener(update)
        if is_over:
            listener(None)

    def unlisten(self, listener: Callable[[Update | None], None]) -> None:
        """Call a listener no more."""
        with self._owner.lock:
            self._listeners = [one for one in self._listeners or () if one != listener] or None


class Stream:
    """The responses of one delegation in order: ACCEPTED, PROGRESS, and last the outcome.

    Of those that nobody has taken it keeps 1,000, and 8 MiB: the oldest make room. It keeps none once its loop was left.

    A task that is cancelled while it awaits the next cancels the delegation, as when it awaits the handle.

    Example:
        handle = bus.delegate("text.count", {"text": "two words"})
        assert [response.status.name for response in handle.stream()][-1] == "COMPLETED"
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[Response]:
        """Wait for each."""
        handle, owner = self._handle, self._handle._owner  # noqa: SLF001  a stream is the handle's other half
        news: SimpleQueue[None] = SimpleQueue()
        owner.check_may_wait()
        unread = Unread(news.put)
        handle.listen(unread.put)
        try:
            while not unread.is_over:
                owner.check_may_wait()
                owner.flush()
                owner.take(news, None)
                for update in unread.take():
                    yield handle.read(*update)
        finally:
            handle.unlisten(unread.put)
        yield handle.outcome()

    async def __aiter__(self) -> AsyncIterator[Response]:
        """Await each."""
        import asyncio

        handle, owner = self._handle, self._handle._owner  # noqa: SLF001  as above
        news: LoopQueue[None] = LoopQueue()
        owner.flush()
        unread = Unread(news.put)
        handle.listen(unread.put)
        try:
            while not unread.is_over:
                try:
                    await owner.take_in_loop(news, None)
                except asyncio.CancelledError:
                    handle.cancel()
                    raise
                for update in unread.take():
                    yield handle.read(*update)
        finally:
            handle.unlisten(unread.put)
        yield handle.outcome()


def checked_timeout(timeout: object) -> float | None:
    """Seconds to wait as the system takes them: no less than 0, and None for longer than any delegation has."""
    if timeout is None:
        return None
    if not is_number(timeout):
        raise UsageError(f"timeout={timeout!r:.40}: seconds of patience, or None.")
    return None if timeout > LONGEST_TIMEOUT else max(0.0, float(timeout))
