"""What is no name gets no further than the broker's edge: not to others, not to observers, not into the journal."""

from __future__ import annotations

import pytest

from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, request_id
from tests.hostile_text import HOSTILE

EVIL = HOSTILE.encode()[:200]


@pytest.mark.parametrize("evil", [EVIL, b"\xff", b"a\nb", b"x" * 201], ids=["escapes", "no UTF-8", "newline", "long"])
@pytest.mark.parametrize("field", ["source", "target", "capability"])
@pytest.mark.parametrize(
    "kind",
    [
        Kind.DELEGATION,
        Kind.RESPONSE,
        Kind.CANCEL,
        Kind.REGISTER,
        Kind.UNREGISTER,
        Kind.MONITOR,
        Kind.RESUME,
        Kind.SCALE,
    ],
    ids=str,
)
def test_an_envelope_with_what_is_no_name_is_refused_and_leaves_no_trace(kind: Kind, field: str, evil: bytes) -> None:
    bus = Bus()
    mallory = bus.node("nm", "mallory")
    passed, refused = len(bus.tapped), bus.state.session_table.refusals.total
    names = {"source": b"mallory", "target": b"mallory", "capability": b"x.y", field: evil}

    mallory.send(
        kind, request_id=request_id(77), status=Status.COMPLETED if kind is Kind.RESPONSE else 0, body={}, **names
    )
    bus.step()

    refusal = mallory.refusal()
    assert (refusal.number, refusal.code) == (77, "invalid_envelope")
    assert len(bus.tapped) == passed
    assert bus.reasons() == []
    assert bus.state.session_table.refusals.total == refused + 1
    assert [agent.name for agent in bus.state.registry.agents] == [b"mallory"]


@pytest.mark.parametrize("topic", [HOSTILE, "a b", "a\n", "x" * 201, "é"])
def test_what_no_capability_begins_with_cannot_be_observed(topic: str) -> None:
    bus = Bus()
    mallory = bus.node("nm", "mallory")

    mallory.send(Kind.OBSERVE, request_id=request_id(5), body={"topics": [topic]})
    bus.step()

    assert mallory.refusal().code == "invalid_envelope"
    assert mallory.session.cursors == {}


@pytest.mark.parametrize("node", [HOSTILE, "a b", "", "x" * 201, "-a", "é"])
def test_no_node_has_a_name_that_is_none(node: str) -> None:
    bus = Bus()
    bus.node("n")
    [peer] = bus.peers
    peer.incarnation, peer.name = b"%16d" % 99, node
    peer.hello()
    bus.step()

    assert peer.refusal().code == "node_refused"
    assert [session.node for session in bus.state.session_table.sessions] == ["n"]


def test_a_response_goes_on_under_the_names_of_its_delegation() -> None:
    bus = Bus()
    alice, mallory = bus.delegator("alice"), bus.node("nm", "mallory")
    number = alice.delegate("alice", to="mallory")
    bus.step()

    for status in (Status.PROGRESS, Status.COMPLETED):
        mallory.send(
            Kind.RESPONSE, request_id=request_id(number), source=b"mallory", status=status, target=b"bob",
            capability=b"bank.transfer", body={},
        )  # fmt: skip
    bus.step()

    told = [seen.header for seen in (*alice.took(Kind.RESPONSE), *bus.tapped) if seen.kind is Kind.RESPONSE]
    assert len(told) == 4
    assert {(header.target, header.capability) for header in told} == {(b"alice", b"x.y")}
