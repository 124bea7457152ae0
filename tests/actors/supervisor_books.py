"""The books of the stateful test: what was asked, given and answered, by the envelopes alone, and the laws they follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import Flag, Kind
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer, Received

__all__ = ["IDEMPOTENT", "Asked", "Books", "Given"]

IDEMPOTENT = {"once": False, "twice": True, "wide.near": False, "wide.far": True, "*": False}
"""{capability: whether it may run twice}; the same wherever it is declared."""
LATEST = 0.25
"""Seconds after a deadline in which TIMEOUT has to fall (G4)."""


@dataclass(eq=False)
class Asked:
    """A delegation as its delegator sees it."""

    number: int
    source: str
    peer: Peer
    deadline: float
    parent: int = 0
    is_forged: bool = False
    is_accepted: bool = False
    outcome: Status | None = None
    holder: str = ""
    """Who it waits for, or was given to, last."""
    has_moved: bool = False
    """It was given to another holder than the first, so its order means nothing."""
    times_sent: int = 0
    handed_back: int = 0
    lost: int = 0
    """Nodes or agents that went while they had it."""
    capability: str = ""
    again: list[Peer] = field(default_factory=list)
    """Nodes that sent it again; each gets the outcome that it had, if it hosts the delegator or did so when it sent it."""
    homes: set[Peer] = field(default_factory=set)
    """Those of them that hosted the delegator then."""


@dataclass(eq=False)
class Given:
    """A delegation in the hands of a specialist's node; it stays there until the node answers, though it may have ended."""

    agent: str
    peer: Peer
    asked: Asked
    is_started: bool = False
    """The node has said so."""
    is_called_off: bool = False
    """The node was told that it has ended."""


class Books:
    """What happened on one bus."""

    def __init__(self, limits: Limits) -> None:
        self.bus = Bus(limits)
        self.limits = limits
        self.asked: dict[int, Asked] = {}
        self.given: list[Given] = []
        self.manifests: dict[str, Manifest] = {}
        self.homes: dict[str, Peer] = {}
        """{agent: the node that hosts it}, of living nodes."""
        self.last_sent: dict[tuple[str, str], int] = {}
        """{(sender, receiver): the newest that was given}; numbers rise as they are asked."""
        self._answered: set[int] = set()
        """Work that nodes answered or lost since the last step: a CANCEL may cross that."""
        self._tapped = 0
        self._delegations_tapped: dict[int, int] = {}
        self._outcomes_tapped: dict[int, int] = {}

    @property
    def open(self) -> list[Asked]:
        """What has no outcome yet."""
        return [asked for asked in self.asked.values() if asked.outcome is None]

    # -- what happens --------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let what was said arrive, and enter what comes of it."""
        self.bus.step()
        self._enter()

    def pass_time(self, seconds: float) -> None:
        """Step at each time at which the supervisor wants to."""
        end = self.bus.now + seconds
        while (wake := max(self.bus.supervisor.next_wake(), self.bus.now)) < end:
            self.bus.pass_time(wake - self.bus.now)
            self._enter()
        self.bus.pass_time(end - self.bus.now)
        self._enter()

    def host(self, peer: Peer, manifest: Manifest) -> None:
        """Register an agent; its name is free, or it lives on this node already."""
        self.manifests[manifest.agent] = manifest
        self.homes[manifest.agent] = peer
        peer.register_manifest(manifest)

    def ask(
        self,
        agent: str,
        capability: str,
        *,
        to: str,
        timeout: float,
        parent: Given | None = None,
        by: Peer | None = None,
    ) -> None:
        """Delegate; `by` is a node that has no right to speak for the agent."""
        peer = by or self.homes[agent]
        deadline = self.bus.now + timeout
        number = peer.delegate(agent, capability, to=to, timeout=timeout, parent=parent.asked.number if parent else 0)
        if parent is not None and parent.asked.outcome is None:
            deadline = min(deadline, parent.asked.deadline)
        self.asked[number] = Asked(
            number,
            agent,
            peer,
            deadline,
            parent.asked.number if parent else 0,
            is_forged=by is not None,
            capability=capability,
        )

    def answer(self, given: Given, status: int) -> None:
        """Let a specialist's node answer; terminal statuses take the work out of its hands."""
        given.peer.respond(given.agent, given.asked.number, status)
        if status in (Status.ACCEPTED, Status.PROGRESS):
            given.is_started = True
        elif given.asked.outcome is not None or status in set(Status) - {Status.TIMEOUT}:
            self.given.remove(given)
            self._answered.add(given.asked.number)

    def hand_back(self, given: Given) -> None:
        """Give back what was not started; what was, stays: that is illegal."""
        given.peer.hand_back(given.agent, given.asked.number)
        if not given.is_started or given.asked.outcome is not None:
            self.given.remove(given)
            given.asked.handed_back += given.asked.outcome is None

    def leave(self, agent: str) -> None:
        """Let an agent leave for good."""
        self.homes.pop(agent).send(Kind.UNREGISTER, source=agent.encode(), body={"condition": "gone"})
        self._lose([given for given in self.given if given.agent == agent])

    def bye(self, peer: Peer) -> None:
        """Let a node leave."""
        peer.send(Kind.BYE)
        self.die(peer)

    def die(self, peer: Peer) -> None:
        """Let a node fall silent."""
        peer.is_dead = True
        peer.inbox.clear()
        self.homes = {agent: home for agent, home in self.homes.items() if home is not peer}
        self._lose([given for given in self.given if given.peer is peer])

    def _lose(self, lost: list[Given]) -> None:
        for given in lost:
            self.given.remove(given)
            given.asked.lost += 1
            self._answered.add(given.asked.number)

    # -- what the supervisor said --------------------------------------------------------------------------------

    def _enter(self) -> None:
        # What was given in this step may have been cancelled in it too; so first what was given, to whomever.
        for peer in self.bus.peers:
            for received in [*peer.took(Kind.DELEGATION), *peer.unheard]:
                if received.kind is Kind.DELEGATION:
                    self._enter_delegation(peer, received)
            peer.unheard.clear()
        passed = self.bus.tapped[self._tapped :]
        for seen in passed:
            self._enter_tapped(seen)
        self._tapped = len(self.bus.tapped)
        for peer in self.bus.peers:
            for received in peer.took(Kind.RESPONSE):
                self._enter_response(peer, received)
            for received in peer.took(Kind.CANCEL):
                self._enter_cancel(peer, received)
            peer.inbox.clear()
        self._enter_unheard(passed)
        self._answered.clear()
        self.check()

    def _enter_unheard(self, passed: list[Received]) -> None:
        """Enter outcomes that went to a node which sent the request again, and fell silent."""
        for seen in passed:
            asked = self.asked.get(seen.number)
            if asked is not None and seen.kind is Kind.RESPONSE and seen.status.is_terminal and asked.outcome is None:
                assert any(peer.is_dead for peer in asked.again), "G1: an outcome that nobody was told"
                asked.outcome = seen.status

    def _enter_tapped(self, seen: Received) -> None:
        asked = self.asked.get(seen.number)
        if asked is None:
            return
        if seen.kind is Kind.DELEGATION:
            self._delegations_tapped[seen.number] = self._delegations_tapped.get(seen.number, 0) + 1
        elif seen.kind is Kind.RESPONSE and seen.status.is_terminal:
            self._outcomes_tapped[seen.number] = self._outcomes_tapped.get(seen.number, 0) + 1
            if asked.peer.is_dead and asked.outcome is None:
                asked.outcome = seen.status  # nobody else is left to hear it
            if seen.status is Status.TIMEOUT and asked.is_accepted:
                assert asked.deadline <= self.bus.now <= asked.deadline + LATEST, "G4: TIMEOUT at the wrong time"

    def _enter_delegation(self, peer: Peer, received: Received) -> None:
        asked = self.asked[received.number]
        agent, capability = received.header.target.decode(), received.header.capability.decode()
        self._check_right_to_have(asked, peer, received, agent, capability)
        self._check_runs(asked, received, capability)
        if asked.holder not in ("", agent):
            asked.has_moved = True
        asked.holder = agent
        if asked.times_sent == 0 and not asked.has_moved:
            pair = asked.source, agent
            assert self.last_sent.get(pair, 0) < asked.number, "G9: overtook an older one"
            self.last_sent[pair] = asked.number
        asked.times_sent += 1
        if peer.is_dead:
            asked.lost += 1
        else:
            self.given.append(Given(agent, peer, asked))

    def _check_right_to_have(self, asked: Asked, peer: Peer, received: Received, agent: str, capability: str) -> None:
        declared = self.manifests[agent].resolve(capability)
        assert not asked.is_forged, "G6: forged"
        assert peer.is_dead or self.homes[agent] is peer, "given to a node that does not host the agent"
        assert declared is not None, "G10: given what it does not declare, or excludes"
        assert declared.name in (capability, "*"), "G10: under a name that it does not declare"
        assert self.bus.now < received.header.deadline == asked.deadline, "G4: expired, or with another deadline"
        assert received.header.parent == asked.parent.to_bytes(16)

    def _check_runs(self, asked: Asked, received: Received, capability: str) -> None:
        assert asked.outcome is None, "G1: given to somebody after its outcome"
        assert all(given.asked is not asked for given in self.given), "G3: two have it at once"
        if IDEMPOTENT.get(capability):
            assert asked.times_sent <= asked.handed_back + asked.lost, "G3: given again for no reason"
        else:
            assert asked.times_sent == asked.handed_back, "G3: may run twice"
        assert received.header.attempt == asked.lost + 1, "G3: another attempt than it says"
        assert bool(received.header.flags & Flag.REDELIVERED) == bool(asked.lost)

    def _enter_response(self, peer: Peer, received: Received) -> None:
        asked = self.asked[received.number]
        if received.code == "delegator_gone":
            others = [asked.peer, *asked.again]
            assert peer in others, "told to who never asked"
            assert any(other is not peer for other in others), "G1: no other process has asked for it"
            if peer in asked.again:
                asked.again.remove(peer)
            return
        if asked.outcome is not None and peer in asked.again:
            asked.again.remove(peer)
            assert received.status == asked.outcome, "G1: another outcome than before"
            homes = {asked.peer, *asked.homes, self.homes.get(asked.source, peer)}
            assert peer in homes, "G6: told to who has not had the delegator"
            return
        assert peer is asked.peer or peer in asked.again, "G6: an answer went to somebody else"
        assert asked.outcome is None, "G1: a second outcome, or progress after it"
        if received.status.is_terminal:
            asked.outcome = received.status
            assert not asked.is_forged or received.code == "forged_sender", "G6: a forger was heard"

    def _enter_cancel(self, peer: Peer, received: Received) -> None:
        agent = received.header.target.decode()
        held = [
            given for given in self.given
            if given.asked.number == received.number and given.peer is peer and given.agent == agent
        ]  # fmt: skip
        # Both: it was lost with one agent, given to another, and then its parent ended, all in one step.
        assert held or received.number in self._answered, "cancelled what it does not have"
        for given in held:
            assert not given.is_called_off
            given.is_called_off = True

    # -- what holds after every step -----------------------------------------------------------------------------

    def check(self) -> None:
        """Compare the supervisor with the books."""
        state = self.bus.state
        running = [entry for entry in state.ledger.running if entry.agent is not state.bus]
        entries = {int.from_bytes(entry.request_id): entry for entry in running}
        assert set(entries) == {asked.number for asked in self.open}, "G1: what is open"
        for number, entry in entries.items():
            asked = self.asked[number]
            name = entry.agent.name.decode()
            asked.is_accepted = True
            asked.has_moved |= asked.holder not in ("", name)
            asked.holder = name
            assert self.bus.now < entry.deadline + LATEST, "G4: not timed out"
        accepted = [asked for asked in self.asked.values() if asked.is_accepted]
        assert state.accepted == len(accepted)
        assert len(accepted) == len(entries) + sum(asked.outcome is not None for asked in accepted)
        for asked in self.asked.values():
            is_heard = not asked.is_forged
            assert self._delegations_tapped.get(asked.number, 0) == is_heard, "G7: a delegation is not on the tap once"
            has_ended = is_heard and asked.outcome is not None
            assert self._outcomes_tapped.get(asked.number, 0) == has_ended, "G7: an outcome is not"
        for given in self.given:
            assert given.is_called_off == (given.asked.outcome is not None), (
                "G4: the specialist was not told, or wrongly"
            )
        for agent in state.registry.agents:
            self._check_mailbox(agent, [entry for entry in entries.values() if entry.agent is agent])
        self._check_history()

    def _check_history(self) -> None:
        """Compare what recovery would know with what the supervisor knows."""
        assert differences(self.bus.supervisor, self.bus.history) == [], "G2: the journal tells another state"

    def _check_mailbox(self, agent: Registration, work: list[Entry]) -> None:
        mailbox, name = agent.mailbox, agent.name.decode()
        waiting = [entry for entry in work if entry.state is State.QUEUED]
        assert (mailbox.waiting_count, mailbox.waiting_bytes) == (len(waiting), sum(entry.size for entry in waiting))
        new = [entry for entry in waiting if self._is_new(entry)]
        assert len(new) <= self.limits.mailbox_count, "G8: more letters than the bound"
        assert sum(entry.size for entry in new) <= self.limits.mailbox_bytes, "G8: more bytes than the bound"
        assert 0 <= mailbox.in_flight <= self.limits.window, "G8: more than the window"
        if agent.condition is Condition.UP:
            assert not waiting or mailbox.in_flight == self.limits.window, "work waits though there is credit"
        home = self.homes.get(name)
        if home is not None and home.name == agent.session.node:
            assert mailbox.in_flight == sum(given.agent == name for given in self.given), "G8: credit made or lost"

    def _is_new(self, entry: Entry) -> bool:
        """Whether it was taken into this mailbox by its delegator, so that the bounds held for it."""
        asked = self.asked[int.from_bytes(entry.request_id)]
        return not asked.has_moved and not asked.times_sent
