"""How long a broker takes to start on the journal of one that was killed, and how soon callers know of a killed process."""

from __future__ import annotations

from typing import Final

from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed
from ether.lab.report import Report, amount, at_most
from ether_broker.errors import InternalError

__all__ = ["Failover", "Recovery"]

_ROUNDS: Final = 3
_FULL: Final = 1_000_000
_MIB: Final = 1 << 20


class Recovery:
    """The time from the start of a broker to that it listens, with a journal of which nothing is in a checkpoint yet."""

    name = "recovery"
    about = "start of a broker on a long journal without a checkpoint, its parts, and the start after it"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: BenchSettings) -> Report:
        """Seconds of the start, and what they go into."""
        parts, starts = [], []
        with deployed("restart", settings.transport) as deployment:
            settings.tell(f"{self.name}: writing {settings.rows:,} envelopes of 1 KB")
            written = deployment.client.order(do="write", rows=settings.rows)
            for _ in range(min(settings.rounds, _ROUNDS)):
                parts.append(deployment.client.order(do="parts"))
                starts.append(deployment.client.order(do="start"))
        if any(start["open"] != written["open"] for start in starts):
            raise InternalError(f"{written['open']} delegations were open, and the broker took up {starts}.")
        bound = at_most(10.0) if settings.rows >= _FULL else None
        what = f"{settings.rows:,} envelopes"
        return Report((
            amount(self.name, f"start with {what}", [start["first"] for start in starts], "s", bound),
            amount(self.name, f"CPU of its thread with {what}", [start["cpu"] for start in starts], "s"),
            amount(self.name, "part: reading and checking the chain", [part["replay"] for part in parts], "s"),
            amount(self.name, "part: the fold to a state", [part["fold"] for part in parts], "s"),
            amount(self.name, "the next start, with a checkpoint", [start["again"] for start in starts], "s"),
            amount(self.name, "size of the journal", [written["bytes"] / _MIB], "MiB"),
        ))  # fmt: skip


class Failover:
    """Real processes that are started again, with a journal, killed with SIGKILL while they have work."""

    name = "failover"
    about = "a node and the broker are killed: time to the caller's outcome"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: BenchSettings) -> Report:
        """Medians over the kills, with the least and the most."""
        with deployed("kill", settings.transport) as deployment:
            nodes = [deployment.client.order(kill="node") for _ in range(settings.kills)]
            brokers = [deployment.client.order(kill="broker") for _ in range(settings.kills)]
        noticed, count = at_most(3.0), f"({settings.kills} kills)"
        lost, elsewhere = ([kill[what] for kill in nodes] for what in ("lost", "elsewhere"))
        back = [kill["back"] for kill in brokers]
        return Report((
            amount(self.name, f"node killed, to node_lost {count}", lost, "s", noticed),
            amount(self.name, f"node killed, to the other's outcome {count}", elsewhere, "s", noticed),
            amount(self.name, f"broker killed, to the next outcome {count}", back, "s"),
        ))  # fmt: skip
