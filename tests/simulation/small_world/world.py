"""A small world: two nodes, a few delegations, and whatever may happen next.

`d` delegates and has the agent `b`; `w` has the agent `a`. Delegation 1 goes from d to a, 2 from a to b, 3 from b to a; each
names as its parent what the relation says: none, another of them, itself, or one that nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.journal import Replayed
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import Flag, Kind, mark, read_frame
from tests.simulation.small_world.journal import SmallJournal, outcomes_of
from tests.simulation.small_world.peer import Peer, number_of

__all__ = ["FAULTS", "UNKNOWN", "Action", "Bug", "Relation", "World"]

Action = tuple[str | int, ...]
"""What happens, and to whom."""
FAULTS: Final = ("repeat", "cancel", "deadline", "node", "delegator", "broker", "journal", "stall")
"""What may happen once each, and need not."""
_CRASHES: Final = ("broker", "node", "delegator")
UNKNOWN: Final = 9
"""A parent that nobody knows."""
_ZERO: Final = 1000.0
_WALL: Final = 1e9
_SHORT, _LONG = 1.0, 3600.0
_PASSED: Final = 1.3
_MOST_TURNS: Final = 20
_RETURN: Final = 11.0
_ROUTES: Final = {1: ("d", "d", "a"), 2: ("w", "a", "b"), 3: ("d", "b", "a")}
"""{delegation: (node, delegator, specialist)}"""


@dataclass(frozen=True)
class Relation:
    """What one walk is about."""

    parents: tuple[int, ...]
    """Of each delegation: 0 is none."""
    capabilities: tuple[str, ...]
    routes: tuple[int, ...]
    """Of each delegation: its way in `_ROUTES`."""
    begins: tuple[int, ...] = ()
    """The delegations whose specialist says that it has begun."""
    faults: tuple[str, ...] = FAULTS
    most: int = 1
    """Faults that may happen in one life of the world."""


class Bug(Exception):
    """What the supervisor survives and logs: here it ends the walk."""


class _Ear(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise Bug(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)


@dataclass
class World:
    """Everything in it is data: it can be copied by `pickle` at any time.

    Args:
        relation: what is asked, and what may go wrong.
    """

    relation: Relation
    journal: SmallJournal = field(default_factory=SmallJournal)
    now: float = _ZERO
    spent: dict[str, int] = field(default_factory=dict)
    """{fault: how far it is}."""
    said: dict[int, int] = field(default_factory=dict)
    """{delegation: how often}."""
    repeated: int = 0
    """The delegation that was sent once more; 0 before."""
    lives: int = 0
    """Of brokers."""

    def __post_init__(self) -> None:
        """Let both nodes join."""
        self.peers = {"d": Peer("d", ("b",)), "w": Peer("w", ("a",))}
        self._start()
        for peer in self.peers.values():
            peer.join()
        while moves := [action for action in self.actions() if action[0] in {"arrive", "hear"}]:
            self.do(moves[0])

    def _start(self) -> None:
        self.lives += 1
        self.journal.begin()
        self.supervisor = Supervisor(
            limits=Limits(mailbox_count=3, window=2), journal=self.journal, make_id=self.make_id
        )
        self.supervisor.recover(self.now, self.wall)
        self.journal.live.begin("", self.now, self.wall)

    def make_id(self) -> bytes:
        """The same id in one broker's life, so that states can be compared; nothing goes by these."""
        return (0x7 << 76 | 0b10 << 62 | self.lives).to_bytes(16)

    @property
    def wall(self) -> float:
        """Seconds since 1970."""
        return _WALL + self.now

    @property
    def may_be_resent(self) -> bool:
        """Whether anything may still hang on what the ends of a session keep for each other."""
        is_whole = self.supervisor is not None and all(peer.is_in for peer in self.peers.values())
        return not is_whole or self._can_lose()

    # -- what may happen -----------------------------------------------------------------------------------------

    def actions(self) -> Iterator[Action]:
        """Everything that may happen next; or one thing alone, where the others may as well happen after it."""
        alone = self._alone()
        if alone is not None:
            yield alone
            return
        yield from self._of_peers()
        if self.supervisor is None:
            yield ("restart",)
        elif self._lost():
            yield ("notice",)
        if self.supervisor is not None and self.supervisor._membership._reconnection._expected:
            yield ("return",)
        yield from self._ends()
        if len(self.spent) < self.relation.most:
            yield from self._faults()

    def _alone(self) -> Action | None:
        """A step that only one peer can notice, and that nothing can prevent, destroy or change any more.

        A partial-order reduction: such a step commutes with all others, so any order in which it comes later leads to the same
        states. A crash could lose the frame, a cancellation races with an answer, and what is sent once more depends on what
        was heard.
        """
        if self.supervisor is None or self._can_lose():
            return None
        for name, peer in self.peers.items():
            if not (peer.is_dead or peer.is_in or peer.is_greeting):
                return "join", name
            if peer.down and {envelope[0] for envelope in read_frame(peer.down[0]).envelopes} <= self._private(peer):
                return "hear", name
        return None

    def _private(self, peer: Peer) -> set[int]:
        """The kinds of envelopes that change nothing but what a peer knows."""
        if peer.is_dead or not peer.is_in:
            return {Kind.HEARTBEAT}
        return {Kind.HEARTBEAT, Kind.DELEGATION} | (set() if self._may("repeat") else {Kind.RESPONSE})

    def _may(self, fault: str) -> bool:
        """Whether that fault may still happen."""
        return len(self.spent) < self.relation.most and fault in self.relation.faults and fault not in self.spent

    def _can_lose(self) -> bool:
        """Whether a process may still crash."""
        return any(self._may(crash) for crash in _CRASHES)

    def _of_peers(self) -> Iterator[Action]:
        for number, route in enumerate(self.relation.routes, 1):
            if number not in self.said and not self.peers[_ROUTES[route][0]].is_dead:
                yield "say", number
        is_up = self.supervisor is not None
        for name, peer in self.peers.items():
            if peer.up and is_up:
                yield "arrive", name
            is_out = peer.is_dead or not (peer.is_in or peer.is_greeting)
            if is_out and is_up:
                yield "join", name
            if peer.down and not is_out:
                yield "hear", name
            for number, (_, _, is_begun) in peer.works.items():
                yield "answer", name, number
                if number in self.relation.begins and not is_begun:
                    yield "begin", name, number

    def _lost(self) -> list[Peer]:
        assert self.supervisor is not None
        known = self.supervisor.state.session_table.by_address
        return [peer for peer in self.peers.values() if peer.is_dead and peer.receiver in known]

    def _ends(self) -> Iterator[Action]:
        for fault in ("journal", "stall"):
            if self.spent.get(fault) == 1 and self.supervisor is not None:
                yield fault, "ends"

    def _faults(self) -> Iterator[Action]:
        for fault in self.relation.faults:
            if fault in self.spent:
                continue
            if fault in {"repeat", "cancel"}:
                yield from ((fault, number) for number in self.said if not self.peers[self._route(number)[0]].is_dead)
            elif fault in {"node", "delegator"}:
                if not self.peers["w" if fault == "node" else "d"].is_dead:
                    yield (fault,)
            elif self.supervisor is not None:
                yield (fault,)

    def _route(self, number: int) -> tuple[str, str, str]:
        return _ROUTES[self.relation.routes[number - 1]]

    # -- happens -------------------------------------------------------------------------------------------------

    def do(self, action: Action) -> None:
        """Let it happen."""
        getattr(self, f"_do_{action[0]}")(*action[1:])

    def _do_say(self, number: int) -> None:
        self.said[number] = 1
        node, source, target = self._route(number)
        deadline = self.now + (_SHORT if number == 1 and "deadline" in self.relation.faults else _LONG)
        parent, capability = self.relation.parents[number - 1], self.relation.capabilities[number - 1]
        self.peers[node].delegate(number, (source, target), capability, parent, deadline)

    def _do_arrive(self, name: str) -> None:
        self._step([self.peers[name].up.popleft()])

    def _do_hear(self, name: str) -> None:
        self.peers[name].hear()

    def _do_answer(self, name: str, number: int) -> None:
        self.peers[name].answer(number)

    def _do_begin(self, name: str, number: int) -> None:
        self.peers[name].begin(number)

    def _do_join(self, name: str) -> None:
        self.peers[name].join()

    def _do_notice(self) -> None:
        for peer in self._lost():
            self.supervisor.state.session_table.unreachable(peer.receiver)  # type: ignore[union-attr]
        self._step()

    def _do_return(self) -> None:
        self._pass(_RETURN)

    # -- faults --------------------------------------------------------------------------------------------------

    def _do_repeat(self, number: int) -> None:
        """Send a delegation once more, as if its receipt had been lost."""
        self.spent["repeat"] = self.repeated = number
        peer = self.peers[self._route(number)[0]]
        envelope = peer.wanted.get(number)
        if envelope is not None:
            peer.say(mark(envelope, Flag.RESENT))

    def _do_cancel(self, number: int) -> None:
        self.spent["cancel"] = 1
        node, source, _ = self._route(number)
        self.peers[node].cancel(number, source)

    def _do_deadline(self) -> None:
        self.spent["deadline"] = 1
        self._pass(_PASSED)

    def _do_node(self) -> None:
        self.spent["node"] = 1
        self._kill(self.peers["w"])

    def _do_delegator(self) -> None:
        self.spent["delegator"] = 1
        self._kill(self.peers["d"])

    def _kill(self, peer: Peer) -> None:
        peer.is_dead, peer.is_in, peer.is_greeting = True, False, False
        peer.works.clear()
        peer.up.clear()
        peer.down.clear()

    def _do_broker(self) -> None:
        self.spent["broker"] = 1
        self.supervisor = None  # type: ignore[assignment]
        for peer in self.peers.values():
            peer.is_in = peer.is_greeting = False
            peer.up.clear()
            peer.down.clear()

    def _do_restart(self) -> None:
        self._start()
        self._step()

    def _do_journal(self, end: str = "") -> None:
        """It cannot be written; then it can."""
        self.spent["journal"] = 2 if end else 1
        if end:
            self.journal.trouble = None
        else:
            self.journal.trouble = JournalUnavailable("The disk is full.")
        self._step()

    def _do_stall(self, end: str = "") -> None:
        """A commit takes long, and then ends."""
        self.spent["stall"] = 2 if end else 1
        self._step()

    # -- steps ---------------------------------------------------------------------------------------------------

    def _step(self, arrivals: list[tuple[bytes, bytes]] | None = None) -> None:
        """One step of the broker, and the commits of all that comes of it unless the journal is slow or cannot be written."""
        supervisor = self.supervisor
        assert supervisor is not None
        self._rule(supervisor, arrivals or [])
        while self.spent.get("stall") != 1 and self.journal.waiting and self.journal.trouble is None:
            self.journal.sync()
            self._rule(supervisor, [])

    def _rule(self, supervisor: Supervisor, arrivals: list[tuple[bytes, bytes]]) -> None:
        receivers = {peer.receiver: peer for peer in self.peers.values()}
        for _ in range(_MOST_TURNS):
            supervisor.step(arrivals, self.now, self.wall)
            for routing_id, frame in supervisor.state.session_table.outgoing():
                peer = receivers.get(b"r" + routing_id[1:])
                if peer is None:
                    supervisor.state.session_table.unreachable(routing_id)
                elif not peer.is_dead:
                    peer.down.append(frame)
            arrivals = []
            if supervisor.next_wake() > self.now:
                return
        raise Bug(f"The supervisor wants another step at once after {_MOST_TURNS}.")

    def _pass(self, seconds: float) -> None:
        """Let the time pass; whoever is in shows life."""
        end = self.now + seconds
        while self.now < end:
            self.now = round(min(self.now + 0.65, end), 3)
            self._step([(b"t" + peer.incarnation, peer.live()) for peer in self.peers.values() if peer.is_in])

    def outcomes(self) -> dict[int, list[bytes]]:
        """{delegation: its terminal responses}, as committed or given to the journal."""
        found = {number_of(request): list(ends) for request, ends in self.journal.ends.items()}
        for item in self.journal.waiting:
            for envelope in outcomes_of(item.envelopes) if isinstance(item, Replayed) else ():
                found.setdefault(number_of(envelope[16:32]), []).append(envelope)
        return found
