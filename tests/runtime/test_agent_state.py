"""The state of an agent: saved with the outcome of what changed it, and there again wherever the agent starts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from ether import (
    Agent,
    AgentCrash,
    Cluster,
    InvalidManifest,
    InvalidState,
    Rejected,
    Runtime,
    Status,
    Task,
    capability,
)
from ether.cluster import AgentSpec, NodeSpec
from ether.observers import Probe
from ether.testing import TestRuntime
from ether_actors.supervisor.state import agent_states
from ether_broker.errors import InvalidEnvelope
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
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
        ("object", "cannot be saved"),
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
    with pytest.raises(Rejected, match="tally is up: stop it before"):
        bus.forget_state("tally")


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
    monkeypatch.setattr(agent_states, "MOST_STATES", 2_000)
    with TestRuntime() as bus:
        bus.start_many(Tally, 2)
        bus.delegate("tally.add", {"n": 1, "name": "x" * 500}, to="tally").result().unwrap()
        full = bus.delegate("tally.add", {"n": 1, "name": "x" * 500}, to="tally-2").result()
        assert (full.status, full.error.code) == (Status.FAILED_EXECUTION, "state_full")
        bus.stop("tally")
        assert bus.forget_state("tally")

        assert bus.delegate("tally.add", {"n": 1}, to="tally-2").result().ok


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


def test_an_answer_brings_it_in_front_of_its_body() -> None:
    answer = pack_envelope(Kind.RESPONSE, request_id=b"1" * 16, source=b"a", target=b"b", capability=b"c", body=b"\x80")
    state = BroughtState(3, 2, b"\x81\xa1a\x01")

    assert split_state(join_state(answer, state)) == (state, answer)


@pytest.mark.parametrize(
    "body",
    [b"", b"\0\0\0\xff\x80", b"\0\0\0\x01\x80", b"\0\0\0\x04\x93\x00\x01\xc0", b"\0\0\0\x05\x93\x00\x01\xc4\x00"],
)
def test_an_answer_that_brings_no_state_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        split_state(pack_envelope(Kind.RESPONSE, request_id=b"1" * 16, source=b"a", body=body))
