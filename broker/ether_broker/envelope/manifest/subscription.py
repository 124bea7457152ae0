"""The subscription of an agent to events, by their topic."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ether_broker.envelope.model import Model
from ether_broker.envelope.names import MAX_TOPIC, SUBSCRIPTION_PATTERN, prefixes

__all__ = ["Subscription", "subscriptions_to"]


class Subscription(Model):
    """The declaration of the events that an agent is given; a part of its manifest.

    Example:
        orders = Subscription(topic="orders.*")
        manifest = Manifest(agent="clerk", subscriptions=(orders, Subscription(topic="orders.late")))
        assert manifest.subscription("orders.late").topic == "orders.late"
        assert manifest.subscription("orders.new") == orders
    """

    topic: Annotated[str, Field(pattern=SUBSCRIPTION_PATTERN, max_length=MAX_TOPIC)]
    """A topic; `orders.*` for all topics below `orders`; or `*` for all."""
    idempotent: bool = False
    """Whether handling an event twice does no harm; then it is redelivered when its node dies (G3)."""
    description: str = ""


def subscriptions_to(topic: str) -> list[str]:
    """What can be subscribed to for a topic: itself, then `.*` after more and more of it left out, then `*`."""
    return [topic, *(f"{begin}.*" for begin in reversed(prefixes(topic)[:-1])), "*"]
