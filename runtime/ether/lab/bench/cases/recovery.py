"""The recovery benchmark: a broker's start on the journal of a killed one, and the delay until callers know of a kill."""

from __future__ import annotations

from typing import Final

from ether.lab.bench.case import case
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed
from ether.lab.report import Report, amount, at_most
from ether_broker.errors import InternalError

__all__ = ["failover", "recovery"]

_ROUNDS: Final = 3
_FULL: Final = 1_000_000
_MIB: Final = 1 << 20


@case(
    "recovery", "start of a broker on a long journal without a checkpoint, its parts, and the start after it", "ether"
)  # fmt: skip
def recovery(settings: BenchSettings) -> Report:
    """Seconds from the start of a broker to that it listens, and what they go into; nothing is in a checkpoint yet."""
    parts, starts = [], []
    with deployed("restart", settings.transport) as deployment:
        settings.tell(f"recovery: writing {settings.rows:,} envelopes of 1 KB")
        written = deployment.client.order("write", rows=settings.rows)
        for _ in range(min(settings.rounds, _ROUNDS)):
            parts.append(deployment.client.order("parts"))
            starts.append(deployment.client.order("begin"))
    if any(start["open"] != written["open"] for start in starts):
        raise InternalError(f"{written['open']} delegations were open, and the broker took up {starts}.")
    bound = at_most(10.0) if settings.rows >= _FULL else None
    what = f"{settings.rows:,} envelopes"
    return Report((
        amount("recovery", f"start with {what}", [start["first"] for start in starts], "s", bound),
        amount("recovery", f"CPU of its thread with {what}", [start["cpu"] for start in starts], "s"),
        amount("recovery", "part: reading and checking the chain", [part["replay"] for part in parts], "s"),
        amount("recovery", "part: the fold to a state", [part["fold"] for part in parts], "s"),
        amount("recovery", "the next start, with a checkpoint", [start["again"] for start in starts], "s"),
        amount("recovery", "size of the journal", [written["bytes"] / _MIB], "MiB"),
    ))  # fmt: skip


@case("failover", "a node and the broker are killed: time to the caller's outcome", "ether")
def failover(settings: BenchSettings) -> Report:
    """Processes with a journal that are started again, killed while they have work: medians, the least and the most."""
    with deployed("kill", settings.transport) as deployment:
        nodes = [deployment.client.order("kill_node") for _ in range(settings.kills)]
        back = [deployment.client.order("kill_broker")["back"] for _ in range(settings.kills)]
    noticed, count = at_most(3.0), f"({settings.kills} kills)"
    lost, elsewhere = ([kill[what] for kill in nodes] for what in ("lost", "elsewhere"))
    return Report((
        amount("failover", f"node killed, to node_lost {count}", lost, "s", noticed),
        amount("failover", f"node killed, to the other's outcome {count}", elsewhere, "s", noticed),
        amount("failover", f"broker killed, to the next outcome {count}", back, "s"),
    ))  # fmt: skip
