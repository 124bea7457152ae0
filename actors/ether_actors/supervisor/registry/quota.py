"""The quotas of a node. Sans-IO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.names import is_name
from ether_broker.errors import InvalidEnvelope, TooMuch
from ether_broker.text import short_text

if TYPE_CHECKING:
    from ether_actors.supervisor.registry.registration import Registration
    from ether_broker.transport.sessions.memory_quota import MemoryQuota
    from ether_broker.transport.sessions.session import Session

__all__ = [
    "MOST_AGENTS",
    "MOST_AT_A_TIME",
    "MOST_AWAITED",
    "MOST_DOWN",
    "MOST_MANIFESTS",
    "MOST_MONITORS",
    "MOST_OBSERVERS",
    "MOST_RESUMED",
    "at_a_time",
    "check_agents",
    "check_count",
    "check_monitor",
    "check_observer",
    "check_room",
    "hold",
    "let_go",
    "load_of",
    "read_resume",
    "said_of_itself",
]

MOST_AGENTS: Final = 1 << 17
"""Agents that a node may have, those of its runtime among them; and half of what the bus may have at most."""
MOST_AT_A_TIME: Final = 64
"""Of them those that one REGISTER may name; fewer where they have many capabilities: see `at_a_time`."""
_ENTERED: Final = 512
"""Capabilities that one REGISTER of several agents enters at most."""
MOST_DOWN: Final = 1 << 17
"""Agents that are down and not forgotten, of all nodes; and half of what the bus may have at most."""
MOST_MANIFESTS: Final = 64 << 20
"""Bytes of the manifests that its agents have, each counted once."""
_MANIFEST: Final = 256 << 10
"""Bytes of one."""
MOST_OBSERVERS: Final = 64
"""Observers that a node may have."""
_PREFIXES: Final = 256
"""Of capabilities, that an observer may name."""
MOST_MONITORS: Final = 16_384
"""Agents and nodes that a node may monitor at a time."""
MOST_RESUMED: Final = 1_000
"""Request ids that one RESUME names, and agents."""
MOST_AWAITED: Final = 1 << 18
"""Outcomes of what has ended that a node may wait for at a time; it asks again for what is beyond that."""
_SAID: Final = ("host", "pid", "version")
_LOAD: Final = ("running", "waiting", "busy_for")
_BLOCKING: Final = ("capability", "request_id", "at")
_TEXT: Final = 200


def at_a_time(capabilities: int) -> int:
    """Agents of so many capabilities that one REGISTER may name."""
    return max(1, min(MOST_AT_A_TIME, _ENTERED // max(1, capabilities)))


def check_count(agents: int, capabilities: int) -> int:
    """How many capabilities a REGISTER enters, of agents that have so many each.

    Raises:
        TooMuch: several agents have too many of them together.
    """
    if agents > at_a_time(capabilities):
        raise TooMuch(f"REGISTER of {agents} agents with {capabilities} capabilities each: say it in several.")
    return agents * capabilities


def check_agents(session: Session, names: list[bytes], packed: bytes, most: int) -> None:
    """Check that a node may register some more agents.

    Args:
        session: the node's.
        names: of the agents.
        packed: their manifest.
        most: what a node may have, `MOST_AGENTS` at most.

    Raises:
        TooMuch: it would have more than it may, or their manifests are too large.
    """
    if len(packed) > _MANIFEST:
        raise TooMuch(f"The manifest has {len(packed):,} bytes, and {_MANIFEST:,} is the most.")
    fresh = sum(name not in session.agents for name in names)
    of_node = min(MOST_AGENTS, most)
    if fresh and len(session.agents) + fresh > of_node:
        raise TooMuch(
            f"The node has {len(session.agents):,} agents, its runtime's own among them; {fresh} more would be above "
            f"{of_node:,}, which is the most: start another node."
        )
    if packed not in session.manifests and session.manifest_bytes + len(packed) > MOST_MANIFESTS:
        raise TooMuch(
            f"The node's agents have {session.manifest_bytes:,} bytes of manifests, and {MOST_MANIFESTS:,} is the most."
        )


def hold(agent: Registration, packed: bytes) -> None:
    """Count the manifest with which an agent was registered to its node."""
    session = agent.session
    agent.packed = packed
    if packed not in session.manifests:
        session.manifest_bytes += len(packed)
    session.manifests[packed] += 1


def let_go(agent: Registration) -> None:
    """Count out the manifest of an agent that leaves, or gets another."""
    session, packed = agent.session, agent.packed
    if packed not in session.manifests:
        return
    session.manifests[packed] -= 1
    if not session.manifests[packed]:
        del session.manifests[packed]
        session.manifest_bytes -= len(packed)
    agent.packed = b""


def check_observer(session: Session, token: bytes, prefixes: list[str]) -> None:
    """Check that a node may have one more observer.

    Raises:
        TooMuch: it has as many as it may, or the observer has too many prefixes of capabilities.
    """
    if token not in session.cursors and len(session.cursors) >= MOST_OBSERVERS:
        raise TooMuch(
            f"The node has {len(session.cursors)} observers, which is the most: let one of them serve several."
        )
    if len(prefixes) > _PREFIXES:
        raise TooMuch(
            f"OBSERVE has {len(prefixes):,} prefixes of capabilities (`topics`), and {_PREFIXES} is the most: observe "
            "everything, and choose there."
        )


def check_room(session: Session, memory: MemoryQuota, size: int) -> None:
    """Check that a node's account may have so many bytes more.

    Raises:
        TooMuch: it may not.
    """
    if not memory.has_room(session.account, size):
        raise TooMuch(
            f"What node {session.node!r} or others of its key have at the broker beside delegations (monitors, observers, "
            "leases, what waits for an answer) takes as much memory as it may: have fewer, or give the broker more "
            "(`total_bytes`, `memory_bytes`)."
        )


def check_monitor(session: Session) -> None:
    """Check that a node may monitor one more.

    Raises:
        TooMuch: it monitors as many as it may.
    """
    if len(session.monitors) >= MOST_MONITORS:
        raise TooMuch(f"The node monitors {len(session.monitors):,} agents and nodes, which is the most.")


def read_resume(body: dict[str, Any]) -> tuple[dict[bytes, dict[bytes, int]], list[bytes]]:
    """Read what a RESUME says: what its node holds, {agent: {request id: attempt}}, and the request ids that it waits for.

    Raises:
        InvalidEnvelope: it says something else.
        TooMuch: it says more than one may.
    """
    holding, awaiting = body.get("holding", {}), body.get("awaiting", [])
    if not isinstance(awaiting, list) or not all(type(one) is bytes and len(one) == len(NO_ID) for one in awaiting):
        raise InvalidEnvelope("RESUME: awaiting is a list of request ids.")
    if not isinstance(holding, dict):
        raise InvalidEnvelope("RESUME: holding is {agent: [[request id, attempt]]}.")
    count = max(len(holding), len(awaiting) + sum(len(held) for held in holding.values() if isinstance(held, list)))
    if count > MOST_RESUMED:
        raise TooMuch(f"RESUME: {count:,} ids or agents, and {MOST_RESUMED:,} is the most: say it in several.")
    read: dict[bytes, dict[bytes, int]] = {}
    for name, held in holding.items():
        encoded = name.encode(errors="replace") if isinstance(name, str) else b""
        if not is_name(encoded) or not isinstance(held, list) or not all(map(_is_held, held)):
            raise InvalidEnvelope("RESUME: holding is {agent: [[request id, attempt]]}.")
        read[encoded] = dict(sorted(held))  # of two attempts the later
    return read, awaiting


def _is_held(item: Any) -> bool:
    return (
        isinstance(item, list) and len(item) == 2  # noqa: PLR2004  a pair
        and type(item[0]) is bytes and len(item[0]) == 16 and type(item[1]) is int and 0 < item[1] < 256  # noqa: PLR2004  a request id, an attempt
    )  # fmt: skip


def said_of_itself(info: dict[str, Any]) -> dict[str, object]:
    """What is kept of what a node says of itself in HELLO: a few short words."""
    return {key: _short(info[key]) for key in _SAID if key in info}


def load_of(said: dict[str, Any]) -> dict[str, object]:
    """What is kept of an agent's load in a HEARTBEAT: numbers, and a few short words on what blocks its event loop."""
    load: dict[str, object] = {key: said[key] for key in _LOAD if isinstance(said.get(key), int | float)}
    blocking = said.get("blocking")
    if isinstance(blocking, dict):
        seconds = blocking.get("seconds")
        told = {key: _short(blocking.get(key, "")) for key in _BLOCKING}
        load["blocking"] = {**told, "seconds": seconds if isinstance(seconds, int | float) else 0.0}
    return load


def _short(value: Any) -> object:
    return value if isinstance(value, int | float) else short_text(value, _TEXT)
