"""Agents that act by themselves: schedules, `self.bus`, and delegations after a while."""

from __future__ import annotations

import gc
import logging
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ether import (
    Agent,
    AgentCrash,
    Closed,
    Delegation,
    InvalidEnvelope,
    Observation,
    Observer,
    Retry,
    Runtime,
    Status,
    Task,
    UsageError,
    capability,
    cron,
    every,
)  # fmt: skip
from ether.node.agents.agent_schedules import AgentSchedules
from ether.testing import ManualClock, TestRuntime
from ether_actors.execution.cell import Cell, CellState
from tests.support import wait_until

PATIENCE = 20.0


class Ticker(Agent):
    """Notes when it ticks."""

    ticks: list[float]
    sources: list[str]
    crashes = 0
    max_concurrency = 2

    @every(10.0)
    @capability("ticker.tick")
    def tick(self, task: Task) -> int:
        Ticker.ticks.append(round(task.started, 1))
        Ticker.sources.append(task.delegation.from_agent or "")
        if Ticker.crashes:
            Ticker.crashes -= 1
            raise AgentCrash("now")
        return len(Ticker.ticks)


class Slow(Agent):
    """Its ticks take longer than its interval."""

    begun = 0

    @every(10.0, at_start=True, timeout=100.0)
    @capability("slow.tick")
    async def tick(self) -> None:
        import asyncio

        Slow.begun += 1
        await asyncio.sleep(35.0)


class Daily(Agent):
    moments: list[datetime]

    @cron("0 7 * * *")
    @capability("daily.report")
    def report(self, task: Task) -> None:
        Daily.moments.append(datetime.fromtimestamp(task.delegation.timestamp or 0.0, UTC))


class Counter(Agent):
    @capability("count.words")
    def count(self, text: str, task: Task) -> list[Any]:
        return [task.delegation.from_agent, len(text.split())]


class Starter(Agent):
    """Delegates when it starts, and later."""

    def on_start(self) -> None:
        self.first = self.bus.delegate("count.words", {"text": "one two"})
        self.later = self.bus.after(5.0, "count.words", {"text": "one two three"})
        self.never = self.bus.after(5.0, "count.words", {"text": ""})
        self.never.cancel()

    @capability("starter.seen")
    def seen(self) -> list[Any]:
        said = [self.first.result().data, self.later.handle and self.later.handle.result().data]
        return [*said, self.never.handle is None]


@pytest.fixture
def bus() -> Iterator[TestRuntime]:
    Ticker.ticks, Ticker.sources, Ticker.crashes, Slow.begun, Daily.moments = [], [], 0, 0, []
    with TestRuntime() as opened:
        yield opened


def test_an_agent_delegates_to_itself_at_its_interval_and_it_is_on_the_record(bus: TestRuntime) -> None:
    class Watcher(Observer):
        def on_start(self) -> None:
            self.seen: list[str] = []

        def on_delegation(self, observation: Observation) -> None:
            self.seen.append(f"{observation.from_agent} {observation.capability} {observation.to_agent}")

    watcher = bus.observe(Watcher())
    bus.start(Ticker)
    bus.advance(35.5)

    assert len(Ticker.ticks) == 3
    assert [later - earlier for earlier, later in zip(Ticker.ticks, Ticker.ticks[1:], strict=False)] == pytest.approx(
        [10.0, 10.0], abs=0.4
    )
    assert Ticker.sources == ["ticker"] * 3
    assert bus.settle(watcher)
    assert watcher.seen.count("ticker ticker.tick ticker") == 3


def test_each_agent_has_its_own_and_a_stopped_one_has_none(bus: TestRuntime) -> None:
    one, _two = bus.start_many(Ticker, 2)
    bus.advance(11.0)
    assert sorted(Ticker.sources) == ["ticker", "ticker-2"]

    one.stop()
    bus.advance(30.0)
    assert Ticker.sources.count("ticker") == 1
    assert Ticker.sources.count("ticker-2") == 4


def test_a_restarted_agent_begins_anew_and_has_one_timer(bus: TestRuntime) -> None:
    Ticker.crashes = 2
    bus.start(Ticker)
    bus.advance(65.0)

    assert 5 <= len(Ticker.ticks) <= 6, "the old incarnation's timer has ended with it"


def test_a_timer_that_is_late_by_an_hour_runs_once_and_goes_on(bus: TestRuntime) -> None:
    bus.start(Ticker)
    bus.start(Daily)
    bus.advance(25.0)
    began, before = Ticker.ticks[0], len(Ticker.ticks)
    bus.clock.advance(86_400.0)  # at one bound, as for a process that is stopped
    bus.advance(1.0)

    assert (len(Ticker.ticks) - before, len(Daily.moments)) == (1, 1)
    bus.advance(29.0)
    assert [round(tick - began, 1) % 10.0 for tick in Ticker.ticks[before + 1 :]] == pytest.approx([0.0] * 3, abs=0.4)


def test_while_one_runs_no_other_begins(bus: TestRuntime) -> None:
    bus.start(Slow)
    bus.advance(75.0)
    assert Slow.begun == 2, "at 0 and 40: those between are left out, and do not wait"
    bus.advance(6.0)
    assert Slow.begun == 3


class Reporter(Agent):
    """Its report waits behind its other work, in which it crashes."""

    reports: list[float]
    max_concurrency = 1

    @every(60.0, at_start=True)
    @capability("reporter.report")
    def report(self, task: Task) -> None:
        Reporter.reports.append(task.started)

    @capability("reporter.work")
    async def work(self, crash: bool = False) -> None:
        import asyncio

        await asyncio.sleep(1.0)
        if crash:
            raise AgentCrash("now")


def test_a_run_that_waited_while_its_agent_was_restarted_is_the_one_that_is_open(bus: TestRuntime) -> None:
    Reporter.reports = []
    bus.start(Reporter)
    bus.advance(1.0)
    assert len(Reporter.reports) == 1, "at its start"

    for crash in (True, True, True, *[False] * 20):
        bus.delegate("reporter.work", {"crash": crash}, timeout=120.0)
    bus.advance(58.0)
    assert len(Reporter.reports) == 2, "of the first restart, which waited; those of the others are left out"
    bus.advance(60.0)
    assert len(Reporter.reports) == 3


def test_a_run_that_crashed_is_ended_when_its_agent_begins_anew(bus: TestRuntime) -> None:
    starts: list[int] = []

    class Crashing(Agent):
        @every(3600.0, at_start=True)
        @capability("crashing.tick")
        def tick(self) -> None:
            starts.append(1)
            if len(starts) < 3:
                raise AgentCrash("now")

    bus.start(Crashing)
    bus.advance(60.0)
    assert len(starts) == 3


def test_what_is_kept_of_runs_ends_with_them(bus: TestRuntime) -> None:
    bus.start_many(Ticker, 3)
    bus.advance(25.0)
    assert len(Ticker.ticks) == 6
    assert bus.node._agent_schedules._open == {}


def test_one_that_takes_too_long_ends_by_its_timeout_and_the_next_runs(bus: TestRuntime) -> None:
    ended: list[tuple[int, str]] = []

    class Late(Agent):
        begun = 0

        @every(10.0, timeout=2.0)
        @capability("late.tick", idempotent=True)
        async def tick(self) -> None:
            import asyncio

            Late.begun += 1
            await asyncio.sleep(5.0)

    class Watcher(Observer):
        def on_response(self, observation: Observation) -> None:
            if (
                observation.capability == "late.tick"
                and observation.response is not None
                and observation.response.status.is_terminal
            ):
                ended.append((Late.begun, observation.response.status.name))

    watcher = bus.observe(Watcher())
    bus.start(Late)
    bus.advance(25.0)
    assert bus.settle(watcher)

    assert ended == [(1, "TIMEOUT"), (2, "TIMEOUT")]


def test_a_cron_time_is_kept_by_the_wall_clock(bus: TestRuntime) -> None:
    bus.start(Daily)
    for _ in range(30):
        bus.advance(3_600.0)

    assert 1 <= len(Daily.moments) <= 2
    assert {(moment.hour, moment.minute) for moment in Daily.moments} == {(7, 0)}
    assert len({moment.date() for moment in Daily.moments}) == len(Daily.moments)


def test_what_an_agent_does_by_itself_is_in_its_name_once_the_bus_knows_it(bus: TestRuntime) -> None:
    bus.start(Counter)
    bus.start(Starter)
    bus.advance(1.0)
    assert bus.delegate("starter.seen").result().data == [[bus.name, 2], None, True]

    bus.advance(5.0)
    assert bus.delegate("starter.seen").result().data == [[bus.name, 2], ["starter", 3], True]


def test_a_delayed_delegation_can_have_a_retry_policy_and_is_cancelled_when_made(bus: TestRuntime) -> None:
    ref = bus.start(Ticker)
    agent = bus.node.agent_host.cell(ref.name).agent
    assert agent is not None
    Ticker.crashes = 1

    made = agent.bus.after(1.0, "ticker.tick", retry=Retry(attempts=2, on={"agent_crash"}), timeout=5.0)
    bus.advance(3.0)
    assert made.handle is not None
    assert made.handle.result().status is Status.COMPLETED
    assert len(made.handle.earlier) == 1

    for wrong in (-1, float("inf"), "5", True):
        with pytest.raises(UsageError, match=r"after\(.*\): seconds, 0 or more"):
            agent.bus.after(wrong, "ticker.tick")  # type: ignore[arg-type]


def test_the_bus_is_not_there_before_the_agent_is_started() -> None:
    class Hasty(Agent):
        def __init__(self) -> None:
            self.bus.delegate("count.words")

        @capability("hasty.do")
        def do(self) -> None: ...

    with (
        TestRuntime() as bus,
        pytest.raises(UsageError, match=r"Hasty.bus is there from on_start on, and not in __init__"),
    ):
        bus.start(Hasty)


class Reminded(Agent):
    """Has a delegation made an hour after each start."""

    ran: list[str]

    def on_start(self) -> None:
        self.weight = bytearray(1)
        self.later = self.bus.after(3_600.0, "reminded.run")

    @every(86_400.0)
    @capability("reminded.run")
    def run(self, task: Task) -> None:
        Reminded.ran.append(task.delegation.from_agent or "")

    @capability("reminded.crash")
    def crash(self) -> None:
        raise AgentCrash("now")


def test_what_is_to_come_belongs_to_one_life_of_the_agent(bus: TestRuntime, monkeypatch: Any) -> None:
    monkeypatch.setattr(logging.getLogger("ether.node"), "disabled", True)  # what it is told keeps tracebacks
    Reminded.ran = []
    ref = bus.start(Reminded)
    lives = [weakref.ref(bus.node.agent_host.cell("reminded").agent)]  # type: ignore[arg-type]  # it runs
    for _ in range(3):
        bus.delegate("reminded.crash").result()
        bus.advance(10.0)
        lives.append(weakref.ref(bus.node.agent_host.cell("reminded").agent))  # type: ignore[arg-type]
    gc.collect()
    assert [life() is None for life in lives] == [True, True, True, False], "no timer keeps an agent that has ended"

    bus.advance(3_700.0)
    assert Reminded.ran == ["reminded"], "once, and not once for each life"

    old = bus.node.agent_host.cell("reminded").agent
    assert old is not None
    old.bus.after(10.0, "reminded.run")
    ref.stop()
    bus.advance(20.0)
    assert Reminded.ran == ["reminded"]
    with pytest.raises(Closed, match="This Reminded has ended, and delegates nothing more"):
        old.bus.delegate("reminded.run")


def test_what_is_delegated_later_is_what_was_given(bus: TestRuntime) -> None:
    bus.start(Counter)
    agent = bus.node.agent_host.cell("counter").agent
    assert agent is not None
    params, context, extensions = {"text": "two words"}, {"seen": ["a"]}, {"acme": 1}
    delayed = agent.bus.after(1.0, "count.words", params, context=context, extensions=extensions, retry=Retry())
    params["text"] = "these are four words"
    context["seen"].append(object())  # type: ignore[arg-type]
    extensions["acme"] = 2
    bus.advance(2.0)

    assert delayed.handle is not None
    assert delayed.handle.result().data == ["counter", 2]
    asked = delayed.handle.delegation
    assert (dict(asked.context_slice), dict(asked.extensions)) == ({"seen": ["a"]}, {"acme": 1})


def test_a_cancelled_delay_keeps_nothing(bus: TestRuntime) -> None:
    bus.start(Counter)
    agent = bus.node.agent_host.cell("counter").agent
    assert agent is not None

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, Delegation) and one.params == {"text": "kept"} for one in gc.get_objects())

    delayed = agent.bus.after(3_600.0, "count.words", {"text": "kept"})
    assert kept() == 1
    delayed.cancel()

    assert kept() == 0
    with pytest.raises(InvalidEnvelope, match="no keyword 'tmeout'"):
        agent.bus.after(1.0, "count.words", tmeout=1.0)  # type: ignore[call-arg]


def test_agents_that_were_stopped_are_not_kept_by_their_timers(bus: TestRuntime) -> None:
    gone = []
    for _ in range(400):
        ref = bus.start(Reminded)
        gone.append(weakref.ref(bus.node.agent_host.cell("reminded").agent))  # type: ignore[arg-type]  # it runs
        ref.stop()
    gc.collect()

    assert [life() for life in gone] == [None] * 400
    assert len(bus.node._due_calls._waiting) <= 3 * 256 + 400, "and each `after` until it is due"


class Weekly(Agent):
    @cron("0 7 * * MON")
    @capability("weekly.report")
    def report(self) -> None: ...


class Early(Agent):
    runs = 0

    @cron("30 2 * * *", zone="Europe/Berlin")
    @capability("early.run")
    def run(self) -> None:
        Early.runs += 1


@pytest.mark.parametrize(
    ("at", "runs"), [((2026, 10, 25, 0, 29), 1), ((2026, 10, 25, 1, 10), 0), ((2026, 3, 29, 0, 59), 1)]
)
def test_a_time_that_a_clock_shows_twice_or_leaves_out_comes_once(at: tuple[int, ...], runs: int) -> None:
    Early.runs = 0
    year, month, day, hour, minute = at
    with TestRuntime(clock=ManualClock(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp())) as bus:
        bus.start(Early)
        bus.advance(7_200.0)
    assert Early.runs == runs


@pytest.mark.parametrize("back", [1.0, 62.0, 600.0, 3_600.0, 86_000.0])
def test_a_time_that_was_reached_does_not_come_again_as_the_clock_is_set_back(back: float) -> None:
    clock = SimpleNamespace(now=datetime(2026, 11, 30, 6, 59, tzinfo=UTC).timestamp())  # a Monday
    looks: list[Callable[[], None]] = []
    waits: list[float] = []
    runs: list[float] = []

    def delegate(*_: Any) -> Any:
        runs.append(clock.now)
        return SimpleNamespace(done=True, add_done_callback=lambda _look: None)

    def call_at(at: float, look: Callable[[], None]) -> None:
        looks.append(look)
        waits.append(at - clock.now)

    schedules = AgentSchedules(
        SimpleNamespace(wall=lambda: clock.now, monotonic=lambda: clock.now),  # type: ignore[arg-type]
        call_at, delegate, SimpleNamespace(watch=lambda *_, **__: None),  # type: ignore[arg-type]
    )  # fmt: skip
    cell = Cell("weekly", Weekly, None, None)  # type: ignore[arg-type]  # it is given nothing
    cell.agent, cell.state = Weekly(), CellState.RUNNING
    schedules.start(cell)

    def pass_time(seconds: float) -> None:
        end = clock.now + seconds
        while clock.now < end:
            clock.now = min(end, clock.now + 30.0)
            looks.pop()()

    pass_time(120.0)
    assert len(runs) == 1
    clock.now -= back
    pass_time(2 * 86_400.0)
    assert len(runs) == 1
    pass_time(6 * 86_400.0)
    assert len(runs) == 2
    clock.now -= 30 * 86_400.0
    pass_time(7 * 86_400.0)
    assert len(runs) == 3, "set back by more than a day, it is due anew"
    assert max(waits) == 30.0, "so long may a clock that is set go unnoticed"


def test_a_wall_clock_that_was_wrong_for_a_moment_silences_no_schedule(bus: TestRuntime, monkeypatch: Any) -> None:
    bus.start(Daily)
    resources, ahead = bus.node.resources, [0.0]
    wall = resources.wall
    monkeypatch.setattr(resources, "wall", lambda: wall() + ahead[0])
    ahead[0] = 365 * 86_400.0
    bus.advance(3_600.0)
    ahead[0] = 0.0
    for _ in range(25):
        bus.advance(3_600.0)

    assert len(Daily.moments) >= 2  # one in the wrong year, and that of the day


@pytest.mark.parametrize("kind", ["embedded", "journal", "joined"])
def test_it_is_the_same_on_every_bus(kind: str, tmp_path: Any) -> None:
    class Quick(Agent):
        seen: list[str] = []

        @every(0.1, at_start=True)
        @capability("quick.tick")
        def tick(self, task: Task) -> None:
            self.seen.append(task.request_id)

    options: dict[str, Any] = {"journal": tmp_path / "journal.db"} if kind == "journal" else {}
    with Runtime(bind=f"ipc://{tmp_path}/bus" if kind == "joined" else None, drain=0.0, **options) as own:
        if kind == "joined":
            with Runtime.connect(own.url, drain=0.0) as other:
                other.start(Quick)
                assert wait_until(lambda: len(Quick.seen) >= 3, PATIENCE)
        else:
            own.start(Quick)
            assert wait_until(lambda: len(Quick.seen) >= 3, PATIENCE)
    count = len(Quick.seen)
    time.sleep(0.3)
    assert len(Quick.seen) == len(set(Quick.seen)) == count, "nothing comes after the end"


class Timers(RuleBasedStateMachine):
    """Agents with timers come, crash and go while time passes: no tick is doubled, and none is missed by a living agent."""

    @initialize()
    def a_bus(self) -> None:
        Ticker.ticks, Ticker.sources, Ticker.crashes = [], [], 0
        self.bus = TestRuntime().__enter__()
        self.refs: list[Any] = []
        self.quiet = 0.0
        """Seconds since the last agent came, crashed or went."""
        self.counted = 0

    @rule()
    def one_starts(self) -> None:
        if len(self.refs) < 3:
            self.refs.append(self.bus.start(Ticker, name=f"t{len(Ticker.ticks)}-{len(self.refs)}"))
            self.quiet, self.counted = 0.0, len(Ticker.ticks)

    @rule()
    def one_stops(self) -> None:
        if self.refs:
            self.refs.pop().stop()
            self.quiet, self.counted = 0.0, len(Ticker.ticks)

    @rule()
    def one_will_crash(self) -> None:
        if self.refs:
            Ticker.crashes = 1
            self.bus.advance(30.0)
            self.quiet, self.counted = 0.0, len(Ticker.ticks)

    @rule(seconds=st.sampled_from([1.0, 7.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.bus.advance(seconds)
        self.quiet += seconds

    @invariant()
    def each_ticks_every_ten_seconds(self) -> None:
        if not hasattr(self, "bus"):
            return
        ticks, agents = len(Ticker.ticks) - self.counted, len(self.refs)
        most = agents * (self.quiet / 10.0 + 1.0)
        least = agents * (self.quiet / 10.3 - 2.0)
        assert least <= ticks <= most, (ticks, agents, self.quiet)

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.bus.__exit__(None, None, None)


TestTimers = Timers.TestCase
TestTimers.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
