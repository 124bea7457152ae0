"""Journals for the tests of `ether log` and `ether trace`, written by the storage itself."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ether_broker.journal.sqlite.journal import SqliteJournal
from tests.audit.crew import Commit
from tests.cli.command import module_environment

__all__ = ["Appender", "alter", "appending", "write"]


def write(path: Path, commits: Sequence[Commit]) -> Path:
    """Append what passed a supervisor, and a checkpoint behind it; each step is a commit of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for commit in commits:
        journal = SqliteJournal(path)
        journal.append(*commit)
        journal.put_checkpoint(commit.first + len(commit.envelopes), b"state")
        journal.close()
    return path


def alter(path: Path, statement: str) -> None:
    """Do with SQL what nobody should."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


class Appender:
    """Another process that has a journal open and appends to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._hear("ready")

    def _hear(self, expected: str | None = None) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        assert said
        assert expected in {None, said}
        return said

    def append(self, event: str) -> int:
        """Append one event, or a thousand for `+`; returns the next number when it is committed."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{event}\n")
        self.process.stdin.flush()
        return int(self._hear())


@contextmanager
def appending(path: Path) -> Iterator[Appender]:
    """Start one; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.appender", str(path)],
        env=module_environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield Appender(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)
        finally:
            if process.poll() is None:
                process.kill()
