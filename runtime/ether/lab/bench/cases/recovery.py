"""How long a broker takes to start on the journal of one that was killed."""

from __future__ import annotations

from typing import Final

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import amount
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment
from ether_broker.errors import InternalError

__all__ = ["Recovery"]

_ROUNDS: Final = 3
_FULL: Final = 1_000_000
_MIB: Final = 1 << 20


class Recovery:
    """The time from the start of a broker to that it listens, with a journal of which nothing is in a checkpoint yet."""

    name = "recovery"
    about = "start of a broker on a long journal without a checkpoint, its parts, and the start after it"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: Settings) -> Findings:
        """Seconds of the start, and what they go into."""
        parts, starts = [], []
        with Deployment("restart", settings.transport) as deployment:
            settings.tell(f"{self.name}: writing {settings.rows:,} envelopes of 1 KB")
            written = deployment.client.order(do="write", rows=settings.rows)
            for _ in range(min(settings.rounds, _ROUNDS)):
                parts.append(deployment.client.order(do="parts"))
                starts.append(deployment.client.order(do="start"))
        if any(start["open"] != written["open"] for start in starts):
            msg = f"{written['open']} delegations were open in the journal, and the broker took up {starts}."
            raise InternalError(msg)
        bound = Bound(10.0, at_least=False) if settings.rows >= _FULL else None
        what = f"{settings.rows:,} envelopes"
        return Findings((
            amount(self.name, f"start with {what}", [start["first"] for start in starts], "s", bound),
            amount(self.name, f"CPU of its thread with {what}", [start["cpu"] for start in starts], "s"),
            amount(self.name, "part: reading and checking the chain", [part["replay"] for part in parts], "s"),
            amount(self.name, "part: the fold to a state", [part["fold"] for part in parts], "s"),
            amount(self.name, "the next start, with a checkpoint", [start["again"] for start in starts], "s"),
            amount(self.name, "size of the journal", [written["bytes"] / _MIB], "MiB"),
        ))  # fmt: skip
