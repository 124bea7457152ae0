from __future__ import annotations

import os
import selectors
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ether import Runtime, Unserialisable
from ether.cluster import Cluster
from ether.process.child import Process, describe_exit
from ether.process.output_reader import OutputReader
from tests.runtime.script import script
from tests.support import REPOSITORY, process_is_alive, wait_until

WORKER = "tests.runtime.agents:Worker"
CHILD = "tests.runtime.child"
Start = Callable[..., Process]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=os.pathsep)  # where it runs is not where it imports from
    started: list[Process] = []

    def one(does: str, **request: object) -> Process:
        process = Process("child", CHILD, {"does": does, "folder": ".", **request})
        started.append(process)
        return process

    yield one
    for process in started:
        process.kill()
        process.reap()
        process.close()


def report_of(process: Process) -> dict[str, Any]:
    with selectors.DefaultSelector() as selector:
        selector.register(process.channel, selectors.EVENT_READ)
        while selector.select(10.0):
            reports = process.reports()
            assert reports is not None, "it ended without a report"
            if reports:
                return reports[0]
    raise AssertionError("no report")


def ended(process: Process) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(process.exit, selectors.EVENT_READ)
        return bool(selector.select(10.0))


# -- a child -----------------------------------------------------------------------------------------------------


def test_a_child_reports_that_it_is_up_and_imports_what_its_parent_can(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.syspath_prepend(tmp_path)
    facts = report_of(start("stay"))["ready"]

    assert process_is_alive(facts["pid"])
    assert str(tmp_path) in facts["path"]


def test_a_child_reports_why_it_does_not_come_up(start: Start):
    process = start("fail")

    assert report_of(process)["failed"] == {
        "code": "invalid_spec", "message": "not like this", "traceback": "a traceback"
    }  # fmt: skip
    assert ended(process)
    assert process.reports() is None
    assert process.reap() == 2


def test_a_child_has_nothing_on_its_stdin_but_its_request(start: Start):
    assert report_of(start("read"))["ready"] == {"rest": ""}


def test_a_request_that_cannot_travel_starts_nothing(start: Start):
    with pytest.raises(Unserialisable, match=r"request\['callback'\] is a function"):
        start("stay", callback=lambda: None)


def test_a_child_that_was_killed_says_by_what(start: Start):
    process = start("stay")
    report_of(process)
    process.kill()

    assert ended(process)
    assert describe_exit(process.reap()) == "killed by SIGKILL"
    process.tell(signal.SIGTERM)


def test_a_thread_that_stays_does_not_hold_the_end_of_a_child(start: Start):
    process = start("linger")

    assert ended(process)
    assert process.reap() == 7


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-11, "killed by SIGSEGV"), (-99, "killed by signal 99")],
)
def test_an_exit_code_in_words(code: int, words: str):
    assert describe_exit(code) == words


def test_output_comes_out_in_lines_whatever_its_pieces(start: Start):
    lines: list[str] = []
    outlet = OutputReader(lambda name, line: lines.append(f"{name}: {line[:20]}"))
    process = start("print")
    outlet.connect("child", process.output)
    assert ended(process)
    last = outlet.disconnect(process.output)
    outlet.close()

    assert lines[:3] == ["child: one", "child: two", "child: three"]
    assert sum(len(line) for line in last[3:]) == 100_000


def test_a_pipe_that_somebody_else_holds_open_is_let_go(start: Start):
    outlet = OutputReader(lambda _name, _line: None)
    process = start("stay")
    outlet.connect("child", process.output)
    report_of(process)

    assert outlet.disconnect(process.output, timeout=0.01) == ()
    outlet.close()


# -- its parent's death ------------------------------------------------------------------------------------------

PARENT = """
import signal, sys
from ether.cluster import Cluster
with Cluster(nodes=2, agents=["tests.runtime.agents:Worker"]) as cluster:
    print(cluster.url, *(entry.pid for entry in cluster.statistics()))
    signal.pause()
"""


def test_no_process_and_no_file_outlives_a_parent_that_is_killed():
    with script(PARENT) as parent:
        url, *words = parent.line().split()
        pids = [int(word) for word in words]
        assert len(pids) == 3
        assert all(process_is_alive(pid) for pid in pids)
        parent.signal(signal.SIGKILL)
        parent.wait()

        wait_until(lambda: not any(process_is_alive(pid) for pid in pids), timeout=3.0, what="all have ended")
        wait_until(lambda: not Path(url.removeprefix("ipc://")).parent.exists(), timeout=3.0)


def test_a_handler_that_never_lets_go_of_the_interpreter_dies_with_the_parent_too():
    with script(PARENT) as parent:
        url, *words = parent.line().split()
        pids = [int(word) for word in words]
        with Runtime.connect(url, drain=0.0) as bus:
            handle = bus.delegate("work.hog", to="worker-2")
            next(iter(handle.stream()))
            parent.signal(signal.SIGKILL)
            parent.wait()
            wait_until(lambda: not any(process_is_alive(pid) for pid in pids), timeout=3.0)


ONE_CHILD = """
import os, signal, sys, time
from ether.process.child import Process
os.environ["CHILD_DEATH_SIGNAL"] = "0"  # without the kernel's help
os.environ["PYTHONPATH"] += os.pathsep + os.getcwd()
child = Process("child", "tests.runtime.child", {"does": "stay", "folder": sys.argv[1]})
child.channel.setblocking(True)
child.channel.recv(1)
holder = os.fork() if sys.argv[2:] else 0  # a fork that holds the parent's end of the channel open
if sys.argv[2:] and holder == 0:
    time.sleep(60)
print(child.pid)
signal.pause()
"""


@pytest.mark.parametrize("fork", [(), ("fork",)], ids=["by its channel", "by its parent's id"])
def test_an_orphan_ends_by_itself_and_cleans_up(tmp_path: Path, fork: tuple[str, ...]):
    with script(ONE_CHILD, str(tmp_path), *fork) as parent:
        pid = int(parent.line())
        parent.signal(signal.SIGKILL)
        parent.process.wait()
        wait_until(lambda: not process_is_alive(pid), timeout=5.0)

        assert (tmp_path / "orphaned").exists()


def test_a_child_whose_channel_is_cut_ends_though_its_parent_lives(start: Start, tmp_path: Path):
    process = start("stay", folder=str(tmp_path))
    report_of(process)
    process.channel.close()

    assert ended(process)
    assert (tmp_path / "orphaned").exists()


def test_a_cluster_outlives_the_thread_that_opened_it():
    cluster = Cluster(agents=[WORKER])
    opener = threading.Thread(target=cluster.open)
    opener.start()
    opener.join()
    try:
        with Runtime.connect(cluster.url) as bus:
            assert bus.delegate("work.alone").result().ok
            assert [entry.restarts for entry in cluster.statistics()] == [0, 0]
    finally:
        cluster.close()
