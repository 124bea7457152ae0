"""A shell for the stateful tests: it answers when told to, keeps its own books, and checks each effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from ether_actors.restarts.events import (
    Add,
    ChildPath,
    ChildStarted,
    ChildStopped,
    Down,
    Effect,
    Escalate,
    Event,
    Exit,
    Gone,
    Restarted,
    SetTimer,
    Start,
    StartChild,
    Stop,
    StopChild,
    TimerFired,
)
from ether_actors.restarts.restart_machine import RestartMachine
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, Strategy, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle
from ether_broker.errors import Closed, Unavailable


@dataclass
class Life:
    """An incarnation that runs, or may."""

    incarnation: int
    phase: str = "starting"
    was_up: bool = False


class World:
    """What runs, by its own books, and what must always hold."""

    def __init__(self, spec: SupervisorSpec, seed: int) -> None:
        self.tree = RestartMachine(spec, Random(seed))
        self.now = 0.0
        self.lives: dict[ChildPath, Life] = {}
        self.ended: list[tuple[ChildPath, int]] = []
        self.timers: dict[int, SetTimer] = {}
        self.gone: set[ChildPath] = set()
        self.seen: set[ChildPath] = set()
        self.added: set[ChildPath] = set()
        self.waits: dict[ChildPath, float] = {}
        """{path: until when it has to wait, or had}"""
        self.specs = dict(paths(spec, ()))
        self.fallen: dict[ChildPath, int] = {}
        """{agent: the newest incarnation when it, or one that takes it along, last had to wait}"""
        self.budget: dict[ChildPath, list[float]] = {}
        """{supervisor whose restarts are counted: when it decided on each, since it is up}"""
        self.halted: dict[ChildPath, int] = {}
        """{supervisor that stops: what it had spent when it began to}"""
        self.newest = 0
        """The newest incarnation."""
        self.order: list[ChildPath] = []
        """All that is known, each supervisor before its children, siblings in start order."""
        self.stopping = False
        self.over = False
        self.tell(Start())

    # What must hold

    def check_rest(self) -> None:
        states = {path: at.state for path, at in self.tree.statistics().children.items()}
        up = {path for path, state in states.items() if state is Lifecycle.RUNNING}
        assert set(states.values()) <= {Lifecycle.RUNNING, Lifecycle.DONE}
        assert set(self.lives) == {path for path in up if isinstance(self.specs[path], ChildSpec)}
        assert self.over or self.lasting() <= up
        assert not set(self.lives) & self.gone
        assert self.seen - set(states) <= self.gone
        for path, newest in self.fallen.items():
            if path in self.lives:
                assert self.lives[path].incarnation > newest, f"{path} was not taken along"

    def lasting(self) -> set[ChildPath]:
        """Those that nothing but the end of the tree may end."""
        fragile = {path for path, spec in self.specs.items() if spec.restart is Restart.TEMPORARY}
        fragile = (fragile | self.added) - {self.order[0]}
        permanent = {path for path, spec in self.specs.items() if spec.restart is Restart.PERMANENT}
        return {path for path in permanent if not any(_is_below(weak, path) for weak in fragile)}

    def check_budgets(self) -> None:
        for path in self.budget:
            assert self.spent(path) <= _supervisor(self.specs[path]).intensity

    def spent(self, path: ChildPath) -> int:
        since = self.now - _supervisor(self.specs[path]).period
        return sum(time >= since for time in self.budget.get(path, ()))

    # Telling, and checking each effect

    def tell(self, event: Event, ends: ChildPath | None = None, fired: ChildPath | None = None) -> tuple[Effect, ...]:
        falls: list[tuple[ChildPath, int]] = []
        if ends:
            falls = [(ends, self.lives.pop(ends).incarnation)]
            self.ended += falls
        effects = self.tree.step(event, self.now)
        self.order = list(self.tree.statistics().children)
        added = (*event.path, event.spec.id) if isinstance(event, Add) else None
        for effect in effects:
            assert not self.over, f"{effect} after the end"
            self.check(effect, fired, added)
        for path in self.order:
            if self.tree.state(path) is Lifecycle.STOPPING and isinstance(self.specs[path], SupervisorSpec):
                self.halted.setdefault(path, self.spent(path))
        told = [e.path for e in effects if isinstance(e, Down) and isinstance(self.specs[e.path], ChildSpec)]
        assert told == [path for path, _ in falls], "exactly one Down for each incarnation that ended"
        self.over = self.over or Gone(self.order[0]) in effects
        return effects

    def check(self, effect: Effect, fired: ChildPath | None, added: ChildPath | None) -> None:
        match effect:
            case StartChild(path, _, incarnation):
                assert path not in self.lives, f"{path} runs already"
                assert incarnation > self.newest
                assert self.strategy(path) is Strategy.ONE_FOR_ONE or not self.later(path)
                self.newest = incarnation
                self.lives[path] = Life(incarnation)
                if self.strategy(path) is Strategy.ONE_FOR_ONE:
                    assert self.now >= self.waits.get(path, 0.0), "nothing shortens a wait"
                if path in self.seen and path not in {fired, added}:
                    self.charge(path)
                self.seen.add(path)
                self.gone.discard(path)
            case StopChild(path, _, _, incarnation):
                assert self.lives[path].incarnation == incarnation
                assert self.lives[path].phase != "stopping"
                assert not self.later(path), "stops are in reverse start order"
                self.lives[path].phase = "stopping"
            case SetTimer(token, at, path):
                assert token not in self.timers
                assert self.now < at <= self.now + 2.0
                assert not any(_is_below(path, life) for life in self.lives)
                self.timers[token] = effect
                self.waits[path] = at
                self.charge(path)
                for fallen in self.group(path):
                    self.fallen[fallen] = self.newest
            case Restarted(path):
                assert path not in self.lives or self.lives[path].phase == "up"
            case Down(path, reason, detail):
                if isinstance(self.specs[path], SupervisorSpec):
                    self.check_fall(path, reason, detail)
            case Gone(path):
                assert not any(_is_below(path, life) for life in self.lives)
                self.gone.add(path)
            case Escalate():
                assert not self.lives

    def check_fall(self, path: ChildPath, reason: Exit, detail: str) -> None:
        """A supervisor has fallen: nothing below it runs, and if it gave up it had reason to."""
        assert not any(_is_below(path, life) for life in self.lives)
        if reason is Exit.CRASH:
            assert "restarts in" in detail
            if self.is_counted(path):
                spent = self.halted.get(path, self.spent(path))
                assert spent == _supervisor(self.specs[path]).intensity, "it gave up too early"
        self.budget.pop(path, None)
        self.halted.pop(path, None)
        self.waits = {below: at for below, at in self.waits.items() if not _is_below(path, below[:-1])}

    def charge(self, path: ChildPath) -> None:
        """A restart of `path` has been decided."""
        above = path[:-1]
        is_up = self.tree.state(above) in {Lifecycle.RUNNING, Lifecycle.STOPPING}
        if is_up and self.is_counted(above):
            self.budget.setdefault(above, []).append(self.now)

    def is_counted(self, path: ChildPath) -> bool:
        """Whether each restart shows in one effect: the supervisor is one_for_one and over agents only."""
        inner = {type(spec) for below, spec in self.specs.items() if below[:-1] == path}
        return _supervisor(self.specs[path]).strategy is Strategy.ONE_FOR_ONE and SupervisorSpec not in inner

    def fire(self, timer: SetTimer) -> None:
        del self.timers[timer.token]
        self.now = max(self.now, timer.at)
        self.tell(TimerFired(timer.token), fired=timer.path)

    def add(self, path: ChildPath, spec: ChildSpec | SupervisorSpec) -> None:
        if isinstance(spec, SupervisorSpec):
            self.budget.pop(path, None)  # it is not counted any more
        self.added.add((*path, spec.id))
        self.specs.update(paths(spec, path))
        event, before = Add(path, spec), self.tree.statistics()
        ended = self.tree.state(self.order[0]) in {Lifecycle.STOPPING, Lifecycle.DONE}
        is_up = self.tree.state(path) in {Lifecycle.STARTING, Lifecycle.RUNNING}
        if is_up and not ended:
            self.tell(event)
            return
        with pytest.raises(Closed if ended else Unavailable):
            self.tell(event)
        assert self.tree.statistics() == before

    def start(self, path: ChildPath, incarnation: int | None = None) -> None:
        self.lives[path].phase = "up"
        self.lives[path].was_up = True
        self.tell(ChildStarted(path, incarnation))

    def stop(self) -> None:
        self.stopping = True
        self.tell(Stop())

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self.timers.values() if timer.at <= until]:
            self.fire(min(due, key=lambda timer: timer.at))
        self.now = until

    def rest(self) -> None:
        """From here on all goes well, until nothing is left to happen."""
        while True:
            if starting := self.in_phase("starting"):
                self.start(starting[0])
            elif stopping := self.in_phase("stopping"):
                self.tell(ChildStopped(stopping[0]), ends=stopping[0])
            elif self.timers:
                self.fire(min(self.timers.values(), key=lambda timer: timer.at))
            else:
                break
        self.check_rest()

    # Looking

    def in_phase(self, phase: str) -> list[ChildPath]:
        return [path for path, life in self.lives.items() if life.phase == phase]

    def waiting(self) -> list[ChildPath]:
        return [path for path in self.order if self.tree.state(path) is Lifecycle.BACKOFF]

    def strategy(self, path: ChildPath) -> Strategy:
        return _supervisor(self.specs[path[:-1]]).strategy

    def siblings(self, path: ChildPath) -> list[ChildPath]:
        return [other for other in self.order if other[:-1] == path[:-1]]

    def later(self, path: ChildPath) -> list[ChildPath]:
        """What still runs of the siblings after it."""
        siblings = self.siblings(path)
        after = siblings[siblings.index(path) + 1 :] if path in siblings else []
        return [life for life in self.lives if any(_is_below(sibling, life) for sibling in after)]

    def group(self, path: ChildPath) -> list[ChildPath]:
        """The agents that a restart of `path` takes along, itself among them."""
        siblings = self.siblings(path)
        match self.strategy(path):
            case Strategy.ONE_FOR_ONE:
                siblings = [path]
            case Strategy.REST_FOR_ONE:
                siblings = siblings[siblings.index(path) :]
        return [other for other in self.order if any(_is_below(sibling, other) for sibling in siblings)]


def paths(spec: ChildSpec | SupervisorSpec, above: ChildPath) -> Iterator[tuple[ChildPath, ChildSpec | SupervisorSpec]]:
    path = (*above, spec.id)
    yield path, spec
    for inner in spec.children if isinstance(spec, SupervisorSpec) else ():
        yield from paths(inner, path)


def _is_below(path: ChildPath, other: ChildPath) -> bool:
    return other[: len(path)] == path


def _supervisor(spec: ChildSpec | SupervisorSpec) -> SupervisorSpec:
    assert isinstance(spec, SupervisorSpec)
    return spec
