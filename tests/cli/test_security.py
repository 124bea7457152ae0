"""The command with keys: `up`, `node` and the others over TCP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import Runtime
from ether_broker.security.keyring import Keyring
from tests.cli.agents import Greeter
from tests.cli.command import Command
from tests.cli.test_up import first_line

AGENTS = "tests.cli.agents"


@pytest.fixture
def office(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "office", "office")


@pytest.fixture
def laptop(tmp_path: Path, office: Keyring) -> Keyring:
    ring = Keyring.create(tmp_path / "laptop", "laptop")
    office.allow(ring.own.public, "laptop")
    return ring


@pytest.fixture
def url(office: Keyring) -> Iterator[str]:
    with Runtime(bind="tcp://127.0.0.1:*", keys=office, name="host", drain=0.0) as bus:
        bus.start(Greeter)
        yield bus.url


def door(url: str, ring: Keyring, office: Keyring) -> tuple[str, ...]:
    return ("--connect", url, "--keys", str(ring.folder), "--server-key", office.own.public)


@pytest.mark.parametrize(
    "words", [("agents",), ("nodes",), ("capabilities",), ("dead-letters", "list"), ("top", "-n", "1"), ("doctor",)]
)
def test_every_command_that_needs_a_bus_takes_keys(alone: Command, url, office, laptop, words) -> None:
    done = alone(*words, *door(url, laptop, office))

    assert done.code == 0, done


def test_keys_come_from_the_environment_too(alone: Command, url, office, laptop) -> None:
    done = alone(
        "exec", "greeter", "greet", "--name", "Ada",
        ETHER_CONNECT=url, ETHER_KEYS=str(laptop.folder), ETHER_SERVER_KEY=office.own.public,
    )  # fmt: skip

    assert (done.code, done.out) == (0, "Hello, Ada\n")


def test_a_request_that_is_sent_again_is_known_by_its_id_below_the_keys_name(
    alone: Command, url, office, laptop
) -> None:
    words = ("exec", "greeter", "greet", "--name", "Ada", "--request-id", "018f6b1e-0000-7000-8000-000000000001")
    first, second = (alone(*words, *door(url, laptop, office), "-o", "json") for _ in range(2))

    assert first.code == second.code == 0, second
    assert first.json == second.json


def test_on_the_brokers_machine_its_folder_is_enough(alone: Command, url, office) -> None:
    assert alone("agents", "--connect", url, "--keys", str(office.folder)).code == 0


def test_no_keys_are_one_line_and_an_exit_code(alone: Command, url) -> None:
    done = alone("doctor", "--connect", url)
    assert done.code == 1
    assert "wants keys" in done.out

    done = alone("agents", "--connect", url, "-o", "json")
    assert done.code == 3
    assert "wants keys" in done.err


def test_a_server_key_alone_is_a_usage_error(alone: Command, url, office) -> None:
    done = alone("agents", "--connect", url, "--server-key", office.own.public)

    assert done.code == 2
    assert "ether keys new" in done.err


def test_doctor_looks_at_the_keys(alone: Command, office) -> None:
    assert "office" in alone("doctor", "--keys", str(office.folder)).out
    (office.folder / "own.key_secret").chmod(0o644)

    done = alone("doctor", "--keys", str(office.folder), "-o", "json")

    (row,) = [row for row in done.json if row["check"] == "keys"]
    assert (done.code, row["verdict"]) == (1, "fail")
    assert "chmod" in row["fix"]


@pytest.mark.slow
def test_a_bus_is_run_and_joined_with_keys(alone: Command, office, laptop) -> None:
    words = (
        "up",
        f"{AGENTS}:Counter",
        "--bind",
        "tcp://127.0.0.1:*",
        "--keys",
        str(office.folder),
        "--durability",
        "memory",
    )
    with alone.started(*words) as bus:
        url = first_line(bus)
        with alone.started("node", f"{AGENTS}:Greeter", *door(url, laptop, office)) as node:
            assert first_line(node) == url
            done = alone("exec", "greeter", "greet", "--name", "Ada", *door(url, laptop, office))
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=30)
        bus.send_signal(signal.SIGTERM)
        bus.communicate(timeout=30)

    assert (done.code, done.out) == (0, "Hello, Ada\n")
    assert (node.returncode, bus.returncode) == (0, 0)


@pytest.mark.slow
def test_an_address_that_others_reach_is_bound_with_keys_or_a_word(alone: Command) -> None:
    done = alone.process("up", f"{AGENTS}:Greeter", "--bind", "tcp://*:*", "--durability", "memory")
    assert done.code == 2
    assert "insecure_endpoint" in done.err

    with alone.started("up", f"{AGENTS}:Greeter", "--bind", "tcp://*:*", "--insecure", "--durability", "memory") as bus:
        assert first_line(bus).startswith("tcp://127.0.0.1:")
        bus.send_signal(signal.SIGTERM)
        bus.communicate(timeout=30)
