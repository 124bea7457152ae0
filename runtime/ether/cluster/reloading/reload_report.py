"""The report of a reload: what became of each node and agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["ReloadReport"]


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The report of a reload: what became of each node, and of each agent as `NODE/AGENT`.

    An agent that scales stands once, by the name of its first instance, however many it has.

    Example:
        from ether.cluster import ReloadReport

        report = ReloadReport(started=("n2", "n2/counter"), restarted={"n1/scout": "kwargs"}, unchanged=("n1",))
        assert report.is_complete
    """

    started: tuple[str, ...] = ()
    """Came with the new specification, was not up before, or had given up or did not start any more, and was started again."""
    restarted: Mapping[str, str] = field(default_factory=dict)
    """Drained and started anew, and which of its fields had changed; of a node, with all its agents."""
    stopped: tuple[str, ...] = ()
    """Drained, and left the bus; or did not start any more, and is gone."""
    rescaled: tuple[str, ...] = ()
    """Agents that scale, and have other bounds; the instances that are within them noticed nothing."""
    unchanged: tuple[str, ...] = ()
    """Noticed nothing, those among them that had left the bus by themselves; of a node, its process."""
    overran: tuple[str, ...] = ()
    """Agents that had not ended what they worked at when `drain` was over: the bus has ruled on it."""
    outdated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of a node that goes on, the files of its agents' classes that have changed since its process imported them: it has the
    code of then, also in agents that were restarted."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """What did not start, or had not started or answered in time, and why; `broker` if that did not answer."""
    file: str | None = None
    """The absolute path of the cluster file that `ether up` has read for it; None for a specification of `Cluster.reload`."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def lines(self) -> list[str]:
        """The report for people, a line for each word that something is told of."""
        restarted = [f"{name} ({changed})" for name, changed in self.restarted.items()]
        told: dict[str, Sequence[str]] = {
            "started": self.started, "restarted": restarted, "rescaled": self.rescaled, "stopped": self.stopped,
            "overran": self.overran, "unchanged": self.unchanged,
        }  # fmt: skip
        lines = [f"{word:<10}{', '.join(names)}" for word, names in told.items() if names]
        lines += [
            f"{'outdated':<10}{node}: {file} has changed since {node} imported it: for new code give the node another name"
            for node, files in self.outdated.items()
            for file in files
        ]
        failed = {name: why.replace("\n", f"\n{'':<10}") for name, why in self.failed.items()}
        return [*lines, *(f"{'failed':<10}{name}: {why}" for name, why in failed.items())]

    def as_dict(self) -> dict[str, Any]:
        """Its fields, as JSON carries them; the class takes them again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
