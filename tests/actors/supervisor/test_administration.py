"""What the bus tells of itself, asked for as any other work."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import pytest

from ether_actors.supervisor.capabilities import administration
from ether_actors.supervisor.capabilities.pages import LIMIT
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import MAX_PAYLOAD
from ether_broker.envelope.status import Status
from ether_broker.envelope.views.suggestion import THRESHOLD
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.broker.envelope.views.spec_examples import SUGGESTION_RECORD


def ask(bus: Bus, peer: Peer, capability: str, params: Any = None) -> Any:
    """The answer's data, of a list the items of its page, or its error's code."""
    peer.took(Kind.RESPONSE)
    peer.delegate("d", f"ether.{capability}", params=params)
    bus.step()
    received = peer.outcome()
    response = read_response(received.header, received.envelope)
    if not response.ok:
        return response.error.code
    return response.data["items"] if set(response.data) == {"items", "next"} else response.data


def test_agents_tells_how_each_agent_with_capabilities_is():
    bus = Bus(Limits(window=1))
    d, a = bus.delegator("d"), bus.node("na", "a", idempotent=True)
    first = d.delegate("d")
    d.delegate("d")
    bus.step()
    bus.pass_time(2.0)
    a.respond("a", first)
    bus.step()
    a.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1}}})
    bus.step()

    (told,) = ask(bus, d, "agents")

    assert {key: told[key] for key in ("agent", "node", "condition", "capabilities", "queued", "in_flight")} == {
        "agent": "a",
        "node": "na",
        "condition": "up",
        "capabilities": ["x.y"],
        "queued": 0,
        "in_flight": 1,
    }
    assert (told["load"], told["outcomes"]) == ({"running": 1}, {"COMPLETED": 1})
    assert told["p50"] == told["p99"] == pytest.approx(2.0)


def test_an_agent_that_is_down_has_nothing_in_flight():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    d.delegate("d")
    bus.step()
    (held,) = ask(bus, d, "agents")

    a.die()
    bus.pass_time(4.0)

    (told,) = ask(bus, d, "agents")
    assert (held["condition"], held["in_flight"]) == ("up", 1)
    assert (told["condition"], told["in_flight"]) == ("down", 0)


RECORD: Final = json.loads(SUGGESTION_RECORD)


def test_a_suggestion_is_an_event_for_whoever_observes():
    bus = Bus()
    script = bus.delegator("script-agent")
    script.delegate("script-agent", "ether.suggest", params=RECORD)
    bus.step()

    assert script.outcome().status is Status.COMPLETED
    (event,) = bus.events("suggestion")
    assert {name: event[name] for name in RECORD} == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"submitted_by": "somebody-else"},
        {
            "justification": {
                "rejection_rate": 0.2499,
                "latency_penalty_ratio": 1.0,
                "clarification_cycles_ratio": 0.5,
                "score": 0.5499,
            }
        },
        {
            "justification": {
                "rejection_rate": 0.24,
                "latency_penalty_ratio": 1.0,
                "clarification_cycles_ratio": 0.5,
                "score": THRESHOLD,
            }
        },
        {
            "justification": {
                "rejection_rate": 0.25,
                "latency_penalty_ratio": 1.0,
                "clarification_cycles_ratio": 0.5,
                "score": 0.5499,
            }
        },
        {"justification": {**RECORD["justification"], "score": 0.99}},
        {"justification": dict.fromkeys(RECORD["justification"], 0.0) | {"score": 0.99}},
        {"suggestion_id": ""},
        {"capabilities": ["no capability"]},
        {"proposed": "clarifier"},
    ],
)
def test_a_suggestion_that_is_not_its_senders_or_not_worth_one_is_refused(change: dict[str, Any]):
    bus = Bus()
    d = bus.delegator("d")

    assert ask(bus, d, "suggest", {**RECORD, "submitted_by": "d", **change}) == "invalid_envelope"
    assert bus.events("suggestion") == []


def test_a_suggestion_of_the_threshold_is_taken_and_its_sender_need_not_be_named():
    bus = Bus()
    d = bus.delegator("d")
    found = {
        "rejection_rate": 0.25,
        "latency_penalty_ratio": 1.9,
        "clarification_cycles_ratio": 0.5,
        "score": THRESHOLD,
    }
    record = {**RECORD, "justification": found}
    del record["submitted_by"]

    assert ask(bus, d, "suggest", record) == {"suggestion_id": RECORD["suggestion_id"]}
    (event,) = bus.events("suggestion")
    assert event["submitted_by"] == "d"


def test_one_agent_is_told_by_name_though_it_only_delegates():
    bus = Bus()
    d = bus.delegator("d")

    assert ask(bus, d, "agents") == []
    assert [told["agent"] for told in ask(bus, d, "agents", {"agent": "d"})] == ["d"]
    assert ask(bus, d, "agents", {"agent": "nobody"}) == "invalid_envelope"
    assert ask(bus, d, "manifests", {"agent": "nobody"}) == "invalid_envelope"


def test_an_agent_is_busy_for_as_long_as_its_node_says_and_no_longer():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    a.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1, "busy_for": 6.5}}})
    bus.step()
    (busy,) = ask(bus, d, "agents")
    a.send(Kind.HEARTBEAT, body={"agents": {}})
    bus.step()
    (idle,) = ask(bus, d, "agents")

    assert (busy["condition"], busy["busy_for"], busy["stalled_for"]) == ("up", 6.5, 0.0)
    assert (idle["condition"], idle["busy_for"], idle["load"]) == ("up", 0.0, {})


def test_who_blocks_its_event_loop_is_told_in_a_few_words_and_once_as_an_event():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    blocking = {"capability": "work.do", "request_id": "1", "at": "x" * 1_000, "seconds": 0.6, "more": [1]}

    for said in (blocking, {**blocking, "seconds": 1.6}, {"seconds": "long"}, "nonsense", None, blocking):
        a.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1, "blocking": said}}})
        bus.step()

    events = bus.events("loop_blocked")
    assert [(event["agent"], event["node"], event["seconds"]) for event in events] == [("a", "na", 0.6)] * 2
    assert events[0]["at"] == "x" * 200
    assert "more" not in events[0]
    (told,) = ask(bus, d, "agents")
    assert told["load"]["blocking"]["capability"] == "work.do"


def test_an_agent_is_stalled_from_when_a_heartbeat_is_missing_until_its_node_is_lost():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    a.is_dead = True
    told = []
    for _ in range(7):
        bus.pass_time(0.5)
        (row,) = ask(bus, d, "agents")
        told.append((row["condition"], row["stalled_for"]))

    assert told[:3] == [("up", 0.0)] * 3
    assert [condition for condition, _ in told[3:6]] == ["up"] * 3
    assert [stalled for _, stalled in told[3:6]] == pytest.approx([2.0, 2.5, 3.0])
    assert told[6] == ("down", 0.0)


def test_manifests_and_capabilities_tell_what_was_registered():
    bus = Bus()
    d = bus.delegator("d")
    bus.node("na", "a", "b")

    assert ask(bus, d, "capabilities") == [{"agent": name, "capabilities": ["x.y"]} for name in "ab"]
    assert [told["agent"] for told in ask(bus, d, "manifests")] == ["a", "b"]
    assert ask(bus, d, "manifests", {"agent": "b"})[0]["capabilities"] == [{"name": "x.y"}]


def test_nodes_tells_who_is_in_and_for_how_long_each_was_silent():
    bus = Bus()
    d = bus.delegator("d")
    peer = Peer(bus, "n")
    bus.peers.append(peer)
    peer.hello(host="h", pid=7, secret="no")
    bus.step()
    peer.is_dead = True
    bus.pass_time(1.5)

    told = {node["node"]: node for node in ask(bus, d, "nodes")}

    assert told["n"] == {
        "node": "n",
        "silent": 1.5,
        "agents": 0,
        "waiting_bytes": 0,
        "observers": 0,
        "host": "h",
        "pid": 7,
    }
    assert told["nd"]["agents"] == 1


def test_the_agent_by_which_a_node_delegates_is_not_counted_among_its_agents():
    bus = Bus()
    d = bus.delegator("d")
    bus.node("desk", "desk", "worker")

    assert {node["node"]: node["agents"] for node in ask(bus, d, "nodes")} == {"nd": 1, "desk": 1}


def test_statistics_count_what_was_accepted_ended_refused_and_died():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    numbers = [d.delegate("d") for _ in range(3)]
    d.delegate("d", "no.such")
    bus.arrive(b"?", b"junk")
    bus.step()
    a.respond("a", numbers[0])
    a.respond("a", numbers[0])
    bus.step()

    told = ask(bus, d, "statistics")

    assert (told["accepted"], told["open"], told["messages_refused"]) == (3, 2, 1)
    assert told["outcomes"] == {"COMPLETED": 1, "REJECTED_CAPABILITY": 1}
    assert told["dead_letters"] == {"no_holder": 1, "duplicate": 1}
    assert (told["nodes"], told["agents"], told["clock"]) == (2, 2, bus.now)
    assert told["tap_next"] == len(bus.tapped) + 1 - 2


def test_dead_letters_are_listed_shown_and_taken_out():
    bus = Bus()
    d = bus.delegator("d")
    number = d.delegate("d", "no.such", params={"k": 1})
    d.delegate("d", "no.such", to="nobody")
    bus.step()

    newest, oldest = ask(bus, d, "dead-letters")
    assert (newest["reason"], oldest["reason"]) == ("unknown_agent", "no_holder")
    assert (oldest["number"], oldest["kind"], oldest["capability"], oldest["from_agent"]) == (
        1,
        "DELEGATION",
        "no.such",
        "d",
    )
    assert oldest["can_redrive"]
    assert [letter["number"] for letter in ask(bus, d, "dead-letters", {"reason": "no_holder", "limit": 5})] == [1]

    shown = ask(bus, d, "dead-letter", {"number": 1, "discard": True})

    assert int.from_bytes(shown["envelope"][16:32]) == number
    assert ask(bus, d, "dead-letter", {"number": 1}) == "unknown_dead_letter"
    assert len(ask(bus, d, "dead-letters")) == 1


def test_a_dead_letter_may_hold_anything_that_a_header_can():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    a.send(Kind.RESPONSE, status=250, source=b"a", capability=b"x.y", request_id=bytes(16), body=b"\xc1")
    bus.step()

    (letter,) = ask(bus, d, "dead-letters")

    assert (letter["status"], letter["can_redrive"]) == (None, False)
    assert ask(bus, d, "dead-letter", {"number": 1})["envelope"].endswith(b"\xc1")


@pytest.mark.parametrize(
    ("capability", "params", "message"),
    [
        ("agents", {"limit": -1}, "params.limit is -1 and has to be a whole number, 1 or more."),
        ("nodes", {"limit": 0}, "params.limit is 0 and has to be a whole number, 1 or more."),
        ("leases", {"limit": "2"}, "params.limit is '2' and has to be a whole number, 1 or more."),
        ("leases", {"after": -2}, "params.after is -2 and has to be a whole number, 0 or more."),
        ("agents", {"after": 7}, "params.after is 7 and has to be a text."),
    ],
)
def test_a_param_that_does_not_fit_is_refused_with_what_would(capability: str, params: dict[str, object], message: str):
    bus = Bus()
    d = bus.delegator("d")

    d.delegate("d", f"ether.{capability}", params=params)
    bus.step()

    assert d.outcome().body["error"]["message"] == message


@pytest.mark.parametrize(
    ("capability", "params", "code"),
    [
        ("dead-letters", {"reason": "lat"}, "invalid_envelope"),
        ("dead-letters", {"limit": "all"}, "invalid_envelope"),
        ("dead-letters", {"limit": -1}, "invalid_envelope"),
        ("agents", {"limit": 0}, "invalid_envelope"),
        ("dead-letters", {"limit": True}, "invalid_envelope"),
        ("dead-letter", {}, "invalid_envelope"),
        ("dead-letter", [1], "invalid_envelope"),
        ("statistics", 7, "invalid_envelope"),
        ("no-such-thing", {}, "no_holder"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(capability: str, params: object, code: str):
    bus = Bus()
    d = bus.delegator("d")

    assert ask(bus, d, capability, params) == code


def test_an_unregistered_sender_is_told_nothing():
    bus = Bus()
    d = bus.delegator("d")

    d.delegate("somebody", "ether.statistics")
    bus.step()

    assert (refusal := d.outcome()).status is Status.REJECTED_CAPABILITY
    assert refusal.code == "forged_sender"


@pytest.mark.parametrize("field", ["target", "capability"])
def test_a_name_that_is_no_text_is_refused(field: str):
    bus = Bus()
    d = bus.delegator("d")

    header = {"request_id": bytes(16), "source": b"d", "capability": b"ether.statistics", field: b"ether.\xff"}
    d.send(Kind.DELEGATION, body={}, **header)
    bus.step()

    assert d.refusal().code == "invalid_envelope"


def test_each_capability_answers_and_is_seen_by_observers():
    bus = Bus()
    d = bus.delegator("d")
    bus.node("na", "a")
    d.delegate("d", "no.such")
    bus.step()

    tells = (
        "agents",
        "manifests",
        "capabilities",
        "nodes",
        "statistics",
        "outcomes",
        "dead-letters",
        "dead-letter",
        "leases",
    )
    for capability in tells:
        assert not isinstance(ask(bus, d, capability, {"number": 1}), str)

    seen = [seen.header.capability.decode() for seen in bus.tapped if seen.header.capability.startswith(b"ether.")]
    assert seen == [f"ether.{capability}" for capability in tells for _ in range(2)]


def pages(bus: Bus, peer: Peer, capability: str, **params: Any) -> list[list[Any]]:
    """A list to its end, page by page; none is larger than half of what an envelope may be."""
    found: list[list[Any]] = []
    after = None
    while after is not None or not found:
        peer.took(Kind.RESPONSE)
        peer.delegate("d", f"ether.{capability}", params={**params, "after": after})
        bus.step()
        received = peer.outcome()
        assert len(received.envelope) < MAX_PAYLOAD // 2
        page = read_response(received.header, received.envelope).unwrap().data
        found.append(page["items"])
        after = page["next"]
    return found


def with_agents(bus: Bus, count: int, **manifest: Any) -> Peer:
    peer = bus.node("many")
    for number in range(count):
        peer.register(f"agent-{number:06}", **manifest)
    bus.step()
    return peer


@pytest.mark.parametrize("capability", ["agents", "manifests", "capabilities"])
def test_a_list_of_agents_comes_in_pages_by_name_and_each_is_on_one(capability: str):
    bus = Bus()
    d = bus.delegator("d")
    with_agents(bus, 2 * LIMIT + 3)

    found = pages(bus, d, capability)

    assert list(map(len, found)) == [LIMIT, LIMIT, 3]
    assert [item["agent"] for page in found for item in page] == [
        f"agent-{number:06}" for number in range(2 * LIMIT + 3)
    ]
    assert list(map(len, pages(bus, d, capability, limit=LIMIT - 1))) == [LIMIT - 1, LIMIT - 1, 5]
    assert len(pages(bus, d, capability, limit=10**9)) == 3


def test_agents_that_come_and_go_between_two_pages_leave_the_others_where_they_are():
    bus = Bus()
    d, peer = bus.delegator("d"), with_agents(bus, 4)
    first = ask(bus, d, "agents", {"limit": 2})
    peer.send(Kind.UNREGISTER, source=b"agent-000001", body={"condition": "gone"})
    peer.register("agent-000000a")
    bus.step()

    second = ask(bus, d, "agents", {"limit": 2, "after": "agent-000001"})

    assert [item["agent"] for item in (*first, *second)] == [f"agent-{number:06}" for number in range(4)]


def test_large_manifests_are_listed_a_few_at_a_time():
    bus = Bus()
    d, peer = bus.delegator("d"), bus.node("many")
    for number in range(6):
        capability = Capability(name="x.y", description="d" * 200_000)
        peer.register_manifest(Manifest(agent=f"agent-{number}", capabilities=(capability,)))
        bus.step()

    found = pages(bus, d, "manifests")

    assert [[item["agent"] for item in page] for page in found] == [[f"agent-{number}"] for number in range(6)]


def test_who_asks_for_names_is_told_of_those_that_are_there():
    bus = Bus()
    d = bus.delegator("d")
    with_agents(bus, 3)

    wanted = ["agent-000002", "nobody", "agent-000000", "d"]
    assert [item["agent"] for item in ask(bus, d, "agents", {"agents": wanted})] == [
        "agent-000000",
        "agent-000002",
        "d",
    ]
    assert ask(bus, d, "agents", {"agents": "all"}) == ask(bus, d, "agents", {"agents": [1]}) == "invalid_envelope"


def test_delegators_are_no_items_and_a_page_of_nothing_but_them_goes_on():
    bus = Bus()
    d = bus.delegator("d")
    peer = bus.node("z", "z")
    for number in range(1_100):
        peer.send(Kind.REGISTER, source=f"delegator-{number}".encode(), body={"capabilities": []})
    bus.step()

    assert list(map(len, pages(bus, d, "agents"))) == [0, 1]


def test_nodes_leases_and_dead_letters_come_in_pages_too():
    bus = Bus()
    d = bus.delegator("d")
    for number in range(7):
        bus.node(f"n{number}")
        d.delegate("d", "no.such")
    bus.step()

    assert [node["node"] for page in pages(bus, d, "nodes", limit=3) for node in page] == [
        *(f"n{n}" for n in range(7)),
        "nd",
    ]
    assert [letter["number"] for page in pages(bus, d, "dead-letters", limit=3) for letter in page] == [
        7,
        6,
        5,
        4,
        3,
        2,
        1,
    ]
    assert pages(bus, d, "dead-letters", limit=3, reason="late") == [[]]
    assert pages(bus, d, "leases") == [[]]


def test_a_dead_letter_of_a_mebibyte_is_shown_in_ranges():
    bus = Bus()
    d = bus.delegator("d")
    number = d.delegate("d", "no.such", params=b"x" * 1_048_000)
    bus.step()
    (listed,) = ask(bus, d, "dead-letters")

    envelope = b""
    while len(envelope) < listed["size"]:
        shown = ask(bus, d, "dead-letter", {"number": 1, "offset": len(envelope)})
        assert shown["offset"] == len(envelope)
        assert 0 < len(shown["envelope"]) <= 1 << 18
        envelope += shown["envelope"]

    assert envelope[16:32] == request_id(number)
    assert len(envelope) == listed["size"]


@pytest.mark.parametrize("capability", ["agents", "manifests", "capabilities", "nodes", "dead-letters"])
def test_a_page_costs_the_same_however_long_the_list_is(capability: str):
    def steps(count: int) -> int:
        bus = Bus()
        d = bus.delegator("d")
        peer = bus.node("many")
        for number in range(count):
            peer.register(f"agent-{number:06}")
            d.delegate("d", "no.such")
        bus.step()
        d.delegate(
            "d",
            f"ether.{capability}",
            params={"limit": 5, "after": {"dead-letters": 30}.get(capability, "agent-000009")},
        )
        return counted(bus)

    assert steps(800) <= 1.1 * steps(100)


def counted(bus: Bus) -> int:
    """Calls of Python and C functions in the next step of the supervisor."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    arrivals, bus._arrivals = bus._arrivals, []
    sys.setprofile(count)
    try:
        bus.supervisor.step(arrivals, bus.now, 0.0)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("capability", ["agents", "dead-letter", "journal-gc", "no-such"])
def test_who_may_not_ask_is_refused_before_the_body_is_read(capability: str, monkeypatch: pytest.MonkeyPatch):
    bus = Bus()
    d = bus.delegator("d")
    bus.state.access = Access(delegate=[])
    monkeypatch.setattr(administration, "read", lambda *_: pytest.fail("the body was read"))

    d.delegate("d", f"ether.{capability}", params=[[]] * 10_000)
    bus.step()

    assert d.outcome().code == ("no_holder" if capability == "no-such" else "access_denied")
    (seen,) = [seen for seen in bus.tapped if seen.kind is Kind.DELEGATION]
    assert len(seen.envelope) == seen.header.body + 1, "an empty map"
    assert bus.state.session_table.refusals.by_reason.get("access_denied", 0) == (capability != "no-such")


def test_who_may_ask_may_not_take_a_dead_letter_out():
    bus = Bus()
    d = bus.delegator("d")
    d.delegate("d", "no.such")
    bus.step()
    bus.state.access = Access(delegate=[], read=["d"])

    assert ask(bus, d, "dead-letter", {"number": 1, "discard": True}) == "access_denied"
    assert ask(bus, d, "dead-letter", {"number": 1})["number"] == 1


def test_what_the_bus_is_asked_is_nobody_elses_work():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na")
    a.register("a", "ether.agents", "*")
    bus.step()
    d.delegate("d", "ether.agents", to="a")
    d.delegate("d", "ether.poems")
    bus.step()

    assert [received.code for received in d.took(Kind.RESPONSE)] == ["no_holder", "no_holder"]
    assert a.work() == []
