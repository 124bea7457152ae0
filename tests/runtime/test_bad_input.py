"""Bad input of every kind ends as a typed error or a status, and the bus goes on serving."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import (
    AddressInUse,
    Agent,
    BrokerUnavailable,
    Closed,
    DuplicateAgent,
    InvalidEndpoint,
    InvalidEnvelope,
    InvalidManifest,
    NodeRefused,
    Observation,
    Observer,
    PayloadTooLarge,
    Runtime,
    Status,
    Task,
    UnknownAgent,
    UnknownDeadLetter,
    Unserialisable,
    UsageError,
    capability,
)
from ether.testing import TestRuntime
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import Kind, join_frame, pack_envelope
from tests.runtime.raw_peer import RawPeer
from tests.support import wait_until


class Troublemaker(Agent):
    """Does everything that a handler should not do."""

    hang_limit = 0.2
    released: threading.Event

    @capability("ok")
    def ok(self) -> str:
        return "ok"

    @capability("raise")
    def raise_(self) -> None:
        msg = "as asked"
        raise ValueError(msg)

    @capability("exit")
    def exit(self) -> None:
        raise SystemExit(3)

    @capability("interrupt")
    async def interrupt(self) -> None:
        raise KeyboardInterrupt

    @capability("hang")
    def hang(self) -> None:
        self.released.wait(30)

    @capability("wrong")
    def wrong(self) -> dict[str, int]:
        return ["not", "a", "dict"]  # type: ignore[return-value]

    @capability("object")
    def object(self):
        return {"it": object()}

    @capability("huge")
    def huge(self) -> bytes:
        return bytes(2 << 20)

    @capability("flood")
    def flood(self, task: Task, *, data: bool) -> str:
        for number in range(20_000):
            task.progress(0.5, "again", {"number": number} if data else None)
        return "flooded"

    @capability("needs")
    def needs(self, name: str, size: int) -> None:
        pass


@pytest.fixture(name="bus")
def _bus() -> Iterator[Runtime]:
    Troublemaker.released = threading.Event()
    with Runtime(drain=0.5) as bus:
        bus.start(Troublemaker)
        yield bus
        Troublemaker.released.set()
        assert bus.delegate("ok", timeout=10).result(10).data == "ok", "the bus goes on serving"


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("raise", Status.FAILED_EXECUTION, "exception"),
        ("exit", Status.FAILED_EXECUTION, "agent_crash"),
        ("interrupt", Status.FAILED_EXECUTION, "agent_crash"),
        ("wrong", Status.FAILED_EXECUTION, "wrong_result"),
        ("object", Status.FAILED_EXECUTION, "unserialisable"),
        ("huge", Status.FAILED_EXECUTION, "payload_too_large"),
        ("needs", Status.REJECTED_CONTEXT, "misfit"),
        ("nobody.does.this", Status.REJECTED_CAPABILITY, "no_holder"),
        ("oj", Status.REJECTED_CAPABILITY, "no_holder"),
    ],
)
def test_what_goes_wrong_in_a_handler_is_a_status_with_a_code(
    bus: Runtime, name: str, status: Status, code: str
) -> None:
    response = bus.delegate(name, timeout=10).result(10)

    assert response.status is status
    assert response.error is not None
    assert response.error.code == code


def test_a_handler_that_raises_is_answered_with_its_traceback(bus: Runtime) -> None:
    error = bus.delegate("raise").result(10).error

    assert error is not None
    assert error.message == "ValueError: as asked"
    assert "in raise_" in (error.traceback or "")


def test_missing_parameters_and_those_that_do_not_fit_are_named_apart(bus: Runtime) -> None:
    response = bus.delegate("needs", {"size": "big"}).result(10)

    assert (response.required_fields, response.unexpected_fields) == (("name",), ("size",))


def test_a_handler_that_hangs_ends_in_timeout_and_its_agent_comes_back(bus: Runtime) -> None:
    hanging = bus.delegate("hang", timeout=0.1)
    waiting = bus.delegate("ok", timeout=20)

    assert hanging.result(5).status is Status.TIMEOUT
    assert waiting.result(20).data == "ok", "the mailbox is kept for the new incarnation"


class Stalled(Agent):
    """Eight at a time wait for a server that does not answer."""

    max_concurrency = 8
    hang_limit = 0.1
    released: threading.Event

    @capability("fetch")
    def fetch(self, *, hangs: bool) -> str:
        if hangs:
            self.released.wait(30)
        return "fetched"


class Restarting(Observer):
    """Notes which agents restart."""

    def __init__(self) -> None:
        self.agents: list[str] = []

    def on_event(self, observation: Observation) -> None:
        if observation.event["event"] == "agent_restarting":
            self.agents.append(observation.event["agent"])


def test_handlers_that_hang_together_are_one_crash_of_their_agent(
    bus: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stalled, "released", released := threading.Event(), raising=False)
    seen = bus.observe(Restarting())
    bus.start(Stalled)

    hanging = [bus.delegate("fetch", {"hangs": True}, timeout=0.1 + number * 0.7) for number in range(8)]

    assert {handle.result(20).status for handle in hanging} == {Status.TIMEOUT}
    wait_until(lambda: not any(agent["in_flight"] for agent in bus.agents() if agent["agent"] == "stalled"))
    assert [bus.delegate("fetch", {"hangs": False}, timeout=20).result(20).data for _ in range(8)] == ["fetched"] * 8
    assert bus.settle(seen)
    assert seen.agents == ["stalled"]
    released.set()


@pytest.mark.parametrize("data", [False, True])
def test_a_flood_of_progress_is_bounded(bus: Runtime, data: bool) -> None:
    response = bus.delegate("flood", {"data": data}, timeout=60).result(60)

    assert response.status is (Status.FAILED_EXECUTION if data else Status.COMPLETED)
    assert not data or (response.error is not None and "10,000" in response.error.message)


def test_an_unknown_agent_is_answered_with_the_nearest_name(bus: Runtime) -> None:
    response = bus.delegate("ok", to="troublemakr").result(10)

    assert response.status is Status.REJECTED_CAPABILITY
    assert response.error is not None
    assert "Did you mean 'troublemaker'?" in response.error.message
    assert response.alternative_agent == "troublemaker"


def test_an_agent_never_gets_what_it_does_not_declare(bus: Runtime) -> None:
    response = bus.delegate("secrets.read", to="troublemaker").result(10)

    assert response.status is Status.REJECTED_CAPABILITY
    assert response.error is not None
    assert response.error.code == "not_declared"


def test_a_payload_over_the_limit_is_refused_before_it_is_sent(bus: Runtime) -> None:
    with pytest.raises(PayloadTooLarge, match="1,048,576"):
        bus.delegate("ok", {"blob": bytes(2 << 20)})


def test_a_value_that_cannot_travel_is_refused_with_its_place(bus: Runtime) -> None:
    with pytest.raises(Unserialisable, match=r"params\['deep'\]\[1\] is a set"):
        bus.delegate("ok", {"deep": [1, {2}]})


@pytest.mark.parametrize(
    "call",
    [
        {"capability": "not a name"},
        {"capability": "ok", "timeout": -1},
        {"capability": "ok", "timeout": "soon"},
        {"capability": "ok", "to": "bad name"},
        {"capability": "ok", "priorty": 1},
        {"capability": "ok", "objective": 0},
        {"capability": "ok", "objective": []},
        {"capability": 7},
    ],
)
def test_a_field_that_is_not_valid_is_refused_by_name(bus: Runtime, call: dict[str, object]) -> None:
    with pytest.raises(InvalidEnvelope):
        bus.delegate(**call)  # type: ignore[arg-type]


def test_names_of_living_agents_are_unique_on_the_bus(tmp_path: Path) -> None:
    with Runtime(bind=f"ipc://{tmp_path}/bus") as bus:
        bus.start(Troublemaker, name="same")
        with pytest.raises(DuplicateAgent, match="same"):
            bus.start(Troublemaker, name="same")
        with Runtime.connect(f"ipc://{tmp_path}/bus") as other, pytest.raises(DuplicateAgent, match=bus.name):
            other.start(Troublemaker, name="same")
        assert bus.delegate("ok", to="same").result(10).data == "ok"


def test_an_agent_that_cannot_start_says_why() -> None:
    class Broken(Agent):
        def on_start(self) -> None:
            msg = "no key"
            raise RuntimeError(msg)

    class Contradictory(Agent):
        version = "one"

    with Runtime() as bus:
        with pytest.raises(RuntimeError, match="no key"):
            bus.start(Broken)
        with pytest.raises(InvalidManifest, match="semantic version"):
            bus.start(Contradictory)
        with pytest.raises(UsageError, match="is not an Agent"):
            bus.start(dict)  # type: ignore[arg-type]
        assert bus.agents() == []


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    for bind in (f"ipc://{tmp_path}/bus", "tcp://127.0.0.1:*"):
        with Runtime(bind=bind) as bus, pytest.raises(AddressInUse):
            Runtime(bind=bus.url).open()


def test_a_broker_that_is_not_there_is_a_typed_error_within_the_time(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable, match="ether up"):
        Runtime.connect(f"ipc://{tmp_path}/nobody", timeout=0.2).open()


@pytest.mark.parametrize(
    "url", ["", "tcp://host", "tcp://host:99999", "http://host:1", "ipc://run/relative", "ipc:///" + "x" * 200]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidEndpoint):
        Runtime.connect(url).open()


def test_a_bus_that_is_inside_another_runtime_is_told_at_once_with_the_way_to_share_it() -> None:
    with Runtime() as bus, pytest.raises(InvalidEndpoint, match=r"open that one with bind=, as in Runtime\(bind="):
        Runtime.connect(bus.url).open()


def test_a_closed_runtime_says_so() -> None:
    bus = Runtime()
    with pytest.raises(Closed):
        bus.delegate("ok")
    with bus, pytest.raises(UsageError, match="open already"):
        bus.open()
    with pytest.raises(Closed):
        bus.delegate("ok")


def test_what_is_not_there_is_a_typed_error(bus: Runtime) -> None:
    with pytest.raises(UnknownAgent, match="Did you mean 'troublemaker'"):
        bus.stop("troublemaker-")
    with pytest.raises(UnknownDeadLetter):
        bus.dead_letter(99)


# -- peers without manners ---------------------------------------------------------------------------------------


@pytest.fixture(name="open_bus")
def _open_bus(tmp_path: Path) -> Iterator[Runtime]:
    Troublemaker.released = threading.Event()
    with Runtime(drain=0.5, bind=f"ipc://{tmp_path}/bus") as bus:
        bus.start(Troublemaker)
        yield bus
        assert bus.delegate("ok", timeout=10).result(10).data == "ok", "the bus goes on serving"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 7,
        b"GET / HTTP/1.1\r\n\r\n",
        b"ETHR",
        b"ETHR\x01\x00\xff\xff",
        b"ETHR\x01\x00\x00\x01\xff\xff\xff\xff",
        join_frame([b"short"]),
        join_frame([pack_envelope(99)]),
        join_frame([pack_envelope(Kind.DELEGATION)[:-1]]),
        join_frame([pack_envelope(Kind.HEARTBEAT, body=b"\xc1")]),
        join_frame([pack_envelope(Kind.REGISTER, source=b"x", body=b"\x93\x01\x02\x03")]),
    ],
)
@pytest.mark.parametrize("greets", [False, True])
def test_a_malformed_message_is_counted_and_changes_nothing(open_bus: Runtime, message: bytes, greets: bool) -> None:
    before = open_bus.statistics()
    with RawPeer(open_bus.url) as peer:
        if greets:
            peer.hello("stranger")
        peer.talk.send(message)
        wait_until(lambda: open_bus.statistics()["messages_refused"] > before["messages_refused"] or _errors(peer), 5)
    assert [agent["agent"] for agent in open_bus.agents()] == ["troublemaker"]


def _errors(peer: RawPeer) -> bool:
    return bool(peer.listen.poll(0))


def test_a_message_of_several_frames_is_dropped_whole(open_bus: Runtime) -> None:
    with RawPeer(open_bus.url) as peer:
        peer.hello("stranger")
        peer.talk.send_multipart([join_frame([pack_envelope(Kind.BYE)]), b"t" + bytes(16), b"more", b"parts"])
        peer.expect(Kind.ERROR)
        assert open_bus.statistics()["messages_refused"] == 1
        assert peer.register("still-here", "x").kind == Kind.REGISTERED


def test_a_newer_protocol_is_refused_by_name(open_bus: Runtime) -> None:
    with RawPeer(open_bus.url) as peer:
        frame = bytearray(join_frame([pack_envelope(Kind.HELLO, body=pack({"node": "future"}))]))
        frame[4] = 3
        peer.listen.send(bytes(frame))
        _header, body = peer.expect(Kind.ERROR)
        assert body["code"] == "incompatible_version"
        assert "protocol 3" in body["message"]


def test_a_newer_schema_is_refused_and_a_newer_minor_one_is_let_in(open_bus: Runtime) -> None:
    with RawPeer(open_bus.url) as peer:
        assert peer.hello("future", schema_version="2.0").kind == Kind.ERROR
        assert peer.hello("future", schema_version="1.9").kind == Kind.WELCOME


def test_a_node_with_a_name_that_is_taken_is_refused(open_bus: Runtime) -> None:
    with pytest.raises(NodeRefused, match=open_bus.name):
        Runtime.connect(open_bus.url, name=open_bus.name).open()


def test_nobody_speaks_for_an_agent_of_another(open_bus: Runtime) -> None:
    with RawPeer(open_bus.url) as peer:
        peer.hello("forger")
        peer.register("forger", "x")
        request_id = new_id()
        peer.send(
            pack_envelope(
                Kind.DELEGATION, request_id=request_id, source=b"troublemaker", capability=b"ok", body=pack({})
            )
        )
        header, _ = peer.expect(Kind.RESPONSE)
        assert header.request_id == request_id
        assert header.status == Status.REJECTED_CAPABILITY.code
        wait_until(lambda: [letter.reason for letter in open_bus.dead_letters()] == ["forged"], 5)


def test_an_answer_twice_or_to_anothers_request_is_a_dead_letter(open_bus: Runtime) -> None:
    with RawPeer(open_bus.url) as peer:
        peer.hello("liar")
        peer.register("liar", "lie")
        handle = open_bus.delegate("lie", timeout=10)
        header, _ = peer.expect(Kind.DELEGATION)
        foreign = open_bus.delegate("hang", timeout=0.5)
        wait_until(lambda: open_bus.statistics()["open"] == 2, 5, "both are accepted")

        def answer(request_id: bytes, status: Status) -> bytes:
            return pack_envelope(
                Kind.RESPONSE, request_id=request_id, status=status, source=b"liar", body=pack({"summary": "mine"})
            )

        peer.send(
            answer(header.request_id, Status.TIMEOUT),
            answer(header.request_id, Status.COMPLETED),
            answer(header.request_id, Status.FAILED_EXECUTION),
            answer(foreign.key, Status.COMPLETED),
            answer(new_id(), Status.COMPLETED),
        )
        assert handle.result(5).status is Status.COMPLETED
        Troublemaker.released.set()
        assert foreign.result(5).status is not Status.REJECTED_CAPABILITY
        assert foreign.result(5).from_agent != "liar"
        wait_until(lambda: len(open_bus.dead_letters()) >= 4, 5)
        reasons = [letter.reason for letter in reversed(open_bus.dead_letters())]
        assert reasons[:4] == ["illegal", "duplicate", "not_the_specialist", "unknown_request"]


@pytest.mark.parametrize(
    ("keyword", "says"),
    [
        ({"from_agent": "another"}, "delegate() takes no from_agent: the agent that delegates is set by itself."),
        ({"attempt": 2}, "delegate() takes no attempt: the bus counts the attempts."),
        ({"to_agent": "t"}, "delegate() takes no to_agent: name the agent with `to`."),
    ],
)
def test_a_field_that_delegate_sets_itself_is_no_keyword(keyword: dict[str, object], says: str):
    class Delegator(Agent):
        @capability("pass_on")
        def pass_on(self, task: Task) -> str:
            with pytest.raises(InvalidEnvelope) as caught:
                task.delegate("ok", **keyword)
            return str(caught.value)

    with TestRuntime() as bus:
        bus.start(Delegator)
        with pytest.raises(InvalidEnvelope) as caught:
            bus.delegate("pass_on", **keyword)
        said_to_handler = bus.delegate("pass_on").result().data

    assert str(caught.value) == said_to_handler == says
