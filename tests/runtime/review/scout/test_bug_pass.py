"""The bug pass over a whole directory: what only the directory can tell."""

from __future__ import annotations

from ether.review.scout.explore import PassName, explore
from tests.runtime.review.scout.support import by_rule, write_tree


def bugs(root):
    return by_rule(explore(root, [PassName.BUGS]), "bugs")


def test_an_import_that_another_module_takes_from_here_is_used(tmp_path):
    write_tree(tmp_path, {
        "core.py": "import os\nimport sys\nimport re\nimport json\nclass A: ...\n",
        "one.py": "from core import os\nprint(os)\n",
        "two.py": "import core\nprint(core.sys)\n",
        "test_it.py": "def test(patch):\n    patch('core.re')\n",
    })  # fmt: skip
    (finding,) = bugs(tmp_path)["unused-import"]
    assert (finding["path"], finding["line"]) == ("core.py", 4)


def test_a_project_that_brings_a_removed_module_itself_may_import_it(tmp_path):
    write_tree(tmp_path / "own", {"_distutils/__init__.py": "", "setup.py": "import distutils.core\n"})
    write_tree(tmp_path / "other", {"setup.py": "import distutils.core\n"})
    assert "removed-from-python" not in bugs(tmp_path / "own")
    assert len(bugs(tmp_path / "other")["removed-from-python"]) == 1


def test_a_name_that_the_project_puts_among_the_builtins_is_defined(tmp_path):
    write_tree(tmp_path, {"a.py": "import builtins\nbuiltins.shell = 1\n", "b.py": "print(shell, shall)\n"})
    (finding,) = bugs(tmp_path)["undefined-name"]
    assert "`shall`" in finding["message"]


def test_syntax_errors_of_tests_are_only_mentioned(tmp_path):
    write_tree(tmp_path, {"a.py": "def f(:\n", "tests/data/bad.py": "def f(:\n"})
    told = {(one["path"], one["severity"], one["line"], one["column"]) for one in bugs(tmp_path)["syntax-error"]}
    assert told == {("a.py", "error", 1, 7), ("tests/data/bad.py", "info", 1, 7)}


def test_tokens_are_found_in_any_language(tmp_path):
    write_tree(tmp_path, {"a.js": f"// x\nkey = 'ghp_{'a1B2' * 9}'\n", "b.js": "key = 'ghp_short'\n"})
    (finding,) = bugs(tmp_path)["token-in-source"]
    assert (finding["path"], finding["line"]) == ("a.js", 2)
    assert "a1B2a1B2a1B2" not in finding["message"]


def test_data_files_that_do_not_parse_are_found(tmp_path):
    write_tree(tmp_path, {
        "a.json": '{"x": 1,\n "y": }\n', "b.toml": "x = 1\ny = = 2\n", "good.json": "[1]\n", "good.toml": "x = 1\n",
        "tsconfig.json": "{ // comments are fine here\n}\n", "tests/c.json": "{", "template.json": '{{"x": {{ y }} ',
    })  # fmt: skip
    told = {(one["path"], one["line"]) for one in bugs(tmp_path)["data-syntax"]}
    assert told == {("a.json", 2), ("b.toml", 2)}


def test_the_figures_say_how_much_was_checked(tmp_path):
    write_tree(tmp_path, {"a.py": "def f(x):\n    return x is 'a'\n", "b.py": "x = 1\n"})
    result = explore(tmp_path, [PassName.BUGS])["passes"]["bugs"]
    assert result["data"] == {
        "files_checked": 2, "lines_checked": 3, "files_of_others": 0, "findings_per_1000_lines": 333.33
    }  # fmt: skip
    assert result["counts"] == {"error": 1, "warning": 0, "info": 0}
    assert result["by_rule"] == {"is-literal": 1}
    assert result["insights"][0] == "1 finding in 2 files, 1 error among them."
