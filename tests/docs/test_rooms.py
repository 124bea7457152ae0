"""The folders of the three floors and docs/design.md's list of them: the same, in the same words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support import REPOSITORY

ROOTS = ("runtime/ether", "actors/ether_actors", "broker/ether_broker")


def folders() -> dict[str, str]:
    """Each folder of the product below a root: {its package: the first line of its docstring}."""
    found: dict[str, str] = {}
    for root in ROOTS:
        for file in sorted((REPOSITORY / root).rglob("__init__.py")):
            package = ".".join(file.parent.relative_to((REPOSITORY / root).parent).parts)
            if "." in package:
                docstring = ast.get_docstring(ast.parse(file.read_text()))
                assert docstring, f"{file} says nothing of its folder"
                assert "May import: " in docstring, f"{file} does not say what it may import"
                assert "Used by: " in docstring, f"{file} does not say who uses it"
                found[package] = docstring.splitlines()[0]
    return found


def test_each_folder_of_code_is_a_package_that_says_what_lives_there() -> None:
    code = {file.parent for root in ROOTS for file in (REPOSITORY / root).rglob("*.py")}
    assert [str(folder) for folder in sorted(code) if not Path(folder, "__init__.py").exists()] == []


def test_the_design_lists_each_folder_and_nothing_else_in_the_words_of_its_docstring() -> None:
    rows = re.findall(r"^\| `(ether[\w.]+)` \| (.+) \|$", (REPOSITORY / "docs/design.md").read_text(), re.MULTILINE)
    assert dict(rows) == folders()
