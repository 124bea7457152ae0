"""What is asked, and what the agents do with it: some work, some fail, some misbehave."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.agent.declarations.event_handler import on_event
from ether_actors.delegator.retry import Retry
from ether_actors.task.event import Event
from ether_actors.task.task import Task
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import AgentCrash
from ether_broker.wire.codec import pack_response
from ether_broker.wire.frame import Header
from tests.simulation.resources import Sleep

if TYPE_CHECKING:
    from tests.simulation.member import Life
    from tests.simulation.scenario import Scenario

__all__ = ["Plan", "Worker", "kind_of", "perform"]

ONCE, KEEN = "job.once", "job.keen"
LONG = 1e6


@dataclass(slots=True)
class Plan:
    """One delegation as the world knows it, whoever has it at the moment."""

    number: int
    source: str
    """The agent that delegates."""
    order: int
    """Its place among all that this agent delegated."""
    target: str | None
    capability: str
    behaviour: str
    seconds: float
    """What the work takes."""
    timeout: float
    deadline: float = 0.0
    """By the timeline."""
    request_id: bytes = b""
    life: int = 0
    """Which life of the delegator sent it."""
    policy: Retry | None = None
    """By which it is tried again."""
    is_named: bool = False
    """Whether its delegator says it again, under the same id, in its next life."""
    is_child: bool = False
    is_volatile: bool = False
    """Whether it does not wait for the journal."""
    priority: Literal["low", "normal", "high"] = "normal"
    falls: bool = False
    """Whether another than the agent that it names may have it."""
    parent: bytes = b""
    """Which delegation plain code says that it was made for."""
    sent: bytes = b""
    """As it was sent."""
    starts: dict[int, str] = field(default_factory=dict)
    """{attempt: the agent that began it}."""
    works: list[Life] = field(default_factory=list)
    """The processes of the handlers that work on it."""
    ends: list[tuple[int, bytes, str]] = field(default_factory=list)
    """(life, envelope, code) of the outcomes that the delegator got; the code of those that its node made itself."""

    @property
    def is_idempotent(self) -> bool:
        """Whether it may run more than once."""
        return self.capability == KEEN

    @property
    def runs(self) -> bool:
        """Whether a handler works on it now."""
        return any(not life.is_dead for life in self.works)


class Worker(Agent):
    """Does what the plan says."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.life = life

    @capability(ONCE)
    async def once(self, params: Any, task: Task) -> Any:
        """Work that must not run twice."""
        return await perform(self, params, task)

    @capability(KEEN, idempotent=True)
    async def keen(self, params: Any, task: Task) -> Any:
        """Work that may."""
        return await perform(self, params, task)


class Wide(Worker):
    """A worker with several places."""

    max_concurrency = 3


class Subscriber(Worker):
    """A worker that is given events too."""

    @on_event("jobs.*")
    async def once_event(self: Worker | Listener, event: Event, task: Task) -> None:
        """Handle an event once."""
        await _handle(self, event, task)

    @on_event("jobs.keen.*", idempotent=True)
    async def keen_event(self: Worker | Listener, event: Event, task: Task) -> None:
        """Handle an event that may come twice."""
        await _handle(self, event, task)


class Listener(Agent):
    """An agent that is given events and nothing else."""

    def __init__(self, life: Life) -> None:
        self.life = life

    once_event, keen_event = Subscriber.once_event, Subscriber.keen_event


class Done(BaseModel):
    """What an agent has done, by the numbers of the plans."""

    done: list[int] = []


class Keeper(Worker):
    """A worker that saves what it has done."""

    state: Done


class KeepingSubscriber(Subscriber):
    """A subscriber that does so too."""

    state: Done


class WideSubscriber(Subscriber):
    """A subscriber with several places."""

    max_concurrency = 3


async def _handle(agent: Worker | Listener, event: Event, task: Task) -> None:
    life, header = agent.life, header_of(agent.life, task)
    life.member.world.auditor.publications.started(header, event.id, task.agent)
    match event.data["behaviour"]:
        case "fail":
            raise ValueError("as planned")
        case "crash":
            raise AgentCrash("as planned")
        case "hang":
            await Sleep(LONG)
        case "publish" if not event.data["depth"]:
            life.publish(life.member.world.event(depth=1), agent.bus.publish, task.agent)
        case "progress":
            task.progress(0.5)
    await Sleep(event.data["seconds"])


def header_of(life: Life, task: Task) -> Header:
    """The header of what a task works on."""
    works = life.node.agent_host.cell(task.agent).works
    return next(work.header for work in works.values() if work.task is task)


async def perform(agent: Worker, params: Any, task: Task) -> Any:
    life = agent.life
    world = life.member.world
    header = header_of(life, task)
    if params and params["plan"] < 0:  # a stranger's
        world.auditor.started_strange(header)
        await Sleep(0.001)
        return None
    plan = world.by_id[header.request_id]
    world.auditor.started(plan, header, task.agent, agent.max_concurrency)
    world.auditor.began(header, agent, task.agent)
    plan.works.append(life)
    try:
        found = await _BEHAVIOURS.get(plan.behaviour, _work)(life, plan, header, task)
    finally:
        plan.works.remove(life)
    if isinstance(agent, Keeper | KeepingSubscriber):
        agent.state.done.append(plan.number)
    return found


async def _work(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    if plan.seconds:
        await Sleep(plan.seconds)
    return "x" * life.member.world.scenario.answer or plan.number


async def _fail(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    await Sleep(plan.seconds)
    raise ValueError("as planned")


class Busy(Exception):
    """Says that the same may go better in a while."""

    retryable = True
    retry_after = 0.1


async def _later(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    """Delegate something when this is over."""
    cell = life.node.agent_host.cell(task.agent)
    life.member.world.auditor.timers.act(cell.agent)
    await Sleep(plan.seconds)
    return plan.number


async def _busy(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    await Sleep(plan.seconds)
    raise Busy("as planned")


async def _overloaded(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    return task.respond(Status.REJECTED_OVERLOAD, retry_after=life.chance.choice((None, 0.2)))


async def _crash(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    await Sleep(plan.seconds)
    raise AgentCrash("as planned")


async def _hang(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    await Sleep(LONG)


async def _stubborn(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    """Go on when cancelled, and answer late."""
    for _ in range(10):
        try:
            await Sleep(plan.timeout / 5)
        except asyncio.CancelledError:
            continue
    return plan.number


async def _twice(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    """Answer, and a moment later answer again, something else."""
    await Sleep(plan.seconds)
    again = Response(
        request_id=to_text(header.request_id), status=Status.FAILED_EXECUTION, from_agent=task.agent,
        attempt=header.attempt,
    )  # fmt: skip
    envelope = pack_response(again, capability=header.capability, target=header.source)
    life.after(life.chance.choice((0.0, 0.001, 0.2)), lambda: life.say(envelope))
    return plan.number


async def _progress(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    for part in range(3):
        await Sleep(plan.seconds / 3)
        task.progress(part / 3, data={"part": part})
    return plan.number


async def _forge(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    """Answer for a delegation that another agent has, in one's own name and in that agent's."""
    other = life.chance.choice(life.member.world.plans)
    given = life.member.world.auditor.specialist(other.request_id)
    if other.request_id and given not in {"", task.agent}:  # what it answers for itself is no forgery
        for name in (task.agent, given):
            forged = Response(request_id=to_text(other.request_id), status=Status.COMPLETED, from_agent=name)
            own = name == task.agent
            if own or name not in life.agent_names():
                life.say(pack_response(forged, capability=other.capability.encode(), target=other.source.encode()))
    await Sleep(plan.seconds)
    return plan.number


async def _children(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    world = life.member.world
    handles = []
    for _ in range(life.chance.randint(1, 3)):
        child = world.plan(task.agent, life.number, is_child=True)
        handle = task.delegate(
            child.capability, {"plan": child.number}, to=child.target, timeout=child.timeout, retry=child.policy
        )
        if child.policy is None:
            world.asked(child, handle)
        handles.append(handle)
        if life.chance.random() < 0.5:
            await Sleep(plan.seconds)
    for handle in handles[: life.chance.randint(0, 3)]:
        await handle
    return plan.number


async def _lease(life: Life, plan: Plan, header: Header, task: Task) -> Any:
    chance = life.chance
    wait = chance.choice((0.0, 0.5, None))
    lease = task.lease(resource=f"file-{chance.randint(1, 2)}", wait=wait)
    await (
        lease.__aenter__()
    )  # no `async with`: what a process that crashed left behind is closed, and must not wait then
    life.member.world.auditor.leased(lease.resource, lease.token, header)
    try:
        await Sleep(plan.seconds + chance.choice((0.0, 0.3, 1.0)))
    except asyncio.CancelledError:
        await lease.__aexit__(None, None, None)
        raise
    await lease.__aexit__(None, None, None)
    return plan.number


_BEHAVIOURS = {
    "fail": _fail, "crash": _crash, "hang": _hang, "stubborn": _stubborn, "twice": _twice, "progress": _progress,
    "forge": _forge, "children": _children, "lease": _lease, "busy": _busy, "later": _later, "overloaded": _overloaded,
}  # fmt: skip


def kind_of(scenario: Scenario, name: str) -> type[Agent]:
    """The class of an agent."""
    if scenario.has_listeners and name.endswith("-1"):
        return Listener
    if scenario.has_states:
        return KeepingSubscriber if scenario.events else Keeper
    kinds = (Subscriber, WideSubscriber) if scenario.events else (Worker, Wide)
    return kinds[scenario.places > 1]
