"""The structure pass: sizes, complexity, imports."""

from __future__ import annotations

import textwrap

from ether.review.scout.explore import PassName, explore
from ether.review.scout.passes.structure import package_name
from ether.review.scout.python.import_cycle import cycles
from ether.review.scout.python.import_graph import Edge, module_name
from ether.review.scout.python.outline import outline
from tests.runtime.review.scout.support import by_rule, module_of, write_tree


def structure(root):
    return explore(root, [PassName.STRUCTURE])["passes"]["structure"]


def first(code):
    (symbol, *_) = outline(module_of(code))
    return symbol


def test_the_outline_nests_and_names():
    symbol = first("""
        class A(B[int], metaclass=M):
            @property
            def x(self, *args: int, **kw) -> int:
                '''Doc.'''
            if True:
                async def _y(self): ...
        """)
    assert (symbol.kind, symbol.signature, symbol.documented) == ("class", "class A(B[int])", False)
    x, y = symbol.children
    assert (x.kind, x.qualname, x.signature, x.decorators, x.documented) == (
        "method", "A.x", "def x(self, *args, **kw) -> int", ("property",), True
    )  # fmt: skip
    assert (y.signature, y.is_public) == ("async def _y(self)", False)
    assert symbol.to_json()["children"][0]["name"] == "x"


def test_a_function_that_is_hard_to_change_is_told_with_the_reasons(tmp_path):
    branches = "".join(f"    if x == {number}:\n        print({number})\n" for number in range(30))
    long = "    if x:\n        print(x)\n" * 11 + "    print(x)\n" * 150
    straight = "def g(x):\n" + "    print(x)\n" * 300
    write_tree(tmp_path, {"a.py": f"def f(x):\n{branches}\ndef h(x):\n{long}\n{straight}"})
    found = structure(tmp_path)
    told = {
        one["symbol"]: one["message"]
        for one in by_rule({"passes": {"structure": found}}, "structure")["hard-to-change-function"]
    }
    assert set(told) == {"f", "h"}
    assert told["f"].startswith("`f` has a complexity of 31:")
    assert told["h"].startswith("`h` has 172 lines:")
    assert [row["complexity"] for row in found["data"]["most_complex_functions"]["rows"]] == [31, 12]


def test_tests_are_measured_apart(tmp_path):
    write_tree(tmp_path, {"a.py": "def f():\n    return 1\n", "tests/test_a.py": "def test_f():\n    pass\n\n# end\n"})
    data = structure(tmp_path)["data"]
    assert data["tests"] == {"files": 1, "lines": 4, "lines_per_code_line": 2.0}
    assert data["public_symbols"] == 1
    assert [row["name"] for row in data["longest_functions"]["rows"]] == ["f"]


def test_sizes_are_told_by_language_and_directory(tmp_path):
    write_tree(tmp_path, {
        "a.py": "# one\nx = 1\n\n", "sub/b.js": "/* a\n b */\nlet x; // c\n", "sub/c.sh": "# x\necho\n", "data.json": "{}\n",
    })  # fmt: skip
    data = structure(tmp_path)["data"]
    languages = {row["language"]: row for row in data["languages"]["rows"]}
    assert (languages["Python"]["lines"], languages["JavaScript"]["lines"]) == (3, 3)
    assert data["directories"] == {".": 2, "sub": 2}
    assert data["largest_files"]["rows"][0] == {"path": "a.py", "lines": 3}


def test_markers_are_listed_from_comments_only(tmp_path):
    write_tree(tmp_path, {
        "a.py": "x = 'TODO: not a comment'\n# TODO(me): first\n# a bug in BUG tracker\ny = 1  # FIXME second\n",
        "b.js": "// XXX third\n", "c.md": "# TODO in prose\n",
    })  # fmt: skip
    markers = structure(tmp_path)["data"]["markers"]
    assert markers["counts"] == {"FIXME": 1, "TODO": 1, "XXX": 1}
    assert markers["rows"][0] == {"path": "a.py", "line": 2, "kind": "TODO", "text": "first"}


PACKAGE = {
    "pkg/__init__.py": "from pkg.a import f\n",
    "pkg/a.py": "from .b import g\nfrom . import c\nimport os.path\ndef f(): ...\n",
    "pkg/b.py": "def g():\n    from pkg import a\n    return a\n",
    "pkg/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.a import f\n",
    "pkg/sub/__init__.py": "from ..a import f\n",
    "pkg/sub/d.py": "from . import f\nimport pkg.sub.e as e\n",
    "pkg/sub/e.py": "import pkg.sub.d\nif __name__ == '__main__':\n    import pkg.b\n",
}


def test_the_import_graph_knows_absolute_and_relative_imports(tmp_path):
    write_tree(tmp_path, PACKAGE)
    imports = structure(tmp_path)["data"]["imports"]
    assert imports["modules"] == 7
    importers = {row["module"]: row["importers"] for row in imports["most_imported"]["rows"]}
    assert importers == {"pkg.a": 4, "pkg.b": 2, "pkg.c": 1, "pkg.sub": 1, "pkg.sub.d": 1, "pkg.sub.e": 1}
    assert {row["package"] for row in imports["outside_packages"]["rows"]} == {"os", "typing"}


def test_only_imports_that_run_at_import_make_a_cycle(tmp_path):
    write_tree(tmp_path, PACKAGE)
    result = structure(tmp_path)
    (cycle,) = result["data"]["imports"]["cycles"]["rows"]
    assert cycle["steps"] == ["pkg.sub.d (pkg/sub/d.py:2)", "pkg.sub.e (pkg/sub/e.py:1)"]
    (finding,) = [one for one in result["findings"] if one["rule"] == "import-cycle"]
    assert (finding["path"], finding["line"]) == ("pkg/sub/d.py", 2)


def test_packages_that_import_each_other_are_told_at_the_side_with_fewer_imports(tmp_path):
    write_tree(tmp_path, {
        "p/__init__.py": "", "p/high/__init__.py": "", "p/low/__init__.py": "",
        "p/high/a.py": "import p.low.x\nimport p.low.y\n", "p/high/b.py": "",
        "p/low/x.py": "import p.high.b\n", "p/low/y.py": "",
    })  # fmt: skip
    (finding,) = [one for one in structure(tmp_path)["findings"] if one["rule"] == "mutual-packages"]
    assert (finding["path"], finding["line"]) == ("p/low/x.py", 1)
    assert "`p.low` imports `p.high` (1 times, first here)" in finding["message"]


def test_a_module_is_named_from_its_topmost_package():
    packages = {"src/pkg", "src/pkg/sub"}
    assert module_name("src/pkg/sub/a.py", packages, "root") == "pkg.sub.a"
    assert module_name("src/pkg/__init__.py", packages, "root") == "pkg"
    assert module_name("scripts/run.py", packages, "root") == "run"
    assert module_name("a.py", {""}, "root") == "root.a"
    assert module_name("sub/a.py", {"", "sub"}, "root") == "root.sub.a"


def test_a_root_inside_a_package_has_its_whole_name(tmp_path):
    write_tree(
        tmp_path,
        {"top/__init__.py": "", "top/mid/__init__.py": "", "top/mid/a.py": "import top.mid.b\n", "top/mid/b.py": ""},
    )
    assert package_name(tmp_path / "top" / "mid") == "top.mid"
    assert structure(tmp_path / "top" / "mid")["data"]["imports"]["imports_between_modules"] == 1


def test_a_shortest_way_round_is_shown_of_each_knot():
    def edge(source, target, at_import=True):
        return Edge(source, target, f"{source}.py", 1, at_import)

    knot = [
        edge("a", "b"),
        edge("b", "c"),
        edge("c", "a"),
        edge("c", "b"),
        edge("x", "y"),
        edge("y", "x", at_import=False),
    ]
    ways = cycles(knot)
    assert [[one.source for one in way] for way in ways] == [["b", "c"]]


def test_a_long_chain_of_imports_is_no_trouble():
    chain = [Edge(f"m{n}", f"m{n + 1}", "x.py", 1, at_import=True) for n in range(5_000)]
    assert cycles(chain) == []
    assert len(cycles([*chain, Edge("m5000", "m0", "x.py", 1, at_import=True)])[0]) == 5_001


def test_a_large_file_is_told_unless_it_is_a_table(tmp_path):
    table = "X = {\n" + "".join(f"    {n}: {n},\n" for n in range(2_600)) + "}\n"
    many = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(600))
    write_tree(tmp_path, {"table.py": table, "many.py": many})
    (finding,) = [one for one in structure(tmp_path)["findings"] if one["rule"] == "large-file"]
    assert finding["path"] == "many.py"
    assert textwrap.shorten(finding["message"], 60).startswith("The file has 2,400 lines and 600 functions")
