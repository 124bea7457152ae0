"""Agents that act by themselves, and the invariants of that: never two runs at once, no burst, none after the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.agent.declarations.schedule import cron, every
from ether_actors.delegator.handle import Handle
from ether_actors.execution.cell import Cell, CellState
from ether_actors.task.task import Task
from ether_broker.errors import Closed
from tests.simulation.workload import perform

if TYPE_CHECKING:
    from tests.simulation.member import Life
    from tests.simulation.workload import Plan
    from tests.simulation.world import World

__all__ = ["Timers", "timed"]

QUICK, SLOW, CRON = "timer.quick", "timer.slow", "timer.cron"
_SECONDS: Final = {QUICK: 0.3, SLOW: 1.0, CRON: 2.0}
"""{capability: its interval}"""
_TIMEOUTS: Final = {QUICK: 1.0, SLOW: 3.0, CRON: 1.0}
"""{capability: seconds that a run has}"""
_LOOK: Final = 0.4
"""Seconds after which a node has seen that a timer is due, and a little."""
_ROUNDING: Final = 1e-6


@cache
def timed(base: type[Agent]) -> type[Agent]:
    """A kind of agents that act by themselves too."""

    @every(_SECONDS[QUICK], at_start=True, timeout=_TIMEOUTS[QUICK])
    @capability(QUICK)
    async def quick(self: Any, task: Task) -> Any:
        return await perform(self, None, task)

    @every(_SECONDS[SLOW], timeout=_TIMEOUTS[SLOW])
    @capability(SLOW)
    async def slow(self: Any, task: Task) -> Any:
        return await perform(self, None, task)

    @cron("*/2 * * * * *", timeout=_TIMEOUTS[CRON])
    @capability(CRON)
    async def times(self: Any, task: Task) -> Any:
        return await perform(self, None, task)

    def on_start(self: Any) -> None:
        self.life.member.world.auditor.timers.act(self)

    return type(f"Timed{base.__name__}", (base,), {
        "quick": quick, "slow": slow, "times": times, "on_start": on_start, "__module__": __name__,
    })  # fmt: skip


@dataclass(slots=True, eq=False)
class _Timer:
    """The timer of a capability in one life of an agent."""

    agent: Agent
    life: Life
    began: float
    """By the node's clock; by its wall clock where the schedule goes by that."""
    turn: int = 0
    """The interval in which it ran last, from its beginning; of a cron expression since 1970."""
    changed: float = 0.0
    """When it began, by the timeline."""


@dataclass(slots=True, eq=False)
class _Run:
    """The last run of a capability of the agents of one name, in one life of their node."""

    handle: Handle
    changed: float
    """When it began or ended, by the timeline."""


class Timers:
    """Who sees what agents do by themselves."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._timers: dict[tuple[Agent, str], _Timer] = {}
        self._runs: dict[tuple[Life, str, str], _Run] = {}
        self._later: dict[int, tuple[Agent, float]] = {}
        """{number of a plan: (the agent that has it made later, when at the earliest by its clock)}."""
        self.is_over = False
        """Whether no timer begins any more, so that the world can come to rest."""

    # -- what happens --------------------------------------------------------------------------------------------

    def start(self, life: Life, start: Callable[[Cell], None], cell: Cell) -> None:
        """See the timers of an agent begin; `start` begins them."""
        if self.is_over:
            return
        assert cell.agent is not None
        clock, now = life.member.clock, self._world.timeline.now
        for name in _SECONDS:
            is_by_wall = name == CRON
            began = clock.wall() if is_by_wall else clock.monotonic()
            turn = int(began // _SECONDS[CRON]) if is_by_wall else -1 if name == QUICK else 0
            self._timers[cell.agent, name] = _Timer(cell.agent, life, began, turn, now)
        start(cell)

    def delegate(  # noqa: PLR0917  as `NodeServices.delegate_as`
        self, life: Life, delegate: Callable[..., Handle], agent: Agent, capability: str, params: Any, to: str | None,
        options: Mapping[str, Any],
    ) -> Handle:  # fmt: skip
        """See an agent delegate by itself; as `NodeServices.delegate_as`, which is `delegate`."""
        handle = delegate(agent, capability, params, to, options)
        if options.get("retry") is None and handle.delegation.parent is not None:
            self._fail(f"what {agent.agent_name} does by itself is a part of {handle.delegation.parent}")
        if capability in _SECONDS:
            self._ran(life, agent, capability, handle)
        elif (
            options.get("retry") is None and isinstance(given := handle.delegation.params, Mapping) and "plan" in given
        ):
            self._made(agent, self._world.plans[given["plan"]], handle)
        return handle

    def act(self, agent: Any) -> None:
        """Have an agent delegate something, now or later."""
        life, chance = agent.life, self._world.ticking
        plan = self._world.plan(agent.agent_name, life.number, is_child=True)
        options: dict[str, Any] = {"to": plan.target, "timeout": plan.timeout, "retry": plan.policy}
        seconds = chance.choice((None, 0.0, 0.2, 2.0))
        if seconds is None:
            agent.bus.delegate(plan.capability, {"plan": plan.number}, **options)
            return
        self._later[plan.number] = agent, life.member.clock.monotonic() + seconds
        delayed = agent.bus.after(seconds, plan.capability, {"plan": plan.number}, **options)
        if chance.random() < 0.2:
            life.after(chance.uniform(0.0, seconds), lambda: self._take_back(plan, delayed))

    def _take_back(self, plan: Plan, delayed: Any) -> None:
        if delayed.handle is None:
            self._later[plan.number] = self._later[plan.number][0], float("inf")
        delayed.cancel()

    # -- what is judged ------------------------------------------------------------------------------------------

    def _made(self, agent: Agent, plan: Plan, handle: Handle) -> None:
        """See a delegation be made that an agent makes by itself, now that its time has come."""
        world = self._world
        whose, due = self._later.get(plan.number, (agent, 0.0))
        name = f"what {agent.agent_name} makes later"
        if plan.request_id and plan.policy is None:
            self._fail(f"{name} is made twice")
        now = handle._owner.resources.monotonic()  # type: ignore[attr-defined]  # it is its node's
        if now < due - _ROUNDING:
            self._fail(f"{name} is made {due - now:.3f} s early, or was taken back")
        if agent is not whose or agent.actor_stopped.is_set():
            self._fail(f"{name} is made, and the agent has ended")
        plan.source, plan.order = handle.source, world.next_order(handle.source)
        if plan.policy is None:
            world.asked(plan, handle)

    def _ran(self, life: Life, agent: Agent, capability: str, handle: Handle) -> None:
        """See a timer have its agent delegate to itself."""
        world, name = self._world, agent.agent_name
        where, clock = f"{capability} of {name}", life.member.clock
        timer = self._timers[agent, capability]
        if (handle.source, handle.delegation.to_agent) != (name, name):
            self._fail(f"{where} is a delegation of {handle.source} to {handle.delegation.to_agent}")
        seconds = handle.deadline - clock.monotonic()
        if abs(seconds - _TIMEOUTS[capability]) > _ROUNDING:
            self._fail(f"{where} has {seconds:.3f} s, and not {_TIMEOUTS[capability]:.3f}")
        cell = life.node.agent_host.cell(name)
        if cell.agent is not agent or agent.actor_stopped.is_set() or cell.state is not CellState.RUNNING:
            self._fail(f"{where} runs, and the agent has ended")
        last = self._runs.get((life, name, capability))
        if last is not None and not last.handle.done:
            self._fail(f"{where} runs, and its last run has not ended")
        if capability == CRON:
            turn = int(clock.wall() // _SECONDS[CRON])
        else:
            turn = int((clock.monotonic() - timer.began + _ROUNDING) // _SECONDS[capability])
        if turn <= timer.turn:
            self._fail(f"{where} runs a second time in the {turn}th interval")
        timer.turn = turn
        run = self._runs[life, name, capability] = _Run(handle, world.timeline.now)
        plan = world.tick(name, capability, life)
        world.asked(plan, handle)

        def hear(update: object) -> None:
            if update is None:
                run.changed = world.timeline.now

        handle.listen(hear)

    def end(self) -> None:
        """Judge that the timers of all agents that live go on, and end them so that the world can come to rest."""
        self.is_over = True
        world = self._world
        is_set = (
            "clocks" in world.scenario.draws
        )  # a wall clock that is set back by an hour has times come an hour later
        for (agent, name), timer in self._timers.items():
            if not _is_at_work(timer.life, agent) or (name == CRON and is_set):
                continue
            run = self._runs.get((timer.life, agent.agent_name, name))
            changed = timer.changed if run is None else max(timer.changed, run.changed)
            since = world.timeline.now - max(changed, timer.life.thawed)
            is_open = run is not None and not run.handle.done
            if not is_open and since > _SECONDS[name] + _LOOK:
                self._fail(f"{name} of {agent.agent_name} has not run for {since:.3f} s")
        for number, (agent, due) in self._later.items():
            life: Life = agent.life  # type: ignore[attr-defined]  # it is a worker's
            late = life.member.clock.monotonic() - due
            is_awake = world.timeline.now - life.thawed > _LOOK
            if _is_at_work(life, agent) and is_awake and late > _LOOK and not world.plans[number].request_id:
                self._fail(f"what {agent.agent_name} makes later was to be made {late:.3f} s ago")
        for member in self._world.members:
            if member.life is not None:
                member.life.node._agent_schedules.delegate = _closed

    def _fail(self, message: str) -> None:
        self._world.auditor.fail("timers", message)


def _closed(*_: object) -> Handle:
    raise Closed("The world ends.")


def _is_at_work(life: Life, agent: Agent) -> bool:
    is_here = any(cell.agent is agent for cell in life.node.agent_host.cells)  # else the registry did not take it
    return is_here and not (life.is_dead or life.is_frozen or life.is_leaving or agent.actor_stopped.is_set())
