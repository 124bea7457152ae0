"""The tasks of a review, and what a wrong directory is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ether.review.plan import plan, targets
from ether.review.scout.explore import PassName
from ether_broker.errors import UsageError


def test_every_directory_is_reviewed_under_every_pass(sources):
    tasks = plan(targets([sources / "alpha", sources / "beta"]))
    assert sorted(task.label for task in tasks) == [
        "alpha · bugs", "alpha · documentation", "alpha · structure",
        "beta · bugs", "beta · documentation", "beta · structure",
    ]  # fmt: skip
    assert [task.label for task in plan(targets([sources / "beta"]), [PassName.BUGS])] == ["beta · bugs"]


def test_a_directory_given_twice_is_reviewed_once(sources, monkeypatch):
    monkeypatch.chdir(sources)
    assert [target.path for target in targets(["alpha", sources / "alpha", "./alpha"])] == [sources / "alpha"]


def test_directories_that_end_alike_are_told_apart_by_their_path(sources):
    (sources / "beta" / "alpha").mkdir()
    names = [target.name for target in targets([sources / "alpha", sources / "beta" / "alpha"])]
    assert names == [str(sources / "alpha"), str(sources / "beta" / "alpha")]


def test_a_missing_directory_names_the_nearest_that_is_there(sources):
    with pytest.raises(UsageError, match=r"There is no directory .*alhpa\. .* Did you mean 'alpha'\?"):
        targets([sources / "alhpa"])
    with pytest.raises(UsageError, match=r"In .*sources: Known: alpha, beta\."):
        targets([sources / "zzz" / "deep"])
    with pytest.raises(UsageError, match="has no directories"):
        targets([sources / "alpha" / "x"])


def test_a_file_is_refused_with_its_folder(sources):
    with pytest.raises(UsageError, match=r"a\.py is a file: name the directory that holds it, .*alpha\."):
        targets([sources / "alpha" / "a.py"])


def test_no_directory_at_all_is_refused():
    with pytest.raises(UsageError, match="No directory was given"):
        targets([])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_refused(tmp_path):
    tmp_path.chmod(0)
    try:
        with pytest.raises(UsageError, match="may not be read"):
            targets([tmp_path])
    finally:
        tmp_path.chmod(0o700)


def test_the_root_of_the_file_system_has_a_name():
    (target,) = targets([Path("/")])
    assert target.name == "/"
