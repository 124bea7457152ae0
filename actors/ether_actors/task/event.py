"""An event that was published, as whoever handles or observes it gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ether_broker.encoding.frozen import freeze
from ether_broker.envelope.names import is_topic
from ether_broker.envelope.payload import unpack

__all__ = ["Event", "delivery_params"]


def delivery_params(topic: str, data: bytes, publisher: str, id_: str, time: float) -> dict[str, Any]:
    """The params of the delegation by which the bus delivers an event; `Event.of_delivery` reads them.

    Args:
        topic: as published.
        data: packed.
        publisher: the agent that published it.
        id_: of the publication.
        time: Unix time.
    """
    return {"topic": topic, "data": data, "publisher": publisher, "id": id_, "time": time}


@dataclass(frozen=True, slots=True)
class Event:
    """An event that was published, as a method under `@on_event`, or an observer, gets it; it is deeply frozen.

    Example:
        class Clerk(Agent):
            @on_event("orders.*")
            def note(self, event: Event) -> None:
                print(event.publisher, "says", event.topic, event.data["number"])

        bus.start(Clerk)
        published = bus.publish("orders.new", {"number": 7}).result()
        assert published.data == {"subscribers": 1, "refused": []}
    """

    topic: str
    """As it was published, such as `orders.new`."""
    data: Any = field(hash=False)
    """What the publisher said; its dicts and lists cannot be changed."""
    publisher: str
    """The agent that published it, or the name of the runtime."""
    id: str
    """The same for all subscribers, and for an event that is delivered again."""
    time: float
    """When the bus took it, as Unix time; of a publication that an observer sees, when its publisher sent it."""

    @classmethod
    def of_delivery(cls, params: Mapping[str, Any]) -> Event:
        """The event that a delivery brings.

        Raises:
            KeyError, TypeError: these are not the params of a delivery.
            InvalidEnvelope: its data cannot be read.
        """
        return cls(params["topic"], _read(params["data"]), params["publisher"], params["id"], params["time"])

    @classmethod
    def of_publication(cls, params: Mapping[str, Any], publisher: str, request_id: str, time: float) -> Event:
        """The event that a delegation of `ether.publish` is to publish.

        Raises:
            KeyError, TypeError: these are not its params.
            InvalidEnvelope: its data cannot be read.
        """
        if not isinstance(params["topic"], str) or not is_topic(params["topic"]):
            raise TypeError("topic")
        return cls(params["topic"], _read(params["data"]), publisher, request_id, time)


def _read(packed: bytes) -> Any:
    return freeze(unpack(packed, bounded=True))
