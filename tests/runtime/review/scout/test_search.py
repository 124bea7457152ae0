"""Searching a directory: what is found, and how long it may take."""

from __future__ import annotations

import sys
import time

import pytest

from ether.review.scout.files.discovery import discover
from ether.review.scout.params import Search
from ether.review.scout.search import search
from ether_broker.errors import MissingExtra
from tests.runtime.review.scout.support import write_tree


@pytest.fixture
def root(tmp_path):
    return write_tree(tmp_path, {
        "a.py": "one\ntwo (x)\nthree\nTWO (X)\n", "sub/b.js": "two (x)\r\nfour\r\n", "c.dump": b"two (x)\0", "d.txt": "",
    })  # fmt: skip


def wanted(root, pattern, **more):
    return Search(path=str(root), pattern=pattern, **more)


def places(result):
    return [(hit["path"], hit["line"], hit["column"]) for hit in result["matches"]]


def test_literal_text_is_found_as_it_is(root):
    result = search(wanted(root, "two (x)"))
    assert places(result) == [("a.py", 2, 1), ("sub/b.js", 1, 1)]
    assert (result["files"], result["files_searched"], result["complete"]) == (4, 4, True)


def test_a_regular_expression_and_case_are_options(root):
    assert places(search(wanted(root, r"two \(.\)", regex=True, ignore_case=True))) == [
        ("a.py", 2, 1), ("a.py", 4, 1), ("sub/b.js", 1, 1),
    ]  # fmt: skip
    assert places(search(wanted(root, "two", ignore_case=True, include=("*.js",)))) == [("sub/b.js", 1, 1)]


def test_context_comes_with_the_match(root):
    (hit,) = search(wanted(root, "three", context=1))["matches"]
    assert (hit["before"], hit["text"], hit["after"]) == (["two (x)"], "three", ["TWO (X)"])
    (hit,) = search(wanted(root, "one", context=2))["matches"]
    assert (hit["before"], hit["after"]) == ([], ["two (x)", "three"])


@pytest.mark.parametrize("query", [{"pattern": "o"}, {"pattern": "o|z+?z*", "regex": True}])
def test_more_matches_than_asked_for_are_said_to_be_left_out(root, query):
    result = search(wanted(root, limit=2, **query))
    assert len(result["matches"]) == 2
    assert result["complete"] is False
    assert result["notes"] == ["More than 2 lines match; these are the first."]


def test_only_the_beginning_of_a_long_line_is_searched_and_shown(tmp_path):
    write_tree(tmp_path, {"a.txt": "x" * 2_000 + "needle\n" + "needle" + "y" * 2_000 + "\n"})
    (hit,) = search(wanted(tmp_path, "needle"))["matches"]
    assert (hit["line"], len(hit["text"])) == (2, 2_000)


def test_a_pattern_whose_repeats_multiply_ends_at_its_timeout(tmp_path):
    write_tree(tmp_path, {"a.txt": "a" * 60 + "b\n"})
    started = time.monotonic()
    result = search(wanted(tmp_path, "(a|aa)+$", regex=True, timeout=0.3))
    assert time.monotonic() - started < 10
    assert (result["matches"], result["complete"]) == ([], False)
    assert result["notes"][0].startswith("The time was up; these are the matches so far.")


def test_a_search_is_cancelled_between_two_files(root):
    asked = iter([False] * 3 + [True] * 9)
    result = search(wanted(root, "two"), cancelled=lambda: next(asked))
    assert (result["complete"], result["notes"]) == (False, ["Cancelled."])
    assert result["files_searched"] == 1


def test_a_time_that_is_over_ends_a_search(root):
    result = search(wanted(root, "two", timeout=1e-9))
    assert (result["files_searched"], result["complete"]) == (0, False)


def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)
    with pytest.raises(MissingExtra, match=r"pip install 'agent-ether\[review\]'"):
        search(wanted(root, "two"))


def test_a_wrong_pattern_is_refused(root):
    with pytest.raises(ValueError, match="is not a regular expression: missing"):
        search(wanted(root, "(", regex=True))
    with pytest.raises(ValueError, match="at least 1 character"):
        wanted(root, "")


def test_a_wrong_directory_is_refused(tmp_path):
    with pytest.raises(NotADirectoryError):
        search(wanted(tmp_path / "none", "x"))


def test_a_file_that_vanished_has_no_matches(root, monkeypatch):
    found = discover(root)
    (root / "a.py").unlink()
    monkeypatch.setattr("ether.review.scout.search.discover", lambda *_, **__: found)
    assert places(search(wanted(root, "two (x)"))) == [("sub/b.js", 1, 1)]
