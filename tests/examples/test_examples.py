"""Each program under `examples/` prints what its docstring says below the first line."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.block import prints_as_told
from tests.support import REPOSITORY, child_environment

EXAMPLES = [path for path in sorted((REPOSITORY / "examples").glob("*.py")) if path.stem != "code_review"]
"""All but the one that reviews directories, which `tests/runtime/review/test_job.py` runs."""


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    told = (ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or "").partition("\n\n")[2]
    environment = child_environment({"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})

    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert told
    assert prints_as_told(told, done.stdout), done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_examples_are_eight_short_programs() -> None:
    assert len(EXAMPLES) == 8
    assert [path.name for path in EXAMPLES if len(path.read_text(encoding="utf-8").splitlines()) > 75] == []
