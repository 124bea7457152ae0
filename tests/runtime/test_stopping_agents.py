"""An agent that is stopped for good is gone for good, whatever its supervision tree is about to do."""

from __future__ import annotations

import threading

import pytest

from ether import Agent, ChildSpec, Runtime, SupervisorSpec, capability
from ether_actors.backoff import Backoff
from ether_actors.execution.cell import Cell, CellState
from ether_broker.errors import UnknownAgent
from tests.support import wait_until


class Fragile(Agent):
    """Crashes when it is told; its starts after the first wait for `may_start`."""

    def __init__(self, told: list[str], may_start: threading.Event, began: threading.Event) -> None:
        super().__init__()
        self.told, self.may_start, self.began = told, may_start, began

    def on_start(self) -> None:
        self.told.append("start")
        if len(self.told) > 1:
            self.began.set()
            assert self.may_start.wait(20)

    def on_stop(self) -> None:
        self.told.append("stop")

    @capability("fragile.do")
    def do(self, crash: bool) -> dict[str, bool]:
        if crash:
            raise SystemExit("boom")
        return {}


class Steady(Agent):
    @capability("steady.do")
    def do(self, crash: bool) -> dict[str, bool]:
        if crash:
            raise SystemExit("boom")
        return {}


def listed(bus: Runtime) -> list[str]:
    return sorted(agent["agent"] for agent in bus.agents())


def crash(bus: Runtime, capability: str) -> None:
    outcome = bus.delegate(capability, {"crash": True}, timeout=10).result()
    assert outcome.error is not None
    assert outcome.error.code == "agent_crash"


def assert_gone(bus: Runtime, name: str, capability: str) -> None:
    error = bus.delegate(capability, {"crash": False}, timeout=10).result().error
    assert error is not None
    assert error.code == "no_holder"
    assert name not in listed(bus)
    with pytest.raises(UnknownAgent):
        bus.stop(name)


@pytest.mark.parametrize("patience", [10.0, 0.0])
def test_an_agent_that_is_stopped_while_it_is_started_anew_does_not_come_back(patience: float):
    told: list[str] = []
    may_start, began = threading.Event(), threading.Event()
    with Runtime(name="app") as bus:
        bus.start(lambda: Fragile(told, may_start, began), name="fragile")
        crash(bus, "fragile.do")
        assert began.wait(10)

        stopping = threading.Thread(target=bus.stop, args=("fragile", patience))
        stopping.start()
        if not patience:
            stopping.join(10)
        may_start.set()
        stopping.join(10)

        wait_until(lambda: told == ["start", "start", "stop"], what="what came up has cleaned up")
        assert_gone(bus, "fragile", "fragile.do")
        assert bus.node.supervision._runners == []
        bus.start(lambda: Fragile([], may_start, began), name="fragile")
        assert bus.delegate("fragile.do", {"crash": False}, timeout=10).result().error is None


def test_an_agent_that_is_stopped_while_it_waits_for_its_restart_does_not_come_back():
    with Runtime(name="app") as bus:
        tree = SupervisorSpec("tree", backoff=Backoff(initial=0.5), children=(ChildSpec("steady", Steady),))
        bus.supervise(tree)
        crash(bus, "steady.do")
        wait_until(lambda: "up" in [agent["condition"] for agent in bus.agents()], what="it is back")
        crash(bus, "steady.do")
        (runner,) = bus.node.supervision._runners
        timers = runner._tree._transitions._timers
        wait_until(lambda: timers, what="it waits")

        bus.stop("steady")

        assert not timers
        assert_gone(bus, "steady", "steady.do")
        assert bus.node.supervision._runners == []


def test_an_agent_of_a_tree_that_is_stopped_is_not_restarted_with_its_siblings():
    may_start = threading.Event()
    may_start.set()
    told: list[str] = []
    fragile = ChildSpec("fragile", Fragile, args=(told, may_start, threading.Event()))
    with Runtime(name="app") as bus:
        bus.supervise(SupervisorSpec("tree", "one_for_all", children=(fragile, ChildSpec("steady", Steady))))
        bus.stop("fragile")

        crash(bus, "steady.do")

        assert bus.delegate("steady.do", {"crash": False}, timeout=10).result().error is None
        assert told == ["start", "stop"]
        assert_gone(bus, "fragile", "fragile.do")
        assert listed(bus) == ["steady"]


def test_a_tree_that_is_stopped_while_an_agent_of_it_starts_leaves_none_behind():
    told = ["as if it had been started before"]
    may_start, began = threading.Event(), threading.Event()
    with Runtime(name="app") as bus:
        fragile = ChildSpec("fragile", Fragile, args=(told, may_start, began), shutdown=0.0)
        with pytest.raises(TimeoutError):
            bus.supervise(SupervisorSpec("tree", children=(fragile,)), timeout=0.1)
        assert began.wait(10)

        may_start.set()

        wait_until(lambda: told[-1] == "stop", what="what came up has cleaned up")
        assert_gone(bus, "fragile", "fragile.do")


def test_one_that_crashes_and_is_restarted_as_it_gives_way_takes_nothing_new() -> None:
    began, may_crash = threading.Event(), threading.Event()

    class Held(Agent):
        @capability("held.do")
        def do(self) -> None:
            began.set()
            assert may_crash.wait(20)
            raise SystemExit("boom")

    with Runtime() as bus, pytest.MonkeyPatch.context() as patch:
        bus.start(Held, name="held")
        bus.delegate("held.do", timeout=20)
        assert began.wait(20)
        host = bus.node.agent_host
        cell, first, begin, leave = host.cell("held"), host.cell("held").agent, host.begin_giving_way, host.leave
        conditions: list[str] = []

        def begin_and_crash(cells: list[Cell], reason: str) -> None:
            begin(cells, reason)
            may_crash.set()
            wait_until(lambda: cell.agent is not first and cell.state is CellState.RUNNING)

        def note(cell: Cell, reason: str, *, moves: bool = False) -> None:
            conditions.extend(row["condition"] for row in bus.agents() if row["agent"] == "held")
            leave(cell, reason, moves=moves)

        patch.setattr(host, "begin_giving_way", begin_and_crash)
        patch.setattr(host, "leave", note)
        list(bus.node.supervision.take_down(["held"], 5.0, "it moves", moves=True))

    assert conditions == ["restarting"]
