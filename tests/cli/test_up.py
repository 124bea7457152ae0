"""`ether up` and `ether node`: real processes."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pexpect
import pytest

from ether import BrokerUnavailable, Runtime
from tests.cli.command import Command
from tests.support import process_is_alive, wait_until

AGENTS = "tests.cli.agents"


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> str:
    """SIGTERM; gives what was said on stderr."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    return err


@pytest.mark.slow
def test_a_bus_is_up_when_its_url_is_printed_and_drains_at_sigterm(alone: Command, folder: Path) -> None:
    with alone.started("up", f"{AGENTS}:Greeter", f"{AGENTS}:Counter", "--nodes", "2") as process:
        assert first_line(process) == f"ipc://{folder}/ether/default.sock"
        names = {row["agent"]: row["node"] for row in alone("agents", "-o", "json").json}
        greeting = alone("exec", "greeter", "greet", "--name", "Ada")
        err = end(process)

    assert names == {"greeter": "node-1", "counter": "node-1", "greeter-2": "node-2", "counter-2": "node-2"}
    assert greeting.out == "Hello, Ada\n"
    assert "SIGTERM" in err
    assert alone("agents").code == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_bus_ends_though_nobody_reads_what_it_says(alone: Command, folder: Path, number: int) -> None:
    with alone.started("up", f"{AGENTS}:Greeter", "--bind", f"ipc://{folder}/unread.sock") as process:
        first_line(process)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        process.send_signal(number)

        assert process.wait(15) == 0
    assert not (folder / "unread.sock").exists()


@pytest.mark.slow
def test_a_bus_on_a_terminal_that_is_closed_ends(alone: Command, folder: Path) -> None:
    with alone.terminal("up", f"{AGENTS}:Greeter", "--bind", f"ipc://{folder}/closed.sock") as child:
        child.expect("closed.sock")
        with suppress(pexpect.ExceptionPexpect):  # which says that it has not ended within 0.4 s
            child.close(force=False)  # the kernel sends SIGHUP, and what is written from then on is an error
        wait_until(lambda: not process_is_alive(child.pid), what="it has ended")
    assert not (folder / "closed.sock").exists()


@pytest.mark.slow
def test_a_node_joins_over_tcp_under_its_name(alone: Command) -> None:
    with Runtime(bind="tcp://127.0.0.1:*", name="host", drain=0.0) as bus:
        words = ("node", f"{AGENTS}:Greeter", "--connect", bus.url, "--name", "guest", "-o", "json")
        with alone.started(*words) as process:
            assert first_line(process) == "{"
            assert {row["agent"]: row["node"] for row in bus.agents()} == {"greeter": "guest"}
            assert bus.delegate("greet", {"name": "Ada"}).result().data == "Hello, Ada"
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            assert process.returncode == 0
        assert wait_until(lambda: not bus.agents(), what="the node has left")


@pytest.mark.slow
def test_a_cluster_that_is_bound_elsewhere_is_not_followed_by_its_name_but_its_address_is_told(
    alone: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    with alone.started("up", f"{AGENTS}:Greeter", "--name", "shop", "--bind", "tcp://127.0.0.1:*") as process:
        url = first_line(process)
        named = [alone("agents", "--name", "shop"), alone("agents", "--connect", "ipc://shop"), alone("agents")]
        checked = alone("doctor", "--connect", "ipc://shop")
        with pytest.raises(BrokerUnavailable) as raised:
            Runtime.connect("ipc://shop", timeout=0.1).open()
        reached = alone("agents", "--connect", url)
        end(process)
    after = alone("agents", "--name", "shop")

    nobody = f"ether: broker_unavailable: No broker listens at ipc://{folder}/ether/"
    assert url.startswith("tcp://127.0.0.1:")
    assert [done.code for done in (*named, reached)] == [3, 3, 3, 0]
    for done in named[:2]:
        assert done.err == f"{nobody}shop.sock: the cluster 'shop' runs at {url}: --connect that.\n"
    assert named[2].err.endswith(f"or name another with --connect. These are there: {url}.\n")
    assert f"the cluster 'shop' runs at {url}" in checked.out
    assert str(raised.value).endswith(f"/shop.sock: the cluster 'shop' runs at {url}: connect to that.")
    assert url not in after.err


@pytest.mark.slow
def test_a_cluster_file_is_run_with_options_on_top(alone: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    agents = f"[{{start: '{AGENTS}:Greeter', name: ada}}]"
    file.write_text(f"cluster: {{drain: 3}}\nnodes:\n  - {{name: n1, agents: {agents}}}\n", encoding="utf-8")

    with alone.started("up", str(file), "--bind", f"ipc://{folder}/file.sock", "--drain", "2") as process:
        assert first_line(process) == f"ipc://{folder}/file.sock"
        rows = alone("agents", "--connect", f"ipc://{folder}/file.sock", "-o", "json").json
        err = end(process)

    assert [(row["agent"], row["node"]) for row in rows] == [("ada", "n1")]
    assert "running work has 2 s" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: [", "not YAML"),
        ("cluster: {drian: 3}\nnodes: []", "bus.yaml:1:11: cluster has no key 'drian'. Did you mean 'drain'?"),
        ("nodes: [{name: n1, agents: [{start: Greeter}]}]", "'Greeter' is no agent: write module:Class"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_bad_cluster_file_is_told_with_its_place(alone: Command, tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "bus.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    done = alone("up", str(file))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ether: invalid_spec: ")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_an_address_in_use_is_told_once(alone: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = alone.process("up", f"{AGENTS}:Greeter", "--bind", url)

    assert done.code == 3
    assert done.err.startswith("ether: address_in_use: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


def test_a_second_bus_of_the_same_name_is_told_of_the_first_and_of_the_way_to_another(
    alone: Command, folder: Path
) -> None:
    with Runtime(bind=f"ipc://{folder}/ether/default.sock", drain=0.0):
        done = alone("up", f"{AGENTS}:Greeter", "--journal", str(folder / "own.db"))

    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("ether: address_in_use: A bus of yours named 'default' runs already, at ipc://")
    assert "ether up --name NAME" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.slow
def test_an_agent_that_does_not_start_is_told(alone: Command) -> None:
    done = alone.process("up", f"{AGENTS}:Broken")

    assert done.code in (2, 3)
    assert "no licence" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agents:Greeter", "--bind", "localhost:7421"], "is no address of a broker"),
        (["agents:Greeter", "--nodes", "0"], "--nodes"),
        (["agents:Greeter", "--drain", "-1"], "--drain"),
        (["agents:Greeter", "--drain", "inf"], "drain"),
        (["agents:"], "write module:Class"),
        (["agents"], "agents is no file; an agent is module:Class, as in agents:Reader."),
        (["bus.yaml", "agents:Greeter"], "bus.yaml is a file, and says everything"),
        (["bus.yaml", "--nodes", "2"], "--nodes goes with agents"),
    ],
)
def test_a_bus_that_cannot_be_is_a_usage_error(alone: Command, words: list[str], said: str) -> None:
    done = alone("up", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([f"{AGENTS}:Greter"], "Did you mean 'Greeter'?"),
        ([f"{AGENTS}:Greeter", "--connect", "localhost"], "is no address of a broker"),
        ([f"{AGENTS}:Greeter", "--threads", "0"], "--threads"),
    ],
)
def test_a_node_that_cannot_be_is_a_usage_error(alone: Command, words: list[str], said: str) -> None:
    done = alone("node", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.slow
def test_clusters_without_a_name_have_a_journal_for_each_file_and_folder_and_the_last_one_is_default(
    alone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "ether" / "default"
    crawl, shop = tmp_path / "crawl", tmp_path / "shop"
    crawl.mkdir()
    shop.mkdir()
    (crawl / "bus.yaml").write_text(f'nodes: [{{name: n1, agents: ["{AGENTS}:Counter"]}}]')

    @contextmanager
    def started(where: Path, what: str = f"{AGENTS}:Counter") -> Iterator[subprocess.Popen[str]]:
        monkeypatch.chdir(where)
        with alone.started("up", what, "--drain", "0", XDG_STATE_HOME=str(tmp_path)) as process:
            yield process

    def last() -> Path:
        assert (state / "journal.db").is_symlink()
        return (state / "journal.db").resolve()

    with started(crawl) as process, Runtime.connect(first_line(process), name="me", drain=0.0) as bus:
        waiting = bus.delegate("test.wait", {"seconds": 20.0})
        assert next(iter(waiting.stream())).summary == "half way"
        process.kill()
        process.wait()
    of_crawl = last()
    for where, what in ((shop, f"{AGENTS}:Counter"), (crawl, "bus.yaml")):
        with started(where, what) as process:
            url = first_line(process)
            shown = alone("agents", "--connect", url, "-o", "json").json
            assert [(row["agent"], row["condition"]) for row in shown] == [("counter", "up")]
            assert "goes on" not in end(process)
        assert last() != of_crawl
    assert len(list(state.glob("*/journal.db"))) == 3
    with started(crawl) as process:
        first_line(process)
        assert f"{of_crawl} goes on; its delegations without an outcome: 1" in end(process)
    assert last() == of_crawl
    found = alone("log", "--capability", "test.wait", "-o", "jsonl", XDG_STATE_HOME=str(tmp_path)).lines
    assert {row["capability"] for row in found} == {"test.wait"}
    with alone.started("up", "nowhere:Agent", XDG_STATE_HOME=str(tmp_path)) as process:
        assert process.wait() != 0
    assert last() == of_crawl, "one that did not come up counts for nothing"

    with alone.started("up", f"{AGENTS}:Counter", "--journal", "own.db", XDG_STATE_HOME=str(tmp_path)) as process:
        first_line(process)
        assert last() == crawl / "own.db"
        end(process)
    with alone.started("up", f"{AGENTS}:Counter", "--durability", "memory", XDG_STATE_HOME=str(tmp_path)) as process:
        first_line(process)
        assert "The cluster 'default' has no journal" in alone("log", XDG_STATE_HOME=str(tmp_path)).err
        end(process)
