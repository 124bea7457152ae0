"""Owners of one node or of several, beside a journal that commits when it likes, against books kept of what it is given.

Holds G8 after every step: what waits for the journal is counted once for all and once for the owner whose doing it is; who
has caused little never waits, and who has caused much waits for as long as much waits in all, and no longer. At the end
everything was answered, once (G1, G2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.supervisor.state import broker_state
from ether_actors.supervisor.supervisor import _STEP
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.security.identity import Identity
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.wire.frame import Flag, Kind, read_header
from tests.actors.peers import Bus, Peer
from tests.actors.stored_journal import Disk, StoredJournal

MOST, SHARED, OWN = 20_000, 8_000, 3_000
KEYS = ["ann", "bob", "cat"]
WORKER = "worker"
OWNERS = (*KEYS, WORKER)
SIZES = st.sampled_from([0, 100, 1_000, 4_000])
FLAGS = st.sampled_from([0, int(Flag.VOLATILE)])
LARGEST = 6_000
"""Bytes that one envelope brings about, at most: itself, and what the broker tells of it."""
_ENOUGH = 200
"""Commits of all that waits, after which nothing may wait any more; and steps, after which nothing may be due."""
NODES = 10
"""Nodes that come, at most."""


class AnyNode(Identity):
    """A key that may be any node."""

    __slots__ = ()
    is_allowed = True

    def may_be(self, _node: str) -> bool:
        return True


class Keys:
    """Says whose a connection is, as a guard does."""

    def __init__(self) -> None:
        self.refusals = RefusalLog()
        self.of: dict[bytes, str] = {}
        """{incarnation: key}."""

    def key_of(self, address: Any) -> str:
        return self.of[address[1:]]

    def identify(self, address: Any) -> Identity:
        return AnyNode(self.of[address[1:]], None)  # type: ignore[arg-type]  # it asks no keyring


class Given(NamedTuple):
    """What one step gave to the journal."""

    ticket: int
    size: int
    caused: Counter[str]
    """{key: bytes that are certainly its doing}."""
    perhaps: Counter[str]
    """{key: bytes of events about its nodes}: its doing, unless the broker did by itself what they tell of."""
    sources: list[str]
    """The agents that said what was ruled on."""


class Books(StoredJournal):
    """A journal that notes of whose doing it is what it is given."""

    def __init__(self) -> None:
        super().__init__(Disk(), synced=False)
        self.owners: dict[str, str] = {}
        """{node or agent: key}."""
        self.given: list[Given] = []

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        ticket = super().append(first, time, wall, envelopes)
        caused, perhaps, sources = Counter[str](), Counter[str](), []
        for envelope in envelopes:
            header, size = read_header(envelope), len(envelope)
            source, target = header.source.decode(), header.target.decode()
            if header.kind == Kind.EVENT:
                perhaps[self.owners[unpack(envelope[header.body :])["node"]]] += size
            elif source == SUPERVISOR:
                caused[self.owners[target]] += size
            else:
                caused[self.owners[source]] += size
                sources.append(source)
        self.given.append(Given(ticket, sum(map(len, envelopes)), caused, perhaps, sources))
        return ticket

    @property
    def waiting(self) -> list[Given]:
        """What is not committed."""
        return [given for given in self.given if given.ticket > self.committed]


class SlowJournal(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.object(broker_state, "MOST_AHEAD", MOST),
            mock.patch.object(broker_state, "SHARED_AHEAD", SHARED),
            mock.patch.object(broker_state, "OWN_AHEAD", OWN),
        ]
        for patch in self.patches:
            patch.start()

    @initialize()
    def a_bus_with_a_worker_and_a_node_of_each_key(self) -> None:
        self.keys, self.books, self.bus = Keys(), Books(), Bus()
        self.bus.restart(self.books, guard=self.keys)
        self.steps, step = 0, self.bus.supervisor.step

        def counted(*arguments: Any) -> None:
            self.steps += 1
            assert self.steps < _ENOUGH, "it goes on and on: what waits for nothing is not ruled on"
            step(*arguments)

        self.bus.supervisor.step = counted  # type: ignore[method-assign]
        self.came = 0
        self.desks: list[Peer] = []
        self.asked: dict[int, Peer] = {}
        self.outcomes: Counter[int] = Counter()
        self.left: list[Peer] = []
        self.worker = self._comes(WORKER)
        self.worker.register(WORKER, max_concurrency=4)
        self.books.owners[WORKER] = WORKER
        self.work: list[int] = []
        for key in KEYS:
            self.a_node_comes(key)
        self._commit(None)

    def _comes(self, key: str) -> Peer:
        peer = Peer(self.bus, f"n{self.came}")
        peer.incarnation = b"%16d" % (self.came + 1)
        self.came += 1
        self.keys.of[peer.incarnation] = key
        self.books.owners[peer.name] = key
        self.bus.peers.append(peer)
        self.bus.state.session_table._most_accounts = 0  # whoever comes has accounts given up that nobody needs
        peer.hello()
        return peer

    # -- what happens --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.came < NODES)
    @rule(key=st.sampled_from(KEYS))
    def a_node_comes(self, key: str) -> None:
        peer = self._comes(key)
        agent = f"d{self.came}"
        self.books.owners[agent] = key
        peer.register_manifest(Manifest(agent=agent))
        self.desks.append(peer)
        self._step()

    @precondition(lambda self: len(self.desks) > 1)
    @rule(data=st.data())
    def a_node_leaves(self, data: st.DataObject) -> None:
        peer = self._desk(data)
        self.desks.remove(peer)
        self.left.append(peer)
        peer.send(Kind.BYE)
        self._step()

    @rule(
        data=st.data(), count=st.integers(1, 5), size=SIZES, flags=FLAGS, to=st.sampled_from([WORKER, WORKER, "nobody"])
    )
    def delegate(self, data: st.DataObject, count: int, size: int, flags: int, to: str) -> None:
        peer = self._desk(data)
        for _ in range(count):
            number = peer.delegate(_agent(peer), to=to, params="x" * size, flags=flags, timeout=1000.0)
            self.asked[number] = peer
        self._step()

    @rule(data=st.data(), size=SIZES)
    def register_anew(self, data: st.DataObject, size: int) -> None:
        peer = self._desk(data)
        exclusions = tuple(f"{number}." + "x" * 90 for number in range(size // 100))
        peer.register_manifest(Manifest(agent=_agent(peer), exclusions=exclusions))
        self._step()

    @rule(data=st.data(), size=SIZES)
    def restart_an_agent(self, data: st.DataObject, size: int) -> None:
        peer = self._desk(data)
        peer.send(Kind.UNREGISTER, source=_agent(peer).encode(), body={"condition": "restarting", "reason": "x" * size})
        self._step()

    @rule(data=st.data())
    def answer_nothing(self, data: st.DataObject) -> None:
        peer = self._desk(data)
        peer.respond(_agent(peer), 1_000_000)
        self._step()

    @precondition(lambda self: self.work)
    @rule(data=st.data(), size=SIZES, is_last=st.booleans())
    def the_worker_says_something(self, data: st.DataObject, size: int, *, is_last: bool) -> None:
        number = data.draw(st.sampled_from(self.work))
        self.worker.respond(WORKER, number, Status.COMPLETED if is_last else Status.PROGRESS, summary="x" * size)
        if is_last:
            self.work.remove(number)
        self._step()

    @rule(count=st.integers(1, 6))
    def the_journal_commits(self, count: int) -> None:
        self._commit(count)

    @rule()
    def the_journal_commits_all(self) -> None:
        self._commit(None)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _desk(self, data: st.DataObject) -> Peer:
        return data.draw(st.sampled_from(self.desks))

    def _commit(self, count: int | None) -> None:
        self.books.sync(count)
        self._step()

    def _step(self) -> None:
        is_ahead = self._total() > self.bus.state.most_ahead
        must_wait = {key for key in OWNERS if self._counted(key)[0] > OWN} if is_ahead else set()
        before, self.steps = len(self.books.given), 0
        self.bus.step()
        fresh = [self.books.owners[source] for given in self.books.given[before:] for source in given.sources]
        assert not must_wait.intersection(fresh), "G8: ruled on, though its owner has caused much and much waits"
        self.work += self.worker.work()
        for peer in (*self.desks, *self.left):
            for received in peer.took(Kind.RESPONSE):
                assert self.asked[received.number] is peer
                self.outcomes[received.number] += received.status.is_terminal

    # -- what holds ----------------------------------------------------------------------------------------------

    def _total(self) -> int:
        return sum(given.size + _STEP for given in self.books.waiting)

    def _counted(self, key: str) -> tuple[int, int]:
        """The least and the most that is an owner's doing of what waits for the journal."""
        waiting = self.books.waiting
        least = sum(given.caused[key] for given in waiting)
        return least, least + sum(given.perhaps[key] for given in waiting)

    @invariant()
    def what_waits_is_counted_once_for_all_and_once_for_its_owner(self) -> None:
        state = self.bus.state
        assert state.unwritten == self._total()
        for key in OWNERS:
            least, most = self._counted(key)
            for account in {state.session_table.account(key), *self._accounts(key)}:
                assert least <= account.unwritten <= most, key

    def _accounts(self, key: str) -> list[Any]:
        return [session.account for session in self.bus.state.session_table.sessions if session.owner == key]

    @invariant()
    def who_has_caused_little_does_not_wait(self) -> None:
        for queue in self.bus.state.session_table.turns.blocked:
            assert queue.session is not None
            assert self._total() > self.bus.state.most_ahead, "G8: it waits, and not much waits for the journal"
            assert self._counted(queue.session.owner)[1] > OWN, "G8: it waits, and has caused little"

    @invariant()
    def what_waits_is_bounded(self) -> None:
        sizes = [given.size for given in self.books.waiting]
        assert sum(sizes) <= MOST + len(OWNERS) * (OWN + LARGEST)

    def teardown(self) -> None:
        try:
            if hasattr(self, "bus"):
                self._end()
        finally:
            for patch in self.patches:
                patch.stop()

    def _end(self) -> None:
        for _ in range(_ENOUGH):
            while self.work:
                self.worker.respond(WORKER, self.work.pop())
            self._commit(None)
            if not (self.work or self.bus.state.unwritten or self.bus.state.session_table.turns.blocked):
                break
        assert not self.books.waiting
        assert all(session.account.unwritten == 0 for session in self.bus.state.session_table.sessions)
        assert not self.bus.state.ledger.size
        stayed = {number for number, peer in self.asked.items() if peer in self.desks}
        assert {number for number in stayed if self.outcomes[number] != 1} == set(), (
            "G1: none is lost, none answered twice"
        )


def _agent(peer: Peer) -> str:
    """The agent of a node that delegates."""
    return f"d{int(peer.name[1:]) + 1}"


TestSlowJournal = SlowJournal.TestCase
TestSlowJournal.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
