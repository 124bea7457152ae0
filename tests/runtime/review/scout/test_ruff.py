"""Ruff as a program: what it is given, what it says, and what happens when it is away or breaks down."""

from __future__ import annotations

import pytest

from ether.review.job import review
from ether.review.scout import ruff
from ether.review.scout.explore import PassName, explore
from ether_broker.errors import MissingExtra
from tests.runtime.review.scout.support import by_rule, write_tree

BAD = "def f(x):\n    return x is 'a'\n"


def test_a_missing_ruff_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    write_tree(tmp_path, {"code/a.py": BAD})
    monkeypatch.setattr(ruff, "_program_folders", lambda: [tmp_path])
    for look in (lambda: explore(tmp_path / "code"), lambda: review([tmp_path / "code"], tmp_path, processes=0)):
        with pytest.raises(MissingExtra, match=r"pip install 'agent-ether\[review\]'"):
            look()
    assert not (tmp_path / "review.md").exists()


def test_settings_beside_the_code_and_in_the_environment_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RUFF_OUTPUT_FILE", str(tmp_path / "elsewhere"))
    write_tree(tmp_path, {"a.py": BAD, "ruff.toml": "[lint.per-file-ignores]\n'*.py' = ['ALL']\n"})
    assert set(by_rule(explore(tmp_path, [PassName.BUGS]), "bugs")) == {"is-literal"}


def test_a_file_that_ends_ruff_costs_no_other_its_findings(tmp_path, monkeypatch):
    run = ruff._run
    monkeypatch.setattr(ruff, "_run", lambda files, *rest: None if "bad.py" in str(files) else run(files, *rest))
    write_tree(tmp_path, {"a.py": BAD, "bad.py": BAD, "c.py": BAD})
    result = explore(tmp_path, [PassName.BUGS])
    assert [one["path"] for one in by_rule(result, "bugs")["is-literal"]] == ["a.py", "c.py"]
    assert result["notes"] == ["bad.py: ruff could not check it."]


def test_a_ruff_that_hangs_is_ended(tmp_path, monkeypatch):
    program = tmp_path / "ruff"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    write_tree(tmp_path / "code", {"a.py": BAD})
    monkeypatch.setattr(ruff, "require_ruff", lambda: str(program))
    monkeypatch.setattr(ruff, "_LIMIT", 0.2)
    notes: list[str] = []
    from ether.review.scout.explore import see_all
    from ether.review.scout.files.discovery import discover
    from ether.review.scout.files.source import Source, read

    (source,) = [one for one in map(read, discover(tmp_path / "code").files) if isinstance(one, Source)]
    (seen,) = see_all([source], notes)
    assert (seen.found, notes) == ([], ["a.py: ruff could not check it."])


def test_nothing_that_is_analysed_is_run_or_written(tmp_path):
    write_tree(tmp_path, {"a.py": "open('ran', 'w')\nimport os\n", "conftest.py": "open('ran', 'w')\n"})
    explore(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.py", "conftest.py"]
