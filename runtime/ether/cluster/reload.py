"""A reload: the steps that turn a running cluster into what its changed specification says.

    1. new nodes, and new and changed agents of nodes that go on, all side by side
    2. agents and nodes that are gone, side by side
    3. nodes whose process is to be another, one after the other
    4. agents that have moved to another node, as their names are free now

New ones come first, so that what waits for those that go finds them. Each node's process is told the agents that it is to have,
and compares them with those that it has: told twice, it does nothing more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ether.cluster.cluster_spec import AgentSpec, NamedAgents
from ether.cluster.reload_plan import (
    HostedNode,
    ReloadReport,
    agents_by_name,
    changed_fields,
    must_be_another,
    without,
)
from ether.errors import ProcessFailed
from ether.process.process_supervisor import ProcessSpec, ProcessSupervisor
from ether_broker.errors import Closed, EtherError, WaitTimeout

__all__ = ["Reload"]

_GRACE: Final = 10.0
"""Seconds that a node's process has to answer, beyond what its agents may take."""


class Reload:
    """One reload of a cluster.

    Args:
        processes: of the cluster.
        hosted: what each node's process is asked for when it starts; kept up to date here.
        wanted: the nodes as they are to be.
        anew: {node that runs, and whose process is to be another: the fields of it that have changed}.
        process: describes the process of a node.
        names_of: the agents of a node under the names that they have.
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, processes: ProcessSupervisor, hosted: dict[str, HostedNode], wanted: Mapping[str, HostedNode],
        anew: Mapping[str, Sequence[str]], process: Callable[[str], ProcessSpec], names_of: Callable[[str], HostedNode],
    ) -> None:  # fmt: skip
        self._processes = processes
        self._hosted = hosted
        self._before = dict(hosted)
        self._wanted = wanted
        self._anew = anew
        self._process = process
        self._current = names_of
        where = {name: node for node, one in hosted.items() for name in agents_by_name(one)}
        self._moved = {
            node: [name for name in agents_by_name(one) if where.get(name, node) != node]
            for node, one in wanted.items()
        }
        """{node: names that agents of other nodes have before}."""
        self._overran: set[str] = set()
        self._failed: dict[str, str] = {}

    def run(self) -> ReloadReport:
        """Make all steps.

        Raises:
            Closed: the cluster ends.
        """
        before, wanted = self._before, self._wanted
        come = [node for node in wanted if node not in before]
        stay = [node for node in wanted if node in before and node not in self._anew]
        go = [node for node in before if node not in wanted]
        for node in come:
            self._add(node, HostedNode.of(wanted[node].spec, self._first(node)))
        self._side_by_side([*((self._wait_up, node) for node in come), *((self._bring, node) for node in stay)])
        self._side_by_side([(self._clear, node) for node in before])
        self._side_by_side([(self._end, node) for node in go])
        for node in self._anew:
            self._restart(node)
        self._side_by_side([(self._complete, node) for node in (*come, *stay) if self._moved[node]])
        return self._report(come, stay, go)

    def _side_by_side(self, steps: Iterable[tuple[Callable[[str], None], str]]) -> None:
        steps = list(steps)
        with ThreadPoolExecutor(max(1, len(steps)), thread_name_prefix="ether-reload") as threads:
            for done in [threads.submit(self._try, step, node) for step, node in steps]:
                done.result()

    def _try(self, step: Callable[[str], None], node: str) -> None:
        """Make a step for a node; what it fails with is told in the report, and no agents of it change any more."""
        try:
            step(node)
        except Closed:
            raise
        except EtherError as error:
            self._failed[node] = str(error)

    # -- the steps of a node -------------------------------------------------------------------------------------

    def _first(self, node: str) -> list[NamedAgents]:
        """What is wanted of a node as long as agents have not moved."""
        return without(self._wanted[node].agents, self._moved[node])

    def _add(self, node: str, state: HostedNode) -> None:
        self._hosted[node] = state
        self._processes.add(self._process(node))

    def _wait_up(self, node: str) -> None:
        try:
            facts = self._processes.wait_up(node)
        except EtherError:
            self._end(node)
            raise
        self._note(node, facts)

    def _bring(self, node: str) -> None:
        """Start what is new, and what has changed anew; who is to go stays.

        Not so what is left of an agent that scales and has other names now: it would start more of the old specification.
        """
        before = self._before[node].agents
        left = zip(before, without(before, agents_by_name(self._wanted[node])), strict=True)
        kept = [kind for old, kind in left if kind.agent.scale is None or kind == old]
        self._tell(node, [*self._first(node), *kept])

    def _clear(self, node: str) -> None:
        """Stop what is to go."""
        if node in self._failed:
            return
        if node in self._wanted and node not in self._anew:
            self._tell(node, self._first(node))
            return
        wanted = agents_by_name(self._wanted.get(node))
        going = [name for name in agents_by_name(self._before[node]) if name not in wanted]
        self._tell(node, without(self._before[node].agents, going))

    def _end(self, node: str) -> None:
        self._processes.remove(node)
        del self._hosted[node]
        self._failed.pop(node, None)  # whatever it did not do, it is gone

    def _restart(self, node: str) -> None:
        def restart(node: str) -> None:
            with contextlib.suppress(ProcessFailed, WaitTimeout):  # that it is lost, or hangs, keeps nobody
                self._note(node, self._ask(node, {"rest": True}))
            before = self._hosted[node]
            self._end(node)
            try:
                self._add(node, self._wanted[node])
                self._wait_up(node)
            except EtherError:
                self._add(node, before)
                self._wait_up(node)
                raise

        self._try(restart, node)

    def _complete(self, node: str) -> None:
        if node not in self._failed:
            self._tell(node, self._wanted[node].agents)

    def _tell(self, node: str, agents: Sequence[NamedAgents]) -> None:
        """Tell a node's process which agents it is to have, unless it has them."""
        before = self._hosted[node]
        spec = before.spec if node in self._anew or node not in self._wanted else self._wanted[node].spec
        told = HostedNode.of(spec, agents)
        if not _differences(agents_by_name(before), agents_by_name(told)):
            self._hosted[node] = before._replace(spec=spec)
            return
        try:
            self._have(node, told)
        except ProcessFailed:  # it died of itself, or of what it started: once more, from what it had
            self._have(node, before)
            self._have(node, told)

    def _have(self, node: str, state: HostedNode) -> None:
        """Have a node's process host these agents, now and if it is started again; those that it had, if it dies of it."""
        before, self._hosted[node] = self._hosted[node], state
        wanted = [{"agent": agent.as_dict(), "names": names} for agent, names in state.agents]
        try:
            answer = self._ask(node, {"agents": wanted})
        except ProcessFailed:
            self._hosted[node] = before
            raise
        named = zip(state.agents, answer["agents"], strict=True)
        self._hosted[node] = HostedNode.of(
            state.spec, [NamedAgents(kind.agent, tuple(names)) for kind, names in named]
        )  # fmt: skip
        self._note(node, answer)

    def _ask(self, node: str, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process(node)
        patience = process.start_timeout
        limit = 2 * (process.drain + patience) + _GRACE  # instances that start or drain already end before all others
        return self._processes.ask(node, {**request, "patience": patience}, limit)

    def _note(self, node: str, said: Mapping[str, Any]) -> None:
        self._overran.update(f"{node}/{name}" for name in said.get("overran", ()))
        self._failed.update({f"{node}/{name}": why for name, why in said.get("failed", {}).items()})

    # -- what became of them -------------------------------------------------------------------------------------

    def _report(self, come: list[str], stay: list[str], go: list[str]) -> ReloadReport:
        failed = self._failed
        started = [node for node in come if node not in failed]
        restarted = {node: ", ".join(fields) for node, fields in self._anew.items() if node not in failed}
        stopped, rescaled, unchanged = list(go), [], [node for node in stay if node not in failed]
        for node in dict.fromkeys((*self._wanted, *self._before)):
            if node in failed:  # what it had may have come and gone meanwhile
                continue
            was, now = self._before.get(node), self._current(node) if node in self._hosted else None
            before, after = agents_by_name(was), agents_by_name(now)
            for name, agent in _told(now).items():
                if (full := f"{node}/{name}") in failed:
                    continue
                if name not in before:
                    started.append(full)
                elif fields := changed_fields(before[name], agent):
                    if node not in self._anew and not must_be_another(before[name], agent):
                        rescaled.append(full)
                    else:
                        restarted[full] = ", ".join(fields)
                elif node not in self._anew:
                    unchanged.append(full)
            stopped += [full for name in _told(was) if name not in after and (full := f"{node}/{name}") not in failed]
        return ReloadReport(
            tuple(started), restarted, tuple(stopped), tuple(rescaled), tuple(unchanged), tuple(sorted(self._overran)),
            dict(failed),
        )  # fmt: skip


def _told(hosted: HostedNode | None) -> dict[str, AgentSpec]:
    """The agents of a node by the names that a report has: one that scales stands once, by its first."""
    kinds = [] if hosted is None else hosted.agents
    first = [kind if kind.agent.scale is None else kind._replace(names=kind.names[:1]) for kind in kinds]
    return agents_by_name(hosted and hosted._replace(agents=first))


def _differences(before: Mapping[str, AgentSpec], after: Mapping[str, AgentSpec]) -> bool:
    return before.keys() != after.keys() or any(changed_fields(before[name], after[name]) for name in after)
