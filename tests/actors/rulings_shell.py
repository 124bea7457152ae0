"""What the tests of the rulings share: a bus with a delegator and specialists, sans-IO."""

from __future__ import annotations

import itertools

from ether_broker.mailbox.mailbox_limits import Limits
from tests.actors.peers import Bus, Peer

__all__ = ["ROOM", "chain", "pair"]

ROOM = Limits(mailbox_count=100, window=8)


def pair(limits: Limits = ROOM, **registration: object) -> tuple[Bus, Peer, Peer]:
    """A bus, a node with the delegator `d`, and one with the specialist `a`."""
    bus = Bus(limits)
    return bus, bus.delegator("d"), bus.node("na", "a", **registration)


def chain(*names: str, **registration: object) -> tuple[Bus, dict[str, Peer], int]:
    """Agents that each delegate to the next; the number of the last delegation."""
    bus = Bus(ROOM)
    peers = {name: bus.node(f"n{name}", name, **registration) for name in dict.fromkeys(names)}
    parent = 0
    for source, to in itertools.pairwise(names):
        parent = peers[source].delegate(source, to=to, parent=parent, timeout=30.0)
        bus.step()
    return bus, peers, parent
