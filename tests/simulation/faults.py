"""Who breaks what, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ether_broker.errors import JournalLocked, JournalReadOnly
from tests.simulation.member import Life, Member

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Storm"]

AFTERMATH = 3.5
"""Seconds after a fault in which the bus may still be busy with it: a silent peer is given up after 3 s."""


class Storm:
    """Faults of the kinds and at the rates that the scenario drew, until it is over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self._end = 0.0

    def begin(self, end: float) -> None:
        """Break things until a time."""
        self._end = end
        for kind, pause in self._world.scenario.faults.items():
            self._next(getattr(self, f"_{kind}"), kind, pause)

    def _next(self, strike: Callable[[], None], kind: str, pause: float) -> None:
        world = self._world
        when = world.timeline.now + self._chance.expovariate(1.0 / pause)
        if when >= self._end:
            return

        def happen() -> None:
            world.note("fault", kind)
            strike()
            self._next(strike, kind, pause)

        world.timeline.at(when, happen)

    def _disturb(self, seconds: float) -> None:
        world = self._world
        world.disturbed_until = max(world.disturbed_until, world.timeline.now + seconds + AFTERMATH)

    def _someone(self) -> Member | None:
        there = [member for member in self._world.members if member.is_in]
        return self._chance.choice(there) if there else None

    def _somebody(self) -> Life | None:
        member = self._someone()
        return member.life if member is not None else None

    # -- kinds ---------------------------------------------------------------------------------------------------

    def _break(self) -> None:
        """A connection breaks; or only one end knows, until the other has been silent for long enough."""
        life, chance = self._somebody(), self._chance
        if life is None:
            return
        longest = chance.choice((0.0, 0.05, 3.0))
        self._disturb(longest)
        for connection in life.connections():
            if chance.random() < 0.6:
                self._world.network.broke(
                    connection, node_sees=chance.random() * longest, broker_sees=chance.random() * longest
                )  # fmt: skip

    def _partition(self) -> None:
        life, chance = self._somebody(), self._chance
        if life is None:
            return
        seconds = chance.choice((0.05, 0.3, 1.0, 2.5, 3.5, 6.0))
        up, down = chance.choice(((True, True), (True, False), (False, True)))
        self._disturb(seconds)
        self._world.network.partition(life, seconds, up=up, down=down)

    def _node(self) -> None:
        self._kill(self._someone())

    def _kill(self, member: Member | None) -> None:
        chance = self._chance
        if member is None or member.life is None:
            return
        seconds = chance.choice((0.02, 0.3, 2.0, 5.0))
        self._disturb(seconds)
        member.life.crash(chance.choice((0.0, 0.001, 3.0)))
        self._world.timeline.after(seconds, member.start)

    def _broker(self) -> None:
        seconds = self._chance.choice((0.01, 0.3, 1.0, 4.0, 11.0))
        self._disturb(seconds + 10.0)
        self._world.broker.crash()
        self._world.timeline.after(seconds, self._world.broker.start)

    def _freeze(self) -> None:
        life = self._somebody()
        if life is None:
            return
        seconds = self._chance.choice((0.2, 1.0, 2.9, 3.3, 6.0))
        self._disturb(seconds)
        life.freeze(seconds)
        if seconds > AFTERMATH:  # libzmq's own thread stands still too
            for connection in life.connections():
                self._world.network.broke(connection, node_sees=seconds, broker_sees=3.0)

    def _disk(self) -> None:
        disk, seconds = self._world.disk, self._chance.choice((0.1, 0.7, 3.0))
        disk.is_broken = True
        self._disturb(seconds + 1.0)

        def mend() -> None:
            disk.is_broken = False

        self._world.timeline.after(seconds, mend)

    def _stall(self) -> None:
        """The disk is slow; where little may be ahead of the journal, its index falls behind too."""
        weather, seconds = self._world.scenario.weather, self._chance.choice((0.5, 2.0))
        before = weather.commit
        if before >= 0.5:
            return
        weather.commit = 0.5
        self._disturb(seconds + 2.0)

        def recover() -> None:
            weather.commit = min(weather.commit, before)

        self._world.timeline.after(seconds, recover)
        if "ahead" in self._world.scenario.draws:
            self._world.disk.is_index_behind = True
            self._world.timeline.after(0.75 * seconds, self._world.disk.index)

    def _locked(self) -> None:
        """Another process has the journal, or nobody may write it; a broker that is started meanwhile does not come up."""
        disk, seconds = self._world.disk, self._chance.choice((0.1, 1.0, 4.0))
        disk.lock(self._chance.choice((JournalLocked, JournalReadOnly)))
        self._disturb(seconds + 2.0)
        if self._chance.random() < 0.5:
            self._broker()
        self._world.timeline.after(seconds, disk.unlock)

    def _again(self) -> None:
        """Somebody sends once more what it had sent, however long ago; it may have ended and been forgotten."""
        member = self._someone()
        world = self._world
        if member is None or member.life is None or not world.scenario.durable:
            return
        known = (world.disk.outcomes, world.auditor.open)  # what was refused outside the journal must not be sent again
        mine = [plan for plan in member.plans if not plan.is_volatile and any(plan.request_id in ids for ids in known)]
        if mine:
            member.life.ask_again(self._chance.choice(mine))

    def _gc(self) -> None:
        member = self._someone()
        if member is not None and member.life is not None and self._world.scenario.durable:
            age = self._chance.choice((0.0, 0.0, 1.0, 5.0))
            member.life.collect_garbage(self._world.broker.clock.wall() - age)

    def _clocks(self) -> None:
        """The wall clock of the broker's host is set; half of the time it is restarted, with another zero too.

        So is the clock of a node's host: its ids say other times then.
        """
        broker, chance = self._world.broker, self._chance
        chance.choice(self._world.members).clock.jump(chance.choice((-3600.0, -60.0, -5.0, 5.0, 60.0, 3600.0)))
        broker.clock.jump(chance.choice((-3600.0, -5.0, 5.0, 3600.0, 1e7)))
        if chance.random() < 0.5:
            self._broker()

    def _cancel(self) -> None:
        life = self._somebody()
        pending = life.node.outgoing.pending if life is not None else []
        for handle in self._chance.sample(pending, min(len(pending), self._chance.randint(1, 4))):
            handle.cancel()

    def _leave(self) -> None:
        member, chance = self._someone(), self._chance
        if member is None or member.life is None:
            return
        seconds = chance.choice((0.7, 2.0))
        self._disturb(seconds)
        member.life.leave()
        self._world.timeline.after(seconds, member.start)

    def _stop(self) -> None:
        life = self._somebody()
        if life is None or not life.agent_names():
            return
        name = self._chance.choice(sorted(life.agent_names()))
        self._world.stopped.add(name)
        life.node.supervision.stop_agent(name, 0.0)
        life.after(self._chance.choice((0.01, 0.5)), lambda: life.start_agent(name))

    def _move(self) -> None:
        """A node lets agents go, and another takes their names soon, late or never, or the same takes them back."""
        world, chance = self._world, self._world.moving
        there = [(member.life, names) for member in world.members if member.life and (names := member.life.movable())]
        if not there:
            return
        life, names = chance.choice(there)
        names = names if chance.random() < 0.5 else [chance.choice(names)]
        self._ask_lasting(names)
        world.timeline.after(chance.choice((0.0, 0.05)), lambda: self._let_go(life, names))

    def _let_go(self, life: Life, names: list[str]) -> None:
        world, chance = self._world, self._world.moving
        if not set(names).issubset(life.movable()):
            return
        new, delay = chance.choice(_hosts(world)), chance.choice((0.0, 0.0, 0.1, 1.0, 5.0, 13.0, None))
        seconds, is_hasty = chance.choice((0.0, 0.05, 0.5, 2.0)), chance.random() < 0.1
        self._disturb(seconds)
        self._break_off(life.member, new, seconds)
        life.let_go(names, seconds)

        def follow() -> None:
            if life.is_dead or is_hasty or not life.is_letting_go(names):
                world.timeline.after(delay or 0.0, lambda: new.take_over(names))
            else:
                world.timeline.after(0.05, follow)

        if delay is not None:
            world.timeline.after(0.0, follow)

    def _ask_lasting(self, names: list[str]) -> None:
        """Have somebody delegate to agents that are about to move, with more time than they have."""
        world, chance = self._world, self._world.moving
        if "clocks" in world.scenario.faults:  # nobody knows when so long a time has passed
            return
        askers = [member for member in world.members if member.is_delegating]
        asker, count = chance.choice(askers), chance.choice((0, 0, 1, 3, 6))
        for _ in range(count):
            world.timeline.after(chance.choice((0.0, 0.0, 0.2, 1.5)), lambda: asker.ask_lasting(chance.choice(names)))

    def _break_off(self, old: Member, new: Member, seconds: float) -> None:
        """Let somebody die in between, sometimes."""
        chance = self._world.moving
        strikes = (lambda: self._kill(old), lambda: self._kill(new), self._broker, self._broker)
        when = chance.choice((0.0, seconds)) + chance.choice((0.0, 0.002, 0.02, 0.3))
        if chance.random() < 0.5:
            self._world.timeline.after(when, chance.choice(strikes))


def _hosts(world: World) -> list[Member]:
    """The members that have agents, or had some."""
    return [member for member in world.members if not (member.is_delegating or member.watchers)]
