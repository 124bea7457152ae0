"""The invariants, checked after every step and at the end; what is broken stops the world.

It reads what the supervisor gives to the journal, what the disk has, what handlers begin and what delegators are told, and
believes nobody: where two of them disagree, it says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

from ether_actors.delegator.handle import Handle
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.recovery import read_history
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.ids import NO_ID, to_bytes
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.priority import priority_of
from ether_broker.envelope.status import Status
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.transport.channel import UNTOLD
from ether_broker.wire.frame import Flag, Header, Kind, read_header
from tests.actors.fold import differences
from tests.simulation.answers import Answers
from tests.simulation.disk import STILL_RUNNING
from tests.simulation.moves import Moves
from tests.simulation.outstanding import Outstanding
from tests.simulation.priorities import Priorities, waiting_in
from tests.simulation.publications import EVENTS, Publications
from tests.simulation.retries import Retries
from tests.simulation.timers import Timers
from tests.simulation.waits import Waits
from tests.simulation.workload import ONCE, kind_of

if TYPE_CHECKING:
    from ether_actors.agent.agent import Agent
    from tests.simulation.broker import Broker
    from tests.simulation.member import Member, Watcher
    from tests.simulation.raw import RawPeer
    from tests.simulation.workload import Plan
    from tests.simulation.world import World

__all__ = ["Auditor", "Violation", "has_work"]

WINDOW: Final = 0.25
"""Seconds after a deadline in which TIMEOUT comes (G4)."""
_ROUNDING: Final = 1e-6
_AT_REST: Final = UNTOLD + 4
"""Frames that may be kept for a node when nothing new happens: it acknowledges each 16th, or with its heartbeats."""
_BUS: Final = b"ether."
_DELEGATION, _RESPONSE, _EVENT = int(Kind.DELEGATION), int(Kind.RESPONSE), int(Kind.EVENT)
_OWN_WORD: Final = frozenset({"journal_unavailable", "broker_lost"})
"""Codes with which a broker answers without its journal."""


def has_work(agent: Registration) -> bool:
    """Whether something waits for an agent or holds credit; the credit of one that no node has is nobody's."""
    mailbox = agent.mailbox
    return mailbox.outstanding > 0 if agent.is_hosted else mailbox.waiting_count > 0


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


class Auditor:
    """Who sees everything that happens in a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._broker: Broker | None = None
        self.violation: Violation | None = None
        """The first; the world stops at it. Not raised where it is found: a handler's exception is the bus's to catch."""
        self.open: dict[bytes, float] = {}
        """{request id: deadline by the timeline} of what is accepted and has no outcome."""
        self.asks: set[bytes] = set()
        """Those of them that the bus itself answers, such as claims of leases."""
        self.outcomes: dict[bytes, bytes] = {}
        """{request id: terminal response} as given to the journal by this broker or found in it."""
        self._past: dict[bytes, bytes] = {}
        """The same of all brokers."""
        self._said: dict[bytes, set[bytes]] = {}
        """{request id: every outcome} of what is volatile: one that was lost with its broker may have been told."""
        self._deadlines: dict[bytes, float] = {}
        self._is_rebooted = False
        """Whether the broker's machine was restarted: nodes then go by deadlines that its wall clock may have moved."""
        self._is_robbed = False
        """Whether a hostile session has taken the name of an honest agent that was away: it collects what is for that name (see
        docs/security.md, "outcomes go by name"), and nothing that the others see is judged any more."""
        self._told: dict[bytes, float] = {}
        """Deadlines that nodes go by until they hear of the outcome, where a reboot has moved them to an earlier time."""
        self._put_off: set[bytes] = set()
        """Delegations whose deadline a reboot has moved to a later time: until its node hears of that, one is late there."""
        self._specialists: dict[bytes, bytes] = {}
        self._children: dict[bytes, list[bytes]] = {}
        self._orphans: list[bytes] = []
        """Sub-delegations of what ended in this step."""
        self._steps = 0
        self._fresh: dict[bytes, Header] = {}
        """Delegations that came in this step."""
        self._accepted: set[bytes] = set()
        """Agents that were given something in this step."""
        self._is_moving = False
        """Whether something may have been put back into a mailbox in this step."""
        self._history = History()
        """What a broker that is started now from all that passed would know."""
        self._waiting: dict[bytes, int] = {}
        self._orders: dict[tuple[str, str, bool, str], int] = {}
        self.taken: set[bytes] = set()
        """Request ids of what was refused to one delegator, and accepted from another."""
        self.refused: set[bytes] = set()
        """Refused while the journal could not be written; a broker that dies then takes the refusal with it."""
        self.handed_back: set[bytes] = set()
        self.said_again: set[bytes] = set()
        """By delegators that were started again."""
        self.reassigned: set[bytes] = set()
        self._holders: dict[str, int] = {}
        self._token = 0
        self._counted = 0
        self._digests: dict[str, Any] = {}
        self._strange: dict[bytes, list[int]] = {}
        """{request id: attempts that were begun} of what no plan is behind."""
        self.waits = Waits(world)
        self.answers = Answers()
        self.publications = Publications(world)
        self.priorities = Priorities()
        self.retries = Retries(world)
        self.timers = Timers(world)
        self.outstanding = Outstanding()
        self.moves = Moves(world)
        self.delegations = 0

    def fail(self, invariant: str, message: str) -> None:
        """Note that an invariant does not hold."""
        if self.violation is None and not self._is_robbed:
            self.violation = Violation(invariant, message)

    # -- the broker ----------------------------------------------------------------------------------------------

    def broker_began(self, broker: Broker) -> None:
        """Read the disk as a broker does that is started on it; what it had said and not synced never happened."""
        self._broker = broker
        self.open.clear()
        self.asks.clear()
        self.outcomes.clear()
        self._holders.clear()
        self._children.clear()
        self._waiting.clear()
        self._token = 0
        self.publications.broker_began()
        self.priorities.broker_began()
        self.outstanding.broker_began()
        self.moves.broker_began()
        self._history = History(remembered=self._world.scenario.remembered)
        if self._world.scenario.durable:
            assert broker.journal is not None
            self._history = read_history(broker.journal, remembered=self._world.scenario.remembered)
            self._history.ended.restarted()
            for envelope in self._world.disk.envelopes:
                self._fold(envelope, None)
            self._fresh.clear()
            self._shift(broker)
            self._history.begin(broker.boot, broker.clock.monotonic(), broker.clock.wall())
            for request_id in self.open:
                self.open[request_id] = self._deadlines[request_id]
            self._orphans.clear()

    def _shift(self, broker: Broker) -> None:
        """Let deadlines be as far away as a broker can know: after a reboot only the wall clock says how long it was off."""
        history, clock = self._history, broker.clocks.get(self._history.boot, broker.clocks["boot 0"])
        lost = 0.0
        if history.boot != broker.boot:
            self._is_rebooted = True
            passed = self._world.timeline.now - clock.truth(history.clock)
            lost = passed - max(0.0, broker.clock.wall() - history.wall)
        for request_id, work in history.open.items():
            deadline = read_header(work.envelope).deadline
            moved = clock.truth(deadline) + lost if deadline else float("inf")
            before = self._deadlines.get(request_id, moved)
            if moved < before:
                self._told[request_id] = before
            elif moved > before and self._is_rebooted:
                self._put_off.add(request_id)
            self._deadlines[request_id] = moved

    def broker_ended(self, broker: Broker) -> None:
        """Note that the broker is gone."""
        self._broker = None
        self.waits.clear()

    def passed(self, first: int, envelopes: Sequence[bytes]) -> None:
        """See what a step gives to the journal."""
        broker = self._broker
        assert broker is not None
        opened: set[bytes] = set()
        self._history.apply(first, 0.0, broker.clock.wall(), envelopes)
        note, whisper = self._world.note, self._world.whisper
        for envelope in envelopes:
            if envelope[0] == _DELEGATION:
                opened.add(envelope[16:32])
            self._fold(envelope, broker, opened)
            if envelope[0] == _EVENT:
                whisper(envelope)
            else:
                note("passed", envelope)
        self._counted += len(envelopes)

    def _fold(self, envelope: bytes, broker: Broker | None, opened: set[bytes] = frozenset()) -> None:  # type: ignore[assignment]
        kind, request_id = envelope[0], envelope[16:32]
        if kind == _DELEGATION:
            self._opened(request_id, envelope, broker)
        elif kind == _RESPONSE:
            if envelope[1] not in STILL_RUNNING:
                self._ended(request_id, envelope, broker, is_new=request_id in opened)
            elif request_id not in self.open:
                self.fail("one outcome", f"{self.name(request_id)} runs after its outcome, or was never accepted")
        elif kind == _EVENT:
            self._event(unpack(envelope[read_header(envelope).body :]), is_new=broker is not None)

    def _opened(self, request_id: bytes, envelope: bytes, broker: Broker | None) -> None:
        header = read_header(envelope)
        self.publications.delegation(header, envelope)
        is_ask = header.capability.startswith(_BUS) and not header.capability.startswith(EVENTS)
        if is_ask:  # what is asked of the bus itself may be asked and answered again
            self.outcomes.pop(request_id, None)
        if not self._world.scenario.durable:  # without a journal it may be beyond what is remembered
            self.outcomes.pop(request_id, None)
        before = self.outcomes.get(request_id)
        if before is not None and before[3] & Flag.REFUSED and read_header(before).target != header.source:
            del self.outcomes[
                request_id
            ]  # what was refused to another is no outcome of this one, nor has it its parent
            for children in (self._orphans, *self._children.values()):
                children[:] = [child for child in children if child != request_id]
            self.taken.add(request_id)
        if request_id in self.open or request_id in self.outcomes:
            self.fail("one outcome", f"{self.name(request_id)} was accepted twice")
        if broker is not None:
            deadline = broker.clock.truth(header.deadline) if header.deadline else float("inf")
            # A refused one passes as its node wrote it; the broker goes by its parent's deadline where that is sooner.
            self._deadlines[request_id] = min(deadline, self.open.get(header.parent, deadline))
        if is_ask:
            self.asks.add(request_id)
        self.open[request_id] = self._deadlines[request_id]
        self._specialists[request_id] = header.target
        self.outstanding.given(request_id, header.target)
        self._fresh[request_id] = header
        self._accepted.add(header.target)
        if header.parent in self.open:
            self._children.setdefault(header.parent, []).append(request_id)

    def _ended(self, request_id: bytes, envelope: bytes, broker: Broker | None, *, is_new: bool) -> None:
        if request_id in self.outcomes:
            self.fail("one outcome", f"{self.name(request_id)} ended twice")
        self.outstanding.ended(request_id)
        deadline = self.open.pop(request_id, None)
        if deadline is None:
            self.fail("one outcome", f"{self.name(request_id)} ended and was never accepted")
            return
        self.outcomes[request_id] = self._past[request_id] = envelope
        plan = self._world.by_id.get(request_id)
        if plan is not None and plan.is_volatile:
            self._said.setdefault(request_id, set()).add(envelope)
        self._orphans += self._children.pop(request_id, ())
        header = read_header(envelope)
        self.publications.response(header, envelope)
        source = header.source
        if plan is not None and plan.falls and header.status == Status.REJECTED_CAPABILITY.code:
            body = unpack(envelope[header.body :])
            if body["error"]["code"] == "agent_gone" and body.get("alternative_agent"):
                self.fail("falling through", f"{self.name(request_id)} could go to {body['alternative_agent']}")
        self._check_handler(header, envelope)
        self.moves.ended(plan, self._specialists[request_id], header, envelope)
        if source not in {b"ether", self._specialists[request_id]}:
            self.fail("identity", f"{self.name(request_id)} was ended by {source!r}")
        if envelope[1] == Status.TIMEOUT.code and source != b"ether":
            self.fail("deadline", f"{source!r} said TIMEOUT, which is the supervisor's word")
        if broker is not None and plan is not None and self._lacks(plan, header):
            self.fail("state", f"{source!r} ended {self.name(request_id)}, and its state is without it")
        if self._world.instances[source] == 1 and _says(envelope, "state_stale"):
            self.fail(
                "state", f"{source!r}, of which there was one instance only, was told {self.name(request_id)} is stale"
            )
        if broker is not None and envelope[1] == Status.TIMEOUT.code and request_id not in self.asks:
            now = self._world.timeline.now
            if now < deadline - _ROUNDING:
                self.fail("deadline", f"{self.name(request_id)} timed out {deadline - now:.3f} s early")
            # Those of a stranger, or of a pile, are many at once: they end as fast as the journal commits them. So do all
            # where next to nothing may be ahead of it.
            is_honest = plan is not None and plan.source != self._world.piler and not self._waits_for_journal
            if not is_new and is_honest and now > max(deadline, broker.up_since) + WINDOW + _ROUNDING:
                self.fail("deadline", f"{self.name(request_id)} timed out {now - deadline:.3f} s late")
        self.asks.discard(request_id)

    def _check_handler(self, header: Header, envelope: bytes) -> None:
        """Judge an outcome: what a handler raises is what was planned, and no bug of the simulation itself."""
        if header.status == Status.FAILED_EXECUTION.code and header.source in self._world.honest_names:
            error = unpack(envelope[header.body :])["error"]
            if error["code"] == "exception" and not error["message"].endswith("as planned"):
                self.fail("no bug", f"{header.source!r} raised {error['message']}")

    def _lacks(self, plan: Plan, header: Header) -> bool:
        """Whether an agent has completed work that is not in the state that it has saved."""
        if (
            not self._world.scenario.has_states or header.status != Status.COMPLETED.code
            or header.source not in self._world.honest_names or header.target != plan.source.encode()
        ):  # fmt: skip
            return False
        if kind_of(self._world.scenario, header.source.decode()).state_model() is None:
            return False
        state = self._history.states.get(header.source.decode())
        return state is None or plan.number not in unpack(state.data)["done"]

    def _event(self, event: Mapping[str, Any], *, is_new: bool) -> None:
        self.publications.event(event)
        self.moves.event(event, is_new=is_new)
        match event["event"]:
            case "reassigned":
                request_id = to_bytes(event["request_id"])
                if not self.moves.stays(request_id, event):
                    self.reassigned.add(request_id)
                self._specialists[request_id] = event["agent"].encode()
                self.outstanding.given(request_id, event["agent"].encode())
                self._is_moving = True
            case "agent_up" | "agent_down" | "agent_restarting" | "agent_draining":
                self._is_moving = True
                is_evil = event["node"] not in {member.name for member in self._world.members}
                is_taken = is_evil and event["agent"].encode() in self._world.honest_names
                self._is_robbed |= is_taken and event["event"] == "agent_up"
                if event["event"] == "agent_up":
                    self.outstanding.registered(event["agent"].encode())
            case "agent_scaled":
                scale = self._world.scenario.scale
                if scale is None or not 0 <= event["instances"] <= scale.max:
                    self.fail("scale", f"{event['agent']} has {event['instances']} instances")
            case "lease_granted":
                resource, token = event["resource"], event["token"]
                if resource in self._holders:
                    self.fail("lease exclusion", f"{resource} was granted to a second holder")
                if token <= self._token:
                    self.fail("lease exclusion", f"{resource} got token {token} after {self._token}")
                self._holders[resource] = self._token = token
            case "lease_released":
                if self._holders.pop(event["resource"], None) != event["token"]:
                    self.fail("lease exclusion", f"{event['resource']} was released and not held so")

    def stepped(self, supervisor: Supervisor) -> None:
        """Compare the supervisor's records with what passed; after each of its steps."""
        self.waits.stepped(supervisor)
        ledger, now = supervisor.state.ledger, supervisor.state.now
        if len(ledger) != len(self.open):
            self.fail("accounting", f"{len(ledger)} are open in the ledger and {len(self.open)} by what passed")
        due = ledger.deadlines.next()
        if due < now:
            self.fail("deadline", f"the supervisor stepped at {now:.3f} and left what was due at {due:.3f}")
        self._check_mailboxes(supervisor)
        found = self._world.scenario.priorities and self.priorities.stepped(supervisor, is_moving=self._is_moving)
        if found:
            self.fail("priorities", found)
        if self._world.scenario.scale is not None:
            self._check_sharing(supervisor)
            if found := self.outstanding.stepped(supervisor, self._world.timeline.now):
                self.fail("scale", found)
        owners = supervisor._policy._delivery.orphans.owners.values()  # a share of them ends each step
        orphans = {entry.request_id for children in owners for entry in children}
        for child in self._orphans:
            if child in self.open and child not in orphans:
                self.fail("one outcome", f"{self.name(child)} goes on without the delegation it was made for")
        self._check_fresh(orphans)
        self.publications.stepped()
        self.moves.stepped(supervisor)
        self._steps += 1
        if not self._world.scenario.crowd or self._steps % 16 == 0:  # a thousand agents take a while to be compared
            for difference in differences(supervisor, self._history):
                self.fail("fold", difference)
        self._orphans.clear()
        self._accepted.clear()
        self._is_moving = False

    def _check_mailboxes(self, supervisor: Supervisor) -> None:
        """Judge what the agents hold and what waits for them."""
        for agent in supervisor.state.registry.agents:
            mailbox = agent.mailbox
            limits = mailbox.limits
            most = limits.window if agent.condition is Condition.UP else float("inf")  # until it is back nobody knows
            if not 0 <= mailbox.in_flight <= most:
                self.fail("bounded queues", f"{agent.name!r} holds {mailbox.in_flight} of {limits.window}")
            if agent.condition is Condition.UP and not self._world.scenario.crowd:
                holding = sum(entry.holds_credit for entry in agent.work) + len(agent.ended_at_node)
                if mailbox.in_flight != holding:
                    self.fail("bounded queues", f"{agent.name!r} holds {holding}, and {mailbox.in_flight} are counted")
            waiting, before = mailbox.waiting_count, self._waiting.get(agent.name, 0)
            is_new = agent.name in self._accepted and agent.condition is Condition.UP and not self._is_moving
            if is_new and waiting > max(limits.mailbox_count, before):
                self.fail("bounded queues", f"{waiting} wait for {agent.name!r} of {limits.mailbox_count}")
            self._waiting[agent.name] = waiting

    @property
    def _waits_for_journal(self) -> bool:
        """Whether so little may be ahead of the journal that each waits for its commits."""
        return "ahead" in self._world.scenario.draws

    def _check_sharing(self, supervisor: Supervisor) -> None:
        """Judge the number of instances, and whether something waits for one of them which another one could begin."""
        for life in (member.life for member in self._world.members):
            for group in life.node.scaling._scaled if life is not None else ():
                if (count := len(group.cells)) > group.scale.max:
                    self.fail("scale", f"{group.name} has {count} instances, of {group.scale.max} at most")
        sharing, state = supervisor.rebalancing.job, supervisor.state
        if sharing.at <= state.now or sharing in state.schedule.paused or state.journal.trouble is not None:
            return  # the next step goes on with it
        for agent, instances in supervisor.rebalancing._instances.items():
            front = agent.mailbox.next_movable
            for other in instances.members if front is not None else ():
                box = other.mailbox
                if box.is_open and not box.waiting_count and box.in_flight < box.limits.window:
                    self.fail(
                        "sharing", f"{self.name(front.request_id)} waits for {agent.name!r}, and {other.name!r} is free"
                    )

    def _check_fresh(self, orphans: AbstractSet[bytes]) -> None:
        """Judge what was accepted in this step and is open now: who may have asked for it, and for what it is made."""
        world = self._world
        for request_id, header in self._fresh.items():
            if request_id not in self.open or request_id in self.asks:
                continue
            if header.parent != NO_ID and header.parent not in self.open and request_id not in orphans:
                self.fail("parents", f"{self.name(request_id)} goes on, and what it was made for is not open")
            if header.source in world.honest_names and request_id not in world.by_id:
                self.fail("identity", f"{header.source!r} never asked for {request_id.hex()}, which was accepted")
        self._fresh.clear()

    # -- handlers ------------------------------------------------------------------------------------------------

    def started(self, plan: Plan, header: Header, agent: str, places: int) -> None:
        """See a handler begin."""
        world = self._world
        world.note("started", agent, plan.number, header.attempt)
        if plan.starts and not plan.is_idempotent:
            self.fail("at most once", f"{self.name(header.request_id)} was begun by {plan.starts} and by {agent}")
        is_unsaid = plan.is_volatile and plan.is_idempotent  # a broker that is killed takes along that it gave it again
        if header.attempt in plan.starts and not is_unsaid:
            self.fail("at most once", f"attempt {header.attempt} of {self.name(header.request_id)} was begun twice")
        plan.starts[header.attempt] = agent
        self.retries.started(plan)
        if world.scenario.durable and not plan.is_volatile and header.request_id not in world.disk.accepted:
            self.fail("no loss", f"{self.name(header.request_id)} was begun before it was durable")
        if (plan.source, "-".join(agent.split("-")[:4])) in world.scenario.barred:  # without an instance's number
            self.fail(
                "least capability", f"{agent} was given {self.name(header.request_id)}, which the access list bars"
            )
        request_id = header.request_id
        late = world.timeline.now - self._told.get(request_id, self._deadlines[request_id])
        # The node's idea of the broker's clock is as old as a frame.
        if late > world.scenario.weather.slowest and not self._is_rebooted:
            self.fail("deadline", f"{self.name(request_id)} was begun {late:.3f} s after its deadline")
        if header.attempt > 1 or places > 1:
            return
        if plan.is_volatile and (header.flags & Flag.RESENT or request_id in self.moves.handed_back):
            return  # the broker that is gone may have given it to another; what is given again waits for the journal
        if self._is_rebooted and (request_id in self._past or request_id in self._put_off):
            return  # its node held it for late and began others; by the clock of the machine's new start it is not late
        if any(request_id in moved for moved in (self.reassigned, self.handed_back, self.refused, self.said_again)):
            return
        key = (plan.source, agent, plan.is_volatile, priority_of(header.flags))  # between these no order is promised
        if plan.order < self._orders.get(key, 0):
            self.fail("order", f"{agent} began number {plan.order} of {plan.source} after {self._orders[key]}")
        self._orders[key] = plan.order

    def began(self, header: Header, agent: Agent, name: str) -> None:
        """See of which priority a handler begins, and what waits behind it."""
        if any(work.cancelled for work in waiting_in(agent.actor_inbox)):
            self.fail("bounded queues", f"{name} begins, and what its node knows to have ended waits for it still")
        if found := self.priorities.began(agent.actor_inbox, priority_of(header.flags), name):
            self.fail("priorities", found)

    def started_strange(self, header: Header) -> None:
        """See a handler begin what no honest delegator asked for."""
        attempts = self._strange.setdefault(header.request_id, [])
        if header.attempt in attempts or (attempts and header.capability == ONCE.encode()):
            self.fail(
                "at most once", f"a stranger's {header.request_id.hex()} was begun as {[*attempts, header.attempt]}"
            )
        attempts.append(header.attempt)

    def leased(self, resource: str, token: int, header: Header) -> None:
        """See a handler enter a lease."""
        self._world.note("leased", resource, token)

    def told(self, peer: RawPeer, header: Header, envelope: bytes) -> None:
        """See a session without rights being told an outcome; only of what it asked for itself."""
        is_own = header.request_id in peer.asked or header.request_id in self.taken
        if not is_own and self._past.get(header.request_id) == envelope:
            self.fail("identity", f"{peer.name} was told the outcome of {self.name(header.request_id)}")

    # -- delegators ----------------------------------------------------------------------------------------------

    def ended(self, plan: Plan, life: int, handle: Handle) -> None:
        """See a delegator get an outcome."""
        world = self._world
        envelope, code = handle._envelope, ""
        is_known = envelope == self._recorded(plan.request_id) or envelope in self._said.get(plan.request_id, ())
        if not envelope or not is_known:
            error = handle.outcome().error
            code = error.code if error is not None else "?"
            self._unrecorded(plan, life, code, handle)
        world.note("ended", plan.number, life, code)
        for _, other, refusal in plan.ends:
            is_taken_now = refusal == "journal_unavailable" and plan.request_id in self.said_again
            if envelope and other and other != envelope and not code and not is_taken_now:
                self.fail("one outcome", f"{self.name(plan.request_id)} had two outcomes at its delegator")
        plan.ends.append((life, envelope, code))

    def _recorded(self, request_id: bytes) -> bytes | None:
        world = self._world
        plan = world.by_id.get(request_id)
        is_durable = world.scenario.durable and not (plan is not None and plan.is_volatile)
        return (world.disk.outcomes if is_durable else self._past).get(request_id)

    def _unrecorded(self, plan: Plan, life: int, code: str, handle: Handle) -> None:  # noqa: PLR0912  a case a row
        """Judge an outcome that is not the disk's."""
        world, name = self._world, self.name(plan.request_id)
        if not handle._envelope:  # its node's own word
            if code in {"broker_unreachable", "journal_unavailable"}:
                passed = handle._owner.resources.monotonic() - handle.deadline  # type: ignore[attr-defined]  # it is its node's
                deadline = world.timeline.now - max(DEFAULT_TIMING.grace, passed)  # its parent's may have been sooner
                if world.disturbed_until < deadline and not self._waits_for_journal:
                    self.fail("liveness", f"{name} had no outcome 2 s after its deadline, and nothing was wrong")
                return
            if code == "deadline":  # its handle's own: the same request was said before, with a longer one
                is_over = handle.deadline <= handle._owner.resources.monotonic()  # type: ignore[attr-defined]  # its node's
                if plan.request_id not in self.said_again or not is_over:
                    self.fail("deadline", f"{name} was ended by its node, as nothing but a request said again may be")
                return
            if code == "link_full":
                if plan.request_id in self._deadlines and plan.request_id not in self.said_again:
                    self.fail("one outcome", f"{name} was refused by its node's link, and sent")
                return
            if code == "closed" or (code == "broker_lost" and (plan.is_volatile or not world.scenario.durable)):
                return
        elif code == "journal_unavailable":
            if plan.request_id in world.disk.accepted and plan.request_id not in self.said_again:
                self.fail("one outcome", f"{name} was refused and accepted")
            return
        elif plan.request_id in self.taken and (
            code == "duplicate_request" or read_header(handle._envelope).flags & Flag.REFUSED
        ):
            return  # before its delegator had heard of the refusal, somebody who knows the id took it
        elif code == "forged_sender" and plan.source in world.stopped:
            if plan.request_id in world.disk.accepted:  # else it was under way when the broker died, and its agent left
                self.fail("one outcome", f"{name} was refused and accepted")
            return
        elif code == "delegator_gone" and plan.source in world.stopped and "forgetful" in world.scenario.draws:
            return  # its agent had left the node that asks, and who asked is not remembered
        elif code == "outcome_removed":
            is_above = plan.request_id > max(self._past)  # all that has ended
            if world.disk.outcome(plan.request_id) or world.disk.first == 1 or is_above:
                self.fail("no loss", f"{name} was told that its outcome was given up, and it was not")
            return
        elif code == "broker_lost":
            is_same = plan.life == life
            if not world.scenario.durable or plan.is_volatile:
                return
            if plan.request_id in world.disk.accepted:
                self.fail("no loss", f"{name} is on the disk and its delegator was told that it is lost")
            elif is_same and plan.request_id not in self.refused:
                self.fail("no loss", f"{name} was sent by a process that lives, and never accepted")
            return
        self.fail("one outcome", f"{name} ended at its delegator with {code!r}, which is not on the disk")

    def listed(self, member: Member, found: Mapping[bytes, Any]) -> None:
        """See what the bus says that a delegator has not collected."""
        mine = {plan.request_id for plan in member.plans}
        for request_id, item in found.items():
            if request_id not in mine and request_id in self._deadlines and not self._is_ask(request_id):
                self.fail("no loss", f"{member.name} was offered {self.name(request_id)}, which it never asked for")
            is_open = (
                request_id in self.open and request_id not in self.refused
            )  # else it was taken after this was said
            if item["ended"] and self._world.scenario.durable and is_open:
                self.fail("one outcome", f"{self.name(request_id)} is offered as ended and is open")

    def _is_ask(self, request_id: bytes) -> bool:
        return request_id not in self._world.by_id

    # -- observers -----------------------------------------------------------------------------------------------

    def saw(self, watcher: Watcher, number: int, envelope: bytes) -> None:
        """See an observer see."""
        world = self._world
        if not world.scenario.durable:
            return
        envelopes = world.disk.envelopes
        if number > len(envelopes) or envelopes[number - 1] != envelope:
            self.fail("complete tap", f"{watcher.name} saw a number {number} that is not the disk's")
        digest = self._digests.get(watcher.name)
        if digest is None:
            digest = self._digests[watcher.name] = [hashlib.sha256(), 1]
        if number == digest[1]:
            digest[0].update(envelope)
            digest[1] += 1
        elif number > digest[1]:
            self.fail("complete tap", f"{watcher.name} saw {number} where {digest[1]} was due")

    def missed(self, watcher: Watcher, first: int, last: int) -> None:
        """See an observer be told of a gap: only of what the journal has given up."""
        world = self._world
        if not world.scenario.durable:
            return
        if last >= world.disk.first:
            self.fail(
                "complete tap", f"{watcher.name} was told that it missed {first} to {last}, which the journal has"
            )
        digest = self._digests.setdefault(watcher.name, [hashlib.sha256(), 1])
        if first == digest[1]:
            digest[1] = last + 1

    # -- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Compare everything with everything, after the faults have stopped and the world came to rest."""
        world = self._world
        supervisor = world.broker.supervisor
        assert supervisor is not None
        if self.open:
            self.fail("liveness", f"{self.name(next(iter(self.open)))} and {len(self.open) - 1} others never ended")
        for plan in world.plans:
            if plan.request_id and not (plan.is_child or plan.is_named or plan.ends):
                self.fail("liveness", f"{plan.source} never learned of {self.name(plan.request_id)}")
        self.publications.finish(self._past)
        self.retries.finish()
        self._finish_queues(supervisor)
        self._finish_scaling()
        if world.scenario.durable:
            self._finish_journal()

    def _finish_scaling(self) -> None:
        """Compare how many instances there are with what the scale says; there are fewer where one did not start.

        One that is drained is there as long as a handler works in it, though nobody waits for that any more.
        """
        for life in (member.life for member in self._world.members):
            for group in life.node.scaling._scaled if life is not None else ():
                count, scale = sum(not (cell in group.draining and cell.works) for cell in group.cells), group.scale
                least = scale.min if not group.failures else 0
                if not least <= count <= scale.min:
                    self.fail(
                        "scale", f"{group.name} has {count} instances long after all work, of at least {scale.min}"
                    )
                for cell in group.cells:
                    if cell.outstanding:
                        self.fail("scale", f"{cell.outstanding} seem to wait or run for {cell.name!r} at rest")

    def _finish_queues(self, supervisor: Supervisor) -> None:
        ledger = supervisor.state.ledger
        if ledger.size or ledger._asked:
            self.fail(
                "bounded queues", f"{ledger.size} bytes of delegations, and {len(ledger._asked)} delegators, at rest"
            )
        for agent in supervisor.state.registry.agents:
            mailbox = agent.mailbox
            if has_work(agent) or any(not letter.is_over for letter in mailbox._waiting):
                self.fail(
                    "liveness", f"{agent.name!r} has {mailbox.in_flight} and {mailbox.waiting_count} left at rest"
                )
        for session in supervisor.state.session_table.sessions:
            waiting = [*session.outbox, *session.fresh, *supervisor.state.session_table.uncommitted(session)]
            channel = session.channel
            kept = channel.last - channel.first + 1 if channel.first else 0
            is_silent = supervisor.state.now - session.heard > 2 * DEFAULT_TIMING.heartbeat
            if is_silent or session.node in {peer.name for peer in self._world.raws if peer.is_dead}:
                kept = 0  # nothing of it arrives, so no acknowledgement either: it reconnects, or it is lost
            if session.outbox_bytes != sum(map(len, waiting)) or kept > _AT_REST:
                self.fail(
                    "bounded queues",
                    f"{session.outbox_bytes} bytes and {kept} frames are kept for {session.node} at rest",
                )

    def _finish_journal(self) -> None:
        world = self._world
        if self.outcomes != world.disk.outcomes:
            self.fail("one outcome", "the disk's outcomes are not those that passed")
        for member in world.members:
            for watcher in member.watchers:
                digest, position = self._digests[watcher.name]
                if position != world.disk.next:
                    self.fail("complete tap", f"{watcher.name} is at {position} of {world.disk.next}")
                if not watcher.gaps and digest.digest() != hashlib.sha256(b"".join(world.disk.envelopes)).digest():
                    self.fail("complete tap", f"the digest of {watcher.name} is not the disk's")

        for request_id, envelope in world.disk.outcomes.items():
            plan, header = world.by_id.get(request_id), read_header(envelope)
            if plan is not None and self._lacks(plan, header):
                self.fail("state", f"{header.source!r} has lost what it saved with {self.name(request_id)}")

    def open_until(self, request_id: bytes) -> float:
        """The deadline of a delegation, by the timeline."""
        return self._deadlines[request_id]

    def specialist(self, request_id: bytes) -> str:
        """The agent that a delegation was given to; empty if to none."""
        return self._specialists.get(request_id, b"").decode()

    def name(self, request_id: bytes) -> str:
        """A delegation, for people."""
        plan = self._world.by_id.get(request_id)
        if plan is None:
            return f"request {int.from_bytes(request_id[8:]) & 0xFFFFFFFF}"
        return f"#{plan.number} ({plan.source} → {plan.target or 'any'}, {plan.capability}, {plan.behaviour or 'work'})"


def _says(envelope: bytes, code: str) -> bool:
    """Whether an outcome is a failure with that code."""
    header = read_header(envelope)
    return header.status == Status.FAILED_EXECUTION.code and unpack(envelope[header.body :])["error"]["code"] == code
