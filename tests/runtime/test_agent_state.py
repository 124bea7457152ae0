"""The state of an agent: saved with the outcome of what changed it, and there again wherever the agent starts."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final

import pytest
from pydantic import BaseModel, Field, PrivateAttr, field_validator

from ether import (
    Agent,
    AgentCrash,
    ChildSpec,
    Cluster,
    Delegation,
    DuplicateAgent,
    ErrorInfo,
    InvalidManifest,
    InvalidState,
    Rejected,
    Response,
    Runtime,
    Status,
    Strategy,
    SupervisorSpec,
    Task,
    capability,
)
from ether.cluster import AgentSpec, NodeSpec, agent_starts
from ether.cluster.cluster_spec import NamedAgents
from ether.observers import Probe
from ether.testing import TestRuntime
from ether_actors.execution import cell as cell_module
from ether_actors.supervisor.state import agent_states
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidEnvelope
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.wire.codec import plain_params
from ether_broker.wire.frame import Kind, pack_envelope
from ether_broker.wire.saved_state import BroughtState, join_state, split_state
from tests.support import wait_until

PATIENCE = 20.0


class Totals(BaseModel):
    total: int = 0
    names: list[str] = []
    by: dict[int, str] = {}

    @field_validator("total")
    @classmethod
    def small(cls, value: int) -> int:
        if value > 1_000_000:
            raise ValueError("that is too much")
        return value


class Tally(Agent):
    """Adds up."""

    state: Totals

    @capability("tally.add")
    def add(self, n: int, task: Task, name: str = "") -> int:
        self.state.total += n
        if name:
            self.state.names.append(name)
            self.state.by[n] = name
        if n < 0:
            raise ValueError("below 0")
        if n == 99:
            raise AgentCrash("on demand")
        return self.state.total

    @capability("tally.slowly")
    async def slowly(self, n: int) -> int:
        import asyncio

        self.state.total += n
        await asyncio.sleep(30.0)
        return self.state.total

    @capability("tally.spoil")
    def spoil(self, how: str) -> None:
        match how:
            case "replace":
                self.state = {"total": 1}  # type: ignore[assignment]
            case "object":
                self.state.names = [object()]  # type: ignore[list-item]
            case "large":
                self.state.names = ["x" * 70_000]
            case "value":
                self.state.total = 2_000_000
            case "type":
                self.state.total = "many"  # type: ignore[assignment]

    @capability("tally.get")
    def get(self) -> dict[str, Any]:
        return self.state.model_dump()


@pytest.fixture(params=["double", "embedded", "joined"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
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


def add(bus: Runtime, n: int, **params: Any) -> Any:
    return bus.delegate("tally.add", {"n": n, **params}).result(PATIENCE)


def get(bus: Runtime) -> dict[str, Any]:
    return bus.delegate("tally.get").result(PATIENCE).unwrap().data


def test_it_is_there_after_a_crash_and_after_another_start(bus: Runtime) -> None:
    bus.start(Tally)
    assert [add(bus, n, name=name).data for n, name in ((1, "a"), (2, "b"))] == [1, 3]
    assert add(bus, 99).status is Status.FAILED_EXECUTION
    assert add(bus, 1).data == 4
    bus.stop("tally")
    bus.start(Tally)

    assert get(bus) == {"total": 4, "names": ["a", "b"], "by": {1: "a", 2: "b"}}


def test_what_fails_is_undone(bus: Runtime) -> None:
    bus.start(Tally)
    add(bus, 5)
    assert add(bus, -3).status is Status.FAILED_EXECUTION

    assert get(bus)["total"] == 5


def test_each_agent_has_its_own_by_its_name(bus: Runtime) -> None:
    bus.start_many(Tally, 2)
    for name, n in (("tally", 1), ("tally-2", 10)):
        bus.delegate("tally.add", {"n": n}, to=name).result(PATIENCE).unwrap()
    bus.stop("tally-2")
    bus.start(Tally, name="tally-2")

    assert bus.delegate("tally.get", to="tally-2").result(PATIENCE).data["total"] == 10


class Stateless(Agent):
    @capability("stateless.do")
    def do(self) -> None:
        pass


class OwnState(Stateless):
    def __init__(self) -> None:
        self.state = {"total": 0}


def test_a_model_that_is_set_and_not_declared_is_told_not_to_be_saved(
    bus: Runtime, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    class Forgetful(Stateless):
        def __init__(self) -> None:
            self.state = Totals()

    bus.start(OwnState)
    bus.start(Tally)
    assert not caplog.records
    bus.start_many(Forgetful, 2)

    (record,) = caplog.records
    assert record.getMessage() == (
        f"{Forgetful.__qualname__} sets self.state to a Totals, which its class does not declare, so it is not saved: write "
        f"`state: Totals` in the body of {Forgetful.__qualname__}, or give what is not to be saved another name."
    )


def test_a_second_agent_of_the_class_is_told_to_have_a_state_of_its_own(
    bus: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        caplog.clear()
        return said

    text = "{} has a state of its own, beside that of {}: give it a `name` if that is meant."
    bus.start(Tally)
    assert told() == []
    bus.start(Tally)
    assert told() == [text.format("tally-2", "tally")]
    bus.start_many(Tally, 2)
    assert told() == [text.format("tally-3", "tally"), text.format("tally-4", "tally")]
    bus.start_many(functools.partial(Tally), 2, name="other")
    assert told() == [text.format("other-2", "other")]
    bus.start(Tally, name="tally-5")
    bus.start_many(Stateless, 2)
    assert told() == []
    agent_starts.start_named(bus, NamedAgents(AgentSpec("tests.runtime.test_agent_state:Tally"), ("tally-6",)))
    assert told() == [text.format("tally-6", "tally")]
    agent_starts.start_named(
        bus, NamedAgents(AgentSpec("tests.runtime.test_agent_state:Tally", name="mine"), ("mine",))
    )
    assert told() == []


def test_a_state_of_its_own_is_told_where_nobody_reads_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("ether"), "propagate", False)
    with (
        TestRuntime() as bus,
        pytest.warns(RuntimeWarning, match=r"^tally-2 has a state of its own, beside that of tally:"),
    ):
        bus.start_many(Tally, 2)


def test_only_what_changes_is_saved_and_observers_see_it(bus: Runtime) -> None:
    bus.start(Tally)
    probe = bus.observe(Probe())
    get(bus)
    add(bus, 1)
    get(bus)
    add(bus, 2)
    saved = [probe.expect(event="agent_state").event for _ in range(2)]
    bus.settle(probe)

    assert [event["number"] for event in saved] == [1, 2]
    assert len([seen for seen in probe.events if seen.event["event"] == "agent_state"]) == 2


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("replace", "state has to stay a Totals, and is {'total': 1}"),
        ("object", "cannot be saved: state['names'][0]"),
        ("large", "bytes, and 65,536 is the most"),
        ("value", "could not be read again: total"),
        ("type", "could not be read again: total"),
    ],
)
def test_a_state_that_cannot_be_saved_fails_the_delegation_and_is_undone(bus: Runtime, how: str, told: str) -> None:
    bus.start(Tally)
    add(bus, 7)
    failed = bus.delegate("tally.spoil", {"how": how}).result(PATIENCE)

    assert (failed.status, failed.error.code) == (Status.FAILED_EXECUTION, "invalid_state")
    assert told in failed.error.message
    assert get(bus)["total"] == 7


class Unfit(BaseModel):
    names: list[str] = None  # type: ignore[assignment]  # a default is not checked by pydantic


class Lister(Agent):
    state: Unfit

    @capability("list.all")
    def all(self) -> list[str]:
        return self.state.names


def test_an_agent_whose_state_cannot_be_saved_as_it_begins_does_not_start(bus: Runtime) -> None:
    with pytest.raises(
        InvalidState, match="The state of lister could not be read again: names: Input should be a valid list"
    ):
        bus.start(Lister)
    assert bus.agents() == []


class Pages(BaseModel):
    last: bytes = b""


class Reader(Agent):
    """Remembers what it has read, and answers with more of it."""

    state: Pages

    @capability("page.read")
    def read(self, size: int, task: Task, *, as_response: bool) -> bytes | Response:
        self.state.last = b"s" * 60_000
        data = b"x" * size
        return task.respond(data=data) if as_response else data


@pytest.mark.parametrize("as_response", [False, True])
def test_an_outcome_that_its_changed_state_makes_too_large_says_so(bus: Runtime, *, as_response: bool) -> None:
    bus.start(Reader)

    def read(size: int) -> Response:
        return bus.delegate("page.read", {"size": size, "as_response": as_response}).result(10.0)

    told = read(1_000_000)
    assert told.error is not None
    assert told.error.code == "payload_too_large"
    assert "bytes, of which the agent's changed state has 60,0" in told.error.message
    assert bus.states() == []
    assert read(900_000).ok
    assert read(1_000_000).ok, "it does not change any more"


def test_what_is_cancelled_is_undone() -> None:
    with TestRuntime() as bus:
        bus.start(Tally)
        add(bus, 7)
        handle = bus.delegate("tally.slowly", {"n": 5}, timeout=10.0)
        bus.advance(11.0)

        assert handle.result().status is Status.TIMEOUT
        assert get(bus)["total"] == 7


class NewTotals(BaseModel):
    sum: int = 0
    unit: str = "m"


class NewTally(Agent):
    """The next version, which calls it a sum."""

    state: NewTotals
    state_version = 2

    @classmethod
    def migrate_state(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        return {"sum": data["total"]} if version == 1 else data

    @capability("tally.get")
    def get(self) -> dict[str, Any]:
        return self.state.model_dump()


def test_a_newer_version_migrates_it_and_the_older_one_does_not_start_then(bus: Runtime) -> None:
    bus.start(Tally)
    add(bus, 7)
    bus.stop("tally")
    bus.start(NewTally, name="tally")
    assert get(bus) == {"sum": 7, "unit": "m"}  # which saves it as version 2
    bus.stop("tally")
    bus.start(NewTally, name="tally")
    assert get(bus) == {"sum": 7, "unit": "m"}
    bus.stop("tally")

    with pytest.raises(
        InvalidState, match=r"was saved by version 2 of its class, and this is 1 .* start the newer one"
    ):
        bus.start(Tally)
    assert bus.forget_state("tally")
    assert not bus.forget_state("tally")
    bus.start(Tally)
    assert get(bus)["total"] == 0


def test_a_state_that_does_not_fit_says_what_to_do(bus: Runtime) -> None:
    class Other(Agent):
        state: Strict

        @capability("tally.get")
        def get(self) -> None: ...

    bus.start(Tally)
    add(bus, 7)
    bus.stop("tally")

    with pytest.raises(
        InvalidState, match=r"does not fit Strict: total: .*Raise .*state_version and write migrate_state"
    ):
        bus.start(Other, name="tally")
    bus.start(Tally)
    assert get(bus)["total"] == 7


class Strict(BaseModel):
    total: str = ""


def test_the_state_of_an_agent_that_is_on_the_bus_is_not_forgotten(bus: Runtime) -> None:
    bus.start(Tally)
    with pytest.raises(Rejected, match="tally is up, so its state is not forgotten: stop it"):
        bus.forget_state("tally")


def test_the_state_of_an_agent_whose_node_may_come_back_is_forgotten_only_if_that_is_said() -> None:
    with TestRuntime() as bus:
        other = bus.join("other")
        other.start(Tally)
        bus.delegate("tally.add", {"n": 1}).result().unwrap()
        other.kill()
        bus.advance(4.0)
        with pytest.raises(Rejected, match="a node may bring it back: try again when it is not in the list"):
            bus.forget_state("tally")
        answer = bus.delegate("ether.forget-state", {"agent": "tally", "expected": True}).result()
        assert answer.unwrap().data == {"forgotten": True}
        assert bus.states() == []


def test_a_class_whose_state_cannot_be_is_refused() -> None:
    class Needs(BaseModel):
        total: int

    with pytest.raises(InvalidManifest, match="total of Needs needs a default"):

        class One(Agent):
            state: Needs

    with pytest.raises(InvalidManifest, match="max_concurrency = 2: with a state it is 1"):

        class Two(Agent):
            state: Totals
            max_concurrency = 2


def test_an_attribute_of_that_name_that_is_no_model_is_the_agents_own(bus: Runtime) -> None:
    class Own(Agent):
        state: dict[str, int]

        def __init__(self) -> None:
            self.state = {"n": 1}

        @capability("own.get")
        def get(self) -> int:
            return self.state["n"]

    bus.start(Own)
    assert bus.delegate("own.get").result(PATIENCE).data == 1


def test_the_bus_keeps_so_many_bytes_and_says_when_it_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_states, "MOST_STATES", 4_000)
    with TestRuntime() as bus:
        bus.start_many(Tally, 2)
        bus.delegate("tally.add", {"n": 1, "name": "x" * 500}, to="tally").result().unwrap()
        full = bus.delegate("tally.add", {"n": 1, "name": "x" * 500}, to="tally-2").result()
        assert (full.status, full.error.code) == (Status.FAILED_EXECUTION, "state_full")
        assert bus.delegate("tally.get", to="tally-2").result().data["total"] == 0  # it is undone
        assert [(row["agent"], row["number"]) for row in bus.states()] == [("tally", 1)]
        bus.stop("tally")
        assert bus.forget_state("tally")

        assert bus.delegate("tally.add", {"n": 1}, to="tally-2").result().ok


def spoiled(bus: Runtime, how: str) -> Any:
    return bus.delegate("odd.end", {"how": how}).result(PATIENCE)


class Odd(Agent):
    """Changes its state and ends in an odd way."""

    state: Totals

    @capability("odd.end")
    async def end(self, how: str, task: Task) -> Any:
        self.state.total += 1
        match how:
            case "unpackable":
                return object()
            case "status":
                return Response(request_id=task.request_id, status=Status.TIMEOUT)
            case "large":
                return b"x" * (1 << 20)
            case "large response":
                return task.respond(data=b"x" * ((1 << 20) - 300), metadata={"x": "y" * 1_000})
            case "with its state":
                self.state.names = ["x" * 60_000]
                return b"x" * ((1 << 20) - 1_000)
        return None

    @capability("tally.get")
    def get(self) -> dict[str, Any]:
        return self.state.model_dump()


@pytest.mark.parametrize("how", ["unpackable", "status", "large", "large response", "with its state"])
def test_what_a_handler_changed_is_undone_if_its_result_cannot_travel(bus: Runtime, how: str) -> None:
    bus.start(Odd)
    assert spoiled(bus, "well").ok
    assert spoiled(bus, how).status is Status.FAILED_EXECUTION

    assert get(bus)["total"] == 1
    bus.stop("odd")
    bus.start(Odd)
    assert get(bus)["total"] == 1


def test_a_handler_that_outlives_its_agent_changes_nothing(tmp_path: Path) -> None:
    class Slow(Agent):
        state: Totals

        @capability("slow.add")
        def add(self, n: int, wait: bool = False) -> int:
            self.state.total += n
            if wait:
                begun.set()
                release.wait(PATIENCE)
            return self.state.total

    begun, release = threading.Event(), threading.Event()
    with Runtime() as bus:
        bus.start(Slow)
        bus.delegate("slow.add", {"n": 1}).result(PATIENCE).unwrap()
        held = bus.delegate("slow.add", {"n": 1_000, "wait": True})
        assert begun.wait(PATIENCE)
        bus.stop("slow", timeout=0.1)
        bus.start(Slow)
        assert bus.delegate("slow.add", {"n": 10}).result(PATIENCE).data == 11
        release.set()
        assert held.result(PATIENCE).status is Status.FAILED_EXECUTION
        wait_until(lambda: not bus.node.resources.pool.backlog())
        assert bus.delegate("slow.add", {"n": 10}).result(PATIENCE).data == 21
        bus.stop("slow")
        bus.start(Slow)
        assert bus.delegate("slow.add", {"n": 0}).result(PATIENCE).data == 21


def test_an_agent_that_began_with_an_older_state_loses_no_newer_one(tmp_path: Path) -> None:
    """The new host of a name reads the state, and the old one goes on for a while."""

    class Late(Tally):
        def on_start(self) -> None:
            ready.set()
            go_on.wait(PATIENCE)

    ready, go_on = threading.Event(), threading.Event()
    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url, name="old") as old, Runtime.connect(url, name="new") as new:
        old.start(Tally)
        add(old, 1)
        starting = threading.Thread(target=lambda: new.start(Late, name="tally"))
        starting.start()
        assert ready.wait(PATIENCE)
        add(old, 2)
        old.stop("tally")
        wait_until(lambda: old.agents() == [])
        go_on.set()
        starting.join()
        stale = add(new, 100)
        assert (stale.status, stale.error.code) == (Status.FAILED_EXECUTION, "state_stale")

        assert add(new, 4).data == 7
        new.stop("tally")
        new.start(Tally)
        assert get(new)["total"] == 7


def test_after_a_migration_a_failure_is_undone(bus: Runtime) -> None:
    class Failing(NewTally):
        @capability("tally.fail")
        def fail(self) -> None:
            self.state.sum = 1_000
            raise ValueError("no")

    bus.start(Tally)
    add(bus, 7)
    bus.stop("tally")
    bus.start(Failing, name="tally")
    assert bus.delegate("tally.fail").result(PATIENCE).status is Status.FAILED_EXECUTION

    assert get(bus)["sum"] == 7


def test_a_state_that_cannot_be_undone_crashes_its_agent_and_is_answered_for() -> None:
    class Strange(BaseModel):
        n: int = 0

        @field_validator("n")
        @classmethod
        def refuse(cls, value: int) -> int:
            if refuses:
                raise ValueError("not now")
            return value

    class Holds(Agent):
        state: Strange

        @capability("holds.fail")
        def fail(self) -> None:
            refuses.append(1)
            raise ValueError("no")

        @capability("holds.get")
        def get(self) -> int:
            return self.state.n

    refuses: list[int] = []
    with TestRuntime() as bus:
        bus.start(Holds)
        failed = bus.delegate("holds.fail").result()
        assert (failed.status, failed.error.code) == (Status.FAILED_EXECUTION, "agent_crash")
        refuses.clear()
        bus.advance(1.0)
        assert bus.delegate("holds.get").result().data == 0


class Aliased(BaseModel):
    total: int = Field(0, alias="t")
    any: Any = None


class Private(BaseModel):
    _own: int = PrivateAttr(default=0)


class Excluded(BaseModel):
    again: dict[str, list[Excluded]] = {}
    hidden: int = Field(0, exclude=True)


class Within(BaseModel):
    parts: list[Private | None] = []


@dataclasses.dataclass
class Part:
    hidden: list[Excluded] = dataclasses.field(default_factory=list)
    again: Part | None = None


class Parts(BaseModel):
    part: Part = Part()


@pytest.mark.parametrize(
    ("model", "what"),
    [(Parts, "Excluded.hidden"), (Private, "Private._own"), (Excluded, "Excluded.hidden"), (Within, "Private._own")],
)
def test_a_model_with_something_that_is_not_saved_is_refused(model: type[BaseModel], what: str) -> None:
    with pytest.raises(InvalidManifest, match=f"{what} is not saved, nor undone"):
        type("Keeps", (Agent,), {"__annotations__": {"state": model}, "__module__": __name__})


def test_fields_that_would_not_come_back_are_refused_and_aliases_do(bus: Runtime) -> None:
    class Alias(Agent):
        state: Aliased

        @capability("alias.set")
        def set(self, how: str) -> int:
            match how:
                case "total":
                    self.state.total = 5
                case "any":
                    self.state.any = datetime(2026, 1, 1, tzinfo=UTC)
            return self.state.total

    bus.start(Alias)
    assert bus.delegate("alias.set", {"how": "total"}).result(PATIENCE).data == 5
    refused = bus.delegate("alias.set", {"how": "any"}).result(PATIENCE)
    assert "would not be the same when it is read again: any" in refused.error.message
    bus.stop("alias")
    bus.start(Alias)
    assert bus.delegate("alias.set", {"how": ""}).result(PATIENCE).data == 5


def test_an_agent_begins_with_what_its_init_has_set(bus: Runtime) -> None:
    class Begins(Agent):
        state: Totals

        def __init__(self) -> None:
            self.state.total = 5

        @capability("tally.get")
        def get(self) -> dict[str, Any]:
            return self.state.model_dump()

    bus.start(Begins)
    assert get(bus)["total"] == 5


def test_a_supervised_agent_that_is_restarted_with_its_siblings_answers_for_what_is_undone(bus: Runtime) -> None:
    if isinstance(bus, TestRuntime):
        pytest.skip("its handlers run one after the other")
    begun, release = threading.Event(), threading.Event()

    class Held(Agent):
        state: Totals

        @capability("held.add")
        def add(self, wait: bool = True) -> int:
            self.state.total += 1
            if wait:
                begun.set()
                release.wait(PATIENCE)
            return self.state.total

    held, crashing = ChildSpec("held", Held), ChildSpec("tally", Tally)
    bus.supervise(SupervisorSpec("both", strategy=Strategy.ONE_FOR_ALL, children=(held, crashing)))
    handle = bus.delegate("held.add")
    assert begun.wait(PATIENCE)
    add(bus, 99)
    wait_until(lambda: {row["agent"]: row["condition"] for row in bus.agents()}["held"] == "restarting")
    release.set()
    outcome = handle.result(PATIENCE)
    after = bus.delegate("held.add", {"wait": False}, timeout=PATIENCE).result(PATIENCE).data

    assert (outcome.status, after) in {(Status.FAILED_EXECUTION, 1), (Status.COMPLETED, 2)}


def test_what_was_taken_by_one_incarnation_changes_nothing_of_the_next(bus: Runtime) -> None:
    """The parameters are still checked when a sibling's crash restarts the agent."""
    if isinstance(bus, TestRuntime):
        pytest.skip("its handlers run one after the other")
    begun, release = threading.Event(), threading.Event()

    class Amount(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def wait(cls, value: int) -> int:
            if value == 1_000:
                begun.set()
                release.wait(PATIENCE)
            return value

    class Held(Agent):
        state: Totals

        @capability("held.add")
        def add(self, amount: Amount) -> int:
            self.state.total += amount.n
            return self.state.total

    held, crashing = ChildSpec("held", Held, shutdown=0.1), ChildSpec("tally", Tally, shutdown=0.1)
    bus.supervise(SupervisorSpec("both", strategy=Strategy.ONE_FOR_ALL, children=(held, crashing)))
    assert bus.delegate("held.add", {"n": 1}).result(PATIENCE).data == 1
    handle = bus.delegate("held.add", {"n": 1_000})
    assert begun.wait(PATIENCE)
    before = bus.node.agent_host.cell("held").agent
    add(bus, 99)
    wait_until(lambda: bus.node.agent_host.cell("held").agent is not before)
    wait_until(lambda: {row["agent"]: row["condition"] for row in bus.agents()}["held"] == "up")
    release.set()

    assert handle.result(PATIENCE).status is Status.FAILED_EXECUTION
    assert bus.delegate("held.add", {"n": 2}, timeout=PATIENCE).result(PATIENCE).data == 3


@pytest.mark.parametrize(
    "annotation", ["Totals | None", "list[Totals]", "Final[Totals]", "Annotated[Plain, 1]", "Plain"]
)
def test_an_annotation_that_may_mean_a_state_and_is_none_is_refused(annotation: str) -> None:
    names = {"Totals": Totals, "Plain": Plain, "Final": Final, "Annotated": Annotated}
    with pytest.raises(InvalidManifest, match="annotate it with the pydantic model itself"):
        type("Meant", (Agent,), {"__annotations__": {"state": eval(annotation, names)}, "__module__": __name__})


@pytest.mark.parametrize("value", [Totals(), Totals])
def test_a_model_without_an_annotation_is_refused(value: Any) -> None:
    with pytest.raises(InvalidManifest, match=r"Meant.state: annotate it with the model, .* as in state: Totals;"):
        type("Meant", (Agent,), {"state": value})
    assert type("Own", (Agent,), {"state": {"total": 1}}).state_model() is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [Totals(), Totals, None])
def test_a_value_beside_the_annotation_is_refused(value: Any) -> None:
    said = r"Meant.state: give it no value, as in state: Totals, .*: defaults belong into Totals, or set them in __init__\."
    with pytest.raises(InvalidManifest, match=said):
        type("Meant", (Agent,), {"__annotations__": {"state": Totals}, "state": value, "__module__": __name__})
    with pytest.raises(InvalidManifest, match=said):
        type("Meant", (Tally,), {"state": value})


@pytest.mark.parametrize("version", [-1, "2", True, 1.5])
def test_a_version_of_a_state_is_a_whole_number(version: Any) -> None:
    with pytest.raises(InvalidManifest, match="state_version is"):
        type("Odd", (Tally,), {"state_version": version})


@dataclasses.dataclass
class Plain:
    total: int = 0


def test_an_access_list_hides_it_from_who_may_not_host_the_agent(tmp_path: Path) -> None:
    access = Access(
        delegate=[DelegateRule("*", "*")], register=[RegisterRule("host", "*"), RegisterRule("other", "other")]
    )
    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url, name="host", access=access) as host:
        host.start(Tally)
        add(host, 1)
        with Runtime.connect(url, name="other") as other:
            refused = other.delegate("ether.state", {"agent": "tally"}).result(PATIENCE)
            assert refused.error.code == "access_denied"


def test_it_survives_the_nodes_process_and_the_brokers_and_goes_to_another_node(tmp_path: Path) -> None:
    journal = str(tmp_path / "bus.db")
    agent = AgentSpec("tests.runtime.test_agent_state:Tally")
    with (
        Cluster([NodeSpec("n1", (agent,))], journal=journal) as cluster,
        Runtime.connect(cluster.url, name="desk") as bus,
    ):

        def kill(name: str) -> None:
            os.kill(next(entry.pid for entry in cluster.statistics() if entry.name == name) or 0, signal.SIGKILL)

        def total(n: int) -> int | None:
            return add(bus, n).data

        assert total(1) == 1
        kill("n1")
        wait_until(lambda: total(0) == 1, PATIENCE)
        kill("broker")
        wait_until(lambda: total(0) == 1, PATIENCE)
        assert total(2) == 3
    with (
        Cluster([NodeSpec("n2", (agent,))], journal=journal) as cluster,
        Runtime.connect(cluster.url, name="desk") as bus,
    ):
        assert add(bus, 0).data == 3


class Counting(Agent):
    """Its first run ends with the process, after it has changed the state."""

    state: Totals

    @capability("counting.add", idempotent=True)
    def add(self, n: int, once: str) -> int:
        self.state.total += n
        if not Path(once).exists():
            Path(once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.state.total


def test_a_run_that_ends_with_its_process_has_changed_nothing_and_what_runs_again_counts_once(tmp_path: Path) -> None:
    node = NodeSpec("n1", (AgentSpec("tests.runtime.test_agent_state:Counting"),))
    with Cluster([node]) as cluster, Runtime.connect(cluster.url, name="desk") as bus:
        done = [bus.delegate("counting.add", {"n": 2, "once": str(tmp_path / "a")}).result(PATIENCE) for _ in range(2)]

    assert [response.data for response in done] == [2, 4]
    assert (tmp_path / "a").exists()
    assert [response.attempt for response in done] == [2, 1]


def test_a_node_gives_it_no_other_name_than_that_of_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_starts, "RELEASED", 0.2)
    url, spec = f"ipc://{tmp_path}/bus.sock", AgentSpec("tests.runtime.test_agent_state:Tally")
    with Runtime(bind=url, name="old") as old, Runtime.connect(url, name="new") as new:
        old.start(Tally)
        add(old, 5)
        with pytest.raises(DuplicateAgent, match="Tally has a state, which belongs to its name"):
            agent_starts.start_under_free_names(new, spec)
        monkeypatch.setattr(agent_starts, "RELEASED", PATIENCE)
        stopping = threading.Timer(0.1, old.stop, ["tally"])
        stopping.start()

        assert agent_starts.start_under_free_names(new, spec) == ("tally",)
        stopping.join()
        assert get(new)["total"] == 5


@pytest.mark.parametrize("code", ["broker_lost", "journal_unavailable"])
def test_a_start_asks_again_for_what_the_bus_cannot_tell_now(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    with Runtime() as bus:
        services = bus.node._services
        refusals = [
            Response(request_id="1", status=Status.FAILED_EXECUTION, error=ErrorInfo(code=code, message="wait"))
        ] * 2
        send = services.send

        def ask(delegation: Delegation) -> Any:
            if refusals:
                return SimpleNamespace(answer=lambda _timeout: refusals.pop())
            return send(delegation)

        monkeypatch.setattr(services, "send", ask)
        bus.start(Tally)
        assert refusals == []
        assert add(bus, 1).data == 1


def test_a_cluster_gives_it_no_other_name_than_that_it_wishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_starts, "RELEASED", 0.2)
    url, named = (
        f"ipc://{tmp_path}/bus.sock",
        NamedAgents(AgentSpec("tests.runtime.test_agent_state:Tally"), ("tally-2",)),
    )
    with Runtime(bind=url, name="old") as old, Runtime.connect(url, name="new") as new:
        old.start(Tally, name="tally-2")
        with pytest.raises(DuplicateAgent, match=r"'tally-2'.* has a state"):
            agent_starts.start_named(new, named)
        assert [row["agent"] for row in new.agents()] == ["tally-2"]


def test_what_is_taken_as_the_agent_crashes_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crash is another thread's, between the taking of the work and its beginning; the next incarnation is there then."""
    with Runtime() as bus:
        bus.start(Tally)
        cell = bus.node.agent_host.cell("tally")
        before = cell.keeper
        crashing = threading.Thread(target=lambda: bus.node._crashed(cell, AgentCrash("elsewhere")))

        def crash_first(*args: Any) -> Any:
            if crashing.ident is None:
                crashing.start()
            wait_until(lambda: cell.keeper is not before, what="the next incarnation has read its state")
            return plain_params(*args)

        def hold(agent: Tally) -> None:
            wait_until(failed.is_set)

        failed = threading.Event()
        monkeypatch.setattr(Tally, "on_start", hold)
        monkeypatch.setattr(cell_module, "plain_params", crash_first)
        handle = bus.delegate("tally.add", {"n": 1_000})
        handle.add_done_callback(lambda _handle: failed.set())
        outcome = handle.result(PATIENCE)
        failed.set()

        assert outcome.error.code == "agent_restarted"
        assert add(bus, 1).data == 1


@pytest.mark.parametrize("how", ["renamed", "migrated to what is none"])
def test_a_field_that_the_class_has_not_any_more_is_not_dropped(bus: Runtime, how: str) -> None:
    class Sums(BaseModel):
        sum: int = 0

    class Other(Agent):
        state: Sums
        state_version = 1 if how == "renamed" else 2

        @classmethod
        def migrate_state(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
            return {"sm": data["total"]}

        @capability("other.get")
        def get(self) -> int:
            return self.state.sum

    bus.start(Tally)
    assert add(bus, 5).data == 5
    bus.stop("tally")
    missing, fix = ("by", "write migrate_state") if how == "renamed" else ("sm", "Correct .*Other.migrate_state")
    with pytest.raises(InvalidState, match=f"the model has no field '{missing}'.*{fix}, or forget"):
        bus.start(Other, name="tally")
    bus.start(Tally)
    assert get(bus)["total"] == 5


def test_an_answer_brings_it_in_front_of_its_body() -> None:
    answer = pack_envelope(Kind.RESPONSE, request_id=b"1" * 16, source=b"a", target=b"b", capability=b"c", body=b"\x80")
    state = BroughtState(3, b"0" * 16, b"1" * 16, 2, b"\x81\xa1a\x01")

    assert split_state(join_state(answer, state)) == (state, answer)


def listed(*values: Any) -> bytes:
    packed = pack(list(values))
    return len(packed).to_bytes(4) + packed


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\0\0\0\xff\x80", b"\0\0\0\x01\x80", listed(-1, b"", b"1" * 16, 1, b""), listed(1, b"", b"short", 1, b""),
        listed(1 << 60, b"", b"1" * 16, 1, b""), listed(1, b"", b"1" * 16, 1, None), listed(1, b"", b"1" * 16, 1),
    ],
)  # fmt: skip
def test_an_answer_that_brings_no_state_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        split_state(pack_envelope(Kind.RESPONSE, request_id=b"1" * 16, source=b"a", body=body))
