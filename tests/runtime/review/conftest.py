"""Two small code bases with a known fault each."""

from __future__ import annotations

import pytest

from tests.runtime.review.scout.support import write_tree


@pytest.fixture
def sources(tmp_path):
    return write_tree(tmp_path / "sources", {
        "alpha/a.py": "def f(x):\n    return x is 'a'\n",
        "alpha/README.md": "# Alpha\n\n[gone](missing|file.md)\n",
        "beta/b.py": '"""Beta."""\n\nimport os\n\n\ndef g(y):\n    # TODO: more | less\n    y = y\n',
    })  # fmt: skip
