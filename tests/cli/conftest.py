from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import Runtime
from ether.testing import TestRuntime
from tests.audit.crew import Commit, play
from tests.cli.agents import GATE, STARTED, Counter, Greeter
from tests.cli.command import Command, module_environment
from tests.cli.trails import write


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder for sockets; pytest's own have names that are too long for one."""
    path = Path(tempfile.mkdtemp(prefix="ether-cli-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def host(folder: Path) -> Iterator[str]:
    """The address of a bus in another process, for tests that leave nothing on it."""
    url = f"ipc://{folder}/host.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.host", url],
        env=module_environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield url
        process.stdin.close()


@pytest.fixture
def own_bus(folder: Path) -> Iterator[Runtime]:
    """A bus in this process, for one test."""
    GATE.clear()
    STARTED.clear()
    with Runtime(bind=f"ipc://{folder}/own.sock", name="host", drain=0.0) as bus:
        bus.start(Greeter)
        bus.start(Counter)
        yield bus
        GATE.set()


@pytest.fixture
def alone(folder: Path) -> Command:
    """The command where no bus is."""
    return Command(folder, None)


@pytest.fixture
def ether(folder: Path, host: str) -> Command:
    """The command, connected to the bus of all tests."""
    return Command(folder, host)


@pytest.fixture
def own(folder: Path, own_bus: Runtime) -> Command:
    """The command, connected to the test's own bus."""
    return Command(folder, f"ipc://{folder}/own.sock")


def chatty(bus: TestRuntime) -> None:
    """Somebody asks the bus about itself."""
    handle = bus.delegate("ether.statistics")
    bus.advance(0)
    assert handle.result().ok


@pytest.fixture(scope="session")
def commits() -> list[Commit]:
    return play(chatty)


@pytest.fixture(scope="session")
def journal(tmp_path_factory: pytest.TempPathFactory, commits: list[Commit]) -> str:
    return str(write(tmp_path_factory.mktemp("log") / "journal.db", commits))


@pytest.fixture
def own_journal(tmp_path: Path, commits: list[Commit]) -> Path:
    """One that the test may change."""
    return write(tmp_path / "journal.db", commits)
