"""Whom an event is given to, for how long it waits there, and what it may take of the broker."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.supervisor.capabilities import event_service
from ether_actors.supervisor.registry import subscription_index
from ether_actors.supervisor.state.broker_state import VOLATILE
from ether_actors.supervisor.state.ledger import ENTRY_OVERHEAD
from ether_broker.encoding.bounded import EVENT_CONTAINERS
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.manifest.subscription import Subscription
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidEnvelope, TooMuch
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.transport.sessions.cost import possible
from ether_broker.transport.sessions.turns import DEAR, InputQueue
from ether_broker.wire.frame import DRAINS, Kind, pack_envelope
from tests.actors.peers import Bus, Peer
from tests.actors.stored_journal import Disk, StoredJournal

DATA = pack("data")


def subscriber(bus: Bus, node: str, *names: str, topic: str = "*") -> Peer:
    peer = bus.node(node)
    for name in names:
        peer.register_manifest(Manifest(agent=name, subscriptions=(Subscription(topic=topic),)))
    bus.step()
    peer.inbox.clear()
    return peer


def publish(bus: Bus, desk: Peer, source: str, data: bytes = DATA, **params: Any) -> tuple[Status, dict[str, Any]]:
    """Publish, and return the outcome with its body."""
    number = desk.delegate(source, "ether.publish", params={"topic": "a.b", "data": data, **params})
    bus.step()
    (told,) = [one for one in desk.took(Kind.RESPONSE) if one.number == number]
    return Status(told.header.status), told.body


@pytest.mark.parametrize("item", [{}, [], {"a": [{}]}])
def test_data_of_many_maps_or_lists_is_given_to_nobody(item: Any) -> None:
    bus = Bus()
    desk, worker = bus.delegator("desk"), subscriber(bus, "n", "w")
    each = 1 + 2 * bool(item)
    most = (EVENT_CONTAINERS - 1) // each
    status, told = publish(bus, desk, "desk", pack([item] * (most + 1)))
    assert status is Status.REJECTED_CONTEXT
    assert told["error"]["code"] == InvalidEnvelope.code
    assert "The event's data has more than 4,096 maps and lists" in told["error"]["message"]
    assert given(worker) == 0

    assert publish(bus, desk, "desk", pack([item] * most))[0] is Status.COMPLETED
    assert publish(bus, desk, "desk", pack(b"\x90" * 50_000))[0] is Status.COMPLETED, "which is one value"
    assert given(worker) == 2


def test_who_publishes_is_charged_for_the_reading_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Bus()
    desk = bus.delegator("desk")
    spent: list[int] = []
    monkeypatch.setattr(InputQueue, "spend", lambda _self, points: spent.append(points))
    costs = []
    for item in (0, []):
        spent.clear()
        publish(bus, desk, "desk", pack([item] * 4_000))
        costs.append(sum(spent))

    assert costs[1] - costs[0] >= 2 * (4_000 >> 4), (
        "once as bytes of the question, of which some may be lists, and once as lists"
    )


def given(peer: Peer) -> int:
    return len([one for one in peer.took(Kind.DELEGATION) if one.header.capability == b"ether.event.a.b"])


def test_an_event_waits_for_an_agent_that_is_down_no_longer_than_that_is_remembered() -> None:
    bus = Bus()
    desk, worker = bus.delegator("desk"), subscriber(bus, "n", "w")
    worker.die()
    bus.pass_time(4.0)
    for _ in range(40):
        assert publish(bus, desk, "desk", timeout=86_400)[0] is Status.COMPLETED
        bus.pass_time(1.0)

    assert bus.state.registry.get(b"w") is None
    assert len(bus.state.ledger) == 0
    assert bus.state.registry.subscriptions._subscribers == {}


def test_who_cannot_be_reached_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_service, "MOST_SUBSCRIBERS", 3)
    access = Access(delegate=[DelegateRule("desk", "ether.event.*", "friend")], register=[RegisterRule("*", "*")])
    bus = Bus(access=access)
    desk = bus.delegator("desk")
    subscriber(bus, "strange", *(f"s{number}" for number in range(10)))
    friend = subscriber(bus, "near", "friend")

    status, _ = publish(bus, desk, "desk")

    assert status is Status.COMPLETED
    assert given(friend) == 1


def test_the_living_go_before_those_that_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_service, "MOST_SUBSCRIBERS", 3)
    bus = Bus()
    desk = bus.delegator("desk")
    dead = subscriber(bus, "dead", "d1", "d2")
    dead.die()
    bus.pass_time(4.0)
    living = subscriber(bus, "living", "l1", "l2")

    _, body = publish(bus, desk, "desk")

    assert unpack(body["data"]) == {"subscribers": 3, "refused": ["d2"]}
    assert given(living) == 2


def test_a_publisher_may_have_as_much_of_the_broker_as_is_free() -> None:
    bus = Bus(Limits(total_bytes=80_000))
    desk, other = bus.delegator("desk"), bus.delegator("other")
    worker = subscriber(bus, "n", "w")
    worker.register("plain")
    bus.step()
    large = b"\xc5" + (7_000).to_bytes(2) + bytes(7_000)
    of_desk = [publish(bus, desk, "desk", large) for _ in range(6)]
    of_other = [publish(bus, other, "other", large) for _ in range(3)]

    assert [status for status, _ in of_desk] == [Status.COMPLETED] * 5 + [Status.REJECTED_OVERLOAD]
    assert [status for status, _ in of_other] == [Status.COMPLETED] * 2 + [Status.REJECTED_OVERLOAD]
    assert (of_desk[-1][1]["error"]["code"], of_desk[-1][1]["retry_after"]) == ("broker_full", 1.0)
    for peer, name in ((desk, "desk"), (other, "other")):
        number = peer.delegate(name, to="plain", params="x" * 1_000)
        bus.step()
        assert number in worker.work(), "a publisher's delegations have a part of their own"


@pytest.mark.parametrize("has_journal", [False, True])
def test_an_event_is_smaller_where_it_is_written(monkeypatch: pytest.MonkeyPatch, *, has_journal: bool) -> None:
    monkeypatch.setattr(event_service, "_MOST_WRITTEN", 10_000)
    bus = Bus()
    if has_journal:
        bus.state.journal = StoredJournal(Disk())
    desk = bus.delegator("desk")
    subscriber(bus, "n", "w1", "w2", "w3")

    assert publish(bus, desk, "desk", pack("x" * 2_000))[0] is Status.COMPLETED
    status, told = publish(bus, desk, "desk", pack("x" * 5_000))
    assert (status is Status.REJECTED_OVERLOAD) is has_journal
    if has_journal:
        assert told["error"]["code"] == "event_too_large"
        assert "3 subscribers, together more than 10,000 bytes" in told["error"]["message"]


def test_what_has_ended_counts_for_the_node_that_does_not_answer_it() -> None:
    bus = Bus(Limits(total_bytes=80_000))
    desk = bus.delegator("desk")
    worker = subscriber(bus, "n", "w")
    large = b"\xc5" + (7_000).to_bytes(2) + bytes(7_000)
    account = bus.state.session_table.account
    for _ in range(3):
        for _ in range(4):
            assert publish(bus, desk, "desk", large, timeout=0.5)[0] is Status.COMPLETED
        bus.pass_time(2.0)
        assert len(bus.state.ledger) == account("ndesk", of_events=True).size == 0
    assert bus.state.ledger.size == account("n").size == account("n").held == 12 * ENTRY_OVERHEAD

    for number in worker.work():
        worker.respond("w", number)
    bus.step()
    assert bus.state.ledger.size == account("n").size == account("n").held == 0


def test_a_node_that_leaves_too_much_unanswered_for_long_is_cut_off() -> None:
    bus = Bus(Limits(total_bytes=80 * ENTRY_OVERHEAD))
    desk, other = bus.delegator("desk"), bus.node("other", "o")
    subscriber(bus, "n", "w")
    table = bus.state.session_table
    mine = table.find("n")
    assert mine is not None
    (there,) = [session for session in table.sessions if session.node == "other"]
    there.account = mine.account  # another node of its key
    for _ in range(20):
        assert publish(bus, desk, "desk", timeout=0.5)[0] is Status.COMPLETED
        bus.pass_time(1.0)
    bus.pass_time(10.0)
    assert table.find("n") is mine, "a quarter is not too much"

    assert publish(bus, desk, "desk", timeout=0.5)[0] is Status.COMPLETED
    bus.pass_time(1.0)
    assert table.find("n") is mine
    bus.pass_time(table.timing.silence + 0.5)  # in which it leaves nothing more
    assert table.find("n") is None
    assert table.find("other") is there, "it has left nothing unanswered"
    assert not other.session.lost
    assert bus.state.ledger.size == 0


def test_as_many_nodes_of_a_key_are_cut_off_as_leave_too_much_unanswered() -> None:
    bus = Bus(Limits(total_bytes=80 * ENTRY_OVERHEAD))
    desk = bus.delegator("desk")
    for name in ("n1", "n2", "n3"):
        subscriber(bus, name, f"w-{name}")
    table = bus.state.session_table
    first = table.find("n1")
    assert first is not None
    for session in table.sessions:
        if session.node.startswith("n") and session.node != "ndesk":
            session.account = first.account
    for _ in range(16):
        assert publish(bus, desk, "desk", timeout=0.4)[0] is Status.COMPLETED
        bus.pass_time(0.5)
    bus.pass_time(table.timing.silence + 0.5)

    assert len([name for name in ("n1", "n2", "n3") if table.find(name) is not None]) == 1
    assert first.account.held <= bus.state.ledger.most_held


def test_a_node_is_not_cut_off_for_what_it_was_not_told() -> None:
    bus = Bus(Limits(total_bytes=80 * ENTRY_OVERHEAD))
    journal = bus.state.journal = StoredJournal(Disk())
    desk = bus.delegator("desk")
    worker = subscriber(bus, "n", "w")
    for _ in range(30):
        assert publish(bus, desk, "desk", timeout=1.0)[0] is Status.COMPLETED
    journal.fail()
    bus.pass_time(1.5 + 2 * DEFAULT_TIMING.silence)
    assert worker.took(Kind.CANCEL) == []
    assert bus.state.session_table.find("n") is not None

    journal.mend()
    bus.step()
    assert len(worker.took(Kind.CANCEL)) == 30
    bus.pass_time(DEFAULT_TIMING.silence + 0.5)
    assert bus.state.session_table.find("n") is None, "now it was"


def test_a_node_is_not_cut_off_for_answers_that_a_broker_which_stood_still_has_not_read() -> None:
    bus = Bus(Limits(total_bytes=4 << 20))
    desk = bus.delegator("desk")
    names = [f"w{number}" for number in range(18)]
    worker = bus.node("n", *names)
    for name in names:
        for _ in range(128):
            desk.delegate("desk", to=name, timeout=2.0)
    bus.step()
    work = worker.work()
    bus.pass_time(2.4)
    assert bus.state.ledger.much_held
    for place, number in enumerate(work):
        worker.respond(names[place // 128], number, Status.CANCELLED)
    bus.now += 20.0
    bus.step()

    assert bus.state.session_table.find("n") is not None
    assert not bus.state.ledger.much_held


def test_what_a_node_left_that_is_cut_off_is_not_counted_for_the_others_of_its_key() -> None:
    bus = Bus(Limits(total_bytes=1_600 * ENTRY_OVERHEAD))
    journal = bus.state.journal = StoredJournal(Disk())
    desk = bus.delegator("desk")
    bad = subscriber(bus, "bad", *(f"w{number}" for number in range(300)), topic="a.b")
    for number in range(300):
        bad.register_manifest(Manifest(agent=f"v{number}", subscriptions=(Subscription(topic="c.d"),)))
    bus.step()
    subscriber(bus, "good", "g", topic="a.b")
    table = bus.state.session_table
    good, account = table.find("good"), bad.session.account
    assert good is not None
    good.account = account  # another node of its key
    for topic in ("a.b", "c.d"):
        assert publish(bus, desk, "desk", timeout=0.5, topic=topic)[0] is Status.COMPLETED
        bus.pass_time(1.0)
    assert account.held > bus.state.ledger.most_held
    journal._holds = True  # so that what the first leaves is forgotten a share at a time
    bus.pass_time(DEFAULT_TIMING.silence + 2.0)
    assert account.held > bus.state.ledger.most_held
    assert table.find("bad") is None
    assert table.find("good") is good


def test_a_node_that_answers_in_time_is_not_cut_off_for_what_others_cancel() -> None:
    bus = Bus(Limits(total_bytes=80 * ENTRY_OVERHEAD))
    desk = bus.delegator("desk")
    worker = subscriber(bus, "n", "w")
    for _ in range(5):
        for _ in range(25):
            assert publish(bus, desk, "desk", timeout=0.05)[0] is Status.COMPLETED
            bus.pass_time(0.1)
        for number in worker.work():
            worker.respond("w", number)
        bus.step()
    assert bus.state.session_table.find("n") is not None


def test_an_event_of_many_that_end_at_once_ends_in_its_subscribers_turn() -> None:
    bus = Bus(Limits(window=5_000))
    desk = bus.delegator("desk")
    subscriber(bus, "many", "m", topic="many")
    subscriber(bus, "one", "o", topic="a.b")
    for _ in range(3_000):
        desk.delegate("desk", "ether.publish", params={"topic": "many", "data": DATA, "timeout": 2.0})
    desk.delegate("desk", "ether.publish", params={"topic": "a.b", "data": DATA, "timeout": 2.0})
    bus.step()
    assert len(bus.state.ledger) == 3_001
    bus.now += 2.2
    bus.supervisor.step([], bus.now, bus.wall)

    left = {entry.agent.manifest.agent for entry in bus.state.ledger.running}
    assert left == {"m"}


def test_an_agent_that_declares_the_capability_of_an_event_is_not_asked_by_others() -> None:
    bus = Bus()
    desk = bus.delegator("desk")
    worker = bus.node("n")
    worker.register_manifest(Manifest(agent="w", capabilities=(Capability(name="ether.event.a.b"),)))
    bus.step()
    worker.inbox.clear()
    number = desk.delegate("desk", "ether.event.a.b", to="w")
    bus.step()

    assert desk.outcomes()[number] is Status.REJECTED_CAPABILITY
    assert worker.work() == []


def test_the_agents_of_one_node_that_subscribe_to_a_topic_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_index, "MOST_OF_OWNER", 3)
    bus = Bus()
    peer = subscriber(bus, "n", "a", "b", topic="x.*")
    for name in ("c", "d", "a"):
        peer.register_manifest(Manifest(agent=name, subscriptions=(Subscription(topic="x.*"),)))
        bus.step()
    refused = [one.code for one in peer.took(Kind.ERROR)]
    assert refused == [TooMuch.code], "a registers again, and takes no further place"

    peer.register_manifest(Manifest(agent="e"))
    bus.step()
    peer.register_manifest(Manifest(agent="e", subscriptions=(Subscription(topic="x.*"),)))
    bus.step()
    assert [one.code for one in peer.took(Kind.ERROR)] == [TooMuch.code]
    other = subscriber(bus, "other", "f", topic="x.*")
    assert [one.code for one in other.took(Kind.ERROR)] == []


def test_an_event_is_as_dear_as_the_topic_that_most_subscribe_to() -> None:
    bus = Bus()
    turns = bus.state.session_table.turns
    asked = pack_envelope(Kind.DELEGATION, source=b"desk", capability=b"ether.publish", body=pack({"topic": "a"}))
    assert possible(asked, turns.subscribers) <= DEAR
    one = subscriber(bus, "n", *(f"s{number}" for number in range(40)), topic="a.b")
    two = subscriber(bus, "m", *(f"t{number}" for number in range(30)), topic="c.d")
    assert turns.subscribers == 40
    assert possible(asked, turns.subscribers) > DEAR
    for peer, left in ((one, 30), (two, 0)):
        peer.die()
        bus.pass_time(10_000.0)
        assert turns.subscribers == left


def test_who_comes_back_with_as_many_as_it_may_have_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_index, "MOST_OF_OWNER", 3)
    bus = Bus()
    peer = subscriber(bus, "n", "a", "b", "c", topic="x.*")
    peer.die()
    bus.pass_time(4.0)
    again = subscriber(bus, "n", "a", "b", "c", topic="x.*")

    assert [one.code for one in again.took(Kind.ERROR)] == []
    assert len(list(bus.state.registry.subscriptions.subscribers("x.y"))) == 3
    assert all(agent.session.node == "n" for agent in bus.state.registry.subscriptions.subscribers("x.y"))


def test_who_publishes_to_few_does_not_share_the_turns_of_who_publishes_to_many() -> None:
    bus = Bus()
    subscriber(bus, "n", *(f"s{number}" for number in range(40)), topic="many.*")
    subscriber(bus, "m", "t", topic="a.b")
    desk = bus.delegator("desk")
    (queue,) = [one.input for one in bus.state.session_table.sessions if "desk" in one.node]
    assert queue.given < 0
    publish(bus, desk, "desk")
    assert queue.given == 1
    publish(bus, desk, "desk", topic="many.x")
    assert queue.given == 40
    for given in (20, 10, 5):
        publish(bus, desk, "desk")
        assert queue.given == given


def test_who_drains_is_given_no_event_any_more() -> None:
    bus = Bus()
    desk, first, second = bus.delegator("desk"), subscriber(bus, "n1", "a"), subscriber(bus, "n2", "b")
    first.send(Kind.UNREGISTER, source=b"a", flags=DRAINS)
    bus.step()

    status, told = publish(bus, desk, "desk")

    assert (status, unpack(told["data"])["subscribers"]) == (Status.COMPLETED, 1)
    assert (given(first), given(second)) == (0, 1)


def test_as_many_subscribers_and_bytes_are_given_an_event_as_the_docs_say() -> None:
    bus = Bus(Limits(total_bytes=1 << 30))
    desk = bus.delegator("desk")
    names = [f"w{number}" for number in range(1_024)]
    nodes = [subscriber(bus, f"n{start}", *names[start : start + 128]) for start in range(0, 1_024, 128)]

    large = pack("x" * ((1 << 14) - 500))
    assert unpack(publish(bus, desk, "desk", large)[1]["data"]) == {"subscribers": 1_024, "refused": []}
    assert sum(map(given, nodes)) == 1_024
    _, told = publish(bus, desk, "desk", pack("x" * ((1 << 14) - 100)))
    assert told["error"]["code"] == "event_too_large"
    assert "1,024 subscribers, together more than 16,777,216 bytes" in told["error"]["message"]

    subscriber(bus, "more", "one-more")
    status, told = publish(bus, desk, "desk")
    assert (status, told["error"]["code"]) == (Status.REJECTED_OVERLOAD, "too_many_subscribers")


def test_at_most_a_hundred_of_those_without_room_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_service, "MOST_SUBSCRIBERS", 1)
    bus = Bus()
    desk, dead = bus.delegator("desk"), subscriber(bus, "dead", *(f"d{number:03}" for number in range(130)))
    dead.die()
    bus.pass_time(4.0)

    told = unpack(publish(bus, desk, "desk")[1]["data"])

    assert told["subscribers"] == 1
    assert told["refused"] == [f"d{number:03}" for number in range(1, 101)]


def test_a_subscriber_has_the_time_that_is_asked_for_or_a_minute() -> None:
    bus = Bus()
    desk, worker = bus.delegator("desk"), subscriber(bus, "n", "w")
    for options in ({}, {"timeout": 5.0}):
        publish(bus, desk, "desk", **options)
    assert [round(one.header.deadline - bus.now, 6) for one in worker.took(Kind.DELEGATION)] == [60.0, 5.0]


def test_what_a_volatile_publication_gives_is_not_written_either() -> None:
    bus = Bus()
    bus.state.journal = StoredJournal(Disk())
    desk, worker = bus.delegator("desk"), subscriber(bus, "n", "w")
    for flags in (0, VOLATILE):
        desk.delegate("desk", "ether.publish", params={"topic": "a.b", "data": DATA}, flags=flags)
        bus.step()
    assert [one.header.flags & VOLATILE for one in worker.took(Kind.DELEGATION)] == [0, VOLATILE]
