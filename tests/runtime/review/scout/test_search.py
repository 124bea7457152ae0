"""Searching a directory: what is found, and how long it may take."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict

import pytest

from ether.review.scout import line_search
from ether.review.scout.line_search import Query
from ether.review.scout.search import search
from tests.runtime.review.scout.support import write_tree


@pytest.fixture
def root(tmp_path):
    return write_tree(tmp_path, {
        "a.py": "one\ntwo (x)\nthree\nTWO (X)\n", "sub/b.js": "two (x)\r\nfour\r\n", "c.dump": b"two (x)\0", "d.txt": "",
    })  # fmt: skip


def places(result):
    return [(hit["path"], hit["line"], hit["column"]) for hit in result["matches"]]


def test_literal_text_is_found_as_it_is(root):
    result = search(root, Query("two (x)"))
    assert places(result) == [("a.py", 2, 1), ("sub/b.js", 1, 1)]
    assert (result["files"], result["files_searched"], result["complete"]) == (4, 4, True)


def test_a_regular_expression_and_case_are_options(root):
    assert places(search(root, Query(r"two \(.\)", regex=True, ignore_case=True))) == [
        ("a.py", 2, 1), ("a.py", 4, 1), ("sub/b.js", 1, 1),
    ]  # fmt: skip
    assert places(search(root, Query("two", ignore_case=True), include=["*.js"])) == [("sub/b.js", 1, 1)]


def test_a_pattern_with_several_repeats_is_searched_by_a_process_of_its_own_with_the_same_result(root, monkeypatch):
    query = Query(r"t\w+ \(\w+\)", regex=True, ignore_case=True)
    apart = search(root, query)
    monkeypatch.setattr("ether.review.scout.search._is_simple", lambda query: True)
    assert search(root, query) == apart
    assert len(apart["matches"]) == 3


def test_context_comes_with_the_match(root):
    (hit,) = search(root, Query("three", context=1))["matches"]
    assert (hit["before"], hit["text"], hit["after"]) == (["two (x)"], "three", ["TWO (X)"])
    (hit,) = search(root, Query("one", context=2))["matches"]
    assert (hit["before"], hit["after"]) == ([], ["two (x)", "three"])


@pytest.mark.parametrize("query", [Query("o", limit=2), Query("o|z+?z*", regex=True, limit=2)])
def test_more_matches_than_asked_for_are_said_to_be_left_out(root, query):
    result = search(root, query)
    assert len(result["matches"]) == 2
    assert result["complete"] is False
    assert result["notes"] == ["More than 2 lines match; these are the first."]


def test_only_the_beginning_of_a_long_line_is_searched_and_shown(tmp_path):
    write_tree(tmp_path, {"a.txt": "x" * 100 + "needle\n" + "needle" + "y" * 100 + "\n"})
    (hit,) = search(tmp_path, Query("needle", line_length=50))["matches"]
    assert (hit["line"], len(hit["text"])) == (2, 50)


def test_a_catastrophic_pattern_ends_at_its_timeout_and_leaves_no_process(tmp_path):
    write_tree(tmp_path, {"a.txt": "a" * 60 + "b\n"})
    started = time.monotonic()
    result = search(tmp_path, Query("(a+)+$", regex=True), timeout=0.3)
    assert time.monotonic() - started < 10
    assert (result["matches"], result["complete"]) == ([], False)
    assert "its repeats multiply" in result["notes"][0]


def test_a_search_in_another_process_is_cancelled(tmp_path):
    write_tree(tmp_path, {"a.txt": "a" * 60 + "b\n"})
    asked = iter([False, False, True, True])
    result = search(tmp_path, Query("(a+)+$", regex=True), cancelled=lambda: next(asked, True))
    assert (result["complete"], result["notes"]) == (False, ["Cancelled."])


def test_a_search_here_is_cancelled(root):
    asked = iter([False] * 3 + [True] * 9)
    result = search(root, Query("two"), cancelled=lambda: next(asked))
    assert (result["complete"], result["notes"]) == (False, ["Cancelled."])
    assert result["files_searched"] == 1


def test_a_time_that_is_over_ends_a_search_here(root):
    result = search(root, Query("two"), timeout=-1)
    assert (result["files_searched"], result["notes"]) == (0, ["The time was up; these are the matches so far."])


@pytest.mark.parametrize(
    ("pattern", "words"), [("(", "is not a regular expression: missing"), ("", "The pattern is empty")]
)
def test_a_wrong_pattern_is_refused(root, pattern, words):
    with pytest.raises(ValueError, match=words):
        search(root, Query(pattern, regex=True))


def test_a_wrong_directory_is_refused(tmp_path):
    with pytest.raises(NotADirectoryError):
        search(tmp_path / "none", Query("x"))


def test_the_searching_program_needs_nothing_of_ether():
    code = (
        f"import runpy, sys; runpy.run_path({line_search.__file__!r}); print([m for m in sys.modules if 'ether' in m])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_file_that_vanished_has_no_matches(tmp_path):
    found = line_search.search_files(tmp_path, ["gone.txt"], Query("x"))
    assert (found["matches"], found["searched"]) == ([], 1)
    assert asdict(Query("x"))["limit"] == 200
