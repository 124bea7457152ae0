"""The documentation pass: docstrings against signatures, pages and links."""

from __future__ import annotations

import pytest

from ether.review.scout.explore import PassName, explore
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
        'def f(x):\n    """D.\n\n    Parameters\n    ----------\n    x is an array of the\n    others\n    """\n',
        'def f(x):\n    """D.\n\n    Example::\n\n        Args:\n            y: of an example\n    """\n',
        'def f(x):\n    """D.\n\n    Args:\n        x: one\n\n        ```\n        y: of an example\n        ```\n    """\n',
        'def f(x):\n    """D.\n\n    Parameters\n    ----------\n    x : int\n    Returns : None\n    """\n',
        'def f(size, n=1):\n    """D.\n\n    Args:\n        int (size): how many\n        n: one\n    """\n',
    ],
)
def test_parameters_that_may_come_from_elsewhere_are_let_pass(tmp_path, code):
    write_tree(tmp_path, {"a.py": code})
    assert "stale-parameter" not in told(tmp_path)


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


def test_a_project_root_is_asked_for_its_files(tmp_path):
    write_tree(tmp_path, {"pyproject.toml": "", "a.py": ""})
    findings = told(tmp_path)
    assert {one["message"].split("`")[1] for one in findings["missing-project-file"]} == {"LICENSE", "CHANGELOG"}
    assert findings["missing-readme"][0]["severity"] == "warning"
    write_tree(tmp_path, {"README.md": "# It\n\nText.\n\n## Install\n", "LICENSE.txt": "", "CHANGES.rst": ""})
    assert told(tmp_path) == {}
    data = documentation(tmp_path)["data"]
    assert data["project_files"] == {"licence": "LICENSE.txt", "change log": "CHANGES.rst"}


def test_an_installed_package_is_not_asked_for_a_readme(tmp_path):
    write_tree(tmp_path, {"__init__.py": "", "a.py": ""})
    assert told(tmp_path) == {}
    assert documentation(tmp_path)["data"]["is_project_root"] is False
