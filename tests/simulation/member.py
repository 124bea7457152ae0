"""A process with a node: it may crash, freeze, leave and begin another life under its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ether.node.agents.agent_host import NotStarted
from ether.node.agents.scaled_agent import ScaledAgent
from ether.node.attached_observers import _wish
from ether.node.node import Node
from ether_actors.agent.agent import free_names
from ether_actors.agent.publishing import publish_params
from ether_actors.delegator.handle import Handle
from ether_actors.execution.cell import Cell, CellState
from ether_actors.observers.observer import Observation, Observer
from ether_broker.artifacts.fetching import FETCHERS
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import PUBLISH
from ether_broker.envelope.payload import Payload, pack, unpack
from ether_broker.errors import Closed, EtherError, Unavailable
from ether_broker.wire.frame import Flag, Header, Kind, read_header, rehead
from ether_broker.wire.saved_state import SavedState
from tests.simulation.blocking import Blocking
from tests.simulation.link import SimulatedLink
from tests.simulation.moves import WHY
from tests.simulation.network import Connection
from tests.simulation.publications import Publication
from tests.simulation.resources import SimulatedResources
from tests.simulation.scaling import BusyPool, watched
from tests.simulation.timeline import Ids
from tests.simulation.timers import timed
from tests.simulation.workload import Plan, kind_of

if TYPE_CHECKING:
    from tests.simulation.timeline import SkewedClock
    from tests.simulation.world import World

__all__ = ["Life", "Member", "Watcher"]


class Watcher(Observer):
    """An observer that compares what it sees with the disk; its position outlives its process."""

    def __init__(
        self, name: str, pace: float, see: Callable[[Watcher, int, bytes], None],
        miss: Callable[[Watcher, int, int], None],
    ) -> None:  # fmt: skip
        self.name = name
        self.pace = pace
        self.position = 1
        self.saw = see
        self.skipped = miss
        self.gaps = 0
        """Numbers of which it was told that it missed them."""

    def on_message(self, observation: Observation) -> None:
        """Compare it."""
        self.saw(self, observation.number, observation.envelope)

    def on_gap(self, first: int, last: int) -> None:
        """Count what it missed."""
        self.gaps += last - first + 1
        self.skipped(self, first, last)


class _Node(Node):
    """A node that tries to register again when the broker still has the one before."""

    life: Life
    _registers_again = False
    """Whether it is about to; the refusals of several agents, or of one several times, lead to one more try."""

    def _control(self, header: Header, envelope: bytes) -> None:
        is_awaited = header.request_id in self._control_calls._open
        if header.kind == Kind.SCALE:
            told = unpack(envelope[header.body :])
            self.life.outstanding.update(told["outstanding"])
            for agent, most in told["most"].items():
                self.life.peaks[agent] = max(self.life.peaks[agent], most)
        super()._control(header, envelope)
        if header.kind != Kind.ERROR or is_awaited or unpack(envelope[header.body :]).get("code") != "duplicate_agent":
            return
        if not self._registers_again:
            self._registers_again = True
            self.life.after(0.5, self._register_again)

    def _register_again(self) -> None:
        self._registers_again = False
        self.life.outstanding.clear()
        self.life.peaks.clear()
        for envelope in self.agent_host.registrations():
            self._link.send(envelope)


class Life:
    """One incarnation of a process."""

    def __init__(self, member: Member, number: int, chance: Random) -> None:
        self.member = member
        self.number = number
        self.chance = chance
        self.is_dead = False
        self.is_in = False
        """Whether it has joined."""
        self.is_leaving = False
        self.is_scaling = False
        """Whether its agents were started, whose instances come and go by themselves then."""
        self.outstanding: dict[str, int] = defaultdict(int)
        """{agent: what waits or runs for it, as the broker said last}."""
        self.peaks: dict[str, int] = defaultdict(int)
        """{agent: the most that waited or ran for its node's instances, as the broker said since they were looked at}."""
        self.cuts = 0
        """Partitions that it is behind."""
        self.thawed = 0.0
        """When it went on last, after it had been frozen; by the timeline."""
        self._letting_go: set[str] = set()
        self._frozen = 0
        self._parked: list[Callable[[], None]] = []
        world = member.world
        world.processes += 1
        resources = SimulatedResources(self, Ids(member.clock, world.processes), Random(chance.random()))
        incarnation = world.make_id()
        world.honest.add(incarnation)
        self.link = SimulatedLink(self, world.network, incarnation)
        self.node = _Node(member.name, self.link, resources)
        self.node.life = self
        self.node.supervision.on_escalation = lambda agent, _why: self._begin_anew(agent)
        busy: Any = BusyPool(resources, self, Random(f"{world.seed}, {member.name} {number}, busy"))
        self.node.scaling._resources = busy
        responder, services = self.node.agent_host._responder, self.node._services
        hand_back = responder.hand_back

        def note(works: list[Any]) -> None:
            for work in works:
                is_kept = work.header.target in self.node.agent_host._giving_way
                world.auditor.moves.returned(work.header) if is_kept else world.auditor.handed_back.add(
                    work.header.request_id
                )
            hand_back(works)

        calls = self.node._control_calls
        calls.await_deliveries = partial(  # type: ignore[method-assign]  # to see whether all has come
            world.auditor.moves.await_deliveries, self, calls.await_deliveries
        )

        self.node.outgoing.retry = partial(  # type: ignore[method-assign]  # to see each attempt
            world.auditor.retries.retry, self, self.node.outgoing.retry
        )
        services.start_schedules = partial(world.auditor.timers.start, self, services.start_schedules)
        services.delegate_as = partial(  # type: ignore[method-assign]  # to see what agents do by themselves
            world.auditor.timers.delegate, self, services.delegate_as
        )
        services.load_state = self._load_state  # type: ignore[method-assign]  # nobody waits in this world
        responder.hand_back = note  # type: ignore[method-assign]  # to see what is handed back
        self.after(0.001, self._greet)

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, call: Callable[[], None]) -> None:
        """Run something in this process, if it lives; when it thaws, if it is frozen."""
        if self.is_dead:
            return
        if self._frozen:
            self._parked.append(call)
        else:
            call()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Run something in this process so many seconds of its clock from now."""
        member = self.member
        member.world.timeline.after(seconds / member.clock.rate, partial(self.run, call))

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still, as by SIGSTOP."""
        return self._frozen > 0

    @property
    def is_reachable(self) -> bool:
        """Whether what it says and what it is told can arrive."""
        connections = self.connections()
        is_whole = len(connections) == len(self.link.sockets) and not any(one.is_dead for one in connections)
        return is_whole and not self.cuts and not self._frozen

    def freeze(self, seconds: float) -> None:
        """Stand still for a while."""
        self._frozen += 1
        self.member.world.timeline.after(seconds, self._thaw)

    def _thaw(self) -> None:
        self._frozen -= 1
        if not self._frozen:
            self.thawed = self.member.world.timeline.now
            parked, self._parked = self._parked, []
            for call in parked:
                self.run(call)

    # -- joining -------------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        if not self.is_in:
            self.node._session._greet()
            self.after(self.chance.uniform(0.05, 0.2), self._greet)

    def answered(self) -> None:
        """Take the broker's first word: WELCOME, or why not."""
        self.link.is_joining = True
        try:
            self.node.join(0.0)
        except EtherError:
            return  # the name is taken by the life before: said again soon
        finally:
            self.link.is_joining = False
        FETCHERS.pop(self.node._artifact_fetcher, None)  # no thread of this process may wait for it
        self.is_in = True
        member = self.member
        for name in member.agents:
            self.start_agent(name)
        self.is_scaling = True
        for watcher in member.watchers:
            self._attach(watcher)
        if member.number_of_lives > 1 and member.is_delegating:
            self._collect()
            for plan in member.world.auditor.retries.unended(member):
                self.ask(plan)

    def start_agent(self, name: str) -> None:
        """Start an agent, unless it is there, or is to be elsewhere."""
        if name in self.agent_names() or self.is_leaving or name not in self.member.agents:
            return
        world = self.member.world
        cls: Any = kind_of(world.scenario, name)
        if world.scenario.has_timers:
            cls = timed(cls)
        if world.scenario.scale is not None:
            if name in self.member.agents and not self.is_scaling:
                group = ScaledAgent(
                    name, lambda: free_names(name, ()), world.scenario.scale,
                    lambda names: self._start(names, cls),
                )  # fmt: skip
                self.node.scaling.add(watched(group, self, world.auditor.fail))
            return
        if name in world.auditor.moves.all:  # another node may have it still
            Blocking(self, lambda: self._take_over(name, cls))
            return
        try:
            self._start([name], cls)
        except NotStarted:  # the broker is down, and tells no state
            self.after(0.5, lambda: self.start_agent(name))

    def _start(self, names: list[str], cls: Any) -> list[Cell]:
        cells = self.node.agent_host.start_agents(names, lambda: self._make(names[0], cls), cls)
        for cell in cells:
            cell.is_registered = True  # nobody waits here for the broker to say so
        return cells

    def _take_over(self, name: str, cls: Any) -> None:
        try:
            self.node.agent_host.start_agents([name], lambda: self._make(name, cls), cls)
        except Closed:  # it was stopped meanwhile, or the node leaves
            pass
        except (NotStarted, EtherError):  # the name is taken, the broker is down, or the node has as many as it may
            self.after(0.3, lambda: self.start_agent(name))

    def movable(self) -> list[str]:
        """The agents that are here and may be let go."""
        if self.is_dead or not self.member.is_in:
            return []
        cells = {cell.name: cell for cell in self.node.agent_host.cells}
        return [name for name in self.member.agents if name in cells and cells[name].state is CellState.RUNNING]

    def let_go(self, names: list[str], seconds: float) -> None:
        """Let agents go for another node; what runs of them has so many seconds."""
        moves = self.member.world.auditor.moves
        for name in names:
            self.member.agents.remove(name)
        self._letting_go.update(names)
        moves.begin(names)

        def take_down() -> None:
            try:
                for _ in self.node.supervision.take_down(names, seconds, WHY, moves=True):
                    pass
            finally:
                self._letting_go.difference_update(names)

        self.run(lambda: Blocking(self, take_down))

    def is_letting_go(self, names: list[str]) -> bool:
        """Whether some of them have not left."""
        return not self._letting_go.isdisjoint(names)

    def _make(self, name: str, cls: Any) -> Any:
        self.member.world.instances[name.encode()] += 1
        return cls(self)

    def _begin_anew(self, name: str) -> None:
        self.member.world.stopped.add(name)
        self.after(1.0, lambda: self.start_agent(name))

    def _load_state(self, name: str) -> SavedState | None:
        """What the broker has of an agent at this moment, which takes no time here."""
        supervisor = self.member.world.broker.supervisor
        if supervisor is None:
            raise Unavailable("The broker is down.")
        return supervisor.state.agent_states.get(name)

    def agent_names(self) -> set[str]:
        """The agents that are here."""
        return self.node.agent_host.agent_names

    def _attach(self, watcher: Watcher) -> None:
        observers, token = self.node.observers, self.node.resources.make_id()
        observing = self.node.resources.make_observing(watcher, partial(observers._acknowledge, token))
        observers._threads[token] = observing
        observing.start(watcher.position)
        self.link.send(_wish(token, watcher, watcher.position))

    # -- work ----------------------------------------------------------------------------------------------------

    def say(self, envelope: bytes) -> None:
        """Send any envelope."""
        self.link.send(envelope)

    def ask(self, plan: Plan) -> None:
        """Delegate from plain code."""
        outgoing = self.node.outgoing
        if plan.policy is None:
            self.member.world.asked(plan, self._send(plan, plan.timeout))
        else:  # as `Runtime.delegate`
            first = partial(self._send, plan)
            outgoing.retry(plan.policy, first, outgoing.send, plan.timeout, is_named=plan.is_named)

    def _send(self, plan: Plan, timeout: float) -> Handle:
        params, outgoing = pack({"plan": plan.number}), self.node.outgoing
        if plan.is_volatile or plan.parent or plan.falls or plan.is_named or plan.priority != "normal":
            said_before = to_text(plan.request_id) if plan.request_id else ""
            return outgoing.send(Delegation(
                request_id=said_before or self.node.resources.new_id(), from_agent=self.member.name, to_agent=plan.target,
                capability=plan.capability, params=Payload(params), timeout=timeout,
                parent=to_text(plan.parent) if plan.parent else None, durability="memory" if plan.is_volatile else None,
                fallback=plan.falls, priority=plan.priority,
            ))  # fmt: skip
        return outgoing.delegate_plain(plan.target, plan.capability, params, timeout)

    def publish(
        self, event: tuple[str, dict[str, Any], float, bool], publish: Callable[..., Handle] | None, source: str
    ) -> None:  # fmt: skip
        """Publish an event, as plain code does or with an agent's own."""
        world, (topic, data, timeout, is_volatile) = self.member.world, event
        durability = "memory" if is_volatile else None
        if publish is None:
            delegation = Delegation(
                request_id=self.node.resources.new_id(), from_agent=self.member.name, capability=PUBLISH,
                params=Payload(pack(publish_params(topic, data, timeout))), timeout=5.0, durability=durability,
            )  # fmt: skip
            handle = self.node.outgoing.delegate(delegation, self.member.clock.monotonic() + 5.0)
        else:
            handle = publish(topic, data, timeout=timeout, durability=durability)
        world.auditor.publications.published(Publication(data["number"], source, topic, self, handle, is_volatile))

    def ask_again(self, plan: Plan) -> None:
        """Send what was sent before once more, as a node does that does not know whether it came."""
        offset = self.node.outgoing._broker_clock.offset
        header = read_header(plan.sent)
        deadline = self.member.clock.monotonic() + plan.timeout + offset
        self.say(rehead(header, plan.sent, deadline=deadline, flags=header.flags | Flag.RESENT))

    def collect_garbage(self, older_than: float) -> None:
        """Have the bus give up the journal's old part."""
        params = pack({"older_than": older_than})
        self.node.outgoing.delegate_plain(None, "ether.journal-gc", params, 5.0)

    def _collect(self) -> None:
        """Ask for what an earlier life had delegated, as `Runtime.collect` does."""
        if self.is_leaving:
            return
        handle = self.node.outgoing.delegate_plain(None, "ether.outcomes", pack({}), 5.0)
        handle.add_done_callback(self._take_up)

    def _take_up(self, handle: Handle) -> None:
        response = handle.outcome()
        if not response.ok:  # the broker is not back yet, or has no disk
            self.after(0.5, self._collect)
            return
        member, world = self.member, self.member.world
        mine = {plan.request_id: plan for plan in member.plans if not plan.ends}
        found = {bytes(item["request_id"]): item for item in response.data["items"]}
        world.auditor.listed(member, found)
        wanted = [(request_id, "", item["left"]) for request_id, item in found.items() if request_id in mine]
        wanted += [
            (request_id, "", None) for request_id, plan in mine.items() if request_id not in found and not plan.is_named
        ]
        for taken in self.node.outgoing.take_up(wanted):
            plan = mine[taken.key]
            taken.add_done_callback(partial(world.auditor.ended, plan, self.number))

    # -- ends ----------------------------------------------------------------------------------------------------

    def connections(self) -> list[Connection]:
        """Its connections that are up."""
        return [socket.connection for socket in self.link.sockets if socket.connection is not None]

    def crash(self, notice: float) -> None:
        """End as by SIGKILL; the broker's socket notices so many seconds later."""
        self.is_dead = True
        network = self.member.world.network
        for socket in self.link.sockets:
            if socket.connection is not None:
                network.broke(socket.connection, node_sees=None, broker_sees=notice)
            socket.close()
        self.node.resources.close(0.0)

    def leave(self) -> None:
        """Leave in order."""
        self.is_leaving = True
        self.node.close(0.0)
        self.member.world.timeline.after(0.6, self._end)

    def _end(self) -> None:
        self.member.world.auditor.retries.left(self)
        self.crash(0.0)


class Member:
    """A process's name, and what outlives its lives."""

    def __init__(
        self, world: World, name: str, clock: SkewedClock, agents: list[str], watchers: list[Watcher], *,
        is_delegating: bool,
    ) -> None:  # fmt: skip
        self.world = world
        self.name = name
        self.clock = clock
        self.agents = agents
        self.watchers = watchers
        self.is_delegating = is_delegating
        self.plans: list[Plan] = []
        """What its plain code delegated, in all lives."""
        self.number_of_lives = 0
        self.life: Life | None = None

    def start(self) -> None:
        """Begin a life, unless one goes on."""
        if self.life is None or self.life.is_dead:
            self.number_of_lives += 1
            self.life = Life(self, self.number_of_lives, Random(self.world.chance.random()))

    def take_over(self, names: list[str]) -> None:
        """Have agents from now on."""
        self.agents += names
        if self.is_in:
            life = self.life
            life.run(lambda: [life.start_agent(name) for name in names])

    def ask_lasting(self, target: str) -> None:
        """Delegate something with much time."""
        life = self.life
        if self.is_in and not life.is_frozen:
            plan = self.world.lasting(self.name, target, life.number)
            life.ask(plan)
            self.plans.append(plan)

    @property
    def is_in(self) -> bool:
        """Whether it is there and has joined."""
        return self.life is not None and not self.life.is_dead and self.life.is_in and not self.life.is_leaving

    def owed(self) -> list[Plan]:
        """What its plain code has no outcome of, and does not say again by itself."""
        return [plan for plan in self.plans if not plan.ends and not plan.is_named]
