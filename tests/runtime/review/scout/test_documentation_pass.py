"""The documentation pass: docstrings against signatures, coverage, pages and links."""

from __future__ import annotations

import pytest

from ether.review.scout.explore import PassName, explore
from ether.review.scout.files.markdown_outline import headings, links
from tests.runtime.review.scout.support import by_rule, write_tree


def documentation(root):
    return explore(root, [PassName.DOCUMENTATION])["passes"]["documentation"]


def told(root):
    return by_rule({"passes": {"documentation": documentation(root)}}, "documentation")


def test_a_documented_parameter_that_does_not_exist_is_found_with_the_likely_name(tmp_path):
    write_tree(tmp_path, {"a.py": '''
        def fetch(url, time_out=1):
            """Fetch it.

            Args:
                url: where.
                timeout: how long.
            """
            return url
        '''})  # fmt: skip
    (finding,) = told(tmp_path)["stale-parameter"]
    assert (finding["line"], finding["severity"], finding["symbol"]) == (6, "warning", "fetch")
    assert finding["message"].startswith("Documented parameter `timeout` is not in the function's signature:")


@pytest.mark.parametrize(
    "code",
    [
        'def f(x, **options):\n    """D.\n\n    Args:\n        x: one\n        colour: an option\n    """\n',
        '@inject\ndef f(x):\n    """D.\n\n    Args:\n        x: one\n        session: injected\n    """\n',
        (
            'class A:\n    """D.\n\n    Args:\n        x: one\n        y: an attribute\n    """\n'
            "    def __init__(self, x):\n        self.y = x\n"
        ),
        'class A(Base):\n    """D.\n\n    Args:\n        x: of the base\n    """\n',
        'def f(*args, key=1):\n    """D.\n\n    Args:\n        *args: all\n        key: one\n    """\n',
        'def f(x):\n    """D.\n\n    Parameters\n    ----------\n    x : int\n    Returns : None\n    """\n',
    ],
)
def test_parameters_that_may_come_from_elsewhere_are_let_pass(tmp_path, code):
    write_tree(tmp_path, {"a.py": code})
    assert "stale-parameter" not in told(tmp_path)


def test_coverage_counts_what_users_can_reach(tmp_path):
    write_tree(tmp_path, {
        "pkg/__init__.py": "from pkg._core import shown\n",
        "pkg/_core.py": 'def shown():\n    """D."""\n\ndef hidden(): ...\n',
        "pkg/api.py": '"""Module."""\nclass A:\n    """D."""\n    def run(self): ...\n    def _no(self): ...\n'
        "    def __len__(self): ...\n\nclass B(A):\n    def run(self): ...\n",
        "tests/test_a.py": "def helper(): ...\n",
    })  # fmt: skip
    docstrings = documentation(tmp_path)["data"]["docstrings"]
    assert docstrings["by_kind"] == {
        "class": {"public": 2, "documented": 1},
        "function": {"public": 1, "documented": 1},
        "method": {"public": 2, "documented": 0},
    }
    assert (docstrings["public"], docstrings["documented"], docstrings["percent"]) == (5, 2, 40.0)
    assert (docstrings["modules"], docstrings["modules_documented"]) == (3, 1)
    assert docstrings["gaps"]["rows"] == [{"path": "pkg/api.py", "public": 4, "documented": 1}]


def test_an_override_inherits_the_docstring_of_its_base(tmp_path):
    code = 'class A:\n    """D."""\n    def run(self):\n        """D."""\n\nclass B(A):\n    """D."""\n    def run(self): ...\n'
    write_tree(tmp_path, {"a.py": code})
    assert documentation(tmp_path)["data"]["docstrings"]["percent"] == 100.0


def test_the_largest_undocumented_symbols_are_told(tmp_path):
    body = "    print(1)\n" * 45
    write_tree(tmp_path, {"a.py": f"def big():\n{body}\ndef small():\n    print(1)\n"})
    (finding,) = told(tmp_path)["missing-docstring"]
    assert finding["message"].startswith("The function `big` (46 lines) has no docstring:")


def test_broken_links_are_found_and_the_others_let_pass(tmp_path):
    write_tree(tmp_path, {
        "docs/a.md": """
            [good](b.md) [gone](missing.md) ![image](../img/none.png) [up](../top.md#part)
            [web](https://example.org/x.md) [anchor](#here) [site](page/) [mail](mailto:a@b.c) [abs](/x.md)
            `[code](none.md)` [template]({{ url }}.md) [out](../../elsewhere.md) [space](with%20space.md)
            ```
            [fenced](none.md)
            ```
            [ref]: gone/too.md
            """,
        "docs/b.md": "", "top.md": "", "docs/with space.md": "",
    })  # fmt: skip
    findings = told(tmp_path)["broken-link"]
    assert [(one["line"], one["message"].split("`")[1]) for one in findings] == [
        (1, "missing.md"), (1, "../img/none.png"), (7, "gone/too.md"),
    ]  # fmt: skip
    assert documentation(tmp_path)["insights"][-1] == "3 of 8 relative links lead nowhere."


def test_headings_outside_code_are_sections():
    text = "# One\n```\n# no\n```\n## Two ##\n~~~\n# no\n~~~\n#no\n"
    assert headings(text.split("\n")) == [(1, 1, "One"), (5, 2, "Two")]
    assert list(links(["x" * 6_000 + "[a](b.md)"])) == []


def test_a_project_root_is_asked_for_its_files(tmp_path):
    write_tree(tmp_path, {"pyproject.toml": "", "a.py": ""})
    findings = told(tmp_path)
    assert {one["message"].split("`")[1] for one in findings["missing-project-file"]} == {"LICENSE", "CHANGELOG"}
    assert findings["missing-readme"][0]["severity"] == "warning"
    write_tree(tmp_path, {"README.md": "# It\n\nText.\n\n## Install\n", "LICENSE.txt": "", "CHANGES.rst": ""})
    findings = told(tmp_path)
    assert set(findings) == {"readme-without-example"}
    write_tree(tmp_path, {"README.md": "# It\n\n```\nit\n```\n"})
    assert told(tmp_path) == {}
    data = documentation(tmp_path)["data"]
    assert data["project_files"] == {"licence": "LICENSE.txt", "change log": "CHANGES.rst"}
    assert data["readme"] == {
        "path": "README.md", "lines": 5,
        "sections": {"rows": [{"line": 1, "level": 1, "title": "It"}], "total": 1, "omitted": 0},
    }  # fmt: skip


def test_an_installed_package_is_not_asked_for_a_readme(tmp_path):
    write_tree(tmp_path, {"__init__.py": "", "a.py": ""})
    assert told(tmp_path) == {}
    assert documentation(tmp_path)["data"]["is_project_root"] is False
