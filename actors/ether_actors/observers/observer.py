"""Observers: they see every message that passes the bus, in order and without a gap, and can never hold it up."""

from __future__ import annotations

import inspect
import logging
import traceback
from functools import cache, cached_property
from typing import Any, ClassVar, Final

from ether_actors.task.event import Event
from ether_broker.encoding.bounded import EVENT_CONTAINERS, check_containers
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import EVENT_PREFIX, PUBLISH
from ether_broker.envelope.payload import readable, unpack
from ether_broker.envelope.response import Response
from ether_broker.errors import InvalidEnvelope, UsageError
from ether_broker.name_hint import nearest
from ether_broker.tap import ReadBatch
from ether_broker.text import printable
from ether_broker.unread_log import warn_unread
from ether_broker.wire.codec import read_delegation, read_response
from ether_broker.wire.frame import Header, Kind, read_header

__all__ = ["Observation", "Observer", "check_hooks"]

logger = logging.getLogger("ether.observer")
_PUBLISH: Final = PUBLISH.encode()
_MOST_SAID: Final = 500
"""Characters of what an observer raised that a warning has."""


class Observation:
    """One message that passed the bus, as observers get it; its parts are read when they are asked for.

    Example:
        from ether.observers import Probe

        probe = bus.observe(Probe())
        bus.delegate("text.count", {"text": "two words"}).result()
        seen = probe.expect(capability="text.count", status="COMPLETED")
        assert (seen.from_agent, seen.response.data) == ("counter", 2)
    """

    def __init__(self, number: int, time: float, envelope: bytes) -> None:
        self.number = number
        """Its place among all messages of the broker, from 1."""
        self.time = time
        """When it passed, in seconds by the broker's clock; only differences mean something."""
        self.envelope = envelope
        """The bytes."""
        self.header: Header = read_header(envelope)

    @property
    def kind(self) -> Kind:
        """DELEGATION, RESPONSE or EVENT."""
        return Kind(self.header.kind)

    @property
    def request_id(self) -> str:
        """The delegation that it is about."""
        return to_text(self.header.request_id)

    @property
    def capability(self) -> str:
        """The capability that it is about; empty for events."""
        return self.header.capability.decode(errors="replace")

    @property
    def from_agent(self) -> str:
        """The agent that spoke."""
        return self.header.source.decode(errors="replace")

    @property
    def to_agent(self) -> str:
        """The agent spoken to."""
        return self.header.target.decode(errors="replace")

    @cached_property
    def delegation(self) -> Delegation:
        """The delegation, read and validated; only of a DELEGATION.

        Raises:
            InvalidEnvelope: its delegator sent a body that is none.
        """
        return read_delegation(self.header, self.envelope)

    @cached_property
    def response(self) -> Response:
        """The response, read and validated; only of a RESPONSE.

        Raises:
            InvalidEnvelope: its specialist sent a body that is none.
        """
        return read_response(self.header, self.envelope)

    @cached_property
    def event(self) -> dict[str, Any]:
        """What happened: `event` is its name, the rest depends on it; only of an EVENT."""
        return dict(unpack(self.envelope[self.header.body :]))

    @cached_property
    def saved_state(self) -> Any:
        """The state of an agent that an event `agent_state` tells, as a dict of its fields; None of any other message.

        One that cannot be read, or has more than 4,096 maps and lists, is given as its bytes.
        """
        if self.header.kind != Kind.EVENT or self.event.get("event") != "agent_state":
            return None
        packed = self.event["state"]
        try:
            check_containers(packed, EVENT_CONTAINERS, "state")
        except InvalidEnvelope:
            return packed
        return readable(packed)

    @cached_property
    def published(self) -> Event | None:
        """The event that a delegation publishes (`ether.publish`) or delivers to a subscriber (`ether.event.TOPIC`); else None.

        `published.id` is the same for the publication and all its deliveries. The `time` of a publication is its delegator's.

        Raises:
            InvalidEnvelope: it is neither, though its capability says so, or its data cannot be read.
        """
        name = self.header.capability
        if self.header.kind != Kind.DELEGATION or not (name == _PUBLISH or name.startswith(EVENT_PREFIX)):
            return None
        delegation = self.delegation
        try:
            if name != _PUBLISH:
                return Event.of_delivery(delegation.params)
            return Event.of_publication(
                delegation.params, self.from_agent, self.request_id, delegation.timestamp or 0.0
            )
        except (KeyError, TypeError) as error:
            raise InvalidEnvelope(f"These are not the params of {self.capability}: {error}") from None

    def __repr__(self) -> str:
        return f"<Observation {self.number} {self.kind.name} {self.capability or self.from_agent} {self.request_id}>"


class Observer:
    """The base of what sees every message; override what you need, and `bus.observe(YourObserver())`.

    Its methods run in a separate thread. A slow observer does not delay the bus: it catches up from the last 65,536
    messages (64 MiB) in the broker's memory, or from the journal. `on_gap` gets the numbers that are in neither (G7).
    An exception is logged and counted in `failures`, and the observer gets the next message.

    Example:
        class Slow(Observer):
            def on_response(self, observation: Observation) -> None:
                if observation.response.status is Status.TIMEOUT:
                    print(observation.capability, "was too slow")

        slow = bus.observe(Slow())
        assert bus.settle(slow)
    """

    capabilities: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the capabilities to receive; empty receives all messages, including events."""

    failures: int = 0
    """Messages on which it raised."""
    position: int = 0
    """The number of the next message that it gets; 0 until it is attached."""
    missed: int = 0
    """Messages that were no longer available when it would have received them."""

    def on_message(self, observation: Observation) -> None:
        """See one message; by default hands it to one of the three below."""
        match observation.header.kind:
            case Kind.DELEGATION:
                self.on_delegation(observation)
            case Kind.RESPONSE:
                self.on_response(observation)
            case Kind.EVENT:
                self.on_event(observation)

    def on_delegation(self, observation: Observation) -> None:
        """See a delegation that reached the broker, accepted or not."""

    def on_response(self, observation: Observation) -> None:
        """See a response: the specialist's, or the supervisor's own."""

    def on_event(self, observation: Observation) -> None:
        """See that an agent or node came or went, or that a dead letter was kept."""

    def on_gap(self, first: int, last: int) -> None:
        """Learn that the messages `first` to `last` were gone before they could be seen, or are damaged in the journal."""

    def on_start(self) -> None:
        """Set up; runs before the first message."""

    def on_stop(self) -> None:
        """Clean up; runs after the last message."""

    def observe(self, batch: ReadBatch) -> None:
        """Take in a batch; what it raises on is logged and counted."""
        if self.position and batch.first > self.position:
            self.missed += batch.first - self.position
            self.guard(self.on_gap, self.position, batch.first - 1)
        for passed in batch.envelopes:
            self.guard(self._see, *passed)
        self.position = batch.next

    def _see(self, number: int, time: float, envelope: bytes) -> None:
        self.on_message(Observation(number, time, envelope))

    def guard(self, call: Any, *args: Any) -> None:
        """Run one of its methods; what it raises is logged and counted."""
        try:
            call(*args)
        except BaseException as error:
            self.failures += 1
            if self.failures.bit_count() == 1:
                name = type(self).__name__
                logger.exception("%s raised, %d times so far", name, self.failures)
                what = printable(traceback.format_exception_only(error)[-1].strip(), _MOST_SAID)
                warn_unread(logger, f"The observer {name} raised {what}, {self.failures:,} times so far.")


@cache
def _hooks() -> dict[str, tuple[str, ...]]:
    """{method that the bus calls: what it is given}; not made by `import ether`."""
    return {
        name: tuple(inspect.signature(hook).parameters)[1:]
        for name, hook in vars(Observer).items()
        if name.startswith("on_")
    }


def check_hooks(observer: Observer) -> None:
    """Check that the bus calls each method `on_…` of an observer's classes, and can.

    Raises:
        UsageError: one is none of those that it calls, is an `async def`, or takes something else.
    """
    own = [cls for cls in type(observer).__mro__ if issubclass(cls, Observer)]
    for name in sorted({name for cls in own for name in vars(cls) if name.startswith("on_")}):
        hook = getattr(observer, name)
        if not callable(hook):
            continue
        where = f"{type(observer).__qualname__}.{name}"
        if name not in _hooks():
            raise UsageError(f"{where} is none of the methods that the bus calls.{nearest(name, _hooks())}")
        if inspect.iscoroutinefunction(hook):
            raise UsageError(f"{where} is an `async def`, which nothing would await: make it a plain `def`.")
        given = _hooks()[name]
        try:
            inspect.signature(hook).bind(*given)
        except TypeError:
            raise UsageError(
                f"{where} does not take what it is given: def {name}({', '.join(('self', *given))})."
            ) from None
        except ValueError:  # what is written in C may not say what it takes
            continue
