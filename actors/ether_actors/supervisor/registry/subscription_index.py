"""An index of agents by the topics of events to which they subscribe. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from ether_actors.supervisor.registry.registration import Registration
from ether_broker.envelope.manifest import subscriptions_to

__all__ = ["SubscriptionIndex"]


class SubscriptionIndex:
    """An index of agents by what they subscribe to: finding those of a topic costs its words and those that are found."""

    def __init__(self) -> None:
        self._subscribers: dict[str, OrderedDict[Registration, None]] = {}
        """{topic, topic and `.*`, or `*`: who declares it}, in the order in which they came; a dict is slow to go through when
        many have left it."""

    def add(self, agent: Registration) -> None:
        """Enter an agent that is not entered."""
        for subscription in agent.manifest.subscriptions:
            self._subscribers.setdefault(subscription.topic, OrderedDict())[agent] = None

    def remove(self, agent: Registration) -> None:
        """Take an agent out that is entered, with the manifest that it has."""
        for subscription in agent.manifest.subscriptions:
            subscribers = self._subscribers[subscription.topic]
            del subscribers[agent]
            if not subscribers:
                del self._subscribers[subscription.topic]

    def subscribers(self, topic: str) -> Iterator[Registration]:
        """Each agent that is to be given an event of a topic, once, whatever its condition."""
        found: set[Registration] = set()
        for declared in subscriptions_to(topic):
            for agent in self._subscribers.get(declared, ()):
                if agent not in found:
                    found.add(agent)
                    yield agent
