"""What a node says first to a broker that was restarted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from ether import Agent, Runtime, capability
from ether.node.agents.agent_host import _drains
from ether.node.agents.begun_work import pack_begun
from ether.node.node_session import _LOADS, _chunks
from ether.testing import ManualClock
from ether.testing.simulator import World
from ether_actors.restarts.supervisor_spec import ChildSpec, SupervisorSpec
from ether_actors.supervisor.registry.quota import MOST_RESUMED
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.names import MAX_NAME
from ether_broker.envelope.payload import pack, unpack
from ether_broker.wire.frame import Kind, pack_envelope, read_header

ID = bytes(range(16))


class Slow(Agent):
    begun = threading.Event()
    may_end = threading.Event()

    @capability("slow.do")
    def do(self) -> None:
        self.begun.set()
        self.may_end.wait(20.0)


def unregistering(body: dict[str, object]) -> bytes:
    return pack_envelope(Kind.UNREGISTER, source=b"a", body=pack(body))


def test_what_an_agent_had_begun_that_has_left_is_held_until_the_broker_has_heard_of_that():
    """Else a broker would take it for not begun, as the next agent of this name knows nothing of it."""
    node, _ = World(ManualClock(0.0)).join("n")
    left = [
        unregistering({"condition": "gone", "reason": "stopped", "begun": pack_begun([(ID, 2)])}),
        pack_envelope(Kind.REGISTER, request_id=ID, source=b"a", body=pack({})),
    ]

    first, *later = node._session._resume(left, 0.0)
    node.abandon()

    header = read_header(first)
    assert (header.kind, unpack(first[header.body :])) == (Kind.RESUME, {"holding": {"a": [[ID, 2]]}})
    of_agent = [Kind(envelope[0]) for envelope in later if read_header(envelope).source == b"a"]
    assert of_agent == [Kind.UNREGISTER, Kind.REGISTER]


def test_what_is_held_is_said_in_as_many_resumes_as_it_takes():
    node, _ = World(ManualClock(0.0)).join("n")
    held = [(number.to_bytes(16), 1) for number in range(2 * MOST_RESUMED + 1)]
    left = [
        unregistering({"condition": "gone", "reason": "stopped", "begun": pack_begun(held[:1_500])}),
        pack_envelope(
            Kind.UNREGISTER,
            source=b"b",
            body=pack({"condition": "gone", "reason": "stopped", "begun": pack_begun(held[1_500:])}),
        ),
    ]

    said = [envelope for envelope in node._session._resume(left, 0.0) if envelope[0] == Kind.RESUME]
    node.abandon()

    parts = [unpack(envelope[read_header(envelope).body :])["holding"] for envelope in said]
    assert [{name: len(items) for name, items in part.items()} for part in parts] == [
        {"a": MOST_RESUMED}, {"a": 500, "b": 500}, {"b": 1}
    ]  # fmt: skip
    assert [tuple(one) for part in parts for items in part.values() for one in items] == held


def test_the_largest_resume_and_heartbeat_are_read():
    names = [f"{number:0>{MAX_NAME}}" for number in range(MOST_RESUMED)]
    (resume,) = _chunks({name: {bytes(16): 15} for name in names})
    load = {"running": 2**63, "waiting": 2**63, "busy_for": 0.1}
    heartbeat = pack({"agents": dict.fromkeys(names[:_LOADS], load), "more": True})

    assert len(read_map(resume[read_header(resume).body :], CONTROL)["holding"]) == MOST_RESUMED
    assert len(read_map(heartbeat, CONTROL)["agents"]) == _LOADS


def registered_names(bus: Runtime) -> set[str]:
    """The agents for which a node says REGISTER to a broker that was restarted."""
    said = [(read_header(envelope), envelope) for envelope in bus.node.agent_host.registrations()]
    return {
        name
        for header, envelope in said
        if header.kind == Kind.REGISTER
        for name in ([header.source.decode()] if header.source else unpack(envelope[header.body :])["agents"])
    }


def test_who_starts_in_the_place_of_another_is_registered_with_the_others_and_who_starts_anew_says_so_itself():
    """The broker keeps the name, and what waits, for the first; the second might be refused, and others with it."""
    seen: list[set[str]] = []

    class Starting(Agent):
        def on_start(self) -> None:
            seen.append(registered_names(bus))

        @capability("starting.do")
        def do(self) -> None: ...

    with Runtime() as bus:
        bus.start(Starting, name="a")
        bus.start(Starting, name="b")
        supervision = bus.node.supervision
        tree = SupervisorSpec("b", children=(ChildSpec("b", Starting),))
        for _ in supervision.take_down(["b"], 1.0, "it is replaced"):
            pass
        supervision.replace("b", tree, Starting, Starting)()

        assert seen == [set(), {"a"}, {"a", "b"}]
        assert registered_names(bus) == {"a", "b"}


def test_an_agent_that_is_stopped_says_what_it_had_begun():
    with Runtime() as bus:
        bus.start(Slow, name="a")
        handle = bus.delegate("slow.do")
        assert Slow.begun.wait(10.0)
        said: list[bytes] = []
        sender = bus.node._sender
        send, sender.send = sender.send, lambda envelope, **options: (said.append(envelope), send(envelope, **options))
        bus.stop("a", timeout=0.0)
        Slow.may_end.set()
        handle.result()

    (told,) = [
        unpack(envelope[read_header(envelope).body :]) for envelope in said if len(envelope) > 60 and envelope[0] == 22
    ]
    assert told == {"condition": "gone", "reason": "stopped", "begun": pack_begun([(handle.key, 1)])}


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_sessions_begin_with_does_not_pile_up_while_no_broker_acknowledges_it(goes_on: bool):
    """A broker that begins session after session would be told n times as much in the n-th."""
    with Runtime() as bus:
        bus.start(Slow, name="a")
        bus.start(Slow, name="gone")
        session = bus.node._session
        left = [unregistering({"condition": "gone", "reason": "stopped"})]
        said: list[Counter[Kind]] = []

        def begin(renew: Callable[[list[bytes]], list[bytes]]) -> None:
            left[:] = renew(list(left))
            said.append(Counter(Kind(envelope[0]) for envelope in left))

        session._begin_link = begin
        for number in range(5):
            if number == 2:
                bus.node.agent_host.begin_draining([cell for cell in bus.node.agent_host.cells if cell.name == "gone"])
                left.append(_drains(b"gone"))
            if goes_on:
                begin(lambda left: session._resume(left, 0.0))
            else:
                session._restart()

    assert said[0] == said[1]
    assert said[2] == said[4] == said[1] + Counter({Kind.UNREGISTER: 2}), (
        "as it was said once, and as each session says it"
    )


def test_who_starts_anew_under_the_name_of_one_that_left_is_registered_behind_its_leaving():
    with Runtime() as bus:
        bus.start(Slow, name="a")
        register = pack_envelope(Kind.REGISTER, request_id=ID, source=b"a", body=Slow.packed_manifest())
        left = [unregistering({"condition": "gone", "reason": "stopped"}), register]
        for _ in range(3):
            left = bus.node._session._resume(left, 0.0)

    of_agent = [Kind(envelope[0]) for envelope in left if read_header(envelope).source == b"a"]
    assert of_agent == [Kind.UNREGISTER, Kind.REGISTER]
