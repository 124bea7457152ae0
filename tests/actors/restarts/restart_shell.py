"""A shell round the restart machine for tests: it starts nothing, and writes down what it was asked for."""

from __future__ import annotations

from collections import Counter
from random import Random

from ether_actors.backoff import Backoff
from ether_actors.restarts.events import (
    Add,
    ChildExited,
    ChildPath,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    Down,
    Effect,
    Escalate,
    Event,
    Exit,
    Gone,
    Remove,
    Restarted,
    SetTimer,
    Start,
    StartChild,
    Stop,
    StopChild,
    TimerFired,
)
from ether_actors.restarts.restart_machine import RestartMachine
from ether_actors.restarts.supervisor_spec import ChildSpec, Strategy, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle

STEADY = Backoff(jitter=0.0)
AT_ONCE = Backoff(initial=0.0)


def child(id_: str, **options: object) -> ChildSpec:
    return ChildSpec(id_, "agents:Agent", **options)  # type: ignore[arg-type]


def children(ids: str) -> tuple[ChildSpec, ...]:
    return tuple(child(id_) for id_ in ids.split())


def supervisor(ids: str, strategy: Strategy = Strategy.ONE_FOR_ONE, **options: object) -> SupervisorSpec:
    options = {"backoff": STEADY, **options}
    return SupervisorSpec("root", strategy, children=children(ids), **options)  # type: ignore[arg-type]


def running(spec: SupervisorSpec) -> Shell:
    shell = Shell(spec)
    shell.start()
    return shell


def waiting(ids: str, strategy: Strategy, failed: str) -> Shell:
    """A tree in which a child waits for its second restart."""
    shell = running(supervisor(ids, strategy))
    shell.exits(failed)
    shell.exits(failed)
    assert shell.state(failed) is Lifecycle.BACKOFF
    return shell


class Shell:
    """Answers starts and stops at once, unless they are held; time stands until it is told to pass.

    Each effect becomes a line such as "start a" or "down pool/a crash"; a path is told without its root.
    """

    def __init__(self, spec: SupervisorSpec) -> None:
        self.tree = RestartMachine(spec, Random(7))
        self.root = spec.id
        self.now = 100.0
        self.held: set[str] = set()
        """Whose starts and stops are not answered."""
        self.failing: Counter[str] = Counter()
        """{path: how many of its next starts fail}"""
        self.timers: list[SetTimer] = []
        self.incarnations: dict[str, int] = {}
        self.effects: list[Effect] = []

    def tell(self, event: Event) -> list[str]:
        """Step with the event and with the answers that it leads to; return the lines of all effects."""
        events: list[Event] = [event]
        lines: list[str] = []
        while events:
            effects = self.tree.step(events.pop(0), self.now)
            self.effects.extend(effects)
            lines.extend(self._line(effect) for effect in effects)
            events.extend(answer for effect in effects if (answer := self._answer(effect)))
        return lines

    def start(self) -> list[str]:
        return self.tell(Start())

    def stop(self) -> list[str]:
        return self.tell(Stop())

    def started(self, name: str) -> list[str]:
        return self.tell(ChildStarted(self.path(name)))

    def not_started(self, name: str) -> list[str]:
        return self.tell(ChildStartFailed(self.path(name), "no luck"))

    def stopped(self, name: str) -> list[str]:
        return self.tell(ChildStopped(self.path(name)))

    def exits(self, name: str, reason: Exit = Exit.CRASH) -> list[str]:
        return self.tell(ChildExited(self.path(name), reason, "boom"))

    def add(self, name: str, spec: ChildSpec | SupervisorSpec) -> list[str]:
        return self.tell(Add(self.path(name), spec))

    def removes(self, name: str) -> list[str]:
        return self.tell(Remove(self.path(name)))

    def passes(self, seconds: float) -> list[str]:
        """Let time pass, and tell each timer that comes due at its time."""
        until, lines = self.now + seconds, []
        while due := sorted((t for t in self.timers if t.at <= until), key=lambda timer: timer.at):
            self.timers.remove(due[0])
            self.now = due[0].at
            lines += self.tell(TimerFired(due[0].token))
        self.now = until
        return lines

    def state(self, name: str) -> Lifecycle | None:
        return self.tree.state(self.path(name))

    def running(self) -> str:
        """The names of what runs below the root, in start order."""
        statistics = self.tree.statistics().children
        return " ".join(self.name(path) for path, at in statistics.items() if at.state is Lifecycle.RUNNING)

    def path(self, name: str) -> ChildPath:
        return (self.root, *name.split("/")) if name else (self.root,)

    def name(self, path: ChildPath) -> str:
        return "/".join(path[1:]) or self.root

    def _answer(self, effect: Effect) -> Event | None:
        match effect:
            case StartChild(path, _, incarnation):
                name = self.name(path)
                self.incarnations[name] = incarnation
                if name in self.held:
                    return None
                if self.failing[name]:
                    self.failing[name] -= 1
                    return ChildStartFailed(path, "no luck", incarnation)
                return ChildStarted(path, incarnation)
            case StopChild(path, _, _, incarnation) if self.name(path) not in self.held:
                return ChildStopped(path, incarnation)
            case SetTimer():
                self.timers.append(effect)
        return None

    def _line(self, effect: Effect) -> str:
        match effect:
            case StartChild():
                return f"start {self.name(effect.path)}"
            case StopChild():
                return f"stop {self.name(effect.path)}"
            case SetTimer():
                return f"wait {self.name(effect.path)} {effect.at - self.now:.2f}"
            case Restarted():
                return f"restarted {self.name(effect.path)} {effect.attempt}"
            case Down():
                return f"down {self.name(effect.path)} {effect.reason.value}"
            case Gone():
                return f"gone {self.name(effect.path)}"
            case Escalate():
                return f"escalate {self.name(effect.path)}"
