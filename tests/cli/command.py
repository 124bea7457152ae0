"""The command as tests run it: in this process, in one of its own, or on a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pexpect
import typer.testing
from typer.main import get_command

from ether.cli.app import app
from tests.support import REPOSITORY, child_environment

__all__ = ["Command", "Done", "module_environment", "table"]

_MAIN: Final = "from ether.cli import main; main()"
_SECONDS: Final = 20
_NOT_OURS: Final = (
    "ETHER_CONNECT",
    "ETHER_FORMAT",
    "ETHER_DEBUG",
    "ETHER_WAIT",
    "ETHER_KEYS",
    "ETHER_SERVER_KEY",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
)

# The commands are made of their functions once, and not for each run: that takes longer than most of them run.
typer.testing._get_command = cache(get_command)  # type: ignore[attr-defined]


class Done:
    """What a command that ended said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


class Command:
    """`ether`, with its own idea of where the user's bus is.

    Args:
        folder: stands for the user's runtime folder.
        connect: ETHER_CONNECT, or None.
    """

    def __init__(self, folder: Path, connect: str | None) -> None:
        self._environment = {
            **dict.fromkeys(_NOT_OURS),
            "XDG_RUNTIME_DIR": str(folder),
            "ETHER_CONNECT": connect,
        }

    def __call__(self, *words: str, stdin: str = "", **environment: str) -> Done:
        """Run it in this process."""
        done = typer.testing.CliRunner().invoke(
            app, list(words), input=stdin, env={**self._environment, **environment}, prog_name="ether"
        )
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    def process(self, *words: str, stdin: str = "", **environment: str) -> Done:
        """Run it in a process of its own."""
        with self.started(*words, **environment) as process:
            out, err = process.communicate(stdin, timeout=_SECONDS)
        return Done(process.returncode, out, err)

    @contextmanager
    def started(self, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Start a process of its own; it is killed at the end of the block if it still runs."""
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words],
            env=self._child_environment(environment),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    @contextmanager
    def terminal(self, *words: str, **environment: str) -> Iterator[pexpect.spawn[str]]:
        """Start it on a terminal of 100 by 30."""
        child = pexpect.spawn(
            sys.executable, ["-c", _MAIN, *words],
            env=self._child_environment({"TERM": "xterm-256color", **environment}),
            encoding="utf-8", dimensions=(30, 100), timeout=_SECONDS,
        )  # fmt: skip
        try:
            yield child
        finally:
            child.close(force=True)

    def _child_environment(self, extra: dict[str, str]) -> dict[str, str]:
        return module_environment({**self._environment, **extra})


def module_environment(extra: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of a process that imports from `tests`, without what its user may have set for `ether`."""
    environment = child_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{REPOSITORY}"
    ours = {**environment, **dict.fromkeys(_NOT_OURS), **extra}
    return {name: value for name, value in ours.items() if value is not None}


def table(done: Done) -> list[list[str]]:
    """The words of a plain table, line by line."""
    return [line.split() for line in done.out.splitlines()]
