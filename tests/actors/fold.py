"""The state that a journal tells, compared with the state of the supervisor that wrote it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.envelope.ids import NO_ID
from ether_broker.wire.frame import Flag, read_header

if TYPE_CHECKING:
    from ether_actors.supervisor.state.broker_state import BrokerState
    from ether_actors.supervisor.supervisor import Supervisor

__all__ = ["differences"]

_ROUNDING: Final = 1e-3
"""Seconds by which deadlines may differ that were moved to another clock."""


def differences(supervisor: Supervisor, history: History) -> list[str]:
    """Where a broker that was restarted from the journal would disagree with this one; empty when they agree.

    Args:
        supervisor: of this one.
        history: of its journal, by its clock (`History.begin`).
    """
    found: list[str] = []
    state = supervisor.state
    for name, live, folded in (
        ("work", _work(state), _folded_work(history)),
        ("agents", _agents(supervisor), _folded_agents(history)),
        ("ended", state.ended.pack(), history.ended.pack()),
        ("deadlines", *_deadlines(state, history)),
        ("quotas", *_quotas(state, history)),
        ("leases", _leases(state), history.leases),
        ("states", state.agent_states.pack(), history.states.pack()),
        ("next", state.tap.next, history.next),
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


def _work(state: BrokerState) -> list[tuple[object, ...]]:
    def is_bus(entry: Entry) -> bool:
        """Whether it is a question, whose outcome nobody keeps, or an event."""
        return entry.agent is state.bus or entry.source == state.bus.name

    return [
        (
            entry.request_id, entry.source, entry.agent.name, entry.capability, entry.attempt, entry.returns,
            entry.state is State.RUNNING, entry.pinned,
            NO_ID if entry.parent is None or entry.parent.is_over else entry.parent.request_id,
            [child.request_id for child in entry.children or ()], None if is_bus(entry) else entry.asked_from,
        )
        for entry in state.ledger.running
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
            work.returns, work.is_running, not header.flags & (Flag.ROUTED | Flag.FALLTHROUGH),
            work.parent if work.parent in history.open else NO_ID, children.get(request_id, []),
            None if header.target.startswith(b"ether") else work.asked_from,
        ))  # fmt: skip
    return found


def _deadlines(state: BrokerState, history: History) -> tuple[dict[bytes, float], dict[bytes, float]]:
    """{request id: deadline} as the ledger goes by them, and as folded, of those that differ; by the broker's clock.

    A question's is not compared: what it waits for may be over before, by its params.
    """
    live = {entry.request_id: entry.deadline for entry in state.ledger.running if entry.agent is not state.bus}
    folded = {request_id: read_header(work.envelope).deadline for request_id, work in history.open.items()}
    apart = {id_ for id_, deadline in live.items() if abs(deadline - folded.get(id_, deadline)) > _ROUNDING}
    return {id_: live[id_] for id_ in apart}, {id_: folded[id_] for id_ in apart}


def _quotas(state: BrokerState, history: History) -> tuple[dict[str, Counter[bytes]], dict[str, Counter[bytes]]]:
    """{node: its agents' manifests} of the nodes that are in, as counted and as folded."""
    sessions = state.session_table.sessions
    live = {session.node: +session.manifests for session in sessions}
    folded = {session.node: Counter(_manifest_of(history, name) for name in session.agents) for session in sessions}
    return live, folded


def _manifest_of(history: History, name: bytes) -> bytes:
    present = history.agents.get(name.decode())
    return b"" if present is None else present.manifest


def _leases(state: BrokerState) -> dict[str, tuple[str, bytes, int]]:
    return {held.resource: (held.agent, held.holder, held.token) for held in state.leases.after(0)}


def _agents(supervisor: Supervisor) -> dict[str, tuple[object, ...]]:
    waiting = supervisor._membership.departures.waiting  # of others the journal is told when their work is ruled on
    return {
        agent.manifest.agent: (
            agent.session.node,
            agent.session.digest,
            not agent.is_hosted and waiting.get(agent, "moves") == "moves",
            agent.condition is Condition.MOVING and waiting.get(agent, "moves") == "moves",
            waiting.get(agent) == "left" or (agent.condition is Condition.MOVING and waiting.get(agent) == "node_lost"),
            agent.listener is not None,
        )
        for agent in supervisor.state.registry.agents
    }


def _folded_agents(history: History) -> dict[str, tuple[object, ...]]:
    leaving = history.leaving()
    return {
        name: (agent.node, agent.incarnation, agent.is_down, agent.moves, name in leaving, agent.scales)
        for name, agent in history.agents.items()
    }
