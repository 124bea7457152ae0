"""The plan of a campaign: who is struck when, and how. The same settings and seed make the same plan."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from ether.lab.torture.settings import TortureSettings, Victim

__all__ = [
    "BROKER", "Action", "Fault", "FaultPlan", "Strike", "delegator_names", "make_faults", "make_plan", "node_names",
    "observer_names",
]  # fmt: skip

BROKER: Final = "broker"
_SHORTEST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 6.0
"""Seconds; a node is given up after 3, so some of the paused come back as strangers."""
_LONGEST_STOP: Final = 20.0
"""Seconds of one pause of the broker in five: everybody gives everybody up meanwhile."""
_LONGEST_FAULT: Final = 6.0
_CALM: Final = (1.0, 8.0)
"""Seconds between two faults of the disk."""
_WEIGHTS: Final = {Victim.BROKER: 3, Victim.NODE: 5, Victim.DELEGATOR: 3, Victim.OBSERVER: 2, Victim.CLUSTER: 1}


@unique
class Action(StrEnum):
    """A way in which a campaign strikes a process.

    Whichever ends the process, it is started again.
    """

    KILL = "kill"
    """SIGKILL."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT some time later."""
    RESTART = "restart"
    """SIGTERM: an orderly end."""


@unique
class Fault(StrEnum):
    """A fault of the disk under a campaign's journal, which ends after a while."""

    FILL = "fill"
    """It is full to the last byte."""
    LOCK = "lock"
    """Another program holds SQLite's lock on the journal."""
    PROTECT = "protect"
    """It is read-only for whoever opens a file from now on."""
    REMOVE = "remove"
    """The journal is not where it was, and then it is there again."""
    FAIL = "fail"
    """Each write of the broker that has the journal gives an error of the disk."""


_ACTIONS: Final = {Action.KILL: 5, Action.PAUSE: 3, Action.RESTART: 2}


@dataclass(frozen=True, slots=True)
class Strike:
    """One entry of the plan."""

    number: int
    at: float
    """Seconds from the beginning of the load."""
    action: Action
    victim: Victim
    names: tuple[str, ...]
    """The processes; several only for a whole cluster."""
    seconds: float = 0.0
    """Of a pause."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault of the disk, as planned."""

    number: int
    at: float
    """Seconds from the beginning of the load."""
    fault: Fault
    seconds: float


def node_names(settings: TortureSettings) -> tuple[str, ...]:
    """The nodes that host agents."""
    return tuple(f"node-{number + 1}" for number in range(settings.nodes))


def delegator_names(settings: TortureSettings) -> tuple[str, ...]:
    """The processes that delegate."""
    return tuple(f"delegator-{number + 1}" for number in range(settings.delegators))


def observer_names(settings: TortureSettings) -> tuple[str, ...]:
    """The processes that observe."""
    return tuple(f"observer-{number + 1}" for number in range(settings.observers))


def make_plan(settings: TortureSettings) -> tuple[Strike, ...]:
    """Draw the strikes, in the order of their times."""
    dice = random.Random(f"plan/{settings.seed}")  # noqa: S311  a plan is no secret
    targets = _targets(settings)
    if not targets:
        return ()
    times = sorted(dice.uniform(0.0, settings.seconds) for _ in range(settings.kills or 0))
    return tuple(_strike(number, at, targets, dice) for number, at in enumerate(times, 1))


def make_faults(settings: TortureSettings, known: tuple[Fault, ...]) -> tuple[FaultPlan, ...]:
    """Draw the faults of the disk, one after the other; none unless the settings ask for them.

    Args:
        settings: of the campaign.
        known: those that are possible here.
    """
    dice = random.Random(f"faults/{settings.seed}")  # noqa: S311  a plan is no secret
    found: list[FaultPlan] = []
    at = dice.uniform(*_CALM)
    while settings.journal_faults and at < settings.seconds:
        seconds = dice.uniform(_SHORTEST_PAUSE, _LONGEST_FAULT)
        found.append(FaultPlan(len(found) + 1, at, dice.choice(known), seconds))
        at += seconds + dice.uniform(*_CALM)
    return tuple(found)


def _targets(settings: TortureSettings) -> dict[Victim, list[tuple[str, ...]]]:
    """{victim: what one strike hits, each of the choices}."""
    nodes = node_names(settings)
    choices: dict[Victim, list[tuple[str, ...]]] = {
        Victim.BROKER: [(BROKER,)],
        Victim.NODE: [(name,) for name in nodes],
        Victim.DELEGATOR: [(name,) for name in delegator_names(settings)],
        Victim.OBSERVER: [(name,) for name in observer_names(settings)],
        Victim.CLUSTER: [(BROKER, *nodes)],
    }
    return {victim: names for victim, names in choices.items() if victim in settings.victims and names}


def _strike(number: int, at: float, targets: dict[Victim, list[tuple[str, ...]]], dice: random.Random) -> Strike:
    victim = dice.choices(list(targets), [_WEIGHTS[victim] for victim in targets])[0]
    names = dice.choice(targets[victim])
    action = Action.KILL if victim is Victim.CLUSTER else dice.choices(list(_ACTIONS), list(_ACTIONS.values()))[0]
    seconds = dice.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE) if action is Action.PAUSE else 0.0
    if seconds and victim is Victim.BROKER and not dice.randrange(5):
        seconds = dice.uniform(_LONGEST_PAUSE, _LONGEST_STOP)
    return Strike(number, at, action, victim, names, seconds)
