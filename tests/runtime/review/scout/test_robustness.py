"""Whatever a directory holds, exploring it ends, tells what it could not do, and raises nothing."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ether.review.scout.explore import PassName, examine, explore, see_file
from ether.review.scout.files.discovery import Candidate, discover
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.source import Source, Unreadable, read
from ether.review.scout.passes.pass_report import Seen
from ether.review.scout.python.module import SyntaxProblem, parse
from tests.runtime.review.scout.support import by_rule, write_tree

CODE = st.sampled_from(
    [
        "def f(x=[], *, y={}):\n    x.append(y)\n",
        "class A(B):\n    items = []\n    def m():\n        raise NotImplemented\n",
        "async def g():\n    g()\n",
        "try:\n    pass\nexcept:\n    pass\nfinally:\n    pass\n",
        "for i in x:\n    x.remove(i)\nelse:\n    f'{i}'\n",
        "match x:\n    case {'a': 1, **rest}:\n        pass\n    case [1, *_] | A(b=2):\n        pass\n",
        "with open('x') as f, g() as (h, i):\n    [k for k in f if (z := k)]\n",
        "'%s %(a)d' % ()\n'{} {'.format(1)\n",
        "@d(1)[2].e\ndef \u00e4\u00f6(a, /, b: 'c' = 1, *args, d: int, **kw) -> 'x': ...\n",
        "x = lambda *a, **k: a\n",
        "from . import *\nfrom .. import x as y\nimport a.b.c as d, e\n__all__ = ['q'] + x\n",
        "global q\nif TYPE_CHECKING:\n    import z\n",
        "# TODO: x\n# noqa\n# pylint: disable=all\n",
    ]
)
PYTHON = st.lists(st.one_of(CODE, st.text(max_size=30)), max_size=6).map("".join)


@given(PYTHON)
@example("")
@example("\x0c")
@example("x = 1\r\ny = 2\rz = 3")
@example("'\\N{no such name}'")
@example("0" * 5000)
@example("x = " + "9" * 5000)
@example("def f():\n\treturn 1\n        return 2\n")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_can_be_examined_as_python(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    path = folder / "sample.py"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    json.dumps(examine(path))
    json.dumps(examine(path, ()))


@given(
    st.binary(max_size=200),
    st.sampled_from(["a.py", "a.js", "a.json", "a.toml", "a.md", "a.sh", "a.rb", "Makefile", "a"]),
)
@example(b"\xff\xfe\x00\x00", "a.py")
@example(b"# -*- coding: utf-7 -*-\n+AGE-", "a.py")
@example(b"# coding: no-such-codec\n", "a.py")
@example(b"\xef\xbb\xbfx = 1\n", "a.py")
@example(b"\xff\xfea\x00", "a.md")
@settings(max_examples=200, deadline=None)
def test_any_bytes_can_be_explored_under_any_name(tmp_path_factory, data, name):
    folder = tmp_path_factory.getbasetemp() / "bytes"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / name).write_bytes(data)
    result = explore(folder)
    assert result["files_found"] == 1
    json.dumps(result)


def test_python_that_does_not_decode_is_a_finding(tmp_path):
    write_tree(tmp_path, {"a.py": b"x = '\xff'\n", "b.py": b"x = 1\0\n", "c.py": b"# coding: klingon\n"})
    result = explore(tmp_path, [PassName.BUGS])
    places = {(one["path"], one["severity"]) for one in by_rule(result, "bugs")["syntax-error"]}
    assert places == {("a.py", "error"), ("b.py", "error"), ("c.py", "error")}
    assert len(result["notes"]) == 3


def test_a_declared_encoding_is_obeyed(tmp_path):
    write_tree(tmp_path, {"a.py": "# coding: latin-1\nx = 'ä'\nraise 'ä'\n".encode("latin-1")})
    (finding,) = by_rule(explore(tmp_path, [PassName.BUGS]), "bugs")["raise-non-exception"]
    assert "ä" in finding["message"]


def test_other_text_that_is_not_utf8_is_read_as_latin_1_and_noted(tmp_path):
    write_tree(tmp_path, {"a.txt": b"\xe4\n"})
    result = explore(tmp_path)
    assert result["files_read"] == 1
    assert result["notes"] == ["a.txt: not UTF-8; read as Latin-1."]


def test_an_expression_of_any_depth_is_survived(tmp_path):
    write_tree(tmp_path, {
        "sum.py": "x = " + "+".join("1" for _ in range(5_000)),
        "parens.py": "x = " + "(" * 150 + "1" + ")" * 150,
        "lists.py": "x = " + "[" * 5_000 + "]" * 5_000,
        "calls.py": "x" + ".y()" * 900,
        "good.py": "def f(x):\n    return x is 'a'\n",
    })  # fmt: skip
    result = explore(tmp_path)
    assert [one["path"] for one in by_rule(result, "bugs")["is-literal"]] == ["good.py"]
    assert {one["path"] for one in by_rule(result, "bugs")["syntax-error"]} >= {"lists.py"}


def test_syntax_that_only_the_compiler_refuses_is_found(tmp_path):
    write_tree(tmp_path, {"a.py": "x = 1\nreturn x\n", "b.py": "def f():\n    await g()\n"})
    findings = by_rule(explore(tmp_path, [PassName.BUGS]), "bugs")["syntax-error"]
    assert [(one["path"], one["line"]) for one in findings] == [("a.py", 2), ("b.py", 2)]


def test_analysed_code_warns_nobody(recwarn):
    source = Source("a.py", "Python", "x = '\\d'\ny = x is 'a'\nassert (1, 2)\n", 1)
    parse(source)
    assert not recwarn.list


def test_a_huge_integer_is_a_syntax_problem_and_no_crash():
    parsed = parse(Source("a.py", "Python", "x = " + "9" * 10_000 + "\n", 1))
    assert isinstance(parsed, SyntaxProblem)


def test_a_file_that_vanished_is_a_note(tmp_path):
    gone = read(Candidate(tmp_path / "gone.py", "gone.py", 1, "Python", vendored=False))
    assert isinstance(gone, Unreadable)
    assert gone.reason == "cannot be read (No such file or directory)"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_and_a_folder_that_may_not_be_read_are_notes(tmp_path):
    write_tree(tmp_path, {"closed.py": "x = 1\n", "dir/a.py": "y = 1\n", "open.py": "z = 1\n"})
    (tmp_path / "closed.py").chmod(0)
    (tmp_path / "dir").chmod(0)
    try:
        result = explore(tmp_path)
    finally:
        (tmp_path / "dir").chmod(0o700)
    assert result["files_read"] == 1
    assert len(result["notes"]) == 2


def test_an_empty_directory_is_explored(tmp_path):
    result = explore(tmp_path)
    assert (result["files_found"], result["lines"], result["complete"]) == (0, 0, True)
    assert "There is nothing to read." in result["insights"]


def test_what_is_no_directory_is_refused(tmp_path):
    with pytest.raises(NotADirectoryError):
        explore(tmp_path / "none")


def test_a_name_that_is_no_utf8_still_travels(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("raise 'x'\n")
    result = explore(tmp_path)
    json.dumps(result, ensure_ascii=False).encode()
    assert result["passes"]["bugs"]["findings"][0]["path"] == "caf?.py"


def test_a_cancelled_exploration_ends_early_and_says_so(tmp_path):
    write_tree(tmp_path, {f"m{number}.py": "raise 'x'\n" for number in range(10)})
    asked = iter([False, False, False, False, True])
    result = explore(tmp_path, cancelled=lambda: next(asked))
    assert result["complete"] is False
    assert result["files_read"] == 3
    assert result["notes"][0] == "Stopped early, after 3 of 10 files."
    assert result["passes"]["bugs"]["counts"]["error"] == 3


def test_progress_rises_to_one(tmp_path):
    write_tree(tmp_path, {f"m{number}.py": "x = 1\n" for number in range(7)})
    told: list[tuple[float, str]] = []
    explore(tmp_path, progress=lambda fraction, message: told.append((fraction, message)))
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert told[-1] == (1.0, "7 files read")
    assert told[0][1] == "m0.py"


def test_more_bytes_than_allowed_cut_the_exploration_short(tmp_path):
    write_tree(tmp_path, {"a.py": "x = 1\n", "b.py": "y = 1\n"})
    result = explore(tmp_path, limits=AnalysisLimits(total_bytes=6))
    assert (result["files_read"], result["complete"]) == (1, False)
    assert result["notes"] == ["Stopped at 6 bytes, after 1 of 2 files."]


def test_a_file_that_vanishes_while_it_is_listed_is_a_note(tmp_path, monkeypatch):
    monkeypatch.setattr("os.walk", lambda root, onerror: iter([(str(root), [], ["gone.py"])]))
    found = discover(tmp_path)
    assert found.files == []
    assert found.notes == ["gone.py: vanished while it was listed (No such file or directory)."]


def test_a_folder_that_vanishes_is_a_note(tmp_path):
    assert discover(tmp_path / "gone").notes == [".: cannot be listed (No such file or directory)."]


def test_what_is_too_deep_for_a_pass_is_a_note():
    class Shallow:
        def see(self, seen):
            raise RecursionError

    notes: list[str] = []
    see_file(Shallow(), Seen(Source("a.py", "Python", "", 0)), notes)
    assert notes == ["a.py: nested too deeply for the Shallow."]


def test_a_file_that_only_its_content_shows_to_be_binary_is_counted(tmp_path):
    write_tree(tmp_path, {"data": b"a\0b"})
    assert explore(tmp_path)["skipped"] == {"binary": 1}


def test_data_nested_beyond_its_parser_is_no_finding(tmp_path):
    write_tree(tmp_path, {"deep.json": "[" * 100_000})
    assert explore(tmp_path, [PassName.BUGS])["passes"]["bugs"]["findings"] == []
