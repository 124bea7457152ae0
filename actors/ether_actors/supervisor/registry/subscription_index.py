"""An index of agents by the topics of events to which they subscribe. Sans-IO."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from ether_actors.supervisor.registry.registration import Registration
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.manifest.subscription import subscriptions_to
from ether_broker.errors import TooMuch
from ether_broker.transport.sessions.session import Session

__all__ = ["MOST_OF_OWNER", "SubscriptionIndex"]

MOST_OF_OWNER: Final = 1_024
"""Agents with one subscription that the nodes of one key, or a node without one, may have."""


class SubscriptionIndex:
    """An index of agents by what they subscribe to: finding those of a topic costs its words and those that are found."""

    def __init__(self) -> None:
        self._subscribers: dict[str, OrderedDict[Registration, str]] = {}
        """{topic, topic and `.*`, or `*`: {who declares it: its owner}}, in the order in which they came; a dict is slow to go
        through when many have left it."""
        self._of_owner: Counter[tuple[str, str]] = Counter()
        """{(what is declared, owner): agents}."""
        self._sizes: Counter[int] = Counter()
        """{agents: subscriptions that so many declare}."""
        self._most = 0
        self.on_most: Callable[[int], None] = lambda _agents: None
        """Told how many agents declare the subscription that most of them do."""

    def check_room(self, session: Session, known: Collection[Registration | None], manifest: Manifest) -> None:
        """Check that the owner of a session may have some more agents with the subscriptions of a manifest.

        Args:
            session: of the node that registers them.
            known: what the registry has of each of their names, perhaps of a session before.
            manifest: of all.

        Raises:
            TooMuch: it has as many as it may.
        """
        owner = session.principal
        for subscription in manifest.subscriptions:
            subscribers: Mapping[Registration, str] = self._subscribers.get(subscription.topic, {})
            fresh = sum(agent is None or subscribers.get(agent) != owner for agent in known)
            if fresh and self._of_owner[subscription.topic, owner] + fresh > MOST_OF_OWNER:
                raise TooMuch(
                    f"More than {MOST_OF_OWNER:,} agents of {owner!r} would subscribe to {subscription.topic!r}: let one agent "
                    "of each node subscribe and tell the others."
                )

    def add(self, agent: Registration) -> None:
        """Enter an agent that is not entered."""
        owner = agent.session.principal
        for subscription in agent.manifest.subscriptions:
            subscribers = self._subscribers.setdefault(subscription.topic, OrderedDict())
            self._resized(len(subscribers), len(subscribers) + 1)
            subscribers[agent] = owner
            self._of_owner[subscription.topic, owner] += 1

    def remove(self, agent: Registration) -> None:
        """Take an agent out that is entered, with the manifest that it has."""
        for subscription in agent.manifest.subscriptions:
            subscribers = self._subscribers[subscription.topic]
            self._resized(len(subscribers), len(subscribers) - 1)
            key = subscription.topic, subscribers.pop(agent)
            self._of_owner[key] -= 1
            if not self._of_owner[key]:
                del self._of_owner[key]
            if not subscribers:
                del self._subscribers[subscription.topic]

    def _resized(self, before: int, after: int) -> None:
        for size, change in ((before, -1), (after, 1)):
            self._sizes[size] += change
            if not self._sizes[size]:
                del self._sizes[size]
        most = max(self._most, after)
        while most and not self._sizes[most]:
            most -= 1
        if most != self._most:
            self._most = most
            self.on_most(most)

    def subscribers(self, topic: str) -> Iterator[Registration]:
        """Each agent that is to be given an event of a topic, once, whatever its condition."""
        found: set[Registration] = set()
        for declared in subscriptions_to(topic):
            for agent in self._subscribers.get(declared, ()):
                if agent not in found:
                    found.add(agent)
                    yield agent
