"""A reload: the steps that turn a running cluster into what its changed specification says.

    0. nodes that are down have had a start as they were, by the cluster; those that did not come up are removed, and count as
       nodes that were not there
    1. nodes whose process is to be another: whether their agents can be made, says another new process
    2. new nodes, and new and changed agents of nodes that go on, all side by side; whether agents can be made that are to
       move there later, says each node's process
    3. agents and nodes that are gone, or move, side by side; nothing, if anything that is new did not start
    4. agents that have moved to a node that goes on or is new, as their names are free now
    5. nodes whose process is to be another, one after the other
    6. what is gone or moves, and stayed for steps 4 and 5; agents that have moved to a node of step 5
    7. nodes that take over the metrics address of another are asked whether they have it

New ones come first, so that what waits for those that go finds them. So do those that scale and move: they are new on one node,
under names that are free, and gone from the other. At each step, each node's process is told all agents that it is to have, and
compares them with those that it has; its answer is what counts. A process that has not answered is started again, if it ends,
with what it answered last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from ether.cluster.cluster_spec import AgentSpec, NamedAgents, NodeSpec
from ether.cluster.reloading.hosted_node import HostedNode, agents_by_name, place, without
from ether.cluster.reloading.reload_report import ReloadReport
from ether.cluster.reloading.spec_changes import changed_fields, must_be_another, process_changes
from ether.cluster.start_threads import and_so
from ether.errors import ProcessFailed
from ether.process.process_supervisor import ProcessSpec, ProcessSupervisor
from ether_broker.errors import AddressInUse, Closed, EtherError, WaitTimeout

__all__ = ["Reload", "limit_of"]

_GRACE: Final = 10.0
"""Seconds that a node's process has to answer, beyond what its agents may take."""


class Reload:
    """One reload of a cluster.

    Args:
        processes: of the cluster.
        known: what each node's process answered last that it has, those of nodes that are down too.
        nodes: the specifications of the nodes as they are to be.
        process: describes the process of a node.
        names_of: the agents of a node under the names that they have.
        on_event: told in words which node restarts, and why.
        never_up: agents that had not been up yet when the last reload ended, as its report names them, and why.
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, processes: ProcessSupervisor, known: Mapping[str, HostedNode], nodes: Iterable[NodeSpec],
        process: Callable[[str], ProcessSpec], names_of: Callable[[str], HostedNode], on_event: Callable[[str], None],
        never_up: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._processes = processes
        self._before = {node: one for node, one in known.items() if processes.is_up(node)}
        self._down = {node: one for node, one in known.items() if node not in self._before}
        """Nodes that do not come up any more."""
        self.hosted: dict[str, HostedNode] = dict(self._before)
        """What each node's process is asked for when it starts; kept up to date by the steps."""
        self.wanted: Mapping[str, HostedNode] = place(known, nodes)
        """The nodes as they are to be."""
        self._anew = {
            node: fields for node, one in self._before.items()
            if node in self.wanted and (fields := process_changes(one.spec, self.wanted[node].spec))
        }  # fmt: skip
        """{node that runs, and whose process is to be another: the fields of it that have changed}."""
        self._process = process
        self._current = names_of
        self._on_event = on_event
        had = {node: agents_by_name(one) for node, one in self._before.items()}
        before = {name for names in had.values() for name in names}
        self._moved = {
            node: [
                name for kind in one.agents if kind.agent.scale is None for name in kind.names
                if name in before and name not in had.get(node, ())
            ]
            for node, one in self.wanted.items()
        }  # fmt: skip
        """{node: names of agents, none of which scales, that agents of other nodes have before}."""
        self._moving = {name for names in self._moved.values() for name in names}
        gone = {
            kind.agent.base_name for node, one in self._before.items() for kind in one.agents
            if kind.names[0] not in agents_by_name(self.wanted.get(node))
        }  # fmt: skip
        self._going_on = {
            node: [kind for kind in one.agents if kind.agent.scale is not None and kind.agent.base_name in gone]
            for node, one in self.wanted.items()
        }
        """{node: agents that scale, and take the place of some that are gone from another node}."""
        self._were_never_up = never_up
        were_up = {
            name for node, one in self._before.items() for name in agents_by_name(one) if f"{node}/{name}" not in never_up
        }  # fmt: skip
        self._new = {
            node: [
                kind for kind in self.wanted[node].agents
                if (not were_up.issuperset(kind.names) if kind.agent.scale is None else kind.names[0] not in were_up)
            ]
            for node in self.wanted
        }  # fmt: skip
        """{node: agents that were up nowhere before}."""
        self._waiting: dict[str, list[NamedAgents]] = {}
        """{node: agents that are gone or move, and stay until step 6}."""
        self._late = self._anew.keys() | {
            node
            for node, names in self._moved.items()
            if any(not {*names}.isdisjoint(kind.names) for kind in self._new[node])
        }
        """Nodes on which something that is new comes up after step 3: they restart, or what moves there never was up."""
        self._answered: set[str] = set()
        """Nodes whose process has said what it has."""
        self._is_held = False
        """Whether what is to go stays, as not all that is new has started."""
        self._overran: set[str] = set()
        self._again: set[str] = set()
        self._never_up: dict[str, str] = {}
        """{agent that has not been up yet, or went so: why}."""
        self._unfit: set[str] = set()
        """Nodes that are not restarted, as an agent that they are to have could not be made."""
        self._outdated: dict[str, Sequence[str]] = {}
        """{node: files that it imported before they were as they are}."""
        self._failed: dict[str, str] = {}

    @property
    def never_up(self) -> Mapping[str, str]:
        """The agents that have not been up yet, as the report names them, and why."""
        unasked = self.hosted.keys() - self._answered
        before = {name: why for name, why in self._were_never_up.items() if name.split("/")[0] in unasked}
        return before | self._never_up

    def remove_down(self) -> None:
        """Remove what does not come up any more: it neither starts as it was, nor keeps its agents from others.

        One that has come up since all the same finishes what it has.
        """
        for node in self._down:
            self._processes.remove(node, at_once=not self._processes.is_up(node))

    def run(self) -> ReloadReport:
        """Make all other steps.

        Raises:
            Closed: the cluster ends.
        """
        before, wanted = self._before, self.wanted
        come = [node for node in wanted if node not in before]
        stay = [node for node in wanted if node in before and node not in self._anew]
        go = [node for node in before if node not in wanted]
        self._side_by_side([(self._look, node) for node in self._anew])
        self._unfit = {node for node in self._anew if node in self._failed}
        self._failed.update({node: and_so(self._failed[node], "It was not restarted.") for node in self._unfit})
        for node in come:
            self._add(node, HostedNode.of(wanted[node].spec, self._first(node)))
        self._side_by_side([*((self._come_up, node) for node in come), *((self._bring, node) for node in stay)])
        self._hold()
        if self._is_held:
            self._side_by_side([(self._keep, node) for node in go])
        else:
            self._wait_for_successors()
        self._side_by_side([(self._clear, node) for node in before])
        self._side_by_side([(self._end, node) for node in go if not self._is_held and not self._waiting.get(node)])
        if not self._is_held:
            self._side_by_side(
                [(self._complete, node) for node in wanted if self._moved[node] and node not in self._anew]
            )
        for node in self._in_order():
            if node not in self._unfit:
                self._restart(node)
        if not self._is_held:
            late = self._late_moves()
            if not self._has_failed_late() or not self._waiting:
                self._release(self._moving)
                self._side_by_side([(self._complete, node) for node in late])
                if not self._has_failed_late():
                    self._release(self._waiting_names)
                    self._side_by_side([(self._end, node) for node in go if node in self.hosted])
        self._side_by_side([(self._check_metrics, node) for node in self.hosted if node not in self._failed])
        return self._report(come, stay, go)

    def _in_order(self) -> list[str]:
        """The nodes whose process is to be another, as they restart: successors before what waits for them."""
        left, ordered = list(self._anew), list[str]()

        def waits_for(node: str, other: str) -> bool:
            successors = {kind.agent.base_name for kind in self._going_on[other]}
            return any(kind.agent.base_name in successors for kind in self._waiting.get(node, ()))

        while left:
            free = (node for node in left if not any(waits_for(node, other) for other in left if other != node))
            ordered.append(next(free, left[0]))
            left.remove(ordered[-1])
        return ordered

    def _hold(self) -> None:
        """Have what is to go stay if anything that is new did not start, as it may be the same under another name."""
        known = {
            *self._before,
            *(f"{node}/{name}" for node, one in self._before.items() for name in agents_by_name(one)),
        }
        awaited = self._failed_of_awaited(self.wanted)
        missing = [
            name for name in self._failed
            if name not in known or name in self._never_up or name in self._unfit or self._moved.get(name) or name in awaited
        ]  # fmt: skip
        self._is_held = bool(missing)
        if any(self._going(node) for node in self._before):
            self._failed.update({name: and_so(self._failed[name], "Nothing was stopped.") for name in missing})

    def _failed_of_awaited(self, nodes: Iterable[str]) -> set[str]:
        """What has failed on some nodes of that for which others stay: successors, and what is new."""
        return self._failed.keys() & {
            name
            for node in nodes
            for kind in (*self._going_on[node], *self._new[node])
            for name in (node, *(f"{node}/{one}" for one in kind.names))
        }

    def _wait_for_successors(self) -> None:
        """Have agents that are gone stay until late nodes are up with what they are to have.

        One that scales goes on under its name; not so one whose name a single agent takes. What another has for a successor
        nothing tells: it may be whatever is there. It stays only where its process does: in the next one it may not start.
        What moves to a node whose process is to be another stays in any case.
        """
        bases = {kind.agent.base_name for node in self._anew for kind in self._going_on[node]}
        moving = {name for node in self._anew for name in self._moved[node]}
        for node, one in self._before.items():
            going = set(self._going(node))
            gone, stay = going - self._moving, going & moving
            waiting = list[NamedAgents]()
            for kind in one.agents:
                waits = stay
                if kind.agent.base_name in bases or (self._late and node not in self._anew):
                    waits = stay | gone
                names = tuple(name for name in kind.names if name in waits)
                if kind.agent.scale is not None and names:
                    names = kind.names if going.issuperset(kind.names) else ()  # a part would start more as it was
                if names:
                    waiting.append(kind._replace(names=names))
            if waiting:
                self._waiting[node] = waiting

    def _late_moves(self) -> list[str]:
        """Nodes to which agents move that wait, or whose process is to be another."""
        waiting = self._waiting_names
        return [
            node for node, names in self._moved.items() if names and (node in self._anew or waiting.intersection(names))
        ]

    def _has_failed_late(self) -> bool:
        """Whether something that others wait for on late nodes is not there; then it is told that they stay."""
        failed = self._failed_of_awaited(self._late) | (self._failed.keys() & self._late)
        if self._waiting:
            self._failed.update({name: and_so(self._failed[name], "Nothing was stopped for it.") for name in failed})
        return bool(failed)

    def _release(self, names: AbstractSet[str]) -> None:
        """Have those of some names go that have waited for late nodes."""
        waiting, self._waiting = self._waiting, {}
        for node, kinds in waiting.items():
            left = [
                kind for kind in without(kinds, names) if kind.names and (kind.agent.scale is None or kind in kinds)
            ]
            if left:
                self._waiting[node] = left
        self._side_by_side([(self._clear, node) for node in waiting])

    @property
    def _waiting_names(self) -> set[str]:
        """The names of those that are gone or move, and stay until step 6."""
        return {name for kinds in self._waiting.values() for kind in kinds for name in kind.names}

    def _going(self, node: str) -> list[str]:
        """The agents of a node that are to go, or to another node."""
        wanted = agents_by_name(self.wanted.get(node))
        return [name for name in agents_by_name(self._before[node]) if name not in wanted]

    def _restarted(self, node: str) -> HostedNode:
        """What a node has in the process that is another: what moves to it comes later."""
        wanted, before = self.wanted[node], self._before[node]
        more = self._left(before, wanted) if self._is_held else self._waiting.get(node, ())
        return HostedNode.of(wanted.spec, [*self._first(node), *more])

    @staticmethod
    def _left(before: HostedNode, wanted: HostedNode) -> list[NamedAgents]:
        """The agents that a node has and is not to have.

        Not so what is left of an agent that scales and has other names now: it would start more of the old specification.
        """
        left = zip(before.agents, without(before.agents, agents_by_name(wanted)), strict=True)
        return [kind for old, kind in left if kind.agent.scale is None or kind == old]

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
        return without(self.wanted[node].agents, self._moved[node])

    def _look(self, node: str) -> None:
        """Ask a new process whether what a node is to have can be made; its own comes only when the one before has ended."""
        agents = self.wanted[node].agents  # also one that has not changed: its module may have
        if not agents:
            return
        own = self._process(node)
        request = {"check": _carried(agents), "patience": own.start_timeout / 2}
        process = replace(
            own, name=f"start check of {node}", module="ether.cluster.check_main", request=lambda: request, drain=0.0
        )  # fmt: skip
        self._processes.add(process)
        try:
            failed = self._processes.wait_up(process.name)["failed"]
        finally:
            self._processes.remove(process.name)
        for name, why in failed.items():
            self._failed.setdefault(node, f"{name}: {why}")

    def _check(self, node: str) -> None:
        """Ask whether the agents that are to move to a node can be made there, before they are stopped where they are."""
        wanted = self.wanted[node]
        if self._moved[node]:
            moved = without(wanted.agents, agents_by_name(wanted).keys() - self._moved[node])
            self._note(node, self._ask(node, {"check": _carried(moved)}))

    def _add(self, node: str, state: HostedNode) -> None:
        self.hosted[node] = state
        self._processes.add(self._process(node))

    def _wait_up(self, node: str) -> None:
        try:
            facts = self._processes.wait_up(node)
        except EtherError:
            self._end(node)
            raise
        self._note(node, facts)

    def _come_up(self, node: str) -> None:
        self._wait_up(node)
        self._check(node)

    def _bring(self, node: str) -> None:
        """Start what is new, and what has changed anew; who is to go stays."""
        self._tell(node, [*self._first(node), *self._left(self._before[node], self.wanted[node])], again=True)
        self._check(node)

    def _keep(self, node: str) -> None:
        """Have a node that was to go say what it has."""
        self._tell(node, self.hosted[node].agents)

    def _check_metrics(self, node: str) -> None:
        """Have a node say whether its metrics are served, if it takes over the address of another."""
        metrics = self.hosted[node].spec.metrics
        if metrics is None:
            return
        others = [other for other, one in self._before.items() if other != node and metrics.overlaps(one.spec.metrics)]
        if not others:
            return
        stay = [other for other in others if other in self.hosted and metrics.overlaps(self.hosted[other].spec.metrics)]
        try:
            self._ask(node, {"metrics": not stay})
        except AddressInUse as error:
            if not stay:
                raise
            also = f"{stay[0]} has it, and stays; {node} serves them once that gives it up."
            raise AddressInUse(and_so(str(error), also)) from error

    def _clear(self, node: str) -> None:
        """Stop what is to go."""
        if node not in self._failed and not self._is_held:
            waiting = {name for kind in self._waiting.get(node, ()) for name in kind.names}
            self._tell(node, without(self.hosted[node].agents, set(self._going(node)) - waiting))

    def _end(self, node: str, *, at_once: bool = False) -> None:
        self._processes.remove(node, at_once=at_once)
        del self.hosted[node]
        for name in [
            name for name in list(self._failed) if name.split("/")[0] == node
        ]:  # whatever it did not do, it is gone
            del self._failed[name]

    def _restart(self, node: str) -> None:
        def restart(node: str) -> None:
            before, hangs = self.hosted[node], False
            self._on_event(f"{node} restarts ({', '.join(self._anew[node])})")
            try:
                self._note(node, self._ask(node, {"rest": True, "ending": self._ending(node)}))
            except ProcessFailed:  # it is lost: its agents are down, and come back in the next process
                pass
            except WaitTimeout:  # it would drain, and so hand back what waits
                hangs = True
            self._end(node, at_once=hangs)
            try:
                self._add(node, self._restarted(node))
                self._wait_up(node)
            except EtherError as failure:
                self._add(node, before)
                try:
                    self._wait_up(node)
                except EtherError as also:
                    gone = f"It did not start again as it was, either ({also}), and is gone until the next reload."
                    raise ProcessFailed(and_so(str(failure), gone), node) from failure
                raise

        self._try(restart, node)

    def _ending(self, node: str) -> list[str]:
        """The single agents of a node that are instances of one that scales in its next process, and may not start there."""
        single = {name for kind in self._before[node].agents if kind.agent.scale is None for name in kind.names}
        scaling = ((kind.agent.scale, kind.names) for kind in self.wanted[node].agents)
        return [name for scale, names in scaling if scale is not None for name in names[scale.min :] if name in single]

    def _complete(self, node: str) -> None:
        if node not in self._failed:
            arrived = without(self.wanted[node].agents, self._waiting_names & self._moving)
            self._tell(node, [*arrived, *self._waiting.get(node, ())])

    def _tell(self, node: str, agents: Sequence[NamedAgents], *, again: bool = False) -> None:
        """Tell a node's process which agents it is to have; what it answers is what the node has, and starts with again.

        Until then it is started with those that it had, if it ends. With `again` it tries once more what did not start before.
        """
        is_old = node in self._anew or node not in self.wanted
        spec = self.hosted[node].spec if is_old else self.wanted[node].spec
        going = self._going(node) if node in self._before else []
        gone = [name for name in going if name not in self._moving]  # who moves has no place yet but this
        moving = [name for name in going if name in self._moving]
        request = {"agents": _carried(agents), "going": gone, "moving": moving, "again": again}
        try:
            answer = self._ask(node, request)
        except ProcessFailed:  # it died of itself, or of what it started: once more
            answer = self._ask(node, request)
        named = zip(map(AgentSpec.of_dict, answer["specs"]), answer["agents"], strict=True)
        self.hosted[node] = HostedNode.of(spec, [NamedAgents(agent, tuple(names)) for agent, names in named])
        self._outdated[node] = answer["outdated"]
        self._note(node, answer)

    def _ask(self, node: str, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process(node)
        patience = process.start_timeout
        return self._processes.ask(node, {**request, "patience": patience}, limit_of(process.drain, patience))

    def _note(self, node: str, said: Mapping[str, Any]) -> None:
        self._answered.add(node)
        self._overran.update(f"{node}/{name}" for name in said.get("overran", ()))
        again = {f"{node}/{name}" for name in said.get("again", ())}
        self._again |= again
        if not self._is_held:  # what was told to have failed is up after all
            for name in again:
                self._failed.pop(name, None)
        self._never_up.update({f"{node}/{name}": said["failed"].get(name, "") for name in said.get("never_up", ())})
        wanted = agents_by_name(self.wanted.get(node))
        for name, why in said.get("failed", {}).items():
            if name in wanted:
                self._failed.setdefault(f"{node}/{name}", why)  # what was told first tells more

    # -- what became of them -------------------------------------------------------------------------------------

    def _tell_unmoved(self) -> None:
        """Tell of those that have not been up, and are where they were although they are to be elsewhere."""
        never_up = self.never_up
        for node in self.hosted.keys() & self._before.keys():
            for name in self._going(node):
                full = f"{node}/{name}"
                if full in never_up and name in self._moving and name in agents_by_name(self.hosted[node]):
                    self._failed.setdefault(full, and_so(never_up[full], "It was not moved."))

    def _tell_given_up(self) -> None:
        """Tell of nodes that were up, and have been given up meanwhile."""
        for node in self.hosted:
            if (failure := self._processes.why_given_up(node)) is not None:
                self._failed.setdefault(node, str(failure))

    def _report(self, come: list[str], stay: list[str], go: list[str]) -> ReloadReport:
        failed = self._failed
        self._tell_unmoved()
        self._tell_given_up()
        started = [node for node in come if node not in failed]
        restarted = {node: ", ".join(fields) for node, fields in self._anew.items() if node not in failed}
        stopped = [node for node in go if node not in self.hosted]
        rescaled, unchanged = [], [node for node in (*stay, *go) if node in self.hosted and node not in failed]
        for node in dict.fromkeys((*self.wanted, *self._before)):
            if node in failed:  # what it had may have come and gone meanwhile
                continue
            was, now = self._before.get(node), self._current(node) if node in self.hosted else None
            before, after = agents_by_name(was), agents_by_name(now)
            for name, agent in _told(now).items():
                if (full := f"{node}/{name}") in failed:
                    continue
                if name not in before or full in self._again:
                    started.append(full)
                elif fields := changed_fields(before[name], agent):
                    if node not in self._anew and not must_be_another(before[name], agent):
                        rescaled.append(full)
                    else:
                        restarted[full] = ", ".join(fields)
                elif node not in self._anew:
                    unchanged.append(full)
            gone = [f"{node}/{name}" for name in _told(was) if name not in after]
            stopped += [full for full in gone if full not in failed and full not in self._never_up]
        for node in self._down.keys() - self.wanted.keys():
            stopped += [node, *(f"{node}/{name}" for name in _told(self._down[node]))]
        return ReloadReport(
            tuple(started), restarted, tuple(stopped), tuple(rescaled), tuple(unchanged), tuple(sorted(self._overran)),
            {node: files for node in stay if (files := self._outdated.get(node))}, dict(failed),
        )  # fmt: skip


def limit_of(drain: float, patience: float) -> float:
    """Seconds that a node's process has to answer: instances that come or go already, new ones and changed ones, in turn."""
    return 3 * (drain + patience) + _GRACE


def _carried(kinds: Iterable[NamedAgents]) -> list[dict[str, Any]]:
    """Agents as a request carries them."""
    return [{"agent": agent.as_dict(), "names": names} for agent, names in kinds if names]


def _told(hosted: HostedNode | None) -> dict[str, AgentSpec]:
    """The agents of a node by the names that a report has: one that scales stands once, by its first."""
    return agents_by_name(hosted and hosted._replace(agents=[kind._replace(names=kind.told) for kind in hosted.agents]))
