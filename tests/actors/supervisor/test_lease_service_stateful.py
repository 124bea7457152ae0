"""The random life of a bus (`test_supervisor_stateful`), whose handlers also claim and release leases (G5).

Holds after every step: a lease belongs to a delegation that its specialist has, and to no other; tokens rise; who
waits is told once, and while it is not told, it stands in line; and the events alone say who holds what.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind
from tests.actors.peers import Peer, Received, request_id
from tests.actors.supervisor.test_supervisor_stateful import Supervision
from tests.actors.supervisor_books import LATEST, Books, Given

RESOURCES = st.sampled_from(["r", "s"])


@dataclass(eq=False)
class Claimed:
    """A claim as the specialist sees it."""

    number: int
    given: Given
    resource: str
    token: int = 0
    outcome: Status | None = None


class LeaseBooks(Books):
    """What was claimed and answered, too."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.claims: dict[int, Claimed] = {}
        self.releases: dict[int, Peer] = {}
        self.held: dict[str, tuple[str, int]] = {}
        """{resource: (request id, token)}, by the events."""
        self.highest = 0

    def claim(self, given: Given, resource: str, wait: float | None) -> None:
        params = {"resource": resource, **({} if wait is None else {"wait": wait})}
        number = given.peer.delegate(
            given.agent, "ether.lease", parent=given.asked.number, params=params, timeout=20.0
        )  # fmt: skip
        self.claims[number] = Claimed(number, given, resource)

    def release(self, claimed: Claimed) -> None:
        given = claimed.given
        params = {"token": claimed.token}
        number = given.peer.delegate(given.agent, "ether.release", parent=given.asked.number, params=params)
        self.releases[number] = given.peer

    def _enter_response(self, peer: Peer, received: Received) -> None:
        claimed = self.claims.get(received.number)
        if claimed is not None:
            assert claimed.outcome is None, "G1: a claim was answered twice"
            assert peer is claimed.given.peer
            claimed.outcome = received.status
            if received.status is Status.COMPLETED:
                claimed.token = read_response(received.header, received.envelope).data["token"]
        elif received.number not in self.releases:
            super()._enter_response(peer, received)

    def _enter_tapped(self, seen: Received) -> None:
        super()._enter_tapped(seen)
        if seen.kind is not Kind.EVENT or not seen.body["event"].startswith("lease_"):
            return
        event = seen.body
        if event["event"] == "lease_granted":
            assert event["resource"] not in self.held, "G5: a second writer"
            assert event["token"] > self.highest, "G5: tokens do not rise"
            self.highest = event["token"]
            self.held[event["resource"]] = (event["request_id"], event["token"])
        else:
            assert self.held.pop(event["resource"]) == (event["request_id"], event["token"])

    def check(self) -> None:
        super().check()
        leases = self.bus.supervisor.lease_service.leases
        ledger = self.bus.state.ledger
        assert {held.resource: held.token for held in leases.after(0)} == {
            resource: token for resource, (_, token) in self.held.items()
        }
        for held in leases.after(0):
            entry = ledger.get(held.holder)
            assert entry is not None, "G5: the lease of a delegation that has ended"
            assert entry.state is not State.QUEUED, "G5: the lease of an attempt that is over"
            assert entry.agent.name.decode() == held.agent
        assert not leases.ending
        for asking in self.bus.state.bus.work:
            claim = leases.waiting(asking.request_id)
            assert claim is not None
            assert claim in leases.line(claim.resource)
        for claimed in self.claims.values():
            claim = leases.waiting(request_id(claimed.number))
            if claimed.outcome is None and not claimed.given.peer.is_dead:
                assert claim is not None, "a claim was forgotten"
            if claim is not None:
                assert claimed.outcome is None
                assert ledger.get(claim.holder) is not None, "it waits for a delegation that has ended"
                is_late = claim.deadline <= self.bus.now
                assert is_late or leases.holder(claim.resource) is not None, "it waits for a free lease"
                assert self.bus.now < claim.deadline + LATEST


class LeasedSupervision(Supervision):
    books: LeaseBooks
    books_type = LeaseBooks

    @property
    def held(self) -> list[Claimed]:
        return [claimed for claimed in self.books.claims.values() if claimed.token]

    @precondition(lambda self: self.handlers())
    @rule(data=st.data(), count=st.integers(1, 5), wait=st.sampled_from([None, None, 0, 0.3, 3.0]))
    def handlers_claim(self, data: st.DataObject, count: int, wait: float | None) -> None:
        for _ in range(count):
            self.books.claim(data.draw(st.sampled_from(self.handlers())), data.draw(RESOURCES), wait)
        self.books.step()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_handler_releases(self, data: st.DataObject) -> None:
        claimed = data.draw(st.sampled_from(self.held))
        if not claimed.given.peer.is_dead:
            self.books.release(claimed)
        self.books.step()

    @precondition(lambda self: self.books.claims)
    @rule(data=st.data())
    def a_claim_is_called_off(self, data: st.DataObject) -> None:
        claimed = data.draw(st.sampled_from(list(self.books.claims.values())))
        claimed.given.peer.cancel(claimed.given.agent, claimed.number)
        self.books.step()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "books"):
            lease_service = self.books.bus.supervisor.lease_service
            assert not list(lease_service.leases.after(0))
            assert not lease_service.leases.stakes
            assert not self.books.bus.state.bus.work, "a claim without an answer is kept for ever"


TestLeasedSupervision = LeasedSupervision.TestCase
TestLeasedSupervision.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
