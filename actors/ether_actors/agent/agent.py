"""Agents: pykka actors whose decorated methods are capabilities."""

from __future__ import annotations

import inspect
import itertools
import logging
import sys
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import pykka
from pydantic import BaseModel, ValidationError

from ether_actors.agent.agent_bus import AgentBus, AgentBusServices
from ether_actors.agent.composable import ComposableAgent
from ether_actors.agent.declarations.capability import Handler, handlers_of
from ether_actors.agent.declarations.class_checks import check_overridden, check_own, misspelt_settings
from ether_actors.agent.declarations.event_handler import EventHandler, event_handlers_of
from ether_actors.agent.declarations.schedule import Schedule, schedule_of
from ether_actors.agent.declarations.state_model import state_model
from ether_actors.agent.inbox import Inbox
from ether_actors.threads.pool import this_thread
from ether_broker.envelope.manifest.manifest import Depth, Interface, Manifest
from ether_broker.envelope.manifest.subscription import subscriptions_to
from ether_broker.envelope.model import problem_words
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidManifest, UsageError
from ether_broker.name_hint import misses
from ether_broker.number import is_number
from ether_broker.unread_log import warn_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from types import FrameType, TracebackType

    from pykka import Future
    from pykka._actor import ActorInbox

__all__ = ["Agent", "AsyncAgent", "ThreadedAgent"]

logger = logging.getLogger("ether.agent")
_numbers = itertools.count(1)

_ELSEWHERE: Final = {
    "state": "the class declares it, as in `state: Counts`, by a pydantic model with defaults",
    "delegate": "task.delegate(…) in a handler; else self.bus.delegate(…)",
    "publish": "self.bus.publish(topic, …)",
    "name": "self.agent_name",
}
"""{what is looked for at an agent: what to write instead}"""


class _Flag:
    """As much of a threading.Event as pykka needs."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it."""
        self._is_set = True


class _Future(pykka.ThreadingFuture[Any]):
    """The answer to what was asked with a pykka ref; a handler that waits for it leaves its place to another."""

    def get(self, *, timeout: float | None = None) -> Any:
        """Wait for the answer."""
        with this_thread.waits():
            return super().get(timeout=timeout)


def check_hang_limit(cls: type, limit: object) -> None:
    """Check the `hang_limit` of a class of agents, or of an agent of it.

    Raises:
        InvalidManifest: it is neither seconds nor None.
    """
    if limit is not None and not (is_number(limit) and limit >= 0):
        raise InvalidManifest(f"{cls.__qualname__}.hang_limit is {limit!r:.40}: give seconds, 0 or more, or None.")


def _defining_namespace(cls: type) -> dict[str, Any]:
    """What only the function that defines a class knows: annotations may name it."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  there is no other way to a class's scope
    while frame is not None and frame.f_globals.get("__name__") != cls.__module__:  # such as ABCMeta.__new__
        frame = frame.f_back
    return {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)


class Agent(pykka.Actor, ComposableAgent):
    """An actor that takes delegations; subclass it, decorate methods with `@capability`, and `bus.start(YourAgent)`.

    It handles `max_concurrency` delegations at a time; with the default of one, it needs no locks. Plain methods run in
    the node's thread pool, `async def` methods in the node's event loop. An exception ends the delegation
    FAILED_EXECUTION, and the agent continues; `AgentCrash`, `SystemExit` and similar exceptions also restart it by its
    child spec, and its mailbox is kept.

    Messages sent by `tell` or `ask` of its pykka ref reach `on_receive`.

    Example:
        class Greeter(Agent):
            @capability("greet")
            def greet(self, name: str) -> str:
                return f"Hello, {name}!"

        bus.start(Greeter)
        assert bus.delegate("greet", {"name": "Ada"}).result().data == "Hello, Ada!"
    """

    version: ClassVar[str] = "0.1.0"
    """Semantic version."""
    role: ClassVar[str] = ""
    """For people; default: the first line of the class's docstring."""
    exclusions: ClassVar[tuple[str, ...]] = ()
    """Capabilities, or their prefixes, that this agent never gets."""
    interface: ClassVar[tuple[Interface, ...]] = (Interface.SINGLE, Interface.CHAINED)
    """The accepted delegations: `single` ones, `chained` ones (made in a handler), or both with `dual-phase`."""
    artifacts_produced: ClassVar[tuple[str, ...]] = ()
    max_depth: ClassVar[Depth] = Depth.DEEP
    tools: ClassVar[tuple[str, ...]] = ()
    notes: ClassVar[str] = ""
    max_concurrency: ClassVar[int] = 1
    """Delegations at a time; with more than 1, plain methods must be safe to run in several threads."""
    hang_limit: ClassVar[float | None] = 30.0
    """Seconds that a handler may continue after its delegation has ended; then the agent restarts and the handler's
    thread or task is abandoned. None waits without limit."""
    inbox_limit: ClassVar[int] = 10_000
    """Messages that may wait at the node; the broker's mailbox has bounds of its own."""
    dispatch: ClassVar[Literal["pool", "thread", "loop"]] = "pool"
    state_version: ClassVar[int] = 1
    """Of the class's state, if it declares one; raise it when a state of before does not fit any more."""

    _namespace: ClassVar[dict[str, Any]] = {}
    _handlers: ClassVar[dict[str, Handler] | None] = None
    _schedules: ClassVar[list[tuple[str, Schedule]] | None] = None
    _manifest: ClassVar[Manifest | None] = None
    _packed_manifest: ClassVar[bytes | None] = None
    _encoded_handlers: ClassVar[dict[bytes, Handler] | None] = None
    _event_handlers: ClassVar[dict[str, EventHandler] | None] = None
    _state_model: ClassVar[type[BaseModel] | None] = None

    actor_urn: str
    actor_inbox: Inbox
    actor_stopped: threading.Event
    agent_name: str = ""
    """The name on the bus; empty until it is started there."""
    bus_services: AgentBusServices | None = None
    """Of its node; None until it is started there."""

    @cached_property
    def bus(self) -> AgentBus:
        """The bus, for what the agent does by itself; from `on_start` on.

        Raises:
            UsageError: it has not been started on a bus.
        """
        if self.bus_services is None:
            raise UsageError(f"{type(self).__name__}.bus is there from on_start on, and not in __init__.")
        return AgentBus(self, self.bus_services)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            other = getattr(super(), "__getattr__", None)
            if other is not None:  # of a base that stands behind this one
                return other(name)
            if name in _ELSEWHERE and not hasattr(type(self), name):
                raise misses(self, name, _ELSEWHERE)
            return object.__getattribute__(self, name)  # raises what a property did

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_own(cls)
        check_overridden(cls)
        for name, setting in misspelt_settings(cls, _SETTINGS):
            msg = f"{cls.__qualname__}.{name} is nothing that the bus reads. Did you mean {setting!r}?"
            logger.warning(msg)
            warn_unread(logger, msg, stacklevel=4)  # the class, beyond ABCMeta.__new__
        cls._namespace = _defining_namespace(cls)
        cls._handlers = cls._schedules = cls._manifest = cls._packed_manifest = cls._encoded_handlers = None
        cls._event_handlers = None
        cls._state_model = state_model(cls, cls._namespace)

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make what the bus needs, so that an `__init__` of a subclass does not have to call that of this class."""
        # As pykka.Actor.__init__, with a flag for its Event and a counter for its uuid4: ten thousand idle agents are
        # half as large, and made in half the time.
        self = super().__new__(cls)
        self.actor_urn = f"urn:ether:agent:{next(_numbers)}"
        self.actor_inbox = Inbox(cls.inbox_limit, cls.max_concurrency)
        self.actor_stopped = _Flag()  # type: ignore[assignment]  # pykka sets it and looks at it, and never waits
        self._actor_ref = pykka.ActorRef(self)
        if cls._state_model is not None:
            self.state = cls._state_model()  # type: ignore[attr-defined]  # which the class declares
        return self

    def __init__(self) -> None:
        """Nothing; `__new__` has made it all."""

    @classmethod
    def handlers(cls) -> dict[str, Handler]:
        """{capability: handler}.

        Raises:
            InvalidManifest: the decorated methods contradict each other.
        """
        if cls._handlers is None:
            cls._handlers = handlers_of(cls, cls._namespace)
        return cls._handlers

    @classmethod
    def schedules(cls) -> list[tuple[str, Schedule]]:
        """The capabilities that the agent delegates to itself, each with its schedule.

        Raises:
            InvalidManifest: as `handlers`.
        """
        if cls._schedules is None:
            found = [(name, schedule_of(handler.function)) for name, handler in cls.handlers().items()]
            cls._schedules = [(name, schedule) for name, schedule in found if schedule is not None]
        return cls._schedules

    @classmethod
    def event_handlers(cls) -> dict[str, EventHandler]:
        """{what it subscribes to: handler}.

        Raises:
            InvalidManifest: the decorated methods contradict each other.
        """
        if cls._event_handlers is None:
            cls._event_handlers = event_handlers_of(cls, cls._namespace)
        return cls._event_handlers

    @classmethod
    def event_handler(cls, topic: str) -> EventHandler | None:
        """What handles the events of a topic: what names most of it (`Manifest.subscription`)."""
        handlers = cls.event_handlers()
        return next((handlers[name] for name in subscriptions_to(topic) if name in handlers), None)

    @classmethod
    def state_model(cls) -> type[BaseModel] | None:
        """The pydantic model that the class's `state` is annotated with; None of a class without a state."""
        return cls._state_model

    @classmethod
    def migrate_state(cls, data: dict[str, Any], version: int) -> dict[str, Any]:  # noqa: ARG003  for subclasses
        """Turn a state that an older version of the class saved into one of this version; override it with `state_version`.

        Args:
            data: the fields as they were saved.
            version: the `state_version` that saved them.

        Returns:
            The fields of the model; by default those that were saved.
        """
        return data

    @classmethod
    def manifest(cls, name: str | None = None) -> Manifest:
        """The agent's entry in the registry, for the given name or the class's own.

        Raises:
            InvalidManifest: the class's attributes do not make one; the message names the attribute.
        """
        if cls._manifest is None:
            cls._manifest = cls._make_manifest()
        return cls._manifest if name is None else cls._manifest.model_copy(update={"agent": name})

    @classmethod
    def packed_manifest(cls) -> bytes:
        """The manifest without the agent's name, as it travels; the same bytes for all agents of the class."""
        if cls._packed_manifest is None:
            fields = cls.manifest().model_dump(mode="json", by_alias=True, exclude_defaults=True)
            del fields["agent"]
            cls._packed_manifest = pack(fields)
        return cls._packed_manifest

    @classmethod
    def encoded_handlers(cls) -> dict[bytes, Handler]:
        """As `handlers`, by the name as it travels; the same for all agents of the class."""
        if cls._encoded_handlers is None:
            cls._encoded_handlers = {name.encode(): handler for name, handler in cls.handlers().items()}
        return cls._encoded_handlers

    @classmethod
    def _make_manifest(cls) -> Manifest:
        for hook in ("on_start", "on_stop", "on_failure"):
            if inspect.iscoroutinefunction(getattr(cls, hook)):
                msg = f"{cls.__qualname__}.{hook} is an `async def`, which nothing would await: make it a plain `def`."
                raise InvalidManifest(msg)
        for setting, fits, wanted in (
            ("dispatch", cls.dispatch in ("pool", "thread", "loop"), "'pool', 'thread' or 'loop'"),
            ("inbox_limit", type(cls.inbox_limit) is int and cls.inbox_limit >= 0, "a number of messages, 0 or more"),
        ):
            if not fits:
                raise InvalidManifest(f"{cls.__qualname__}.{setting} is {getattr(cls, setting)!r:.40}: give {wanted}.")
        if not hasattr(cls.hang_limit, "__get__"):  # as of a property: its value is checked with each agent
            check_hang_limit(cls, cls.hang_limit)
        handlers = cls.handlers()
        doc = (cls.__doc__ or "").strip()
        try:
            return Manifest.model_validate(
                {
                    "agent": default_name(cls),
                    "version": cls.version,
                    "role": cls.role or doc.partition("\n")[0],
                    "description": doc,
                    "capabilities": tuple(handler.capability for handler in handlers.values()),
                    "exclusions": cls.exclusions,
                    "subscriptions": tuple(handler.subscription for handler in cls.event_handlers().values()),
                    "interface": cls.interface,
                    "artifacts_produced": cls.artifacts_produced,
                    "max_depth": cls.max_depth,
                    "tools": cls.tools,
                    "max_concurrency": cls.max_concurrency,
                    "notes": cls.notes,
                }
            )
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            msg = f"{cls.__qualname__}{'.' if where else ''}{where}: {problem_words(problem)}."
            raise InvalidManifest(msg) from None

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG003  pykka's signature
        """Not for agents: a node starts them.

        Raises:
            UsageError: always.
        """
        msg = f"Start it on a bus: bus.start({cls.__name__}, …)."
        raise UsageError(msg)

    def on_start(self) -> None:
        """Set up; runs before the first message, in a thread of the node. An exception here fails `bus.start`."""

    def on_stop(self) -> None:
        """Clean up; runs after the last message."""

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clean up before a restart; another incarnation takes over afterwards."""

    @staticmethod
    def _create_actor_inbox() -> ActorInbox:
        return Inbox()

    @staticmethod
    def _create_future() -> Future[Any]:
        return _Future()

    def _start_actor_loop(self) -> None:
        """The node gives the turns."""


_SETTINGS: Final = frozenset(
    name for name, kind in Agent.__annotations__.items() if kind.startswith("ClassVar") and not name.startswith("_")
)
"""The attributes that a class of agents may set."""


class ThreadedAgent(Agent):
    """An agent with threads of its own, one for each place: for handlers that hold a thread for long.

    Example:
        class Shell(ThreadedAgent):
            max_concurrency = 2  # two threads

            @capability("shell.run")
            def run(self, command: str) -> int:
                return subprocess.run(command, shell=True, check=False).returncode

        bus.start(Shell)
        assert bus.delegate("shell.run", {"command": "true"}).result().data == 0
    """

    dispatch: ClassVar[Literal["pool", "thread", "loop"]] = "thread"


class AsyncAgent(Agent):
    """An agent that lives on the node's event loop: its plain methods run there too, and so must never wait.

    Example:
        class Relay(AsyncAgent):
            @capability("relay.count")
            async def count(self, text: str, task: Task) -> int:
                return (await task.delegate("text.count", {"text": text})).data

        bus.start(Relay)
        assert bus.delegate("relay.count", {"text": "two words"}).result().data == 2
    """

    dispatch: ClassVar[Literal["pool", "thread", "loop"]] = "loop"


def default_name(cls: type) -> str:
    """The class's name as an agent's: `CodeReviewer` is `code-reviewer`."""
    letters: list[str] = []
    for index, letter in enumerate(cls.__name__):
        follows = index and (not cls.__name__[index - 1].isupper())
        letters.append(f"-{letter.lower()}" if letter.isupper() and follows else letter.lower())
    return "".join(letters).strip("_-")


def free_names(base: str, taken: Container[str]) -> Iterator[str]:
    """The names that agents of one kind get: the base itself, then with numbers from 2 on, those that are taken left out."""
    for number in itertools.count(1):
        name = base if number == 1 else f"{base}-{number}"
        if name not in taken:
            yield name


def call_hook(hook: Callable[..., None], *args: Any) -> BaseException | None:
    """Run a hook and return what it raised, whatever that is."""
    try:
        hook(*args)
    except BaseException as error:  # noqa: BLE001  pykka would stop every actor in the process
        return error
    return None
