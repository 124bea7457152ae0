"""Sequences of reloads that are drawn from a seed, over real processes that work meanwhile, and what holds of each of them.

Drawn: nodes that come, go, or have other `threads`; agents of two classes, single, with a `count` and with a `scale`, that
come, go, move, change and take each other's place; those of one `count` that move apart; agents that are
new, or have changed, and do not start, or do not take their arguments; new ones that take their process down, and those that
still do not start when nodes restart in a further reload; a node that does not start again; a node, or the broker, that is
killed meanwhile; and delegations by capability and by name, before it and all the while.

Not drawn: a `count` that becomes a `scale`, and then names that differ; observers and metrics; handlers that overrun `drain`;
agents that take long to start; states; sub-delegations; modules that change; several of these faults at once; a fault that
is still there when other nodes or agents change.

`python -m tests.runtime.cluster.reload_sequences --seeds 50 --start 0`
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ether import Handle, Runtime, Scale, Status
from ether.cluster import AgentSpec, Cluster, ClusterSpec, NodeSpec, ObserverSpec, ReloadReport
from tests.support import wait_until

__all__ = ["check"]

_NODES: Final = ("n1", "n2", "n3")
_CLASSES: Final = {"alpha": "tests.runtime.reloaded:Alpha", "beta": "tests.runtime.reloaded:Beta"}
_AGENTS: Final = {"a": "alpha", "b": "alpha", "c": "alpha", "s": "alpha", "d": "beta", "e": "beta", "t": "beta"}
"""{name of an agent: its class}"""
_COUNTED: Final = {"c": 2, "e": 2}
_SCALED: Final = {"s": Scale(min=1, max=3), "t": Scale(min=2, max=3)}
_TIMEOUT: Final = 30.0
_LOST: Final = {"node_lost", "agent_restarted", "agent_gone", "agent_down", "no_holder", "broker_lost"}
"""Errors of delegations whose node or broker was killed."""


@dataclass
class _Sent:
    """A delegation, and what the cluster had when it was made."""

    handle: Handle
    kind: str
    to: str | None
    must_end_well: bool


@dataclass(frozen=True)
class _Faults:
    """What goes wrong in a reload; but for a kill one at most."""

    broken: str | None = None
    """The new agent that does not start."""
    is_fatal: bool = False
    """Whether it takes its process down."""
    misfit: str | None = None
    """The agent that does not take its arguments."""
    sick: str | None = None
    """The agent that has changed and does not start."""
    lame: str | None = None
    """The node that does not start again."""
    killed: str | None = None
    """The node that is killed, or the broker."""
    is_new: bool = False
    """Whether the agent that is broken or misfit is new."""

    @classmethod
    def draw(cls, chance: random.Random, before: ClusterSpec, after: ClusterSpec) -> _Faults:
        killed = chance.choice([*(node.name for node in before.nodes), "broker"]) if chance.random() < 0.15 else None
        was = {name for agent in _agents(before) for name in _names(agent)}
        new = [agent.base_name for agent in _agents(after) if agent.base_name not in was]
        if new and chance.random() < 0.3:
            return cls(broken=chance.choice(new), is_fatal=chance.random() < 0.3, killed=killed, is_new=True)
        if _agents(after) and chance.random() < 0.2:
            misfit = chance.choice(_agents(after)).base_name
            return cls(misfit=misfit, killed=killed, is_new=misfit in new)
        changed = _changed(before, after)
        if changed and killed is None and chance.random() < 0.5:
            return cls(sick=chance.choice(changed).split("-")[0])
        again = [node.name for node in after.nodes if node.name in {one.name for one in before.nodes}]
        if again and killed is None and chance.random() < 0.3:
            return cls(lame=chance.choice(again))
        return cls(killed=killed)

    @property
    def named(self) -> str | None:
        """The agent or node that does not do what it is to."""
        return self.broken or self.misfit or self.sick or self.lame

    @property
    def is_disturbing(self) -> bool:
        """Whether a process ends that others need."""
        return self.killed is not None or self.is_fatal

    @property
    def flags(self) -> list[str]:
        """The files that tell agents not to start."""
        return [f"{'fatal' if self.is_fatal else 'broken'}-{name}" for name in (self.broken, self.sick) if name]

    @property
    def also_lost(self) -> set[str]:
        """Errors of delegations beside those of `_LOST`; what had begun at one that took its process down waits for it."""
        also = {"agent_restarting", "unknown_agent"} if self.is_disturbing else set[str]()
        return also | {"deadline"} if self.is_fatal else also

    def put_into(self, spec: ClusterSpec) -> ClusterSpec:
        """A specification with what does not fit."""
        spec = spec if self.misfit is None else _with_misfit(spec, self.misfit)
        return spec if self.lame is None else _with_lame(spec, self.lame)


@dataclass
class _Sequence:
    seed: int
    folder: Path
    cluster: Cluster
    bus: Runtime
    chance: random.Random
    sent: list[_Sent] = field(default_factory=list[_Sent])
    story: list[str] = field(default_factory=list[str])

    def fail(self, what: str) -> None:
        raise AssertionError("\n".join((f"seed {self.seed}: {what}", *self.story)))

    # -- what is drawn -------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Draw a specification, reload to it with work under way, and judge all of it."""
        before = self.cluster.spec
        after = replace(before, nodes=draw(self.chance, self.folder, before.nodes))
        faults = _Faults.draw(self.chance, before, after)
        asked = faults.put_into(after)
        self.story += [f"reload {_shown(before)}", f"    to {_shown(after)}, {faults}"]
        flags = [self.folder / flag for flag in faults.flags]
        for flag in flags:
            flag.touch()
        report = self._reload_with_work(before, asked, faults)
        self.story.append(f"    said {report}")
        self._judge_work(faults)
        self._judge(report, before, asked, faults)
        for flag in flags:
            flag.unlink()
        self._complete(after)

    def _reload_with_work(self, before: ClusterSpec, asked: ClusterSpec, faults: _Faults) -> ReloadReport:
        chance = self.chance
        keeps = frozenset[str]() if faults.is_disturbing else _keeps(before, asked, faults.named)
        names = frozenset(name for name in _kept(before, asked) if name.split("-")[0] != faults.sick)
        self.sent = []
        for _ in range(chance.randrange(12)):
            self._delegate(keeps, names, faults)
        is_done = threading.Event()
        report = list[ReloadReport]()

        def reload() -> None:
            try:
                report.append(self.cluster.reload(asked))
            finally:
                is_done.set()

        thread = threading.Thread(target=reload)
        thread.start()
        kill_after = chance.uniform(0.0, 1.0)
        moments = 0
        while not is_done.wait(0.02):
            moments += 1
            if len(self.sent) < 400:
                self._delegate(keeps, names, faults)
            if faults.killed is not None and moments * 0.02 > kill_after:
                self._kill(faults.killed)
                kill_after = float("inf")
        thread.join()
        if not report:
            self.fail("the reload raised")
        return report[0]

    def _judge(self, report: ReloadReport, before: ClusterSpec, asked: ClusterSpec, faults: _Faults) -> None:
        if faults.killed is not None:
            return
        self._judge_report(report, faults.named, before, asked)
        if faults.is_new:
            self._judge_hold(before, asked)
            if faults.broken is not None and not faults.is_fatal:
                self._restart_more(before, asked)
        elif faults.misfit is not None:
            self._judge_misfit(faults.misfit, before, asked)
        elif faults.lame is not None:
            self._judge_lame(before, asked)
        elif faults.sick is not None and self.cluster.reload(asked).is_complete:
            self.fail(f"{faults.sick} has not come up, and a reload says that all is done")

    def _restart_more(self, before: ClusterSpec, asked: ClusterSpec) -> None:
        """Restart nodes, the same one twice perhaps, while something new still does not start."""
        for threads in self.chance.sample([6, 7, 8], 2):
            name = self.chance.choice([node.name for node in asked.nodes])
            changed = (replace(node, threads=threads) if node.name == name else node for node in asked.nodes)
            asked = replace(asked, nodes=tuple(changed))
            report = self.cluster.reload(asked)
            self.story.append(f"    then {_shown(asked)}: {report}")
            self._judge_hold(before, asked)

    def _delegate(self, keeps: frozenset[str], names: frozenset[str], faults: _Faults) -> None:
        chance = self.chance
        kind = chance.choice(list(_CLASSES))
        of_kind = sorted(name for name in names if _AGENTS[name.split("-")[0]] == kind)
        to = chance.choice(of_kind) if of_kind and chance.random() < 0.4 else None
        seconds = chance.choice([0.0, 0.0, 0.05, 0.3])
        handle = self.bus.delegate(f"noted.{kind}", {"seconds": seconds}, to=to, timeout=_TIMEOUT)
        must_end_well = not faults.is_disturbing and (to is not None or kind in keeps)
        self.sent.append(_Sent(handle, kind, to, must_end_well))

    def _kill(self, name: str) -> None:
        pids = {entry.name: entry.pid for entry in self.cluster.statistics()}
        if pids.get(name) is not None:
            self.cluster.signal(name, signal.SIGKILL)

    # -- what has to hold ----------------------------------------------------------------------------------------

    def _judge_work(self, faults: _Faults) -> None:
        """Each delegation ends; what may run once began once at most; what some agent had the capability for is done."""
        outcomes = [one.handle.result(_TIMEOUT + 5.0) for one in self.sent]
        runs = Counter(line.split()[0] for line in self._runs())
        for one, response in zip(self.sent, outcomes, strict=True):
            code = "" if response.error is None else response.error.code
            told = f"noted.{one.kind} to {one.to} {one.handle.id} ended {response.status} {code}: {response.summary}"
            if one.kind == "alpha" and runs[str(one.handle.id)] > 1:
                self.fail(f"ran {runs[str(one.handle.id)]} times: {told}")
            if response.status is Status.COMPLETED:
                if runs[str(one.handle.id)] == 0:
                    self.fail(f"completed and never ran: {told}")
            elif one.must_end_well:
                self.fail(f"an agent had it all the while: {told}")
            elif code not in _LOST | faults.also_lost:
                self.fail(f"ended otherwise: {told}")

    def _runs(self) -> list[str]:
        runs = self.folder / "runs"
        return runs.read_text().splitlines() if runs.exists() else []

    def _judge_hold(self, before: ClusterSpec, after: ClusterSpec) -> None:
        """As something new has not started, what was there is there, but for nodes that restart."""
        restarting, up = _restarting(before, after), self._up()
        moved = {name for agent in _agents(after) if agent.scale is None for name in _names(agent)}
        for node in before.nodes:
            for agent in node.agents:
                gone = [name for name in _names(agent) if f"{node.name}/{name}" not in up and name not in moved]
                if node.name not in restarting and agent.scale is None and gone:
                    self.fail(f"{gone} of {node.name} stopped although something new had not started: {sorted(up)}")

    def _judge_misfit(self, misfit: str, before: ClusterSpec, after: ClusterSpec) -> None:
        """One that was there before does not take its arguments: it goes on as it was."""
        restarting, up = _restarting(before, after), self._up()
        elsewhere = {agent.name for agent in _agents(after)} - {misfit}  # of one entry before
        for node in before.nodes:
            for agent in node.agents:
                missing = {f"{node.name}/{name}" for name in _names(agent) if name not in elsewhere} - up
                if agent.base_name == misfit and agent.scale is None and node.name not in restarting and missing:
                    self.fail(f"{missing} does not go on as it was: {sorted(up)}")

    def _judge_lame(self, before: ClusterSpec, after: ClusterSpec) -> None:
        """A node that is to restart did not start so, and goes on as it was: each agent of before and after is somewhere."""
        up = {full.partition("/")[2] for full in self._up()}
        was, will = (
            {name for one in _agents(spec) if one.scale is None for name in _names(one)} for spec in (before, after)
        )
        if missing := was & will - up:
            self.fail(f"{missing} are nowhere, as a node did not start again")

    def _judge_report(self, report: ReloadReport, fault: str | None, *specs: ClusterSpec) -> None:
        """What it says is there is there, what is stopped is not, and nothing fails without a cause."""
        if (fault is None) is not (not report.failed):
            self.fail("something failed without a cause, or nothing with one")
        if report.overran:
            self.fail("something overran that nothing held up")
        up = self._up()
        scaling = {agent.base_name for spec in specs for agent in _agents(spec) if agent.scale is not None}
        there = {*report.started, *report.restarted, *report.rescaled, *report.unchanged} - set(report.failed)
        for full in there:
            name = full.partition("/")[2]
            if name and name not in scaling and full not in up:
                self.fail(f"{full} is told as there, and is not up: {sorted(up)}")
        for full in report.stopped:
            if "/" in full and full in up:
                self.fail(f"{full} is told as stopped, and is up")

    def _complete(self, after: ClusterSpec) -> None:
        """Reload to the same until nothing fails; then it has exactly what the file says, and a reload changes nothing."""
        reports = [self.cluster.reload(after)]
        wait_until(
            lambda: reports[-1].is_complete or reports.append(self.cluster.reload(after)),
            what=f"{self.story}",
            timeout=30.0,
        )
        again = self.cluster.reload(after)
        if again != ReloadReport(unchanged=again.unchanged):
            self.fail(f"a reload to the same changed something: {again}")
        wait_until(lambda: self._difference(after) == "", what=f"the agents of the file: {self.story}", timeout=20.0)

    def _difference(self, after: ClusterSpec) -> str:
        """What is up and should not be, or the other way round; who had a `scale` may keep other names than its first."""
        up = self._up()
        least, most = Counter[str](), Counter[str]()
        for node in after.nodes:
            for agent in node.agents:
                scale = agent.scale or Scale(min=agent.count, max=agent.count)
                least[family := f"{node.name}/{agent.base_name.split('-')[0]}"] += scale.min
                most[family] += scale.max
        here = Counter(full.split("-")[0] for full in up)
        fits = all(least[family] <= here[family] <= most[family] for family in here | most)
        return "" if fits else f"{sorted(up)}"

    def _up(self) -> set[str]:
        return {f"{one['node']}/{one['agent']}" for one in self.bus.agents() if one["condition"] == "up"}


def draw(chance: random.Random, folder: Path, before: tuple[NodeSpec, ...]) -> tuple[NodeSpec, ...]:
    """The nodes of a specification, some as they were."""
    threads = {node.name: node.threads for node in before}
    words = {agent.base_name: agent.kwargs["word"] for node in before for agent in node.agents}
    names = sorted(chance.sample(_NODES, chance.choice([1, 2, 2, 3])))
    where = {
        agent.base_name: node.name
        for node in before
        for agent in node.agents
        if node.name in names and chance.random() < 0.7
    }
    agents: dict[str, list[AgentSpec]] = {name: [] for name in names}
    for name, kind in _AGENTS.items():
        if chance.random() < (0.8 if name in where else 0.35):
            word = words.get(name, "first") if chance.random() < 0.7 else chance.choice(["first", "second"])
            agent = AgentSpec(_CLASSES[kind], name, kwargs={"folder": str(folder), "word": word})
            home = where.get(name) or chance.choice(names)
            form = chance.random() if name in _COUNTED else 1.0
            if form < 0.3:
                agents[home].append(agent)
                agents[chance.choice(names)].append(replace(agent, name=f"{name}-2"))
            else:
                agents[home].append(replace(agent, count=_COUNTED.get(name, 1), scale=_SCALED.get(name)))
    return tuple(
        NodeSpec(
            name, tuple(agents[name]),
            threads=threads.get(name, 4) if chance.random() < 0.75 else chance.choice([4, 5]),
        )
        for name in names
    )  # fmt: skip


def _agents(spec: ClusterSpec) -> list[AgentSpec]:
    return [agent for node in spec.nodes for agent in node.agents]


def _with_misfit(spec: ClusterSpec, name: str) -> ClusterSpec:
    def given(agent: AgentSpec) -> AgentSpec:
        return replace(agent, kwargs={**agent.kwargs, "misfit": 1}) if agent.base_name == name else agent

    return replace(spec, nodes=tuple(replace(node, agents=tuple(map(given, node.agents))) for node in spec.nodes))


def _with_lame(spec: ClusterSpec, name: str) -> ClusterSpec:
    nothing = (ObserverSpec("tests.runtime.reloaded:Nothing"),)
    return replace(
        spec, nodes=tuple(replace(node, observers=nothing) if node.name == name else node for node in spec.nodes)
    )


def _changed(before: ClusterSpec, after: ClusterSpec) -> list[str]:
    """The agents that have changed, on nodes that go on."""
    restarting = _restarting(before, after)
    was = {(node.name, one.base_name): replace(one, count=1) for node in before.nodes for one in node.agents}
    return [
        one.base_name for node in after.nodes if node.name not in restarting for one in node.agents
        if was.get((node.name, one.base_name), replace(one, count=1)) != replace(one, count=1)
    ]  # fmt: skip


def _base_name(agent: AgentSpec) -> str:
    return agent.base_name


def _names(agent: AgentSpec) -> list[str]:
    return [agent.base_name, *(f"{agent.base_name}-{number + 1}" for number in range(1, agent.count))]


def _restarting(before: ClusterSpec, after: ClusterSpec) -> set[str]:
    was = {node.name: (node.threads, node.observers) for node in before.nodes}
    return {
        node.name for node in after.nodes if node.name in was and was[node.name] != (node.threads, node.observers)
    }  # fmt: skip


def _keeps(before: ClusterSpec, after: ClusterSpec, broken: str | None) -> frozenset[str]:
    """The classes whose capability has a holder all the while.

    One that had one on a node that does not restart, and is to have one; or is to have a new one on such a node.
    """
    restarting = _restarting(before, after)

    def kinds(spec: ClusterSpec, but: set[str]) -> set[str]:
        return {
            _AGENTS[agent.base_name.split("-")[0]] for node in spec.nodes for agent in node.agents
            if node.name not in but and agent.base_name.split("-")[0] != (broken or "").split("-")[0]
        }  # fmt: skip

    goes_on = kinds(before, restarting) & kinds(after, set())
    comes = kinds(before, set()) & kinds(after, restarting)
    return frozenset(goes_on if broken is not None else goes_on | comes)


def _kept(before: ClusterSpec, after: ClusterSpec) -> frozenset[str]:
    """The names of agents that are there before and after, none of which scales, and whose nodes do not restart."""
    restarting = _restarting(before, after)
    was, will = (
        {name for node in spec.nodes if node.name not in restarting for agent in node.agents if agent.scale is None
         for name in _names(agent)}
        for spec in (before, after)
    )  # fmt: skip
    return frozenset(was & will)


def _shown(spec: ClusterSpec) -> str:
    def shown(node: NodeSpec) -> str:
        return f"{node.name}({node.threads}): " + " ".join(
            f"{one.base_name}={one.kwargs['word']}" for one in node.agents
        )

    return "; ".join(map(shown, spec.nodes))


def check(seed: int, folder: Path, reloads: int = 6) -> list[str]:
    """Reload a cluster as the seed says, and return what was done.

    Raises:
        AssertionError: something that has to hold did not; its text is the whole story.
    """
    chance = random.Random(seed)
    output, events = list[str](), list[str]()
    options: dict[str, Any] = {"journal": str(folder / "bus.db")} if chance.random() < 0.5 else {}
    first = draw(chance, folder, ())
    with (
        Cluster(
            first,
            drain=10.0,
            start_timeout=10.0,
            on_event=events.append,
            on_output=lambda _, line: output.append(line),
            **options,
        ) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        sequence = _Sequence(seed, folder, cluster, bus, chance)
        for _ in range(reloads):
            try:
                sequence.reload()
            except AssertionError as error:
                raise AssertionError(
                    "\n".join((str(error), "events:", *events[-30:], "output:", *output[-20:]))
                ) from error
            except Exception as error:
                raise AssertionError("\n".join((repr(error), *sequence.story, *events[-30:]))) from error
    return sequence.story


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--start", type=int, default=0)
    asked = parser.parse_args()
    for each in range(asked.start, asked.start + asked.seeds):
        with tempfile.TemporaryDirectory() as made:
            try:
                check(each, Path(made))
            except AssertionError as failure:
                print(failure, flush=True)
            else:
                print(f"seed {each}: held", flush=True)
