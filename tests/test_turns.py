"""Turns between threads, whose locks exclude each other as those of processes do."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.turns import Turns, turn


class Worker:
    """Has one turn, from when it may until it is told to end it."""

    def __init__(self, folder: Path, *, is_alone: bool) -> None:
        self.began, self.end = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(folder, is_alone), daemon=True
        )  # or a failure would hang
        self._thread.start()

    def _run(self, folder: Path, is_alone: bool) -> None:
        with turn(folder, is_alone=is_alone):
            self.began.set()
            self.end.wait(10.0)

    def finish(self) -> None:
        self.end.set()
        self._thread.join()


def is_kept_back(worker: Worker) -> bool:
    return not worker.began.wait(0.1)


def test_turns_beside_others_last_at_the_same_time(tmp_path: Path) -> None:
    one, other = Worker(tmp_path, is_alone=False), Worker(tmp_path, is_alone=False)

    assert one.began.wait(10.0)
    assert other.began.wait(10.0)
    one.finish()
    other.finish()


def test_who_is_alone_waits_for_the_others_and_keeps_back_who_comes_after(tmp_path: Path) -> None:
    first = Worker(tmp_path, is_alone=False)
    wait_until(first.began.is_set)
    alone = Worker(tmp_path, is_alone=True)
    assert is_kept_back(alone)
    after = Worker(tmp_path, is_alone=False)
    assert is_kept_back(after)

    first.finish()
    assert alone.began.wait(10.0)
    assert is_kept_back(after)

    alone.finish()
    assert after.began.wait(10.0)
    after.finish()


def test_tests_that_are_alone_one_after_another_have_one_turn_and_it_ends_with_the_last(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    with turns.of_test(is_alone=True, is_next_alone=True):
        other = Worker(tmp_path, is_alone=False)
        assert is_kept_back(other)
    assert is_kept_back(other)
    with turns.of_test(is_alone=True, is_next_alone=False):
        assert is_kept_back(other)

    assert other.began.wait(10.0)
    with turns.of_test(is_alone=False, is_next_alone=True):
        pass
    other.finish()


def test_a_turn_ends_with_a_test_that_is_broken_off_whatever_comes_next(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    with pytest.raises(KeyboardInterrupt), turns.of_test(is_alone=True, is_next_alone=True):
        raise KeyboardInterrupt

    other = Worker(tmp_path, is_alone=False)
    assert other.began.wait(10.0)
    other.finish()


@pytest.fixture
def running(request: pytest.FixtureRequest) -> Path:
    """What the workers of this test run lock in their turns."""
    assert request.config.cache is not None
    return request.config.cache.mkdir("turns") / "turns.running"


@pytest.mark.alone
def test_while_a_test_that_is_marked_alone_runs_nobody_else_can_begin(running: Path) -> None:
    with running.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_while_another_test_runs_nobody_can_be_alone(running: Path) -> None:
    with running.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
