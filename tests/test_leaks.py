from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time

import pytest
import zmq

from tests.leaks import Census, leaked_since
from tests.support import process_is_alive, wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_test_that_closes_everything_leaks_nothing() -> None:
    before = Census.take()
    subprocess.run([sys.executable, "-c", ""], check=True)
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.bind("tcp://127.0.0.1:*")
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()

    assert leaked_since(before) == []


def test_a_message_sent_without_a_copy_leaks_nothing() -> None:
    before = Census.take()
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        one.bind("inproc://here")
        other.connect("inproc://here")
        one.send(bytes(1 << 20), copy=False)
        assert len(other.recv()) == 1 << 20

    assert leaked_since(before) == []


def test_a_thread_that_goes_on_is_told_with_its_stack() -> None:
    before, done = Census.take(), threading.Event()
    thread = threading.Thread(target=done.wait, name="forgotten")
    thread.start()

    (left,) = leaked_since(before, patience=0.0)

    assert "'forgotten'" in left
    assert "threading.py" in left
    done.set()
    thread.join()


def test_an_open_socket_is_told_with_its_address() -> None:
    before = Census.take()
    with socket.create_server(("127.0.0.1", 0)) as server:
        (left,) = leaked_since(before, patience=0.0)

        assert str(server.getsockname()[1]) in left


def test_a_zeromq_context_that_was_not_terminated_is_seen() -> None:
    before = Census.take()
    with zmq.Context() as context:
        context.socket(zmq.PAIR).close()  # the context starts its threads with its first socket

        assert all("ZeroMQ context" in left for left in leaked_since(before, patience=0.0))
        assert leaked_since(before, patience=0.0)


def test_a_child_process_is_told_with_its_command_and_killed() -> None:
    before = Census.take()
    child = subprocess.Popen(SLEEP, env={})

    (left,) = leaked_since(before, patience=0.0)

    assert "time.sleep(600)" in left
    assert not process_is_alive(child.pid)
    child.wait()


def test_a_child_that_was_not_waited_for_is_seen() -> None:
    before = Census.take()
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait_until(lambda: not process_is_alive(child.pid))

    (left,) = leaked_since(before, patience=0.0)

    assert "never waited for" in left
    child.wait()


def test_a_grandchild_whose_parent_died_is_seen_and_killed() -> None:
    before = Census.take()
    parent = f"import subprocess; print(subprocess.Popen({SLEEP!r}, stdout=-3).pid)"
    orphan = int(subprocess.check_output([sys.executable, "-W", "ignore", "-c", parent]))

    (left,) = leaked_since(before, patience=0.0)

    assert f"process {orphan}" in left
    wait_until(lambda: not process_is_alive(orphan))


def test_what_is_still_closing_gets_its_time() -> None:
    before = Census.take()
    threading.Timer(0.05, int).start()

    assert leaked_since(before) == []


def test_a_census_costs_a_test_less_than_five_milliseconds() -> None:
    Census.take()
    costs = []
    for _ in range(5):
        start = time.thread_time()
        before = Census.take()
        assert leaked_since(before) == []
        costs.append(time.thread_time() - start)

    assert min(costs) < 0.005


def test_wait_until_gives_what_the_condition_gave() -> None:
    answers = iter([None, 0, "ready"])

    assert wait_until(lambda: next(answers), timeout=60.0) == "ready"


def test_wait_until_says_what_did_not_happen() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: the node is up; the last value was \[\]"):
        wait_until(list, timeout=0.0, what="the node is up")


def test_a_process_that_never_was_is_not_alive() -> None:
    assert process_is_alive(os.getpid())
    assert not process_is_alive(2**22 + 1)
