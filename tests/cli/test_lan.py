"""`--advertise`, `--discover` and `ether discover` between hosts: network namespaces with a multicast DNS of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.command import Command, Done, module_environment
from tests.network.namespaces import Network, network_of
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AGENTS: Final = "tests.cli.agents"
MAIN: Final = "from ether.cli import main; main()"
BIND: Final = ("--bind", "tcp://*:7421")


@cache
def insecure() -> tuple[str, ...]:
    """What lets `ether up` bind an address of the network without keys, where it has to be let."""
    words = [sys.executable, "-c", MAIN, "up", "--help"]
    told = subprocess.run(words, env=module_environment({"COLUMNS": "200"}), capture_output=True, text=True, check=True)
    return ("--insecure",) if "--insecure" in told.stdout else ()


class Hosts:
    """`ether` on hosts of a network."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self._folder = folder

    def python(self, host: str, code: str) -> str:
        """What a script prints there."""
        words = self.network.command(host, [sys.executable, "-W", "error", "-c", code])
        done = subprocess.run(
            words, env=self._environment(host), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ether(self, host: str, *words: str) -> Done:
        command = self.network.command(host, [sys.executable, "-W", "error", "-c", MAIN, *words])
        done = subprocess.run(
            command, env=self._environment(host), capture_output=True, text=True, timeout=60, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, host: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`ether up` or `ether node` there, from when it is up until the end of the block, when it must drain."""
        command = self.network.command(host, [sys.executable, "-W", "error", "-c", MAIN, *words])
        log = self._folder / f"{host}.log"
        with log.open("a") as errors:
            process = subprocess.Popen(
                command, env=self._environment(host), stdout=subprocess.PIPE, stderr=errors, text=True
            )
        with process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("tcp://"), log.read_text()
                yield process
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(30) == 0, log.read_text()
            finally:
                if process.poll() is None:
                    process.kill()

    def up(self, host: str, *words: str) -> Any:
        return self.running(host, "up", "--advertise", "--durability", "memory", *insecure(), *words)

    def adverts(self, host: str) -> dict[str, dict[str, Any]]:
        """{name: what is advertised, as this host hears it}.

        It listens for longer than the second after which a broker repeats what it has just announced: who asks each
        1.5 s and listens for less would miss every answer.
        """
        rows = json.loads(self.ether(host, "discover", "-o", "json").out)
        return {row["name"]: row for row in rows}

    def log(self, host: str) -> str:
        return (self._folder / f"{host}.log").read_text()

    def _environment(self, host: str) -> dict[str, str]:
        home = self._folder / host
        home.mkdir(exist_ok=True, mode=0o700)
        return module_environment({"XDG_RUNTIME_DIR": str(home), "HOME": str(home)})


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with network_of("alpha", "beta") as made:
        yield made


@pytest.fixture
def hosts(network: Network, tmp_path: Path) -> Hosts:
    return Hosts(network, tmp_path)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Hosts of a network of their own; on alpha is a bus for tests that leave nothing on it."""
    with network_of("alpha", "beta") as made:
        hosts = Hosts(made, tmp_path_factory.mktemp("hosts"))
        with hosts.up("alpha", *BIND, f"{AGENTS}:Greeter"):
            yield hosts


def test_a_node_of_another_machine_finds_the_bus_and_works_for_it(up: Hosts) -> None:
    with up.running("beta", "node", "--discover", f"{AGENTS}:Counter"):
        counted = up.ether("alpha", "delegate", "test.count", "--to", "4", "-o", "json")
        assert counted.code == 3, "no bus of this user's own is there"
        counted = up.ether("alpha", "delegate", "--discover=default", "test.count", "--to", "4")
        greeted = up.ether("beta", "exec", "greeter", "greet", "--name", "Ada", "--discover")
        nodes = json.loads(up.ether("beta", "nodes", "--discover", "default", "-o", "json").out)

    assert (counted.code, counted.out) == (0, "4\n")
    assert (greeted.code, greeted.out) == (0, "Hello, Ada\n")
    assert {"alpha", "beta"} <= {row["host"] for row in nodes}


def test_what_is_advertised_is_what_others_reach_and_gone_after_sigterm(hosts: Hosts) -> None:
    with hosts.up("alpha", *BIND, f"{AGENTS}:Greeter"):
        [advert] = wait_until(lambda: hosts.adverts("beta"), 30.0).values()
        listed = hosts.ether("beta", "discover")
    assert hosts.adverts("beta") == {}

    assert (advert["name"], advert["cluster"], advert["host"]) == ("default", "default", "alpha")
    assert advert["urls"] == ["tcp://10.77.0.1:7421", "tcp://[fd77::1]:7421"]
    assert advert["fingerprint"] is None
    assert listed.out.splitlines()[1].split()[:3] == ["default", "tcp://10.77.0.1:7421", "alpha"]
    assert "advertised on the network as default at tcp://10.77.0.1:7421" in hosts.log("alpha")


@pytest.mark.parametrize(
    ("bind", "urls"),
    [
        ("tcp://0.0.0.0:7421", ["tcp://10.77.0.1:7421"]),
        ("tcp://10.77.0.1:7421", ["tcp://10.77.0.1:7421"]),
        ("tcp://[fd77::1]:7421", ["tcp://[fd77::1]:7421"]),
    ],
)
def test_only_the_addresses_that_are_bound_are_advertised(hosts: Hosts, bind: str, urls: list[str]) -> None:
    with hosts.up("alpha", "--bind", bind, f"{AGENTS}:Greeter"):
        assert wait_until(lambda: hosts.adverts("beta"), 30.0)["default"]["urls"] == urls
        assert hosts.ether("beta", "agents", "--discover").code == 0


def test_two_buses_of_one_name_are_told_apart(hosts: Hosts) -> None:
    with ExitStack() as stack:
        stack.enter_context(hosts.up("alpha", *BIND, f"{AGENTS}:Greeter"))
        stack.enter_context(hosts.up("beta", *BIND, f"{AGENTS}:Counter"))
        wait_until(lambda: set(hosts.adverts("alpha")) == {"default", "default@beta"}, 30.0)
        unsaid = hosts.ether("alpha", "agents", "--discover")
        theirs = json.loads(hosts.ether("alpha", "agents", "--discover", "default@beta", "-o", "json").out)
        near = hosts.ether("alpha", "agents", "--discover", "defalt")

    assert unsaid.code == 2
    assert "Several brokers are meant: default (tcp://10.77.0.1:7421), default@beta (" in unsaid.err
    assert [row["agent"] for row in theirs] == ["counter"]
    assert near.code == 3
    assert "Did you mean 'default'?" in near.err


def test_a_broker_that_was_killed_is_advertised_again_when_it_is_back(hosts: Hosts) -> None:
    with hosts.up("alpha", *BIND, f"{AGENTS}:Greeter") as process:
        broker = next(
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit()
            and b"ether.cluster.broker_main" in _read(entry / "cmdline")
            and int(_read(entry / "stat").rpartition(b") ")[2].split()[1]) == process.pid
        )
        os.kill(broker, signal.SIGKILL)
        wait_until(lambda: "broker is up again" in hosts.log("alpha"), 30.0)
        wait_until(lambda: hosts.ether("beta", "agents", "--discover").code == 0, 30.0, "it is found")


def test_a_network_that_comes_back_brings_the_bus_back(up: Hosts) -> None:
    up.network.unplug("alpha")
    try:
        none = up.ether("beta", "node", "--discover", f"{AGENTS}:Counter")
    finally:
        up.network.plug_in("alpha")
    again = up.ether("beta", "agents", "--discover", "default", "--wait", "20")

    assert none.code == 3
    assert "ether up --advertise" in none.err
    assert "firewall" in none.err
    assert again.code == 0


def test_python_finds_and_joins_a_bus(up: Hosts) -> None:
    script = """
import ether
[found] = ether.discover()
print(found.name, found.url, found.fingerprint)
with ether.Runtime.connect("lan://") as bus:
    print(bus.url, bus.delegate("test.people.greet", {"name": "Ada"}).result().unwrap().data)
"""
    said = up.python("beta", script)

    assert said.splitlines() == ["default tcp://10.77.0.1:7421 None", "tcp://10.77.0.1:7421 Hello, Ada"]


def test_doctor_looks_at_a_bus_that_it_finds(up: Hosts) -> None:
    found = up.ether("beta", "doctor", "--discover")
    assert found.code == 0
    assert "answers at tcp://10.77.0.1:7421" in found.out


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b"0 (gone) Z 0"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--advertise"], "and it has none: say --bind 'tcp://*:7421'"),
        (["--advertise", "--bind", "tcp://127.0.0.1:7421"], "tcp://127.0.0.1:7421 is for this machine only"),
        (["--advertise", "--bind", "ipc:///tmp/bus.sock"], "ipc:///tmp/bus.sock is for this machine only"),
    ],
)
def test_a_bus_that_nobody_else_reaches_is_not_advertised(alone: Command, words: list[str], said: str) -> None:
    done = alone("up", f"{AGENTS}:Greeter", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_cluster_file_may_say_it_and_has_to_say_a_fitting_address(alone: Command, tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    file.write_text("cluster: {advertise: true}\nnodes: [{name: n1}]\n", encoding="utf-8")

    done = alone("up", str(file))

    assert done.code == 2
    assert "bus.yaml: A broker that is advertised needs" in done.err
