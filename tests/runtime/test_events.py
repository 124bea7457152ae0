"""Events: published once, given once to each subscriber, within bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether import (
    Agent,
    Cluster,
    EtherError,
    Event,
    InvalidEnvelope,
    InvalidManifest,
    Limits,
    Manifest,
    PayloadTooLarge,
    Runtime,
    Status,
    Subscription,
    Task,
    Unserialisable,
    UsageError,
    capability,
    on_event,
)
from ether.cluster import AgentSpec, NodeSpec
from ether.observers import Probe
from ether.testing import TestRuntime
from ether_actors.supervisor.capabilities import event_service
from ether_broker.envelope.payload import pack
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from tests.support import wait_until

PATIENCE = 20.0


class Clerk(Agent):
    """Notes what it is given, and by which method."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []

    @on_event("orders.*")
    def below(self, event: Event) -> str:
        self.seen.append(("below", event.topic, event.data))
        return "which nobody gets"

    @on_event("orders.late")
    async def late(self, event: Event, task: Task) -> None:
        self.seen.append(("late", event.topic, event.publisher))

    @capability("clerk.seen")
    def get(self) -> list[tuple[str, str, Any]]:
        return self.seen


class Everything(Agent):
    """Is given all events."""

    seen: list[Event]

    @on_event("*", description="All of them.")
    def note(self, event: Event) -> None:
        Everything.seen.append(event)


@pytest.fixture(params=["double", "embedded", "joined"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    Everything.seen = []
    if request.param == "double":
        with TestRuntime(name="desk") as made:
            yield made
    elif request.param == "embedded":
        with Runtime(name="desk") as made:
            yield made
    else:
        url = f"ipc://{tmp_path}/bus.sock"
        with Runtime(bind=url, name="host"), Runtime.connect(url, name="desk") as made:
            yield made


def subscribers(bus: Runtime, topic: str, data: Any = None, **options: Any) -> int:
    return bus.publish(topic, data, **options).result(PATIENCE).unwrap().data["subscribers"]


def notes(bus: Runtime, name: str) -> list[list[Any]]:
    return bus.delegate("clerk.seen", to=name).result(PATIENCE).unwrap().data


def test_each_subscriber_is_given_an_event_once_by_the_method_that_names_most_of_it(bus: Runtime) -> None:
    bus.start_many(Clerk, 3)

    assert subscribers(bus, "orders.new", {"n": [1, 2]}) == 3
    assert subscribers(bus, "orders.late") == 3
    assert subscribers(bus, "orders.very.new", b"\x00") == 3
    assert subscribers(bus, "orders") == subscribers(bus, "other.orders.new") == 0
    for name in ("clerk", "clerk-2", "clerk-3"):
        assert notes(bus, name) == [
            ["below", "orders.new", {"n": [1, 2]}], ["late", "orders.late", "desk"], ["below", "orders.very.new", b"\x00"],
        ]  # fmt: skip


def test_an_event_is_frozen_and_says_where_it_comes_from(bus: Runtime) -> None:
    bus.start(Everything)
    published = bus.publish("a.b", {"list": [{"n": 1}]})
    published.result(PATIENCE)
    if isinstance(bus, TestRuntime):
        bus.advance(0.0)
    wait_until(lambda: Everything.seen)
    (event,) = Everything.seen

    assert (event.topic, event.publisher, event.id) == ("a.b", "desk", published.request_id)
    assert event.time > 0
    assert event.data["list"][0]["n"] == 1
    with pytest.raises(TypeError):
        event.data["list"][0]["n"] = 2
    with pytest.raises(AttributeError):
        event.topic = "c"  # type: ignore[misc]


class Chain(Agent):
    """Publishes by itself, and in the handler of an event."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_start(self) -> None:
        self.bus.publish("chain.begins")

    @on_event("chain.first")
    def first(self, event: Event) -> None:
        self.bus.publish("chain.second", event.data)

    @on_event("chain.second")
    def second(self, event: Event) -> None:
        self.seen.append(event.publisher)

    @capability("chain.seen")
    def get(self) -> list[str]:
        return self.seen


def test_an_agent_publishes_in_its_own_name_in_on_start_in_that_of_its_node(bus: Runtime) -> None:
    bus.start(Everything)
    bus.start(Chain)
    bus.publish("chain.first", 1).result(PATIENCE)

    def seen() -> list[str]:
        return bus.delegate("chain.seen").result(PATIENCE).unwrap().data

    wait_until(seen)
    assert seen() == ["chain"]
    begins = [event for event in Everything.seen if event.topic == "chain.begins"]
    assert [event.publisher for event in begins] == ["desk"]


def test_who_leaves_or_fails_is_no_matter_of_the_others(bus: Runtime) -> None:
    class Fails(Agent):
        @on_event("orders.new")
        def fail(self, event: Event) -> None:
            raise ValueError("no")

    bus.start(Clerk)
    fails = bus.start(Fails)
    probe = bus.observe(Probe())
    assert subscribers(bus, "orders.new") == 2
    assert [note[:2] for note in notes(bus, "clerk")] == [["below", "orders.new"]]
    failed = probe.expect(status=Status.FAILED_EXECUTION, capability="ether.event.orders.new")
    assert (failed.from_agent, failed.to_agent) == ("fails", "ether")
    fails.stop()

    assert subscribers(bus, "orders.new") == 1


def test_only_the_bus_delivers_events(bus: Runtime) -> None:
    bus.start(Clerk)
    subscribers(bus, "orders.new")

    for to in ("clerk", None):
        response = bus.delegate("ether.event.orders.new", {"topic": "orders.new"}, to=to).result(PATIENCE)
        assert response.status is Status.REJECTED_CAPABILITY


@pytest.mark.parametrize(
    ("publish", "told"),
    [
        (lambda bus: bus.publish("x" * 300), "is no topic of an event: up to 180 letters"),
        (lambda bus: bus.publish("orders.*"), "is no topic of an event"),
        (lambda bus: bus.publish("a b"), "'a b' is no topic"),
        (lambda bus: bus.publish(None), "None is no topic"),
        (lambda bus: bus.publish("a", object()), "object"),
        (lambda bus: bus.publish("a", b"x" * 70_000), "61,440"),
        (
            lambda bus: bus.publish("a", [{}] * 4_096),
            "The event's data has more than 4,096 maps and lists: say it in several",
        ),
        (lambda bus: bus.publish("a", timeout=0), "timeout=0: seconds above 0"),
        (lambda bus: bus.publish("a", timeout="1"), "timeout='1': seconds"),
        (lambda bus: bus.publish("a", durability="disk"), "durability"),
    ],
)
def test_what_cannot_be_published_is_refused_at_once(publish: Any, told: str) -> None:
    with TestRuntime() as bus, pytest.raises((InvalidEnvelope, Unserialisable, PayloadTooLarge, UsageError)) as error:
        publish(bus)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"topic": "a b", "data": b"\xc0"}, "is no topic of an event"),
        ({"data": b"\xc0"}, "None is no topic"),
        ({"topic": "a"}, "params.data has to be the packed data"),
        (
            {"topic": "a", "data": pack([[]] * 4_096)},
            "The event's data has more than 4,096 maps and lists: say it in several",
        ),
        ({"topic": "a", "data": b"\xc0", "timeout": float("nan")}, "params.timeout is nan"),
        ({"topic": "a", "data": b"\xc0", "timeout": True}, "params.timeout is True"),
    ],
)
def test_the_bus_refuses_what_a_client_of_another_kind_says(params: dict[str, Any], told: str) -> None:
    with TestRuntime() as bus:
        response = bus.delegate("ether.publish", params).result()

    assert response.status is Status.REJECTED_CONTEXT
    assert told in response.error.message


def test_data_that_is_no_msgpack_fails_at_the_subscriber_and_nowhere_else() -> None:
    with TestRuntime() as bus:
        bus.start(Everything)
        probe = bus.observe(Probe())
        bus.delegate("ether.publish", {"topic": "a", "data": b"\xc1"}).result().unwrap()

        failed = probe.expect(from_agent="everything", where=lambda seen: seen.header.status)
        assert failed.response.status in {Status.REJECTED_CONTEXT, Status.FAILED_EXECUTION}
        assert subscribers(bus, "a") == 1


def declare(make: Any) -> str:
    with pytest.raises(InvalidManifest) as error:
        make().manifest()
    return str(error.value)


def test_a_class_that_cannot_be_given_events_is_refused_with_what_to_write() -> None:
    def bare() -> Any:
        return on_event(lambda self, event: None)  # type: ignore[arg-type]

    def long() -> Any:
        return on_event("x" * 181)

    def twice() -> Any:
        class Twice(Agent):
            @on_event("a")
            def one(self, event: Event) -> None: ...

            @on_event("a")
            def two(self, event: Event) -> None: ...

        return Twice

    def both() -> Any:
        class Both(Agent):
            @on_event("a")
            @capability("a.b")
            def one(self, event: Event) -> None: ...

        return Both

    def many() -> Any:
        class Many(Agent):
            @on_event("a")
            def one(self, topic: str, data: Any) -> None: ...

        return Many

    assert "give a topic in parentheses, as in @on_event('orders.*')" in declare(bare)
    assert "up to 180 letters" in declare(long)
    assert "handles 'a' twice: one and two" in declare(twice)
    assert "handles one topic, or is a capability" in declare(both)
    assert "takes the event and nothing else but a task: def one(self, event)" in declare(many)
    with pytest.raises(EtherError, match="subscribes to a twice"):
        Manifest(agent="x", subscriptions=(Subscription(topic="a"), Subscription(topic="a")))


def test_a_subscriber_that_never_ends_is_cancelled_at_the_deadline_and_the_next_event_comes() -> None:
    class Slow(Agent):
        begun = ended = 0

        @on_event("slow")
        async def wait(self, event: Event) -> None:
            import asyncio

            Slow.begun += 1
            try:
                await asyncio.sleep(1_000.0)
            finally:
                Slow.ended += 1

    with TestRuntime() as bus:
        bus.start(Slow)
        probe = bus.observe(Probe())
        for _ in range(2):
            bus.publish("slow", timeout=10.0).result()
        bus.advance(10.5)
        probe.expect(status=Status.TIMEOUT, capability="ether.event.slow")
        bus.publish("slow", timeout=10.0).result()
        bus.advance(10.5)

        assert (Slow.begun, Slow.ended) == (2, 2)  # the second had waited for its turn until its deadline
        assert bus.statistics()["open"] == 0


def test_a_subscriber_without_room_is_named_and_there_is_a_dead_letter() -> None:
    class Full(Agent):
        @on_event("full")
        async def wait(self, event: Event) -> None:
            import asyncio

            await asyncio.sleep(5.0)

    with TestRuntime(limits=Limits(mailbox_count=1, window=1)) as bus:
        bus.start(Full)
        answers = [bus.publish("full", number).result().data for number in range(3)]

        assert answers[:2] == [{"subscribers": 1, "refused": []}] * 2
        assert answers[2] == {"subscribers": 0, "refused": ["full"]}
        (letter,) = bus.dead_letters()
        assert (letter.reason, letter.can_redrive, letter.capability) == ("overload", False, "ether.publish")
        (row,) = bus.delegate("ether.dead-letters").result().data["items"]
        assert row["detail"] == "1 subscribers have no room: full"
        with pytest.raises(UsageError):
            bus.redrive(letter.number)


def test_a_topic_has_a_thousand_subscribers_at_most_and_an_event_16_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_service, "MOST_SUBSCRIBERS", 5)
    monkeypatch.setattr(event_service, "_MOST_BYTES", 10_000)
    with TestRuntime() as bus:
        bus.start_many(Clerk, 5)
        assert subscribers(bus, "orders.new") == 5
        large = bus.publish("orders.new", b"x" * 2_000).result()
        bus.start(Clerk, name="one-more")
        many = bus.publish("orders.new").result()

    for response, code in ((large, "event_too_large"), (many, "too_many_subscribers")):
        assert (response.status, response.error.code) == (Status.REJECTED_OVERLOAD, code)


def test_an_access_list_decides_who_is_given_whose_events(tmp_path: Path) -> None:
    access = Access(
        delegate=[DelegateRule("shop", "ether.event.orders.*", "clerk"), DelegateRule("reader", "clerk.seen")],
        register=[RegisterRule("*", "*")],
    )  # fmt: skip
    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url, name="host", access=access) as host:
        host.start_many(Clerk, 2)
        with Runtime.connect(url, name="shop") as bus:
            assert subscribers(bus, "orders.new") == 1
        with Runtime.connect(url, name="other") as bus:  # may delegate nothing to anybody
            refused = bus.publish("orders.new").result(PATIENCE)
            assert (refused.status, refused.error and refused.error.code) == (
                Status.REJECTED_CAPABILITY,
                "access_denied",
            )
        with Runtime.connect(url, name="reader") as bus:
            assert subscribers(bus, "orders.new") == 0
            assert [len(notes(bus, name)) for name in ("clerk", "clerk-2")] == [1, 0]


def test_events_are_handled_beside_each_other_as_far_as_the_agent_has_places(bus: Runtime) -> None:
    if isinstance(bus, TestRuntime):
        pytest.skip("its handlers run one after the other")
    both = threading.Barrier(2)

    class Wide(Agent):
        max_concurrency = 2

        @on_event("wide")
        def meet(self, event: Event) -> None:
            both.wait(PATIENCE)

    bus.start(Wide)
    probe = bus.observe(Probe())
    subscribers(bus, "wide")
    subscribers(bus, "wide")
    probe.expect(status=Status.COMPLETED, capability="ether.event.wide")
    probe.expect(status=Status.COMPLETED, capability="ether.event.wide")


def test_what_was_published_while_a_node_or_the_broker_was_away_comes_when_they_are_back(tmp_path: Path) -> None:
    """A subscriber whose node is restarted is given what was published meanwhile, and the journal keeps it for a broker."""
    import os
    import signal

    agent = AgentSpec("tests.runtime.agents:Listener", kwargs={"folder": str(tmp_path)})
    with (
        Cluster([NodeSpec("n1", (agent,))], journal=str(tmp_path / "bus.db")) as cluster,
        Runtime.connect(cluster.url, name="desk") as bus,
    ):

        def pid(name: str) -> int:
            found = next(entry.pid for entry in cluster.statistics() if entry.name == name)
            assert found is not None
            return found

        def heard() -> list[str]:
            return (tmp_path / "heard").read_text().split() if (tmp_path / "heard").exists() else []

        assert subscribers(bus, "news.first", 1) == 1
        wait_until(lambda: heard() == ["1"])
        os.kill(pid("n1"), signal.SIGKILL)
        wait_until(lambda: next(iter(bus.agents()))["condition"] == "down")
        assert subscribers(bus, "news.second", 2) == 1
        wait_until(lambda: heard() == ["1", "2"], PATIENCE)

        held = pid("n1")
        os.kill(held, signal.SIGSTOP)
        assert subscribers(bus, "news.third", 3) == 1
        os.kill(pid("broker"), signal.SIGKILL)
        os.kill(held, signal.SIGCONT)
        wait_until(lambda: heard() == ["1", "2", "3"], PATIENCE)
        assert subscribers(bus, "news.fourth", 4) == 1
        wait_until(lambda: heard() == ["1", "2", "3", "4"], PATIENCE)


_WORDS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4).map(".".join)


@given(
    _WORDS, st.lists(st.one_of(_WORDS, _WORDS.map(lambda words: f"{words}.*"), st.just("*")), unique=True, max_size=6)
)
def test_the_subscription_that_counts_is_the_longest_that_fits(topic: str, declared: list[str]) -> None:
    def fits(pattern: str) -> bool:
        return pattern in {topic, "*"} or (pattern.endswith(".*") and topic.startswith(pattern[:-1]))

    manifest = Manifest(agent="x", subscriptions=tuple(Subscription(topic=pattern) for pattern in declared))
    found = manifest.subscription(topic)
    fitting = [pattern for pattern in declared if fits(pattern)]

    assert (found is None) == (not fitting)
    assert found is None or found.topic == (topic if topic in fitting else max(fitting, key=len))
