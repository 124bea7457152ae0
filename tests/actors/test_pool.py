from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from ether_actors.pool import Pool, current_pool

PATIENCE = 10.0


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2, "test-pool")
    yield made
    assert made.close() == 0


def run(pool: Pool, call) -> None:
    """Run a call in the pool and wait for its end."""
    done = threading.Event()
    pool.submit(lambda: (call(), done.set()))
    assert done.wait(PATIENCE)


def occupy(pool: Pool, count: int) -> threading.Event:
    """Keep `count` threads busy until the event is set."""
    release = threading.Event()
    started = threading.Semaphore(0)
    for _ in range(count):
        pool.submit(lambda: (started.release(), release.wait(PATIENCE)))
    for _ in range(count):
        assert started.acquire(timeout=PATIENCE)
    return release


def test_an_idle_pool_has_no_thread_and_one_that_works_has_no_more_than_its_size(pool: Pool):
    assert pool.threads == 0

    for _ in range(20):
        run(pool, lambda: None)

    assert 1 <= pool.threads <= 2


def test_calls_run_in_the_order_in_which_they_were_submitted():
    pool = Pool(1)
    seen: list[int] = []
    release = occupy(pool, 1)
    for number in range(50):
        pool.submit(lambda number=number: seen.append(number))
    release.set()

    run(pool, lambda: None)

    assert seen == list(range(50))
    assert pool.close() == 0


def test_a_thread_of_the_pool_knows_its_pool(pool: Pool):
    seen = []

    run(pool, lambda: seen.append(current_pool()))

    assert seen == [pool]
    assert current_pool() is None


def test_while_a_thread_waits_another_takes_its_place(pool: Pool):
    release = threading.Event()
    started = threading.Semaphore(0)

    def wait() -> None:
        with pool.blocking():
            started.release()
            release.wait(PATIENCE)

    for _ in range(20):
        pool.submit(wait)
    for _ in range(20):
        assert started.acquire(timeout=PATIENCE)
    run(pool, lambda: None)
    assert pool.threads >= 20

    release.set()
    for _ in range(200):
        run(pool, lambda: None)
        if pool.threads <= 2:
            break
    assert pool.threads < 20


def test_what_was_submitted_before_a_thread_began_to_wait_gets_a_thread_too():
    pool = Pool(1)
    inner = threading.Event()

    def outer() -> None:
        pool.submit(inner.set)  # no thread is free for it, and none may be added yet
        with pool.blocking():
            assert inner.wait(PATIENCE)

    run(pool, outer)

    assert pool.close() == 0


def test_threads_that_are_stuck_without_saying_so_are_relieved_once_nothing_moves(pool: Pool):
    release = occupy(pool, 2)
    done = threading.Event()
    pool.submit(done.set)

    pool.relieve()
    assert pool.threads == 2
    pool.relieve()

    assert done.wait(PATIENCE)
    release.set()


def test_a_busy_pool_that_moves_is_not_relieved(pool: Pool):
    for _ in range(5):
        run(pool, lambda: None)
        pool.relieve()

    assert pool.threads <= 2


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_call_that_raises_is_logged_and_costs_no_thread(error: type[BaseException], caplog):
    pool = Pool(1)

    def fail() -> None:
        raise error("boom")

    with caplog.at_level(logging.ERROR, "ether.pool"):
        pool.submit(fail)
        run(pool, lambda: None)

    assert "bug of the bus" in caplog.text
    assert pool.threads == 1
    assert pool.close() == 0


def test_closing_lets_what_runs_finish_and_drops_what_comes_after():
    pool = Pool(1)
    finished: list[str] = []
    release = occupy(pool, 1)
    pool.submit(lambda: finished.append("waiting"))
    closer = threading.Timer(0.0, release.set)
    closer.start()

    assert pool.close() == 0
    pool.submit(lambda: finished.append("late"))

    assert finished == ["waiting"]
    assert pool.threads == 0
    closer.join()


def test_closing_says_how_many_threads_are_stuck():
    pool = Pool(2)
    release = occupy(pool, 1)

    assert pool.close(timeout=0.05) == 1

    release.set()
    assert pool.close() == 0


def test_a_hundred_nested_waits_end_on_a_pool_of_four():
    pool = Pool(4)

    def nest(depth: int, done: threading.Event) -> None:
        if depth:
            below = threading.Event()
            pool.submit(lambda: nest(depth - 1, below))
            with pool.blocking():
                assert below.wait(PATIENCE)
        done.set()

    done = threading.Event()
    pool.submit(lambda: nest(100, done))

    assert done.wait(PATIENCE)
    assert pool.close() == 0
