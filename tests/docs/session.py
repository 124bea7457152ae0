"""Runs the blocks of one document in order, as a reader would, in a folder and a shell of its own.

The source roots and `examples` are linked into the folder, so that `ether review broker` finds a code base. A
command that ends in `&` goes on until the document's end; it gets SIGTERM then.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.docs.block import Block, Failed, blocks_of, commands_of, prints_as_told
from tests.network.namespaces import network_of
from tests.support import REPOSITORY, SOURCE_ROOTS, child_environment, processes_with, wait_until

__all__ = ["Session", "run_document"]

ETHER: Final = "from ether.cli import main\n\nmain()\n"

SHELL: Final = ("bash", "--noprofile", "--norc")

_MARK = "SNIPPETS_DOCUMENT"
_LINE_SECONDS = 60.0
_CELL: Final = """
import ast, asyncio, pathlib, sys, types
code = compile(pathlib.Path(sys.argv[1]).read_text(), sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
asyncio.run(types.FunctionType(code, {"__name__": "__main__"})())
"""
_DRAIN_SECONDS = 20.0


class Session:
    """The folder, the shell and the background commands of one document.

    Use it in a `with` statement: at its end all processes are gone. If some were still there 20 seconds after
    SIGTERM they are killed, and that is `Failed`.
    """

    def __init__(self, folder: Path, ether: str = ETHER, shell: Sequence[str] = SHELL) -> None:
        """Link the sources into an empty folder and start the shell.

        Args:
            folder: an empty one.
            ether: the Python script that is the command `ether`; a test may give another than ours.
            shell: the command line that starts it; on another host, say.
        """
        self.folder = folder / "work"
        """Where blocks are run and written."""
        self._outputs, commands = folder / "outputs", folder / "bin"
        for path in (self.folder, self._outputs, commands):
            path.mkdir()
        for source in (*SOURCE_ROOTS, REPOSITORY / "examples"):
            (self.folder / source.name).symlink_to(source)
        _write_command(commands / "ether", f"#!{sys.executable}\n{ether}")
        _write_command(commands / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self._count = 0
        self._mark = uuid.uuid4().hex
        environment = {
            _MARK: self._mark,
            "HOME": str(folder),
            "NO_COLOR": "1",
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "TERM": "dumb",
            "XDG_RUNTIME_DIR": str(folder),  # the user's default bus is another's
        }
        self._shell = subprocess.Popen(
            list(shell),
            cwd=self.folder,
            env=child_environment(environment),
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stayed = self._end()
        if stayed and error is None:
            raise Failed(f"still running {_DRAIN_SECONDS:g} s after SIGTERM, and killed: {stayed}")

    def run(self, block: Block, told: str | None) -> None:
        """Run a block, or write it, and compare its output with the one told, if any.

        Raises:
            Failed: an exit code other than zero, another output, or a line that takes over a minute.
        """
        if block.file is not None:
            target = self.folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.code, encoding="utf-8")
        if not block.runs or (block.file is not None and told is None):
            return
        printed = self._run_script(block) if block.language == "python" else self._run_commands(block)
        if told is not None:
            _compare(block.place, told, printed)

    def _run_script(self, block: Block) -> str:
        name = block.file or f"line_{block.place.rpartition(':')[2]}.py"
        (self.folder / name).write_text(block.code, encoding="utf-8")
        if not block.is_cell:
            return self._run_line(block.place, f"python {name}")
        (self.folder / "cell.py").write_text(_CELL, encoding="utf-8")
        return self._run_line(block.place, f"python cell.py {name}")

    def _run_commands(self, block: Block) -> str:
        outputs = []
        for command in commands_of(block, self.folder):
            shown = "\n".join(command.shown)
            printed = self._run_line(block.place, command.line, errors_too=bool(shown.strip()))
            if shown.strip():
                _compare(f"{block.place}: {command.line}", shown, printed)
            outputs.append(printed)
        return "".join(outputs)

    def _run_line(self, place: str, line: str, *, errors_too: bool = False) -> str:
        """Run a line in the shell, and give what it printed on stdout, or on stderr as well.

        Each line writes to files of its own, so that a background command's later words mix with no other's.
        The exit code comes in a file too, moved into place when it is whole.
        """
        self._count += 1
        out, errors, code = (self._outputs / f"{self._count}.{kind}" for kind in ("out", "err", "code"))
        to = "&1" if errors_too else str(errors)
        self._tell_shell(f"{{ {line}\n}} >{out} 2>{to} </dev/null\necho $? >{code}.new; mv {code}.new {code}\n")
        try:
            wait_until(lambda: code.exists() or self._shell.poll() is not None, _LINE_SECONDS)
        except AssertionError:
            raise Failed(f"{place}: no end in {_LINE_SECONDS:g} s: {line}\n{_read(out)}{_read(errors)}") from None
        if (ended := _read(code).strip()) != "0":
            raise Failed(f"{place}: exit code {ended or '?'}: {line}\n{_read(out)}{_read(errors)}")
        return _read(out)

    def _tell_shell(self, text: str) -> None:
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a line such as `ether; exit` ended it
            self._shell.stdin.write(text.encode())
            self._shell.stdin.flush()

    def _end(self) -> list[int]:
        """End all that the document started; give the ids of those that had to be killed."""
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGTERM)  # not yet waited for: the number is still its own
        self._shell.wait()
        limit = time.monotonic() + _DRAIN_SECONDS
        while (left := self._running()) and time.monotonic() < limit:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self._running(), what="killed processes are gone")
        return left

    def _running(self) -> list[int]:
        return list(processes_with(_MARK, self._mark))


def run_document(document: Path, folder: Path, ether: str = ETHER) -> int:
    """Run all blocks of a document in an empty folder, and say how many were run or written.

    Raises:
        Failed: the first promise of the document that does not hold.
    """
    blocks = blocks_of(document)
    count = 0
    with _sessions(blocks, folder, ether) as sessions:
        for block, below in itertools.zip_longest(blocks, blocks[1:]):
            if block.runs or block.file is not None:
                told = below.code if below is not None and below.language == "text" else None
                sessions[block.host].run(block, told)
                count += 1
    return count


@contextlib.contextmanager
def _sessions(blocks: Sequence[Block], folder: Path, ether: str) -> Iterator[dict[str | None, Session]]:
    """{host: its session}; None is this machine, and the only one unless the document says `on=HOST`."""
    names = list(dict.fromkeys(block.host for block in blocks if block.host))
    with contextlib.ExitStack() as stack:
        sessions: dict[str | None, Session] = {}
        network = stack.enter_context(network_of(*names)) if names else None
        for name in (None, *names):
            own = folder / (name or "here")
            own.mkdir()
            shell = SHELL if network is None or name is None else network.command(name, SHELL)
            sessions[name] = stack.enter_context(Session(own, ether, shell))
        yield sessions


def _write_command(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _compare(place: str, told: str, printed: str) -> None:
    if not prints_as_told(told, printed):
        raise Failed(f"{place}: the document tells\n{told}\n--- but this is printed\n{printed}")
