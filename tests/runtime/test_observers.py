"""Observers on a real bus: they see everything in order, and whatever they do, the bus goes on."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from functools import partialmethod
from typing import Any

import pytest
from pydantic import BaseModel

from ether import (
    Agent,
    Event,
    InvalidEnvelope,
    Observation,
    Observer,
    Runtime,
    Status,
    Task,
    UsageError,
    capability,
    on_event,
)
from ether.observers import Log, Metrics
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.observer_cursor import OBSERVER_WINDOW_BATCHES
from ether_broker.transport.zeromq.server import MAX_MESSAGE
from ether_broker.wire.frame import Kind, pack_envelope
from tests.runtime.raw_peer import RawPeer
from tests.support import run_python, wait_until


class Worker(Agent):
    """Ends its work in every way."""

    @capability("work.echo", confidence=0.9)
    def echo(self, data: str) -> str:
        return data

    @capability("work.answer")
    def answer(self, status: str, fields: dict[str, Any], task: Task) -> Any:
        return task.respond(Status[status], **fields)

    @capability("work.fail")
    def fail(self) -> None:
        raise ValueError("no")

    @capability("work.wait")
    async def wait(self, task: Task) -> None:
        import asyncio

        await asyncio.sleep(60)


class Totals(BaseModel):
    words: int = 0


class Tally(Agent):
    """Saves a state, publishes an event, and is given it."""

    state: Totals

    @capability("work.count")
    def count(self, text: str) -> None:
        self.state.words += len(text.split())
        self.bus.publish("work.counted", {"words": [self.state.words]}).result()

    @on_event("work.*")
    def note(self, event: Event) -> None:
        pass


class Recorder(Observer):
    """Writes down what it sees, and can be held up."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self.gaps: list[tuple[int, int]] = []
        self.life: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.is_held = threading.Event()

    @property
    def numbers(self) -> list[int]:
        return [observation.number for observation in self.seen]

    def on_message(self, observation: Observation) -> None:
        if not self.go_on.is_set():
            self.is_held.set()
            assert self.go_on.wait(60)
        self.seen.append(observation)

    def on_gap(self, first: int, last: int) -> None:
        self.gaps.append((first, last))

    def on_start(self) -> None:
        self.life.append(f"start {len(self.seen)}")

    def on_stop(self) -> None:
        self.life.append(f"stop {len(self.seen) > 0}")

    def hold(self) -> None:
        self.is_held.clear()
        self.go_on.clear()


@pytest.fixture
def bus() -> Iterator[Runtime]:
    with Runtime(name="here") as runtime:
        runtime.start(Worker, name="ann")
        yield runtime


def echo(bus: Runtime, count: int) -> None:
    """Delegate and see every one completed."""
    handles = [bus.delegate("work.echo", {"data": str(number)}, timeout=30) for number in range(count)]
    assert [handle.result(40).data for handle in handles] == [str(number) for number in range(count)]


def fall_behind(bus: Runtime) -> None:
    """Let so much pass that what an observer is to get next is not in the ring any more."""

    def is_behind() -> bool:
        echo(bus, 10)
        return bool(bus._broker.supervisor.ask(is_out_of_the_ring))

    wait_until(is_behind, 60)


def is_out_of_the_ring(supervisor: Supervisor) -> bool:
    state = supervisor.state
    cursors = [cursor for session in state.session_table.sessions for cursor in session.cursors.values()]
    return any(cursor.position < state.tap.first for cursor in cursors)


@pytest.fixture
def small_ring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A bus that keeps 100 messages, of which two batches may be under way to an observer."""
    monkeypatch.setattr(Supervisor, "__init__", partialmethod(Supervisor.__init__, tap_count=100))
    monkeypatch.setattr("ether_broker.observer_cursor.OBSERVER_WINDOW_BATCHES", 2)
    with Runtime() as bus:
        bus.start(Worker)
        yield bus


def contiguous(numbers: list[int]) -> bool:
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


# -- everything, in order --------------------------------------------------------------------------------------


def test_every_message_is_seen_once_and_in_order(bus: Runtime) -> None:
    recorder = bus.observe(Recorder())
    echo(bus, 200)
    assert bus.settle(recorder)
    echoes = [o for o in recorder.seen if o.capability == "work.echo"]

    assert contiguous(recorder.numbers)
    assert recorder.gaps == []
    assert [o.kind for o in echoes].count(Kind.DELEGATION) == [o.kind for o in echoes].count(Kind.RESPONSE) == 200
    assert [o.delegation.params["data"] for o in echoes if o.kind is Kind.DELEGATION] == [str(n) for n in range(200)]
    assert {o.response.status for o in echoes if o.kind is Kind.RESPONSE} == {Status.COMPLETED}
    times = [o.time for o in recorder.seen]  # once: more may come meanwhile
    assert times == sorted(times)


def test_two_observers_see_the_same_under_the_same_numbers(bus: Runtime) -> None:
    first, second = bus.observe(Recorder()), bus.observe(Recorder())
    echo(bus, 50)
    assert bus.settle(first)
    assert bus.settle(second)
    seen = {o.number: o.envelope for o in first.seen}

    assert all(seen[o.number] == o.envelope for o in second.seen if o.number in seen)
    assert contiguous(second.numbers)
    assert len(second.seen) >= 100


def test_a_latecomer_can_begin_in_the_past(bus: Runtime) -> None:
    early = bus.observe(Recorder(), since=1)
    echo(bus, 20)
    assert bus.settle(early)
    late = bus.observe(Recorder(), since=1)
    assert bus.settle(late)

    assert early.numbers[0] == late.numbers[0] == 1
    assert [o.envelope for o in late.seen[: len(early.seen)]] == [o.envelope for o in early.seen]


def test_a_number_before_the_first_is_refused(bus: Runtime) -> None:
    with pytest.raises(UsageError, match="since=-1"):
        bus.observe(Recorder(), since=-1)


def test_events_tell_who_came_and_went(bus: Runtime) -> None:
    recorder = bus.observe(Recorder())
    bus.start(Worker, name="bob").stop()
    bus.delegate("nobody.has-this").result(5)
    assert bus.settle(recorder)
    events = [(o.event["event"], o.event.get("agent")) for o in recorder.seen if o.kind is Kind.EVENT]

    assert ("agent_up", "bob") in events
    assert ("agent_down", "bob") in events
    assert ("dead_letter", None) in events


def test_an_observer_of_some_capabilities_gets_what_begins_with_them_and_leaves_no_gap(bus: Runtime) -> None:
    class Answers(Recorder):
        capabilities = ("work.answer", "work.fail")

    answers = bus.observe(Answers())
    echo(bus, 30)
    bus.delegate("work.answer", {"status": "PARTIAL", "fields": {}}).result(5)
    bus.delegate("work.fail").result(5)
    assert bus.settle(answers)

    assert [o.capability for o in answers.seen] == ["work.answer"] * 2 + ["work.fail"] * 2
    assert (answers.gaps, answers.missed) == ([], 0)


def test_an_observer_begins_and_ends_in_a_thread_of_its_own(bus: Runtime) -> None:
    recorder = bus.observe(Recorder())
    echo(bus, 1)
    assert bus.settle(recorder)
    bus.unobserve(recorder)
    seen = len(recorder.seen)
    echo(bus, 5)

    assert recorder.life == ["start 0", "stop True"]
    assert len(recorder.seen) == seen


def test_leaving_the_block_lets_observers_finish() -> None:
    with Runtime() as bus:
        bus.start(Worker)
        recorder = bus.observe(Recorder())
        echo(bus, 20)
        assert bus.settle(recorder)

    assert recorder.life == ["start 0", "stop True"]


# -- they can do what they like --------------------------------------------------------------------------------


def test_an_observer_that_raises_is_logged_counted_and_goes_on(bus: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Observer):
        def on_start(self) -> None:
            raise RuntimeError("at the start")

        def on_response(self, observation: Observation) -> None:
            raise SystemExit(f"on {observation.number}")

    broken, recorder = bus.observe(Broken()), bus.observe(Recorder())
    echo(bus, 20)
    assert bus.settle(broken)
    assert bus.settle(recorder)

    assert broken.failures >= 21
    assert contiguous(recorder.numbers)
    assert [r.getMessage() for r in caplog.records if r.name == "ether.observer"][:2] == [
        "Broken raised, 1 times so far",
        "Broken raised, 2 times so far",
    ]


def test_an_observer_that_raises_is_told_where_nobody_reads_the_log(
    bus: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    class Broken(Observer):
        def on_response(self, observation: Observation) -> None:
            if self.failures < 2:
                raise (Odd if self.failures else ValueError)("no such\x1b[2J column" + "x" * 10_000)

    def run() -> None:
        broken = bus.observe(Broken())
        echo(bus, 2)
        assert bus.settle(broken)

    monkeypatch.setattr(logging.getLogger("ether.observer"), "propagate", False)
    with pytest.warns(RuntimeWarning, match=r"The observer Broken raised .*times so far") as told:
        run()
    first, second = (str(one.message) for one in told)
    assert "raised ValueError: no such" in first
    assert "\x1b" not in first
    assert len(first) < 1_000
    assert "Odd" in second


def test_a_stalled_observer_holds_up_nothing_and_catches_up_without_a_gap(bus: Runtime) -> None:
    recorder = bus.observe(Recorder())
    recorder.hold()
    echo(bus, 1)
    assert recorder.is_held.wait(10)
    # When it stands still, everything works: long rows, failures, time limits, agents that come and go
    echo(bus, 500)
    assert bus.delegate("work.fail").result(5).status is Status.FAILED_EXECUTION
    assert bus.delegate("work.wait", timeout=0.2).result(5).status is Status.TIMEOUT
    bus.start(Worker, name="bob").stop()
    assert not bus.settle(recorder, timeout=0.05)
    assert len(recorder.seen) < 100
    recorder.go_on.set()
    assert bus.settle(recorder, timeout=30)

    # Then it has caught up, and every number is there
    assert contiguous(recorder.numbers)
    assert len(recorder.numbers) >= 1_000
    assert (recorder.gaps, recorder.missed) == ([], 0)


def test_a_stalled_observer_has_only_a_few_batches_under_way(bus: Runtime) -> None:
    recorder = bus.observe(Recorder())
    recorder.hold()
    for _ in range(2 * OBSERVER_WINDOW_BATCHES):
        echo(bus, 1)
    try:
        observing: Any = bus.node.observers.observing(recorder)
        assert observing._batches.qsize() <= OBSERVER_WINDOW_BATCHES
    finally:
        recorder.go_on.set()


def test_an_observer_that_fell_out_of_the_ring_is_told_which_numbers_it_missed(small_ring: Runtime) -> None:
    recorder = small_ring.observe(Recorder())
    recorder.hold()
    echo(small_ring, 1)
    assert recorder.is_held.wait(10)
    fall_behind(small_ring)
    recorder.go_on.set()
    assert small_ring.settle(recorder)
    numbers = list(recorder.numbers)

    assert len(recorder.gaps) == 1
    ((first, last),) = recorder.gaps
    assert recorder.missed == last - first + 1 > 0
    missed = set(range(first, last + 1))
    assert not missed.intersection(numbers)
    assert contiguous(sorted(missed.union(numbers)))
    assert numbers == sorted(numbers)


def test_metrics_that_missed_something_say_so(small_ring: Runtime) -> None:
    class Held(Metrics):
        held = threading.Event()
        go_on = threading.Event()

        def on_delegation(self, observation: Observation) -> None:
            super().on_delegation(observation)
            self.held.set()
            assert self.go_on.wait(60)

    metrics = small_ring.observe(Held())
    began = metrics.position
    echo(small_ring, 1)
    assert metrics.held.wait(10)
    fall_behind(small_ring)
    metrics.go_on.set()
    assert small_ring.settle(metrics)
    handled = metrics.position
    snapshot = metrics.snapshot()

    assert snapshot.missed == metrics.missed > 0
    assert snapshot.windows["60"].missed == snapshot.missed
    assert handled - began <= snapshot.seen + snapshot.missed <= small_ring.statistics()["tap_next"] - began


def test_a_slow_observer_does_not_delay_another(bus: Runtime) -> None:
    slow, quick = bus.observe(Recorder()), bus.observe(Recorder())
    slow.hold()
    echo(bus, 300)
    try:
        assert bus.settle(quick)
        assert sum(o.capability == "work.echo" for o in quick.seen) == 600
        assert slow.seen == []
    finally:
        slow.go_on.set()


def test_a_runtime_closes_though_an_observer_hangs() -> None:
    with Runtime() as bus:
        bus.start(Worker)
        recorder = bus.observe(Recorder())
        recorder.hold()
        echo(bus, 10)
        assert recorder.is_held.wait(10)
    recorder.go_on.set()
    wait_until(lambda: recorder.life[-1].startswith("stop"), what="the observer's thread ends")


def test_an_observer_may_use_the_bus(bus: Runtime) -> None:
    class Curious(Observer):
        heard = threading.Event()
        agents: list[str] = []

        def on_event(self, observation: Observation) -> None:
            if observation.event["event"] == "agent_up":
                self.agents.extend(agent["agent"] for agent in bus.agents())
                self.heard.set()

    curious = bus.observe(Curious())
    bus.start(Worker, name="bob")

    assert curious.heard.wait(10)
    assert "bob" in curious.agents


def test_an_observer_of_another_node_sees_large_messages_of_one_turn() -> None:
    with Runtime(bind="tcp://127.0.0.1:*") as bus:
        bus.start(Worker)
        with Runtime.connect(bus.url) as far:
            recorder = far.observe(Recorder())
            data = "x" * 900_000
            handles = [far.delegate("work.echo", {"data": data}, timeout=30) for _ in range(20)]
            assert [handle.result(40).status for handle in handles] == [Status.COMPLETED] * 20
            assert far.settle(recorder, timeout=20)

    assert sum(len(o.envelope) > 900_000 for o in recorder.seen) == 40
    assert contiguous(recorder.numbers)


def test_no_peer_can_cut_off_an_observer_with_a_message_over_the_limit() -> None:
    with Runtime(bind="tcp://127.0.0.1:*") as bus, Runtime.connect(bus.url) as far, RawPeer(bus.url) as peer:
        far.start(Worker)
        recorder = far.observe(Recorder())
        peer.hello("raw")
        peer.register("eve")
        huge = pack_envelope(
            Kind.DELEGATION,
            request_id=new_id(),
            source=b"eve",
            capability=b"work.echo",
            body=bytes(MAX_MESSAGE - 100),
        )
        peer.send(huge)
        assert peer.expect(Kind.ERROR, Kind.RESPONSE)[1]["code"] == "payload_too_large"
        echo(bus, 1)
        assert far.settle(recorder)

    assert contiguous(recorder.numbers)


# -- those that come with it -----------------------------------------------------------------------------------


def test_metrics_of_a_real_bus_are_those_of_its_outcomes(bus: Runtime) -> None:
    metrics = bus.observe(Metrics())
    echo(bus, 10)
    for status, fields in (
        ("COMPLETED", {"confidence": 0.5, "unresolved": ["variance"]}),
        ("PARTIAL", {"confidence": 0.75}),
        ("NEEDS_INPUT", {"questions": ["Which?"]}),
        ("REJECTED_CAPABILITY", {}),
    ):
        bus.delegate("work.answer", {"status": status, "fields": fields}).result(5)
    bus.delegate("work.fail").result(5)
    bus.delegate("work.echo", {"wrong": 1}).result(5)
    bus.delegate("work.wait", timeout=0.1).result(5)
    called_off = bus.delegate("work.wait")
    called_off.cancel()
    called_off.result(5)
    bus.delegate("nobody.has-this").result(5)
    bus.delegate("work.echo", {"data": ""}, to="nobody").result(5)
    assert bus.settle(metrics)
    snapshot = metrics.snapshot()
    window = snapshot.windows["60"]
    ann = window.by_agent["ann"]

    assert window.overall.by_status == {
        "COMPLETED": 11, "PARTIAL": 1, "NEEDS_INPUT": 1, "FAILED_EXECUTION": 1, "TIMEOUT": 1, "CANCELLED": 1,
        "REJECTED_CAPABILITY": 3, "REJECTED_CONTEXT": 1, "REJECTED_OVERLOAD": 0,
    }  # fmt: skip
    assert ann.ended == 18
    assert ann.executions == 16
    assert ann.success_rate == (10 + 1) / 16  # echoes without a confidence, and the PARTIAL
    assert ann.average_confidence == (0.5 + 0.75) / 2
    assert ann.timeout_rate == 1 / 16
    assert ann.unresolved_carryover == 1 / 13
    assert window.overall.delegation_success_rate == 11 / 20
    assert window.overall.clarification_rework_ratio == 1 / 19
    assert 0 < (ann.average_duration_sec or 0) < 5
    assert 0 < (ann.turnaround.p50 or 0) < 5
    assert window.rejections == {"work.answer": 1, "work.echo": 2, "nobody.has-this": 1}
    assert (snapshot.open, snapshot.missed, snapshot.delegations_missed, snapshot.unreadable) == (0, 0, 0, 0)
    assert snapshot.dead_letters == {"no_holder": 1, "unknown_agent": 1}
    assert metrics.failures == 0
    assert json.loads(metrics.to_json())["windows"]["60"]["by_agent"]["ann"]["timeout_rate"] == 1 / 16


def test_metrics_attached_in_the_middle_say_what_began_before(bus: Runtime) -> None:
    handle = bus.delegate("work.wait")
    bus.statistics()
    metrics = bus.observe(Metrics())
    handle.cancel()
    handle.result(5)
    assert bus.settle(metrics)

    assert metrics.snapshot().delegations_missed == 1
    assert metrics.snapshot().windows["all"].overall.by_status["CANCELLED"] == 1


def test_the_log_of_a_real_bus_has_a_line_for_each_message(bus: Runtime) -> None:
    text = io.StringIO()
    log, recorder = bus.observe(Log(text, form="jsonl")), bus.observe(Recorder())
    echo(bus, 10)
    bus.delegate("work.fail").result(5)
    assert bus.settle(recorder)
    numbers = set(recorder.numbers)
    assert bus.settle(log)
    entries = {entry["number"]: entry for entry in map(json.loads, text.getvalue().splitlines())}

    assert numbers <= entries.keys()
    assert log.failures == 0
    failures = [entry for entry in entries.values() if entry["level"] == "ERROR"]
    assert [(entry["status"], entry["error"]) for entry in failures] == [("FAILED_EXECUTION", "exception")]


def test_the_log_goes_to_logging_by_default(bus: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ether.messages"):
        log = bus.observe(Log())
        echo(bus, 1)
        assert bus.settle(log)
        lines = [record.getMessage() for record in caplog.records if record.name == "ether.messages"]

    assert any(" COMPLETED ann -> here work.echo " in line for line in lines)


def test_the_face_of_the_observers_exports_what_it_names_and_nothing_heavy() -> None:
    import ether.observers as face

    assert [name for name in face.__all__ if not hasattr(face, name)] == []
    loaded = run_python("import ether.observers, sys; print(*sys.modules)").split()
    assert {"asyncio", "prometheus_client", "rich", "typer", "yaml"}.intersection(loaded) == set()
    assert "ether.observers" not in run_python("import ether, sys; print(*sys.modules)").split()


def test_an_observer_reads_published_events_and_saved_states_as_values():
    with Runtime() as bus:
        bus.start(Tally)
        recorder = bus.observe(Recorder())
        counted = bus.delegate("work.count", {"text": "two words"})
        assert counted.result().ok
        wait_until(lambda: any(seen.capability == "ether.event.work.counted" for seen in recorder.seen))
        assert bus.settle(recorder)

    events = {seen.capability: seen.published for seen in recorder.seen if seen.published is not None}
    published, delivered = events["ether.publish"], events["ether.event.work.counted"]
    assert published.id == delivered.id
    assert published.time <= delivered.time
    for event in (published, delivered):
        assert (event.topic, event.data, event.publisher) == ("work.counted", {"words": [2]}, "tally")
    saved = [(seen.event["agent"], seen.saved_state) for seen in recorder.seen if seen.saved_state is not None]
    assert saved == [("tally", {"words": 2})]


@pytest.mark.parametrize("packed", [pack([[]] * 5000), b"\xc1"])
def test_a_saved_state_that_is_too_much_to_read_or_none_is_given_as_its_bytes(packed: bytes):
    body = pack({"event": "agent_state", "agent": "a", "state": packed})

    assert Observation(1, 0.0, pack_envelope(Kind.EVENT, body=body)).saved_state == packed


@pytest.mark.parametrize(("params", "what"), [({"topic": "a.b"}, "'data'"), ({"topic": 5, "data": b"\x01"}, "topic")])
def test_a_publication_that_is_none_is_refused_where_an_observer_reads_it(params: dict[str, Any], what: str):
    with Runtime() as bus:
        recorder = bus.observe(Recorder())
        bus.delegate("ether.publish", params).result()
        assert bus.settle(recorder)

    (asked,) = [seen for seen in recorder.seen if seen.kind is Kind.DELEGATION and seen.capability == "ether.publish"]
    with pytest.raises(InvalidEnvelope, match=rf"not the params of ether\.publish: {what}"):
        _ = asked.published
