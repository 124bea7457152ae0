"""Ruff as a program: its findings in Python files, by a fixed selection of its rules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.source import Source
from ether.review.scout.findings.rule import RULES_OF_RUFF
from ether_broker.errors import MissingExtra

__all__ = ["Diagnostic", "check_files", "require_ruff"]

_LIMIT: Final = 30.0
"""Seconds after which a run is ended: it takes 0.1 s as a rule, and fifty times that at most."""
_STALE: Final = "DOC102"
_TYPES: Final = frozenset({"bool", "bytes", "dict", "float", "int", "list", "object", "set", "str", "tuple"})
"""What stands where Google's style has a parameter's name, in docstrings that say `int (size):`: ruff takes it for the name."""
_REMOVED: Final = ", ".join(
    f'"{name}".msg = "was removed in Python {version} (use {instead})"'
    for name, (version, instead) in tomllib.loads(
        Path(__file__).with_name("removed.toml").read_text(encoding="utf-8")
    ).items()
)
"""Modules and names that newer Pythons have removed; `removed.toml` beside this module lists them."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A diagnostic of ruff at one place."""

    code: str
    message: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def subject(self) -> str:
        """The first piece of code in the message: what it is about."""
        return self.message.partition("`")[2].partition("`")[0]


def require_ruff() -> str:
    """The path of ruff's program.

    Raises:
        MissingExtra: the extra `review` is not installed.
    """
    for folder in _program_folders():
        if (program := Path(folder, "ruff")).is_file():
            return str(program)
    raise MissingExtra("The review needs ruff, which is not installed: pip install 'agent-ether[review]'.")


def _program_folders() -> Iterator[str | Path]:
    """Where pip puts programs: of this environment, of the one below it, beside Ether (`--target`), of the user.

    The package `ruff`, which could tell too, is not imported: in the working folder may lie another of that name.
    """
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", vars={"base": sys.base_prefix})
    yield Path(__file__).parents[3] / "bin"
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))


def check_files(
    sources: Sequence[Source], notes: list[str], stop: Callable[[], bool] = bool
) -> dict[str, list[Diagnostic]]:
    """Have ruff check some Python files that parse, with its settings ours and no file of settings read.

    It checks copies of the texts that were read, in a folder of their own: what happens to the files meanwhile
    (an edit, a link or a pipe in their place) changes nothing, and every place that it names is in the text.
    `noqa` comments are obeyed by ruff itself. Nothing of the files is imported or run. A file that ruff cannot
    take is noted.

    Args:
        sources: the files.
        notes: where to note what could not be checked, a sentence each.
        stop: asked before the others of a run that broke down are checked without one; when true, they are not.

    Returns:
        {name: what ruff says of it}.

    Raises:
        MissingExtra: as `require_ruff`.
    """
    if not sources:
        return {}
    found = _run(sources)
    if found is not None:
        return found
    if len(sources) == 1 or stop():
        notes += [f"{source.name}: ruff could not check it." for source in sources]
        return {}
    half = len(sources) // 2  # one of them ends ruff: the others are checked without it
    return check_files(sources[:half], notes, stop) | check_files(sources[half:], notes, stop)


def _run(sources: Sequence[Source]) -> dict[str, list[Diagnostic]] | None:
    """What ruff says of files, by their names; None when it broke down or was ended."""
    program = require_ruff()
    found: dict[str, list[Diagnostic]] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="ether-review-") as folder:
            for number, source in enumerate(sources):
                copy = Path(folder, str(number), "__init__.py" if source.is_init else "module.py")
                copy.parent.mkdir()
                copy.write_bytes(source.text.encode())
            entries = json.loads(_output(program, folder))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    for entry in entries:
        if entry["code"] in RULES_OF_RUFF:
            source = sources[int(Path(entry["filename"]).parent.name)]
            diagnostic = _diagnostic(entry)
            if diagnostic.code != _STALE or diagnostic.subject not in _TYPES:
                found.setdefault(source.name, []).append(diagnostic)
    return found


def _output(program: str, folder: str) -> str:
    """What ruff writes about a folder."""
    command = [
        program, "check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--preview", "--no-respect-gitignore",
        "--output-format=json", "--config=lint.explicit-preview-rules=true", "--config=lint.mccabe.max-complexity=10",
        f"--config=lint.flake8-tidy-imports.banned-api={{{_REMOVED}}}",
        f"--target-version=py3{min(sys.version_info.minor, 14)}", f"--select={','.join(sorted(RULES_OF_RUFF))}", ".",
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, encoding="utf-8", errors="replace", check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_LIMIT,
    )  # fmt: skip
    return done.stdout


def _diagnostic(entry: dict[str, Any]) -> Diagnostic:
    start, end = entry["location"], entry["end_location"]
    message = re.split(r"[.;] |\.$|\n", entry["message"], maxsplit=1)[0].replace(" is banned: ", " ")
    return Diagnostic(entry["code"], message, start["row"], start["column"], end["row"], end["column"])
