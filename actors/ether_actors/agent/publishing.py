"""The question by which the bus is asked to publish an event."""

from __future__ import annotations

from typing import Any

from ether_broker.encoding.bounded import EVENT_CONTAINERS, MOST_EVENT, check_containers
from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.envelope.names import GRAMMAR, TOPIC_PATTERN, is_topic
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidEnvelope, PayloadTooLarge
from ether_broker.number import is_number

__all__ = ["publish_params"]


def publish_params(topic: str, data: Any, timeout: float | None) -> dict[str, Any]:
    """The params of `ether.publish`, checked.

    Raises:
        InvalidEnvelope: it is no topic, or no timeout, or the data has too many maps and lists.
        Unserialisable: the data is nothing that can be packed.
        PayloadTooLarge: it has more than 60 KiB.
    """
    if not isinstance(topic, str) or not is_topic(topic):
        raise InvalidEnvelope(f"{topic!r:.80} is no topic of an event: {GRAMMAR[TOPIC_PATTERN]}.")
    packed = pack(data, where="the event's data", bounded=True)
    if len(packed) > MOST_EVENT:
        raise PayloadTooLarge(len(packed), MOST_EVENT)
    check_containers(packed, EVENT_CONTAINERS, "event's data")
    if timeout is None:
        return {"topic": topic, "data": packed}
    if not is_number(timeout) or not 0 < timeout <= LONGEST_TIMEOUT:
        raise InvalidEnvelope(f"publish: timeout={timeout!r:.40}: seconds above 0, up to {LONGEST_TIMEOUT:g}, or None.")
    return {"topic": topic, "data": packed, "timeout": float(timeout)}
