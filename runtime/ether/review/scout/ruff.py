"""Ruff as a program: its findings in Python files, by a fixed selection of its rules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.source import Source
from ether.review.scout.findings.rule import RULES_OF_RUFF
from ether_broker.errors import MissingExtra

__all__ = ["Diagnostic", "check_files", "require_ruff"]

_LIMIT: Final = 30.0
"""Seconds after which a run is ended: it takes 0.1 s as a rule, and fifty times that at most."""
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


def require_ruff() -> str:
    """The path of ruff's program.

    Raises:
        MissingExtra: the extra `review` is not installed.
    """
    try:
        from ruff import find_ruff_bin

        return str(find_ruff_bin())
    except (ImportError, FileNotFoundError):
        msg = "The review needs ruff, which is not installed: pip install 'agent-ether[review]'."
        raise MissingExtra(msg) from None


def check_files(sources: Sequence[Source], notes: list[str]) -> dict[str, list[Diagnostic]]:
    """Have ruff check some Python files that parse, with its settings ours and no file of settings read.

    `noqa` comments are obeyed by ruff itself. Nothing of the files is imported or run. A file that ruff
    cannot take is noted.

    Args:
        sources: the files; one that is not UTF-8, by name or by content, is handed over as text.
        notes: where to note what could not be checked, a sentence each.

    Returns:
        {name: what ruff says of it}.

    Raises:
        MissingExtra: as `require_ruff`.
    """
    if not sources:
        return {}
    direct = {str(source.path.absolute()): source for source in sources if _is_plain(source)}
    found = _run(list(direct), None) if direct else []
    if found is None:
        if len(direct) > 1:  # one of them ends ruff: the others are checked without it
            half = list(direct.values())[: len(direct) // 2]
            rest = list(direct.values())[len(half) :]
            return {**check_files(half, notes), **check_files(rest, notes)}
        notes += [f"{source.name}: ruff could not check it." for source in direct.values()]
        found = []
    checked: dict[str, list[Diagnostic]] = {}
    for entry in found:
        checked.setdefault(direct[entry["filename"]].name, []).append(_diagnostic(entry))
    for source in sources:
        if str(source.path.absolute()) not in direct:
            own = _run(["-", "--stdin-filename", "source.py"], source.text)
            if own is None:
                notes.append(f"{source.name}: ruff could not check it.")
            checked[source.name] = [_diagnostic(entry) for entry in own or ()]
    return checked


def _is_plain(source: Source) -> bool:
    """Whether ruff can read the file itself: its content is UTF-8, and its name is."""
    return source.encoding == "utf-8" and str(source.path).isprintable()


def _run(files: list[str], text: str | None) -> list[dict[str, Any]] | None:
    """The entries of ruff's JSON; None when it broke down or was ended."""
    command = [
        require_ruff(), "check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--preview",
        "--output-format=json", "--config=lint.explicit-preview-rules=true", "--config=lint.mccabe.max-complexity=10",
        f"--config=lint.flake8-tidy-imports.banned-api={{{_REMOVED}}}",
        f"--target-version=py3{min(sys.version_info.minor, 14)}", f"--select={','.join(sorted(RULES_OF_RUFF))}",
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
    try:
        done = subprocess.run(
            [*command, *files], input=text or "", env=environment, text=True, encoding="utf-8", errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_LIMIT, check=False,
        )  # fmt: skip
        entries: list[dict[str, Any]] = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        return None
    return [entry for entry in entries if entry["code"] in RULES_OF_RUFF]


def _diagnostic(entry: dict[str, Any]) -> Diagnostic:
    start, end = entry["location"], entry["end_location"]
    message = re.split(r"[.;] |\.$|\n", entry["message"], maxsplit=1)[0].replace(" is banned: ", " ")
    return Diagnostic(entry["code"], message, start["row"], start["column"], end["row"], end["column"])
