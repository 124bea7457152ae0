"""A bus within one process, without sockets."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ether import Agent, Handle, Runtime, Status, UsageError, capability
from ether.node import embedded_broker
from ether.node.node import Node
from ether_actors.supervisor.supervisor_actor import SupervisorActor
from ether_broker.transport.in_process import link as in_process_link
from ether_broker.transport.in_process.server import InProcessServer
from tests.support import child_environment, wait_until

PATIENCE = 20.0


class Echo(Agent):
    @capability("echo.back")
    def back(self, number: int) -> int:
        return number


class Waiting(Agent):
    max_concurrency = 4
    may_end = threading.Event()

    @capability("wait.long")
    def long(self) -> None:
        self.may_end.wait(PATIENCE)


@pytest.fixture
def waiting() -> Iterator[Runtime]:
    """A bus with both agents; what waits ends at its end."""
    Waiting.may_end.clear()
    with Runtime() as bus:
        bus.start(Echo)
        bus.start(Waiting)
        yield bus
        Waiting.may_end.set()


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """{thread: steps of brokers that had something to take}."""
    threads: Counter[str] = Counter()
    step = SupervisorActor._step

    def counted(self: SupervisorActor, arrivals: Any) -> float:
        if self._shared is not None and self._shared.has_news:
            threads[threading.current_thread().name.rstrip("0123456789-")] += 1
        return step(self, arrivals)

    monkeypatch.setattr(SupervisorActor, "_step", counted)
    return threads


def test_a_bus_is_stepped_in_the_threads_of_its_pool_and_in_none_of_a_users(stepped: Counter[str]):
    with Runtime() as bus:
        bus.start(Echo)
        stepped.clear()
        for number in range(200):
            bus.delegate("echo.back", {"number": number}).result()

    assert stepped["MainThread"] == 0
    assert stepped["ether-pool"] >= 350
    assert sum(stepped.values()) - stepped["ether-pool"] <= 50


def test_while_all_threads_of_the_pool_are_busy_the_actor_steps(stepped: Counter[str]):
    may_end, started = threading.Event(), threading.Semaphore(0)

    class Busy(Agent):
        max_concurrency = 2

        @capability("busy.long")
        def long(self) -> None:
            started.release()
            may_end.wait(PATIENCE)

    with Runtime(threads=2) as bus:
        bus.start(Busy)
        handles = [bus.delegate("busy.long") for _ in range(2)]
        assert all(started.acquire(timeout=PATIENCE) for _ in range(2))
        stepped.clear()

        queued = bus.delegate("busy.long")
        wait_until(lambda: stepped["SupervisorActor"] >= 1)
        queued.cancel()
        assert queued.result(timeout=PATIENCE).status is Status.CANCELLED
        may_end.set()
        assert all(handle.result(timeout=PATIENCE).status is Status.COMPLETED for handle in handles)


def test_a_callback_may_take_a_lock_that_whoever_delegates_has(waiting: Runtime):
    """An outcome comes while others delegate, in whose threads the broker is stepped."""
    lock, done = threading.Lock(), threading.Semaphore(0)

    def note(handle: Handle) -> None:
        with lock:
            done.release()

    def delegate() -> None:
        for _ in range(50):
            handle = waiting.delegate("wait.long")
            handle.add_done_callback(note)
            with lock:
                Waiting.may_end.set()
                assert all(waiting.delegate("echo.back", {"number": n}).result().data == n for n in range(5))
                Waiting.may_end.clear()

    threads = [threading.Thread(target=delegate, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    Waiting.may_end.set()

    assert not any(thread.is_alive() for thread in threads)
    assert all(done.acquire(timeout=PATIENCE) for _ in range(100))


def test_callbacks_run_in_the_receiving_thread_and_one_that_fails_ends_nothing():
    threads: list[str] = []

    def fail(handle: Handle) -> None:
        threads.append(threading.current_thread().name)
        raise ValueError

    with Runtime() as bus:
        bus.start(Echo)
        for number in range(3):
            bus.delegate("echo.back", {"number": number}).add_done_callback(fail)
        wait_until(lambda: len(threads) >= 2, what="the callbacks")
        assert bus.delegate("echo.back", {"number": 1}).result().data == 1

    assert set(threads) <= {"ether-link-receive", "MainThread"}
    assert "ether-link-receive" in threads


def test_a_deadline_that_comes_sooner_than_all_that_the_broker_waits_for_is_kept(waiting: Runtime):
    began = time.monotonic()
    outcome = waiting.delegate("wait.long", timeout=0.15).result(timeout=PATIENCE)

    assert outcome.status is Status.TIMEOUT
    assert outcome.from_agent == "ether"
    assert time.monotonic() - began >= 0.15


def test_a_log_handler_may_take_a_lock_that_whoever_delegates_has():
    lock, lines = threading.Lock(), []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with lock:
                lines.append(record.getMessage())

    handler, logger = Handler(), logging.getLogger("ether.supervisor")
    logger.addHandler(handler)
    step = SupervisorActor._step

    def log(self: SupervisorActor, arrivals: Any) -> float:
        logger.warning("a step")
        return step(self, arrivals)

    try:
        with pytest.MonkeyPatch.context() as patch, Runtime() as bus:
            bus.start(Echo)
            patch.setattr(SupervisorActor, "_step", log)
            for number in range(100):
                with lock:
                    handle = bus.delegate("echo.back", {"number": number})
                assert handle.result(timeout=PATIENCE).data == number
    finally:
        logger.removeHandler(handler)
    assert len(lines) >= 100


def test_who_waits_within_a_step_is_told_so():
    told: list[BaseException] = []

    class Asks:
        """A user's object whose end asks the bus."""

        def __del__(self) -> None:
            try:
                bus.delegate("echo.back", {"number": 1}).result(timeout=PATIENCE)
            except UsageError as error:
                told.append(error)

    with Runtime() as bus:
        bus.start(Echo)
        step = SupervisorActor._step

        def ask(self: SupervisorActor, arrivals: Any) -> float:
            due = step(self, arrivals)
            if not told:
                Asks()
            return due

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SupervisorActor, "_step", ask)
            bus.delegate("echo.back", {"number": 2}).result(timeout=PATIENCE)

    assert "must not wait" in str(told[0])


def test_who_waits_as_what_has_come_is_taken_is_told_so_too(monkeypatch: pytest.MonkeyPatch):
    told: list[BaseException] = []
    receive = InProcessServer.receive

    def ask(self: InProcessServer, timeout: float) -> Any:
        if not told:
            try:
                bus.delegate("echo.back", {"number": 1}).result(timeout=PATIENCE)
            except UsageError as error:
                told.append(error)
        return receive(self, timeout)

    with Runtime() as bus:
        bus.start(Echo)
        monkeypatch.setattr(InProcessServer, "receive", ask)
        assert bus.delegate("echo.back", {"number": 2}).result(timeout=PATIENCE).data == 2

    assert "must not wait" in str(told[0])


@pytest.mark.parametrize("place", ["step", "tick"])
def test_a_bus_is_closed_by_who_has_the_lock_that_a_log_handler_waits_for(place: str, monkeypatch: pytest.MonkeyPatch):
    lock, waits = threading.Lock(), threading.Event()

    def log(*_: object) -> float:
        waits.set()
        with lock:
            return 0.1

    monkeypatch.setattr(embedded_broker, "_PATIENCE", 0.2)
    with lock, Runtime(drain=0.2) as bus:
        bus.start(Echo)
        owner, name = (SupervisorActor, "_step") if place == "step" else (Node, "ticked")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, log)
            assert waits.wait(PATIENCE)
        began = time.monotonic()
        bus.close()
        assert time.monotonic() - began < PATIENCE


def test_a_bus_that_a_finalizer_closes_within_a_tick_ends(monkeypatch: pytest.MonkeyPatch):
    closed = threading.Event()
    bus = Runtime(drain=0.2)
    bus.open()

    def close(self: Node) -> float:
        patch.undo()
        bus.close()
        closed.set()
        return 0.1

    monkeypatch.setattr(embedded_broker, "_PATIENCE", 0.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Node, "ticked", close)
        assert closed.wait(PATIENCE)


def test_new_work_is_refused_while_more_callbacks_wait_than_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(in_process_link, "_MOST_CALLS", 10)
    may_go_on = threading.Event()
    with Runtime() as bus:
        bus.start(Echo)
        bus.delegate("echo.back", {"number": 0}).add_done_callback(lambda _: may_go_on.wait(PATIENCE))
        handles: list[Handle] = []
        while not (handles and handles[-1].done and handles[-1].result().status is Status.REJECTED_OVERLOAD):
            handles.append(bus.delegate("echo.back", {"number": len(handles)}))
            handles[-1].add_done_callback(lambda _: None)
            handles[-1].result(timeout=PATIENCE)
        refused = handles[-1].result()
        may_go_on.set()
        wait_until(lambda: bus.delegate("echo.back", {"number": 1}).result().status is Status.COMPLETED)

    assert refused.error is not None
    assert refused.error.code == "link_full"
    assert 10 <= len(handles) <= 20


def test_a_log_handler_that_exits_in_a_step_crashes_no_agent(caplog: pytest.LogCaptureFixture):
    step, exits = SupervisorActor._step, [0]

    def leave(self: SupervisorActor, arrivals: Any) -> float:
        has_news = self._shared is not None and self._shared.has_news
        due = step(self, arrivals)
        if has_news and threading.current_thread().name.startswith("ether-pool"):
            exits[0] += 1
            raise SystemExit
        return due

    with Runtime() as bus:
        bus.start(Echo)
        assert bus.delegate("echo.back", {"number": 1}).result(timeout=PATIENCE).data == 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SupervisorActor, "_step", leave)
            outcomes = [bus.delegate("echo.back", {"number": n}).result(timeout=PATIENCE) for n in range(20)]

    assert exits[0] >= 20
    assert [outcome.data for outcome in outcomes] == list(range(20))
    assert "crashed" not in caplog.text


def test_delegating_deep_in_a_recursion_works():
    with Runtime() as bus:
        bus.start(Echo)

        def descend(depth: int) -> object:
            return descend(depth - 1) if depth else bus.delegate("echo.back", {"number": 7}).result().data

        assert descend(sys.getrecursionlimit() - 150) == 7


INTERRUPTED = """
import signal, subprocess, sys, time
from ether import Agent, Runtime, capability

class Echo(Agent):
    @capability("echo.back")
    def back(self, number: int) -> int:
        return number

SENDER = '''
import os, random, signal, time
parent = os.getppid()
random.seed(7)
while os.getppid() == parent:
    time.sleep(random.random() / 500)
    os.kill(parent, signal.SIGINT)
'''
is_armed, came, handles = False, 0, []

def interrupt(*_):
    global is_armed
    if is_armed:
        is_armed = False
        raise KeyboardInterrupt

def delegate():
    while time.monotonic() < end:
        number = len(handles)
        handles.append(bus.delegate("echo.back", {"number": number}))
        if number % 3:
            handles[-1].result(timeout=10.0)

signal.signal(signal.SIGINT, interrupt)
with Runtime() as bus:
    bus.start(Echo)
    sender = subprocess.Popen([sys.executable, "-c", SENDER])
    end = time.monotonic() + 4.0
    while time.monotonic() < end:
        try:
            is_armed = True
            delegate()
        except KeyboardInterrupt:
            came += 1
    is_armed = False
    sender.kill()
    sender.wait()
    wrong = [number for number, handle in enumerate(handles) if handle.result(timeout=10.0).data != number]
    still = bus.delegate("echo.back", {"number": 1}).result(timeout=10.0).data
print(came > 50, len(handles) > 200, wrong, still)
"""


@pytest.mark.slow
def test_a_delegator_that_is_interrupted_again_and_again_leaves_the_bus_whole():
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.stdout.strip(), run.returncode) == ("True True [] 1", 0), run.stderr
    assert "broke the supervisor's step" not in run.stderr
