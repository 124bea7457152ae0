"""A file that is written under a lease: what fencing tokens beside it keep out."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ether_actors.task import working_file
from ether_actors.task.working_file import WorkingFile
from ether_broker.errors import LeaseLost, Unavailable, UsageError
from tests.support import child_environment, wait_until


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_and_leaves_nothing_but_its_fence(tmp_path: Path):
    file = WorkingFile(tmp_path / "deep" / "a.md", 1)
    file.enter()
    file.replace(b"one")
    file.replace(b"two")

    assert file.path.read_bytes() == b"two"
    assert names(file.path.parent) == [".a.md.lease", "a.md"]


@pytest.mark.parametrize("name", ["n" * 192, "n" * 193, "n" * 255, "文" * 85])
def test_a_file_may_have_any_name_that_a_file_may_have(tmp_path: Path, name: str):
    old, new = WorkingFile(tmp_path / name, 1), WorkingFile(tmp_path / name, 2)
    old.enter()
    old.replace(b"one")
    new.enter()
    new.replace(b"two")

    with pytest.raises(LeaseLost):
        old.replace(b"late")
    assert new.path.read_bytes() == b"two"
    assert len(names(tmp_path)) == 2


def test_an_older_lease_writes_nothing_once_a_newer_one_was_entered(tmp_path: Path):
    old, new = WorkingFile(tmp_path / "a.md", 7), WorkingFile(tmp_path / "a.md", 8)
    old.enter()
    old.replace(b"old")
    new.enter()

    with pytest.raises(LeaseLost, match="token 8 came after this one"):
        old.replace(b"late")
    with pytest.raises(LeaseLost):
        old.enter()

    assert old.path.read_bytes() == b"old"
    assert names(tmp_path) == [".a.md.lease", "a.md"]
    new.replace(b"new")
    assert new.path.read_bytes() == b"new"


def test_a_file_keeps_its_permissions_and_a_new_one_has_the_usual(tmp_path: Path):
    file = WorkingFile(tmp_path / "a.md", 1)
    plain = tmp_path / "plain"
    plain.touch()
    file.enter()
    file.replace(b"x")
    assert file.path.stat().st_mode == plain.stat().st_mode

    file.path.chmod(0o640)
    file.replace(b"y")

    assert file.path.stat().st_mode & 0o777 == 0o640


def test_a_fence_that_holds_no_token_is_said_and_kept(tmp_path: Path):
    file = WorkingFile(tmp_path / "a.md", 1)
    file.fence.write_text("hello")

    with pytest.raises(UsageError, match="holds b'hello' and no token"):
        file.enter()

    assert file.fence.read_text() == "hello"


def test_a_fence_that_stays_locked_is_said_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(working_file, "PATIENCE", 0.02)
    file = WorkingFile(tmp_path / "a.md", 1)
    with file.fence.open("xb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        assert file.try_enter() is False
        with pytest.raises(Unavailable, match="locked by another process"):
            file.replace(b"x")

    assert names(tmp_path) == [".a.md.lease"]
    file.enter()


WRITER = """
import os, sys
from pathlib import Path
from ether_actors.task.working_file import WorkingFile
file = WorkingFile(Path(sys.argv[1]), int(sys.argv[2]))
file.enter()
while True:
    try:
        file.replace(sys.argv[2].encode() * 100_000)
    except Exception as error:
        print(type(error).__name__, flush=True)
        break
"""


@pytest.mark.slow
def test_a_process_that_wakes_late_finds_itself_fenced_off(tmp_path: Path):
    path = tmp_path / "a.md"
    command = [sys.executable, "-c", WRITER, str(path), "1"]
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as stale:
        wait_until(path.exists, what="the first writer writes")
        newer = WorkingFile(path, 2)
        entered = False
        while not entered:  # it may be stopped with the fence locked: then nobody gets past it
            os.kill(stale.pid, signal.SIGSTOP)
            entered = newer.try_enter()
            if not entered:
                os.kill(stale.pid, signal.SIGCONT)
        newer.replace(b"new")
        os.kill(stale.pid, signal.SIGCONT)

        assert stale.stdout is not None
        assert stale.stdout.read() == "LeaseLost\n"

    assert path.read_bytes() == b"new"
    assert names(tmp_path) == [".a.md.lease", "a.md"]


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_file_or_the_new_one_and_locks_nobody_out(tmp_path: Path):
    path = tmp_path / "a.md"
    for token in (1, 2, 3):
        command = [sys.executable, "-c", WRITER, str(path), str(token)]
        with subprocess.Popen(command, env=child_environment(), stdout=subprocess.DEVNULL) as writer:
            wait_until(lambda: path.exists() and path.read_bytes()[:1] == b"%d" % token, what="it writes")  # noqa: B023
            writer.kill()
        assert path.read_bytes() == b"%d" % token * 100_000

    newest = WorkingFile(path, 4)
    newest.enter()
    newest.replace(b"whole")
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == [".a.md.lease", "a.md"]


def test_what_a_killed_writer_left_half_written_is_cleared_by_the_next(tmp_path: Path):
    kept = [".a.md.9-00.part", ".a.md.x-00.part", ".a.md.part", ".b.md.1-00.part", "a.md.1-00.part"]
    for name in (".a.md.1-00.part", *kept):
        (tmp_path / name).touch()

    WorkingFile(tmp_path / "a.md", 2).enter()

    assert names(tmp_path) == sorted([*kept, ".a.md.lease"])
