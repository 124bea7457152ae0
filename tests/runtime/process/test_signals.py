from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ether.cluster.broker_main import BROKEN, _serve
from ether.process.signals import Stopping
from tests.support import child_environment, wait_until


def refuse(number: int) -> None:
    raise AssertionError(f"signal {number} was not to end it at once")


def test_the_first_signal_asks_for_an_end_and_the_second_ends_at_once():
    at_once: list[int] = []
    with Stopping(at_once.append) as stopping:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(5.0) == "SIGTERM"
        assert at_once == []
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(5.0) == "SIGINT"

    assert at_once == [signal.SIGINT]
    assert (stopping.signals, stopping.last) == (2, signal.SIGINT)


WAITS = """
import threading
from ether.process.signals import Stopping

threading.Thread(target=threading.Event().wait, daemon=True).start()
with Stopping(lambda number: None) as stopping:
    print("up", flush=True)
    print(stopping.wait(), flush=True)
"""


@pytest.mark.slow
def test_a_signal_that_came_while_the_process_was_stopped_ends_it_when_it_goes_on():
    waiting = [sys.executable, "-c", WAITS]
    with subprocess.Popen(waiting, stdout=subprocess.PIPE, text=True, env=child_environment()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: state_of(process.pid) == "T", what="it is stopped")
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)

            assert process.communicate(timeout=20)[0] == "SIGTERM\n"
        finally:
            process.kill()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_an_end_can_be_asked_for_from_within():
    with Stopping(refuse) as stopping:
        assert stopping.wait(0.0) is None
        stopping.post("a tree gave up")
        assert stopping.wait(0.0) == "a tree gave up"
        assert stopping.signals == 0


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_hangup_that_was_ignored_may_ask_for_something_but_never_for_the_end(is_taken: bool):
    asked: list[bool] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stopping(refuse, lambda: asked.append(is_taken) or is_taken) as stopping:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopping.wait(0.0) is None
            assert (asked, stopping.signals) == ([is_taken], 0)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back_and_what_was_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stopping(refuse) as stopping:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopping.wait(0.0) is None
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


class FakeSupervisor:
    """A supervisor whose nodes leave one by one."""

    def __init__(self, nodes: int, *, is_alive: bool = True) -> None:
        self.nodes = nodes
        self.alive = is_alive
        self.asked = 0

    def is_alive(self) -> bool:
        return self.alive

    def ask(self, _count: object, timeout: float) -> int:
        self.asked += 1
        self.nodes -= 1
        return self.nodes


def test_a_broker_whose_supervisor_has_ended_ends_too():
    with Stopping(refuse) as stopping:
        assert _serve(stopping, FakeSupervisor(1, is_alive=False), 5.0) == BROKEN


@pytest.mark.parametrize(
    ("number", "drain", "asked"),
    [(signal.SIGTERM, 60.0, 2), (signal.SIGTERM, 0.0, 0), (signal.SIGINT, 60.0, 0)],
    ids=["until they have left", "for as long as it may", "not at all"],
)
def test_a_broker_that_is_told_to_end_waits_for_its_nodes(number: int, drain: float, asked: int):
    supervisor = FakeSupervisor(2)
    with Stopping(refuse) as stopping:
        os.kill(os.getpid(), number)
        assert _serve(stopping, supervisor, drain) == 0

    assert supervisor.asked == asked


def test_a_second_signal_ends_the_brokers_patience():
    supervisor = FakeSupervisor(1_000_000)
    with Stopping(lambda _number: None) as stopping:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert _serve(stopping, supervisor, 60.0) == 0

    assert supervisor.asked == 0
