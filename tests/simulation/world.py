"""One seed's world: it is built, moved, healed, and has to come to rest."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any, Final

import ether.node.agents.agent_host
import ether.node.attached_observers
import ether.node.connection.control_calls
import ether.node.monitors
from ether_actors.agent.agent import free_names
from ether_actors.delegator.handle import Handle
from ether_broker.wire.frame import Kind, read_header
from tests.simulation.auditor import Auditor, Violation, has_work
from tests.simulation.blocking import Blocking, VirtualTime
from tests.simulation.broker import Broker
from tests.simulation.disk import Disk
from tests.simulation.endless import Endless
from tests.simulation.faults import Storm
from tests.simulation.hostile import Hostile
from tests.simulation.member import Life, Member, Watcher
from tests.simulation.network import Network
from tests.simulation.raw import Crowd, RawPeer
from tests.simulation.retries import ENDINGS, draw_policy
from tests.simulation.scenario import (
    draw,
    draw_ahead,
    draw_events,
    draw_falls,
    draw_links,
    draw_more,
    draw_moves,
    draw_priorities,
    draw_retries,
    draw_scale,
    draw_states,
    draw_timers,
    draw_unwritten,
)
from tests.simulation.timeline import BEGIN, SkewedClock, Timeline
from tests.simulation.workload import KEEN, ONCE, Plan

__all__ = ["Report", "World", "simulate"]

FAIR: Final = 4
"""How many times as long as without hostile sessions an honest frame may wait for its turn, in envelopes of others."""
_SHORT: Final = 256
"""Envelopes that are no wait worth a word: what one step handles of the cheapest kind."""
REST: Final = 60.0
"""Seconds after the storm in which the world has to have come to rest."""
_ON: Final = 9.0
"""Seconds after the storm in which timers go on: who was frozen last has been thawed for long."""
_LOOK: Final = 0.5
_SETTLE: Final = 1.5
"""Seconds that the world has to stay at rest: longer than between two heartbeats."""
_GONE: Final = 3.0
"""Seconds that a node takes to look at what scales, and an instance to leave."""
_WITH_IDS: Final = (ether.node.connection.control_calls, ether.node.attached_observers, ether.node.monitors)
_WITH_TIME: Final = (ether.node.connection.control_calls, ether.node.agents.agent_host)


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a seed."""

    seed: int
    digest: str
    """Of everything that happened: the same seed has the same."""
    delegations: int
    seconds: float
    """Of virtual time."""
    violation: str
    """Empty when every invariant held."""
    invariant: str = ""
    longest_wait: int = 0
    """Envelopes that were handled while a frame of an honest node waited for its turn, at most."""


class World:
    """Everything in it happens in one thread, in one order.

    Args:
        seed: decides everything.
        is_loud: whether to print what happens.
        is_plain: whether nothing of `scenario.CHANCES` is drawn.
        is_peaceful: whether the hostile sessions of the seed stay away, to compare with.
        has_fast_path: whether its brokers rule on ordinary envelopes by `FastPath`.
    """

    def __init__(
        self, seed: int, *, is_loud: bool = False, is_plain: bool = False, is_peaceful: bool = False,
        has_fast_path: bool = True,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.is_loud = is_loud
        self.is_peaceful = is_peaceful
        self.has_fast_path = has_fast_path
        self.chance = Random(seed)
        self.scenario = scenario = draw(self.chance)
        self._more = Random(f"{seed}, more")  # of its own, so that the rest of a seed is the same without
        if not is_plain:
            draw_more(scenario, self._more)
        self._falling = Random(f"{seed}, falls")
        if not is_plain:
            draw_falls(scenario, self._falling)
            draw_links(scenario, Random(f"{seed}, links"))
            draw_unwritten(scenario, Random(f"{seed}, unwritten"))
            draw_ahead(scenario, Random(f"{seed}, ahead"))
            draw_events(scenario, Random(f"{seed}, events"))
            draw_states(scenario, Random(f"{seed}, states"))
            draw_priorities(scenario, Random(f"{seed}, priorities"))
            draw_retries(scenario, Random(f"{seed}, retries"))
            draw_timers(scenario, Random(f"{seed}, timers"))
            draw_scale(scenario, Random(f"{seed}, scale"))
            draw_moves(scenario, Random(f"{seed}, moves"))
        self.ticking = Random(f"{seed}, what timers do")
        self.retrying = Random(f"{seed}, which retries")
        self._priorities = Random(f"{seed}, which priorities")
        self.moving = Random(f"{seed}, who moves")
        self.piler = ""
        """Who makes the pile."""
        self._events = Random(f"{seed}, what events say")
        self._published = 0
        self.timeline = Timeline()
        self.disk = Disk()
        self.network = Network(self.timeline, scenario.weather, Random(self.chance.random()))
        self.plans: list[Plan] = []
        self.by_id: dict[bytes, Plan] = {}
        self.disturbed_until = 0.0
        """Until when something may be late through no fault of the bus."""
        self._trace = hashlib.sha256()
        self._ids = 0
        self.blocking: dict[Blocking, None] = {}
        """Calls of processes that wait."""
        self.processes = 0
        """Lives of members that have begun."""
        self.instances: Counter[bytes] = Counter()
        """Of each agent, that were made."""
        self._orders: dict[str, int] = {}
        self.stopped: set[str] = set()
        """Agents that were stopped for good at some time."""
        self.honest: set[bytes] = set()
        """Incarnations of the nodes that mean well."""
        self.auditor = Auditor(self)
        self.broker = Broker(self)
        self.members = self._make_members()
        self.agents = [agent for member in self.members for agent in member.agents]
        """All that there are, wherever they are now."""
        instances = {name for agent in self.agents for name in self.names_of(agent)}
        self.honest_names = {name.encode() for name in instances | {member.name for member in self.members}}
        if scenario.scale is not None:
            self.stopped |= instances
        self.raws = self._make_raws()

    def _make_raws(self) -> list[RawPeer]:
        scenario, chance = self.scenario, self._more
        peers: list[RawPeer] = []
        for number, attacks in enumerate(scenario.hostiles):
            hostile = Hostile(self, f"evil-{number}", attacks, scenario.flood, Random(chance.random()))
            if self.is_peaceful:
                hostile.end()
            peers.append(hostile)
        if scenario.crowd:
            peers.append(Crowd(self, "crowd", [], Random(chance.random())))
        return peers

    def _make_members(self) -> list[Member]:
        scenario, chance = self.scenario, self.chance
        names = [(f"worker-{number}", False) for number in range(scenario.workers)]
        names += [(f"asker-{number}", True) for number in range(scenario.delegators)]
        names += [(f"watcher-{number}", False) for number in range(scenario.observers)]
        members = []
        for name, is_delegating in names:
            clock = SkewedClock(
                self.timeline, chance.uniform(0.0, 1e6), 1.0 + chance.uniform(-5e-5, 5e-5),
                chance.uniform(-1, 1) * scenario.skew,
            )  # fmt: skip
            agents = [f"{name}-agent-{number}" for number in range(scenario.agents)] if name[0] == "w" else []
            watchers = []
            if name.startswith("watcher"):
                agents = []
                pace = chance.choice((0.0001, 0.01, 0.2))
                watchers = [Watcher(name, pace, self.auditor.saw, self.auditor.missed)]
            members.append(Member(self, name, clock, agents, watchers, is_delegating=is_delegating))
        return members

    # -- what its parts need -------------------------------------------------------------------------------------

    def names_of(self, agent: str) -> list[str]:
        """The names that an agent's instances may have."""
        return list(islice(free_names(agent, ()), 1 if self.scenario.scale is None else self.scenario.scale.max))

    def make_id(self) -> bytes:
        """16 bytes that count up, in the form of a UUIDv7 that was made now."""
        self._ids += 1
        made = int((BEGIN + self.timeline.now) * 1000)
        return (made << 80 | 0x7 << 76 | 0b10 << 62 | self._ids).to_bytes(16)

    def plan(self, source: str, life: int, *, is_child: bool = False) -> Plan:
        """Draw a delegation."""
        scenario, chance = self.scenario, self.chance
        order = self.next_order(source)
        agents = [name for agent in self.agents for name in self.names_of(agent)[:2]]
        target = chance.choice(agents) if chance.random() < scenario.named else None
        behaviour = ""
        for kind, likelihood in scenario.behaviours.items():
            if chance.random() < likelihood:
                behaviour = kind
        if is_child and behaviour == "children" and chance.random() < 0.7:
            behaviour = ""
        plan = Plan(
            number=len(self.plans), source=source, order=order, target=target,
            capability=chance.choice((ONCE, KEEN)), behaviour=behaviour,
            seconds=chance.choice((0.0, 0.0, 0.001, 0.02, 0.2)), timeout=chance.choice(scenario.timeouts), life=life,
            is_child=is_child,
        )  # fmt: skip
        if not is_child:
            self._make_odd(plan)
        if scenario.priorities and not is_child and self._priorities.random() < scenario.priorities:
            plan.priority = self._priorities.choice(("low", "high"))
        if scenario.retries and self.retrying.random() < scenario.retries:
            plan.policy = draw_policy(self.retrying)
            can_be_named = scenario.durable and not {"forgetful", "gc"} & scenario.draws  # else it may be forgotten
            is_plain = not (is_child or plan.is_volatile or plan.parent)
            plan.is_named = can_be_named and is_plain and self.retrying.random() < 0.5
            plan.behaviour = self.retrying.choice((*ENDINGS, behaviour if is_child else "children"))
        self.plans.append(plan)
        return plan

    def attempt(self, first: Plan, life: Life) -> Plan:
        """A further attempt at a delegation with a retry policy: it may go otherwise."""
        plan = replace(
            first, number=len(self.plans), order=self.next_order(first.source), request_id=b"", starts={}, works=[], ends=[],
            behaviour=self.retrying.choice(ENDINGS),
        )  # fmt: skip
        self.plans.append(plan)
        if not plan.is_child:
            life.member.plans.append(plan)
        return plan

    def tick(self, agent: str, capability: str, life: Life) -> Plan:
        """Draw what a timer's run does."""
        chance = self.ticking
        plan = Plan(
            number=len(self.plans), source=agent, order=self.next_order(agent), target=agent, capability=capability,
            behaviour=chance.choice(("", "", "", "", "later", "fail", "crash", "hang", "progress")),
            seconds=chance.choice((0.0, 0.0, 0.01, 0.1, 0.5, 1.5)), timeout=1.0, life=life.number, is_child=True,
        )  # fmt: skip
        self.plans.append(plan)
        return plan

    def heap(self, source: str, target: str, life: int) -> Plan:
        """Draw one of the many delegations that are made for one agent at once."""
        chance = self._priorities
        plan = Plan(
            number=len(self.plans), source=source, order=self.next_order(source), target=target,
            capability=chance.choice((ONCE, KEEN)), behaviour="", seconds=chance.choice((0.0, 0.0, 0.002)), timeout=5.0,
            life=life, priority=chance.choice(("low", "normal", "high")),
        )  # fmt: skip
        self.plans.append(plan)
        return plan

    def lasting(self, source: str, target: str, life: int) -> Plan:
        """Draw a delegation that waits longer than the name of an agent that moves is kept."""
        chance = self.moving
        plan = Plan(
            number=len(self.plans), source=source, order=self.next_order(source), target=chance.choice((target, target, None)),
            capability=chance.choice((ONCE, KEEN)), behaviour="", seconds=chance.choice((0.0, 0.0, 0.1)), timeout=40.0,
            life=life,
        )  # fmt: skip
        self.plans.append(plan)
        return plan

    def next_order(self, source: str) -> int:
        """The place of the next delegation among all of a delegator's."""
        self._orders[source] = order = self._orders.get(source, 0) + 1
        return order

    def _make_odd(self, plan: Plan) -> None:
        """Draw what only some worlds have."""
        scenario, chance = self.scenario, self._more
        plan.falls = bool(scenario.falls and plan.target) and self._falling.random() < scenario.falls
        plan.is_volatile = scenario.volatile > 0 and chance.random() < scenario.volatile
        if scenario.odd_parents and chance.random() < scenario.odd_parents:
            others = [other.request_id for other in self.plans[-20:] if other.request_id]
            plan.parent = chance.choice([*others, self.make_id()])

    def asked(self, plan: Plan, handle: Handle) -> None:
        """Take note of a delegation that was sent."""
        plan.request_id = handle.key
        plan.sent = handle._sent
        plan.deadline = self.timeline.now + plan.timeout
        self.by_id[plan.request_id] = plan
        self.note("asked", plan.number)
        handle.add_done_callback(lambda done: self.auditor.ended(plan, plan.life, done))

    def event(self, *, depth: int = 0) -> tuple[str, dict[str, Any], float, bool]:
        """Draw an event: topic, data, timeout, whether it does not wait for the journal."""
        chance = self._events
        self._published += 1
        topic = chance.choice(("jobs.new", "jobs.keen", "jobs.keen.new", "jobs.keen.very.new", "others.new"))
        behaviour = chance.choice(("", "", "", "fail", "crash", "hang", "publish", "progress"))
        data = {"number": self._published, "behaviour": behaviour, "depth": depth,
                "seconds": chance.choice((0.0, 0.0, 0.01, 0.2))}  # fmt: skip
        return topic, data, chance.choice((0.5, 2.0, 8.0)), chance.random() < 0.2

    @property
    def subscribers(self) -> set[bytes]:
        """The agents that subscribe to `jobs.*`, when they are there."""
        return {name.encode() for name in self.agents} if self.scenario.events else set()

    def note(self, what: str, *details: Any) -> None:
        """Add to the trace."""
        if details and type(details[0]) is bytes:
            details = self._describe(details[0])
        line = f"{self.timeline.now:.6f} {what} {details}"
        self._trace.update(line.encode())
        if self.is_loud:
            print(line)

    def whisper(self, envelope: bytes) -> None:
        """Print an event that is not part of the trace, as it names things by ids that are drawn elsewhere."""
        if self.is_loud:
            print(f"{self.timeline.now:.6f} passed {self._describe(envelope)}")

    def _describe(self, envelope: bytes) -> tuple[Any, ...]:
        header = read_header(envelope)
        if header.kind == Kind.EVENT:
            from ether_broker.envelope.payload import unpack

            body = unpack(envelope[header.body :])
            return tuple(f"{key}={value}" for key, value in body.items() if key not in {"manifest", "incarnation"})
        plan = self.by_id.get(header.request_id)
        name = int.from_bytes(header.request_id[8:]) & 0xFFFFFFFF if plan is None else f"#{plan.number}"
        return (
            name, Kind(header.kind).name, header.status, header.attempt, header.flags, header.source.decode(),
            header.target.decode(), header.capability.decode(),
        )  # fmt: skip

    # -- its life ------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Live, and say what became of it."""
        try:
            self._live()
        except Violation as found:
            self.auditor.violation = self.auditor.violation or found
        except Endless as found:
            self.auditor.violation = Violation("bounded steps", str(found))
        except Exception as bug:  # whoever's it is, the seed shows it again
            last = "".join(traceback.format_exception(bug)[-3:])
            self.auditor.violation = Violation("no bug", last)
        finally:
            for call in list(self.blocking):
                call.abandon()
        violation = self.auditor.violation
        self._trace.update(str(violation).encode())
        return Report(
            self.seed, self._trace.hexdigest()[:16], len(self.plans), self.timeline.now,
            "" if violation is None else str(violation), "" if violation is None else violation.invariant,
            self.auditor.waits.longest,
        )  # fmt: skip

    def _live(self) -> None:
        scenario = self.scenario
        self.broker.start()
        for member in self.members:
            member.start()
        self._move(0.5)
        storm_end = 0.5 + scenario.storm
        self._schedule_work(storm_end)
        Storm(self).begin(storm_end)
        if scenario.weather.stalls or scenario.weather.spikes:
            self.disturbed_until = storm_end + 5.0
        self._move(storm_end)
        scenario.weather.clear_up()
        for raw in self.raws:
            raw.end()
        for member in self.members:
            for watcher in member.watchers:
                watcher.pace = 0.0001
        if scenario.has_timers:
            self._move(storm_end + _ON)
            self.auditor.timers.end()
        why = self._come_to_rest(storm_end + REST)
        if not why and (scale := scenario.scale) is not None:  # what is too many goes, and nobody reconnects meanwhile
            self._move(self.timeline.now + (scale.max - scale.min) * scale.cooldown + _GONE)
            why = self._come_to_rest(self.timeline.now + REST)
        if why:
            self.auditor.fail("liveness", f"no rest {REST:g} s after the storm: {why}")
        else:
            self.auditor.finish()
        self._stop_at_violation()

    def _come_to_rest(self, limit: float) -> str:
        """Live on until nothing is to come any more; what still is at that time, or an empty text."""
        why = self._unrest()
        is_settled = False
        while not is_settled and self.timeline.now < limit:
            is_settled = not why  # and what was under way, such as acknowledgements, has arrived
            self._move(self.timeline.now + (_LOOK if why else _SETTLE))
            why = self._unrest()
            is_settled &= not why
        return why

    def _schedule_work(self, end: float) -> None:
        scenario, chance = self.scenario, self.chance
        askers = [member for member in self.members if member.is_delegating]
        for _ in range(max(1, scenario.requests // scenario.burst)):
            member, when = chance.choice(askers), chance.uniform(0.5, end)
            self.timeline.at(when, lambda member=member: self._ask(member))  # type: ignore[misc]

        if scenario.pile:
            piler, when = self._priorities.choice(askers), self._priorities.uniform(0.5, end)
            target = self._priorities.choice(self.agents)
            self.timeline.at(when, lambda: self._pile(piler, target))
            self.piler = piler.name

        events = self._events
        for _ in range(scenario.events):
            member, when = events.choice(askers), events.uniform(0.5, end)
            self.timeline.at(when, lambda member=member: self._publish(member))  # type: ignore[misc]

    def _pile(self, member: Member, target: str) -> None:
        life = member.life
        if life is None or not member.is_in:
            return

        def ask() -> None:
            for _ in range(0 if life.is_leaving else self.scenario.pile):
                plan = self.heap(member.name, target, life.number)
                life.ask(plan)
                member.plans.append(plan)

        life.run(ask)

    def _publish(self, member: Member) -> None:
        life = member.life
        if life is not None and member.is_in:
            life.run(lambda: None if life.is_leaving else life.publish(self.event(), None, member.name))

    def _ask(self, member: Member) -> None:
        life = member.life
        if life is None or not member.is_in:
            return

        def ask() -> None:
            if life.is_leaving:
                return
            for _ in range(self.scenario.burst):
                plan = self.plan(member.name, life.number)
                life.ask(plan)
                member.plans.append(plan)

        life.run(ask)

    def _move(self, end: float) -> None:
        while self.timeline.step(end):
            self._stop_at_violation()

    def _stop_at_violation(self) -> None:
        if self.auditor.violation is not None:
            raise self.auditor.violation

    def _unrest(self) -> str:
        """What is still to come; empty at rest."""
        supervisor = self.broker.supervisor
        if supervisor is None:
            return "the broker is down"
        for member in self.members:
            if not member.is_in or supervisor.state.session_table.find(member.name) is None:
                return f"{member.name} is not in"
            if member.life is not None and not member.life.is_reachable:
                return f"{member.name} is cut off"
            if member.owed():
                return f"{member.name} waits for {self.auditor.name(member.owed()[0].request_id)}"
        if unrest := self.auditor.publications.unrest() or self.auditor.retries.unrest():
            return unrest
        state = supervisor.state
        if len(state.ledger) or self.auditor.open:
            return f"{len(state.ledger)} delegations have no outcome"
        if any(has_work(agent) for agent in state.registry.agents):
            return "mailboxes are not empty"
        if not self.scenario.durable:
            return ""
        if state.tap.next != self.disk.next:
            return "the journal is behind"
        behind = [
            watcher for member in self.members for watcher in member.watchers if watcher.position != self.disk.next
        ]
        if behind:
            return f"{behind[0].name} is at {behind[0].position} of {self.disk.next}"
        under_way = self.auditor.answers.missing()
        return f"the answer to {self.auditor.name(under_way[0])} is under way" if under_way else ""


class _Ear(logging.Handler):
    """Hears of bugs that the product catches and logs."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Take the exception for a violation."""
        if record.exc_info:
            self._world.auditor.violation = self._world.auditor.violation or _bug(record)


def _bug(record: logging.LogRecord) -> Violation:
    assert record.exc_info
    last = traceback.format_exception(*record.exc_info)
    return Violation("no bug", f"{record.getMessage()}: {''.join(last[-3:])}")


@contextlib.contextmanager
def _quiet(world: World) -> Iterator[None]:
    """Let ids count up, and hear what is logged instead of printing it."""
    before = [module.new_id for module in _WITH_IDS]
    root = logging.getLogger("ether")
    handlers, level, propagate = root.handlers[:], root.level, root.propagate
    ears = [logging.getLogger(f"ether.{name}") for name in ("supervisor", "link", "loop", "pool", "retry")]
    ear = _Ear(world)
    root.propagate, root.handlers = False, [logging.NullHandler()]
    root.setLevel(logging.ERROR)
    for logger in ears:
        logger.addHandler(ear)
    for module in _WITH_IDS:
        module.new_id = world.make_id  # type: ignore[attr-defined]
    for module in _WITH_TIME:
        module.time = VirtualTime  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, make in zip(_WITH_IDS, before, strict=True):
            module.new_id = make  # type: ignore[attr-defined]
        for module in _WITH_TIME:
            module.time = time  # type: ignore[attr-defined]
        for logger in ears:
            logger.removeHandler(ear)
        root.handlers, root.propagate = handlers, propagate
        root.setLevel(level)


@contextlib.contextmanager
def _bounds(quotas: dict[str, int]) -> Iterator[None]:
    """Let the bounds of a session be others, wherever the product has taken them to."""
    homes = [module for name, module in sys.modules.items() if name.startswith("ether_actors.")]
    before = [(module, name, getattr(module, name)) for module in homes for name in quotas if hasattr(module, name)]
    for module, name, _ in before:
        setattr(module, name, quotas[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def simulate(
    seed: int, *, is_loud: bool = False, is_plain: bool = False, is_peaceful: bool = False, has_fast_path: bool = True
) -> Report:  # fmt: skip
    """Live through one seed."""
    world = World(
        seed, is_loud=is_loud, is_plain=is_plain, is_peaceful=is_peaceful, has_fast_path=has_fast_path
    )  # fmt: skip
    with _quiet(world), _bounds(world.scenario.quotas):
        report = world.run()
    if not world.scenario.hostiles or is_peaceful or report.violation or report.longest_wait <= FAIR * _SHORT:
        return report
    without = simulate(seed, is_peaceful=True).longest_wait
    if report.longest_wait <= FAIR * max(without, _SHORT):
        return report
    told = (
        f"a frame of an honest node waited for {report.longest_wait} envelopes, and {without} without the hostile ones"
    )
    return replace(report, violation=f"fairness: {told}", invariant="fairness")
