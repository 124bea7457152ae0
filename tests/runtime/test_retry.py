"""Delegations with a retry policy, on each kind of bus: how many attempts are made, when, and with what end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ether import (
    Agent,
    AgentCrash,
    Backoff,
    Budget,
    InvalidEnvelope,
    Observation,
    Observer,
    Retry,
    Runtime,
    Status,
    Task,
    UsageError,
    capability,
)  # fmt: skip
from ether.testing import TestRuntime
from ether_broker.envelope.ids import PROCESS, is_rising, to_bytes
from ether_broker.errors import (
    ArtifactTooLarge,
    ArtifactUnavailable,
    BrokerUnavailable,
    EtherError,
    JournalUnavailable,
    LeaseHeld,
    WaitTimeout,
)

PATIENCE = 20.0
SOON = Backoff(initial=0.001, maximum=0.01)


class Flaky(Agent):
    """Fails until its plan says otherwise."""

    max_concurrency = 4
    plan: list[str]
    ran: list[str]

    @capability("flaky.do")
    def do(self, task: Task, n: int = 0) -> Any:
        Flaky.ran.append(task.request_id)
        match Flaky.plan.pop(0) if Flaky.plan else "ok":
            case "ok":
                return n
            case "raise":
                raise ValueError("no")
            case "crash":
                raise AgentCrash("no")
            case "overload":
                return task.respond(Status.REJECTED_OVERLOAD, retry_after=0.01)
            case "quota":
                error = {"code": "quota", "message": "429", "retryable": n < 0}
                return task.respond(Status.FAILED_EXECUTION, error=error, retry_after=0.01)
            case "ask":
                return task.respond(Status.NEEDS_INPUT, questions=("Which?",))
            case "hang":
                time.sleep(0.4)
                return n
        raise AssertionError

    @capability("flaky.cost")
    def cost(self, task: Task) -> Any:
        Flaky.ran.append(task.request_id)
        task.budget.spend(cost=0.4)
        raise ValueError("no")


class Chief(Agent):
    retry = Retry(on={"exception"}, backoff=SOON)

    @capability("chief.do")
    def do(self, task: Task, what: str = "flaky.do", timeout: float | None = None) -> Any:
        handle = task.delegate(what, timeout=timeout, retry=self.retry)
        response = handle.result()
        return [response.status.value, len(handle.earlier), response.error and response.error.code]


class Journalist(Observer):
    def on_start(self) -> None:
        self.delegations: list[Observation] = []

    def on_delegation(self, observation: Observation) -> None:
        if observation.capability.startswith("flaky"):
            self.delegations.append(observation)


@pytest.fixture(params=["embedded", "journal", "joined"])
def bus(request: Any, tmp_path: Any) -> Iterator[Runtime]:
    Flaky.plan, Flaky.ran = [], []
    options: dict[str, Any] = {"journal": tmp_path / "journal.db"} if request.param == "journal" else {}
    if request.param == "joined":
        options["bind"] = f"ipc://{tmp_path}/bus"
    with Runtime(drain=0.0, **options) as own:
        own.start(Flaky)
        own.start(Chief)
        if request.param != "joined":
            yield own
        else:
            with Runtime.connect(own.url, drain=0.0) as other:
                yield other


def test_it_is_tried_again_until_it_works_and_each_attempt_is_a_delegation_of_its_own(bus: Runtime) -> None:
    Flaky.plan = ["raise", "overload", "crash", "ok"]
    seen = bus.observe(Journalist())

    handle = bus.delegate("flaky.do", {"n": 7}, retry=Retry(attempts=9, on={"exception", "agent_crash"}, backoff=SOON))
    response = handle.result(PATIENCE)

    assert (response.status, response.data) == (Status.COMPLETED, 7)
    assert [one.status for one in handle.earlier] == ["FAILED_EXECUTION", "REJECTED_OVERLOAD", "FAILED_EXECUTION"]
    assert response.request_id == handle.request_id == handle.delegation.request_id == Flaky.ran[-1]
    assert len(set(Flaky.ran)) == 4
    assert bus.settle(seen)
    told = [one.delegation for one in seen.delegations]
    assert [one.request_id for one in told] == Flaky.ran
    first = Flaky.ran[0]
    assert [one.extensions.get("retry") for one in told] == [None, *({"attempt": n, "first": first} for n in (2, 3, 4))]
    assert {(one.from_agent, one.params["n"], one.attempt) for one in told} == {(bus.name, 7, 1)}


@pytest.mark.parametrize(("n", "on", "runs"), [(-1, (), 2), (1, {"quota"}, 2), (1, (), 1)])
def test_a_failure_with_a_code_of_its_own_is_tried_again_if_it_says_so_or_is_named(
    bus: Runtime, n: int, on: set[str], runs: int
) -> None:
    Flaky.plan[:] = ["quota"]
    handle = bus.delegate("flaky.do", {"n": n}, retry=Retry(on=on, backoff=SOON))

    assert handle.result(PATIENCE).ok is (runs == 2)
    assert [response.error and response.error.code for response in handle.earlier] == ["quota"] * (runs - 1)


@pytest.mark.parametrize("ending", ["raise", "ask", "hang"])
def test_what_was_not_asked_for_is_not_tried_again(bus: Runtime, ending: str) -> None:
    Flaky.plan = [ending]

    handle = bus.delegate("flaky.do", retry=Retry(backoff=SOON, timeout=0.15), timeout=PATIENCE)

    assert handle.result(PATIENCE).status is {
        "raise": Status.FAILED_EXECUTION, "ask": Status.NEEDS_INPUT, "hang": Status.TIMEOUT,
    }[ending]  # fmt: skip
    assert (len(Flaky.ran), handle.earlier) == (1, ())


def test_the_last_attempt_is_the_outcome(bus: Runtime) -> None:
    Flaky.plan = ["raise"] * 9

    handle = bus.delegate("flaky.do", retry=Retry(attempts=3, on={"FAILED_EXECUTION"}, backoff=SOON))

    assert handle.result(PATIENCE).error.message == "ValueError: no"
    assert (len(Flaky.ran), len(handle.earlier)) == (3, 2)


def test_an_attempt_has_its_own_timeout_and_all_have_that_of_the_whole(bus: Runtime) -> None:
    Flaky.plan = ["hang"] * 99
    began = time.monotonic()

    handle = bus.delegate("flaky.do", timeout=1.5, retry=Retry(attempts=99, timeout=0.1, on={"TIMEOUT"}, backoff=SOON))
    response = handle.result(PATIENCE)

    assert response.status is Status.TIMEOUT
    assert 2 <= len(handle.earlier) + 1 <= 15
    assert time.monotonic() - began < 4.0
    assert handle.deadline - began <= 1.6


def test_a_delay_that_would_pass_the_deadline_is_not_waited_for(bus: Runtime) -> None:
    Flaky.plan = ["raise"]
    retry = Retry(on={"exception"}, backoff=Backoff(initial=30.0, jitter=0.0))

    assert bus.delegate("flaky.do", timeout=5.0, retry=retry).result(3.0).status is Status.FAILED_EXECUTION
    assert len(Flaky.ran) == 1


def test_a_cancellation_ends_what_runs_and_what_waits(bus: Runtime) -> None:
    Flaky.plan = ["hang", "raise"]
    retry = Retry(on={"exception", "TIMEOUT"}, backoff=Backoff(initial=30.0))
    running = bus.delegate("flaky.do", retry=retry, timeout=60.0)
    while len(Flaky.ran) < 1:
        time.sleep(0.001)
    waiting = bus.delegate("flaky.do", retry=retry, timeout=60.0)
    while not waiting.earlier:
        time.sleep(0.001)

    for handle in (running, waiting):
        handle.cancel()
        assert handle.result(PATIENCE).status is Status.CANCELLED
        assert handle.result().error.code == "cancelled"
    assert len(Flaky.ran) == 2


def test_closing_ends_what_waits(bus: Runtime) -> None:
    Flaky.plan = ["raise"]
    handle = bus.delegate("flaky.do", retry=Retry(on={"exception"}, backoff=Backoff(initial=30.0)), timeout=60.0)
    while not handle.earlier:
        time.sleep(0.001)

    bus.close()

    assert (handle.result(PATIENCE).status, handle.result().error.code) == (Status.CANCELLED, "closed")


def test_progress_of_every_attempt_is_followed_and_callbacks_are_called_once(bus: Runtime) -> None:
    Flaky.plan = ["raise", "raise", "ok"]
    called: list[Status] = []
    handle = bus.delegate("flaky.do", retry=Retry(on={"exception"}, backoff=SOON))
    done = threading.Event()
    handle.add_done_callback(lambda handle: (called.append(handle.outcome().status), done.set()))

    assert [response.status for response in handle.stream()][-1] is Status.COMPLETED
    assert done.wait(PATIENCE)
    assert called == [Status.COMPLETED]

    async def awaited() -> Status:
        Flaky.plan = ["raise", "ok"]
        return (await bus.delegate("flaky.do", retry=Retry(on={"exception"}, backoff=SOON))).status

    assert asyncio.run(awaited()) is Status.COMPLETED


def test_a_handler_retries_within_its_own_deadline(bus: Runtime) -> None:
    Flaky.plan = ["raise", "raise", "ok"]
    assert bus.delegate("chief.do").result(PATIENCE).unwrap().data == ["COMPLETED", 2, None]

    Flaky.plan = ["raise"] * 99
    assert bus.delegate("chief.do").result(PATIENCE).unwrap().data == ["FAILED_EXECUTION", 2, "exception"]
    assert bus.delegate("flaky.do", to="chief").result().status is Status.REJECTED_CAPABILITY


def test_a_budget_that_is_used_up_ends_the_attempts(bus: Runtime) -> None:
    budget = Budget(max_cost=0.7)
    response = bus.delegate("chief.do", {"what": "flaky.cost"}, budget=budget).result(PATIENCE)

    assert response.data[:2] == ["FAILED_EXECUTION", len(Flaky.ran) - 1]
    assert 1 <= len(Flaky.ran) <= 2


def test_the_same_request_again_has_the_same_attempts(bus: Runtime) -> None:
    """A delegator that is restarted and says the same is given what has ended, and nothing runs again for it."""
    Flaky.plan = ["raise", "raise", "ok"]
    request = bus.node.resources.new_id()
    retry = Retry(on={"exception"}, backoff=SOON)

    first = bus.delegate("flaky.do", {"n": 3}, request_id=request, retry=retry)
    assert first.result(PATIENCE).data == 3
    again = bus.delegate("flaky.do", {"n": 3}, request_id=request, retry=retry)

    assert again.result(PATIENCE).data == 3
    assert again.request_id == first.request_id
    assert len(Flaky.ran) == 3


def test_what_was_refused_without_a_look_at_its_id_does_not_run_twice() -> None:
    """A delegator that is restarted says what it said before, and the link is full, or the journal cannot be read."""
    ran: list[str] = []

    class Once(Agent):
        @capability("once")
        def once(self, task: Task) -> int:
            ran.append(task.request_id)
            return len(ran)

    def unread(_request_id: bytes) -> Any:
        raise JournalUnavailable("no")

    for code in ("link_full", "journal_unavailable"):
        ran.clear()
        with TestRuntime() as bus, pytest.MonkeyPatch.context() as patch:
            bus.start(Once)
            request = bus.node.resources.new_id()
            assert bus.delegate("once", request_id=request, retry=Retry()).result().data == 1
            if code == "link_full":
                patch.setattr(bus.link, "backlog", -1)
            else:
                patch.setattr(bus._world.broker.supervisor.state, "outcome", unread)

            again = bus.delegate("once", request_id=request, retry=Retry(), timeout=30.0)
            bus.run()
            patch.undo()
            bus.advance(9.0)

            assert [response.error and response.error.code for response in again.earlier] == [code]
            assert (again.outcome().data, again.request_id, ran) == (1, request, [request])


def test_what_cannot_be_sent_is_raised_and_what_is_no_policy_is_refused(bus: Runtime) -> None:
    with pytest.raises(InvalidEnvelope):
        bus.delegate("two words", retry=Retry())
    with pytest.raises(UsageError, match=r"retry=3: a policy, as in retry=Retry\(attempts=3\)"):
        bus.delegate("flaky.do", retry=3)  # type: ignore[arg-type]
    assert bus.ask("flaky.do", {"n": 2}, retry=Retry()).data == 2


def test_many_at_once_end_each_once_and_leave_nothing(bus: Runtime) -> None:
    Flaky.plan = ["raise"] * 40
    handles = [
        bus.delegate("flaky.do", {"n": n}, retry=Retry(on={"exception"}, attempts=50, backoff=SOON)) for n in range(60)
    ]

    assert sorted(handle.result(PATIENCE).unwrap().data for handle in handles) == list(range(60))
    assert sum(len(handle.earlier) for handle in handles) == 40
    assert len(Flaky.ran) == len(set(Flaky.ran)) == 100
    assert not bus.node.outgoing._retried
    assert not bus.node.outgoing.pending


class RateLimited(Exception):
    retryable = True
    retry_after = 0.01


class Limited(Agent):
    runs = 0

    @capability("limited.do")
    def do(self) -> int:
        Limited.runs += 1
        if Limited.runs % 2:
            raise RateLimited("slow down")
        return Limited.runs


def test_an_exception_says_itself_that_it_may_go_better(bus: Runtime) -> None:
    Limited.runs = 0
    bus.start(Limited)
    handle = bus.delegate("limited.do", retry=Retry(backoff=SOON))

    assert handle.result(PATIENCE).data == 2
    assert [(one.error.code, one.error.retryable, one.retry_after) for one in handle.earlier] == [
        ("exception", True, 0.01)
    ]


class Holding(Agent):
    """Fails at first as the bus's own errors do, whatever the handler did before."""

    raised: ClassVar[list[Exception]] = []
    runs = 0

    @capability("holding.do")
    def do(self) -> int:
        Holding.runs += 1
        if Holding.raised:
            raise Holding.raised.pop(0)
        return Holding.runs


class Throttled(EtherError):
    code = "throttled"
    retryable = True
    retry_after = 0.02


@pytest.mark.parametrize(
    ("raised", "code", "runs"),
    [
        (LeaseHeld("a holds it"), "lease_held", 2),
        (ArtifactUnavailable("its node is gone"), "artifact_unavailable", 2),
        (ArtifactTooLarge("it has more than max_bytes"), "artifact_too_large", 1),
        (Throttled("slow down"), "throttled", 2),
        (WaitTimeout("a sub-delegation goes on"), "wait_timeout", 1),
        (BrokerUnavailable("perhaps it was sent"), "broker_unavailable", 1),
        (UsageError("no"), "usage", 1),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_error_of_the_bus_that_a_handler_does_not_catch_says_so_too(
    bus: Runtime, raised: EtherError, code: str, runs: int
) -> None:
    Holding.raised, Holding.runs = [raised], 0
    bus.start(Holding)
    handle = bus.delegate("holding.do", retry=Retry(backoff=SOON))
    outcome = handle.result(PATIENCE)

    failed = handle.earlier[0] if runs > 1 else outcome
    assert (failed.error.code, failed.error.retryable) == (code, raised.retryable)
    assert (outcome.ok, Holding.runs) == (runs > 1, runs)
    if isinstance(raised, Throttled):
        assert failed.retry_after == 0.02


class Passing(Agent):
    runs = 0

    @capability("passing.do")
    def do(self, task: Task) -> None:
        Passing.runs += 1
        task.delegate("limited.never").result().unwrap()

    @capability("limited.never")
    def never(self) -> None:
        raise RateLimited("slow down")


def test_the_retryable_outcome_of_a_sub_delegation_that_is_let_out_is_not_tried_again(bus: Runtime) -> None:
    Passing.runs = 0
    bus.start_many(Passing, 2)
    outcome = bus.delegate("passing.do", retry=Retry(backoff=SOON)).result(PATIENCE)

    assert (outcome.error.code, outcome.error.retryable, Passing.runs) == ("failed", False, 1)


def test_work_that_may_have_been_done_is_not_repeated_unasked(bus: Runtime) -> None:
    Flaky.plan = ["crash"]
    handle = bus.delegate("flaky.do", retry=Retry(backoff=SOON))

    assert handle.result(PATIENCE).error.code == "agent_crash"
    assert len(Flaky.ran) == 1


def test_further_attempts_are_copies_of_the_first(bus: Runtime) -> None:
    class Changing(Agent):
        def __init__(self) -> None:
            self.handle: Any = None

        @capability("changing.do")
        def do(self, task: Task) -> Any:
            params, context = {"n": 1}, {"v": 1}
            handle = task.delegate(
                "flaky.do", params, context=context, permissions={"can_delegate": True},
                retry=Retry(on={"exception"}, backoff=Backoff(initial=0.3, jitter=0.0)),
            )  # fmt: skip
            while not handle.earlier:
                time.sleep(0.001)
            params["n"], context["v"] = 2, 2
            return [handle.result().data, handle.delegation.context_slice["v"], dict(handle.delegation.permissions)]

    Flaky.plan = ["raise", "ok"]
    bus.start(Changing)
    assert bus.delegate("changing.do").result(PATIENCE).unwrap().data == [1, 1, {"can_delegate": True}]


def test_the_ids_of_attempts_are_of_their_process_or_no_process(bus: Runtime) -> None:
    """The bus keeps a row for each process whose ids rise: an attempt must not look like another process."""
    Flaky.plan = ["raise", "ok", "raise", "ok"]
    retry = Retry(on={"exception"}, backoff=SOON)

    bus.delegate("flaky.do", retry=retry).result(PATIENCE)
    bus.delegate("flaky.do", retry=retry, request_id=bus.node.resources.new_id()).result(PATIENCE)

    first, second, third, named = map(to_bytes, Flaky.ran)
    assert first[PROCESS] == second[PROCESS] == third[PROCESS]
    assert first < second
    assert not is_rising(named)


@pytest.mark.parametrize("least", [None, 0.1])
def test_the_budgets_time_is_for_all_attempts(bus: Runtime, least: float | None) -> None:
    Flaky.plan = ["hang"] * 99
    began = time.monotonic()
    retry = Retry(attempts=99, timeout=least, on={"TIMEOUT"}, backoff=SOON)

    bus.delegate("flaky.do", timeout=30.0, budget=Budget(max_time_sec=0.6), retry=retry).result(PATIENCE)

    assert time.monotonic() - began < 3.0


def test_a_close_while_an_outcome_is_judged_leaves_nobody_waiting(
    bus: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, goes_on = threading.Event(), threading.Event()
    delay = Retry.delay

    def slow(self: Retry, *args: Any) -> float | None:
        judged.set()
        goes_on.wait(PATIENCE)
        return delay(self, *args)

    monkeypatch.setattr(Retry, "delay", slow)
    Flaky.plan = ["raise"]
    handle = bus.delegate("flaky.do", retry=Retry(on={"exception"}, backoff=Backoff(initial=30.0)), timeout=60.0)
    assert judged.wait(PATIENCE)
    outgoing = bus.node.outgoing
    threading.Timer(0.2, goes_on.set).start()
    outgoing.close()

    assert handle.result(PATIENCE).status in {Status.CANCELLED, Status.FAILED_EXECUTION}
    assert not outgoing._retried


def test_whatever_keeps_an_attempt_from_being_made_ends_it(bus: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    Flaky.plan = ["raise"]
    handle = bus.delegate("flaky.do", retry=Retry(on={"exception"}, backoff=Backoff(initial=0.2)), timeout=60.0)
    while not handle.earlier:
        time.sleep(0.001)
    monkeypatch.setattr(bus.node.outgoing, "delegate", lambda *_args: 1 / 0)

    assert handle.result(PATIENCE).error.message == "ValueError: no"
    assert handle.earlier == ()


def test_a_cancelled_delay_keeps_nothing(bus: Runtime) -> None:
    Flaky.plan = ["raise"] * 9
    policy = Retry(on={"exception"}, backoff=Backoff(initial=1_000.0, maximum=1_000.0))
    handles = [bus.delegate("flaky.do", timeout=9_000.0, retry=policy) for _ in range(9)]
    kept = [weakref.ref(handle._owner) for handle in handles]
    while not all(handle.earlier for handle in handles):
        time.sleep(0.001)
    for handle in handles:
        handle.cancel()
        assert handle.result(PATIENCE).status is Status.CANCELLED
    del handle, handles
    gc.collect()

    assert [one() for one in kept] == [None] * 9


class Attempts(RuleBasedStateMachine):
    """One delegation after another with random policies and endings, under a clock that a test moves."""

    @initialize()
    def a_bus(self) -> None:
        Flaky.plan, Flaky.ran = [], []
        self.bus = TestRuntime().__enter__()
        self.bus.start(Flaky)
        self.open: list[tuple[Any, Retry, float]] = []

    @rule(
        plan=st.lists(st.sampled_from(["raise", "overload", "ok", "crash", "ask"]), max_size=4), attempts=st.integers(1, 4),
        on=st.sets(st.sampled_from(["exception", "NEEDS_INPUT"])), initial=st.sampled_from([0.0, 0.5, 5.0]),
        timeout=st.sampled_from([1.0, 8.0]), least=st.none() | st.just(0.5),
    )  # fmt: skip
    def delegates(self, *, plan: Any, attempts: int, on: Any, initial: float, timeout: float, least: Any) -> None:
        Flaky.plan += plan
        retry = Retry(attempts=attempts, on=on, backoff=Backoff(initial=initial), timeout=least)
        handle = self.bus.delegate("flaky.do", timeout=timeout, retry=retry)
        self.open.append((handle, retry, self.bus.node.resources.monotonic() + timeout))

    @rule(seconds=st.sampled_from([0.1, 0.6, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.bus.advance(seconds)

    @rule(place=st.integers(0, 5))
    def is_cancelled(self, place: int) -> None:
        if place < len(self.open):
            handle = self.open[place][0]
            was_done = handle.done
            handle.cancel()
            self.bus.advance(0.0)
            assert was_done or handle.done

    @invariant()
    def nothing_is_beyond_its_bounds(self) -> None:
        if not hasattr(self, "bus"):
            return
        now = self.bus.node.resources.monotonic()
        for handle, retry, deadline in self.open:
            assert len(handle.earlier) < retry.attempts
            assert handle.done or now <= deadline + 1.5, "it ended with its deadline"
        assert len(Flaky.ran) == len(set(Flaky.ran)), "no attempt ran twice"

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.bus.advance(20.0)
            assert all(handle.done for handle, *_ in self.open)
            assert not self.bus.node.outgoing._retried
            self.bus.__exit__(None, None, None)


TestAttempts = Attempts.TestCase
TestAttempts.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
