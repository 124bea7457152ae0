"""A flag that is set once, and waited for."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from ether_actors.threads.latch import Latch

PATIENCE = 10.0


def test_a_wait_ends_when_it_is_set_and_at_once_afterwards():
    latch = Latch()
    was_set = latch.is_set()
    waits = [threading.Thread(target=lambda: seen.append(latch.wait(PATIENCE))) for _ in range(3)]
    seen: list[bool] = []
    for thread in waits:
        thread.start()
    latch.set()
    latch.set()
    for thread in waits:
        thread.join()

    assert (was_set, latch.is_set()) == (False, True)
    assert seen == [True] * 3
    assert (latch.wait(), latch.wait(0.0), latch.wait(-1.0)) == (True, True, True)


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 0.05, 1.05])
def test_a_wait_ends_when_its_time_is_up(timeout: float):
    began = time.monotonic()

    assert not Latch().wait(timeout)
    assert max(0.0, timeout) - 0.01 <= time.monotonic() - began < PATIENCE


def test_many_may_set_it_at_once():
    for _ in range(200):
        latch = Latch()
        threads = [threading.Thread(target=latch.set) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert latch.wait(PATIENCE)
        for thread in threads:
            thread.join()


def test_a_wait_that_is_interrupted_keeps_nobody_from_setting_it():
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    latch, before = Latch(), signal.signal(signal.SIGINT, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    try:
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            latch.wait(PATIENCE)
    finally:
        signal.signal(signal.SIGINT, before)
    thread = threading.Thread(target=latch.set)
    thread.start()
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert latch.wait(PATIENCE)
