"""The example in the docstring of each public class: it is there, and it runs.

It stands under `Example:`, or in the text, set off by an indent. It may use, without importing them:

- the names of `ether` and of the class's own public module, `Path`, and the modules of `MODULES`;
- `Counter`, an agent with the capability `text.count`;
- `bus`, a `TestRuntime` on which `counter` runs.

Its working directory is an empty folder. What it promises it says with `assert`.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import logging
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import ether
from ether import Agent, capability
from ether.testing import TestRuntime
from tests.public import PUBLIC

PLACES: Final = {
    getattr(importlib.import_module(module), name): module
    for module, names in PUBLIC.items()
    for name in sorted(names)
    if inspect.isclass(getattr(importlib.import_module(module), name))
}
SECTIONS: Final = ("Args:", "Attributes:", "Raises:", "Returns:")
CLASSES: Final = sorted((one for one in PLACES if not issubclass(one, BaseException)), key=lambda one: one.__qualname__)
MODULES: Final = {module.__name__: module for module in (asyncio, json, logging, pytest, subprocess, sys)}
REAL: Final = (ether.Cluster,)
"""Whose examples start processes."""


class Counter(Agent):
    """Counts the words of a text."""

    @capability("text.count")
    def count(self, text: str) -> int:
        return len(text.split())


def examples_of(docstring: str) -> Iterator[str]:
    """What stands under `Example:`, and what the text sets off by an indent if it is Python."""
    above = ""
    block: list[str] = []
    for line in [*inspect.cleandoc(docstring).splitlines(), "end"]:
        if line.startswith("    ") or (block and not line):
            block.append(line)
        elif line:
            code = textwrap.dedent("\n".join(block)).strip()
            if code and (above == "Example:" or (above not in SECTIONS and is_python(code))):
                yield code
            above, block = line, []


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def parametrised() -> list[Any]:
    return [pytest.param(one, id=one.__qualname__, marks=[pytest.mark.slow] if one in REAL else []) for one in CLASSES]


def test_each_public_class_has_an_example() -> None:
    without = [
        one.__qualname__ for one in CLASSES if not any("assert" in code for code in examples_of(one.__doc__ or ""))
    ]
    assert without == []


@pytest.mark.parametrize("one", parametrised())
def test_the_example_of_a_class_does_what_it_says(one: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in examples_of(one.__doc__ or ""):
        module = types.ModuleType("docstring_example")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        for public in ("ether", PLACES[one]):
            face = importlib.import_module(public)
            vars(module).update({name: getattr(face, name) for name in PUBLIC[public]})
        with TestRuntime() as bus:
            bus.start(Counter)
            vars(module).update(MODULES, Counter=Counter, Path=Path, bus=bus)
            exec(compile(code, f"<the example of {one.__qualname__}>", "exec"), vars(module))


def test_an_example_that_says_what_is_not_so_is_noticed() -> None:
    (code,) = examples_of("It.\n\n    assert 1 + 1 == 3\n\nArgs:\n    one: is not Python here\n")
    with pytest.raises(AssertionError):
        exec(code, {})
