"""The agents that a cluster has a node's process host, and their change by a reload, in that process."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from ether.cluster.agent_starts import replace_agent, scaled_agent, start_or_go_on
from ether.cluster.cluster_spec import AgentSpec, NamedAgents
from ether.cluster.reloading.hosted_node import without
from ether.cluster.reloading.spec_changes import must_be_another
from ether.cluster.start_check import check, why_not_made
from ether.cluster.start_threads import AgentStart, StartThreads, and_so, await_starts, start_in_order, words_of
from ether.node.agents.agent_host import NotStarted
from ether_actors.execution.cell import CellState
from ether_actors.restarts.source_files import changed_sources
from ether_broker.errors import EtherError

if TYPE_CHECKING:
    from ether.runtime import Runtime

__all__ = ["HostedAgents"]

_GOES_ON: Final = "It goes on starting."


class HostedAgents:
    """The agents that a node's process hosts for its cluster.

    Args:
        bus: the node's.
        drain: seconds that running work has.
    """

    def __init__(self, bus: Runtime, drain: float) -> None:
        self._bus = bus
        self._drain = drain
        self._kinds: list[NamedAgents] = []
        self._specs: dict[str, AgentSpec] = {}
        """{name: what the agent is to be}; of one that scales, each name that an instance may have."""
        self._told: dict[str, str] = {}
        """{name: that by which a report tells of it}; of one that scales, its first."""
        self._starts: list[AgentStart] = []
        """Those that go on."""
        self._never_up: dict[str, str] = {}
        """{name by which a report tells of an agent that was to start, and has not been up yet: why}."""
        self._down: dict[str, str] = {}
        """The same of those that were up, were told as failed since, and have not come up again."""

    @property
    def never_up(self) -> list[str]:
        """The agents that have not been up yet, by the names by which a report tells of them."""
        return sorted(self._never_up)

    def note(self, kinds: Iterable[NamedAgents]) -> None:
        """Note the agents that were started."""
        self._kinds = list(kinds)
        self._specs = {name: kind.agent for kind in self._kinds for name in kind.names}
        self._told = {name: told for kind in self._kinds for name, told in zip(kind.names, cycle(kind.told))}

    def start(self, kinds: Sequence[NamedAgents], patience: float, failed: dict[str, str]) -> list[Sequence[str]]:
        """Start the agents of a node that was up before: those that do not start keep none of the others away.

        Args:
            kinds: the agents.
            patience: seconds, for all of them; who has not started by then goes on starting.
            failed: gets {name: why it did not start}, as far as that is known when this returns.

        Returns:
            The names that they have, kind by kind.

        Raises:
            EtherError: the registry did not take some.
        """
        starts = self._run(kinds, patience, failed)
        for start in starts:
            if start.refused is not None:
                raise start.refused
        self.note(kinds)
        self._settle()
        return [start.names for start in starts]

    def _run(self, kinds: Iterable[NamedAgents], patience: float, failed: dict[str, str]) -> list[AgentStart]:
        """Start agents that are not here, and take them for never up until they have started."""
        starts = [AgentStart(kind, partial(start_or_go_on, self._bus)) for kind in kinds]
        self._never_up.update({name: "It has not started yet." for start in starts for name in start.wished.told})
        self._starts += starts
        start_in_order(starts, patience, failed)
        return starts

    def _settle(self) -> None:
        """Take note of what became of the starts that have ended: who was up, other names, who is not here and will not be."""
        present = self._bus.node.agent_host.agent_names
        ended = [start for start in self._starts if start.has_ended.is_set()]
        self._starts = [start for start in self._starts if start not in ended]
        kinds = self._kinds
        for start in ended:
            is_outdated = self._is_outdated(start)
            for name in () if is_outdated else start.wished.told:
                told = self._told.get(name, name)
                if name not in start.failed:
                    self._never_up.pop(told, None)
                elif told in self._never_up:
                    self._never_up[told] = start.failed[name]
            wished = set(start.wished.names)
            # who never was up keeps its name, which would else depend on when it gave up: the next reload tries it
            failed = wished if start.refused else set(start.failed) - self._names_never_up
            lost = (set() if is_outdated else failed - present) | (wished - set(start.names))
            # who scales keeps the names that it may have, and is told by the first, also while another has that
            if start.wished.agent.scale and not start.refused:
                lost = set()
            others = [name for name in start.names if name not in wished]
            kinds = [
                NamedAgents(agent, (*(name for name in names if name not in lost), *others))
                if lost and not wished.isdisjoint(names)
                else NamedAgents(agent, names)
                for agent, names in kinds
            ]
        self.note(kinds)
        up = self._up - self._starting  # whose start has not ended has been told as such, and will be told once it has
        left = {*self._told.values()} - up
        self._never_up = {name: why for name, why in self._never_up.items() if name in left}
        self._down = {name: why for name, why in self._down.items() if name in left}

    def answer(self, request: dict[str, Any]) -> dict[str, object]:
        """Do what the cluster asks for.

        Args:
            request: `agents`, those that are to be here; `going`, the names of those that go later and to no other node, and
                now if they have never been up; and `moving`, the names of those that another node takes next; or `rest`: all
                are stopped for another process that takes their names, but for those `ending`, which end before; or `check`: it
                is only looked whether these can be made here. With `again`, those are tried once more that the last answer told
                as failed.

        Returns:
            `agents`, the names that they have, or may have if they scale, kind by kind, those among them that have not been up
            yet; without those that were up, did not start any more, and are not started again;
            `specs`, what each kind is;
            `failed`, {name: why it did not start}; `overran`, those that still worked when their time was over;
            `again`, those that had given up, or had not been up when the last answer was given, or were told then as failed,
            and are up;
            `never_up`, those of `failed` that have not been up yet, and those that are gone and never were;
            `outdated`, files of their classes that have changed since this process imported them.
        """
        if "check" in request:
            return {"failed": check(request["check"], request["patience"])}
        if "rest" in request:
            return self._rest(request["ending"], request["patience"])
        wanted = [NamedAgents(AgentSpec.of_dict(one["agent"]), tuple(one["names"])) for one in request["agents"]]
        return self._become(wanted, request)

    def _rest(self, ending: Iterable[str], patience: float) -> dict[str, object]:
        supervision = self._bus.node.supervision
        present, late = self._let_go(self._scaling, patience)
        late += self._stop(present.intersection(ending))
        present = present.difference(ending)
        here = [name for name in self._specs if name in present]
        overran = [name for name, was_late in supervision.take_down(here, self._drain, "its node restarts") if was_late]
        supervision.is_process_ending = True
        return {"overran": [*late, *overran]}

    def _become(self, wanted: Sequence[NamedAgents], request: dict[str, Any]) -> dict[str, Any]:
        """Have these agents, and no others.

        New ones start first, then changed ones end and start anew, then those that go end, and then those that move: what these
        delegate to each other is done meanwhile.
        """
        going, moving, patience = set(request["going"]), set(request["moving"]), request["patience"]
        were_never_up, were_down = self._names_never_up, set(self._down)  # as the last answer told
        self._settle()
        never_up, earlier = self._names_never_up, tuple(self._starts)
        did_not_start = never_up - self._starting
        failed: dict[str, str] = {}
        wanted = [kind for kind in without(wanted, going & never_up) if kind.names]
        wanted = list(self._possible(wanted, patience, failed))
        specs = {name: agent for agent, names in wanted for name in names}
        changed = {
            name: agent
            for name, agent in specs.items()
            if name in self._specs and must_be_another(self._specs[name], agent)
        }
        gone = self._specs.keys() - specs.keys()
        did_change = set(changed)
        if request["again"]:
            again = {name for name in specs if self._told.get(name) in self._down} - self._starting
            changed |= {name: specs[name] for name in again}

        anew = changed.keys() | gone | did_not_start
        ended = [kind for kind in self._scaling if not anew.isdisjoint(kind.names)]
        here, overran = self._let_go(ended, patience)
        gave_up = self._take_given_up() - here
        self.note(without(self._kinds, (did_not_start | gave_up | changed.keys()) - here))  # those start as new ones do

        taking_over = self._start_new(wanted, ended, patience, failed)
        successors, late = self._replace_all({name: agent for name, agent in changed.items() if name in here})
        await_starts(successors, patience, failed)
        overran += late + self._stop((gone - moving) & here) + self._stop(gone & moving & here, moves=True)
        for kind in taking_over:
            self._go_on_scaling(kind, here)

        self.note(wanted)
        self._starts += successors
        self._settle()
        waiting = [start for start in earlier if start in self._starts and not self._is_outdated(start)]
        up = self._up  # before what is told as failed: who comes up meanwhile is told by the next answer
        failed = self._all_failed(failed, waiting, specs)
        self._down = {name: why for name, why in failed.items() if name not in up and name not in self._never_up}
        came = never_up | ((were_never_up | were_down | gave_up) - did_change)  # others that changed are restarted
        return {
            "agents": [kind.names for kind in self._kinds], "specs": [kind.agent.as_dict() for kind in self._kinds],
            "failed": failed, "overran": overran, "again": sorted(came & up - failed.keys()),
            "never_up": sorted(self._never_up.keys() | (did_not_start - specs.keys())),
            "outdated": changed_sources(kind.agent.start for kind in self._kinds),
        }  # fmt: skip

    def _take_given_up(self) -> set[str]:
        """The single agents that have given up since this was last asked; an instance is replaced by its scaling."""
        given_up = self._bus.node.supervision.given_up
        found = {name for name in given_up & self._specs.keys() if self._specs[name].scale is None}
        given_up.clear()
        return found

    def _start_new(
        self, wanted: Iterable[NamedAgents], ended: Sequence[NamedAgents], patience: float, failed: dict[str, str]
    ) -> list[NamedAgents]:
        """Start what is not noted, and give agents that go on scaling their new bounds.

        Returns:
            What is to scale, and has nothing but agents that are here already, which do not scale or whose scaling has ended.
        """
        known = [
            kind for kind in wanted if kind.agent.scale is not None and not self._specs.keys().isdisjoint(kind.names)
        ]  # fmt: skip
        taking_over = [kind for kind in known if not self._rescale(kind, ended)]
        new = without((kind for kind in wanted if kind not in known), self._specs)
        self._run([kind for kind in new if kind.names], patience, failed)
        return taking_over

    def _stop(self, names: set[str], *, moves: bool = False) -> list[str]:
        """Stop agents for good, or for another node that takes their names; return those of which something still ran."""
        supervision = self._bus.node.supervision
        if moves:
            away = supervision.take_down(names, self._drain, "it moves to another node", moves=True)
            return [name for name, was_late in away if was_late]
        cells = [cell for cell in self._bus.node.agent_host.cells if cell.name in names]
        return supervision.stop_cells(cells, self._drain)

    def _go_on_scaling(self, kind: NamedAgents, here: set[str]) -> None:
        """Have an agent scale whose instances are those that are here under its names."""
        host = self._bus.node.agent_host
        cells = [host.cell(name) for name in kind.names if name in here and name in host.agent_names]
        self._bus.node.scaling.follow(scaled_agent(self._bus, kind), cells)

    def _all_failed(
        self, failed: dict[str, str], waiting: Iterable[AgentStart], specs: Mapping[str, AgentSpec]
    ) -> dict[str, str]:
        """What an answer tells as failed: {name by which a report tells of an agent: why}.

        Args:
            failed: what did not start, instances among it.
            waiting: starts of earlier that had not ended before.
            specs: what is wanted.
        """
        starting = [name for start in waiting for name in start.wished.told if name in specs]
        failed = failed | dict.fromkeys(starting, "It has not started yet, and goes on starting.")
        for name in [name for name in failed if self._told.get(name, name) != name]:  # instances
            failed.setdefault(self._told[name], failed.pop(name))
        for name, why in (*self._never_up.items(), *self._down.items()):
            failed.setdefault(name, why if why.endswith(_GOES_ON) else and_so(why, _GOES_ON))
        for name in failed.keys() - self._bus.node.agent_host.agent_names - self._starting:
            if specs[name].scale is None:
                failed[name] = and_so(failed[name], "It is not running.")
        return failed

    @property
    def _names_never_up(self) -> set[str]:
        """The agents that were to start, and have not been up; of one that scales, all names that it may have."""
        return {name for name, told in self._told.items() if told in self._never_up}

    @property
    def _starting(self) -> set[str]:
        """The agents whose start goes on."""
        return {name for start in self._starts if not self._is_outdated(start) for name in start.wished.names}

    def _is_outdated(self, start: AgentStart) -> bool:
        """Whether what it starts is to be another by now."""
        now = (self._specs[name] for name in start.wished.names if name in self._specs)
        return any(must_be_another(start.wished.agent, agent) for agent in now)

    def _possible(
        self, wanted: Iterable[NamedAgents], patience: float, failed: dict[str, str]
    ) -> Iterator[NamedAgents]:  # fmt: skip
        """What is wanted, without the changes of agents that are here and could not be made so: those stay as they are."""
        present, end, kept = self._bus.node.agent_host.agent_names, time.monotonic() + patience, set[str]()
        for kind in wanted:
            stays = [
                NamedAgents(old.agent, tuple(name for name in old.names if old.agent.scale or name in kind.names))
                for old in self._kinds
                if must_be_another(old.agent, kind.agent) and not present.isdisjoint({*old.names} & {*kind.names})
            ]
            why = why_not_made(kind.agent, end - time.monotonic()) if stays else None
            if why is None:
                yield kind
                continue
            failed.update({name: and_so(why, "It stays as it was.") for old in stays for name in old.told})
            yield from (old for old in stays if kept.isdisjoint(old.names))
            kept.update(name for old in stays for name in old.names)
            rest = tuple(name for name in kind.names if name not in kept)
            if kind.agent.scale is None and rest:
                yield NamedAgents(kind.agent, rest)

    def _replace_all(self, changed: Mapping[str, AgentSpec]) -> tuple[list[AgentStart], list[str]]:
        """Take agents down, and start others in their places, each as soon as the one before it has ended.

        Returns:
            Their starts, which may go on; and those that still worked when their time was over.
        """
        threads: dict[str, StartThreads] = defaultdict(StartThreads)
        starts: list[AgentStart] = []

        def replace(name: str) -> None:
            agent = changed[name]
            start = replace_agent(self._bus, agent, name)
            starts.append(AgentStart(NamedAgents(agent, (name,)), lambda named, failed: _alone(start, named, failed)))
            threads[agent.start].run(starts[-1])

        supervision = self._bus.node.supervision
        late = []
        for name, was_late in supervision.take_down(changed, self._drain, "its specification has changed"):
            late += [name] * was_late
            replace(name)
        for name in changed.keys() - {start.names[0] for start in starts}:  # it has left by itself meanwhile
            replace(name)
        return starts, late

    @property
    def _up(self) -> set[str]:
        """The agents that take turns, by the names by which a report tells of them."""
        running = (cell.name for cell in self._bus.node.agent_host.cells if cell.state is CellState.RUNNING)
        return {self._told[name] for name in running if name in self._told}

    @property
    def _scaling(self) -> list[NamedAgents]:
        """The agents that scale."""
        return [kind for kind in self._kinds if kind.agent.scale is not None and kind.names]

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
            old == kind or self._bus.node.scaling.rescale(old.names[0], scaled_agent(self._bus, kind)) for old in own
        )


def _alone(start: Callable[[], None], named: NamedAgents, failed: dict[str, str]) -> Sequence[str]:
    """Start a single agent; whether it goes on when it did not start is its tree's matter."""
    try:
        start()
    except (EtherError, NotStarted) as error:
        failed[named.names[0]] = words_of(error)
    return named.names
