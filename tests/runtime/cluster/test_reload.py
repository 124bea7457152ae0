"""A cluster that is reloaded: real processes, and delegations under way while the specification changes."""

from __future__ import annotations

import signal
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ether import Handle, Limits, Runtime, Scale, Status, Timing
from ether.cluster import AgentSpec, Cluster, ClusterSpec, MetricsSpec, NodeSpec, ObserverSpec, ReloadReport
from ether.cluster.reloading.hosted_node import HostedNode, place
from ether.cluster.reloading.spec_changes import changed_fields
from ether.observers import Probe
from ether.process.process_supervisor import ProcessSupervisor
from ether_actors.backoff import Backoff
from ether_actors.restarts.supervisor_spec import Restart
from ether_broker.errors import Closed, InvalidSpec, Unserialisable, UsageError
from ether_broker.security.access_list import Access, DelegateRule
from ether_broker.security.keyring import Keyring
from tests.support import wait_until

pytestmark = pytest.mark.slow

KEEPER = "tests.runtime.reloaded:Keeper"
PLAIN = "tests.runtime.reloaded:Plain"
SLEEPER = "tests.runtime.reloaded:Sleeper"
CREW = "tests.runtime.reloaded:Crew"
ASKER = "tests.runtime.reloaded:Asker"
LEAVER = "tests.runtime.reloaded:Leaver"
TALLY = "tests.runtime.reloaded:Tally"
KEEP = AgentSpec(KEEPER)


def node(name: str, *agents: AgentSpec, **fields: Any) -> NodeSpec:
    return NodeSpec(name, agents, **fields)


class World:
    """An open cluster, a runtime on it, and a folder that its handlers look into."""

    def __init__(self, cluster: Cluster, bus: Runtime, folder: Path, events: list[str], output: list[str]) -> None:
        self.cluster, self.bus, self.folder, self.events, self.output = cluster, bus, folder, events, output

    def begin(self, to: str, capability: str = "keep.word", **params: Any) -> Handle:
        """Delegate work that runs until `go`, and wait until it does."""
        handle = self.bus.delegate(capability, {"folder": str(self.folder), **params}, to=to, timeout=60)
        wait_until(lambda: any(self.folder.glob(f"{handle.id}.*")), what=f"{to} works")
        return handle

    def go(self) -> None:
        (self.folder / "go").touch()

    def ask(self, to: str | None = None) -> dict[str, Any]:
        return self.bus.delegate("keep.word", to=to, timeout=20).result().unwrap().data

    def pids(self) -> dict[str, int | None]:
        return {entry.name: entry.pid for entry in self.cluster.statistics()}

    def agents(self) -> dict[str, str]:
        return {entry["agent"]: entry["node"] for entry in self.bus.agents() if entry["condition"] == "up"}

    def reload(self, *nodes: NodeSpec, **fields: Any) -> ReloadReport:
        return self.cluster.reload(replace(self.cluster.spec, nodes=nodes, **fields))

    def reload_once_started(self, *nodes: NodeSpec) -> ReloadReport:
        """Reload until nothing is starting: an agent is up on the bus a moment before its start has ended."""
        reports = [self.reload(*nodes)]
        wait_until(lambda: reports[-1].is_complete or reports.append(self.reload(*nodes)), what="its start has ended")
        return reports[-1]

    @contextmanager
    def reloading(self, *nodes: NodeSpec) -> Iterator[list[ReloadReport]]:
        """Reload in another thread, which has ended when the block is left."""
        reports: list[ReloadReport] = []
        thread = threading.Thread(target=lambda: reports.append(self.reload(*nodes)))
        thread.start()
        try:
            yield reports
        finally:
            self.go()
            thread.join()

    def condition(self, agent: str) -> str | None:
        return next((entry["condition"] for entry in self.bus.agents() if entry["agent"] == agent), None)


@contextmanager
def world(folder: Path, *nodes: NodeSpec, drain: float = 20.0, **fields: Any) -> Iterator[World]:
    events, output = list[str](), list[str]()
    with (
        Cluster(
            nodes, drain=drain, on_event=events.append, on_output=lambda _, line: output.append(line), **fields
        ) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        yield World(cluster, bus, folder, events, output)


# -- agents ------------------------------------------------------------------------------------------------------


def test_what_has_not_changed_keeps_its_process_and_what_it_works_at(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", KEEP, AgentSpec(PLAIN, "extra"))) as it:
        before, works = it.pids(), it.begin("keeper")
        report = it.reload(node("n1", KEEP), node("n2", KEEP, AgentSpec(PLAIN, "other")))
        after = it.pids()
        it.go()

        assert works.result(10).unwrap().data["attempt"] == 1
        assert it.agents() == {"keeper": "n1", "keeper-2": "n2", "other": "n2"}

    assert after == before
    assert report == ReloadReport(
        started=("n2/other",), stopped=("n2/extra",), unchanged=("n1", "n2", "n1/keeper", "n2/keeper-2")
    )


def test_a_file_that_says_the_same_changes_nothing(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        works = it.begin("keeper")
        report = it.reload(node("n1", KEEP))
        it.go()
        assert works.result(10).ok

    assert report == ReloadReport(unchanged=("n1", "n1/keeper"))


def test_a_changed_agent_ends_its_work_and_what_waits_and_comes_goes_to_its_successor_with_its_state(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP, AgentSpec(PLAIN, "neighbour"))) as it:
        before = it.pids()
        assert it.ask("keeper")["total"] == 1
        works = it.begin("keeper")
        waits = [it.bus.delegate("keep.word", to="keeper", timeout=20) for _ in range(5)]
        with it.reloading(node("n1", replace(KEEP, args=("second",)), AgentSpec(PLAIN, "neighbour"))) as reports:
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
            comes = it.bus.delegate("keep.word", to="keeper", timeout=20)
            assert it.ask("neighbour")["word"] == "plain"
            assert not works.done
            it.go()
            answers = [handle.result(10).unwrap().data for handle in (works, *waits, comes)]
        after = it.pids()

    assert [(answer["word"], answer["total"]) for answer in answers] == [
        ("first", 2), *(("second", total) for total in range(3, 9)),
    ]  # fmt: skip
    assert {answer["attempt"] for answer in answers} == {1}
    assert {answer["pid"] for answer in answers} == {before["n1"]}
    assert after == before
    assert reports == [
        ReloadReport(restarted={"n1/keeper": "args"}, unchanged=("n1", "n1/neighbour")),
    ]


def test_an_agent_of_another_class_takes_a_name_with_what_waits_for_it(tmp_path: Path):
    with world(tmp_path, node("n1", AgentSpec(KEEPER, "it"))) as it:
        works = it.begin("it")
        waits = it.bus.delegate("keep.word", to="it", timeout=20)
        with it.reloading(node("n1", AgentSpec(PLAIN, "it"))) as reports:
            wait_until(lambda: it.condition("it") == "restarting", what="it drains")
        assert works.result(10).unwrap().data["word"] == "first"
        assert waits.result(10).unwrap().data["word"] == "plain"
        assert it.ask("it")["word"] == "plain"

    assert reports == [ReloadReport(restarted={"n1/it": "start"}, unchanged=("n1",))]


@pytest.mark.parametrize(("agent", "capability"), [(KEEPER, "keep.word"), (SLEEPER, "sleep.once")])
def test_what_outlasts_the_drain_of_a_changed_agent_has_failed_and_the_next_one_works(
    tmp_path: Path, agent: str, capability: str
):
    with world(tmp_path, node("n1", AgentSpec(agent, "it")), drain=0.2) as it:
        works = it.begin("it", capability)
        report = it.reload(node("n1", AgentSpec(agent, "it", intensity=9)))
        response = works.result(10)
        it.go()
        assert it.bus.delegate(capability, {"folder": str(it.folder)}, to="it", timeout=20).result().ok

    assert (response.status, response.error and response.error.code) == (Status.FAILED_EXECUTION, "agent_restarted")
    assert report.restarted == {"n1/it": "intensity"}
    assert report.overran == ("n1/it",)


def test_an_agent_that_is_gone_ends_its_work_and_what_waits_goes_to_others(tmp_path: Path):
    with world(tmp_path, node("n1", AgentSpec(KEEPER, "old")), node("n2")) as it:
        works = it.begin("old")
        waits = [it.bus.delegate("keep.word", timeout=20) for _ in range(3)]
        with it.reloading(node("n1"), node("n2", AgentSpec(PLAIN, "new"))) as reports:
            assert [handle.result(10).unwrap().data["agent"] for handle in waits] == ["new"] * 3
            assert not works.done
        assert works.result(10).unwrap().data["agent"] == "old"
        assert it.agents() == {"new": "n2"}

    assert reports == [ReloadReport(started=("n2/new",), stopped=("n1/old",), unchanged=("n1", "n2"))]


def test_the_number_of_agents_changes_and_those_that_stay_notice_nothing(tmp_path: Path):
    with world(tmp_path, node("n1", replace(KEEP, count=2))) as it:
        works = it.begin("keeper")
        more = it.reload(node("n1", replace(KEEP, count=4)))
        assert set(it.agents()) == {"keeper", "keeper-2", "keeper-3", "keeper-4"}
        fewer = it.reload(node("n1", KEEP))
        assert set(it.agents()) == {"keeper"}
        it.go()
        assert works.result(10).ok

    assert more == ReloadReport(started=("n1/keeper-3", "n1/keeper-4"), unchanged=("n1", "n1/keeper", "n1/keeper-2"))
    assert fewer.stopped == ("n1/keeper-2", "n1/keeper-3", "n1/keeper-4")


def test_an_agent_that_works_for_another_that_changes_gets_its_answer_from_the_next_one(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP, AgentSpec(ASKER))) as it:
        asks = it.begin("asker", "ask.word", whom="keeper")
        changed = node("n1", replace(KEEP, args=("second",)), AgentSpec(ASKER, intensity=9))
        with it.reloading(changed) as reports:
            wait_until(lambda: it.condition("asker") == "restarting", what="it drains")
            (it.folder / "ask").touch()
            assert asks.result(10).unwrap().data["word"] == "second"

    assert reports[0].restarted == {"n1/keeper": "args", "n1/asker": "intensity"}
    assert reports[0].overran == ()


def test_an_agent_that_moves_takes_its_name_and_its_state_along(tmp_path: Path):
    moved = AgentSpec(KEEPER, "it")
    with world(tmp_path, node("n1", moved), node("n2")) as it:
        before = it.pids()
        assert it.ask("it")["total"] == 1
        report = it.reload(node("n1"), node("n2", moved))
        answer = it.ask("it")

    assert (answer["total"], answer["pid"]) == (2, before["n2"])
    assert report == ReloadReport(started=("n2/it",), stopped=("n1/it",), unchanged=("n1", "n2"))


@pytest.mark.parametrize("to", ["n2", "n3"])  # a node that is there, and a new one instead of the old one
def test_an_agent_that_moves_loses_nothing_of_what_waits_and_of_what_comes_meanwhile(tmp_path: Path, to: str):
    moved = AgentSpec(TALLY, "tally", args=(str(tmp_path),))
    with world(tmp_path, node("n1", moved), node("n2")) as it:
        handles: list[Handle] = []
        for number in range(250):
            handles.append(it.bus.publish("tally.one", {"number": number}))
            handles.append(
                it.bus.delegate("tally.add", {"number": number}, to="tally" if number % 2 else None, timeout=60)
            )
        nodes = (node("n1"), node("n2", moved)) if to == "n2" else (node("n3", moved), node("n2"))
        with it.reloading(*nodes) as reports:
            for number in range(250, 500):
                handles.append(it.bus.publish("tally.one", {"number": number}))
                handles.append(it.bus.delegate("tally.add", {"number": number}, timeout=60))
                time.sleep(0.002)
        outcomes = Counter(handle.result(60).status for handle in handles)
        wait_until(lambda: len((tmp_path / "tally").read_text().split()) >= 3_000, what="the last event is handled")
        pids = it.pids()
    rows = [line.split() for line in (tmp_path / "tally").read_text().splitlines()]

    assert outcomes == {Status.COMPLETED: 1_000}
    assert reports[0].failed == {}
    assert reports[0].overran == ()
    assert Counter((what, int(number)) for what, number, _ in rows) == {
        (what, number): 1 for what in ("event", "add") for number in range(500)
    }
    events = [(int(number), int(pid)) for what, number, pid in rows if what == "event"]
    assert [number for number, _ in events] == list(range(500)), "they are in order"
    assert events[-1][1] == pids[to]
    assert events[0][1] != events[-1][1]


def test_what_agents_that_move_from_two_nodes_wait_for_of_each_other_is_refused_and_neither_overruns(tmp_path: Path):
    keeper, asker = AgentSpec(KEEPER, "keeper"), AgentSpec(ASKER, "asker")
    with world(tmp_path, node("n1", keeper), node("n2", asker)) as it:
        works, asks = it.begin("keeper"), it.begin("asker", "ask.word", whom="keeper")
        (it.folder / "ask").touch()
        wait_until(lambda: _open(it, "keeper") == 2, what="the asker waits for the keeper")
        with it.reloading(node("n1", asker), node("n2", keeper)) as reports:
            wait_until(
                lambda: it.condition("asker") == it.condition("keeper") == "restarting", what="both end their work"
            )
            it.go()
            assert works.result(10).ok
            response = asks.result(10)
        assert it.ask("keeper")["total"] == 2

    assert response.error is not None
    assert "agent_down" in response.error.message
    assert reports[0].overran == ()


def _open(it: World, agent: str) -> int:
    """Delegations that an agent has not ended."""
    (entry,) = (entry for entry in it.bus.agents() if entry["agent"] == agent)
    return int(entry["queued"] + entry["in_flight"])


def test_what_an_agent_that_moves_still_runs_when_its_time_is_over_ends_as_that_of_a_lost_node(tmp_path: Path):
    keeper, crew_ = AgentSpec(KEEPER, "keeper"), AgentSpec(CREW, "crew")
    with world(tmp_path, node("n1", keeper, crew_), node("n2"), drain=0.5) as it:
        again, once = it.begin("keeper"), it.begin("crew", "crew.word")
        waits = it.bus.delegate("crew.word", {"until": "go"}, to="crew", timeout=60)
        report = it.reload(node("n1"), node("n2", keeper, crew_))
        it.go()
        outcomes = [handle.result(30) for handle in (again, once, waits)]

    assert report.overran == ("n1/crew", "n1/keeper")
    assert outcomes[0].unwrap().data["attempt"] == 2
    assert outcomes[1].error is not None
    assert outcomes[1].error.code == "node_lost"
    assert outcomes[2].ok


def test_agents_without_a_name_of_their_own_keep_theirs_when_others_go(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", KEEP), node("n3", KEEP)) as it:
        before = it.pids()
        it.reload(node("n3", KEEP), node("n2", KEEP))
        assert it.agents() == {"keeper-2": "n2", "keeper-3": "n3"}
        assert {name: pid for name, pid in it.pids().items() if name != "n1"} == {
            name: pid for name, pid in before.items() if name != "n1"
        }
        it.reload(node("n3", KEEP), node("n2", KEEP), node("n4", KEEP))
        assert it.agents() == {"keeper": "n4", "keeper-2": "n2", "keeper-3": "n3"}


# -- agents that scale -------------------------------------------------------------------------------------------


class Shift:
    """What an agent that scales is given to do, all of which runs until `go`."""

    def __init__(self, it: World) -> None:
        self.it = it
        self.handles: list[Handle] = []

    def add(self, count: int, until: str = "go") -> None:
        params = {"folder": str(self.it.folder), "until": until}
        self.handles += [self.it.bus.delegate("crew.word", params, timeout=60) for _ in range(count)]

    def await_runs(self, count: int) -> None:
        wait_until(lambda: len(self.runs()) == count, what=f"{count} run")

    def runs(self) -> list[str]:
        return [handle.id for handle in self.handles if any(self.it.folder.glob(f"{handle.id}.*"))]

    def answers(self) -> list[dict[str, Any]]:
        """What each said; each ran once."""
        self.it.go()
        answers = [handle.result(20).unwrap().data for handle in self.handles]
        assert {answer["attempt"] for answer in answers} == {1}
        assert [(self.it.folder / f"{handle.id}.1").read_text() for handle in self.handles] == ["x"] * len(answers)
        return answers


def crew(most: int, least: int = 1, **fields: Any) -> AgentSpec:
    return AgentSpec(CREW, "crew", scale=Scale(most, least, per=1, cooldown=60.0), **fields)


def conditions(it: World) -> Counter[str]:
    return Counter(entry["condition"] for entry in it.bus.agents())


def test_other_bounds_are_taken_in_place_and_what_runs_goes_on(tmp_path: Path):
    with world(tmp_path, node("n1", crew(2), KEEP)) as it:
        before, shift = it.pids(), Shift(it)
        shift.add(8)
        shift.await_runs(2)
        more = it.reload(node("n1", crew(4), KEEP))
        shift.await_runs(4)
        fewer = it.reload(node("n1", crew(2), KEEP))
        wait_until(lambda: conditions(it) == {"up": 3, "draining": 2}, what="the surplus drains")
        assert it.reload(node("n1", crew(2), KEEP)).rescaled == ()
        assert len(shift.runs()) == 4
        words = {answer["word"] for answer in shift.answers()}
        wait_until(lambda: len(it.agents()) == 3, what="it has gone")
        least = it.reload(node("n1", crew(4, 4), KEEP))
        wait_until(lambda: len(it.agents()) == 5, what="the fewest are there")
        after = it.pids()

    assert words == {"first"}
    assert after == before
    assert more == fewer == least == ReloadReport(rescaled=("n1/crew",), unchanged=("n1", "n1/keeper"))
    assert more.lines()[0] == "rescaled  n1/crew"


def test_all_instances_of_a_changed_agent_end_their_work_and_what_waits_and_later_ones_are_new(tmp_path: Path):
    with world(tmp_path, node("n1", crew(3))) as it:
        before, shift = it.pids(), Shift(it)
        shift.add(6)
        shift.await_runs(3)
        with it.reloading(node("n1", crew(5, kwargs={"word": "second"}))) as reports:
            wait_until(lambda: conditions(it) == {"restarting": 3}, what="all are to be replaced")
            shift.add(6)
            words = [answer["word"] for answer in shift.answers()]
        for name in ("crew", "crew-2", "crew-3"):
            assert it.bus.delegate("crew.word", to=name, timeout=20).result().unwrap().data["word"] == "second"
        (it.folder / "go").unlink()
        late = Shift(it)
        late.add(5)
        late.await_runs(5)
        assert {answer["word"] for answer in late.answers()} == {"second"}
        assert len(it.agents()) == 5
        after = it.pids()

    assert words == ["first"] * 3 + ["second"] * 9
    assert after == before
    assert reports == [ReloadReport(restarted={"n1/crew": "kwargs, scale"}, unchanged=("n1",))]


def test_a_count_becomes_a_scale_and_a_scale_a_count(tmp_path: Path):
    fixed = AgentSpec(CREW, "crew", count=3)
    with world(tmp_path, node("n1", fixed)) as it:
        shift = Shift(it)
        shift.add(6)
        shift.await_runs(3)
        with it.reloading(node("n1", crew(2))) as scaled:
            wait_until(lambda: conditions(it)["restarting"] == 2, what="those that stay are to be replaced")
            shift.answers()
        assert set(it.agents()) == {"crew", "crew-2"}
        (it.folder / "go").unlink()
        more = Shift(it)
        more.add(6)
        more.await_runs(2)
        assert it.reload(node("n1", crew(3))).rescaled == ("n1/crew",)
        more.await_runs(3)
        with it.reloading(node("n1", fixed)) as back:
            wait_until(lambda: conditions(it)["restarting"] == 3, what="all are to be replaced")
            more.answers()
        (it.folder / "go").unlink()
        last = Shift(it)
        last.add(9)
        last.await_runs(3)
        assert it.reload(node("n1", replace(fixed, count=4))).started == ("n1/crew-4",)
        last.answers()

    assert scaled == [ReloadReport(restarted={"n1/crew": "scale"}, stopped=("n1/crew-3",), unchanged=("n1",))]
    restarted = {"n1/crew": "scale", "n1/crew-2": "scale", "n1/crew-3": "scale"}
    assert back == [ReloadReport(restarted=restarted, unchanged=("n1",))]


def test_an_agent_that_scales_comes_moves_and_goes(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2")) as it:
        shift = Shift(it)
        came = it.reload(node("n1", KEEP, crew(3)), node("n2"))
        shift.add(3)
        shift.await_runs(3)
        with it.reloading(node("n1", KEEP), node("n2", crew(4))) as moved:
            wait_until(lambda: "n2" in it.agents().values(), what="it is up on the other node, before it has gone here")
            shift.answers()
        assert set(it.agents().values()) == {"n1", "n2"}
        assert it.agents()["keeper"] == "n1"
        (it.folder / "go").unlink()
        late = Shift(it)
        late.add(4)
        late.await_runs(4)
        with it.reloading(node("n1", KEEP), node("n2")) as gone:
            wait_until(lambda: conditions(it)["draining"] == 4, what="all drain")
            late.answers()
        assert it.agents() == {"keeper": "n1"}

    nodes = ("n1", "n2", "n1/keeper")
    assert came == ReloadReport(started=("n1/crew",), unchanged=nodes)
    assert moved == [ReloadReport(started=("n2/crew",), stopped=("n1/crew",), unchanged=nodes)]
    assert gone == [ReloadReport(stopped=("n2/crew",), unchanged=nodes)]


@pytest.mark.parametrize("least", [1, 2])
def test_a_node_whose_process_must_be_another_keeps_what_waits_for_instances(tmp_path: Path, least: int):
    with world(tmp_path, node("n1", crew(3, least))) as it:
        before, shift = it.pids(), Shift(it)
        shift.add(9)
        shift.await_runs(3)
        with it.reloading(node("n1", crew(3, least), threads=2)) as reports:
            wait_until(lambda: conditions(it)["up"] == 0, what="none takes anything more")
            shift.add(3)
            answers = shift.answers()
        after = it.pids()
        wait_until(lambda: set(it.agents()) <= {"crew", "crew-2", "crew-3"}, what="it is up")

    assert Counter(answer["pid"] for answer in answers) == {before["n1"]: 3, after["n1"]: 9}
    assert reports == [ReloadReport(restarted={"n1": "threads"})]


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_agent_whose_instances_had_other_names_scales_up_for_what_waits_when_its_node_is_back(
    tmp_path: Path, *, is_killed: bool
):
    """Its first name was another node's when it started, and is free when it starts again."""
    with world(tmp_path, node("n1", crew(3))) as it:
        it.reload(node("n2", crew(3)))
        wait_until(lambda: it.agents() == {"crew-4": "n2"}, what="it has moved")
        shift = Shift(it)
        shift.add(3, until="first")
        shift.await_runs(3)
        shift.add(6)
        if is_killed:
            it.cluster.signal("n2", signal.SIGKILL)
            shift.await_runs(6)
        else:
            with it.reloading(node("n2", crew(3), threads=2)):
                wait_until(lambda: conditions(it)["up"] == 0, what="none takes anything more")
                (tmp_path / "first").touch()
                shift.await_runs(6)
        assert "crew" in it.agents()
        it.go()
        outcomes = [handle.result(20) for handle in shift.handles]

    assert [outcome.ok for outcome in outcomes] == [not is_killed] * 3 + [True] * 6


def test_an_entry_with_other_bounds_keeps_its_names_beside_one_of_the_same_class():
    first, second = (AgentSpec(CREW, kwargs={"word": word}, scale=Scale(max=2)) for word in ("first", "second"))
    before = place({}, [node("n1", first, second)])
    [own] = place(before, [node("n1", replace(second, scale=Scale(max=3)))])["n1"].agents

    assert own.names == ("crew-3", "crew-4", "crew")


def test_an_agent_that_scales_may_have_its_first_name_and_enough_free_ones_on_another_node():
    one = AgentSpec(CREW, scale=Scale(max=2))
    hosted, names = place({}, [node("n1", one)]), list[tuple[str, ...]]()
    for at in range(2, 6):
        hosted = place(hosted, [node(f"n{at}", one)])
        names += [own.names for own in hosted[f"n{at}"].agents]

    assert names == [("crew", "crew-3", "crew-4"), ("crew", "crew-2", "crew-5")] * 2


def test_none_comes_to_a_process_that_is_to_end(tmp_path: Path):
    with world(tmp_path, node("n1", crew(3, 3))) as it:
        before, shift = it.pids(), Shift(it)
        shift.add(1, until="first")
        shift.await_runs(1)
        shift.add(5)
        shift.await_runs(3)
        with it.reloading(node("n1", crew(3, 3), threads=2)):
            wait_until(lambda: conditions(it)["up"] == 0, what="none takes anything more")
            (tmp_path / "first").touch()
            assert shift.handles[0].result(20).ok
            time.sleep(0.7)  # in which the node would have seen twice that it has fewer instances than `min`
            answers = shift.answers()

    assert Counter(answer["pid"] == before["n1"] for answer in answers) == {True: 3, False: 3}


def test_what_is_left_of_an_agent_that_scales_no_more_ends_while_another_node_still_starts(tmp_path: Path):
    late = AgentSpec(CREW, "late", kwargs={"folder": str(tmp_path)})
    with world(tmp_path, node("n1", crew(4, 2))) as it:
        (tmp_path / "hold-first").touch()
        with it.reloading(node("n1", AgentSpec(CREW, "crew")), node("n2", late)) as reports:
            wait_until((tmp_path / "starting-late").exists, what="the other node starts")
            wait_until(lambda: conditions(it) == {"up": 1}, what="there is one of the new specification, and no other")
            (tmp_path / "hold-first").unlink()

    assert reports == [ReloadReport(started=("n2", "n2/late"), restarted={"n1/crew": "scale"}, unchanged=("n1",))]


def test_an_instance_that_is_starting_is_replaced_as_the_others_are(tmp_path: Path):
    first = crew(2, kwargs={"folder": str(tmp_path)})
    with world(tmp_path, node("n1", first)) as it:
        (tmp_path / "hold-first").touch()
        shift = Shift(it)
        shift.add(4)
        wait_until((tmp_path / "starting-crew-2").exists, what="the second one starts")
        with it.reloading(node("n1", replace(first, kwargs={"word": "second"}))) as reports:
            shift.await_runs(1)
            assert conditions(it) == {"up": 1}, "nothing is replaced before it has started"
            (tmp_path / "hold-first").unlink()
            wait_until(lambda: conditions(it) == {"restarting": 2}, what="both are to be replaced")
            words = [answer["word"] for answer in shift.answers()]
        for name in ("crew", "crew-2"):
            assert it.bus.delegate("crew.word", to=name, timeout=20).result().unwrap().data["word"] == "second"

    assert words.count("first") in {1, 2}, "one ran, and the other may have begun one when it had started"
    assert reports == [ReloadReport(restarted={"n1/crew": "kwargs"}, unchanged=("n1",))]


def test_an_instance_that_drains_ends_its_work_and_is_not_replaced(tmp_path: Path):
    with world(tmp_path, node("n1", crew(3))) as it:
        shift = Shift(it)
        shift.add(4)
        shift.await_runs(3)
        it.reload(node("n1", crew(1)))
        wait_until(lambda: conditions(it) == {"up": 1, "draining": 2}, what="two drain")
        with it.reloading(node("n1", crew(1, kwargs={"word": "second"}))) as reports:
            words = Counter(answer["word"] for answer in shift.answers())
        assert conditions(it) == {"up": 1}
        assert it.bus.delegate("crew.word", timeout=20).result().unwrap().data["word"] == "second"

    assert words["first"] >= 3
    assert reports == [ReloadReport(restarted={"n1/crew": "kwargs"}, unchanged=("n1",))]


def test_an_instance_that_drains_has_no_longer_than_the_others(tmp_path: Path):
    with world(tmp_path, node("n1", crew(2)), drain=0.3) as it:
        shift = Shift(it)
        shift.add(2)
        shift.await_runs(2)
        it.reload(node("n1", crew(1)))
        wait_until(lambda: conditions(it) == {"up": 1, "draining": 1}, what="one drains")
        report = it.reload(node("n1", crew(1, kwargs={"word": "second"})))
        statuses = {handle.result(20).status for handle in shift.handles}
        it.go()

    assert Status.COMPLETED not in statuses
    assert report.overran == ("n1/crew", "n1/crew-2")


def test_agents_that_scale_and_do_not_start_are_told_by_one_name_and_go_on_trying(tmp_path: Path):
    broken = AgentSpec("tests.runtime.reloaded:Missing", "lost", scale=Scale(max=3))
    stateful = AgentSpec(KEEPER, "kept", scale=Scale(max=3))
    with world(tmp_path, node("n1", crew(2))) as it:
        report = it.reload(node("n1", crew(2), broken, stateful))
        again = it.reload(node("n1", crew(2), replace(broken, start=CREW), stateful))
        wait_until(lambda: set(it.agents()) == {"crew", "lost"}, what="it has started")

    assert sorted(report.failed) == ["n1/kept", "n1/lost"]
    assert "has a state" in report.failed["n1/kept"]
    assert report.unchanged == ("n1", "n1/crew")
    assert set(again.failed) == {"n1/kept"}, "what cannot scale is tried again"


def test_nothing_is_lost_or_done_twice_while_bounds_and_arguments_change_again_and_again(tmp_path: Path):
    with world(tmp_path, node("n1", crew(3), KEEP)) as it:
        probe = it.bus.observe(Probe())
        shift, is_over = Shift(it), threading.Event()
        it.go()

        def delegate() -> None:
            params = {"folder": str(tmp_path), "seconds": 0.02}
            while not is_over.wait(0.01):
                if sum(not handle.done for handle in shift.handles) < 30:
                    shift.handles += [it.bus.delegate("crew.word", params, timeout=60) for _ in range(5)]

        thread = threading.Thread(target=delegate)
        thread.start()
        try:
            for number, scaled in enumerate((
                crew(6), crew(2), crew(4, 2, kwargs={"word": "second"}), crew(1, kwargs={"word": "second"}),
                crew(1, kwargs={"word": "third"}), crew(5, 5, kwargs={"word": "third"}), AgentSpec(CREW, "crew", count=2),
                crew(4, kwargs={"word": "last"}),
            )):  # fmt: skip
                done = len(shift.handles)
                report = it.reload(node("n1", scaled, KEEP))
                assert (report.failed, report.overran) == ({}, ()), number
                wait_until(lambda done=done: len(shift.handles) > done + 20 and shift.handles[done + 20].done)  # type: ignore[misc]
        finally:
            is_over.set()
            thread.join()
        answers = shift.answers()
        wait_until(lambda: len(probe.find(status=Status.COMPLETED)) >= len(answers), what="all is observed")

    assert {answer["word"] for answer in answers} == {"first", "second", "third", "last"}
    assert Counter(seen.request_id for seen in probe.find(status=Status.COMPLETED)) == dict.fromkeys(
        (handle.id for handle in shift.handles), 1
    )


# -- agents that scale, and never were up ------------------------------------------------------------------------

KEPT = ("n1", "n1/keeper")
WAYS = pytest.mark.parametrize(
    "way",
    [{"intensity": 1, "backoff": Backoff(0.05)}, {"backoff": Backoff(60.0, maximum=60.0)}],
    ids=["gives-up", "waits"],
)


def keeper_and(*agents: AgentSpec) -> NodeSpec:
    return node("n1", KEEP, *agents)


@contextmanager
def never_up(folder: Path, *agents: AgentSpec) -> Iterator[World]:
    """A cluster that has agents which did not start, as long as the folder says so."""
    (folder / "broken").touch()
    with world(folder, keeper_and()) as it:
        assert is_told(it.reload(keeper_and(*agents)), *agents)
        if agents[0].intensity == 1:
            wait_until(lambda: sum("gave up" in line for line in it.output) == agents[0].count, what="they try no more")
        yield it


def is_told(report: ReloadReport, *agents: AgentSpec) -> bool:
    """Whether just these are told, as failed and with the reason."""
    names = [
        f"n1/{agent.name}" + f"-{number}" * (number > 1) for agent in agents for number in range(1, agent.count + 1)
    ]
    is_reason = all(why.startswith("RuntimeError: it is broken") for why in report.failed.values())
    return is_reason and report == ReloadReport(unchanged=KEPT, failed=report.failed) and list(report.failed) == names


def broken_crew(folder: Path, **fields: Any) -> AgentSpec:
    return AgentSpec(CREW, "crew", kwargs={"folder": str(folder)}, **fields)


@WAYS
def test_agents_that_never_were_up_and_are_to_scale_are_told_as_failed_until_one_is_up(
    tmp_path: Path, way: dict[str, Any]
):
    single = broken_crew(tmp_path, count=2, **way)
    scaled = replace(single, count=1, scale=Scale(3))
    with never_up(tmp_path, single) as it:
        assert is_told(it.reload(keeper_and(scaled)), scaled)
        assert is_told(it.reload(keeper_and(scaled)), scaled)
        assert it.reload(keeper_and(replace(scaled, kwargs={}))) == ReloadReport(started=("n1/crew",), unchanged=KEPT)
        assert "crew" in it.agents()


def test_agents_that_give_up_before_and_after_a_reload_has_told_of_them_are_told_alike(tmp_path: Path):
    single = broken_crew(tmp_path, count=2, intensity=2, backoff=Backoff(0.5))
    scaled = replace(single, count=1, scale=Scale(3))
    (tmp_path / "broken").touch()
    (tmp_path / "hold-crew-2").touch()
    with world(tmp_path, keeper_and()) as it:
        with it.reloading(keeper_and(single)) as reports:
            wait_until(lambda: any("crew gave up" in line for line in it.output), what="the first one gives up")
            (tmp_path / "hold-crew-2").unlink()
        assert is_told(reports[0], single)
        assert is_told(it.reload(keeper_and(scaled)), scaled)


@WAYS
def test_an_agent_that_never_was_up_and_starts_as_one_that_scales_is_told_as_started(
    tmp_path: Path, way: dict[str, Any]
):
    single = broken_crew(tmp_path, **way)
    scaled = keeper_and(replace(single, scale=Scale(3)))
    with never_up(tmp_path, single) as it:
        (tmp_path / "broken").unlink()
        assert it.reload(scaled) == ReloadReport(started=("n1/crew",), unchanged=KEPT)
        assert it.agents() == {"crew": "n1", "keeper": "n1"}
        assert it.reload(scaled) == ReloadReport(unchanged=(*KEPT, "n1/crew"))


@pytest.mark.parametrize("bounds", [Scale(3), Scale(4, 2)])
def test_an_agent_that_scales_and_never_was_up_is_tried_and_told_by_each_reload(tmp_path: Path, bounds: Scale):
    scaled = broken_crew(tmp_path, scale=Scale(3))
    with never_up(tmp_path, scaled) as it:
        assert is_told(it.reload(keeper_and(scaled)), scaled)
        (tmp_path / "broken").unlink()
        fixed = keeper_and(replace(scaled, scale=bounds))
        assert it.reload(fixed) == ReloadReport(started=("n1/crew",), unchanged=KEPT)
        assert it.reload(fixed) == ReloadReport(unchanged=(*KEPT, "n1/crew"))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("is_mended", [False, True])
def test_an_agent_that_scales_and_never_was_up_becomes_single_ones(tmp_path: Path, count: int, *, is_mended: bool):
    scaled = broken_crew(tmp_path, scale=Scale(3))
    single = replace(scaled, scale=None, count=count, backoff=Backoff(60.0, maximum=60.0))
    started = ReloadReport(started=("n1/crew", "n1/crew-2")[:count], unchanged=KEPT)
    with never_up(tmp_path, scaled) as it:
        if not is_mended:
            assert is_told(it.reload(keeper_and(single)), single)
            assert is_told(it.reload(keeper_and(single)), single)
        assert it.reload(keeper_and(replace(single, kwargs={}))) == started


def test_an_agent_that_scales_and_never_was_up_is_forgotten_when_it_is_gone(tmp_path: Path):
    scaled, other = broken_crew(tmp_path, scale=Scale(3)), replace(broken_crew(tmp_path, scale=Scale(2)), name="other")
    with never_up(tmp_path, scaled) as it:
        assert is_told(it.reload(keeper_and(other)), other), (
            "it is no reason to keep it that another does not start either"
        )
        assert it.reload(keeper_and()) == ReloadReport(unchanged=KEPT)
        (tmp_path / "broken").unlink()
        assert it.reload(keeper_and(scaled)) == ReloadReport(started=("n1/crew",), unchanged=KEPT)


def test_what_comes_up_between_two_reloads_is_told_as_started_by_the_second_unless_that_changes_it(tmp_path: Path):
    single = replace(broken_crew(tmp_path, intensity=100_000, backoff=Backoff(0.05, 1.0)), name="single")
    changes = replace(single, name="changes")
    same = (broken_crew(tmp_path, scale=Scale(3)), single)
    with never_up(tmp_path, *same, changes) as it:
        (tmp_path / "broken").unlink()
        wait_until(lambda: it.agents().keys() == {"keeper", "crew", "single", "changes"}, what="all have come up")
        for name in ("crew", "single", "changes"):  # known to the bus is not yet at work
            assert it.bus.delegate("crew.word", to=name, timeout=20).result().ok
        report = it.reload(keeper_and(*same, replace(changes, kwargs={})))
        again = it.reload(keeper_and(*same, replace(changes, kwargs={})))

    started = ("n1/crew", "n1/single")
    assert report == ReloadReport(started=started, restarted={"n1/changes": "kwargs"}, unchanged=KEPT)
    assert again == ReloadReport(unchanged=(*KEPT, *started, "n1/changes"))


@pytest.mark.parametrize("scale", [None, Scale(3)])
def test_what_had_not_started_in_time_is_told_as_started_once_it_has(tmp_path: Path, scale: Scale | None):
    agents = keeper_and(broken_crew(tmp_path, scale=scale))
    with world(tmp_path, keeper_and(), start_timeout=6.0) as it:
        (tmp_path / "hold-first").touch()
        assert list(it.reload(agents).failed) == ["n1/crew"]
        (tmp_path / "hold-first").unlink()
        wait_until(lambda: "crew" in it.agents(), what="it has started")
        report = it.reload_once_started(agents)

    assert report == ReloadReport(started=("n1/crew",), unchanged=KEPT)


def test_what_has_taken_the_place_of_one_that_hangs_is_told_as_started_though_that_one_still_hangs(tmp_path: Path):
    first, third = (keeper_and(crew(3, kwargs={"folder": str(tmp_path), "word": word})) for word in ("first", "third"))
    with world(tmp_path, keeper_and(), start_timeout=6.0) as it:
        (tmp_path / "hold-first").touch()
        assert list(it.reload(first).failed) == ["n1/crew"]
        assert it.reload(third) == ReloadReport(started=("n1/crew",), unchanged=KEPT)
        assert it.agents() == {"crew-2": "n1", "keeper": "n1"}, "the first name is not free"
        assert it.reload(third) == ReloadReport(unchanged=(*KEPT, "n1/crew"))
        (tmp_path / "hold-first").unlink()
        assert it.reload(third) == ReloadReport(unchanged=(*KEPT, "n1/crew"))


def test_instances_whose_successors_do_not_start_are_told_by_the_name_of_their_agent(tmp_path: Path):
    with world(tmp_path, keeper_and(crew(3, 2))) as it:
        wait_until(lambda: len(it.agents()) == 3, what="all are up")
        (tmp_path / "broken").touch()
        report = it.reload(keeper_and(crew(3, 2, kwargs={"folder": str(tmp_path)})))

    assert report == ReloadReport(unchanged=KEPT, failed={"n1/crew": "RuntimeError: it is broken"})


# -- agents that scale, on another node ----------------------------------------------------------------------------

Fields = dict[str, dict[str, Any]]
AWAY: dict[str, tuple[Fields, Fields]] = {
    "there": ({"n1": {}, "n2": {}}, {"n1": {}, "n2": {}}),
    "renamed": ({"n1": {}}, {"n2": {}}),
    "restarted": ({"n1": {}, "n2": {}}, {"n1": {}, "n2": {"threads": 2}}),
    "gone-and-restarted": ({"n1": {}, "n2": {}}, {"n2": {"threads": 2}}),
    "left-restarted": ({"n1": {}, "n2": {}}, {"n1": {"threads": 2}, "n2": {}}),
}
"""What becomes of the nodes while an agent goes from n1 to n2."""


def nodes_with(agent: AgentSpec, on: str, nodes: Fields) -> list[NodeSpec]:
    return [node(name, *([agent] if name == on else []), **fields) for name, fields in nodes.items()]


def homes(it: World) -> set[str]:
    return set(it.agents().values())


def answering(it: World) -> int:
    """The process that does what is delegated just now."""
    return it.bus.delegate("crew.word", timeout=20).result().unwrap().data["pid"]


@pytest.mark.parametrize(("way", "was_single"), [*((way, False) for way in AWAY), ("there", True), ("restarted", True)])
def test_an_agent_that_scales_goes_from_its_node_once_it_is_up_on_the_other(
    tmp_path: Path, way: str, *, was_single: bool
):
    before, after = AWAY[way]
    scaled = crew(2, kwargs={"folder": str(tmp_path)})
    first = replace(scaled, scale=None, count=2) if was_single else scaled
    with world(tmp_path, *nodes_with(first, "n1", before)) as it:
        shift = Shift(it)
        shift.add(4, until="ended")
        shift.await_runs(2)
        (tmp_path / "hold-first").touch()
        with it.reloading(*nodes_with(scaled, "n2", after)) as reports:
            wait_until(lambda: any(tmp_path.glob("starting-*")), what="it starts on the other node")
            assert homes(it) == {"n1"}
            shift.add(1, until="ended")
            (tmp_path / "hold-first").unlink()
            wait_until(lambda: "n2" in homes(it), what="it is up on the other node")
            shift.add(1, until="ended")
            (tmp_path / "ended").touch()
        answers = [answer["pid"] for answer in shift.answers()]
        pids = it.pids()
        assert answering(it) == pids["n2"]
        assert homes(it) == {"n2"}
        again = it.reload(*nodes_with(scaled, "n2", after))

    assert [path.name for path in tmp_path.glob("starting-*")] == ["starting-crew-3"], "no name is tried that is taken"
    assert len(answers) == 6, "nothing was refused"
    assert reports[0].stopped[-1] == "n1/crew" or reports[0].stopped[-2:] == ("n1/crew", "n1/crew-2")
    assert (reports[0].failed, reports[0].overran) == ({}, ())
    assert again == ReloadReport(unchanged=(*after, "n2/crew"))


@pytest.mark.parametrize(
    ("how", "way"),
    [
        *(("raises", way) for way in AWAY),
        *((how, way) for how in ("no-class", "hangs") for way in ("there", "restarted")),
    ],
)
def test_an_agent_that_scales_goes_on_where_it_is_until_it_is_up_on_the_other_node(tmp_path: Path, how: str, way: str):
    before, after = AWAY[way]
    good = crew(2, kwargs={"folder": str(tmp_path)})
    bad = replace(good, start="tests.runtime.reloaded:Missing") if how == "no-class" else good
    timeout = {"start_timeout": 6.0} if how == "hangs" else {}
    with world(tmp_path, *nodes_with(crew(2), "n1", before), **timeout) as it:
        (tmp_path / {"raises": "broken", "hangs": "hold-first"}.get(how, "none")).touch()
        reports = [it.reload(*nodes_with(bad, "n2", after)) for _ in range(2)]
        shift = Shift(it)
        shift.add(3)
        shift.await_runs(2)
        assert homes(it) == {"n1"}, "it scales where it was"
        shift.answers()
        for name in ("broken", "hold-first"):
            (tmp_path / name).unlink(missing_ok=True)
        if how == "hangs":  # a start that has not ended is told as such
            wait_until(lambda: "n2" in homes(it), what="it has started")
        moved = it.reload_once_started(*nodes_with(good, "n2", after))
        assert homes(it) == {"n2"}
        assert answering(it) == it.pids()["n2"]

    for report in reports:
        [(name, why)] = report.failed.items()
        assert name in {"n2", "n2/crew"}
        assert any(text in why for text in ("it is broken", "has no attribute 'Missing'", "It has not started"))
        assert why.endswith(("Nothing was stopped.", "Nothing was stopped for it."))
        assert report.stopped == ()
        assert "n1/crew" in {*report.unchanged, *report.started} or "n1" in report.restarted
    assert moved.stopped[-1] == "n1/crew"
    assert moved.is_complete


def test_an_agent_that_scales_stays_where_it_is_if_its_node_is_to_be_another_and_does_not_come(tmp_path: Path):
    nobody = (ObserverSpec("tests.runtime.reloaded:Nobody"),)
    with world(tmp_path, node("n1", crew(2)), node("n2")) as it:
        report = it.reload(node("n1"), node("n2", crew(2), observers=nobody))
        assert homes(it) == {"n1"}
        moved = it.reload(node("n1"), node("n2", crew(2), threads=3))
        assert homes(it) == {"n2"}

    assert list(report.failed) == ["n2"]
    assert report.failed["n2"].endswith("Nothing was stopped for it.")
    assert "n1/crew" in report.unchanged
    assert moved.failed == {}
    assert "n2/crew" in moved.started
    assert moved.stopped == ("n1/crew",)


def test_nothing_is_refused_as_an_agent_that_scales_moves_with_the_metrics_of_its_node(tmp_path: Path):
    metrics = free_metrics()
    with world(tmp_path, node("n1", crew(2), metrics=metrics)) as it:
        shift = Shift(it)
        shift.add(4, until="ended")
        shift.await_runs(2)
        with it.reloading(node("n2", crew(2), metrics=metrics)) as reports:
            wait_until(lambda: "n2" in homes(it), what="it has started there")
            shift.add(2)
            (tmp_path / "ended").touch()
        shift.answers()
        assert homes(it) == {"n2"}
        assert scraped(metrics)

    [report] = reports
    assert report.failed == {}
    assert report.stopped == ("n1", "n1/crew")


def test_who_cannot_take_over_the_address_of_metrics_is_told_and_takes_it_when_it_can(tmp_path: Path):
    metrics = free_metrics()
    nobody = (ObserverSpec("tests.runtime.reloaded:Nobody"),)
    with world(tmp_path, node("old", KEEP, metrics=metrics)) as it:
        held = it.reload(node("new", metrics=metrics), node("broken", observers=nobody))
        again = it.reload(node("new", metrics=metrics), node("broken", observers=nobody))
        assert it.agents() == {"keeper": "old"}
        freed = it.reload(node("new", metrics=metrics), node("other", KEEP))
        assert scraped(metrics)

    for report in (held, again):
        assert sorted(report.failed) == ["broken", "new"]
        assert "old has it, and stays; new serves them once that gives it up." in report.failed["new"]
    assert freed.failed == {}


def test_an_agent_that_scales_becomes_a_single_one_on_another_node_and_nothing_is_refused(tmp_path: Path):
    single = AgentSpec(CREW, "crew", kwargs={"folder": str(tmp_path)})
    with world(tmp_path, node("n1", crew(2)), node("n2")) as it:
        shift = Shift(it)
        shift.add(4, until="ended")
        shift.await_runs(2)
        (tmp_path / "hold-first").touch()
        with it.reloading(node("n1"), node("n2", single)) as reports:
            wait_until(lambda: conditions(it)["draining"], what="all but the one that moves end")
            (tmp_path / "ended").touch()
            wait_until(lambda: any(tmp_path.glob("starting-*")), what="it starts on the other node")
            shift.add(1)
            (tmp_path / "hold-first").unlink()
        answers = [answer["pid"] for answer in shift.answers()]
        assert it.agents() == {"crew": "n2"}
        after = it.pids()

    assert answers[-1] == after["n2"]
    assert reports == [ReloadReport(started=("n2/crew",), stopped=("n1/crew",), unchanged=("n1", "n2"))]


def test_nothing_is_refused_or_done_twice_while_an_agent_that_scales_goes_from_node_to_node(tmp_path: Path):
    single = AgentSpec(CREW, "crew", count=2)
    with world(tmp_path, node("n1", crew(2)), node("n2")) as it:
        shift, is_over = Shift(it), threading.Event()
        it.go()

        def delegate() -> None:
            params = {"folder": str(tmp_path), "seconds": 0.02}
            while not is_over.wait(0.01):
                if sum(not handle.done for handle in shift.handles) < 10:
                    shift.handles += [it.bus.delegate("crew.word", params, timeout=60) for _ in range(2)]

        thread = threading.Thread(target=delegate)
        thread.start()
        try:
            for number, nodes in enumerate((
                (node("n1"), node("n2", crew(2))),
                (node("n1", crew(3, 2)), node("n2")),
                (node("n1", threads=2), node("n2", crew(3, 2), threads=2)),
                (node("n1", crew(2), threads=3), node("n2", threads=3)),
                (node("n2", single, threads=3),),
                (node("n2", threads=3), node("n3", crew(2))),
                (node("n3"), node("n4", crew(2))),
                (node("n4"), node("n3", crew(2))),
            )):  # fmt: skip
                done = len(shift.handles)
                report = it.reload(*nodes)
                assert (report.failed, report.overran) == ({}, ()), number
                wait_until(lambda done=done: len(shift.handles) > done + 5 and shift.handles[done + 5].done)  # type: ignore[misc]
        finally:
            is_over.set()
            thread.join()
        shift.answers()
        names = set(it.agents())
        it.cluster.signal("n3", signal.SIGKILL)
        wait_until(lambda: any("n3 is up again" in event for event in it.events), what="it is back")
        assert answering(it) == it.pids()["n3"]

    assert names <= {f"crew-{number}" for number in range(2, 6)} | {"crew"}, "no number is added at each move"


def test_of_two_nodes_that_restart_the_one_to_which_an_agent_that_scales_goes_is_the_first(tmp_path: Path):
    with world(tmp_path, node("n1", crew(2)), node("n2")) as it:
        report = it.reload(node("n1", threads=2), node("n2", crew(2), threads=2))
        restarts = [event.split()[0] for event in it.events if "restarts (threads)" in event]

    assert (report.failed, restarts) == ({}, ["n2", "n1"])


@pytest.mark.parametrize("scale", [None, Scale(max=2)], ids=["single", "scales"])
@pytest.mark.parametrize("goes", [True, False], ids=["its node goes", "its node stays"])
def test_what_waits_for_an_agent_that_is_gone_goes_to_a_new_one_of_a_node_that_restarts(
    tmp_path: Path, scale: Scale | None, *, goes: bool
):
    wanted = [*([] if goes else [node("n1")]), node("n2", AgentSpec(PLAIN, "new", scale=scale), threads=2)]
    with world(tmp_path, node("n1", AgentSpec(KEEPER, "old")), node("n2")) as it:
        handles = [it.begin("old"), *(it.bus.delegate("keep.word", timeout=60) for _ in range(3))]
        with it.reloading(*wanted) as reports:
            wait_until(lambda: any("restarts (threads)" in event for event in it.events), what="the node restarts")
            assert it.condition("old") is not None
        assert all(handle.result(20).ok for handle in handles)
        assert it.agents() == {"new": "n2"}

    went, stayed = ("n1",) if goes else (), () if goes else ("n1",)
    assert reports == [
        ReloadReport(started=("n2/new",), restarted={"n2": "threads"}, stopped=(*went, "n1/old"), unchanged=stayed)
    ]


def test_what_never_was_up_is_new_also_when_its_node_restarts_in_a_later_reload(tmp_path: Path):
    new = AgentSpec(KEEPER, "new", kwargs={"folder": str(tmp_path)}, intensity=0)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", AgentSpec(PLAIN, "old")), node("n2", AgentSpec(LEAVER))) as it:
        first = it.reload(node("n1"), node("n2", AgentSpec(LEAVER), new))
        second = it.reload(node("n1"), node("n2", AgentSpec(LEAVER), new, threads=2))
        assert it.ask()["agent"] == "old"
        (tmp_path / "broken").unlink()
        third = it.reload(node("n1"), node("n2", AgentSpec(LEAVER), new, threads=2))
        assert it.ask()["agent"] == "new"

    assert "Nothing was stopped." in first.failed["n2/new"]
    assert "Nothing was stopped for it." in second.failed["n2/new"]
    assert (third.failed, third.stopped) == ({}, ("n1/old",))


def test_what_never_was_up_on_a_node_that_restarted_is_new_also_for_the_next_restart(tmp_path: Path):
    new = AgentSpec(KEEPER, "new", kwargs={"folder": str(tmp_path)}, intensity=0)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", AgentSpec(PLAIN, "old")), node("n2", AgentSpec(LEAVER))) as it:
        for threads in (2, 3):
            report = it.reload(node("n1"), node("n2", AgentSpec(LEAVER), new, threads=threads))
            assert "Nothing was stopped for it." in report.failed["n2/new"]
            assert report.stopped == ()
            assert it.ask()["agent"] == "old"


def test_what_never_was_up_on_a_node_that_is_gone_from_the_file_is_told_and_is_new_when_it_comes_back(tmp_path: Path):
    new = AgentSpec(KEEPER, "new", kwargs={"folder": str(tmp_path)}, intensity=0)
    nobody = AgentSpec("tests.runtime.reloaded:Nobody")
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", AgentSpec(PLAIN, "old")), node("n2", AgentSpec(LEAVER))) as it:
        it.reload(node("n1", AgentSpec(PLAIN, "old")), node("n2", AgentSpec(LEAVER), new))
        held = it.reload(node("n1", AgentSpec(PLAIN, "old"), new), node("n3", nobody))
        assert held.failed["n2/new"].endswith("It was not moved.")
        back = it.reload(node("n1"), node("n2", AgentSpec(LEAVER), new, threads=2))
        assert back.failed["n2/new"].endswith("Nothing was stopped for it.")
        assert back.stopped == ()
        assert it.ask()["agent"] == "old"


def test_what_never_was_up_keeps_what_is_gone_also_when_it_moves(tmp_path: Path):
    new = AgentSpec(KEEPER, "new", kwargs={"folder": str(tmp_path)}, intensity=0)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1"), node("n2", AgentSpec(PLAIN, "old"))) as it:
        it.reload(node("n1"), node("n2", AgentSpec(PLAIN, "old"), new))
        report = it.reload(node("n1", new), node("n2"))
        assert "Nothing was stopped for it." in report.failed["n1/new"]
        assert it.agents() == {"old": "n2"}
        (tmp_path / "broken").unlink()
        assert it.reload(node("n1", new), node("n2")).stopped == ("n2/old",)
        assert it.agents() == {"new": "n1"}


def test_what_never_was_up_keeps_what_is_gone_also_when_it_moves_to_a_node_that_restarts(tmp_path: Path):
    new = AgentSpec(KEEPER, "new", kwargs={"folder": str(tmp_path)}, intensity=0)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1"), node("n2", AgentSpec(PLAIN, "old"))) as it:
        it.reload(node("n1"), node("n2", AgentSpec(PLAIN, "old"), new))
        report = it.reload(node("n1", new, threads=2), node("n2"))
        assert "Nothing was stopped for it." in report.failed["n1/new"]
        assert it.agents() == {"old": "n2"}
        (tmp_path / "broken").unlink()
        assert it.reload(node("n1", new, threads=2), node("n2")).stopped == ("n2/old",)
        assert it.agents() == {"new": "n1"}


def test_a_node_that_is_gone_ends_once_its_agents_have_moved_to_one_that_restarts(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN))) as it:
        report = it.reload(node("n2", AgentSpec(PLAIN), KEEP, threads=2))
        assert report.stopped == ("n1", "n1/keeper")
        assert set(it.pids()) == {"broker", "n2"}
        assert it.agents() == {"keeper": "n2", "plain": "n2"}


def test_what_has_come_up_by_itself_on_a_node_that_is_kept_is_not_told_as_failed(tmp_path: Path):
    slow = AgentSpec(CREW, "slow", kwargs={"folder": str(tmp_path)})
    nobody = AgentSpec("tests.runtime.reloaded:Nobody")
    (tmp_path / "hold-slow").touch()
    with world(tmp_path, node("n1"), node("n2"), start_timeout=3.0) as it:
        assert list(it.reload(node("n1"), node("n2", slow)).failed) == ["n2/slow"]
        (tmp_path / "hold-slow").unlink()
        wait_until(lambda: it.condition("slow") == "up", what="it is up")
        held = it.reload(node("n1", slow), node("n3", nobody))
        assert list(held.failed) == ["n3/nobody"]
        assert it.agents() == {"slow": "n2"}


def test_an_agent_moves_while_another_node_still_restarts(tmp_path: Path):
    slow = AgentSpec(CREW, kwargs={"folder": str(tmp_path)})
    with world(tmp_path, node("n1", KEEP), node("n2"), node("n3", slow)) as it:
        (tmp_path / "hold-crew").touch()
        with it.reloading(node("n1"), node("n2", KEEP), node("n3", slow, threads=2)) as done:
            wait_until((tmp_path / "starting-crew").exists, what="n3 restarts")
            assert it.ask("keeper")["agent"] == "keeper"
            assert it.agents()["keeper"] == "n2"
            assert done == []
            (tmp_path / "hold-crew").unlink()
        assert done[0].failed == {}


def test_fewer_of_a_count_stay_while_another_node_does_not_restart(tmp_path: Path):
    bad = (ObserverSpec("tests.runtime.reloaded:Nothing"),)
    crew = AgentSpec(CREW, count=2)
    with world(tmp_path, node("n1", crew), node("n2", AgentSpec(PLAIN)), node("n3")) as it:
        report = it.reload(node("n1", AgentSpec(CREW)), node("n2"), node("n3", observers=bad))
        assert report.failed["n3"].endswith("Nothing was stopped for it.")
        assert report.stopped == ()
        assert it.agents() == {"crew": "n1", "crew-2": "n1", "plain": "n2"}
        assert it.reload(node("n1", AgentSpec(CREW)), node("n2"), node("n3")).stopped == ("n1/crew-2", "n2/plain")


def test_what_waits_for_an_agent_that_its_restarted_node_has_as_an_instance_is_done_by_those_that_come(tmp_path: Path):
    agent = AgentSpec("tests.runtime.reloaded:Alpha", "a", kwargs={"folder": str(tmp_path)})
    runs = tmp_path / "runs"
    with world(tmp_path, node("n1", replace(agent, count=2)), drain=20.0) as it:
        handles = [it.bus.delegate("noted.alpha", {"seconds": 0.6}, timeout=14.0) for _ in range(4)]
        wait_until(lambda: runs.exists() and len(runs.read_text().splitlines()) == 2, what="two run")
        report = it.reload(node("n1", replace(agent, scale=Scale(min=1, max=2)), threads=2))
        assert report.failed == {}
        assert [handle.result(30.0).status for handle in handles] == [Status.COMPLETED] * 4


def test_nothing_is_stopped_if_what_is_new_takes_its_process_down(tmp_path: Path):
    new = AgentSpec(KEEPER, "new", kwargs={"folder": str(tmp_path)})
    (tmp_path / "fatal").touch()
    with world(tmp_path, node("n1", AgentSpec(LEAVER)), node("n2", AgentSpec(PLAIN, "old"))) as it:
        report = it.reload(node("n1", AgentSpec(LEAVER), new), node("n2"))
        assert report.failed["n1"].endswith("Nothing was stopped.")
        assert report.stopped == ()
        assert it.ask()["agent"] == "old"


@pytest.mark.parametrize("scale", [None, Scale(min=2, max=2)])
@pytest.mark.parametrize("names", [(None, None), ("crew", "crew-2")])
def test_of_two_agents_that_move_one_waits_for_a_node_that_does_not_restart(
    tmp_path: Path, names: tuple[str | None, str | None], scale: Scale | None
):
    bad = (ObserverSpec("tests.runtime.reloaded:Nothing"),)
    first, second = (AgentSpec(CREW, name) for name in names)
    crew = AgentSpec(CREW, names[0], count=1 if scale else 2, scale=scale)
    with world(tmp_path, node("n1"), node("n2", crew), node("n3")) as it:
        report = it.reload(node("n1", first, observers=bad), node("n2"), node("n3", second))
        assert list(report.failed) == ["n1"]
        moved = {} if scale else {"crew-2": "n3"}
        assert it.agents() == {"crew": "n2", "crew-2": "n2"} | moved
        assert it.reload(node("n1", first), node("n2"), node("n3", second)).failed == {}
        assert it.agents() == {"crew": "n1", "crew-2": "n3"}


def test_an_agent_that_is_gone_and_whose_class_is_too_does_not_keep_its_node_from_coming_back(
    tmp_path: Path, shop: Path
):
    with world(tmp_path, node("n1", AgentSpec("shop:Till"))) as it:
        shop.write_text(
            TILL.replace("Till(", "Kiosk(")
        )  # of another size: else what was compiled of it may count still
        report = it.reload(node("n1", AgentSpec("shop:Kiosk"), threads=2))
        assert it.agents() == {"kiosk": "n1"}

    assert report == ReloadReport(started=("n1/kiosk",), restarted={"n1": "threads"}, stopped=("n1/till",))


# -- nodes -------------------------------------------------------------------------------------------------------


def test_nodes_come_and_go(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(KEEPER, "old"))) as it:
        before, works, gone = it.pids(), it.begin("keeper"), it.begin("old")
        with it.reloading(node("n1", KEEP), node("n3", AgentSpec(PLAIN, "new"))) as reports:
            wait_until(lambda: "new" in it.agents(), what="the new node is up")
            assert it.ask("new")["word"] == "plain"
        assert gone.result(10).unwrap().data["pid"] == before["n2"]
        assert works.result(10).unwrap().data["pid"] == before["n1"]
        after = it.pids()

    assert list(after) == ["broker", "n1", "n3"]
    assert (after["n1"], after["broker"]) == (before["n1"], before["broker"])
    assert reports == [
        ReloadReport(started=("n3", "n3/new"), stopped=("n2", "n2/old"), unchanged=("n1", "n1/keeper")),
    ]
    assert "n2 has ended (exit code 0)" in it.events


@pytest.mark.parametrize("field", ["threads", "observers", "metrics"])
def test_a_node_whose_process_must_be_another_is_restarted_alone_and_keeps_what_waits(tmp_path: Path, field: str):
    value = {"threads": 2, "observers": (ObserverSpec("ether.observers:Log"),), "metrics": MetricsSpec(port=0)}[field]
    with world(tmp_path, node("n1", KEEP), node("n2", KEEP)) as it:
        before = it.pids()
        assert it.ask("keeper")["total"] == 1
        works = it.begin("keeper")
        waits = it.bus.delegate("keep.word", to="keeper", timeout=20)
        with it.reloading(node("n1", KEEP, **{field: value}), node("n2", KEEP)) as reports:
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
        first, then = works.result(10).unwrap().data, waits.result(10).unwrap().data
        after = it.pids()
        restarts = {entry.name: entry.restarts for entry in it.cluster.statistics()}
        told = [event.partition(" (pid")[0] for event in it.events if event.startswith("n1 ")]

    assert told == ["n1 is up", f"n1 restarts ({field})", "n1 has ended (exit code 0)", "n1 is up"]
    assert (first["pid"], first["total"], first["attempt"]) == (before["n1"], 2, 1)
    assert (then["pid"], then["total"], then["attempt"]) == (after["n1"], 3, 1)
    assert after["n1"] != before["n1"]
    assert {**after, "n1": None} == {**before, "n1": None}
    assert restarts == {"broker": 0, "n1": 0, "n2": 0}
    assert reports == [ReloadReport(restarted={"n1": field}, unchanged=("n2", "n2/keeper-2"))]


def test_an_agent_that_is_gone_does_the_work_of_its_like_while_their_node_restarts(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN, "extra"))) as it:
        works = it.begin("keeper")
        with it.reloading(node("n1", KEEP, threads=2)) as reports:
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
            assert it.ask()["agent"] == "extra"
        assert works.result(10).ok
        assert it.ask()["agent"] == "keeper"

    assert reports == [ReloadReport(restarted={"n1": "threads"}, stopped=("n2", "n2/extra"))]


@pytest.mark.parametrize(
    ("spec", "fields"), [(KEEPER, {"intensity": 1_000, "backoff": Backoff(30.0)}), (CREW, {"scale": Scale(min=2, max=3)})]
)  # fmt: skip
def test_what_did_not_start_again_is_tried_and_told_by_each_reload_until_it_is_up(
    tmp_path: Path, spec: str, fields: dict[str, Any]
):  # fmt: skip
    def agent(word: str) -> AgentSpec:
        return AgentSpec(spec, "a", kwargs={"folder": str(tmp_path), "word": word}, **fields)

    with world(tmp_path, node("n1", agent("first"))) as it:
        (tmp_path / "broken").touch()
        failing = [it.reload(node("n1", agent("second"))) for _ in range(3)]
        (tmp_path / "broken").unlink()
        repaired, again = it.reload(node("n1", agent("second"))), it.reload(node("n1", agent("second")))
        assert "a" in it.agents(), "at once, whatever its backoff is"
        tries = "".join(it.output).count("a did not start: it is broken")

    assert all("it is broken" in report.failed["n1/a"] for report in failing)
    assert not any(report.stopped for report in failing)
    assert "scale" in fields or tries == 2 * len(failing), "each tries once; its node and its restarts say so"
    assert (repaired.failed, repaired.started) == ({}, ("n1/a",))
    assert again == ReloadReport(unchanged=("n1", "n1/a"))


def test_one_that_comes_up_during_a_reload_is_not_told_as_failed(tmp_path: Path):
    held, other = (tmp_path / f"hold-{name}" for name in ("late", "new"))
    agents = [AgentSpec(CREW, name, kwargs={"folder": str(tmp_path)}) for name in ("late", "new")]
    with world(tmp_path, node("n1", KEEP), start_timeout=2.0) as it:
        held.touch()
        first = it.reload(node("n1", KEEP, agents[0]))
        other.touch()
        with it.reloading(node("n1", KEEP, *agents)) as reports:
            wait_until((tmp_path / "starting-new").exists, what="the other one starts")
            held.unlink()
            wait_until(lambda: it.condition("late") == "up", what="the first one is up")
            other.unlink()
        again = it.reload_once_started(node("n1", KEEP, *agents))

    assert first.failed.keys() == {"n1/late"}
    assert {*reports[0].started, *again.started} == {"n1/late", "n1/new"}
    assert reports[0].failed.keys() <= {"n1/new"}, "which may not be quite up when its time is over"
    assert again.failed == {}


@pytest.mark.parametrize("source", ["goes on", "restarts", "is gone"])
def test_what_moves_to_a_node_that_does_not_start_again_goes_on_where_it_was(tmp_path: Path, source: str):
    bad = (ObserverSpec("tests.runtime.reloaded:Nothing"),)
    moves = AgentSpec(KEEPER, "moves")
    left = {
        "goes on": [node("n1", AgentSpec(PLAIN))],
        "restarts": [node("n1", AgentSpec(PLAIN), threads=2)],
        "is gone": [],
    }[source]
    with world(tmp_path, node("n1", AgentSpec(PLAIN), moves), node("n2", AgentSpec(PLAIN, "stays"))) as it:
        assert it.ask("moves")["total"] == 1
        reports = [it.reload(*left, node("n2", AgentSpec(PLAIN, "stays"), moves, observers=bad)) for _ in range(2)]
        assert it.agents()["moves"] == "n1"
        assert it.ask("moves")["total"] == 2
        moved = it.reload(*left, node("n2", AgentSpec(PLAIN, "stays"), moves, threads=2))
        assert it.agents()["moves"] == "n2"
        assert it.ask("moves")["total"] == 3

    for report in reports:
        assert report.failed.keys() == {"n2"}
        assert report.failed["n2"].endswith("Nothing was stopped for it.")
        assert "n1/moves" not in report.stopped
    assert moved.failed == {}
    assert "n2/moves" in moved.started


def test_nothing_moves_to_a_node_that_restarts_unless_all_have_that_do(tmp_path: Path):
    bad = (ObserverSpec("tests.runtime.reloaded:Nothing"),)
    one, two, plain = AgentSpec(KEEPER, "one"), AgentSpec(KEEPER, "two"), AgentSpec(PLAIN)
    with world(tmp_path, node("n1", plain, one, two), node("n2", plain), node("n3", plain)) as it:
        to_fails = it.reload(
            node("n1", plain), node("n2", plain, one, threads=2), node("n3", plain, two, observers=bad)
        )
        assert {it.agents()["one"], it.agents()["two"]} == {"n1"}
        from_fails = it.reload(
            node("n1", plain, observers=bad), node("n2", plain, one, threads=4), node("n3", plain, two)
        )
        assert it.agents()["one"] == "n1"
        assert [it.ask(name)["total"] for name in ("one", "two")] == [1, 1]
        moved = it.reload(node("n1", plain), node("n2", plain, one, threads=2), node("n3", plain, two))
        assert (it.agents()["one"], it.agents()["two"]) == ("n2", "n3")

    assert to_fails.failed.keys() == {"n3"}
    assert from_fails.failed.keys() == {"n1"}
    assert moved.failed == {}


def test_what_is_gone_stays_if_a_node_that_restarts_is_not_what_it_was_to_be(tmp_path: Path):
    bad = (ObserverSpec("tests.runtime.reloaded:Nothing"),)
    with world(tmp_path, node("n1", AgentSpec(PLAIN, "last")), node("n2", AgentSpec(SLEEPER, "a"))) as it:
        report = it.reload(node("n2", AgentSpec(PLAIN, "a"), observers=bad))
        assert it.ask()["agent"] == "last"
        repaired = it.reload(node("n2", AgentSpec(PLAIN, "a"), threads=2))
        assert it.ask()["agent"] == "a"

    assert report.failed["n2"].endswith("Nothing was stopped for it.")
    assert report.stopped == ()
    assert repaired.stopped == ("n1", "n1/last")


def test_instances_become_agents_of_two_nodes_that_restart(tmp_path: Path):
    scales = AgentSpec(CREW, scale=Scale(min=2, max=3))
    with world(tmp_path, node("n1", scales), node("n2", AgentSpec(PLAIN))) as it:
        wait_until(lambda: {"crew", "crew-2"} <= it.agents().keys(), what="both instances are up")
        changed = (
            node("n1", AgentSpec(CREW), threads=2),
            node("n2", AgentSpec(PLAIN), AgentSpec(CREW, count=2), threads=2),
        )
        reports = [it.reload(*changed) for _ in range(2)]
        assert it.agents() == {"crew": "n1", "crew-2": "n2", "crew-3": "n2", "plain": "n2"}

    assert [report.failed for report in reports] == [{}, {}]
    assert reports[1] == ReloadReport(unchanged=reports[1].unchanged)


def test_of_agents_of_one_entry_one_moves_while_both_nodes_restart(tmp_path: Path):
    with world(tmp_path, node("n1", AgentSpec(KEEPER, "a", count=2)), node("n2", AgentSpec(PLAIN))) as it:
        assert it.agents().keys() >= {"a", "a-2"}
        works = it.begin("a-2")
        waits = it.bus.delegate("keep.word", to="a-2", timeout=30)
        with it.reloading(
            node("n1", AgentSpec(KEEPER, "a"), threads=2),
            node("n2", AgentSpec(PLAIN), AgentSpec(KEEPER, "a-2"), threads=2),
        ) as reports:
            wait_until(lambda: it.condition("a-2") == "restarting", what="it drains")
        assert [handle.result(20).unwrap().data["total"] for handle in (works, waits)] == [1, 2]
        assert {name: home for name, home in it.agents().items() if name != "plain"} == {"a": "n1", "a-2": "n2"}

    assert reports[0].failed == {}


def test_a_node_that_dies_afterwards_comes_back_with_what_the_reload_gave_it(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        it.reload(node("n1", replace(KEEP, args=("second",)), AgentSpec(PLAIN, "new")))
        it.cluster.signal("n1", signal.SIGKILL)
        wait_until(lambda: any("n1 is up again" in event for event in it.events), what="it is back")
        assert it.ask("keeper")["word"] == "second"
        assert it.agents() == {"keeper": "n1", "new": "n1"}
        assert it.reload(node("n1", replace(KEEP, args=("second",)))).stopped == ("n1/new",)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_node_that_ends_while_it_is_reloaded_comes_back_with_what_is_wanted(tmp_path: Path, number: int):
    with world(tmp_path, node("n1", KEEP)) as it:
        it.begin("keeper")
        with it.reloading(node("n1", replace(KEEP, args=("second",)))) as reports:
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
            it.cluster.signal("n1", number)
        wait_until(lambda: it.condition("keeper") == "up", what="the node is back")
        assert it.ask("keeper")["word"] == "second"

    assert reports[0].failed == {}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_node_that_ends_as_it_is_to_restart_has_restarted(tmp_path: Path, number: int):
    with world(tmp_path, node("n1", KEEP)) as it:
        it.begin("keeper")
        with it.reloading(node("n1", KEEP, threads=2)) as reports:
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
            it.cluster.signal("n1", number)
        wait_until(lambda: it.condition("keeper") == "up", what="the node is back")
        assert it.ask("keeper")["word"] == "first"

    assert reports == [ReloadReport(restarted={"n1": "threads"}, unchanged=())]


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, 0.0), ([1], [True]), ({"a": {"b": 0}}, {"a": {"b": False}})])
def test_an_argument_of_another_type_is_another(old: Any, new: Any):
    was, now = (AgentSpec(KEEPER, kwargs={"word": word}) for word in (old, new))
    assert changed_fields(was, now) == ["kwargs"]
    assert changed_fields(was, replace(now, kwargs={"word": old})) == []


# -- with a journal, keys, an access list ------------------------------------------------------------------------


def test_a_reload_with_a_journal_loses_nothing_though_the_broker_dies_after_it(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), journal=str(tmp_path / "bus.db")) as it:
        works = it.begin("keeper")
        waits = [it.bus.delegate("keep.word", to="keeper", timeout=60) for _ in range(3)]
        with it.reloading(node("n1", replace(KEEP, args=("second",)))):
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
            it.cluster.signal("broker", signal.SIGKILL)
            wait_until(lambda: any("broker is up again" in event for event in it.events), what="the broker is back")
        answers = [handle.result(20).unwrap().data for handle in (works, *waits)]

    assert [answer["word"] for answer in answers] == ["first", "second", "second", "second"]
    assert [answer["total"] for answer in answers] == [1, 2, 3, 4]


def test_new_nodes_and_agents_get_in_where_there_are_keys_and_an_access_list(tmp_path: Path):
    office = Keyring.create(tmp_path / "office", "office")
    access = Access(delegate=[DelegateRule("*")], read=["*"])
    events: list[str] = []
    spec = ClusterSpec(
        (node("n1", KEEP),), bind="tcp://127.0.0.1:*", keys=office.folder, access=access, drain=5.0
    )  # fmt: skip
    with (
        Cluster(spec, on_event=events.append, on_output=lambda *_: None) as cluster,
        Runtime.connect(cluster.url, keys=office) as bus,
    ):
        watch = (ObserverSpec("ether.observers:Log"),)
        nodes = (node("n1", KEEP, AgentSpec(PLAIN, "new")), node("n2", AgentSpec(PLAIN, "far"), observers=watch))
        report = cluster.reload(replace(spec, nodes=nodes))
        answers = [bus.delegate("keep.word", to=name, timeout=20).result().unwrap().data for name in ("new", "far")]
        cluster.signal("broker", signal.SIGKILL)
        wait_until(lambda: any("broker is up again" in event for event in events), what="the broker is back")
        wait_until(lambda: bus.delegate("keep.word", to="far", timeout=5).result().ok, timeout=20)
        cluster.reload(spec)
        names = {entry["agent"] for entry in bus.agents() if entry["condition"] == "up"}

    assert report.started == ("n2", "n1/new", "n2/far")
    assert [answer["agent"] for answer in answers] == ["new", "far"]
    assert names == {"keeper"}


# -- what goes wrong ---------------------------------------------------------------------------------------------


def test_what_belongs_to_the_whole_cluster_is_refused_with_each_key_and_nothing_is_done(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        before = it.pids()
        with pytest.raises(InvalidSpec) as refused:
            it.reload(
                node("n9", KEEP), bind="tcp://127.0.0.1:7999", limits=Limits(window=3), timing=Timing(silence=9.0),
                journal="x.db", access=Access(), drain=1.0, log_level="debug",
            )  # fmt: skip
        assert it.pids() == before
        assert it.cluster.spec.nodes == (node("n1", KEEP),)
        assert it.agents() == {"keeper": "n1"}

    for key in (
        "cluster.bind (", "limits.window (128, now 3)", "timing.silence (3.0, now 9.0)", "cluster.journal or", "access, ",
        "cluster.drain (", "cluster.log_level (",
    ):  # fmt: skip
        assert key in str(refused.value)
    assert "Nothing was changed" in str(refused.value)


def test_an_agent_that_does_not_start_is_told_and_goes_on_by_its_own_rule(tmp_path: Path):
    kwargs = {"folder": str(tmp_path)}
    soon = Backoff(initial=0.05, factor=1.0, jitter=0.0)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", KEEP, AgentSpec(PLAIN, "neighbour"))) as it:
        waits = it.begin("keeper")
        it.go()
        waits.result(10).unwrap()
        changed = AgentSpec(KEEPER, kwargs=kwargs, intensity=100_000, backoff=soon)
        new = AgentSpec(KEEPER, "new", kwargs=kwargs, intensity=100_000, backoff=soon)
        report = it.reload(node("n1", changed, new, AgentSpec(PLAIN, "neighbour")))
        handle = it.bus.delegate("keep.word", to="keeper", timeout=20)
        assert it.ask("neighbour")["word"] == "plain"
        (tmp_path / "broken").unlink()
        assert handle.result(20).unwrap().data["total"] == 2
        wait_until(lambda: set(it.agents()) == {"keeper", "new", "neighbour"}, what="they start in the end")

    assert report == ReloadReport(
        unchanged=("n1", "n1/neighbour"),
        failed={"n1/new": "RuntimeError: it is broken", "n1/keeper": "RuntimeError: it is broken"},
    )
    assert not report.is_complete


def test_a_node_that_does_not_start_takes_nothing_down_and_is_tried_by_the_next_reload(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        works = it.begin("keeper")
        bad = node("n2", AgentSpec(PLAIN), observers=(ObserverSpec("tests.runtime.reloaded:Nobody"),))
        report = it.reload(node("n1", KEEP), bad)
        assert list(it.pids()) == ["broker", "n1"]
        assert it.cluster.failed is None
        again = it.reload(node("n1", KEEP), node("n2", AgentSpec(PLAIN)))
        assert it.agents() == {"keeper": "n1", "plain": "n2"}
        it.go()
        assert works.result(10).ok

    assert report.unchanged == ("n1", "n1/keeper")
    assert list(report.failed) == ["n2"]
    assert "tests.runtime.reloaded:Nobody" in report.failed["n2"]
    assert again.started == ("n2", "n2/plain")


def test_an_agent_that_takes_its_process_down_as_it_starts_is_told_and_the_node_goes_on_as_it_was(tmp_path: Path):
    fatal = AgentSpec(KEEPER, "fatal", kwargs={"folder": str(tmp_path)})
    (tmp_path / "fatal").touch()
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN, "far")), intensity=3) as it:
        before = it.pids()
        assert it.ask("keeper")["total"] == 1
        report = it.reload(node("n1", replace(KEEP, args=("second",)), fatal), node("n2", AgentSpec(PLAIN, "far")))
        wait_until(lambda: sum("n1 is up again" in event for event in it.events) == 2, what="the node is back")
        answer = it.ask("keeper")
        assert (answer["word"], answer["total"]) == ("first", 2)
        assert it.cluster.failed is None
        assert it.agents() == {"keeper": "n1", "far": "n2"}
        again = it.reload(node("n1", replace(KEEP, args=("second",))), node("n2", AgentSpec(PLAIN, "far")))
        assert it.ask("keeper")["word"] == "second"
        assert it.pids()["n2"] == before["n2"]

    assert report.unchanged == ("n2", "n2/far")
    assert list(report.failed) == ["n1"]
    assert "went down before it had answered: exit code 3" in report.failed["n1"]
    assert again == ReloadReport(restarted={"n1/keeper": "args"}, unchanged=("n1", "n2", "n2/far"))


@pytest.mark.parametrize("is_down", [False, True])
def test_reloads_whose_agent_takes_its_process_down_do_not_count_towards_the_end_of_the_cluster(
    tmp_path: Path, is_down: bool
):
    fatal = AgentSpec(KEEPER, "fatal", kwargs={"folder": str(tmp_path)})
    (tmp_path / "fatal").touch()
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN, "far")), intensity=1) as it:
        before = it.pids()
        if is_down:
            it.cluster.signal("n1", signal.SIGKILL)
            wait_until(lambda: any("n1 went down" in event for event in it.events), what="it is between two lives")
        for _ in range(3):
            report = it.reload(node("n1", KEEP, fatal), node("n2", AgentSpec(PLAIN, "far")))
            assert list(report.failed) == ["n1"]
        wait_until(lambda: it.agents() == {"keeper": "n1", "far": "n2"}, what="it is back as it was")
        assert it.cluster.failed is None
        assert {**it.pids(), "n1": None} == {**before, "n1": None}


def test_what_is_not_started_again_by_itself_is_tried_by_the_next_reload(tmp_path: Path):
    once = AgentSpec(KEEPER, "once", kwargs={"folder": str(tmp_path)}, restart=Restart.TEMPORARY)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", KEEP)) as it:
        assert list(it.reload(node("n1", KEEP, once)).failed) == ["n1/once"]
        assert list(it.reload(node("n1", KEEP, once)).failed) == ["n1/once"]
        (tmp_path / "broken").unlink()
        assert it.reload(node("n1", KEEP, once)) == ReloadReport(
            started=("n1/once",), unchanged=("n1", "n1/keeper")
        )  # fmt: skip
        assert it.ask("once")["word"] == "first"


def test_what_fails_after_the_reload_has_told_that_it_goes_on_is_tried_by_the_next_one(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), start_timeout=6.0) as it:
        once = replace(held_crew(it, "once", "first"), restart=Restart.TEMPORARY)
        (tmp_path / "hold-first").touch()
        (tmp_path / "broken").touch()
        late = it.reload(node("n1", KEEP, once)).failed
        (tmp_path / "hold-first").unlink()
        wait_until(
            lambda: (
                it.reload(node("n1", KEEP, once)).failed
                == {"n1/once": "RuntimeError: it is broken. It is not running."}
            ),
            what="it is tried again",
        )
        (tmp_path / "broken").unlink()
        report = it.reload(node("n1", KEEP, once))

    assert late == {"n1/once": "It has not started after 6 s, and goes on starting."}
    assert report == ReloadReport(started=("n1/once",), unchanged=("n1", "n1/keeper"))


def test_an_agent_that_leaves_by_itself_meanwhile_is_started_as_it_is_to_be(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP, AgentSpec(LEAVER, "it"))) as it:
        held = AgentSpec(CREW, "held", kwargs={"folder": str(tmp_path)})
        (tmp_path / "hold-first").touch()
        changed = AgentSpec(LEAVER, "it", kwargs={"word": "second"})
        with it.reloading(node("n1", replace(KEEP, args=("second",)), changed, held)) as reports:
            wait_until((tmp_path / "starting-held").exists, what="what is new starts first")
            it.bus.delegate("leave.now", to="it", timeout=20).result().unwrap()
            wait_until(lambda: it.condition("it") is None, what="it has left")
            (tmp_path / "hold-first").unlink()
        assert it.bus.delegate("leave.word", to="it", timeout=20).result().unwrap().data == "second"
        assert it.ask("keeper")["word"] == "second"

    assert reports == [
        ReloadReport(
            started=("n1/held",), restarted={"n1/keeper": "args", "n1/it": "kwargs"}, unchanged=("n1",)
        )
    ]  # fmt: skip


def held_crew(it: World, name: str, word: str) -> AgentSpec:
    return AgentSpec(CREW, name, kwargs={"word": word, "folder": str(it.folder)})


@pytest.mark.parametrize(("word", "fields"), [("first", {}), ("third", {"threads": 2})])
def test_a_changed_agent_that_hangs_as_it_starts_keeps_no_other_away_and_what_waits_for_it_is_kept(
    tmp_path: Path, word: str, fields: dict[str, Any]
):
    with world(tmp_path, node("n1", AgentSpec(CREW, "a"), AgentSpec(CREW, "b"), KEEP), start_timeout=6.0) as it:
        (tmp_path / "hold-second").touch()
        report = it.reload(node("n1", held_crew(it, "a", "second"), held_crew(it, "b", "third"), KEEP))
        waits = [it.bus.delegate("crew.word", to="a", timeout=60) for _ in range(3)]
        assert it.bus.delegate("crew.word", to="b", timeout=20).result().unwrap().data["word"] == "third"
        again = it.reload(node("n1", held_crew(it, "a", word), held_crew(it, "b", "third"), KEEP, **fields))
        answers = [handle.result(20).unwrap().data for handle in waits]
        (tmp_path / "hold-second").unlink()
        assert it.bus.delegate("crew.word", to="a", timeout=20).result().unwrap().data["word"] == word

    assert report == ReloadReport(
        restarted={"n1/b": "kwargs"}, unchanged=("n1", "n1/keeper"),
        failed={"n1/a": "It has not started after 6 s, and goes on starting."},
    )  # fmt: skip
    assert [(answer["word"], answer["attempt"]) for answer in answers] == [(word, 1)] * 3
    assert again.failed == {}
    assert again.restarted["n1/a"] == "kwargs"


def test_agents_that_change_start_side_by_side(tmp_path: Path):
    with world(tmp_path, node("n1", AgentSpec(CREW, "crew", count=3))) as it:
        (tmp_path / "hold-second").touch()
        with it.reloading(node("n1", replace(held_crew(it, "crew", "second"), count=3))) as reports:
            for name in ("crew", "crew-2", "crew-3"):
                wait_until((tmp_path / f"starting-{name}").exists, what=f"{name} starts")
            (tmp_path / "hold-second").unlink()

    assert reports[0].restarted == dict.fromkeys(("n1/crew", "n1/crew-2", "n1/crew-3"), "kwargs")


def test_new_agents_that_hang_have_one_patience_and_until_they_are_there_nothing_is_stopped(tmp_path: Path):
    with world(tmp_path, node("n1", AgentSpec(PLAIN, "gone")), start_timeout=6.0) as it:
        (tmp_path / "hold-first").touch()
        hung = [held_crew(it, name, "first") for name in ("h1", "h2", "h3")]
        nodes = node("n1", *hung, AgentSpec(PLAIN, "good"))
        report = it.reload(nodes)
        assert it.agents() == {"good": "n1", "gone": "n1"}
        again = it.reload(nodes)
        assert it.agents() == {"good": "n1", "gone": "n1"}
        (tmp_path / "hold-first").unlink()
        wait_until(lambda: it.reload(nodes).is_complete, what="they start in the end")
        assert set(it.agents()) == {"good", "h1", "h2", "h3"}
        last = it.reload(nodes)

    assert report == ReloadReport(
        started=("n1/good",), unchanged=("n1", "n1/gone"),
        failed=dict.fromkeys(
            ("n1/h1", "n1/h2", "n1/h3"), "It has not started after 6 s, and goes on starting. Nothing was stopped."
        ),
    )  # fmt: skip
    again_failed = "It has not started yet, and goes on starting. Nothing was stopped."
    assert again.failed == dict.fromkeys(report.failed, again_failed)
    assert last == ReloadReport(unchanged=("n1", "n1/h1", "n1/h2", "n1/h3", "n1/good"))


def test_a_count_that_is_lowered_while_its_agents_start_keeps_those_that_go_from_coming(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), start_timeout=6.0) as it:
        (tmp_path / "hold-first").touch()
        three = replace(held_crew(it, "crew", "first"), count=3)
        assert list(it.reload(node("n1", KEEP, three)).failed) == ["n1/crew", "n1/crew-2", "n1/crew-3"]
        fewer = it.reload(node("n1", KEEP, replace(three, count=2)))
        (tmp_path / "hold-first").unlink()
        wait_until(lambda: set(it.agents()) >= {"keeper", "crew", "crew-2"}, what="those that stay have started")
        assert set(it.agents()) == {"keeper", "crew", "crew-2"}
        assert it.reload(node("n1", KEEP)).stopped == ("n1/crew", "n1/crew-2")
        assert set(it.agents()) == {"keeper"}

    assert fewer.stopped == ("n1/crew-3",)
    assert list(fewer.failed) == ["n1/crew", "n1/crew-2"]


def test_an_agent_stays_where_it_is_if_the_node_to_which_it_is_to_move_does_not_start(tmp_path: Path):
    nobody = (ObserverSpec("tests.runtime.reloaded:Nobody"),)
    moved, far = AgentSpec(KEEPER, "it"), AgentSpec(PLAIN, "far")
    with world(tmp_path, node("n1", moved, KEEP), node("n2", far)) as it:
        before, works = it.pids(), it.begin("it")
        report = it.reload(node("n1", KEEP), node("n8", moved, observers=nobody), node("n9", far, observers=nobody))
        assert it.agents() == {"it": "n1", "keeper": "n1", "far": "n2"}
        assert it.pids() == before
        it.go()
        assert works.result(10).ok
        again = it.reload(node("n1", KEEP), node("n8", moved), node("n9", far))
        assert it.agents() == {"it": "n8", "keeper": "n1", "far": "n9"}

    assert sorted(report.failed) == ["n8", "n9"]
    assert report.stopped == ()
    assert again.stopped == ("n2", "n1/it", "n2/far")
    assert again.failed == {}


def test_a_metrics_address_moves_to_a_node_that_is_new_or_stands_before(tmp_path: Path):
    metrics = free_metrics()
    with world(tmp_path, node("n2", KEEP), node("old", AgentSpec(PLAIN, "far"), metrics=metrics)) as it:
        renamed = it.reload(node("n2", KEEP), node("new", AgentSpec(PLAIN, "far"), metrics=metrics))
        assert it.agents() == {"keeper": "n2", "far": "new"}
        assert scraped(metrics)
        moved = it.reload(node("n2", KEEP, metrics=metrics), node("new", AgentSpec(PLAIN, "far")))
        assert scraped(metrics)

    assert (renamed.started, renamed.stopped, renamed.failed) == (("new", "new/far"), ("old", "old/far"), {})
    assert moved == ReloadReport(restarted={"n2": "metrics", "new": "metrics"})


def test_two_nodes_exchange_their_metrics_addresses(tmp_path: Path):
    first, second = free_metrics(), free_metrics()
    with world(tmp_path, node("n1", KEEP, metrics=first), node("n2", metrics=second)) as it:
        report = it.reload(node("n1", KEEP, metrics=second), node("n2", metrics=first))
        assert scraped(first)
        assert scraped(second)

    assert report == ReloadReport(restarted={"n1": "metrics", "n2": "metrics"}, unchanged=report.unchanged)


def test_a_node_that_does_not_start_with_what_has_changed_is_started_as_it_was(tmp_path: Path):
    nobody = (ObserverSpec("tests.runtime.reloaded:Nobody"),)
    with world(tmp_path, node("n1", KEEP, AgentSpec(PLAIN, "gone"))) as it:
        assert it.ask("keeper")["total"] == 1
        report = it.reload(node("n1", replace(KEEP, args=("second",)), observers=nobody))
        answer = it.ask("keeper")
        again = it.reload(node("n1", replace(KEEP, args=("second",)), threads=2))
        assert it.ask("keeper")["word"] == "second"

    assert (answer["word"], answer["total"]) == ("first", 2)
    assert list(report.failed) == ["n1"]
    assert again == ReloadReport(restarted={"n1": "threads", "n1/keeper": "args"})


@contextmanager
def down(folder: Path, *nodes: NodeSpec, intensity: int = 30) -> Iterator[World]:
    """A world whose node n2 does not start as long as there is the file `fatal`, and is tried again in minutes only."""
    later = Backoff(initial=600.0, maximum=600.0)
    here = node("n1", AgentSpec(PLAIN, "here"))
    with world(folder, here, *nodes, intensity=intensity, start_timeout=5.0, backoff=later) as it:
        (folder / "fatal").touch()
        it.cluster.signal("n2", signal.SIGKILL)
        wait_until(lambda: any("n2 did not start: " in event for event in it.events), what="it fails to start")
        yield it


def fragile(folder: Path, word: str = "first") -> AgentSpec:
    return AgentSpec(KEEPER, "keeper", kwargs={"folder": str(folder), "word": word})


HERE = AgentSpec(PLAIN, "here")


def test_a_node_that_is_down_is_started_before_anything_changes(tmp_path: Path):
    with down(tmp_path, node("n2", fragile(tmp_path), AgentSpec(PLAIN, "gone"))) as it:
        waits = [it.bus.delegate("keep.word", to=to, timeout=60) for to in ("keeper", "gone")]
        (tmp_path / "fatal").unlink()
        report = it.reload(node("n1", HERE, fragile(tmp_path)))
        codes = [response.error.code if response.error else "" for handle in waits for response in [handle.result(10)]]
        assert it.agents() == {"here": "n1", "keeper": "n1"}
        assert list(it.pids()) == ["broker", "n1"]

    assert report == ReloadReport(
        started=("n1/keeper",), stopped=("n2", "n2/keeper", "n2/gone"), unchanged=("n1", "n1/here")
    )
    assert codes == ["agent_down", "agent_down"], "as of any agent whose node is down"


@pytest.mark.parametrize("word", ["first", "second"])
def test_a_node_that_cannot_be_started_any_more_is_started_with_what_has_changed(tmp_path: Path, word: str):
    with down(tmp_path, node("n2", fragile(tmp_path))) as it:
        mended = replace(fragile(tmp_path, word), kwargs={"word": word})
        report = it.reload(node("n1", HERE), node("n2", mended))
        assert it.ask("keeper")["word"] == word
        assert it.agents() == {"here": "n1", "keeper": "n2"}

    assert report == ReloadReport(started=("n2", "n2/keeper"), unchanged=("n1", "n1/here"))


def test_a_node_that_cannot_be_started_any_more_keeps_none_of_its_agents_from_another_node(tmp_path: Path):
    with down(tmp_path, node("n2", fragile(tmp_path), AgentSpec(PLAIN, "stays"))) as it:
        mended = replace(fragile(tmp_path), kwargs={})
        report = it.reload(node("n1", HERE, mended), node("n2", AgentSpec(PLAIN, "stays")))
        assert it.ask("keeper")["total"] == 1
        assert it.agents() == {"here": "n1", "keeper": "n1", "stays": "n2"}

    assert report == ReloadReport(started=("n2", "n1/keeper", "n2/stays"), unchanged=("n1", "n1/here"))


def test_a_node_that_cannot_be_started_any_more_is_gone_if_it_is_to_go(tmp_path: Path):
    with down(tmp_path, node("n2", fragile(tmp_path))) as it:
        report = it.reload(node("n1", HERE))
        assert list(it.pids()) == ["broker", "n1"]

    assert report == ReloadReport(stopped=("n2", "n2/keeper"), unchanged=("n1", "n1/here"))


def test_a_node_that_comes_up_while_the_new_nodes_are_let_in_finishes_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    remove, begun = ProcessSupervisor.remove, list[Handle]()
    with down(tmp_path, node("n2", fragile(tmp_path))) as it:
        admit = it.cluster._admit

        def admit_late(nodes: list[HostedNode]) -> None:
            processes = it.cluster._process_supervisor
            assert processes is not None
            if not begun:
                (tmp_path / "fatal").unlink()
                processes.end_backoffs(10.0)
                begun.append(it.begin("keeper"))
            admit(nodes)

        def remove_working(self: ProcessSupervisor, name: str, *, at_once: bool = False) -> None:
            it.go()
            remove(self, name, at_once=at_once)

        monkeypatch.setattr(it.cluster, "_admit", admit_late)
        monkeypatch.setattr(ProcessSupervisor, "remove", remove_working)
        report = it.reload(node("n1", HERE), node("n2", fragile(tmp_path, "second")))
        answer = begun[0].result(10).unwrap().data
        assert it.ask("keeper")["word"] == "second"

    assert (answer["attempt"], answer["word"]) == (1, "first")
    assert report == ReloadReport(started=("n2", "n2/keeper"), unchanged=("n1", "n1/here"))


@pytest.mark.filterwarnings("ignore:n2 gave up, and the others go on:RuntimeWarning")
@pytest.mark.parametrize("intensity", [30, 2])
def test_a_node_that_does_not_start_either_way_is_started_by_the_next_reload(tmp_path: Path, intensity: int):
    with down(tmp_path, node("n2", fragile(tmp_path)), intensity=intensity) as it:
        wanted = (node("n1", HERE), node("n2", fragile(tmp_path), threads=2))
        report = it.reload(*wanted)
        assert list(it.pids()) == ["broker", "n1"]
        (tmp_path / "fatal").unlink()
        again = it.reload(*wanted)
        assert it.agents() == {"here": "n1", "keeper": "n2"}

    assert report.unchanged == ("n1", "n1/here")
    assert "exit code 3" in report.failed["n2"]
    assert again.started == ("n2", "n2/keeper")


def test_a_node_that_hangs_is_restarted_all_the_same_if_its_process_is_to_be_another(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("ether.cluster.reloading.reload._GRACE", 0.0)
    with world(tmp_path, node("n1", KEEP), drain=0.1, start_timeout=3.0) as it:
        pid = it.pids()["n1"]
        it.cluster.signal("n1", signal.SIGSTOP)
        state = Path(f"/proc/{pid}/stat")  # its other threads go on until one has taken the signal
        wait_until(
            lambda: state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T", what="n1 stands still"
        )
        report = it.reload(node("n1", KEEP, threads=2))
        assert it.ask("keeper")["pid"] == it.pids()["n1"] != pid
        assert "n1 did not end in time; it is killed" not in it.events, "it was given no time"

    assert report == ReloadReport(restarted={"n1": "threads"})


def test_what_never_started_is_forgotten_when_it_goes_and_told_as_started_once_it_is(tmp_path: Path):
    missing, unfit = AgentSpec("tests.runtime.reloaded:Keper", "missing"), AgentSpec(KEEPER, "unfit", kwargs={"no": 1})
    with world(tmp_path, node("n1", KEEP)) as it:
        first = it.reload(node("n1", KEEP), node("n2", missing))
        second = it.reload(node("n1", KEEP), node("n2", unfit))
        third = it.reload(node("n1", KEEP), node("n2", unfit, KEEP))
        fourth = it.reload(node("n1", KEEP), node("n2", AgentSpec(PLAIN, "unfit"), KEEP))
        assert it.agents() == {"keeper": "n1", "keeper-2": "n2", "unfit": "n2"}

    assert (first.started, tuple(first.failed)) == (("n2",), ("n2/missing",))
    assert (second.started, second.stopped, tuple(second.failed)) == ((), (), ("n2/unfit",))
    assert (third.started, tuple(third.failed)) == (("n2/keeper-2",), ("n2/unfit",))
    assert "unexpected keyword argument 'no'" in third.failed["n2/unfit"]
    assert (fourth.started, fourth.restarted, fourth.stopped, fourth.failed) == (("n2/unfit",), {}, (), {})


def test_an_agent_that_never_started_is_kept_where_it_is_until_it_can_move(tmp_path: Path):
    late = AgentSpec(KEEPER, "late", kwargs={"folder": str(tmp_path)})
    bad = AgentSpec("tests.runtime.reloaded:Nobody")
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN))) as it:
        it.reload(node("n1", KEEP, late), node("n2", AgentSpec(PLAIN)))
        held = it.reload(node("n1", KEEP), node("n2", AgentSpec(PLAIN), late, bad))
        (tmp_path / "broken").unlink()
        moved = it.reload(node("n1", KEEP), node("n2", AgentSpec(PLAIN), late))
        assert it.agents() == {"keeper": "n1", "plain": "n2", "late": "n2"}

    assert sorted(held.failed) == ["n1/late", "n2/nobody"]
    assert held.failed["n1/late"] == "RuntimeError: it is broken. It goes on starting. It was not moved."
    assert held.unchanged == ("n1", "n2", "n1/keeper", "n2/plain")
    assert (moved.started, moved.failed) == (("n2/late",), {})


def test_what_cannot_travel_to_a_node_is_refused_and_nothing_is_done(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        with pytest.raises(Unserialisable, match=f"{PLAIN} of n1"):
            it.reload(node("n1", KEEP, AgentSpec(PLAIN, args=(object(),))), node("n2"))
        assert it.cluster.spec.nodes == (node("n1", KEEP),)
        assert list(it.pids()) == ["broker", "n1"]


def test_an_agent_whose_class_is_not_there_is_told_and_the_next_reload_tries_again(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        nobody = AgentSpec("tests.runtime.reloaded:Nobody", "it", intensity=0)
        report = it.reload(node("n1", KEEP, nobody))
        assert "has no attribute 'Nobody'" in report.failed["n1/it"]
        assert it.reload(node("n1", KEEP, AgentSpec(PLAIN, "it"))).failed == {}
        assert it.ask("it")["word"] == "plain"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (replace(KEEP, kwargs={"wrod": "second"}), "unexpected keyword argument 'wrod'. Did you mean 'word'? It stays"),
        (replace(KEEP, args=("second", None, 3)), "too many positional arguments. It stays"),
        (AgentSpec("tests.runtime.reloaded:Keper", "keeper"), "Did you mean 'Keeper'?"),
        (AgentSpec("tests.runtime.nowhere:Keeper", "keeper"), "No module named 'tests.runtime.nowhere'"),
    ],
)
def test_an_agent_whose_successor_cannot_be_made_stays_as_it_was(tmp_path: Path, bad: AgentSpec, why: str):
    good = replace(KEEP, name=bad.name)
    with world(tmp_path, node("n1", good)) as it:
        works = it.begin("keeper")
        waits = it.bus.delegate("keep.word", to="keeper", timeout=30)
        report = it.reload(node("n1", bad))
        assert list(report.failed) == ["n1/keeper"]
        assert why in report.failed["n1/keeper"]
        assert (report.restarted, report.unchanged) == ({}, ("n1",))
        it.go()
        assert [handle.result(10).unwrap().data["attempt"] for handle in (works, waits)] == [1, 1]
        it.cluster.signal("n1", signal.SIGKILL)
        wait_until(lambda: any("n1 is up again" in event for event in it.events), what="it is back")
        assert it.ask("keeper")["word"] == "first"
        assert it.reload(node("n1", replace(good, args=("second",)))).restarted == {"n1/keeper": "args"}
        assert it.ask("keeper")["word"] == "second"


def test_arguments_are_compared_with_what_is_called(tmp_path: Path):
    bare, filled = AgentSpec("tests.runtime.reloaded:Bare"), AgentSpec("tests.runtime.reloaded:Filled")
    with world(tmp_path, node("n1", bare, filled)) as it:
        report = it.reload(node("n1", replace(bare, kwargs={"word": "x"}), replace(filled, kwargs={"more": 2})))
        assert list(report.failed) == ["n1/bare"]
        assert "unexpected keyword argument 'word'. It stays" in report.failed["n1/bare"]
        assert report.restarted == {"n1/filled": "kwargs"}
        assert it.bus.delegate("keep.word", to="bare").result(10).data == "bare"
        assert it.ask("filled") == {"word": "filled", "more": 2}


def test_an_agent_that_could_not_be_made_where_it_is_to_move_stays_where_it_is(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN))) as it:
        report = it.reload(node("n1"), node("n2", AgentSpec(PLAIN), replace(KEEP, kwargs={"wrod": "x"})))
        assert list(report.failed) == ["n2/keeper"]
        assert report.unchanged == ("n1", "n2", "n1/keeper", "n2/plain")
        assert it.agents() == {"keeper": "n1", "plain": "n2"}


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_nothing_is_stopped_if_what_is_new_does_not_start(tmp_path: Path, *, is_elsewhere: bool):
    bad = AgentSpec("tests.runtime.reloaded:Keper")
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN))) as it:
        before = it.pids()
        nodes = [node("n1"), node("n3", bad)] if is_elsewhere else [node("n1", bad)]
        report = it.reload(*nodes)
        assert list(report.failed) == ["n3/keper" if is_elsewhere else "n1/keper"]
        assert all(why.endswith("Nothing was stopped.") for why in report.failed.values())
        assert report.stopped == ()
        assert report.unchanged == ("n1", "n2", "n1/keeper", "n2/plain")
        assert before.items() <= it.pids().items()
        assert it.ask("keeper")["word"] == "first"
        second = it.reload(*nodes)
        assert list(second.failed) == list(report.failed), "it is still not there"
        assert second.stopped == ()
        again = it.reload(*(replace(one, agents=(AgentSpec(SLEEPER),) if one.agents else ()) for one in nodes))
        assert again.failed == {}
        assert {"n1/keeper", "n2", "n2/plain"} <= set(again.stopped)


def test_a_node_that_must_be_another_keeps_what_goes_if_what_is_new_does_not_start(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP, AgentSpec(CREW, scale=Scale(max=2))), node("n2", AgentSpec(PLAIN))) as it:
        moves = node("n1", AgentSpec(PLAIN, "plain"), threads=7)
        report = it.reload(moves, node("n3", AgentSpec("tests.runtime.reloaded:Nobody")))
        assert list(report.failed) == ["n3/nobody"]
        assert report.restarted == {"n1": "threads"}
        assert it.agents() == {"keeper": "n1", "crew": "n1", "plain": "n2"}
        assert {"n2", "n1/keeper", "n1/crew", "n2/plain"} <= set(it.reload(moves).stopped)
        assert it.agents() == {"plain": "n1"}


def test_a_node_is_not_restarted_for_what_could_not_be_made(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP), node("n2", AgentSpec(PLAIN))) as it:
        before = it.pids()
        report = it.reload(node("n1", AgentSpec("tests.runtime.reloaded:Keper"), threads=7))
        assert list(report.failed) == ["n1"]
        assert "Did you mean 'Keeper'?" in report.failed["n1"]
        assert report.failed["n1"].endswith("It was not restarted. Nothing was stopped.")
        assert report.unchanged == ("n2", "n2/plain")
        assert it.pids() == before
        assert it.ask("keeper")["word"] == "first"


def test_an_agent_that_cannot_scale_is_not_stopped_for_that(tmp_path: Path):
    with world(tmp_path, node("n1", KEEP)) as it:
        report = it.reload(node("n1", replace(KEEP, scale=Scale(max=3))))
        assert "Keeper cannot scale: it has a state" in report.failed["n1/keeper"]
        assert "It stays as it was." in report.failed["n1/keeper"]
        assert it.ask("keeper")["word"] == "first"


def test_instances_whose_successors_cannot_be_made_stay_as_they_were(tmp_path: Path):
    good = AgentSpec(CREW, scale=Scale(min=2, max=4))
    with world(tmp_path, node("n1", good)) as it:
        wait_until(lambda: len(it.agents()) == 2, what="both are up")
        report = it.reload(node("n1", replace(good, kwargs={"wrod": "second"}), KEEP))
        assert list(report.failed) == ["n1/crew"]
        assert report.started == ("n1/keeper",)
        assert it.bus.delegate("crew.word").result(10).unwrap().data["word"] == "first"
        rescaled = it.reload(node("n1", replace(good, scale=Scale(min=3, max=4)), KEEP))
        assert rescaled == ReloadReport(rescaled=("n1/crew",), unchanged=("n1", "n1/keeper"))
        wait_until(lambda: len(it.agents()) == 4, what="another has come")


def test_an_agent_that_had_given_up_is_started_again(tmp_path: Path):
    fragile = AgentSpec(KEEPER, kwargs={"folder": str(tmp_path)}, intensity=0)
    (tmp_path / "broken").touch()
    with world(tmp_path, node("n1", AgentSpec(PLAIN))) as it:
        assert list(it.reload(node("n1", AgentSpec(PLAIN), fragile)).failed) == ["n1/keeper"]
        assert list(it.reload(node("n1", AgentSpec(PLAIN), fragile)).failed) == ["n1/keeper"]
        (tmp_path / "broken").unlink()
        assert it.reload(node("n1", AgentSpec(PLAIN), fragile)) == ReloadReport(
            started=("n1/keeper",), unchanged=("n1", "n1/plain")
        )  # fmt: skip
        assert it.ask("keeper")["word"] == "first"
        assert it.reload(node("n1", AgentSpec(PLAIN), fragile)).started == ()


def test_a_class_that_was_written_after_its_module_was_imported_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "late_module.py"
    file.write_text("from ether import Agent, capability\n\n\nclass Early(Agent):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with world(tmp_path, node("n1", AgentSpec("late_module:Early"))) as it:
        file.write_text(file.read_text() + "\n\nclass Late(Agent):\n    pass\n")
        report = it.reload(node("n1", AgentSpec("late_module:Early"), AgentSpec("late_module:Late", intensity=0)))
        assert "this process imported late_module before that: start it in a new process" in report.failed["n1/late"]


TILL = """
from pydantic import BaseModel

from ether import Agent, capability


class Sum(BaseModel):
    total: int = 0


class Till(Agent):
    state: Sum

    @capability("till.add", idempotent=True)
    def add(self) -> list:
        self.state.total += 1
        return [getattr(self, "word", "old"), self.state.total]
"""
NEW_CODE = (
    TILL
    + """
    def __init__(self, word: str = "") -> None:
        self.word = word


class LoudTill(Till):
    def __init__(self) -> None:
        self.word = "loud"
"""
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the module `shop`, with an agent of which the next reload may have new code."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "shop.py"
    file.write_text(TILL)
    return file


WATCHER = """

from ether import Observer


class Watcher(Observer):
    pass
"""


def add(it: World) -> list[Any]:
    data: list[Any] = it.bus.delegate("till.add", to="till", timeout=20).result().unwrap().data
    return data


def free_metrics() -> MetricsSpec:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return MetricsSpec(port=free.getsockname()[1])


def scraped(metrics: MetricsSpec) -> str:
    with urllib.request.urlopen(f"http://{metrics.host}:{metrics.port}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    "to",
    [
        AgentSpec("shop:LoudTill", "till"),
        AgentSpec("shop:Till", "till", kwargs={"word": "loud"}),
    ],
    ids=["class", "keyword"],
)
@pytest.mark.parametrize("how", ["new node", "new node with its metrics address", "same node anew"])
def test_new_code_is_there_with_the_first_reload_that_gives_it_a_new_process(
    tmp_path: Path, shop: Path, how: str, to: AgentSpec
):
    fields: dict[str, Any] = {"metrics": free_metrics()} if "metrics" in how else {}
    with world(tmp_path, node("work", AgentSpec("shop:Till", "till"), AgentSpec(PLAIN), **fields)) as it:
        assert add(it) == ["old", 1]
        shop.write_text(NEW_CODE)
        if how == "same node anew":
            report = it.reload(node("work", to, AgentSpec(PLAIN), threads=3))
        else:
            report = it.reload(node("work2", to, AgentSpec(PLAIN), **fields))
        assert report.failed == {}
        assert add(it) == ["loud", 2]
        assert list(it.pids()) == ["broker", "work" if how == "same node anew" else "work2"]


@pytest.mark.parametrize("how", ["new node", "new node with its metrics address", "same node anew"])
def test_new_code_that_cannot_be_made_or_takes_its_process_down_stops_nothing(tmp_path: Path, shop: Path, how: str):
    fields: dict[str, Any] = {"metrics": free_metrics()} if "metrics" in how else {}
    with world(tmp_path, node("work", AgentSpec("shop:Till", "till"), **fields)) as it:
        before, works = it.pids(), add(it)
        reports = []
        for code in (NEW_CODE.replace("word: str", "wrod: str"), "import os\n\nos._exit(3)\n"):
            shop.write_text(code)
            to = AgentSpec("shop:Till", "till", kwargs={"word": "loud"})
            if how == "same node anew":
                reports.append(it.reload(node("work", to, threads=3)))
            else:
                reports.append(it.reload(node(f"work{len(reports) + 2}", to, **fields)))
            assert it.pids()["work"] == before["work"]
        assert (works, add(it)) == (["old", 1], ["old", 2])
        assert not any("start check" in name for name in it.pids())

    refused, died = (" ".join(report.failed.values()) for report in reports)
    assert "unexpected keyword argument 'word'. Did you mean 'wrod'?" in refused
    assert "exit code 3" in died
    assert all(not report.stopped and not report.restarted for report in reports)


def test_a_node_is_not_restarted_if_an_agent_that_has_not_changed_could_not_be_made_any_more(
    tmp_path: Path, shop: Path
):
    till = AgentSpec("shop:Till", "till")
    with world(tmp_path, node("work", till)) as it:
        before, first = it.pids(), add(it)
        shop.write_text("class Half(")
        report = it.reload(node("work", till, threads=3))
        assert it.pids()["work"] == before["work"]
        assert (first, add(it)) == (["old", 1], ["old", 2])

    assert list(report.failed) == ["work"]
    assert "SyntaxError" in report.failed["work"]
    assert report.failed["work"].endswith("It was not restarted.")


def test_a_node_that_starts_neither_way_is_told_with_why_it_did_not(tmp_path: Path, shop: Path):
    first = (ObserverSpec("shop:Watcher"),)
    shop.write_text(shop.read_text() + WATCHER)
    with world(tmp_path, node("work", observers=first), node("other", AgentSpec(PLAIN))) as it:
        shop.write_text(
            shop.read_text().replace("Watcher", "WatchedOnce")
        )  # of another size: what was compiled may count still
        report = it.reload(node("work", observers=(ObserverSpec("shop:Watchd"),)), node("other", AgentSpec(PLAIN)))
        assert list(it.pids()) == ["broker", "other"]

    told = report.failed["work"]
    assert "shop:Watchd" in told.partition("It did not start again as it was, either")[0]
    assert "shop:Watcher" in told.partition("It did not start again as it was, either")[2]
    assert told.endswith("and is gone until the next reload.")


def test_a_node_that_goes_on_with_code_that_has_changed_is_told_as_outdated(tmp_path: Path, shop: Path):
    till = AgentSpec("shop:Till", "till")
    with world(tmp_path, node("work", till), node("other", AgentSpec(PLAIN))) as it:
        untouched = it.reload(node("work", till), node("other", AgentSpec(PLAIN)))
        shop.write_text(NEW_CODE)
        same = it.reload(node("work", till), node("other", AgentSpec(PLAIN)))
        restarted = it.reload(node("work", replace(till, backoff=Backoff(2.0))), node("other", AgentSpec(PLAIN)))
        gone = it.reload(node("work"), node("other", AgentSpec(PLAIN), till))
        shop.write_text(f"{NEW_CODE}# and once more")
        anew = it.reload(node("work"), node("other", AgentSpec(PLAIN), till, threads=2))
        again = it.reload(node("work"), node("other", AgentSpec(PLAIN), till, threads=2))

    names = ("work", "other", "work/till", "other/plain")
    assert untouched == ReloadReport(unchanged=names)
    assert same == ReloadReport(unchanged=names, outdated={"work": [str(shop)]})
    assert (restarted.restarted, restarted.outdated) == ({"work/till": "backoff"}, {"work": [str(shop)]})
    assert (gone.failed, gone.outdated, again.outdated) == ({}, {}, {})
    assert (anew.restarted, anew.outdated) == ({"other": "threads"}, {})
    told = f"outdated  work: {shop} has changed since work imported it: for new code give the node another name"
    assert told in same.lines()


def test_a_second_reload_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    under_way: list[int] = []
    reload, count = Cluster._reload, [0]

    def counted(*args: Any) -> ReloadReport:
        count[0] += 1
        under_way.append(count[0])
        try:
            return reload(*args)
        finally:
            count[0] -= 1

    monkeypatch.setattr(Cluster, "_reload", counted)
    with world(tmp_path, node("n1", KEEP)) as it:
        it.begin("keeper")
        with (
            it.reloading(node("n1", replace(KEEP, args=("second",)))) as first,
            it.reloading(node("n1", replace(KEEP, args=("third",)))) as second,
        ):
            wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
            assert first == second == []
        assert it.ask("keeper")["word"] in {"second", "third"}

    assert under_way == [1, 1]
    assert [report.restarted for report in (*first, *second)] == [{"n1/keeper": "args"}] * 2


def test_a_cluster_that_is_not_open_or_ends_is_not_reloaded(tmp_path: Path):
    cluster = Cluster([node("n1", KEEP)], on_output=lambda *_: None)
    with pytest.raises(Closed):
        cluster.reload(cluster.spec)
    raised: list[BaseException] = []

    def reload(it: World) -> None:
        try:
            it.reload(node("n1", replace(KEEP, args=("second",))))
        except Closed as error:
            raised.append(error)

    with world(tmp_path, node("n1", KEEP), drain=60.0) as it:
        with pytest.raises(UsageError, match="takes a ClusterSpec"):
            it.cluster.reload("bus.yaml")  # type: ignore[arg-type]
        it.begin("keeper")
        thread = threading.Thread(target=reload, args=[it])
        thread.start()
        wait_until(lambda: it.condition("keeper") == "restarting", what="it drains")
        it.cluster.close(drain=0)
        thread.join()

    assert [str(error) for error in raised] == ["The cluster has ended."]
