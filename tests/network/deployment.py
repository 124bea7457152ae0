"""A bus over the hosts of a network: the broker on alpha, agents on beta and gamma, delegators anywhere.

Every process is a real one: `ether up`, `ether node`, `tests.network.delegator`, and programs of single tests.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from ether.audit.entry import AuditEntry
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import Kind
from tests.cli.command import module_environment
from tests.network.agents import RUNS, Run, read_runs
from tests.network.namespaces import Network
from tests.support import wait_until

__all__ = ["BROKER", "PORT", "Delegator", "Deployment", "Outcome", "Way", "partition", "three_hosts", "way_to"]

BROKER: Final = "alpha"
PORT: Final = 7421
_AGENTS: Final = "tests.network.agents"
_MAIN: Final = "from ether.cli import main; main()"
_UP: Final = 30.0
_PATIENCE: Final = 60.0


@cache
def _insecure() -> tuple[str, ...]:
    """What lets `ether up` bind an address of the network without keys, where it has to be let."""
    words = [sys.executable, "-c", _MAIN, "up", "--help"]
    told = subprocess.run(words, env=module_environment({"COLUMNS": "200"}), capture_output=True, text=True, check=True)
    return ("--insecure",) if "--insecure" in told.stdout else ()


class Outcome:
    """What a delegator was told."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.status: str = row["status"]
        self.code: str | None = row["code"]
        self.data: Any = row["data"]
        self.id: str = row["id"]
        self.sent: float = row["sent"]
        self.at: float = row["at"]
        self._message: str = row["message"]

    def __repr__(self) -> str:
        return f"{self.status} {self.code or self.data} after {self.at - self.sent:.2f} s {self._message}"


class Delegator:
    """A process that delegates."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.outcomes: dict[str, Outcome] = {}
        self.told: Counter[str] = Counter()
        """How many outcomes each had."""
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(_UP), "the delegator did not join"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            row = json.loads(line)
            if "key" in row:
                self.told[row["key"]] += 1
                self.outcomes[row["key"]] = Outcome(row)
            elif "asked" in row:
                self._asked.put(row["asked"])
            else:
                self._ready.set()

    def delegate(
        self, key: str, capability: str, *, to: str | None = None, seconds: float = 0.0, timeout: float = 60.0,
        count: int = 1,
    ) -> None:  # fmt: skip
        """Delegate; with `count`, so many at once, under the keys KEY.0, KEY.1 and so on."""
        self._say({
            "do": "delegate", "key": key, "capability": capability, "params": {"seconds": seconds}, "to": to,
            "timeout": timeout, "count": count,
        })  # fmt: skip

    def broadcast(self, key: str, capability: str, *, seconds: float = 0.0, timeout: float = 60.0) -> list[str]:
        """Delegate to each holder, under the keys KEY.AGENT; the names of the holders, in their order."""
        self._say({
            "do": "broadcast", "key": key, "capability": capability, "params": {"seconds": seconds}, "timeout": timeout,
        })  # fmt: skip
        return sorted(self._asked.get(timeout=20.0))

    def ask(self, what: str) -> Any:
        """What the bus tells: `agents`, `nodes`, `dead_letters`; None if nobody answers within 10 s."""
        self._say({"do": "ask", "what": what})
        return self._asked.get(timeout=20.0)

    def outcome(self, key: str, timeout: float = _PATIENCE) -> Outcome:
        """Wait for an outcome."""
        wait_until(lambda: key in self.outcomes, timeout=timeout, what=f"the outcome of {key}")
        return self.outcomes[key]

    def all_outcomes(self, keys: Sequence[str], timeout: float = _PATIENCE) -> dict[str, Outcome]:
        """Wait for these; each has exactly one."""
        wait_until(lambda: len(self.outcomes.keys() & set(keys)) == len(keys), timeout=timeout,
                   what=f"{len(keys)} outcomes")  # fmt: skip
        assert set(self.told.values()) <= {1}
        return {key: self.outcomes[key] for key in keys}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reader.join(10.0)
        if self.process.poll() is None:
            try:
                self.process.wait(10.0)
            finally:
                self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _say(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()


class Way:
    """A proxy that runs; see `tests.network.proxy` for what it can be told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def tell(self, word: str) -> int:
        """Tell it to `reset`, `forget`, `stall` or `resume`; returns how many connections it has reset so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline().removeprefix("done "))


@contextmanager
def way_to(target: str, *options: str, listen: str = "127.0.0.1:0", before: Sequence[str] = ()) -> Iterator[Way]:
    """Run a proxy; `before` is what its command line begins with, to run it on a host."""
    words = [*before, sys.executable, "-W", "error", "-m", "tests.network.proxy", listen, target, *options]
    process = subprocess.Popen(
        words, env=module_environment({}), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        try:
            yield Way(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                assert process.wait(10.0) == 0
            finally:
                process.kill()


class Deployment:
    """A bus over hosts.

    Args:
        network: with the hosts.
        folder: for what the processes write.
    """

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.journal = folder / "journal.db"
        self._folder = folder
        self._runs = folder / "runs"

    @property
    def url(self) -> str:
        """The broker's address."""
        return f"tcp://{self.network.address(BROKER)}:{PORT}"

    # -- processes -----------------------------------------------------------------------------------------------

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[str]]:
        """`ether up` on alpha."""
        words = ("up", "--bind", self.url, "--journal", str(self.journal), *_insecure(), f"{_AGENTS}:Keeper")
        with self._ether(BROKER, *words) as process:
            yield process

    @contextmanager
    def cluster(self, nodes: str) -> Iterator[subprocess.Popen[str]]:
        """`ether up FILE` on alpha, with these nodes."""
        with self._ether(BROKER, "up", str(self.write_file(nodes)), *_insecure()) as process:
            yield process

    def write_file(self, nodes: str) -> Path:
        """Replace the cluster file."""
        file, new = self._folder / "bus.yaml", self._folder / "bus.yaml.new"
        new.write_text(f'cluster: {{bind: "{self.url}", journal: "{self.journal}", drain: 5}}\nnodes:\n{nodes}')
        return new.replace(file)

    @contextmanager
    def node(self, host: str, *agents: str, url: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """`ether node` HOST-node, with agents of `tests.network.agents`."""
        words = (
            "node",
            "--connect",
            url or self.url,
            "--name",
            f"{host}-node",
            "--wait",
            "20",
            *(f"{_AGENTS}:{name}" for name in agents),
        )
        with self._ether(host, *words) as process:
            yield process

    @contextmanager
    def delegator(self, host: str, name: str = "asker", url: str | None = None) -> Iterator[Delegator]:
        """A process that delegates."""
        words = [sys.executable, "-W", "error", "-m", "tests.network.delegator", url or self.url, name]
        with self.log(name).open("a") as errors:
            process = subprocess.Popen(
                self.network.command(host, words), env=self._environment(host), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        delegator = None
        try:
            delegator = Delegator(process)
            yield delegator
        finally:
            if delegator is None:
                process.kill()
                process.wait()
            else:
                delegator.close()

    @contextmanager
    def program(self, host: str, module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`python -m tests.network.MODULE URL WORDS`; it ends by itself, once its stdin is closed if not before."""
        command = [sys.executable, "-W", "error", "-m", f"tests.network.{module}", self.url, *words]
        with self.log(module).open("a") as errors:
            process = subprocess.Popen(
                self.network.command(host, command), env=self._environment(host), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        with process:
            try:
                yield process
                assert process.stdin is not None
                process.stdin.close()
                assert process.wait(_UP) == 0, self.log(module).read_text()
            finally:
                if process.poll() is None:
                    process.kill()

    def run(self, host: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these words on a host, and wait for its end."""
        command = self.network.command(host, [sys.executable, "-W", "error", *words])
        environment = self._environment(host)
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=_UP)

    def reload(self) -> subprocess.CompletedProcess[str]:
        """`ether reload` on alpha."""
        return self.run(BROKER, "-c", _MAIN, "reload")

    @contextmanager
    def _ether(self, host: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        command = self.network.command(host, [sys.executable, "-W", "error", "-c", _MAIN, *words])
        with self.log(host).open("a") as errors:
            process = subprocess.Popen(
                command, env=self._environment(host), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        with process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("tcp://"), self.log(host).read_text()
                yield process
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(30) == 0, self.log(host).read_text()
            finally:
                if process.poll() is None:
                    process.kill()

    def _environment(self, host: str) -> dict[str, str]:
        home = self._folder / host
        home.mkdir(exist_ok=True, mode=0o700)
        return module_environment({"XDG_RUNTIME_DIR": str(home), "HOME": str(home), RUNS: str(self._runs)})

    def kill_broker(self) -> None:
        """SIGKILL; `ether up` starts another."""
        os.kill(self._pid_of(b"ether.cluster.broker_main"), signal.SIGKILL)

    def node_pid(self, host: str) -> int:
        """Of the node on a host."""
        return self._pid_of(f"{host}-node".encode())

    def says(self, process: subprocess.Popen[str], module: str) -> Any:
        """The next line of a program, which is JSON."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, self.log(module).read_text()
        return json.loads(line)

    def _pid_of(self, word: bytes) -> int:
        """Of the process with that word in its command line."""
        [pid] = [pid for pid in self.network.pids() if word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        return pid

    # -- what happened -------------------------------------------------------------------------------------------

    def log(self, host: str) -> Path:
        """What a process said on stderr."""
        return self._folder / f"{host}.log"

    def runs(self) -> list[Run]:
        """Every begin and end of a handler."""
        return read_runs(self._runs)

    def times_run(self, since: float = 0.0) -> Counter[str]:
        """{key: how often its handler began, from a Unix time on}."""
        return Counter(run.key for run in self.runs() if run.what == "begin" and run.at >= since)

    def events(self, name: str, since: float = 0.0) -> list[AuditEntry]:
        """Events of the journal with that name, from a Unix time on."""
        with JournalReader(self.journal) as reader:
            found = reader.entries(kind=Kind.EVENT, after=since or None)
            entries = [AuditEntry(record.number, record.clock, record.wall, record.envelope) for record in found]
        return [entry for entry in entries if entry.event_name == name]

    def event(self, name: str, since: float, timeout: float = 15.0, **fields: object) -> AuditEntry:
        """Wait for the first event of that name with these fields in its body."""

        def found() -> AuditEntry | None:
            matching = (event for event in self.events(name, since) if fields.items() <= event.body.items())
            return next(matching, None)

        return wait_until(found, timeout=timeout, what=f"{name} {fields}")


@contextmanager
def three_hosts(deployment: Deployment) -> Iterator[Delegator]:
    """The broker on alpha, agent beta on beta, gamma on gamma, and a delegator on gamma."""
    with ExitStack() as stack:
        stack.enter_context(deployment.up())
        stack.enter_context(deployment.node("beta", "Beta"))
        stack.enter_context(deployment.node("gamma", "Gamma"))
        yield stack.enter_context(deployment.delegator("gamma"))


@contextmanager
def partition(network: Network, *pairs: tuple[str, str]) -> Iterator[float]:
    """Blackhole what the first of each pair sends to the second; healed at the end. Gives the Unix time of the cut."""
    for host, other in pairs:
        network.block(host, other)
    try:
        yield time.time()
    finally:
        for host, other in pairs:
            network.unblock(host, other)
