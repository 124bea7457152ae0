"""What observers are sent: a share of each step, in turns, and paid for by their nodes."""

from __future__ import annotations

from ether_broker.tap import read_batch
from ether_broker.wire.frame import Kind, read_frame, read_header
from tests.actors.peers import Bus, Peer, request_id

PREFIXES = [f"zz{number:03}." + "q" * 180 for number in range(256)]


def observed(bus: Bus, nodes: int, observers: int, prefixes: list[str]) -> list[Peer]:
    """Nodes with observers from now on."""
    peers = [bus.node(f"w{number}") for number in range(nodes)]
    for peer in peers:
        for token in range(observers):
            peer.send(Kind.OBSERVE, request_id=request_id(token), body={"from": 0, "topics": prefixes})
    bus.step()
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
    for peer in peers:
        acknowledge(bus, peer)
    bus.step()
    return peers


def acknowledge(bus: Bus, peer: Peer) -> None:
    """Acknowledge every batch that came."""
    for received in peer.took(Kind.TAP):
        following = read_batch(received.envelope[received.header.body :]).next
        peer.send(Kind.TAP_ACK, request_id=received.header.request_id, body=following.to_bytes(8))


def one_step(bus: Bus) -> list[bytes]:
    """Let the supervisor make one step; who was sent a batch, once for each."""
    arrivals, bus._arrivals = bus._arrivals, []
    bus.supervisor.step(arrivals, bus.now, bus.now)
    sent = []
    for routing_id, frame in bus.state.session_table.outgoing():
        kinds = [read_header(envelope).kind for envelope in read_frame(frame).envelopes]
        sent += [routing_id] * kinds.count(Kind.TAP)
    return sent


def test_a_step_feeds_a_share_of_very_many_observers_and_the_next_steps_the_others() -> None:
    # Given four nodes with 64 observers each, of capabilities that nothing has
    bus = Bus()
    bus.node("na", "a")
    watchers, delegator = observed(bus, 4, 64, PREFIXES), bus.delegator("d")
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
    for watcher in watchers:
        acknowledge(bus, watcher)
    bus.step()
    tags = [watcher.session.input.tag for watcher in watchers]

    # When one delegation passes
    delegator.delegate("d", to="a")
    bus.step()
    steps = [one_step(bus)]
    idle = delegator.session.input.tag
    while bus.supervisor.next_wake() <= bus.now:
        steps.append(one_step(bus))

    # Then no step sends more than its share, each node has its turns, and pays
    assert max(map(len, steps)) <= 65
    assert len(set(steps[0])) == 4
    batches = sum(map(len, steps))
    assert batches >= 4 * 64
    spent = [watcher.session.input.tag - tag for watcher, tag in zip(watchers, tags, strict=True)]
    assert min(spent) >= 2 * 64
    assert delegator.session.input.tag == idle


def test_comparing_capabilities_costs_what_the_prefixes_are() -> None:
    costs = []
    for prefixes in ([], ["zz."], PREFIXES):
        bus = Bus()
        bus.node("na", "a")
        (watcher,), delegator = observed(bus, 1, 1, prefixes), bus.delegator("d")
        acknowledge(bus, watcher)
        bus.step()
        before = watcher.session.input.tag
        for _ in range(64):
            delegator.delegate("d", to="a")
        bus.step()
        bus.step()
        costs.append(watcher.session.input.tag - before)

    assert costs[0] < costs[1] < costs[2]
    assert costs[2] >= 40


def test_an_observer_with_little_to_read_is_served_beside_those_with_much() -> None:
    bus = Bus()
    worker, delegator = bus.node("na", "a"), bus.delegator("d")
    for _ in range(300):
        worker.respond("a", delegator.delegate("d", to="a"))
        bus.step()
    greedy, modest = bus.node("g"), bus.node("m")
    modest.send(Kind.OBSERVE, request_id=request_id(1), body={"from": 0})
    bus.step()
    for token in range(64):
        greedy.send(Kind.OBSERVE, request_id=request_id(token), body={"from": 1})
    bus.step()

    delegator.delegate("d", to="a")
    bus.step()
    sent = one_step(bus)

    assert b"r" + modest.incarnation in sent
    assert len(sent) <= 65
    assert bus.supervisor.next_wake() <= bus.now, "the greedy one has more to come"


def test_between_two_shares_an_interval_passes_so_that_observers_do_not_take_all_of_the_broker() -> None:
    bus = Bus(tap_interval=0.005)
    worker, delegator, greedy = bus.node("na", "a"), bus.delegator("d"), bus.node("g")
    for _ in range(300):
        worker.respond("a", delegator.delegate("d", to="a"))
        bus.step()
    for token in range(64):
        greedy.send(Kind.OBSERVE, request_id=request_id(token), body={"from": 1})

    bus.step()
    assert greedy.took(Kind.TAP)
    assert 0.004 < bus.supervisor.next_wake() - bus.now < 0.006
    delegator.delegate("d", to="a")
    assert one_step(bus) == []
    bus.now += 0.0051
    assert len(one_step(bus)) > 0


def test_batches_of_which_an_observer_wants_nothing_are_told_as_one() -> None:
    bus = Bus(tap_interval=0.005)
    watcher, worker, delegator = bus.node("g"), bus.node("na", "a"), bus.delegator("d")
    watcher.send(Kind.OBSERVE, request_id=request_id(1), body={"from": 1, "topics": ["zz."]})
    bus.step()
    bus.pass_time(0.1)
    watcher.inbox.clear()
    first = bus.state.tap.next
    for _ in range(20):
        worker.respond("a", delegator.delegate("d", to="a"))
        bus.step()
    bus.pass_time(0.1)

    batches = [read_batch(received.envelope[received.header.body :]) for received in watcher.took(Kind.TAP)]
    assert len(batches) <= 2
    assert (batches[0].first, batches[-1].next) == (first, bus.state.tap.next)
