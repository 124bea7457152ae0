from __future__ import annotations

import itertools
import logging
import threading
import types
from collections.abc import Iterator

import pytest

from ether_actors.agent.agent import Agent
from ether_actors.threads import pool as pools
from ether_actors.threads.pool import Pool, Room, this_thread
from tests.support import wait_until

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


def test_who_waits_for_what_was_asked_with_a_pykka_ref_leaves_its_place_to_another():
    pool = Pool(1)
    answer = Agent._create_future()
    seen: list[object] = []

    def ask() -> None:
        pool.submit(lambda: answer.set("answered"))
        seen.append(answer.get(timeout=PATIENCE))

    run(pool, ask)

    assert seen == ["answered"]
    assert pool.close() == 0


def wait_in(pool: Pool, count: int) -> threading.Event:
    """Have `count` more threads wait in `blocking` until the event is set."""
    release = threading.Event()
    started = threading.Semaphore(0)

    def wait() -> None:
        with pool.blocking():
            started.release()
            release.wait(PATIENCE)

    for _ in range(count):
        pool.submit(wait)
        assert started.acquire(timeout=PATIENCE)
    return release


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Two threads may wait while all is begun, and four at all."""
    monkeypatch.setattr(pools, "MANY_THREADS_WAITING", 2)
    monkeypatch.setattr(pools, "MOST_THREADS_WAITING", 4)
    made = Pool(1, "test-pool")
    yield made
    assert made.close() == 0


def test_the_more_wait_the_less_is_begun_and_yet_every_call_runs(small: Pool):
    rooms = []
    releases = []
    for _ in range(6):
        rooms.append(small.room)
        releases.append(wait_in(small, 1))
        run(small, lambda: None)

    assert rooms == [Room.ALL, Room.ALL, Room.SUB_DELEGATIONS, Room.SUB_DELEGATIONS, Room.NONE, Room.NONE]

    for release in releases:
        release.set()
    wait_until(lambda: small.room is Room.ALL)


def test_what_is_held_is_woken_one_after_the_other_once_fewer_wait(small: Pool):
    release = wait_in(small, 2)
    woken: list[int] = []
    for number in range(5):
        small.call_when_room(lambda number=number: small.submit(lambda: woken.append(number)))
    run(small, lambda: None)
    assert woken == []

    release.set()

    wait_until(lambda: woken == [0, 1, 2, 3, 4])


def test_while_nothing_moves_twice_as_much_of_what_is_held_is_let_in_each_time(small: Pool, monkeypatch):
    monkeypatch.setattr(small, "_most", 100)
    release = wait_in(small, 2)
    rooms: list[Room] = []
    for _ in range(10):
        small.call_when_room(lambda: rooms.append(small.room))

    woken = []
    for _ in range(4):
        small.relieve()
        woken.append(len(rooms))

    assert woken == [0, 1, 3, 7]
    assert set(rooms) == {Room.ALL}
    release.set()


def test_what_is_held_where_nothing_has_room_is_woken_to_be_refused(small: Pool):
    release = wait_in(small, 4)
    rooms: list[Room] = []
    for _ in range(10):
        small.call_when_room(lambda: small.submit(lambda: rooms.append(small.room)))

    small.relieve()
    small.relieve()

    wait_until(lambda: rooms == [Room.NONE] * 10)
    release.set()


def test_one_callable_is_held_once(small: Pool):
    woken: list[None] = []

    def wake() -> None:
        woken.append(None)

    release = wait_in(small, 2)
    small.call_when_room(wake)
    small.call_when_room(wake)
    release.set()
    run(small, lambda: None)

    wait_until(lambda: woken == [None])


def test_where_the_system_gives_no_more_threads_fewer_wait(monkeypatch, caplog):
    pool = Pool(2)
    release = wait_in(pool, 8)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("ether-pool"):
            msg = "can't start new thread"
            raise RuntimeError(msg)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = threading.Event()
    with caplog.at_level(logging.WARNING, "ether.pool"):
        pool.submit(done.set)

    assert "no more than 8 threads" in caplog.text
    assert pool.room is Room.NONE
    release.set()  # whoever has waited runs it then
    assert done.wait(PATIENCE)
    wait_until(lambda: pool.room is Room.ALL)
    assert pool.close() == 0


def refuse_threads(monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Have the system give none to pools so often; the names of those that were asked for are noted."""
    start, asked = threading.Thread.start, []

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("ether-pool"):
            asked.append(thread.name)
            if len(asked) <= times:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return asked


def test_a_thread_that_was_refused_is_asked_for_again_and_as_many_wait_as_before(monkeypatch):
    pool = Pool(1)
    release = wait_in(pool, 3)
    monkeypatch.setattr(pools, "_AGAIN", 0.0)
    refuse_threads(monkeypatch, 2)
    done = threading.Event()
    pool.submit(done.set)
    assert pool.room is Room.NONE

    pool.relieve()
    assert (pool.room, done.is_set()) == (Room.NONE, False)
    pool.relieve()

    assert done.wait(PATIENCE)
    assert (pool.room, pool._many, pool._most) == (Room.ALL, pools.MANY_THREADS_WAITING, pools.MOST_THREADS_WAITING)
    many = wait_in(pool, 20)
    run(pool, lambda: None)
    assert pool.room is Room.ALL
    for event in (release, many):
        event.set()
    assert pool.close() == 0


def test_a_system_that_gives_no_threads_is_asked_once_in_a_while(monkeypatch, caplog):
    pool = Pool(2)
    monkeypatch.setattr(pools, "_AGAIN", 3600.0)
    asked = refuse_threads(monkeypatch, 1000)
    ran: list[int] = []

    for number in range(10):
        pool.submit(lambda number=number: ran.append(number))
        pool.relieve()
        pool.ask_again()
    assert len(asked) == 1

    monkeypatch.setattr(pools, "_AGAIN", 0.0)
    pool._ask_at = 0.0
    for _ in range(3):
        pool.ask_again()
    assert len(asked) == 4
    assert caplog.text.count("the system gives no more") == 1

    monkeypatch.undo()
    pool.ask_again()
    wait_until(lambda: ran == list(range(10)))
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


def test_while_the_process_is_idle_and_calls_wait_twice_as_many_threads_come_each_time(pool: Pool, monkeypatch):
    monkeypatch.setattr(pools.time, "process_time", lambda: 1.0)
    pool.relieve()
    release = occupy(pool, 2)
    started = threading.Semaphore(0)

    def wait_unsaid() -> None:
        started.release()
        release.wait(PATIENCE)

    for _ in range(40):
        pool.submit(wait_unsaid)
    counts = []
    for _ in range(6):
        pool._done += 1  # something ends in each tenth of a second
        pool.relieve()
        counts.append(pool.threads)
        wait_until(lambda: pool.backlog() == 42 - pool.threads)

    assert counts == [3, 5, 9, 17, 33, 42]
    for _ in range(40):
        assert started.acquire(timeout=PATIENCE)
    release.set()
    wait_until(lambda: pool.threads <= 2)


def test_calls_that_are_quick_get_no_more_threads_however_many_wait(pool: Pool, monkeypatch):
    monkeypatch.setattr(pools.time, "process_time", lambda: 1.0)
    pool.relieve()
    release = occupy(pool, 2)
    for _ in range(40):
        pool.submit(lambda: None)

    for _ in range(6):
        pool._done += 8  # in a tenth of a second
        pool.relieve()

    assert pool.threads == 2
    release.set()


def test_while_the_process_computes_no_thread_is_added_to_those_that_get_on(pool: Pool, monkeypatch):
    computed = itertools.count(1)
    monkeypatch.setattr(pools.time, "process_time", lambda: float(next(computed)))
    release = occupy(pool, 2)
    for _ in range(40):
        pool.submit(lambda: None)

    for _ in range(6):
        pool._done += 1
        pool.relieve()

    assert pool.threads == 2
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


def test_a_call_that_comes_as_a_parked_thread_looks_again_leaves_no_lock_behind_that_is_released(monkeypatch):
    class Late:
        """A lock whose release comes just after the time of an acquire was over."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.release = self._lock.release

        def acquire(self, timeout: float = -1) -> bool:
            if timeout > 0 and not seen:
                seen.append("late")
                pool.submit(lambda: seen.append("ran"))
                return False
            return self._lock.acquire(timeout=timeout)

    seen: list[str] = []
    namespace = types.SimpleNamespace(**vars(threading))
    pool = Pool(2, "test-pool")
    namespace.Lock = Late
    monkeypatch.setattr(pools, "threading", namespace)

    run(pool, lambda: None)
    wait_until(lambda: "ran" in seen)
    wait_until(lambda: len(pool._parked) == pool.threads)
    for lock in list(pool._parked):
        assert not lock.acquire(timeout=0)
    assert len(set(pool._parked)) == pool.threads
    for _ in range(20):
        run(pool, lambda: None)

    assert pool.close() == 0


def test_what_is_submitted_first_runs_in_an_idle_thread_which_takes_what_that_submits(pool: Pool):
    threads: list[str] = []
    done = threading.Event()

    def note() -> None:
        threads.append(threading.current_thread().name)

    def submit() -> None:
        note()
        pool.submit(lambda: (note(), done.set()))

    release = occupy(pool, 2)
    assert not pool.submit_first(submit)
    release.set()
    wait_until(lambda: len(pool._parked) == 2)

    assert pool.submit_first(submit)
    assert done.wait(PATIENCE)
    assert len(set(threads)) == 1


def test_of_what_is_submitted_first_submits_all_but_one_wakes_other_threads(pool: Pool):
    both = threading.Barrier(2)
    done = threading.Semaphore(0)
    occupy(pool, 2).set()
    wait_until(lambda: len(pool._parked) == 2)

    def meet() -> None:
        both.wait(PATIENCE)
        done.release()

    assert pool.submit_first(lambda: (pool.submit(meet), pool.submit(meet)))
    assert all(done.acquire(timeout=PATIENCE) for _ in range(2))


def test_a_thread_too_many_that_leaves_has_another_take_what_it_was_to_take_itself(pool: Pool):
    waited, release, done = threading.Event(), threading.Event(), threading.Event()
    started = threading.Semaphore(0)

    def wait_and_go_on() -> None:
        with pool.blocking():
            started.release()
            waited.wait(PATIENCE)
        release.wait(PATIENCE)

    def submit() -> None:
        waited.set()
        wait_until(lambda: pool._waiting == 0)
        pool.submit(done.set)

    for _ in range(2):
        pool.submit(wait_and_go_on)
        assert started.acquire(timeout=PATIENCE)
    occupy(pool, 2).set()
    wait_until(lambda: len(pool._parked) == 2)

    assert pool.submit_first(submit)
    assert done.wait(PATIENCE)
    release.set()


def test_what_is_submitted_first_hides_no_threads_that_are_stuck(small: Pool):
    """A handler waits without saying so, as for the network, and one that waits behind it gets a thread all the same."""
    release = occupy(small, 1)
    assert not small.submit_first(lambda: None)
    before = small._done
    other = threading.Event()
    small.submit(other.set)
    for _ in range(3):
        small.relieve()
    assert other.wait(PATIENCE)
    release.set()
    wait_until(lambda: small.is_idle)
    seen = small._done
    ran = threading.Event()
    assert small.submit_first(ran.set)
    assert ran.wait(PATIENCE)
    wait_until(lambda: small.is_idle)
    assert small._done == seen > before


def test_the_first_call_that_is_submitted_inline_is_the_callers():
    pool, ran, done = Pool(1), [], threading.Event()
    try:

        def step() -> None:
            assert this_thread.is_inline
            pool.submit(lambda: ran.append(threading.current_thread()))
            pool.submit(done.set)

        pool.run_inline(step, lambda turn: turn())

        assert ran == [threading.current_thread()]
        assert done.wait(PATIENCE)
        assert not this_thread.is_inline
    finally:
        pool.close()


def test_what_was_submitted_inline_before_an_error_is_not_lost():
    pool, caught = Pool(1), []
    try:

        def step() -> None:
            pool.submit(print)
            raise ValueError("in vain")

        with pytest.raises(ValueError, match="in vain"):
            pool.run_inline(step, caught.append)

        assert caught == [print]
        assert not this_thread.is_inline
        pool.run_inline(lambda: None, caught.append)
        assert caught == [print]
    finally:
        pool.close()


def test_what_is_submitted_inline_to_another_pool_is_that_ones():
    pool, other, done = Pool(1), Pool(1), threading.Event()
    try:
        pool.run_inline(lambda: other.submit(done.set), lambda _turn: pytest.fail("not this pool's"))
        assert done.wait(PATIENCE)
    finally:
        pool.close()
        other.close()
