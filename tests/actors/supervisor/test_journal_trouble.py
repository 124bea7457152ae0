"""While the journal cannot be written: who is there hears the broker, what is new is refused at once, and nothing piles up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from ether_actors.supervisor.state import broker_state
from ether_broker.envelope.status import INTERIM, Status
from ether_broker.errors import EtherError, JournalCorrupt, JournalUnavailable
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.tap import Batch, read_batch
from ether_broker.wire.frame import Flag, Kind, join_frame, pack_envelope, read_header
from tests.actors.peers import Bus, Peer, request_id, uncollected
from tests.actors.stored_journal import Disk, StoredJournal
from tests.support import wait_until


class Troubled:
    """A bus with nodes whose journal fails."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.journal = StoredJournal(Disk())
        self.bus.state.journal = self.journal
        self.delegator, self.specialist = self.bus.delegator("d"), self.bus.node("na", "a")
        self.delegator.delegate("d", to="a", timeout=None)
        self.bus.step()
        (self.open,) = self.specialist.work()
        self.journal.fail()

    @property
    def peers(self) -> tuple[Peer, ...]:
        return self.delegator, self.specialist


@pytest.fixture
def troubled() -> Troubled:
    return Troubled()


def test_the_broker_shows_life_each_second_and_says_what_it_has_though_it_acknowledges_nothing(troubled: Troubled):
    bus, peer = troubled.bus, troubled.specialist
    answer = pack_envelope(Kind.RESPONSE, request_id=troubled.open.to_bytes(16), source=b"a", status=Status.COMPLETED)
    channel = peer.session.channel
    peer.said_session = channel.session
    peer.raw(join_frame([answer], peer.said_session, 1))

    bus.pass_time(10.0)

    for each in troubled.peers:
        beats = each.took(Kind.HEARTBEAT)
        assert len(beats) >= 9
        assert not each.session.lost
    assert beats[-1].body["received"] == 1
    assert beats[-1].body["trouble"] == "The disk is full."
    assert (channel.received, channel.committed) == (1, 0)


@pytest.mark.parametrize("capability", ["x.y", "ether.agents", "ether.statistics", "ether.lease", "ether.journal-gc"])
def test_work_and_questions_are_refused_at_once_with_the_cause(troubled: Troubled, capability: str):
    bus, delegator = troubled.bus, troubled.delegator

    asked = delegator.delegate("d", capability=capability)
    bus.step()

    outcome = delegator.outcome()
    assert (outcome.number, outcome.status, outcome.code) == (asked, Status.REJECTED_OVERLOAD, "journal_unavailable")
    assert "The disk is full." in outcome.body["error"]["message"]
    assert outcome.body["retry_after"] > 0


def test_twenty_minutes_of_heartbeats_and_questions_leave_nothing_behind(troubled: Troubled):
    bus, delegator = troubled.bus, troubled.delegator
    bus.pass_time(70.0)  # what is open has passed its deadline
    before = (
        len(bus.state.session_table._ended_steps),
        troubled.journal.pending,
        bus.state.session_table.sessions[0].outbox_bytes,
    )

    for _ in range(300):
        delegator.delegate("d", capability="ether.agents")
        bus.pass_time(4.0)

    after = (
        len(bus.state.session_table._ended_steps),
        troubled.journal.pending,
        bus.state.session_table.sessions[0].outbox_bytes,
    )
    assert after == before


def leave_and_come(bus: Bus) -> None:
    """Have a node join, register an agent, monitor one, and wait for outcomes, and then lose it."""
    peer = Peer(bus, "flapping")
    peer.incarnation = b"%16d" % (10_000 + bus.next_id())
    bus.peers.append(peer)
    peer.hello()
    bus.step()
    peer.register("z")
    peer.send(Kind.MONITOR, request_id=request_id(5), target=b"nobody")
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + bus.next_id()) for _ in range(100)]})
    bus.step()
    bus.peers.remove(peer)
    bus.state.session_table.unreachable(b"r" + peer.incarnation)
    bus.pass_time(0.1)


def test_nothing_is_kept_of_sessions_that_are_lost_meanwhile(troubled: Troubled):
    bus = troubled.bus
    for _ in range(5):
        leave_and_come(bus)
    troubled.delegator.die()
    for _ in range(40):  # it is told something in the very step in which it is lost
        troubled.specialist.respond("a", troubled.open, Status.PROGRESS)
        bus.pass_time(0.1)

    assert {session.node for session in bus.state.session_table.sessions} == {"na"}
    assert not any(session.lost for _, waiting, _ in bus.state.session_table._ended_steps for session in waiting)
    assert bus.supervisor._replay.asked == {}


def endings(peer: Peer) -> dict[int, int]:
    """Take the outcomes that came, and drop what came before them: {number: status}."""
    told = peer.took(Kind.RESPONSE)
    return {one.number: one.status for one in told if one.status not in INTERIM}


def test_what_waits_to_be_sent_while_the_disk_fails_is_looked_through_at_one_cost_however_long_that_lasts():
    troubled = Troubled()
    bus = troubled.bus
    for _ in range(9_000):
        troubled.specialist.respond("a", 100_000)
        bus.step()

    assert len(bus.state.session_table._ended_steps) <= 257
    troubled.journal.mend()
    bus.pass_time(1.1)
    assert not bus.state.session_table._ended_steps


def test_what_is_durable_leaves_though_the_disk_fails_again_and_again():
    troubled = Troubled()
    bus, delegator, specialist, journal = troubled.bus, troubled.delegator, troubled.specialist, troubled.journal
    journal.mend()
    asked = [delegator.delegate("d", to="a", timeout=600.0) for _ in range(50)]
    bus.step()
    journal.synced, journal._holds = False, True
    journal.fail()

    for number in asked:  # one of what waits is committed each time, between two failures that no step falls between
        specialist.respond("a", number)
        bus.step()
        journal.trouble = None
        journal.sync(1)
        journal.fail()
        bus.pass_time(0.5)

    told = endings(delegator)
    durable = {read_header(one).request_id for one in journal.disk.envelopes if read_header(one).kind == Kind.RESPONSE}
    assert {request_id(number) for number in told} == durable
    assert len(told) > 40


class Flooded(Troubled):
    """The same, with another node, and a bound that is soon reached."""

    MOST = 64 << 10

    def __init__(self) -> None:
        super().__init__()
        self.journal.mend()
        self.flooder = self.bus.node("nf", "f")
        self.journal.fail()

    def say_release(self) -> None:
        self.delegator.delegate("d", capability="ether.release", params={"token": 1, "more": "x" * 1_000})

    def say_stray_response(self) -> None:
        self.specialist.respond("a", 100_000)

    def say_forged_response(self) -> None:
        self.delegator.respond("a", self.open)

    def say_forged_cancel(self) -> None:
        self.specialist.cancel("d", self.open)

    def say_known_request(self) -> None:
        self.flooder.delegate("f", to="a", number=self.open)

    def say_blocked(self) -> None:
        for load in ({"blocking": {"capability": "x.y", "at": "x" * 100, "seconds": 1.0}}, {}):
            self.specialist.send(Kind.HEARTBEAT, body={"agents": {"a": load}})

    def register(self) -> None:
        self.flooder.register("f", exclusions=["x" * 200] * 5)

    def restart(self) -> None:
        self.flooder.send(Kind.UNREGISTER, source=b"f", body={"condition": "restarting", "reason": "x" * 100})

    def flap(self) -> None:
        leave_and_come(self.bus)

    def tell(self) -> None:
        self.specialist.respond("a", self.open, Status.PROGRESS, summary="x" * 1_000)

    def begin(self) -> None:
        self.specialist.respond("a", self.open, Status.ACCEPTED, summary="x" * 1_000)


@pytest.mark.parametrize(
    "say",
    [
        Flooded.say_release, Flooded.say_stray_response, Flooded.say_forged_response, Flooded.say_forged_cancel,
        Flooded.say_known_request, Flooded.say_blocked, Flooded.register, Flooded.restart, Flooded.flap, Flooded.tell,
        Flooded.begin,
    ],
)  # fmt: skip
def test_whatever_peers_say_only_so_much_waits_for_the_disk_and_accepted_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, say: Callable[[Flooded], None]
):
    # Given so many messages that all of it would be more than the bound
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", Flooded.MOST)
    flood = Flooded()
    bus, state, delegator, specialist = flood.bus, flood.bus.state, flood.delegator, flood.specialist
    for _ in range(150):
        say(flood)
        bus.step()
    assert Flooded.MOST / 2 < state.unwritten < Flooded.MOST + 8_000
    delegator.inbox.clear()

    # When others go on
    refused = delegator.delegate("d", to="a")
    specialist.respond("a", flood.open)
    bus.pass_time(1.1)

    # Then they are served, nobody spins, and the outcome is there when the disk is
    assert endings(delegator) == {refused: Status.REJECTED_OVERLOAD}
    assert delegator.took(Kind.HEARTBEAT) != []
    assert bus.supervisor.next_wake() > bus.now
    flood.journal.mend()
    bus.pass_time(1.1)
    assert endings(delegator)[flood.open] is Status.COMPLETED
    assert state.unwritten == 0


def test_who_comes_while_much_waits_for_the_disk_is_let_in_when_that_is_written(
    monkeypatch: pytest.MonkeyPatch, troubled: Troubled
):
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", 0)
    bus, specialist = troubled.bus, troubled.specialist
    specialist.respond("a", troubled.open)
    newcomer = Peer(bus, "nb")
    bus.peers.append(newcomer)
    bus.step()

    newcomer.hello()
    specialist.register("b")
    behind = specialist.delegate("b", to="a")
    bus.pass_time(5.0)
    assert (newcomer.took(Kind.WELCOME), specialist.took(Kind.REGISTERED), specialist.outcomes()) == ([], [], {})

    troubled.journal.mend()
    bus.step()
    assert (len(newcomer.took(Kind.WELCOME)), len(specialist.took(Kind.REGISTERED))) == (1, 1)
    assert specialist.work() == [behind]


def test_a_node_that_dies_while_its_agent_waits_for_the_disk_is_lost(
    monkeypatch: pytest.MonkeyPatch, troubled: Troubled
):
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", 0)
    bus, specialist = troubled.bus, troubled.specialist
    specialist.respond("a", 100_000)
    bus.step()
    specialist.register("b")
    bus.step()

    specialist.die()
    bus.pass_time(4.0)

    assert [session.node for session in bus.state.session_table.sessions] == ["nd"]


def test_what_was_accepted_before_ends_once_when_the_journal_is_well_again(troubled: Troubled):
    bus, delegator, specialist = troubled.bus, troubled.delegator, troubled.specialist
    specialist.respond("a", troubled.open)
    bus.pass_time(5.0)
    assert delegator.outcomes() == {}

    troubled.journal.mend()
    bus.pass_time(1.1)

    assert delegator.outcomes() == {troubled.open: Status.COMPLETED}
    assert "trouble" not in delegator.took(Kind.HEARTBEAT)[-1].body


def test_a_node_joins_registers_and_observes_without_waiting_for_the_disk(troubled: Troubled):
    bus = troubled.bus
    newcomer = Peer(bus, "nb")
    bus.peers.append(newcomer)

    newcomer.hello()
    newcomer.register("b")
    newcomer.send(Kind.OBSERVE, request_id=request_id(77), body={"from": 1})
    bus.step()

    assert [received.kind for received in newcomer.inbox][:3] == [Kind.WELCOME, Kind.REGISTERED, Kind.OBSERVE]


def test_what_is_known_already_is_not_refused_when_it_is_sent_again(troubled: Troubled):
    bus, delegator = troubled.bus, troubled.delegator
    delegator.send(
        Kind.DELEGATION, request_id=troubled.open.to_bytes(16), source=b"d", target=b"a", capability=b"x.y",
        flags=Flag.RESENT, body={},
    )  # fmt: skip
    bus.step()

    assert delegator.outcomes() == {}


def test_an_observer_whose_next_messages_cannot_be_read_now_gets_them_later():
    # Given a ring of four messages, and an observer that wants all
    bus = Bus(tap_count=4)
    bus.state.journal = journal = Unreadable(Disk())
    watcher, delegator, specialist = bus.node("w"), bus.delegator("d"), bus.node("na", "a")
    for _ in range(10):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()

    # When the journal cannot be read for a while
    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1})
    bus.pass_time(3.0)
    assert watcher.took(Kind.TAP) == []
    delegator.delegate("d", to="a")
    bus.step()
    assert len(specialist.work()) == 11

    # Then nothing is missed
    journal.fails = False
    position = 1
    for _ in range(20):
        bus.pass_time(0.3)
        for received in watcher.took(Kind.TAP):
            batch = read_batch(received.envelope[received.header.body :])
            assert batch.first == position
            position = batch.next
    assert position == bus.state.tap.next


class Unreadable(StoredJournal):
    """A journal whose file cannot be read at first."""

    fails = True

    def read(self, number: int) -> Batch | None:
        if self.fails:
            raise JournalUnavailable("The disk fails.")
        return super().read(number)


def test_a_request_that_was_refused_unheard_and_is_accepted_when_it_comes_again_has_one_outcome(troubled: Troubled):
    # Given a delegator that is lost before it hears that its request was refused
    bus, specialist = troubled.bus, troubled.specialist
    asked = troubled.delegator.delegate("d", to="a")
    troubled.delegator.die()
    bus.pass_time(4.0)
    troubled.journal.mend()
    again = bus.delegator("d")

    # When it is back, and its node sends the request again
    again.delegate("d", to="a", number=asked, flags=Flag.RESENT)
    bus.step()

    # Then that refusal is not its outcome any more, whenever it asks
    assert request_id(asked) not in uncollected(bus.state.ended, b"d")
    specialist.respond("a", asked)
    bus.step()
    assert again.outcomes() == {asked: Status.COMPLETED}
    again.acknowledge()
    again.send(Kind.RESUME, body={"awaiting": [request_id(asked)]})
    bus.pass_time(1.0)
    assert again.outcomes() == {asked: Status.COMPLETED}


def test_a_refusal_that_was_not_heard_stays_its_delegators_though_another_says_the_same_id(troubled: Troubled):
    bus = troubled.bus
    asked = troubled.delegator.delegate("d", to="a")
    troubled.delegator.die()
    bus.pass_time(4.0)
    troubled.journal.mend()

    other = bus.delegator("e")
    other.delegate("e", to="a", number=asked)
    bus.step()

    assert request_id(asked) in uncollected(bus.state.ended, b"d")
    outcome = other.outcome()
    assert (outcome.status, outcome.code) == (Status.REJECTED_CONTEXT, "duplicate_request")
    assert troubled.specialist.work() == []


class Forgetful:
    """A bus that has forgotten a request that ended long ago: its outcome is in the journal only."""

    def __init__(self) -> None:
        self.bus = Bus(remembered=4)
        self.journal = StoredJournal(Disk())
        self.bus.state.journal = self.journal
        self.delegator, self.specialist = self.bus.delegator("d"), self.bus.node("na", "a")
        self.old = self._complete()
        for _ in range(30):
            self._complete()
        self.delegator.took(Kind.RESPONSE)
        assert request_id(self.old) not in self.bus.state.ended

    def _complete(self) -> int:
        number = self.delegator.delegate("d", to="a", timeout=1_000.0)
        self.bus.step()
        self.specialist.work()
        self.specialist.respond("a", number)
        self.bus.step()
        self.delegator.acknowledge()
        self.bus.step()
        return number

    def reject_unheard(self, peer: Peer, source: str, number: int) -> None:
        """Have a request of a node rejected while the disk is full, and lose the node before it hears that."""
        self.journal.fail()
        peer.delegate(source, to="a", timeout=1_000.0, number=number)
        self.bus.step()
        peer.die()
        self.bus.pass_time(6.0)
        self.journal.mend()
        self.bus.pass_time(3.0)


def test_a_rejection_that_was_not_heard_does_not_hide_the_own_outcome_of_long_ago() -> None:
    world = Forgetful()
    world.reject_unheard(world.delegator, "d", world.old)
    back = world.bus.delegator("d")

    back.delegate("d", to="a", number=world.old, flags=Flag.RESENT)
    world.bus.pass_time(1.0)

    assert back.outcomes() == {world.old: Status.COMPLETED}
    assert world.specialist.work() == []


def test_an_outcome_of_long_ago_is_given_again_though_the_journal_cannot_be_written() -> None:
    world = Forgetful()
    world.journal.fail()

    world.delegator.delegate("d", to="a", number=world.old, timeout=1_000.0, flags=Flag.RESENT)
    world.bus.pass_time(1.0)
    world.journal.mend()
    world.bus.pass_time(1.0)

    assert endings(world.delegator) == {world.old: Status.COMPLETED}
    assert world.specialist.work() == []


def test_a_request_that_was_rejected_unheard_is_taken_when_it_comes_again_though_much_is_forgotten() -> None:
    world = Forgetful()
    fresh = world.old - 1  # below what is forgotten: it may have ended
    world.reject_unheard(world.delegator, "d", fresh)
    back = world.bus.delegator("d")

    back.delegate("d", to="a", number=fresh, timeout=1_000.0, flags=Flag.RESENT)
    world.bus.pass_time(1.0)

    assert world.specialist.work() == [fresh]


def test_an_outcome_that_was_not_heard_is_given_again_though_gc_has_removed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given an outcome that its delegator has not acknowledged when it is forgotten, and lost, and that is removed then
    world = Forgetful()
    bus, other, specialist = world.bus, world.bus.delegator("x"), world.specialist
    number = world.delegator.delegate("d", to="a", timeout=1_000.0)
    bus.step()
    specialist.work()
    specialist.respond("a", number)
    bus.step()
    for _ in range(30):
        other.delegate("x", to="a", timeout=1_000.0)
        bus.step()
        for each in specialist.work():
            specialist.respond("a", each)
        bus.step()
        other.acknowledge()
    world.delegator.die()
    bus.pass_time(6.0)
    monkeypatch.setattr(StoredJournal, "outcome", lambda *_: None)
    assert request_id(number) not in bus.state.ended

    # When it sends the request again
    back = bus.delegator("d")
    back.delegate("d", to="a", number=number, flags=Flag.RESENT)
    bus.pass_time(1.0)

    # Then that is its outcome
    assert back.outcomes() == {number: Status.COMPLETED}
    assert specialist.work() == []


def test_a_rejection_that_another_did_not_hear_does_not_hide_an_outcome() -> None:
    world = Forgetful()
    world.reject_unheard(world.bus.delegator("x"), "x", world.old)
    d = world.delegator

    d.delegate("d", to="a", number=world.old, flags=Flag.RESENT)
    world.bus.pass_time(1.0)
    assert endings(d) == {world.old: Status.COMPLETED}
    d.acknowledge()
    d.send(Kind.RESUME, body={"awaiting": [request_id(world.old)]})
    world.bus.pass_time(1.0)
    assert endings(d) == {world.old: Status.COMPLETED}


# -- what cannot be read -----------------------------------------------------------------------------------------


class Damaged(StoredJournal):
    """A journal of which some numbers and some outcomes cannot be read; it counts the looks into its file."""

    def __init__(self) -> None:
        super().__init__(Disk())
        self.damaged = range(0)
        self.lost: set[bytes] = set()
        self.error: type[EtherError] = JournalCorrupt
        self.reads = 0

    def read(self, number: int) -> Batch | None:
        self.reads += 1
        if number in self.damaged:
            error = JournalCorrupt("Commit 7 is not what was written.")
            error.following = self.damaged.stop
            raise error
        return super().read(number)

    def outcome(self, request_id: bytes) -> bytes | None:
        if request_id in self.lost:
            raise self.error("Commit 7 is not what was written.")
        return super().outcome(request_id)


def leave_the_ring(bus: Bus) -> None:
    """Let something pass, so that a ring of one message has nothing of what passed before."""
    bus.node("another")
    bus.step()


def test_a_step_reads_one_batch_for_each_of_four_nodes_that_are_behind_at_most_and_charges_them():
    # Given a ring of four messages, and six nodes with 64 observers each that want all
    bus = Bus(tap_count=4)
    bus.state.journal = journal = Damaged()
    watchers, delegator, specialist = [bus.node(f"w{n}") for n in range(6)], bus.delegator("d"), bus.node("na", "a")
    for _ in range(50):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()
    for watcher in watchers:
        for token in range(64):
            watcher.send(Kind.OBSERVE, request_id=request_id(token), body={"from": 1})
    bus.step()
    bus.supervisor.step([], bus.now, bus.now)
    behind = {watcher.name: len(watcher.session.cursors) for watcher in watchers}
    assert set(behind.values()) == {64}

    # When one step follows the other
    before, tags = journal.reads, [watcher.session.input.tag for watcher in watchers]
    idle = delegator.session.input.tag
    for _ in range(6):
        asked = journal.reads
        assert bus.supervisor.next_wake() <= bus.now
        bus.supervisor.step([], bus.now, bus.now)
        assert 1 <= journal.reads - asked <= 4

    # Then each node has had its turns and paid for them, and nobody else has
    spent = [watcher.session.input.tag - tag for watcher, tag in zip(watchers, tags, strict=True)]
    assert journal.reads - before == 6 * 4
    assert all(points >= 4 * 16 for points in spent)
    assert delegator.session.input.tag == idle


def test_an_observer_that_acknowledges_nothing_costs_no_look_at_the_file():
    bus = Bus(tap_count=4)
    bus.state.journal = journal = Damaged()
    watcher, delegator, specialist = bus.node("w"), bus.delegator("d"), bus.node("na", "a")
    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1})
    for _ in range(100):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()
    bus.pass_time(2.0)
    (cursor,) = watcher.session.cursors.values()
    assert not cursor.has_credit
    assert cursor.position < bus.state.tap.first

    before = journal.reads
    for _ in range(20):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()

    assert journal.reads == before


def test_an_observer_is_told_which_numbers_cannot_be_read_and_goes_on_behind_them():
    # Given messages that have left the ring, some of which are damaged in the journal
    bus = Bus(tap_count=4)
    bus.state.journal = journal = Damaged()
    watcher, other, delegator = bus.node("w"), bus.node("o"), bus.delegator("d")
    specialist = bus.node("na", "a")
    for _ in range(20):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()
    (commit,) = [commit for commit in journal.disk.commits if commit.first <= 15 < commit.first + len(commit.envelopes)]
    journal.damaged = range(commit.first, commit.first + len(commit.envelopes))
    behind = journal.damaged.stop

    # When two observe
    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1})
    other.send(Kind.OBSERVE, request_id=request_id(6), body={"from": behind})
    bus.pass_time(1.0)

    # Then one is told of the gap, which the numbers show too, and both get all the rest
    batches = [read_batch(received.envelope[received.header.body :]) for received in watcher.took(Kind.TAP)]
    assert [n for batch in batches for n, _, _ in batch.envelopes] == [
        n for n in range(1, bus.state.tap.next) if n not in journal.damaged
    ]
    (told,) = watcher.took(Kind.ERROR)
    assert (told.number, told.code) == (5, "journal_corrupt")
    assert (told.body["first"], told.body["next"]) == (commit.first, behind)
    assert f"{commit.first} to {behind - 1}" in told.body["message"]
    assert bus.state.session_table.refusals.by_reason["journal_corrupt"] == 1
    assert other.took(Kind.ERROR) == []
    assert len(other.took(Kind.TAP)) > 0
    assert delegator.outcomes()


def test_a_commit_that_is_damaged_in_its_file_is_left_out_and_named(tmp_path: Path):
    # Given a file of which one commit has lost its last byte
    bus = Bus(tap_count=4)
    bus.state.journal = journal = SqliteJournal(tmp_path / "journal.db")
    watcher, delegator, specialist = bus.node("w"), bus.delegator("d"), bus.node("na", "a")
    for _ in range(10):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()
        wait_until(lambda: not journal.queued_bytes, what="it is committed")
    with sqlite3.connect(journal.path) as connection:
        (first, following), *_ = connection.execute("SELECT first, next FROM commits WHERE first <= 9 AND next > 9")
        connection.execute("UPDATE commits SET body = substr(body, 1, length(body) - 1) WHERE first = ?", (first,))
    connection.close()

    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1})
    bus.pass_time(1.0)

    batches = [read_batch(received.envelope[received.header.body :]) for received in watcher.took(Kind.TAP)]
    seen = [number for batch in batches for number, _, _ in batch.envelopes]
    assert seen == [number for number in range(1, bus.state.tap.next) if not first <= number < following]
    (told,) = watcher.took(Kind.ERROR)
    assert (told.body["first"], told.body["next"], told.code) == (first, following, "journal_corrupt")
    journal.close()


@pytest.mark.parametrize("error", [JournalCorrupt, JournalUnavailable])
def test_a_delegator_that_is_back_hears_of_what_cannot_be_read_and_gets_the_rest_once(error: type[EtherError]):
    # Given a delegator with three outcomes, none of them remembered, one not to be read
    bus = Bus(tap_count=1)
    bus.state.journal = journal = Damaged()
    journal.error = error
    delegator, specialist = bus.delegator("d"), bus.node("na", "a")
    asked = [delegator.delegate("d", to="a") for _ in range(3)]
    for number in asked:
        specialist.respond("a", number)
    bus.step()
    leave_the_ring(bus)
    delegator.inbox.clear()
    delegator.session.channel.acknowledge(delegator.session.channel.last)
    journal.lost = {asked[1].to_bytes(16)}

    delegator.send(Kind.RESUME, body={"awaiting": [number.to_bytes(16) for number in asked]})
    bus.pass_time(1.0)

    told = [(received.number, received.status, received.code) for received in delegator.took(Kind.RESPONSE)]
    first, second, third = [(number, Status.COMPLETED, "") for number in asked]
    if error is JournalCorrupt:
        assert sorted(told) == [first, (asked[1], Status.FAILED_EXECUTION, "journal_corrupt"), third]
    else:
        assert told == [first]
        journal.lost.clear()
        bus.pass_time(1.0)
        assert delegator.outcomes() == {number: status for number, status, _ in (second, third)}
    assert bus.state.session_table.refusals.by_reason[error.code] >= 1


@pytest.mark.parametrize(
    ("error", "status", "is_retryable"),
    [(JournalUnavailable, Status.REJECTED_OVERLOAD, True), (JournalCorrupt, Status.FAILED_EXECUTION, False)],
)
def test_a_request_that_came_before_and_cannot_be_looked_up_is_refused_alone_and_says_why(
    error: type[EtherError], status: Status, is_retryable: bool
):
    bus = Bus(tap_count=1)
    bus.state.journal = journal = Damaged()
    journal.error = error
    delegator, specialist = bus.delegator("d"), bus.node("na", "a")
    asked = delegator.delegate("d", to="a")
    specialist.respond("a", asked)
    bus.step()
    leave_the_ring(bus)
    delegator.inbox.clear()
    journal.lost = {asked.to_bytes(16)}

    delegator.delegate("d", to="a", number=asked)
    other = delegator.delegate("d", to="a")
    bus.step()
    specialist.respond("a", other)
    bus.step()

    refusal, done = delegator.took(Kind.RESPONSE)
    assert (refusal.number, refusal.status, refusal.code) == (asked, status, error.code)
    assert refusal.body["error"].get("retryable", False) is is_retryable
    assert "Commit 7 is not what was written." in refusal.body["error"]["message"]
    assert (done.number, done.status) == (other, Status.COMPLETED)
    assert delegator.took(Kind.ERROR) == []
