"""`ether review`, as a command; tests/runtime/review has the review itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from ether import Runtime
from ether.review.scout.agent import Scout
from tests.cli.command import Command, module_environment


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A small code base with something to find."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "module.py").write_text(
        "def add(item, items=[]):\n    try:\n        items.append(item)\n    except:\n        pass\n    return items\n",
        encoding="utf-8",
    )
    return folder


@pytest.mark.slow
def test_the_report_is_written_and_told_in_a_line(alone: Command, code: Path, tmp_path: Path) -> None:
    done = alone("review", str(code), "--output", str(tmp_path / "out"), "--processes", "0")

    assert done.code == 0, done
    assert str(tmp_path / "out" / "review.md") in done.out
    assert "scout complete" in done.err
    assert done.out.count("\n") == 1


@pytest.mark.slow
def test_json_is_what_the_file_has_and_quiet_is_quiet(alone: Command, code: Path, tmp_path: Path) -> None:
    words = ("-q", "review", str(code), "--output", str(tmp_path), "-j", "0", "--pass", "bugs", "-o", "json")
    done = alone(*words)

    assert done.err == ""
    assert done.json == json.loads((tmp_path / "review.json").read_text(encoding="utf-8"))
    assert done.json["summary"]["tasks"]["total"] == 1


@pytest.mark.slow
def test_progress_is_told_on_a_terminal(alone: Command, code: Path, tmp_path: Path) -> None:
    with alone.terminal("review", str(code), "--output", str(tmp_path), "-j", "0") as child:
        child.expect("scout complete")
        child.expect("review.json")
        child.expect(pexpect.EOF)
        child.wait()

    assert child.exitstatus == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing"], "There is no directory"),
        ([".", "--pass", "bug"], "There is no pass 'bug'. Did you mean 'bugs'?"),
        ([".", "--timeout", "0"], "timeout"),
        ([".", "--processes", "-1"], "--processes"),
        ([".", "--output", __file__], "is a file"),
    ],
)
def test_a_bad_argument_is_a_usage_error(alone: Command, tmp_path: Path, words: list[str], said: str) -> None:
    output = () if "--output" in words else ("--output", str(tmp_path))
    done = alone("review", *words, *output)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.slow
def test_the_scouts_of_a_bus_that_is_there_do_it(own: Command, own_bus: Runtime, code: Path, tmp_path: Path) -> None:
    own_bus.start_many(Scout, 2)

    done = own("review", str(code), "--output", str(tmp_path), "--connect", own_bus.url, "-o", "json")

    assert done.code == 0, done
    assert done.json["summary"]["processes"] == 1
    assert sum(row["outcomes"].get("COMPLETED", 0) for row in own_bus.agents()) == 4


def test_a_bus_without_scouts_is_told_with_the_way_to_one(own: Command, own_bus: Runtime, code: Path) -> None:
    done = own("review", str(code), "--connect", own_bus.url)

    assert (done.code, done.out) == (2, "")
    assert "ether node ether.review.scout.agent:Scout" in done.err


def test_processes_of_its_own_and_a_bus_that_is_there_exclude_each_other(ether: Command, code: Path, host: str) -> None:
    done = ether("review", str(code), "--connect", host, "-j", "2")

    assert (done.code, done.out) == (2, "")
    assert "leave one of them out" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "1"])
def test_packages_of_the_tree_that_it_is_started_in_are_not_imported(tmp_path: Path, processes: str) -> None:
    """As the installed script starts it, whose own folder comes first in the path (`-P` has none there)."""
    tree, mark = tmp_path / "tree", tmp_path / "ran"
    for name in ("ruff", "msgpack", "ormsgpack", "pydantic", "regex", "markdown_it", "json", "zmq", "ether"):
        (tree / name).mkdir(parents=True)
        (tree / name / "__init__.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n", encoding="utf-8")
    (tree / "ruff.toml").write_text("lint.ignore = ['ALL']\n", encoding="utf-8")
    (tree / "a.py").write_text("def f(x):\n    return x is 'a'\n", encoding="utf-8")

    done = subprocess.run(
        [
            *(sys.executable, "-P", "-c", "from ether.cli import main; main()", "review", ".", "--timeout", "30"),
            *("--processes", processes, "--output", str(tmp_path / "out")),
        ],
        cwd=tree, env=module_environment({}), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert not mark.exists(), mark.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "review.json").read_text(encoding="utf-8"))
    assert "is-literal" in {rule["rule"] for rule in found["rules"]}
