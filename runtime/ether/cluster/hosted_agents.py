"""The agents that a cluster has a node's process host, and their change by a reload, in that process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ether.cluster.cluster_spec import AgentSpec, NamedAgents
from ether.cluster.reload_plan import changed_fields
from ether.node.agent_host import NotStarted
from ether_broker.errors import EtherError

if TYPE_CHECKING:
    from ether.runtime import Runtime

__all__ = ["HostedAgents"]


class HostedAgents:
    """The agents that a node's process hosts for its cluster.

    Args:
        bus: the node's.
        drain: seconds that running work has.
        start: starts agents that may fail alone: gets them, for how many seconds it may wait, and where it notes which did not
            start and why; returns their names.
        replace: starts one in the place of one that was taken down.
    """

    def __init__(
        self, bus: Runtime, drain: float,
        start: Callable[[Runtime, NamedAgents, float, dict[str, str]], Sequence[str]],
        replace: Callable[[Runtime, AgentSpec, str], None],
    ) -> None:  # fmt: skip
        self._bus = bus
        self._drain = drain
        self._start = start
        self._replace = replace
        self._specs: dict[str, AgentSpec] = {}

    def note(self, named: Iterable[tuple[AgentSpec, Sequence[str]]]) -> None:
        """Note agents that were started."""
        self._specs.update({name: agent for agent, names in named for name in names})

    def answer(self, request: dict[str, Any]) -> dict[str, object]:
        """Do what the cluster asks for.

        Args:
            request: `agents`, those that are to be here, or `rest`: all are stopped for another process that takes their names.

        Returns:
            `agents`, the names that they have, kind by kind, without those that did not start and are not started again;
            `failed`, {name: why it did not start}; `overran`, those that still worked when their time was over.
        """
        if "rest" in request:
            return self._rest()
        wanted = [NamedAgents(AgentSpec.of_dict(one["agent"]), tuple(one["names"])) for one in request["agents"]]
        return self._become(wanted, request["patience"])

    def _rest(self) -> dict[str, object]:
        supervision = self._bus.node.supervision
        here = [name for name in self._specs if name in self._bus.node.agent_host.agent_names]
        overran = [name for name, was_late in supervision.take_down(here, self._drain, "its node restarts") if was_late]
        supervision.is_process_ending = True  # nothing is said to the broker: another process takes the node's name too
        return {"overran": overran}

    def _become(self, wanted: Sequence[NamedAgents], patience: float) -> dict[str, object]:
        supervision, present = self._bus.node.supervision, self._bus.node.agent_host.agent_names
        failed: dict[str, str] = {}
        specs = {name: agent for agent, names in wanted for name in names}
        changed = {
            name: agent
            for name, agent in specs.items()
            if name in self._specs and changed_fields(self._specs[name], agent, "count", "name")
        }
        names = [self._come(kind, present, changed, patience, failed) for kind in wanted]
        overran = []
        for name, was_late in supervision.take_down(
            [name for name in changed if name in present], self._drain, "its specification has changed"
        ):
            overran += [name] * was_late
            try:
                self._replace(self._bus, changed[name], name)
            except (EtherError, NotStarted) as error:
                failed[name] = _said(error)
        gone = [name for name in self._specs if name not in specs and name in present]
        overran += supervision.stop_agents(gone, self._drain)
        here = self._bus.node.agent_host.agent_names
        names = [[name for name in kind if name not in failed or name in here] for kind in names]
        self._specs.clear()
        self.note((kind.agent, own) for kind, own in zip(wanted, names, strict=True))
        return {"agents": names, "failed": failed, "overran": overran}

    def _come(
        self, kind: NamedAgents, present: set[str], changed: Iterable[str], patience: float, failed: dict[str, str]
    ) -> list[str]:  # fmt: skip
        """Start those of a kind that are not here; returns the names of all of them."""
        agent, names = kind
        new = tuple(
            name for name in names if name not in self._specs or (name in changed and name not in present)
        )  # one that had given up is here no more
        if not new:
            return list(names)
        try:
            started = self._start(self._bus, NamedAgents(agent, new), patience, failed)
        except EtherError as error:
            failed.update(dict.fromkeys(new, str(error)))
            return list(names)
        return [*(name for name in names if name not in new), *started]


def _said(error: BaseException) -> str:
    if isinstance(error, NotStarted):
        error = error.error
    return str(error) if isinstance(error, EtherError) else f"{type(error).__name__}: {error}"
