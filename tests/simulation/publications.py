"""The invariants of events: each subscriber is given each of them once, and none is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ether_actors.delegator.handle import Handle
from ether_broker.envelope.ids import to_bytes
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.wire.codec import plain_params
from ether_broker.wire.frame import Header, read_header

if TYPE_CHECKING:
    from tests.simulation.member import Life
    from tests.simulation.world import World

__all__ = ["EVENTS", "Publication", "Publications"]

EVENTS: Final = b"ether.event."
_PUBLISH: Final = b"ether.publish"
_KEEN: Final = b"keen"


@dataclass(slots=True)
class Publication:
    """One event as the world knows it."""

    number: int
    source: str
    """Who publishes: the name of a member, or of an agent."""
    topic: str
    life: Life
    """Of the process that publishes."""
    handle: Handle
    is_volatile: bool
    starts: dict[str, list[int]] = field(default_factory=dict)
    """{subscriber: the attempts that it began}."""


class Publications:
    """Who sees every event that is published, given, handled."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: dict[bytes, Publication] = {}
        """{request id of the publication: it}."""
        self._given: dict[bytes, dict[bytes, bytes]] = {}
        """{publication: {subscriber: request id of the delivery}}, as this broker has said or found on the disk."""
        self._deliveries: dict[bytes, tuple[bytes, bytes]] = {}
        """{request id of a delivery: (publication, subscriber)}, of all brokers."""
        self._refused: dict[bytes, set[bytes]] = {}
        self._incarnations: dict[bytes, bytes] = {}
        """{agent: the node's incarnation that registered it last}, of those that subscribe."""
        self._missed: set[tuple[bytes, bytes]] = set()
        self._doubtful: set[bytes] = set()
        """Those of them that drain or leave: they may still count, or not any more."""
        self._judged: set[bytes] = set()
        """The publications whose subscribers were compared as they passed."""

    def broker_began(self) -> None:
        """Forget what the broker that is gone had said; what is on the disk is folded again."""
        self._given.clear()
        self._refused.clear()
        self._incarnations.clear()
        self._doubtful.clear()

    def published(self, publication: Publication) -> None:
        """See an event be published."""
        self.all[publication.handle.key] = publication
        self._world.note("published", publication.number)

    # -- what passes ---------------------------------------------------------------------------------------------

    def delegation(self, header: Header, envelope: bytes) -> None:
        """See a delegation pass that is a publication or a delivery."""
        if header.capability == _PUBLISH:
            self._given[header.request_id], self._refused[header.request_id] = {}, set()
        elif header.capability.startswith(EVENTS):
            published = self._published_by(header, envelope)
            given = self._given.setdefault(published, {})
            if header.target in given:
                self._fail("once", f"{header.target!r} was given event {published.hex()} twice")
            given[header.target] = header.request_id
            self._deliveries[header.request_id] = published, header.target

    def _published_by(self, header: Header, envelope: bytes) -> bytes:
        return to_bytes(unpack(plain_params(header, envelope))["id"])

    def response(self, header: Header, envelope: bytes) -> None:
        """See an outcome pass; that of a publication is compared with who subscribed at that moment."""
        if header.capability != _PUBLISH or header.status != Status.COMPLETED.code:
            return
        request_id = header.request_id
        said = unpack(unpack(envelope[header.body :])["data"])
        given = self._given.get(request_id, {})
        if said["subscribers"] != len(given):
            self._fail("none lost", f"event {request_id.hex()} has {len(given)} deliveries of {said['subscribers']}")
        reached = given.keys() | {name.encode() for name in said["refused"]}
        publication = self.all.get(request_id)
        if publication is None:
            return
        barred = {agent.encode() for source, agent in self._world.scenario.barred if source == publication.source}
        due = self._incarnations.keys() - barred if publication.topic.startswith("jobs.") else set()
        if request_id not in self._judged:  # a later broker that reads it knows no more whose time had ended then
            self._judged.add(request_id)
            self._missed.update((agent, request_id) for agent in due - self._doubtful - reached)
        if strange := reached - due:
            self._fail("least capability", f"{min(strange)!r} was given event {request_id.hex()}")

    def stepped(self) -> None:
        """Judge who was not given an event in this step: an agent that drains says so to the end of the step."""
        for agent, request_id in sorted(self._missed):
            if agent not in self._doubtful and not self._is_over(agent):
                self._fail("none lost", f"{agent!r} subscribes and was not given event {request_id.hex()}")
        self._missed.clear()

    def _is_over(self, agent: bytes) -> bool:
        """Whether the time of an agent that is down has ended; nobody has said yet that it is forgotten."""
        supervisor = self._world.broker.supervisor
        assert supervisor is not None
        known = supervisor.state.registry.get(agent)
        remembered = supervisor._membership.departures.remembered
        return known is not None and not known.is_hosted and remembered.until(known) <= supervisor.state.now

    def event(self, event: Mapping[str, Any]) -> None:
        """See who is there."""
        name = str(event.get("agent", "")).encode()
        match event["event"]:
            case "agent_up" if name in self._world.subscribers:
                if self._incarnations.get(name) != event["incarnation"]:  # else it drains on
                    self._doubtful.discard(name)
                self._incarnations[name] = event["incarnation"]
            case "agent_down" if event["reason"] not in {"node_lost", "moves"}:
                self._incarnations.pop(name, None)
            case "agent_forgotten":
                self._incarnations.pop(name, None)
            case "agent_draining" | "agent_leaving":
                self._doubtful.add(name)
            case "node_leaving":
                self._doubtful |= {
                    agent for agent, incarnation in self._incarnations.items() if incarnation == event["incarnation"]
                }
            case _:
                pass

    # -- what is done --------------------------------------------------------------------------------------------

    def started(self, header: Header, event_id: str, agent: str) -> None:
        """See a handler begin."""
        publication = self.all.get(to_bytes(event_id))
        if publication is None:
            self._fail("identity", f"{agent} was given an event that nobody published")
            return
        self._world.note("event", publication.number, agent, header.attempt)
        starts = publication.starts.setdefault(agent, [])
        if starts and not (_KEEN in header.capability and header.attempt > 1):
            self._fail("at most once", f"{agent} began event {publication.number} as {[*starts, header.attempt]}")
        starts.append(header.attempt)
        world = self._world
        if world.scenario.durable and not publication.is_volatile and header.request_id not in world.disk.accepted:
            self._fail("no loss", f"{agent} began event {publication.number} before it was durable")
        if (publication.source, agent) in world.scenario.barred:
            self._fail("least capability", f"{agent} was given event {publication.number}, which is barred")

    def finish(self, outcomes: Mapping[bytes, bytes]) -> None:
        """Compare what publishers and subscribers know, when the world is at rest."""
        for request_id, publication in self.all.items():
            if not publication.handle.done:
                if publication.life.is_dead:
                    continue
                self._fail("liveness", f"{publication.source} never learned of event {publication.number}")
                continue
            response = publication.handle.outcome()
            given = self._given.get(request_id, {})
            is_durable = self._world.scenario.durable and not publication.is_volatile
            if is_durable and response.ok and len(given) != response.data["subscribers"]:
                self._fail("none lost", f"event {publication.number} has {len(given)} deliveries on the disk")
            for agent, delivery in given.items():
                if delivery not in outcomes:
                    self._fail("liveness", f"{agent!r} has not ended with event {publication.number}")
                elif read_header(outcomes[delivery]).status == Status.COMPLETED.code and not publication.starts.get(
                    agent.decode()
                ):
                    self._fail("at most once", f"{agent!r} ended event {publication.number} and never began it")

    def unrest(self) -> str:
        """What is still to come; empty at rest."""
        open_ = [one for one in self.all.values() if not one.handle.done and not one.life.is_dead]
        return f"{open_[0].source} waits for event {open_[0].number}" if open_ else ""

    def _fail(self, invariant: str, message: str) -> None:
        self._world.auditor.fail(invariant, message)
