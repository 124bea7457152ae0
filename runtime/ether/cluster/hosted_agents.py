"""The agents that a cluster has a node's process host, and their change by a reload, in that process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ether.cluster.cluster_spec import AgentSpec, NamedAgents
from ether.cluster.reload_plan import must_be_another
from ether.node.agent_host import NotStarted
from ether_broker.errors import EtherError

if TYPE_CHECKING:
    from ether.node.agent_scaling import ScaledAgents
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
        scaled: makes an agent that scales, without an instance.
    """

    def __init__(
        self, bus: Runtime, drain: float,
        start: Callable[[Runtime, NamedAgents, float, dict[str, str]], Sequence[str]],
        replace: Callable[[Runtime, AgentSpec, str], None],
        scaled: Callable[[Runtime, NamedAgents], ScaledAgents],
    ) -> None:  # fmt: skip
        self._bus = bus
        self._drain = drain
        self._start = start
        self._replace = replace
        self._scaled = scaled
        self._kinds: list[NamedAgents] = []
        self._specs: dict[str, AgentSpec] = {}
        """{name: what the agent is to be}; of one that scales, each name that an instance may have."""

    def note(self, named: Iterable[tuple[AgentSpec, Sequence[str]]]) -> None:
        """Note the agents that were started."""
        self._kinds = [NamedAgents(agent, tuple(names)) for agent, names in named if names]
        self._specs = {name: agent for agent, names in self._kinds for name in names}

    def answer(self, request: dict[str, Any]) -> dict[str, object]:
        """Do what the cluster asks for.

        Args:
            request: `agents`, those that are to be here, or `rest`: all are stopped for another process that takes their names.

        Returns:
            `agents`, the names that they have, or may have if they scale, kind by kind, without those that did not start and
            are not started again;
            `failed`, {name: why it did not start}; `overran`, those that still worked when their time was over.
        """
        if "rest" in request:
            return self._rest(request["patience"])
        wanted = [NamedAgents(AgentSpec.of_dict(one["agent"]), tuple(one["names"])) for one in request["agents"]]
        return self._become(wanted, request["patience"])

    def _rest(self, patience: float) -> dict[str, object]:
        supervision = self._bus.node.supervision
        present, late = self._let_go(self._scaling, patience)
        here = [name for name in self._specs if name in present]
        overran = [name for name, was_late in supervision.take_down(here, self._drain, "its node restarts") if was_late]
        supervision.is_process_ending = True  # nothing is said to the broker: another process takes the node's name too
        return {"overran": [*late, *overran]}

    def _become(self, wanted: Sequence[NamedAgents], patience: float) -> dict[str, object]:
        supervision = self._bus.node.supervision
        failed: dict[str, str] = {}
        specs = {name: agent for agent, names in wanted for name in names}
        changed = {
            name: agent
            for name, agent in specs.items()
            if name in self._specs and must_be_another(self._specs[name], agent)
        }
        ended = [kind for kind in self._scaling if any(name in changed or name not in specs for name in kind.names)]
        here, overran = self._let_go(ended, patience)
        known = [
            kind for kind in wanted if kind.agent.scale is not None and not self._specs.keys().isdisjoint(kind.names)
        ]  # fmt: skip
        taking_over = [kind for kind in known if not self._rescale(kind, ended)]
        names = [
            list(kind.names) if kind in known else self._come(kind, here, changed, patience, failed) for kind in wanted
        ]  # fmt: skip
        for name, was_late in supervision.take_down(
            [name for name in changed if name in here], self._drain, "its specification has changed"
        ):
            overran += [name] * was_late
            try:
                self._replace(self._bus, changed[name], name)
            except (EtherError, NotStarted) as error:
                failed[name] = _said(error)
        gone = [name for name in self._specs if name not in specs and name in here]
        overran += supervision.stop_agents(gone, self._drain)
        host = self._bus.node.agent_host
        for kind in taking_over:
            cells = [host.cell(name) for name in kind.names if name in here and name in host.agent_names]
            self._bus.node.scaling.follow(self._scaled(self._bus, kind), cells)
        names = [
            [name for name in own if kind.agent.scale is not None or name not in failed or name in host.agent_names]
            for kind, own in zip(wanted, names, strict=True)
        ]
        self.note((kind.agent, own) for kind, own in zip(wanted, names, strict=True))
        return {"agents": names, "failed": failed, "overran": overran}

    @property
    def _scaling(self) -> list[NamedAgents]:
        """The agents that scale."""
        return [kind for kind in self._kinds if kind.agent.scale is not None]

    def _let_go(self, kinds: Sequence[NamedAgents], patience: float) -> tuple[set[str], list[str]]:
        """Have some agents that scale start and drain nothing by themselves any more.

        Returns:
            All agents that are here, but instances of these that have still not started, and end when they have; and of the
            instances that drained, which have ended, those that still worked as their time was over.
        """
        names = {name for kind in kinds for name in kind.names}
        cells, late = self._bus.node.scaling.release([kind.names[0] for kind in kinds], patience, self._drain)
        return self._bus.node.agent_host.agent_names - names | {cell.name for cell in cells}, late

    def _rescale(self, kind: NamedAgents, ended: Sequence[NamedAgents]) -> bool:
        """Give an agent that goes on scaling its new bounds and names; whether there is one."""
        own = (old for old in self._scaling if old not in ended and not set(old.names).isdisjoint(kind.names))
        return any(
            old == kind or self._bus.node.scaling.rescale(old.names[0], self._scaled(self._bus, kind)) for old in own
        )

    def _come(
        self, kind: NamedAgents, here: set[str], changed: Iterable[str], patience: float, failed: dict[str, str]
    ) -> list[str]:  # fmt: skip
        """Start those of a kind that are not here; returns the names of all of them."""
        agent, names = kind
        new = tuple(
            name for name in names if name not in self._specs or (name in changed and name not in here)
        )  # one that had given up is here no more
        if not new:
            return list(names)
        try:
            started = self._start(self._bus, NamedAgents(agent, new), patience, failed)
        except EtherError as error:
            failed.update(dict.fromkeys(new if agent.scale is None else new[:1], str(error)))
            return list(names) if agent.scale is None else []
        return [*(name for name in names if name not in new), *started]


def _said(error: BaseException) -> str:
    if isinstance(error, NotStarted):
        error = error.error
    return str(error) if isinstance(error, EtherError) else f"{type(error).__name__}: {error}"
