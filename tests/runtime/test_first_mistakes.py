"""What a first agent gets wrong: each error says what is wrong, and what would be right."""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ether import (
    Agent,
    AgentSpec,
    Artifact,
    Backoff,
    BrokerUnavailable,
    Budget,
    ChildSpec,
    Cluster,
    ClusterSpec,
    DuplicateAgent,
    InvalidEndpoint,
    InvalidEnvelope,
    InvalidManifest,
    InvalidSpec,
    Limits,
    NodeSpec,
    Observation,
    Observer,
    Retry,
    Runtime,
    Scale,
    SupervisorSpec,
    Task,
    Timing,
    UnknownAgent,
    UsageError,
    as_completed,
    capability,
    every,
    on_event,
)
from ether.cluster import MetricsSpec, ObserverSpec, load
from ether.testing import TestRuntime
from ether_broker.discovery.own_clusters import ClusterAddress
from ether_broker.transport.endpoint import default_endpoint


class Writer(Agent):
    @capability("text.write")
    def write(self, text: str = "") -> str:
        return text


def complete_map(bus: Runtime) -> None:
    with bus.map("text.write", []) as mapped:  # closed: one that nobody iterates warns when it is collected
        as_completed(mapped)


class Wide(Writer):
    max_concurrency = "8"


class SelfStarter(Agent):
    def on_start(self) -> None:
        self.started = True


class Forgetful(Agent):
    def on_start(self) -> None:
        self.started = True

    def write(self, text: str = "") -> str:
        return text


class Hasty(Writer):
    def __init__(self, price: int = 1) -> None:
        self.price = price


class Metre(Observer):
    capabilities = "text."  # type: ignore[assignment]


class Mixin:
    def on_click(self) -> None: ...


class Seeing(Mixin, Observer):
    """Has hooks as they may be, and what is none of the bus's from elsewhere."""

    on_colour = "red"
    on_gap = print

    def on_response(self, observation: Observation, depth: int = 0) -> None: ...


class Listener(Agent):
    def on_receive(self, message: Any) -> Any:
        return message


async def later(*_args: object) -> None: ...


async def texts() -> AsyncIterator[dict[str, str]]:
    yield {"text": "a"}


@pytest.fixture
def bus() -> Iterator[TestRuntime]:
    with TestRuntime() as bus:
        yield bus


@pytest.mark.parametrize("hook", ["on_start", "on_stop", "on_failure"])
def test_a_hook_that_nothing_would_await_is_refused(bus: TestRuntime, hook: str) -> None:
    async def later(self: Agent, *_args: object) -> None: ...

    eager = type("Eager", (Writer,), {hook: later})

    with pytest.raises(InvalidManifest, match=rf"Eager.{hook} is an `async def`, which nothing would await"):
        bus.start(eager)


def test_an_init_does_not_have_to_call_that_of_agent(bus: TestRuntime) -> None:
    hasty = bus.start(Hasty, price=3)

    assert hasty.name == "hasty"
    assert bus.agents()[0]["agent"] == "hasty"


@pytest.mark.parametrize("url", [None, "", "  ", 7, b"ipc://default"])
def test_a_bus_to_join_has_an_address(url: Any) -> None:
    with pytest.raises(InvalidEndpoint, match=r"connect takes the address of a bus, such as .* is Runtime\(\)"):
        Runtime.connect(url)


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda bus: bus.start("Writer"), UsageError, "is 'Writer'; text is for Cluster and `ether up`."),
        (lambda bus: bus.start(Writer()), UsageError, "as in bus.start(Writer); this is a Writer."),
        (
            lambda bus: bus.start(lambda: Writer),
            UsageError,
            "The factory gave the class Writer, not an agent: let it give Writer()",
        ),
        (
            lambda bus: bus.observe(Metre),
            UsageError,
            "of an ether.Observer class, as in bus.observe(Metre()); this is <class ",
        ),
        (
            lambda bus: bus.observe(print),
            UsageError,
            "as in bus.observe(Metrics()); this is <built-in function print>.",
        ),
        (
            lambda bus: bus.observe(Metre()),
            UsageError,
            "Metre.capabilities is the text 'text.' and has to be a tuple of such",
        ),
        (
            lambda bus: bus.observe(type("Sorted", (Seeing,), {"topics": ("orders",)})()),
            UsageError,
            "Sorted.topics: an observer names capabilities, as in capabilities = ('orders.',)",
        ),
        (
            lambda bus: bus.observe(type("Typo", (Seeing,), {"on_respone": lambda self, observation: None})()),
            UsageError,
            "Typo.on_respone is none of the methods that the bus calls. Did you mean 'on_response'?",
        ),
        (
            lambda bus: bus.observe(type("Bare", (Seeing,), {"on_response": lambda self: None})()),
            UsageError,
            "Bare.on_response does not take what it is given: def on_response(self, observation).",
        ),
        (
            lambda bus: bus.observe(type("Gap", (Seeing,), {"on_gap": lambda self, observation: None})()),
            UsageError,
            "Gap.on_gap does not take what it is given: def on_gap(self, first, last).",
        ),
        (
            lambda bus: bus.observe(type("Async", (Seeing,), {"on_event": later})()),
            UsageError,
            "Async.on_event is an `async def`, which nothing would await: make it a plain `def`.",
        ),
        (lambda bus: bus.observe(Observer(), since="1"), UsageError, "observe(since='1'): since is a whole number"),
        (lambda bus: bus.start_many(Writer, -1), UsageError, "how many is a whole number, 0 or more"),
        (lambda bus: bus.start(Wide), InvalidManifest, "Wide.max_concurrency: Input should be a valid integer."),
        (
            lambda bus: bus.start(Writer, name=bus.name),
            DuplicateAgent,
            "'test' is the name of this node, and nodes and agents share their names: rename one of the two.",
        ),
        (
            lambda bus: bus.start(Writer, scale=Scale(max=3)),
            UsageError,
            "start makes one agent: bus.start_many(…, scale=…)",
        ),
        (lambda bus: bus.ask("text.write", order=1), InvalidEnvelope, "ask() has no keyword 'order'; "),
        (lambda bus: bus.start(Writer).ask("text.write", order=1), InvalidEnvelope, "ask() has no keyword 'order'; "),
        (
            lambda bus: (bus.start_many(Writer, 2), bus.stop_many("writer")),
            UnknownAgent,
            "No agent 'writer' scales on this node. bus.stop('writer') ends one that was started without a `scale`.",
        ),
        (lambda bus: bus.map("text.write", [], windows=5), InvalidEnvelope, "map() has no keyword 'windows'; "),
        (lambda bus: bus.map("text.write", [], windows=5), InvalidEnvelope, "Did you mean 'window'?"),
        (
            lambda bus: bus.map("text.write", texts()),
            UsageError,
            "or a plain (not async) generator; this is <async_gen",
        ),
        (lambda bus: bus.broadcast("text.write", timeot=1), InvalidEnvelope, "broadcast() has no keyword 'timeot'"),
        (
            complete_map,
            UsageError,
            "takes handles, and a map gives outcomes already: iterate over it.",
        ),
        (lambda bus: as_completed(["a"]), UsageError, "as `delegate` gives them; one of these is 'a'."),
        (
            lambda bus: bus.artifact(None),
            UsageError,
            "artifact(None): the path of a file, as text or as a pathlib.Path.",
        ),
        (lambda bus: bus.artifact(b"notes.txt"), UsageError, "artifact(b'notes.txt'): the path of a file, as text"),
        (lambda bus: bus.start(Writer, name="a b"), InvalidEnvelope, "'a b' is no name of an agent: up to 200 letters"),
        (
            lambda bus: bus.start(Writer).delegate("text.write", to="b"),
            UsageError,
            "leave `to` out, or use bus.delegate(",
        ),
        (lambda bus: bus.delegate("text write"), InvalidEnvelope, "capability: 'text write' does not fit: up to 200"),
        (lambda bus: bus.delegate("text.write", to="a b"), InvalidEnvelope, "to_agent: 'a b' does not fit: up to 200"),
        (
            lambda bus: bus.suggest({"capability": "x"}),
            UsageError,
            "an ether.views.SuggestionRecord, and this is a dict",
        ),
        (lambda bus: Budget(max_cost=-1), InvalidEnvelope, "Budget is not valid: max_cost: "),
        (lambda bus: Retry(attempt=3), InvalidSpec, "Retry has no field 'attempt'. Did you mean 'attempts'?"),
        (lambda bus: Backoff(max=3), InvalidSpec, "Backoff has no field 'max'. Did you mean 'maximum'?"),
        (lambda bus: Limits(windw=4), InvalidSpec, "Limits has no field 'windw'. Did you mean 'window'?"),
        (lambda bus: Timing(silense=4), InvalidSpec, "Timing has no field 'silense'. Did you mean 'silence'?"),
        (lambda bus: Scale(minimum=1), InvalidSpec, "Scale has no field 'minimum'. Did you mean 'min'?"),
        (lambda bus: AgentSpec("a:B", scal=1), InvalidSpec, "AgentSpec has no field 'scal'. Did you mean 'scale'?"),
        (lambda bus: NodeSpec("n1", agent=[]), InvalidSpec, "NodeSpec has no field 'agent'. Did you mean 'agents'?"),
        (lambda bus: ClusterSpec(node=[]), InvalidSpec, "ClusterSpec has no field 'node'. Did you mean 'nodes'?"),
        (lambda bus: ObserverSpec("a:B", kwarg={}), InvalidSpec, "ObserverSpec has no field 'kwarg'. Did you mean"),
        (lambda bus: MetricsSpec(prot=1), InvalidSpec, "MetricsSpec has no field 'prot'. Did you mean 'port'?"),
        (lambda bus: ChildSpec(restrat="x"), InvalidSpec, "ChildSpec has no field 'restrat'. Did you mean 'restart'?"),
        (lambda bus: SupervisorSpec(children=()), TypeError, "missing 1 required positional argument"),
        (lambda bus: SupervisorSpec(peroid=5), InvalidSpec, "SupervisorSpec has no field 'peroid'. Did you mean"),
        (lambda bus: capability(lambda self: 1), InvalidManifest, 'in parentheses: @capability("text.count")'),
        (lambda bus: capability("bad name"), InvalidManifest, "name: 'bad name' does not fit: up to 200 letters"),
        (lambda bus: Cluster(nodes="2"), InvalidSpec, "nodes is '2': give a whole number"),
        (lambda bus: Cluster(agents="library:Reader"), InvalidSpec, "agents is 'library:Reader': give a list"),
        (
            lambda bus: bus.delegate("text.write", durability="journal"),
            UsageError,
            "journal=FILE of Runtime or Cluster",
        ),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(
    bus: TestRuntime, call: Callable[[Runtime], Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind) as caught:
        call(bus)

    assert said in str(caught.value)


def test_a_bus_is_found_by_its_name_from_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        with Runtime(bind=default_endpoint("desk")) as bus, Runtime.connect("ipc://desk") as far:
            bus.start(Writer)
            assert far.delegate("text.write", {"text": "a"}).result().data == "a"


def test_the_buses_that_are_there_are_named_where_one_of_another_name_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        shop = ClusterAddress(default_endpoint("shop"), "tcp://127.0.0.1:7493")
        with Runtime(bind=default_endpoint("desk")), shop, pytest.raises(BrokerUnavailable) as caught:
            Runtime.connect("ipc://desc", timeout=0.1).open()

        said = f"No broker answers at {default_endpoint('desc')} (waited 0.1 s): start one with `ether up`. "
        assert str(caught.value) == f"{said}These are there: {default_endpoint('desk')}, tcp://127.0.0.1:7493."

        with pytest.raises(BrokerUnavailable, match=r"start one with `ether up`\.$"):
            Runtime.connect("ipc://desk", timeout=0.1).open()
    with pytest.raises(
        InvalidEndpoint, match="'desk' is no address of a broker: write ipc://desk for your bus of that"
    ):
        Runtime.connect("desk").open()


def test_parameters_that_are_no_dict_are_told_in_words(bus: TestRuntime) -> None:
    bus.start(Writer)

    response = bus.delegate("text.write", ["hello"]).result()

    assert response.explain().endswith("params: a dict of the parameters by their names is wanted, and this is a list")


def test_the_last_word_of_a_capability_is_near_too(bus: TestRuntime) -> None:
    bus.start(Writer)

    assert bus.delegate("wriet", to="writer").result().explain().endswith("Did you mean 'write'?")


def test_an_agent_that_nobody_can_ask_is_warned_of(bus: TestRuntime, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ether"):
        bus.start(Listener)
        bus.start(Writer)
        bus.start(SelfStarter)
        assert not caplog.records
        bus.start(Forgetful)

    (record,) = caplog.records
    assert record.getMessage() == (
        "Forgetful declares no capability, so nobody can ask it: decorate a method with "
        '@capability("…") or @on_event("…").'
    )


def test_hooks_of_an_observer_that_fit_are_taken(bus: TestRuntime) -> None:
    seeing = bus.observe(Seeing())

    assert bus.settle(seeing)


def test_what_is_looked_for_elsewhere_is_told_where_it_is(bus: TestRuntime) -> None:
    said: list[str] = []

    class Seeker(Agent):
        @property
        def broken(self) -> None:
            raise AttributeError("what a property misses itself")

        @capability("seeker.seek")
        def seek(self, task: Task) -> None:
            for owner, name in (
                (bus, "after"),
                (bus, "subscribe"),
                (self.bus, "ask"),
                (task, "publish"),
                (task, "broadcast"),
                (task, "nothing"),
                (asked := task.delegate("seeker.echo"), "data"),
                (asked, "progress"),
                (asked, "wait"),
                (self, "state"),
                (self, "delegate"),
                (self, "nothing"),
                (self, "broken"),
            ):
                with pytest.raises(AttributeError) as caught:
                    getattr(owner, name)
                said.append(str(caught.value))

    bus.start(Seeker)

    assert bus.delegate("seeker.seek").result().ok
    assert said == [
        "'TestRuntime' object has no attribute 'after': self.bus.after(seconds, …) of an agent",
        (
            "'TestRuntime' object has no attribute 'subscribe': an agent with an `@on_event` method gets events: "
            "bus.start(Listener)"
        ),
        "'AgentBus' object has no attribute 'ask': self.bus.delegate(…).result() waits for the outcome",
        "'Task' object has no attribute 'publish': self.bus.publish(topic, …)",
        "'Task' object has no attribute 'broadcast': task.delegate(…, to=NAME) for each",
        "'Task' object has no attribute 'nothing'",
        "'InlineHandle' object has no attribute 'data': the outcome has it: `await` the handle, or handle.result()",
        (
            "'InlineHandle' object has no attribute 'progress': iterate over handle.stream(), as in "
            "`for update in handle.stream(): print(update.progress)`"
        ),
        (
            "'InlineHandle' object has no attribute 'wait': handle.result(timeout) waits, and `await` the handle does in an "
            "event loop"
        ),
        (
            "'Seeker' object has no attribute 'state': the class declares it, as in `state: Counts`, by a pydantic model "
            "with defaults"
        ),
        "'Seeker' object has no attribute 'delegate': task.delegate(…) in a handler; else self.bus.delegate(…)",
        "'Seeker' object has no attribute 'nothing'",
        "what a property misses itself",
    ]


def test_an_agent_may_have_a_base_that_finds_attributes(bus: TestRuntime) -> None:
    class Finds:
        def __getattr__(self, name: str) -> str:
            return f"found {name}"

    class Behind(Agent, Finds):
        @capability("behind.ask")
        def ask(self) -> str:
            return f"{self.anything}, {self.delegate}"

    bus.start(Behind)
    assert bus.delegate("behind.ask").result().data == "found anything, found delegate"


def test_what_is_no_text_or_no_number_is_told(bus: TestRuntime, tmp_path: Path) -> None:
    class Writer(Agent):
        @capability("note.write")
        def write(self, task: Task) -> None:
            with task.lease(tmp_path / "note") as lease:
                lease.write({"no": "text"})  # type: ignore[arg-type]

    bus.start(Writer)

    summary = bus.delegate("note.write").result().summary
    assert summary == ("UsageError: lease.write takes text or bytes, such as json.dumps(…), and this is a dict.")
    with pytest.raises(InvalidEnvelope, match=r"a capability's name is text, as in 'page\.read', and this is <class"):
        bus.delegate(Writer)  # type: ignore[arg-type]
    for path in ("", "a\0b", 7):
        with pytest.raises(UsageError, match=r"artifact\(.*\): the path of a file"):
            bus.artifact(path)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"access='open': an Access"):
        Runtime(access="open")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"advance\('5'\): seconds, as in bus\.advance\(2\.5\)\."):
        bus.advance("5")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [lambda: Runtime(name=""), lambda: Runtime.connect("ipc://nobody", name="")])
def test_an_empty_name_is_no_name(make: Callable[[], Runtime]) -> None:
    with pytest.raises(UsageError, match=r"name is empty: say what it is, or None\."):
        make()


@pytest.mark.parametrize("one", ["0190c8a0-0000-7000-8000-000000000000", b"x" * 16, UUID(int=7), None, 5])
def test_one_id_is_no_list_of_ids(bus: Runtime, one: Any) -> None:
    with pytest.raises(UsageError, match=r"collect takes a list of request ids, as in bus\.collect\(\[request_id\]\)"):
        bus.collect(one)


def test_a_capability_of_the_bus_is_no_agents() -> None:
    with pytest.raises(
        InvalidManifest, match=r"@capability\('ether\.own'\): what begins with `ether\.` is the bus's own"
    ):

        class Own(Agent):
            @capability("ether.own")
            def own(self) -> None: ...


@pytest.mark.parametrize(("given", "said"), [
    ({"name": 5}, r"name=5: text, or None\."),
    ({"bind": 5}, r"bind=5: an address, such as 'tcp://127\.0\.0\.1:\*', or None\."),
    ({"bind": ""}, r"bind is empty: say what it is, or None\."),
    ({"journal": True}, r"journal=True: the path of a file, or None\."),
    ({"journal": ""}, r"journal is empty: say what it is, or None\."),
    ({"keys": 5}, r"keys=5: the folder of keys, or a Keyring, or None\."),
    ({"limits": "few"}, r"limits='few': a Limits, as in Limits\(mailbox_count=…\), or None\."),
    ({"timing": 3.0}, r"timing=3\.0: a Timing, as in Timing\(heartbeat=…\), or None\."),
])  # fmt: skip
def test_a_keyword_of_a_runtime_that_is_something_else_is_refused_when_it_is_made(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=f"^{said}$"):
        Runtime(**given)


def test_an_empty_name_of_a_cluster_of_keys_of_an_agent_or_of_what_is_watched_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="The name of the cluster is empty"):
        Cluster(name="", agents=[f"{__name__}:Writer"])
    with pytest.raises(UsageError, match="keys is empty"):
        Runtime(keys="")
    with Runtime() as bus:
        with pytest.raises(UsageError, match="name is empty"):
            bus.start(Writer, name="")
        for target in ("", "node:", None):
            with pytest.raises(
                UsageError, match=r"monitor: '' is no name of an agent|monitor takes the name of an agent"
            ):
                bus.monitor(target)  # type: ignore[arg-type]


class Contract:
    """Spec 1's contract, with a method that is declared for an Agent."""

    capabilities = ("text.read",)

    def can_handle(self, action: str) -> bool:
        return action in self.capabilities

    def execute(self, asked: Any) -> Any:
        raise NotImplementedError

    @every(1.0)
    @capability("text.sweep")
    def sweep(self) -> None: ...


def test_what_is_declared_for_an_agent_and_stands_elsewhere_is_refused() -> None:
    with (
        Runtime() as bus,
        pytest.raises(InvalidManifest, match=r"Contract\.sweep is declared as a method of an ether\.Agent"),
    ):
        bus.start(Contract)


def test_a_method_is_a_capability_or_handles_events_in_either_order() -> None:
    def first(self: Any, event: Any) -> None: ...
    def second(self: Any, event: Any) -> None: ...

    for one, other, method in (
        (on_event("orders.new"), capability("orders.new"), first), (capability("orders.new"), on_event("orders.new"), second),
    ):  # fmt: skip
        with pytest.raises(InvalidManifest, match="handles one topic, or is a capability: write a method for each"):
            one(other(method))


def test_a_ref_or_a_class_for_an_agents_name_says_what_to_write() -> None:
    with TestRuntime() as bus:
        ref = bus.start(Writer)
        for call in (bus.stop, bus.stop_many, bus.monitor, bus.forget_state, bus.manifests):
            for given in (ref, Writer):
                with pytest.raises(
                    UsageError, match=rf"takes the name of an agent, as in bus\.{call.__name__}\('writer'\)"
                ):
                    call(given)
        with pytest.raises(InvalidEnvelope, match=r"name is text, as in to=ref\.name, and this is <AgentRef writer>"):
            bus.delegate("text.write", to=ref)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [Runtime, lambda **given: Runtime.connect("ipc://nobody", **given)])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threads": "4"}, "threads is '4'; give a whole number of threads, 1 or more"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": True}, "threads is True"),
        ({"threads": 1.5}, "threads is 1.5"),
        ({"drain": -1}, "drain is -1; give seconds, 0 to"),
        ({"drain": "5"}, "drain is '5'"),
        ({"drain": None}, "drain is None"),
        ({"drain": float("inf")}, "drain is inf"),
    ],
)
def test_threads_and_drain_that_cannot_be_are_refused_at_once(
    make: Callable[..., Runtime], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidSpec, match=f"Runtime: {said}"):
        make(**given)


def test_the_double_refuses_a_drain_that_cannot_be() -> None:
    with pytest.raises(InvalidSpec, match=r"TestRuntime: drain is -1; give seconds"):
        TestRuntime(drain=-1)


def test_seconds_to_join_or_to_close_that_cannot_be_are_refused_at_once() -> None:
    with pytest.raises(InvalidSpec, match=r"connect: timeout is '3'; give seconds"):
        Runtime.connect("ipc://nobody", timeout="3")  # type: ignore[arg-type]
    with Runtime() as bus:
        with pytest.raises(InvalidSpec, match=r"close: drain is -1; give seconds"):
            bus.close(drain=-1)
        assert bus.agents() == []


def test_an_answer_that_forgot_to_await_says_so() -> None:
    class Forgetful(Agent):
        @capability("plain")
        def plain(self, task: Task) -> Any:
            return {"inner": task.delegate("text.write")}

        @capability("declared")
        async def declared(self, task: Task) -> int:
            return task.delegate("text.write")  # type: ignore[return-value]

    with TestRuntime() as bus:
        bus.start(Forgetful)
        for name, where in (("plain", r"the result\['inner'\] is a \w*Handle"), ("declared", r"returned a \w*Handle")):
            error = bus.ask(name).error
            assert error is not None
            assert re.search(where + r".*: await it, or \.result\(\)", error.message), error.message


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("bus.yaml", r"a cluster file is read by ether\.cluster\.load, as in Cluster\(load\('bus\.yaml'\)\)"),
        (Path("bus.yaml"), r"nodes is 'bus\.yaml': .* Cluster\(load\('bus\.yaml'\)\)"),
        ("crawlers:Index", r"an agent, as in Cluster\(agents=\['crawlers:Index'\]\)"),
        (["crawlers:Index"], r"A node is 'crawlers:Index': give a NodeSpec"),
        ({"name": "n1"}, "A node is 'name': give a NodeSpec"),
    ],
)
def test_what_is_no_number_of_nodes_says_how_a_file_is_read(nodes: Any, said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        Cluster(nodes)


def test_a_cluster_file_is_read_in_python(tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    file.write_text("nodes: [{name: n1}]\ncluster: {durability: memory}")

    assert [node.name for node in Cluster(load(file)).spec.nodes] == ["n1"]


def test_an_asynchronous_with_of_a_cluster_says_what_to_write() -> None:
    async def enter() -> None:
        async with Cluster():  # type: ignore[attr-defined]
            pass

    with pytest.raises(UsageError, match=r"plain `with`\..* await asyncio\.to_thread\(cluster\.open\)"):
        asyncio.run(enter())


@pytest.mark.parametrize("given", ["notes {1}.txt", Path("notes {1}.txt")])
def test_a_path_where_an_artifact_is_wanted_says_what_makes_one(bus: TestRuntime, given: object) -> None:
    class Critic(Agent):
        @capability("film.length")
        def length(self, film: Artifact | None) -> int:
            return 0

        @capability("film.shoot")
        def shoot(self) -> Artifact:
            return given  # type: ignore[return-value]

        @capability("film.shoot_all")
        def shoot_all(self, task: Task) -> Any:
            return task.respond(artifacts=[given])

    bus.start(Critic)

    makes = "bus.artifact('notes {1}.txt') makes one, and task.artifact('notes {1}.txt') in a handler"
    for name, params, where in (
        ("length", {"film": given}, "film"),
        ("shoot", {}, "the result"),
        ("shoot_all", {}, "artifacts.0"),
    ):
        said = bus.delegate(f"film.{name}", params).result().explain()
        assert said.endswith(f": {where}: an Artifact is wanted: {makes}")


def test_a_misspelt_setting_of_an_agent_is_warned_of_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("ether"), "propagate", False)
    with pytest.warns(RuntimeWarning) as told:

        class Misspelt(Agent):
            max_concurency = 8
            dispach = "thread"
            verison = "1.2.0"
            hang_limt: float = 5.0
            inbox_limits_ = 7
            exclusion = ("text.",)

    assert {one.filename for one in told} == {__file__}
    assert [str(one.message).removeprefix(Misspelt.__qualname__) for one in told] == [
        f".{name} is nothing that the bus reads. Did you mean {meant!r}?"
        for name, meant in (
            ("max_concurency", "max_concurrency"),
            ("dispach", "dispatch"),
            ("verison", "version"),
            ("hang_limt", "hang_limit"),
            ("exclusion", "exclusions"),
        )
    ]


def test_attributes_of_an_agents_own_are_no_misspelt_settings(caplog: pytest.LogCaptureFixture) -> None:
    class Own(Agent):
        name = names = states = retries = retry = timeout = versions = version2 = interfaces = tool = note = rule = (
            nodes
        ) = 1
        pools = roles = min_depth = max_length = max_concurrent = time_limit = inclusions = patch = 2
        dispatch = "thread"
        despatch = "of goods"
        hang_limt = print
        _dispach = "thread"

        def dispatcher(self) -> None: ...

        def dispach(self) -> None: ...

        @property
        def exclusion(self) -> None: ...

    class Heir(Own):
        version = "2.0.0"

    assert Heir.dispatch == "thread"
    assert not caplog.records


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("dispatch", "threads", "'threads': give 'pool', 'thread' or 'loop'"),
        ("dispatch", ["loop"], r"\['loop'\]: give"),
        ("hang_limit", "5", "'5': give seconds, 0 or more, or None"),
        ("hang_limit", -1, "-1: give"),
        ("inbox_limit", None, "None: give a number of messages, 0 or more"),
    ],
)
def test_a_setting_of_an_agent_that_cannot_be_is_refused(
    bus: TestRuntime, setting: str, value: object, said: str
) -> None:
    with pytest.raises(InvalidManifest, match=rf"Odd\.{setting} is {said}"):
        bus.start(type("Odd", (Writer,), {setting: value}))

    assert bus.agents() == []


class Answering(Agent):
    result = 0

    @capability("cell.answer")
    def answer(self) -> int:
        return self.result


def test_a_class_that_was_defined_again_is_told_as_a_warning_while_one_of_before_runs(
    bus: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("ether"), "propagate", False)
    names = globals()

    def define(answer: int) -> None:
        """Run the cell of a notebook."""
        names["Cell"] = type("Cell", (Answering,), {"__module__": __name__, "result": answer})

    try:
        define(1)
        bus.start_many(names["Cell"], 2)
        bus.start(names["Cell"])
        define(2)
        with pytest.warns(RuntimeWarning) as told:
            again = bus.start(names["Cell"])
        expected = (
            f"{again.name} is of a class Cell that was defined again, and cell, of the one before, goes on beside it: "
        )
        assert [str(one.message) for one in told] == [f"{expected}stop that first, as by bus.stop('cell', timeout=0)."]
        bus.start(names["Cell"])
        for name in ("cell", "cell-2", "cell-3"):
            bus.stop(name)
        define(3)
        bus.stop("cell-4")
        bus.stop("cell-5")
        bus.start(names["Cell"])
        define(4)
        with pytest.warns(RuntimeWarning, match="cell, of the one before") as told:
            bus.start_many(names["Cell"], scale=Scale(max=2), name="other")
        assert len(told) == 1
        local = [type("Cell", (Answering,), {"__module__": __name__, "result": n}) for n in range(2)]
        for cls in local:  # not what its module has by that name
            bus.start(cls)
    finally:
        names.pop("Cell", None)
