"""What a seed draws: how large the world is, how fast, and what goes wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from ether_actors.agent.scale import Scale
from ether_broker.mailbox.mailbox_limits import Limits
from tests.simulation.hostile import ATTACKS

__all__ = [
    "CHANCES", "Scenario", "Weather", "draw", "draw_ahead", "draw_events", "draw_falls", "draw_links", "draw_more",
    "draw_moves", "draw_priorities", "draw_retries", "draw_scale", "draw_states", "draw_timers", "draw_unwritten",
]  # fmt: skip

FAULTS: Final = (
    "break", "partition", "node", "broker", "freeze", "disk", "stall", "cancel", "leave", "stop",
)  # fmt: skip
"""What can go wrong by itself; `faults` has a method for each."""
CHANCES: Final = {
    "hostile": 0.20,  # sessions that mean harm, each with some of `hostile.ATTACKS`
    "forgetful": 0.30,  # a broker that remembers few of the delegations that have ended
    "again": 0.20,  # requests that are sent once more, at once or long after
    "parents": 0.20,  # plain code that names any parent
    "volatile": 0.20,  # delegations of both durabilities between one pair
    "gc": 0.20,  # the journal's old part is given up
    "access": 0.15,  # an access list that bars some pairs
    "quotas": 0.10,  # bounds of a session that are small enough to be hit
    "clocks": 0.15,  # wall clocks that are set back or forward, with and without a reboot
    "locked": 0.15,  # the journal is locked or read-only, for a broker that runs and for one that starts
    "crowd": 0.02,  # agents by the thousand
}
"""{what: chance that a world has it}; several at once are drawn as often as chance has it."""
_PER_STEP: Final = (
    "ENDED_PER_STEP", "LOOK_UPS_PER_STEP", "PASSED_ON_PER_STEP", "POINTS_PER_STEP", "RELEASED_PER_STEP", "TOLD_PER_STEP",
)  # fmt: skip
"""The shares of a step, which are constants of the supervisor's modules."""
BEHAVIOURS: Final = ("fail", "crash", "hang", "stubborn", "twice", "progress", "forge", "children", "lease")
"""What agents do besides their work; `workload` has them."""


@dataclass(slots=True)
class Weather:
    """How the wire and the disk are."""

    delay: float = 0.0005
    """Seconds that a frame is under way at least."""
    jitter: float = 0.0005
    """Mean of what comes on top."""
    spikes: float = 0.0
    """Chance of a frame that takes up to half a second."""
    had_spikes: bool = False
    repeats: float = 0.0
    """Chance of a frame that comes twice."""
    full: float = 0.0
    """Chance that the broker's socket has no room for a frame."""
    commit: float = 0.001
    """Mean seconds of a commit."""
    stalls: float = 0.0
    """Chance of a commit that takes up to two seconds."""

    @property
    def slowest(self) -> float:
        """Seconds that a frame is under way at most, and a little."""
        return (0.5 if self.had_spikes else self.delay + 2 * self.jitter) + 0.01

    def latency(self, chance: Random) -> float:
        """Seconds that the next frame is under way."""
        if self.spikes and chance.random() < self.spikes:
            return chance.uniform(0.05, 0.5)
        return self.delay + chance.random() * 2 * self.jitter

    def sync(self, chance: Random) -> float:
        """Seconds that the next commit takes."""
        if self.stalls and chance.random() < self.stalls:
            return chance.uniform(0.2, 2.0)
        return self.commit * (0.2 + 1.6 * chance.random())

    def clear_up(self) -> None:
        """Let nothing go wrong any more."""
        self.spikes = self.repeats = self.full = self.stalls = 0.0
        self.commit = min(self.commit, 0.01)


@dataclass(slots=True)
class Scenario:
    """One seed's world."""

    workers: int
    """Nodes with agents."""
    delegators: int
    """Nodes that delegate from plain code."""
    observers: int
    agents: int
    """Agents on each worker."""
    requests: int
    """Delegations that plain code makes, about."""
    storm: float
    """Seconds in which things go wrong."""
    faults: dict[str, float]
    """{kind: mean seconds between two}."""
    behaviours: dict[str, float]
    """{kind: chance that a delegation brings it about}."""
    limits: Limits
    weather: Weather
    durable: bool
    """Whether the broker has a journal."""
    patience: float
    tap_count: int
    tap_interval: float
    places: int
    """`max_concurrency` of the agents."""
    burst: int
    """Delegations that are made at once."""
    timeouts: tuple[float, ...]
    skew: float
    """Seconds that clocks may be apart."""
    moves: bool
    """Whether a broker that is restarted has another zero of its clock, as after a reboot."""
    named: float
    """Chance that a delegation names its agent."""
    falls: float = 0.0
    """Chance that one which does may go to another (FALLTHROUGH)."""
    backlog: int = 0
    """Bytes that a node's link may keep before it is full; 0: as many as it may elsewhere."""
    answer: int = 0
    """Bytes that plain work is answered with; 0: a number."""
    draws: frozenset[str] = frozenset()
    """Which of `CHANCES` it has."""
    hostiles: tuple[tuple[str, ...], ...] = ()
    """The attacks of each hostile session."""
    flood: int = 32
    """Envelopes of one attack."""
    remembered: int = 65_536
    """Ended delegations that the broker remembers."""
    volatile: float = 0.0
    """Chance that a delegation does not wait for the journal."""
    odd_parents: float = 0.0
    """Chance that plain code names some parent."""
    barred: frozenset[tuple[str, str]] = frozenset()
    """(delegator's node, agent) of the pairs that the access list bars; empty: there is no list."""
    crowd: int = 0
    """Agents of the crowd."""
    events: int = 0
    """Events that plain code publishes, about; with some, all agents subscribe."""
    has_listeners: bool = False
    """Whether some of them do nothing else."""
    priorities: float = 0.0
    """Chance that a delegation is not of the usual priority."""
    pile: int = 0
    """Delegations of all priorities that are made for one agent at once."""
    retries: float = 0.0
    """Chance that a delegation has a retry policy."""
    has_timers: bool = False
    """Whether agents act by themselves."""
    scale: Scale | None = None
    """Bounds within which the agents' instances come and go, each agent's on its node."""
    has_states: bool = False
    """Whether agents save what they have done."""
    quotas: dict[str, int] = field(default_factory=dict)
    """{name of a bound in the supervisor: its value here}"""


def draw(chance: Random) -> Scenario:
    """A scenario; each seed has its own mix, and one in eight has no fault at all."""
    is_calm = chance.random() < 0.12
    kinds = [] if is_calm else chance.sample(FAULTS, chance.randint(1, 5))
    if not is_calm and chance.random() < 0.5 and "broker" not in kinds:
        kinds.append("broker")
    weather = Weather(
        delay=chance.choice((0.0001, 0.0005, 0.005, 0.02)),
        jitter=chance.choice((0.0001, 0.001, 0.01)),
        commit=chance.choice((0.0005, 0.002, 0.02, 0.2)),
    )
    if not is_calm:
        weather.spikes = chance.choice((0.0, 0.0, 0.01, 0.05))
        weather.had_spikes = weather.spikes > 0
        weather.repeats = chance.choice((0.0, 0.02, 0.1))
        weather.full = chance.choice((0.0, 0.0, 0.02))
        weather.stalls = chance.choice((0.0, 0.0, 0.02))
    return Scenario(
        workers=chance.randint(1, 3),
        delegators=chance.randint(1, 2),
        observers=chance.choice((0, 1, 1, 2)),
        agents=chance.randint(1, 2),
        requests=chance.choice((20, 60, 120, 200)),
        storm=chance.choice((3.0, 6.0, 10.0)),
        faults={kind: chance.choice((0.7, 2.0, 5.0)) for kind in kinds},
        behaviours={kind: chance.choice((0.02, 0.1, 0.3)) for kind in chance.sample(BEHAVIOURS, chance.randint(0, 5))},
        limits=Limits(mailbox_count=chance.choice((3, 20, 10_000)), window=chance.choice((1, 2, 8, 128))),
        weather=weather,
        durable=chance.random() < 0.93,
        patience=chance.choice((0.0, 0.0, 1.0, 3.0)),
        tap_count=chance.choice((65_536, 65_536, 16)),
        tap_interval=chance.choice((0.0, 0.005)),
        places=chance.choice((1, 1, 3)),
        burst=chance.choice((1, 1, 5, 20)),
        timeouts=chance.choice(((0.3, 1.0, 5.0), (5.0,), (1.0, 3.0), (0.1, 0.2, 8.0))),
        skew=chance.choice((0.0, 1.0, 1000.0)),
        moves=chance.random() < 0.5,
        named=chance.choice((0.0, 0.5, 1.0)),
    )


def draw_more(scenario: Scenario, chance: Random) -> None:
    """Add what only some worlds have; it is drawn apart, so that the rest of a seed stays as it is without.

    Args:
        scenario: as `draw` made it.
        chance: of this seed and of nothing else.
    """
    scenario.draws = draws = frozenset(what for what, likelihood in CHANCES.items() if chance.random() < likelihood)
    for what, pause in (("again", 0.3), ("gc", 1.0), ("clocks", 2.0), ("locked", 3.0)):
        if what in draws:
            scenario.faults[what] = pause * chance.choice((0.5, 1.0, 2.0))
    if "hostile" in draws:
        count = chance.choice((1, 1, 2, 3))
        scenario.hostiles = tuple(tuple(chance.sample(ATTACKS, chance.randint(1, 4))) for _ in range(count))
        scenario.flood = chance.choice((8, 32, 200))
    if "forgetful" in draws:
        scenario.remembered = chance.choice((32, 64))
    if "volatile" in draws:
        scenario.volatile = chance.choice((0.2, 0.5))
    if "parents" in draws:
        scenario.odd_parents = chance.choice((0.1, 0.4))
    if "access" in draws:
        names = [f"asker-{number}" for number in range(scenario.delegators)]
        agents = [
            f"worker-{node}-agent-{number}" for node in range(scenario.workers) for number in range(scenario.agents)
        ]
        pairs = [(name, agent) for name in names for agent in agents]
        scenario.barred = frozenset(chance.sample(pairs, chance.randint(1, max(1, len(pairs) // 2))))
    if "crowd" in draws:
        scenario.crowd = 1_000
    if "quotas" in draws:
        scenario.quotas = {
            "MOST_AGENTS": chance.choice((4, 20)), "MOST_MONITORS": 8, "MOST_DOWN": chance.choice((1, 20)), "_FORGET_AFTER": 2,
            **dict.fromkeys(_PER_STEP, 3),
        }  # fmt: skip
    if (
        "volatile" in draws and "forgetful" not in draws
    ):  # what is lost with a broker is what a slow disk had not got yet
        scenario.weather.commit = chance.choice((scenario.weather.commit, 0.2, 0.5))
        scenario.skew = chance.choice((scenario.skew, 5.0, 60.0))


def draw_falls(scenario: Scenario, chance: Random) -> None:
    """Add that named work may fall through, in every third world; drawn apart, as `draw_more`."""
    scenario.falls = chance.choice((0.0, 0.0, 0.5)) if scenario.named else 0.0
    if scenario.falls:
        scenario.draws |= {"falls"}


def draw_links(scenario: Scenario, chance: Random) -> None:
    """Add links that some outcomes fill while the broker is away or its disk is slow, in some worlds; drawn apart."""
    if chance.random() < 0.15:
        scenario.backlog = chance.choice((300, 1_000, 3_000))
        scenario.answer = chance.choice((300, 1_000, 5_000))
        scenario.faults.setdefault(chance.choice(("broker", "disk", "locked")), chance.choice((1.0, 2.0)))
        scenario.draws |= {"narrow"}


def draw_unwritten(scenario: Scenario, chance: Random) -> None:
    """Add a journal for which little may wait while it cannot be written, in some worlds where it fails; drawn apart."""
    if {"disk", "locked"} & scenario.faults.keys() and chance.random() < 0.3:
        scenario.quotas = {**scenario.quotas, "MOST_UNWRITTEN": chance.choice((0, 2_048, 20_000))}
        scenario.draws |= {"unwritten"}


def draw_ahead(scenario: Scenario, chance: Random) -> None:
    """Add a journal that little may be ahead of, and that stalls, in some durable worlds; drawn apart.

    Not where there are hostile peers: those who wait for the journal there would seem to wait for them.
    """
    if scenario.durable and not scenario.hostiles and chance.random() < 0.15:
        most = chance.choice((2_000, 8_000, 32_000))
        scenario.quotas = {
            **scenario.quotas, "MOST_AHEAD": most, "SHARED_AHEAD": most // 4, "OWN_AHEAD": most // 8
        }  # fmt: skip
        scenario.faults.setdefault("stall", 1.0)
        scenario.draws |= {"ahead"}


def draw_events(scenario: Scenario, chance: Random) -> None:
    """Add events, in every third world; drawn apart."""
    if chance.random() < 0.33:
        scenario.events = chance.choice((5, 20, 60))
        scenario.has_listeners = chance.random() < 0.5
        scenario.draws |= {"events"}


def draw_states(scenario: Scenario, chance: Random) -> None:
    """Add states of agents, in every third world in which each has one place; drawn apart."""
    if scenario.places == 1 and chance.random() < 0.4:
        scenario.has_states = True
        scenario.draws |= {"states"}


def draw_priorities(scenario: Scenario, chance: Random) -> None:
    """Add delegations of other priorities, in every fifth world; drawn apart."""
    if chance.random() < 0.2:
        scenario.priorities = chance.choice((0.3, 0.7))
        scenario.pile = chance.choice((0, 60, 150))
        if scenario.pile and chance.random() < 0.5:
            limits = scenario.limits
            scenario.limits = replace(limits, mailbox_count=10_000, window=min(limits.window, 8))
        scenario.draws |= {"priorities"}


def draw_retries(scenario: Scenario, chance: Random) -> None:
    """Add retry policies, in every fourth world; drawn apart."""
    if chance.random() < 0.25:
        scenario.retries = chance.choice((0.2, 0.6))
        scenario.draws |= {"retries"}


def draw_timers(scenario: Scenario, chance: Random) -> None:
    """Add agents that act by themselves, in every fourth world; drawn apart."""
    if chance.random() < 0.25:
        scenario.has_timers = True
        scenario.draws |= {"timers"}


def draw_scale(scenario: Scenario, chance: Random) -> None:
    """Add that agents scale, in every third world whose agents may; drawn apart."""
    if not (scenario.events or scenario.has_states or scenario.has_timers) and chance.random() < 0.33:
        least = chance.choice((1, 1, 2))
        most, per, cooldown = least + chance.choice((1, 3)), chance.choice((1, 2, 4)), chance.choice((0.3, 1.0, 3.0))
        scenario.scale = Scale(max=most, min=least, per=per, cooldown=cooldown)
        scenario.draws |= {"scale"}


def draw_moves(scenario: Scenario, chance: Random) -> None:
    """Add agents that move from one node to another, in every third world that has two and whose agents do not scale."""
    if scenario.scale is None and scenario.workers > 1 and chance.random() < 0.33:
        scenario.faults["move"] = chance.choice((0.7, 2.0))
        if chance.random() < (0.3 if scenario.places == 1 else 0.8):  # what had begun is ruled on in several steps
            scenario.quotas = {**scenario.quotas, "POINTS_PER_STEP": 3}
        if chance.random() < 0.3:  # what moves waits for what moves
            scenario.behaviours = {**scenario.behaviours, "children": 0.3}
        scenario.draws |= {"moves"}
