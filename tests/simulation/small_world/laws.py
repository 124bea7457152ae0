"""What holds in every state of a small world, and what in those in which nothing more happens by itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ether_broker.wire.frame import read_header
from tests.actors.fold import differences
from tests.simulation.small_world.peer import number_of

if TYPE_CHECKING:
    from ether_actors.supervisor.supervisor import Supervisor
    from tests.simulation.small_world.journal import SmallJournal
    from tests.simulation.small_world.world import World

__all__ = ["broken", "left_over"]


def broken(world: World) -> str:
    """Which law is broken; empty when all hold."""
    outcomes = world.outcomes()
    for number, found in outcomes.items():
        if len(found) > 1:
            return f"one outcome: {number} has {len(found)}"
    for peer in world.peers.values():
        for number, (status, code) in peer.heard.items():
            ended = outcomes.get(number)
            if ended is None and code not in {"journal_unavailable", "broker_lost"}:
                return f"one outcome: {peer.name} was told {status} {code!r} of {number}, which has none"
            if number == world.repeated and code in {"journal_unavailable", "broker_lost"}:
                continue  # who sends again before the answer to the first is heard may be told of both
            if ended is not None and code == "broker_lost":
                return f"no loss: {peer.name} was told that {number} is lost"
            if ended is not None and read_header(ended[0]).status != status:
                return f"one outcome: {peer.name} was told {status} {code!r} of {number}, which ended otherwise"
        for number, runs in peer.given.items():
            if len(set(runs)) < len(runs):
                return f"at most once: {number} came twice as {runs}"
            if len(runs) > 1 and world.relation.capabilities[number - 1] == "once":
                return f"at most once: {number} came as {runs}"
    return "" if world.supervisor is None else _of_the_broker(world.supervisor, world.journal)


def _of_the_broker(supervisor: Supervisor, journal: SmallJournal) -> str:
    for entry in supervisor.state.ledger.running:
        if entry.parent is not None and entry.parent.is_over:
            return f"parents: {number_of(entry.request_id)} goes on without {number_of(entry.parent.request_id)}"
    found = differences(supervisor, journal.live)
    return f"fold: {found[0]}" if found else ""


def left_over(world: World) -> str:
    """What is left at rest; empty when nothing is."""
    supervisor = world.supervisor
    state = supervisor.state
    if state.ledger.running:
        return f"liveness: {[entry.request_id[-1] for entry in state.ledger.running]} never ended"
    if world.journal.waiting:
        return "liveness: something was never committed"
    for agent in state.registry.agents:
        if agent.mailbox.outstanding:
            return f"leak: {agent.name!r} has {agent.mailbox.in_flight} and {agent.mailbox.waiting_count} left"
    for peer in world.peers.values():
        if peer.wanted:
            return f"liveness: {peer.name} never learned of {list(peer.wanted)}"
        if peer.works:
            return f"leak: {peer.name} still has {list(peer.works)}"
    held = [request for agent in state.registry.agents for request in (*agent.work, *agent.ended_at_node)]
    if state.ledger.size or held or state.ledger._asked or state.ledger.deadlines.next() < inf:
        return (
            f"leak: {state.ledger.size} bytes of delegations; {held} are with agents, {state.ledger._asked} asked for"
        )
    if state.leases.stakes:
        return "leak: a lease is held"
    return ""
