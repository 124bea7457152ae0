"""Turns of the workers of a test run: a test that measures runs while no other worker's test does."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

__all__ = ["turn"]


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
