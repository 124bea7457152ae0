"""`up` and `serve` as programs: signals, exit codes, and joining from elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ether import Runtime
from ether.cluster import GAVE_UP
from ether.cluster.node_main import ESCALATED
from tests.runtime.script import Script, script
from tests.support import process_is_alive, wait_until

UP = """
import sys
from ether_actors.backoff import Backoff
from ether.cluster import AgentSpec, ClusterSpec, up
spec = ClusterSpec.of(
    int(sys.argv[2]), [sys.argv[3]], bind=sys.argv[1], drain=float(sys.argv[4]), intensity=1, backoff=Backoff(0.0)
)
sys.exit(up(spec, on_event=print))
"""
SERVE = """
import sys
from ether.cluster import AgentSpec
from ether.cluster.node_main import serve
agents = [AgentSpec(start, escalate="escalate" in sys.argv) for start in sys.argv[2].split(",")]
sys.exit(serve(sys.argv[1], agents, name=sys.argv[3], threads=2, drain=float(sys.argv[4]), on_event=print))
"""
WORKER = "tests.runtime.agents:Worker"


@pytest.fixture
def bind(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/bus.sock"


def begin(bus: Runtime, folder: Path, capability: str = "work.once") -> None:
    handle = bus.delegate(capability, {"folder": str(folder)})
    wait_until(lambda: list(folder.glob(f"{handle.id}.*")) or (folder / "stubborn").exists())


@contextmanager
def running(bind: str, nodes: str, drain: str) -> Iterator[tuple[Script, Runtime]]:
    with script(UP, bind, nodes, WORKER, drain) as program:
        program.line("is up at")
        with Runtime.connect(bind, drain=0.0) as bus:
            yield program, bus


# -- up ----------------------------------------------------------------------------------------------------------


def test_ctrl_c_drains_the_whole_cluster_once(bind: str, tmp_path: Path):
    with running(bind, "2", "100") as (program, bus):
        handles = [bus.delegate("work.once", {"folder": str(tmp_path)}, to=name) for name in ("worker", "worker-2")]
        wait_until(lambda: len(list(tmp_path.glob("*.1"))) == 2)
        program.interrupt_group()
        program.line("ending (SIGINT)")
        wait_until(lambda: {agent["condition"] for agent in bus.agents()} == {"draining"})
        (tmp_path / "go").touch()

        assert [handle.result(10.0).status.name for handle in handles] == ["COMPLETED", "COMPLETED"]
        assert program.wait() == 0  # though we are a node of it still, and do not leave
    assert [line for line in program.lines if "Traceback" in line or "killed" in line] == []
    assert not (tmp_path / "bus.sock").exists()


def test_a_second_signal_ends_the_cluster_at_once(bind: str, tmp_path: Path):
    with running(bind, "1", "60") as (program, bus):
        begin(bus, tmp_path, "work.stubborn")
        program.signal(signal.SIGTERM)
        program.line("ending (SIGTERM)")
        program.signal(signal.SIGINT)

        assert program.wait() == 128 + signal.SIGINT
    assert not (tmp_path / "bus.sock").exists()


def test_a_crash_loop_ends_up_with_an_exit_code_of_its_own(bind: str):
    with script(UP, bind, "1", "tests.runtime.agents:EndsAtOnce", "1") as program:
        assert program.wait() == GAVE_UP

    assert any("The cluster gave up: node-1 ended more than 1 times in 30 s" in line for line in program.lines)


def test_a_background_job_of_a_script_which_ignores_ctrl_c_ends_in_order(bind: str, tmp_path: Path):
    journal = tmp_path / "journal.db"
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + UP.replace(
        "drain=", f"journal={str(journal)!r}, drain="
    )
    with script(code, bind, "1", WORKER, "5") as program:
        program.line("is up at")
        program.signal(signal.SIGTERM)
        assert program.wait() == 0

    assert "broker has ended (exit code 0)" in program.lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.db"]


def test_up_says_how_many_delegations_of_its_journal_have_no_outcome(bind: str, tmp_path: Path):
    journal = tmp_path / "journal.db"
    code = UP.replace("drain=", f"journal={str(journal)!r}, drain=")
    with script(code, bind, "1", WORKER, "0.1") as program:
        program.line("is up at")
        with Runtime.connect(bind, drain=0.0) as bus:
            begin(bus, tmp_path)
            program.process.kill()
            program.process.wait()
    with script(code, bind, "1", WORKER, "0.1") as program:
        program.line(f"{journal} goes on; its delegations without an outcome: 1")
        program.line("is up at")


def test_up_shows_what_the_processes_print(bind: str):
    with running(bind, "1", "5") as (program, bus):
        bus.delegate("work.print", {"text": "hello"}).result().unwrap()
        program.line("node-1 | hello")
        program.signal(signal.SIGTERM)
        assert program.wait() == 0


def test_a_service_manager_that_signals_every_process_gets_one_drain(bind: str, tmp_path: Path):
    with running(bind, "1", "10") as (program, bus):
        broker, node = (int(line.rpartition(" ")[2].rstrip(")")) for line in program.lines[:2])
        handle = bus.delegate("work.once", {"folder": str(tmp_path)})
        wait_until(lambda: list(tmp_path.glob(f"{handle.id}.*")))
        for pid in (program.process.pid, broker):
            os.kill(pid, signal.SIGTERM)
        program.line("ending")
        assert process_is_alive(broker)
        assert process_is_alive(node)
        (tmp_path / "go").touch()

        assert handle.result(10.0).ok
        assert program.wait() == 0


# -- serve -------------------------------------------------------------------------------------------------------


@pytest.fixture
def bus(bind: str) -> Iterator[Runtime]:
    with Runtime(bind=bind, name="host") as bus:
        yield bus


def test_a_node_joins_serves_and_drains(bus: Runtime, bind: str, tmp_path: Path):
    with script(SERVE, bind, WORKER, "joined", "10") as node:
        assert node.line("joined at") == f"joined at {bind}: worker"
        handle = bus.delegate("work.once", {"folder": str(tmp_path)})
        wait_until(lambda: list(tmp_path.glob(f"{handle.id}.*")))
        node.signal(signal.SIGTERM)
        node.line("joined ends (SIGTERM)")
        wait_until(lambda: [agent["condition"] for agent in bus.agents()] == ["draining"])
        refused = bus.delegate("work.alone").result()
        (tmp_path / "go").touch()

        assert handle.result(10.0).ok
        assert node.wait() == 0
        assert refused.error is not None
        assert refused.error.code == "agent_down"


def test_agents_without_a_name_take_one_that_is_free(bus: Runtime, bind: str):
    with script(SERVE, bind, f"{WORKER},{WORKER}", "first", "1") as first:
        assert first.line("first at").endswith(": worker, worker-2")
        with script(SERVE, bind, WORKER, "second", "1") as second:
            assert second.line("second at").endswith(": worker-3")


def test_a_second_signal_ends_a_node_at_once(bus: Runtime, bind: str, tmp_path: Path):
    with script(SERVE, bind, WORKER, "joined", "60") as node:
        node.line("joined at")
        begin(bus, tmp_path)
        node.signal(signal.SIGINT)
        node.line("joined ends (SIGINT)")
        node.signal(signal.SIGINT)

        assert node.wait() == 128 + signal.SIGINT


def test_a_node_whose_tree_gives_up_ends_with_an_exit_code_of_its_own(bus: Runtime, bind: str):
    with script(SERVE, bind, WORKER, "joined", "1", "escalate") as node:
        node.line("joined at")

        def crash() -> bool:
            bus.delegate("work.crash", timeout=2.0).result()
            return node.process.poll() is not None

        wait_until(crash, timeout=20.0)
        assert node.wait() == ESCALATED
        assert any("worker gave up" in line for line in node.lines)

    # Whoever started it starts it again: its agents are down until then, and whoever asks is to try again.
    wait_until(lambda: [agent["condition"] for agent in bus.agents()] == ["down"])
    refused = bus.delegate("work.alone").result()
    assert refused.error is not None
    assert (refused.error.code, refused.error.retryable) == ("agent_down", True)
    with script(SERVE, bind, WORKER, "joined", "1") as node:
        assert node.line("joined at").endswith(": worker")
        assert bus.delegate("work.alone").result().ok


def test_a_node_waits_for_a_broker_that_was_lost(bind: str):
    with script(SERVE, bind, WORKER, "joined", "1") as node:
        with Runtime(bind=bind, name="host"):
            node.line("joined at")
        with Runtime(bind=bind, name="host") as bus:
            wait_until(lambda: [entry["agent"] for entry in bus.agents()] == ["worker"])
            assert bus.delegate("work.alone").result().unwrap().data["pid"] == node.process.pid


@pytest.mark.parametrize(
    ("agent", "name", "says"),
    [
        ("tests.runtime.agents:Nobody", "joined", "InvalidSpec"),
        ("tests.runtime.agents:Refuses", "joined", "ValueError: no key in the environment"),
        (WORKER, "a name with blanks", "NodeRefused"),
    ],
)
def test_a_node_that_cannot_serve_raises(bus: Runtime, bind: str, agent: str, name: str, says: str):
    code = SERVE.replace("sys.exit(serve", "print(end='')\ntry: (serve").replace(
        "on_event=print))", "on_event=print))\nexcept Exception as error: print(f'{type(error).__name__}: {error}')"
    )
    with script(code, bind, agent, name, "1") as node:
        node.wait()

    assert any(says in line for line in node.lines)


# -- a script that defines its agents itself ---------------------------------------------------------------------

SCRIPT = """
from ether import Agent, Runtime, capability
from ether.cluster import Cluster

class Doubler(Agent):
    @capability("double")
    def double(self, number: int) -> int:
        return number * 2

def main():
    with Cluster(nodes=2, agents=[Doubler]) as cluster, Runtime.connect(cluster.url) as bus:
        print(bus.delegate("double", {"number": 21}).result().unwrap().data)

"""
RUN = "import runpy, sys; sys.path[0] = sys.argv[1]; runpy.run_path(sys.argv[1] + '/doubling.py', run_name='__main__')"


def test_a_script_can_put_its_own_agents_on_a_cluster(tmp_path: Path):
    (tmp_path / "doubling.py").write_text(SCRIPT + 'if __name__ == "__main__":\n    main()\n')
    with script(RUN, str(tmp_path)) as program:
        assert program.wait() == 0

    assert program.lines == ["42"]


def test_a_script_without_its_guard_is_told_so(tmp_path: Path):
    code = SCRIPT + "try:\n    main()\nexcept Exception as error:\n    print(repr(error))\n    raise\n"
    (tmp_path / "doubling.py").write_text(code)
    with script(RUN, str(tmp_path)) as program:
        assert program.wait() == 1

    assert program.lines[-1].startswith("UsageError('node-1: A node that imports this module would open a cluster")
