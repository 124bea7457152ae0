"""The state that a journal tells, compared with the state of the supervisor that wrote it."""

from __future__ import annotations

from typing import Any

from ether_actors.history import History
from ether_actors.ledger import State
from ether_actors.records import Records
from ether_actors.registration import Condition
from ether_broker.ids import NO_ID
from ether_broker.wire import Flag, read_header

__all__ = ["differences"]


def differences(records: Records, history: History) -> list[str]:
    """Where a broker that was started anew from the journal would disagree with this one; empty when they agree."""
    found: list[str] = []
    for name, live, folded in (
        ("work", _work(records), _folded_work(history)),
        ("agents", _agents(records), _folded_agents(history)),
        ("ended", records.ended.pack(), history.ended.pack()),
        ("leases", _leases(records), history.leases),
        ("next", records.tap.next, history.next),
    ):
        if live != folded:
            found.append(f"{name}: live {_only(live, folded)}, folded {_only(folded, live)}")
    return found


def _only(one: Any, other: Any) -> Any:
    """What of one is not in the other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: value for key, value in one.items() if key not in other or other[key] != value}
    if isinstance(one, list) and isinstance(other, list):
        return [item for item in one if item not in other] or f"in another order: {one}"
    return one


def _work(records: Records) -> list[tuple[object, ...]]:
    return [
        (
            entry.request_id, entry.source, entry.agent.name, entry.capability, entry.attempt,
            entry.state is State.RUNNING, entry.pinned, NO_ID if entry.parent is None else entry.parent.request_id,
            [child.request_id for child in entry.children or ()],
        )
        for entry in records.ledger.running
    ]  # fmt: skip


def _folded_work(history: History) -> list[tuple[object, ...]]:
    children: dict[bytes, list[bytes]] = {}
    for request_id, work in history.open.items():
        children.setdefault(work.parent, []).append(request_id)
    found = []
    for request_id, work in history.open.items():
        header = read_header(work.envelope)
        found.append((
            request_id, header.source, work.agent or header.target, work.capability or header.capability, work.attempt,
            work.is_running, not header.flags & Flag.ROUTED, work.parent, children.get(request_id, []),
        ))  # fmt: skip
    return found


def _leases(records: Records) -> dict[str, tuple[str, bytes, int]]:
    return {held.resource: (held.agent, held.holder, held.token) for held in records.leases.held}


def _agents(records: Records) -> dict[str, tuple[object, ...]]:
    return {
        agent.manifest.agent: (agent.session.node, agent.session.digest, agent.condition is Condition.DOWN)
        for agent in records.registry.agents
    }


def _folded_agents(history: History) -> dict[str, tuple[object, ...]]:
    return {name: (agent.node, agent.incarnation, agent.is_down) for name, agent in history.agents.items()}
