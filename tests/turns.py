"""Turns of the workers of a test run: a test that measures runs while no other worker's test does."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

__all__ = ["Turns", "turn"]


class Turns:
    """The turns of one worker, of which tests that are alone one after another have one together.

    Between them nobody else begins, and none has to wait for what another worker is at. For the tests of one thread.
    """

    def __init__(self, folder: Path) -> None:
        """Take no turn yet.

        Args:
            folder: the same for all workers of a run.
        """
        self._folder = folder
        self._alone = ExitStack()
        self._is_alone = False

    @contextmanager
    def of_test(self, *, is_alone: bool, is_next_alone: bool) -> Iterator[None]:
        """Wait until this test may run, and let others run after it unless this worker's next one is alone as well."""
        if not is_alone:
            with turn(self._folder, is_alone=False):
                yield
            return
        with ExitStack() as stack:
            stack.callback(self._end)
            if not self._is_alone:
                self._alone.enter_context(turn(self._folder, is_alone=True))
                self._is_alone = True
            yield
            if is_next_alone:
                stack.pop_all()

    def _end(self) -> None:
        self._is_alone = False
        self._alone.close()


@contextmanager
def turn(folder: Path, *, is_alone: bool) -> Iterator[None]:
    """Wait until this test may run, beside others or alone.

    Who waits to be alone keeps back those that come after, so that it waits for the tests that run now and no longer.

    Args:
        folder: the same for all workers of a run; two empty files are made in it.
        is_alone: whether nobody else's turn may last meanwhile.
    """
    with ExitStack() as stack:
        running = stack.enter_context((folder / "turns.running").open("w"))
        with (folder / "turns.waiting").open("w") as waiting, _locked(waiting, fcntl.LOCK_EX):
            stack.enter_context(_locked(running, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH))
        yield


@contextmanager
def _locked(file: IO[str], how: int) -> Iterator[None]:
    fcntl.flock(file, how)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)  # closing would not do: a process that was forked meanwhile has the file too
