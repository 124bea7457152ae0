"""The figures of `ether top`: two samples of the bus, and what changed between them.

Rates are by the broker's clock, so that a slow answer bends none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ether.runtime import Runtime

__all__ = ["AgentReading", "Reading", "Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of the bus at one moment."""

    statistics: Mapping[str, Any]
    agents: tuple[Mapping[str, Any], ...]

    @classmethod
    def take(cls, bus: Runtime) -> Sample:
        """Ask the bus.

        Raises:
            TimedOut: it does not answer.
        """
        return cls(bus.statistics(), tuple(bus.agents()))

    @property
    def clock(self) -> float:
        """Seconds by the broker's clock."""
        return float(self.statistics["clock"])


@dataclass(frozen=True, slots=True)
class AgentReading:
    """One agent between two samples."""

    agent: str
    node: str
    condition: str
    queued: int
    running: int
    rate: float
    """Delegations that it ended, per second."""
    outcomes: dict[str, int]
    """{status name: count} since it registered."""
    p50: float | None
    """Seconds from acceptance to outcome, of its last 256 delegations."""
    p99: float | None

    @property
    def ended(self) -> int:
        """Delegations that it ended, with whatever outcome."""
        return sum(self.outcomes.values())

    @property
    def completed(self) -> int:
        """Those that ended COMPLETED."""
        return self.outcomes.get("COMPLETED", 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """The bus between two samples."""

    interval: float
    """Seconds between them."""
    accepted_rate: float
    """Delegations accepted per second."""
    ended_rate: float
    """Delegations that the agents ended, per second."""
    open: int
    """Accepted, and without an outcome."""
    queued: int
    """Those of them that wait in mailboxes."""
    nodes: int
    outcomes: dict[str, int]
    """{status name: count} since the broker started."""
    dead_letters: int
    """That are held."""
    agents: tuple[AgentReading, ...]
    """The busiest first."""

    @classmethod
    def between(cls, before: Sample, after: Sample) -> Reading:
        """Compare two samples of one broker; of two brokers, as after a restart, the rates begin at 0."""
        interval = after.clock - before.clock
        ended = {row["agent"]: sum(row["outcomes"].values()) for row in before.agents}
        agents = [_agent(row, ended.get(row["agent"], 0), interval) for row in after.agents]
        agents.sort(key=lambda one: (-one.rate, -(one.running + one.queued), -one.ended, one.agent))
        statistics = after.statistics
        return cls(
            interval=max(0.0, interval),
            accepted_rate=_rate(before.statistics["accepted"], statistics["accepted"], interval),
            ended_rate=sum(agent.rate for agent in agents),
            open=statistics["open"],
            queued=sum(agent.queued for agent in agents),
            nodes=statistics["nodes"],
            outcomes=dict(statistics["outcomes"]),
            dead_letters=statistics["dead_letters_held"],
            agents=tuple(agents),
        )


def _agent(row: Mapping[str, Any], ended_before: int, interval: float) -> AgentReading:
    same = {name: row[name] for name in ("agent", "node", "condition", "queued", "p50", "p99")}
    outcomes = dict(row["outcomes"])
    rate = _rate(ended_before, sum(outcomes.values()), interval)
    return AgentReading(**same, running=row["in_flight"], rate=rate, outcomes=outcomes)


def _rate(before: int, after: int, interval: float) -> float:
    """Per second; 0 where a counter started again."""
    return (after - before) / interval if interval > 0 and after >= before else 0.0
