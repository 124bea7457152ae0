"""`ether reload`, and SIGHUP to `ether up`: real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ether.cluster import ReloadReport
from ether.cluster.reloading.reload_requests import ReloadRequests, _address, reloadable, request_reload
from ether_broker.errors import AddressInUse, BrokerUnavailable, Forbidden, InvalidSpec
from tests.cli.command import Command
from tests.support import process_is_alive, wait_until

AGENTS = "tests.cli.agents"


def write(file: Path, *names: str, more: str = "", count: int = 1) -> Path:
    """A cluster file: a node for each name, with a greeter."""
    nodes = "".join(
        f"  - {{name: {name}, agents: [{{start: '{AGENTS}:Greeter', name: {name}-ada, count: {count}}}]}}\n"
        for name in names
    )
    file.write_text(f"cluster: {{durability: memory, drain: 5{more}}}\nnodes:\n{nodes}", encoding="utf-8")
    return file


class Up:
    """`ether up FILE`, and what it says on stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ipc://")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip())

    def hears(self, text: str) -> str:
        return wait_until(
            lambda: next((line for line in self.said if text in line), ""), what=f"{text!r} in {self.said}"
        )

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        self._thread.join()
        return code


@contextmanager
def up(ether: Command, *words: str) -> Iterator[Up]:
    with ether.started("up", *words) as process:
        it = Up(process)
        try:
            yield it
        finally:
            process.kill()
            it._thread.join()


def agents(ether: Command) -> dict[str, str]:
    return {row["agent"]: row["node"] for row in ether("agents", "-o", "json").json if row["condition"] == "up"}


@pytest.mark.slow
def test_a_changed_file_is_taken_and_what_became_of_each_is_printed(alone: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "bus.yaml", "n1", "n2")
    with up(alone, str(file)) as it:
        before = {row["node"]: row["pid"] for row in alone("nodes", "-o", "json").json}
        write(file, "n1", "n3")
        done = alone.process("reload")
        after = {row["node"]: row["pid"] for row in alone("nodes", "-o", "json").json}
        assert agents(alone) == {"n1-ada": "n1", "n3-ada": "n3"}
        again = alone("reload", str(file), "-o", "json")
        it.hears("reload: stopped   n2, n2/n2-ada")
        assert it.end() == 0

    assert (done.code, done.err) == (0, f"the cluster default has read {file}\n")
    assert done.out.splitlines() == [
        "started   n3, n3/n3-ada", "stopped   n2, n2/n2-ada", "unchanged n1, n1/n1-ada",
    ]  # fmt: skip
    assert after["n1"] == before["n1"]
    assert again.code == 0
    assert again.json == {
        "started": [], "restarted": {}, "stopped": [], "rescaled": [],
        "unchanged": ["n1", "n3", "n1/n1-ada", "n3/n3-ada"], "overran": [],
        "outdated": {}, "failed": {}, "file": str(file),
    }  # fmt: skip


@pytest.mark.slow
def test_what_is_no_regular_file_is_refused_and_the_cluster_goes_on_and_ends(alone: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "bus.yaml", "n1")
    with up(alone, str(file)) as it:
        file.unlink()
        os.mkfifo(file)
        os.kill(it.process.pid, signal.SIGHUP)
        it.hears("reload: refused")
        refused, named = alone("reload"), alone("reload", str(file))
        long = alone("reload", "x" * 300)
        assert agents(alone) == {"n1-ada": "n1"}
        assert it.end() == 0

    for told in (refused, named):
        assert told.code == 2
        assert "bus.yaml is not a regular file" in told.err
    assert (long.code, "cannot be read: File name too long." in long.err) == (2, True)


@pytest.mark.slow
def test_sighup_reloads_a_cluster_that_was_started_from_a_file(alone: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "bus.yaml", "n1")
    with up(alone, str(file)) as it:
        write(file, "n1", count=2)
        os.kill(it.process.pid, signal.SIGHUP)
        it.hears("reload: started   n1/n1-ada-2")
        assert agents(alone) == {"n1-ada": "n1", "n1-ada-2": "n1"}
        write(file, "n1")
        os.kill(it.process.pid, signal.SIGHUP)
        it.hears("reload: stopped   n1/n1-ada-2")
        assert it.end() == 0


@pytest.mark.slow
def test_sighup_reloads_on_a_terminal_that_is_there_and_ends_as_it_is_closed(alone: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "bus.yaml", "n1")
    with alone.terminal("up", str(file)) as child:
        child.expect("default.sock")
        write(file, "n1", count=2)
        os.kill(child.pid, signal.SIGHUP)
        child.expect("started   n1/n1-ada-2")
        assert process_is_alive(child.pid)
        child.close(force=False)  # the kernel sends SIGHUP
        wait_until(lambda: not process_is_alive(child.pid), what="it has ended")
    assert alone("agents").code == 3


@pytest.mark.slow
def test_where_sighup_was_ignored_it_asks_for_a_reload_too(alone: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "bus.yaml", "n1")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does, and a child has it
    try:
        with up(alone, str(file)) as it:
            write(file, "n1", count=2)
            os.kill(it.process.pid, signal.SIGHUP)
            it.hears("started   n1/n1-ada-2")
            assert it.end() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_a_file_that_is_not_valid_or_changes_what_a_reload_cannot_changes_nothing(
    alone: Command, tmp_path: Path
) -> None:
    file = write(tmp_path / "bus.yaml", "n1")
    with up(alone, str(file)) as it:
        file_text = file.read_text(encoding="utf-8")
        file.write_text("cluster: {drian: 3}\nnodes: []", encoding="utf-8")
        bad = alone("reload", "--name", "default")
        os.kill(it.process.pid, signal.SIGHUP)
        it.hears("reload: refused: ")
        other = alone("reload", str(write(tmp_path / "other.yaml", "n1", more=", intensity: 2")))
        limits = tmp_path / "limits.yaml"
        limits.write_text(f"limits: {{window: 3}}\n{file_text}", encoding="utf-8")
        below = alone("reload", str(limits))
        assert agents(alone) == {"n1-ada": "n1"}
        write(file, "n1", count=2)
        assert alone("reload").out.startswith("started   n1/n1-ada-2\n")  # the file that was refused is not its file
        assert it.end() == 0

    assert (bad.code, bad.out) == (2, "")
    assert f"ether: invalid_spec: {file}:1:11: cluster has no key 'drian'. Did you mean 'drain'?" in bad.err
    assert (other.code, other.out) == (2, "")
    assert "cannot change cluster.intensity (5, now 2)" in other.err
    assert "cannot change limits.window (128, now 3)" in below.err


@pytest.mark.slow
def test_what_does_not_start_is_told_with_exit_code_1(alone: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "bus.yaml", "n1")
    with up(alone, str(file)) as it:
        with file.open("a") as more:
            more.write(f"  - {{name: n2, agents: [{{start: '{AGENTS}:Nobody'}}]}}\n")
        done = alone("reload", str(file))
        assert alone("exec", "n1-ada", "greet", "--name", "Ada").code == 0
        assert it.end() == 0

    assert done.code == 1
    assert "failed    n2/nobody: " in done.out


@pytest.mark.slow
def test_a_cluster_without_a_file_takes_one_that_is_named_and_has_its_options(alone: Command, tmp_path: Path) -> None:
    words = (f"{AGENTS}:Greeter", "--durability", "memory", "--drain", "5", "--name", "mine")
    with up(alone, *words) as it:
        refused = alone("reload", "--name", "mine")
        done = alone("reload", str(write(tmp_path / "bus.yaml", "n1")), "--name", "mine")
        again = alone("reload", "--name", "mine")
        assert it.end() == 0

    assert (refused.code, "was started without a file" in refused.err) == (2, True)
    assert done.out.splitlines() == ["started   n1, n1/n1-ada", "stopped   node-1, node-1/greeter"]
    assert again.out.splitlines() == ["unchanged n1, n1/n1-ada"]


def test_a_cluster_that_is_not_there_is_told(alone: Command) -> None:
    done = alone("reload", "--name", "nobody")

    assert (done.code, done.out) == (3, "")
    assert "No `ether up` of yours runs a cluster named 'nobody'" in done.err


def test_the_cluster_that_ether_connect_names_is_asked_unless_another_is_named(
    alone: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with ReloadRequests("mine", lambda _file: ReloadReport(unchanged=("n1",)), lambda _event: None) as requests:
        requests.serve()
        for url in ("ipc://mine", f"ipc://{folder}/ether/mine.sock"):
            assert alone("reload", ETHER_CONNECT=url).out == "unchanged n1\n"
        named = alone("reload", "--name", "other", ETHER_CONNECT="ipc://mine")
        elsewhere = alone("reload", ETHER_CONNECT="tcp://127.0.0.1:7421")

    assert "runs a cluster named 'other'" in named.err
    assert elsewhere.code == 2
    assert "ETHER_CONNECT is tcp://127.0.0.1:7421, and a reload goes by the name of a cluster" in elsewhere.err


def test_who_names_no_cluster_that_runs_is_told_the_names_of_those_that_do(
    alone: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    long = "n" * 120
    others = [
        ReloadRequests(name, lambda _file: ReloadReport(), lambda _event: None) for name in ("two", "one", long)
    ]  # fmt: skip
    with others[0], others[1], others[2], socket.socket(socket.AF_UNIX) as bus:
        (folder / "ether").mkdir(exist_ok=True)
        bus.bind(str(folder / "ether" / "no-name.sock"))  # of a bus that is bound there, whatever its name is
        bus.listen()
        for one in others:
            one.serve()
        done = alone("reload", "--name", "nobody")
        assert request_reload(long) == ReloadReport()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "elsewhere"))
        assert reloadable() == []

    assert "These run: one, two; `ether reload --name one` reloads one." in done.err


def test_a_bad_file_is_told_before_anybody_is_asked(alone: Command, tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    file.write_text("nodes: [", encoding="utf-8")

    assert "not YAML" in alone("reload", str(file)).err
    assert alone("reload", str(tmp_path / "none.yaml")).code == 2


# -- the requests ------------------------------------------------------------------------------------------------


@pytest.fixture
def name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return "asked"


def test_requests_are_answered_one_after_the_other_and_those_by_signal_together(name: str) -> None:
    asked: list[str | None] = []
    go, events = threading.Event(), list[str]()

    def reload(file: str | None) -> ReloadReport:
        asked.append(file)
        go.wait(10)
        if file == "bad":
            raise InvalidSpec("bad.yaml:1:1: it is bad")
        return ReloadReport(restarted={"n1": "threads"}, unchanged=("n2",), outdated={"n2": ["a.py"]})

    with ReloadRequests(name, reload, events.append) as requests:
        for _ in range(100_000):  # more than a pipe holds
            requests.post()
        requests.serve()
        wait_until(lambda: asked == [None], what="the first is done")
        go.set()
        report = ReloadReport(restarted={"n1": "threads"}, unchanged=("n2",), outdated={"n2": ["a.py"]})
        assert request_reload(name, "a") == report
        with pytest.raises(InvalidSpec, match=r"^bad\.yaml:1:1: it is bad$"):
            request_reload(name, "bad")
    with pytest.raises(BrokerUnavailable, match="runs a cluster named"):
        request_reload(name)

    assert asked[-2:] == ["a", "bad"]
    assert events == ["reload: refused: bad.yaml:1:1: it is bad"]


def test_the_end_of_the_cluster_is_heard_though_signals_have_filled_the_pipe(name: str) -> None:
    began, go = threading.Event(), threading.Event()

    def reload(_file: str | None) -> ReloadReport:
        began.set()
        go.wait(10)
        return ReloadReport()

    with ReloadRequests(name, reload, lambda _event: None) as requests:
        requests.serve()
        requests.post()
        assert began.wait(10)
        for _ in range(100_000):
            requests.post()
        threading.Timer(0.1, go.set).start()  # while the end of the block waits for it


@pytest.mark.parametrize(
    "said",
    [b"", b"{", b"[]", b"3", b'{"file": 3}', b"\xff", b'{"file": null}' + b" " * 100_000, b"[" * 60_000],
    ids=range(8),
)
def test_what_is_no_request_is_dropped_and_the_next_is_answered(name: str, said: bytes) -> None:
    with ReloadRequests(name, lambda _file: ReloadReport(), lambda _event: None) as requests:
        requests.serve()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(_address(name))
            with suppress(ConnectionError):  # it is dropped while it speaks
                asking.sendall(said)
                asking.shutdown(socket.SHUT_WR)
                assert asking.recv(1) == b""
        assert request_reload(name) == ReloadReport()


def test_who_takes_too_long_to_say_what_it_wants_is_dropped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ether.cluster.reloading.reload_requests._READ", 0.3)
    was_dropped = threading.Event()

    def drip(asking: socket.socket) -> None:
        with suppress(ConnectionError):
            for _ in range(200):
                asking.sendall(b" ")
                if was_dropped.wait(0.02):
                    return
            return
        was_dropped.set()

    with (
        ReloadRequests(name, lambda _file: ReloadReport(), lambda _event: None) as requests,
        socket.socket(socket.AF_UNIX) as asking,
    ):
        requests.serve()
        asking.connect(_address(name))
        thread = threading.Thread(target=drip, args=[asking])
        thread.start()
        assert request_reload(name) == ReloadReport()
        thread.join()

    assert was_dropped.is_set()


def test_a_file_that_does_not_come_keeps_no_end_away(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ether.cluster.reloading.reload_requests._LEAVE", 0.1)
    began, go = threading.Event(), threading.Event()

    def reload(_file: str | None) -> ReloadReport:
        began.set()
        go.wait(20)
        return ReloadReport()

    with ReloadRequests(name, reload, lambda _event: None) as requests:
        requests.serve()
        requests.post()
        assert began.wait(10)
    assert requests._thread.is_alive()
    go.set()
    requests._thread.join()


def test_another_users_request_is_not_taken_and_another_users_cluster_is_not_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    with ReloadRequests(name, lambda file: (asked.append(file), ReloadReport())[1], lambda _event: None) as requests:
        requests.serve()
        monkeypatch.setattr("ether.cluster.reloading.reload_requests.is_own", lambda _connection: False)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(_address(name))
            with suppress(ConnectionError):  # it is dropped while it speaks
                asking.sendall(b'{"file": null}')
                asking.shutdown(socket.SHUT_WR)
                assert asking.recv(1) == b""
        with pytest.raises(Forbidden, match="another user"):
            request_reload(name)

    assert asked == []


def test_a_thread_that_ends_before_it_is_woken_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ReloadRequests(name, lambda _file: ReloadReport(), lambda _event: None) as requests:
        requests.serve()
        post = requests.post

        def late() -> None:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(_address(name))  # which wakes it too
                requests._thread.join(10.0)
            post()

        monkeypatch.setattr(requests, "post", late)


def test_a_second_cluster_of_a_name_does_not_start(name: str) -> None:
    with ReloadRequests(name, lambda _file: ReloadReport(started=("first",)), lambda _event: None) as first:
        first.serve()
        second = ReloadRequests(name, lambda _file: ReloadReport(started=("second",)), lambda _event: None)
        with pytest.raises(AddressInUse, match=f"A cluster of yours named '{name}' runs already"), second:
            pass
        assert request_reload(name).started == ("first",)


def test_a_name_whose_holder_takes_no_connections_is_not_waited_for(name: str) -> None:
    events: list[str] = []
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.bind(_address(name))
        other.listen(0)
        waiting.connect(_address(name))
        with ReloadRequests(name, lambda _file: ReloadReport(), events.append) as requests:
            requests.serve()

    assert events == ["`ether reload` does not reach this cluster: Address already in use"]


def test_who_takes_no_request_is_not_waited_for_without_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ether.cluster.reloading.reload_requests._READ", 0.3)
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as waiting:
        other.bind(_address(name))
        other.listen(0)
        waiting.connect(_address(name))
        with pytest.raises(BrokerUnavailable, match="takes no request"):
            request_reload(name)


@pytest.mark.parametrize("odd", [b"\0q\n\nq", b"\0\xc2\x85\x1c x", b"\0 "], ids=range(3))
def test_any_name_of_a_socket_may_stand_beside_those_of_clusters(name: str, odd: bytes) -> None:
    with (
        socket.socket(socket.AF_UNIX) as other,
        ReloadRequests(name, lambda _file: ReloadReport(), lambda _event: None) as requests,
    ):
        other.bind(odd)
        requests.serve()
        assert reloadable() == [name]


def test_another_user_who_has_taken_the_name_keeps_no_cluster_from_starting(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr("ether.cluster.reloading.reload_requests.is_own", lambda _connection: False)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(_address(name))
        other.listen()
        with ReloadRequests(name, lambda _file: ReloadReport(), events.append) as requests:
            requests.serve()

    assert events == ["`ether reload` does not reach this cluster: Address already in use"]


def test_an_error_of_several_lines_makes_no_line_of_the_report() -> None:
    report = ReloadReport(started=("n1",), failed={"n2/a": "RuntimeError: no\nstarted   n1/evil"})
    assert report.lines() == ["started   n1", "failed    n2/a: RuntimeError: no\n          started   n1/evil"]
