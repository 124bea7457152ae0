"""Files made to do harm, and files that change while they are looked at: they cost what their size says, and no more."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ether.review.scout import explore as exploring
from ether.review.scout.explore import PassName, examine, explore, make_pass, see_all, see_file
from ether.review.scout.files.discovery import discover
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.source import Source, Unreadable, read
from ether.review.scout.ruff import Diagnostic
from ether.review.scout.selection import select
from tests.runtime.review.scout.support import by_rule, module_of, write_tree

MUTABLE = "def f(x=[]):\n    x.append(1)\n    return x\n"


def opcodes(text: str, language: str = "Python") -> int:
    """The steps of Python that all passes take over a file, ruff's process aside."""
    steps = 0

    def step(frame, event, _):
        nonlocal steps
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        steps += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        passes = [make_pass(one, AnalysisLimits()) for one in PassName]
        for seen in see_all([Source("a", language, text, len(text))], []):
            for one in passes:
                see_file(one, seen, [])
        for one in passes:
            one.finish(Path("/nonexistent"))
    finally:
        sys.settrace(before)
    return steps


MANY: dict[str, Callable[[int], str]] = {
    "functions of one name": lambda n: "def f(x=[]): eval(x)\n" * n,
    "functions": lambda n: "".join(MUTABLE.replace("f", f"f{i}") for i in range(n)),
    "mutable defaults of one function": lambda n: (
        f"def f({', '.join(f'a{i}=[]' for i in range(n))}):\n" + "".join(f"    a{i}.append(1)\n" for i in range(n))
    ),
    "unused imports": lambda n: "class A: ...\n" + "".join(f"import a{i}\n" for i in range(n)),
    "unused imports in a line": lambda n: "class A: ...\n" + ";".join(f"import a{i}" for i in range(n)),
    "imports over several lines": lambda n: "class A: ...\nfrom a import (\n" + "".join(f"  a{i},\n" for i in range(n)) + ")\n",
    "comments for all of the file": lambda n: "# ruff: noqa: E501\ndef f(x): return x is 'a'\n" * n,
    "comments for a line": lambda n: "def f(x): return x is 'a'  # noqa: E501\n" * n,
    "findings in a line": lambda n: "def f(x):\n    return " + "+".join(["(x is 'ä')"] * n),
    "undefined names in a line": lambda n: ";".join(f"print(a{i})" for i in range(n)),
    "undefined names in a chain": lambda n: "if x:\n    a\n" + "".join(f"elif x{i}:\n    a{i}\n" for i in range(n)),
    "conditions of a chain": lambda n: (
        "def f(x):\n    if x: return 1\n" + "".join(f"    elif x == {i}: return 2\n" for i in range(n))
    ),
    "functions in a chain": lambda n: "if 0: pass\n" + "".join(f"elif a{i}:\n    def f(x=[]): return x\n" for i in range(n)),
    "imports in a chain": lambda n: "import q\nif q: pass\n" + "".join(f"elif q.a{i}: import b{i}\n" for i in range(n)),
    "handlers of one try": lambda n: (
        "def f():\n    try:\n        a = 1\n        b = 2\n        c = 3\n        d = 4\n        print(a, b, c, d)\n"
        + "    except Exception:\n        pass\n" * n
    ),
    "coroutines": lambda n: "async def g(): ...\nasync def f():\n" + "    g()\n" * n,
    "methods that are coroutines": lambda n: (
        "class A:\n    async def g(self): ...\n    async def f(self):\n" + "        self.g()\n" * n
    ),
    "documented parameters": lambda n: (
        'def f(x):\n    """Do.\n\n    Args:\n' + "".join(f"        a{i}: no.\n" for i in range(n)) + '    """\n'
    ),
    "variables": lambda n: "def f():\n" + "".join(f"    a{i} = 1\n" for i in range(n)),
    "variables in a line": lambda n: "def f():\n    " + ";".join(f"a{i} = 1" for i in range(n)),
    "breakpoints in a line": lambda n: "def f():\n    " + ";".join(["breakpoint()"] * n),
    "returns in a line": lambda n: "class A:\n    def __init__(self):\n        " + ";".join(["return 1"] * n),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("many", MANY)
def test_eight_times_the_text_takes_eight_times_the_steps(many):
    # Given: the first run fills caches of Python's own
    opcodes(MANY[many](4))
    # When
    few, more = opcodes(MANY[many](50)), opcodes(MANY[many](400))
    # Then
    assert more < 10 * few


def test_a_key_of_toml_with_many_parts_takes_no_steps():
    few, more = (opcodes("a." * parts + "a = 1\n", "TOML") for parts in (100, 800))
    assert more < 10 * few


def test_findings_are_not_looked_for_further_once_it_is_time_to_stop():
    module = module_of("def f(x): return x is 'a'\n" * 9)
    findings = [Diagnostic("F632", "Use `==`", line, 18, line, 26) for line in range(1, 10)]
    asked = count()
    assert len(list(select(module, findings, lambda: next(asked) == 3))) == 3


def test_what_is_stopped_among_its_findings_is_not_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(exploring, "_GRACE", -1.0)
    write_tree(tmp_path, {"a.py": "def f(x): return x is 'a'\n" * 9})
    asked = count()
    result = explore(tmp_path, [PassName.BUGS], cancelled=lambda: next(asked) > 6)
    assert (result["complete"], result["notes"]) == (False, ["Stopped early, among the files 1 to 1 of 1."])
    asked = count()
    result = examine(tmp_path / "a.py", cancelled=lambda: next(asked) > 3)
    assert (result["complete"], result["notes"]) == (False, ["Stopped early, with the findings so far."])
    assert examine(tmp_path / "a.py")["complete"]


def change_into_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(write_tree(path.parent.parent, {"secret.py": "def f():\n    return SECRET\n"}) / "secret.py")


def change_into_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def change_into_more(path: Path) -> None:
    path.write_text("import os\n" * 300 + MUTABLE * 9, encoding="utf-8")


CHANGES = [change_into_a_link, change_into_a_pipe, change_into_more, Path.unlink]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_once_it_was_read_is_judged_as_it_was(tmp_path, monkeypatch, change):
    tree = write_tree(tmp_path / "tree", {"a.py": MUTABLE})
    check = exploring.check_files

    def late(*given):
        change(tree / "a.py")
        return check(*given)

    before = explore(tree, [PassName.BUGS])
    monkeypatch.setattr(exploring, "check_files", late)
    assert explore(tree, [PassName.BUGS]) == before
    assert set(by_rule(before, "bugs")) == {"mutable-default"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (change_into_a_link, "Too many levels of symbolic links"),
        (change_into_a_pipe, "No regular file any more"),
        (lambda path: path.write_bytes(b"#" * 1_000_001), "It has grown from 42 to over 1,000,000 bytes"),
        (Path.unlink, "No such file or directory"),
    ],
)
def test_what_took_the_place_of_a_file_before_it_was_read_is_a_note(tmp_path, change, why):
    tree = write_tree(tmp_path / "tree", {"a.py": MUTABLE})
    (listed,) = discover(tree).files
    change(tree / "a.py")
    assert read(listed) == Unreadable("a.py", f"cannot be read ({why})")


@pytest.mark.parametrize("name", ["punycode", "idna", "unicode_escape", "utf-7", "rot13", "zlib", "undefined"])
def test_python_in_an_encoding_that_is_none_of_texts_is_a_note(tmp_path, name):
    write_tree(tmp_path, {"a.py": f"# coding: {name}\nx = 1\n".encode() + b"a" * 99_999})
    result = explore(tmp_path)
    assert result["notes"] == [f"a.py: is declared as {name}, an encoding that is not read here."]
    assert result["passes"]["bugs"]["findings"] == []


@pytest.mark.parametrize(
    "name",
    ["utf-8", "ascii", "latin-1", "iso-8859-15", "cp1252", "koi8-r", "mac-roman", "gb18030", "shift_jis", "euc-kr"],
)
def test_python_in_an_encoding_of_texts_is_read(tmp_path, name):
    write_tree(tmp_path, {"a.py": f"# coding: {name}\nx = 1\n".encode(name)})
    assert explore(tmp_path)["notes"] == []


def test_a_call_too_deep_to_be_written_out_costs_no_finding(tmp_path):
    chain = ".y()" * 900
    write_tree(tmp_path, {"a.py": f"import requests\ndef f(x):\n    requests.get(x){chain}\n"})
    assert [one["line"] for one in by_rule(explore(tmp_path), "bugs")["request-without-timeout"]] == [3]


def test_a_long_chain_of_elif_has_its_functions_in_the_outline(tmp_path):
    text = "if a: pass\n" + "".join(f"elif a{i}: pass\n" for i in range(900)) + "else:\n    def f(): ...\n"
    write_tree(tmp_path, {"a.py": text})
    assert [one["name"] for one in examine(tmp_path / "a.py", ())["symbols"]] == ["f"]


def test_names_are_resolved_in_texts_too_long_to_be_compiled(tmp_path):
    write_tree(tmp_path, {"a.py": "# long\n" * 9_000 + "def f(a, a): ...\n"})
    (finding,) = by_rule(explore(tmp_path), "bugs")["syntax-error"]
    assert finding["line"] == 9_001
