"""Random trees under random exits, failed starts, waits and changes; `World` checks each effect."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.backoff import Backoff
from ether_actors.restarts.events import (
    ChildExited,
    ChildPath,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    Exit,
    TimerFired,
)
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, Strategy, SupervisorSpec
from tests.actors.restarts.restart_shell import AT_ONCE, child, running
from tests.actors.restarts.restart_world import World

BACKOFFS = (AT_ONCE, Backoff(maximum=2.0))
STRATEGIES = st.sampled_from(Strategy)
RESTARTS = st.sampled_from([Restart.PERMANENT, *Restart])
EXITS = st.sampled_from([Exit.NORMAL, Exit.SHUTDOWN, Exit.CRASH])


@st.composite
def trees(draw: st.DrawFn, id_: str = "root", depth: int = 3) -> SupervisorSpec:
    children: list[ChildSpec | SupervisorSpec] = []
    for place in range(draw(st.integers(0 if depth < 3 else 1, 4))):
        if depth > 1 and draw(st.integers(0, 3)) == 0:
            children.append(draw(trees(f"s{place}", depth - 1)))
        else:
            children.append(child(f"c{place}", restart=draw(RESTARTS)))
    return SupervisorSpec(
        id_,
        draw(STRATEGIES),
        intensity=draw(st.sampled_from([0, 1, 2, 4, 9])),
        period=draw(st.sampled_from([1.0, 5.0])),
        backoff=draw(st.sampled_from(BACKOFFS)),
        children=tuple(children),
        restart=draw(RESTARTS),
    )


class Supervision(RuleBasedStateMachine):
    world: World

    @initialize(spec=trees(), seed=st.integers(0, 2**16), slowly=st.booleans())
    def a_tree_starts(self, spec: SupervisorSpec, seed: int, slowly: bool) -> None:
        self.world = World(spec, seed)
        if not slowly:
            self.world.rest()

    @precondition(lambda self: self.world.in_phase("starting"))
    @rule(data=st.data(), luck=st.integers(0, 3), named=st.booleans())
    def a_start_is_answered(self, data: st.DataObject, luck: int, named: bool) -> None:
        path, incarnation = self.choose(data, "starting", named=named)
        if luck:
            self.world.start(path, incarnation)
        else:
            self.world.tell(ChildStartFailed(path, "no luck", incarnation), ends=path)

    @precondition(lambda self: self.world.in_phase("up"))
    @rule(data=st.data(), reason=EXITS, named=st.booleans())
    def a_child_ends(self, data: st.DataObject, reason: Exit, named: bool) -> None:
        path, incarnation = self.choose(data, "up", named=named)
        self.world.tell(ChildExited(path, reason, "boom", incarnation), ends=path)

    @precondition(lambda self: self.world.in_phase("up"))
    @rule()
    def the_newest_child_crashes(self) -> None:
        path = self.world.in_phase("up")[-1]
        self.world.tell(ChildExited(path, Exit.CRASH, "boom"), ends=path)

    @precondition(lambda self: self.world.in_phase("stopping"))
    @rule(data=st.data(), obeys=st.booleans(), named=st.booleans())
    def a_stop_is_answered(self, data: st.DataObject, obeys: bool, named: bool) -> None:
        path, incarnation = self.choose(data, "stopping", named=named)
        if obeys:
            self.world.tell(ChildStopped(path, incarnation), ends=path)
        elif self.world.lives[path].was_up:
            self.world.tell(ChildExited(path, Exit.CRASH, "boom", incarnation), ends=path)
        else:
            self.world.tell(ChildStartFailed(path, "no luck", incarnation), ends=path)

    @precondition(lambda self: self.world.ended)
    @rule(data=st.data(), report=st.sampled_from([ChildStarted, ChildStartFailed, ChildExited, ChildStopped]))
    def a_late_report_changes_nothing(self, data: st.DataObject, report: type) -> None:
        path, incarnation = data.draw(st.sampled_from(self.world.ended))
        late = {"reason": Exit.CRASH} if report is ChildExited else {}

        assert self.world.tell(report(path, incarnation=incarnation, **late)) == ()

    @rule(seconds=st.sampled_from([0.01, 0.15, 0.5, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: len(self.world.added) < 6)
    @rule(data=st.data(), restart=RESTARTS, nested=st.booleans())
    def a_child_is_added(self, data: st.DataObject, restart: Restart, nested: bool) -> None:
        spec: ChildSpec | SupervisorSpec = child(f"n{len(self.world.added)}", restart=restart)
        if nested:
            spec = SupervisorSpec(spec.id, children=(child("x"), child("y")), restart=restart, intensity=1)
        supervisors = [path for path in self.world.order if isinstance(self.world.specs[path], SupervisorSpec)]
        self.world.add(data.draw(st.sampled_from(supervisors)), spec)

    @precondition(lambda self: self.world.newest > 30)
    @rule()
    def the_tree_is_stopped(self) -> None:
        self.world.stop()

    @rule()
    def all_comes_to_rest(self) -> None:
        self.world.rest()

    @invariant()
    def no_budget_is_overdrawn(self) -> None:
        self.world.check_budgets()

    def teardown(self) -> None:
        if not hasattr(self, "world"):  # the tree itself could not be drawn
            return
        self.world.rest()
        self.world.stop()
        self.world.rest()
        assert self.world.over
        assert not self.world.lives
        assert self.world.seen <= self.world.gone
        assert all(self.world.tell(TimerFired(token)) == () for token in range(self.world.newest + 50))

    def choose(self, data: st.DataObject, phase: str, *, named: bool) -> tuple[ChildPath, int | None]:
        path = data.draw(st.sampled_from(self.world.in_phase(phase)))
        return path, self.world.lives[path].incarnation if named else None


TestSupervision = pytest.mark.slow(Supervision.TestCase)
TestSupervision.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


@given(
    strategy=STRATEGIES,
    restarts=st.lists(RESTARTS, min_size=1, max_size=6),
    exits=st.lists(st.tuples(st.integers(0, 5), EXITS), max_size=12),
)
def test_each_exit_stops_and_starts_those_that_otps_tables_say(
    strategy: Strategy, restarts: list[Restart], exits: list[tuple[int, Exit]]
) -> None:
    types = {f"c{place}": restart for place, restart in enumerate(restarts)}
    specs = tuple(child(id_, restart=restart) for id_, restart in types.items())
    shell = running(SupervisorSpec("root", strategy, 99, backoff=AT_ONCE, children=specs))
    known, up = list(types), set(types)

    for place, reason in exits:
        id_ = f"c{place}"
        if id_ not in up:
            continue
        up.discard(id_)
        stops, starts = [], []
        if types[id_] is Restart.PERMANENT or (types[id_] is Restart.TRANSIENT and reason is Exit.CRASH):
            group = _group(strategy, known, id_)
            stops = [other for other in reversed(group) if other in up]
            starts = [other for other in group if types[other] is not Restart.TEMPORARY]
            known = [other for other in known if other not in group or other in starts]
            up = up - set(stops) | set(starts)
        elif types[id_] is Restart.TEMPORARY:
            known.remove(id_)

        lines = shell.exits(id_, reason)

        assert [line[5:] for line in lines if line.startswith("stop ")] == stops
        assert [line[6:] for line in lines if line.startswith("start ")] == starts
        assert set(shell.running().split()) == {"root", *up}


def _group(strategy: Strategy, known: list[str], id_: str) -> list[str]:
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return [id_]
        case Strategy.REST_FOR_ONE:
            return known[known.index(id_) :]
        case Strategy.ONE_FOR_ALL:
            return known
