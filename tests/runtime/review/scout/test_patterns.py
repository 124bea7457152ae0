"""Regular expressions: each that meets foreign text takes a time that grows with the text, and no faster.

Python's own `re` backtracks, and nothing else of the process runs while it does: no deadline, no heartbeat.
"""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, TypeAlias

import pytest

from tests.support import REPOSITORY, child_environment

Pattern: TypeAlias = tuple[str, str, int, list[str]]
"""Its name or place, itself, its flags, and how it is used."""
SECONDS: Final = 3.0
"""Of the processor, for all texts of a pattern: each takes a millisecond, and where they are quadratic some seconds."""
NOTICED: Final = 1.0
"""Of the processor, after which one that is known to be quadratic has shown it."""
SIZE: Final = 40_000
"""Characters of a text."""
WAYS: Final = frozenset({"search", "match", "fullmatch", "findall", "split"})
BEGINNINGS: Final[dict[str, list[str]]] = {
    "_NOQA": ["#", "# noqa:", "# noqa: a"],
    "_PYLINT": ["#", "# pylint:", "# type:", "# pylint: disable=a"],
    "_FILE_WIDE": ["#", "# ruff:", "# ruff: noqa", "# ruff: noqa:", "# ruff: noqa: A"],
    "_GENERATED_FROM": ["", "generated from ", "generated from a by"],
    "_ITSELF": ["", "a", "a = a", " a = a #"],
    "_SECOND_NAME": ["", "=", "a = b ="],
    "_TOKENS": ["", "AKIA", "xoxb-12345678", "xoxb-12345678-", "sk_live_", "github_pat_", "AIza", "glpat-"],
    "_FILLED_IN": ["", "'", "+"],
    "_DOTTED": ["", "a.", "a.b"],
    "_COMPLEXITY": ["(", "(1"],
}
"""{pattern: what a text starts with that gets far into it}; of the others, nothing."""


def patterns() -> Iterator[Pattern]:
    """Every regular expression of the review."""
    trees = {
        path: ast.parse(path.read_text("utf-8")) for path in sorted((REPOSITORY / "runtime/ether/review").rglob("*.py"))
    }
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    for path, node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re":
            way = node.func.attr
            if way == "escape":
                continue
            literal = ast.literal_eval(node.args[0])
            pattern = literal.decode() if isinstance(literal, bytes) else literal
            flags = re.compile(
                pattern, eval(ast.unparse(node.args[1]), {"re": re}) if way == "compile" and node.args[1:] else 0
            )
            if way == "compile":
                name = next(
                    ast.unparse(one.target)
                    for p, one in nodes
                    if p == path and isinstance(one, ast.AnnAssign) and one.value is node
                )
                used = {
                    one.attr
                    for p, one in nodes
                    if p == path and isinstance(one, ast.Attribute) and ast.unparse(one.value) == name
                }
                yield name, pattern, flags.flags, sorted(used & WAYS) or ["search"]
            else:
                yield f"{path.stem}:{node.lineno}", pattern, 0, [way]


def texts(name: str, pattern: str) -> list[str]:
    """What starts like a match and goes on with one thing, over and over, and an end that fits nothing."""
    words = re.findall(r"[a-zA-Z]{2,}", pattern)
    pumps = {
        " ",
        "\t",
        "a",
        "A1",
        "1",
        "-",
        "_",
        ".",
        ",",
        "=",
        "a=",
        "#",
        "# ",
        "'",
        "' ",
        "'a' ",
        "+ ",
        "(",
        "\n",
        " \n",
        "`",
        "/",
    }
    pumps |= {*words, *(word + " " for word in words), *BEGINNINGS.get(name, ())}
    return [
        (begin + pump * (SIZE // len(pump)))[:SIZE] + end
        for begin in BEGINNINGS.get(name, [""]) for pump in sorted(pumps - {""}) for end in ("!", "\n!", "")
    ]  # fmt: skip


def run(name: str, pattern: str, flags: int, ways: list[str], *, seconds: float) -> None:
    """Feed a pattern its texts; the process ends by SIGPROF when that takes too long."""
    print(name, flush=True)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    compiled = re.compile(pattern, flags & ~re.UNICODE)
    for text in texts(name, pattern):
        for way in ways:
            getattr(compiled, way)(text)


def slow(given: list[Pattern], seconds: float = SECONDS) -> str:
    """The name of the first pattern that does not get through its texts in time, in a process of its own; or nothing."""
    code = (
        f"from tests.runtime.review.scout.test_patterns import run\nfor one in {given!r}: run(*one, seconds={seconds})"
    )
    environment = child_environment()
    environment["PYTHONPATH"] += f":{REPOSITORY}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True, text=True)
    assert done.returncode in {0, -signal.SIGPROF}, done.stderr
    return done.stdout.split()[-1] if done.returncode else ""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_pattern_takes_a_time_that_grows_with_the_text():
    assert slow(list(patterns())) == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("_FILE_WIDE", r"#\s*(?:flake8|ruff):\s*noqa\s*(?::\s*(?P<codes>[A-Z0-9, ]+))?\s*$"),
        ("_GENERATED_FROM", r"\bgenerated from .+ (?:by|with) "),
        ("_SECOND_NAME", r"=.*\w =[^=]"),
    ],
)
def test_a_pattern_that_backtracks_is_noticed(name, pattern):
    assert slow([(name, pattern, re.IGNORECASE.value, ["search"])], NOTICED) == name


def test_every_pattern_is_found():
    assert {name for name, *_ in patterns()} >= set(BEGINNINGS)
