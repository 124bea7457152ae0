"""Peers that make the lists of the bus long, or their items large: operators still see everything, and nodes still join."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import zmq

from ether import Agent, Runtime, capability
from ether.cluster.agent_starts import _taken
from ether.cluster.cluster_spec import AgentSpec
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import Kind, join_frame, pack_envelope
from tests.runtime.raw_peer import RawPeer
from tests.support import wait_until

pytestmark = pytest.mark.slow
MANY = 3_600


class Greeter(Agent):
    @capability("greet")
    def greet(self) -> str:
        return "hello"


@pytest.fixture
def bus() -> Iterator[Runtime]:
    with Runtime(bind="tcp://127.0.0.1:*") as bus:
        bus.start(Greeter, name="greeter")
        yield bus


class Mallory(RawPeer):
    """Registers what it likes, and shows life meanwhile."""

    def fill(self, bus: Runtime, bodies: list[tuple[bytes, bytes]]) -> None:
        """Register {name: manifest}, as fast as the broker takes it."""
        present = int(bus.statistics()["agents"])
        for first in range(0, len(bodies), 60):
            self.send(*(
                pack_envelope(Kind.REGISTER, request_id=new_id(), source=name, body=body)
                for name, body in bodies[first : first + 60]
            ))  # fmt: skip
            self.live()
        wait_until(lambda: self.live() or bus.statistics()["agents"] == present + len(bodies), 30.0, "all are in")

    def live(self) -> None:
        """Show life; what came is thrown away."""
        self.talk.send(join_frame([pack_envelope(Kind.HEARTBEAT, body=pack({"agents": {}}))]))
        time.sleep(0.02)
        while True:
            try:
                self.listen.recv(zmq.NOBLOCK)
            except zmq.Again:
                return


def p99(bus: Runtime) -> float:
    took = []
    for _ in range(100):
        began = time.monotonic()
        assert bus.delegate("greet").result(10.0).data == "hello"
        took.append(time.monotonic() - began)
    return sorted(took)[98]


@pytest.mark.alone
def test_thousands_of_agents_are_listed_and_a_node_finds_a_free_name_beside_them(bus: Runtime):
    before = min(p99(bus) for _ in range(3))
    with Mallory(bus.url) as mallory:
        mallory.hello("mallory")
        body = pack({"capabilities": [{"name": "c.n"}], "role": "r" * 60})
        mallory.fill(bus, [(b"worker-%d" % number + b"x" * 100, body) for number in range(MANY)])
        mallory.fill(bus, [(b"greeter-%d" % number, body) for number in range(2, 40)])
        mallory.live()

        assert len(bus.agents()) == MANY + 39
        mallory.live()
        assert len(bus.capabilities()["c.n"]) == MANY + 38
        mallory.live()
        assert _taken(bus, AgentSpec("m:Greeter")) >= {"greeter", *(f"greeter-{number}" for number in range(2, 40))}
        mallory.live()
        assert any(p99(bus) <= 3 * max(before, 0.003) for _ in range(15) if not mallory.live())


def test_large_manifests_are_listed(bus: Runtime):
    with Mallory(bus.url) as mallory:
        mallory.hello("mallory")
        for number in range(6):
            declared = {"capabilities": [{"name": f"big.c{number}", "description": "d" * 200_000}]}
            mallory.fill(bus, [(b"big-%d" % number, pack(declared))])

        assert len(bus.manifests()) == 7
        mallory.live()
        assert len(bus.agents()) == 7
        assert len(bus.capabilities()) == 7


def test_a_dead_letter_of_a_mebibyte_is_shown_whole(bus: Runtime):
    with Mallory(bus.url) as mallory:
        mallory.hello("mallory")
        mallory.register("mallory")
        body = pack({"params": pack(b"z" * 1_048_000)})
        mallory.send(
            pack_envelope(Kind.DELEGATION, request_id=new_id(), source=b"mallory", capability=b"no.such", body=body)
        )
        wait_until(bus.dead_letters, what="it has died")

        assert bus.dead_letter(1).delegation.params == b"z" * 1_048_000
