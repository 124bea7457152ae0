from __future__ import annotations

import os
from pathlib import Path

import pytest

from ether_broker.errors import InvalidEndpoint
from ether_broker.transport.endpoint import check_endpoint, default_endpoint, is_exposed, own_endpoint, prepare_endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://127.0.0.1:7421",
        "tcp://broker.example.org:1",
        "tcp://*:65535",
        "tcp://[::1]:7421",
        "tcp://127.0.0.1:*",
        "ipc:///run/user/1/ether/default.sock",
        "inproc://here",
    ],
)
def test_addresses_that_a_broker_can_have(endpoint):
    assert check_endpoint(endpoint) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "hint"),
    [
        ("tcp://127.0.0.1", "port of 1 to 65535"),
        ("tcp://127.0.0.1:0", "port of 1 to 65535"),
        ("tcp://127.0.0.1:65536", "port of 1 to 65535"),
        ("tcp://127.0.0.1:http", "tcp://HOST:PORT"),
        ("tcp://a b:1", "tcp://HOST:PORT"),
        ("tcp://:7421", "tcp://HOST:PORT"),
        ("tcp://host:7421/path", "tcp://HOST:PORT"),
        ("ipc://relative.sock", "absolute"),
        ("ipc:///" + "x" * 107, "107 bytes"),
        ("ipc:///" + "ü" * 54, "107 bytes"),
        ("http://127.0.0.1:80", "no address of a broker"),
        ("inproc://", "no address of a broker"),
        ("127.0.0.1:7421", "no address of a broker"),
        ("", "no address of a broker"),
    ],
)
def test_anything_else_is_refused_with_the_form_to_write(endpoint, hint):
    with pytest.raises(InvalidEndpoint, match=hint) as raised:
        check_endpoint(endpoint)

    assert repr(endpoint) in str(raised.value)


def test_the_longest_path_that_a_unix_socket_may_have_is_taken():
    assert check_endpoint("ipc:///" + "x" * 106)


def test_the_default_is_in_the_users_runtime_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert default_endpoint() == f"ipc://{tmp_path}/ether/default.sock"
    assert default_endpoint("blue") == f"ipc://{tmp_path}/ether/blue.sock"


def test_a_name_without_a_path_is_that_users_cluster_of_the_name(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert own_endpoint("ipc://blue") == f"ipc://{tmp_path}/ether/blue.sock"
    for other in ("ipc:///blue", "ipc://run/blue", "ipc://", "tcp://blue:1", "blue:1"):
        assert own_endpoint(other) == other


def test_a_name_alone_is_told_how_it_is_written():
    with pytest.raises(
        InvalidEndpoint, match=r"'blue-2' is no address of a broker: write ipc://blue-2 for your bus of that"
    ):
        own_endpoint("blue-2")


def test_without_a_runtime_folder_it_is_in_one_of_the_users_own_among_temporary_files(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert default_endpoint() == f"ipc://{tmp_path}/ether-{os.getuid()}/default.sock"


def test_the_folder_of_an_ipc_socket_is_made_for_its_owner_alone(tmp_path):
    prepare_endpoint(f"ipc://{tmp_path}/a/b/c.sock")

    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_folder_where_others_could_put_a_socket_is_refused(tmp_path):
    tmp_path.chmod(0o777)

    with pytest.raises(InvalidEndpoint, match="choose a folder with mode 0700"):
        prepare_endpoint(f"ipc://{tmp_path}/c.sock")


def test_a_folder_for_all_is_taken_where_nobody_can_replace_anothers_files(tmp_path):
    tmp_path.chmod(0o1777)

    prepare_endpoint(f"ipc://{tmp_path}/c.sock")


def test_a_tcp_address_needs_no_folder():
    prepare_endpoint("tcp://127.0.0.1:7421")

    assert not Path("127.0.0.1:7421").exists()


@pytest.mark.parametrize(
    ("endpoint", "exposed"),
    [
        ("tcp://127.0.0.1:*", False),
        ("tcp://127.8.9.1:7421", False),
        ("tcp://localhost:7421", False),
        ("tcp://lo:7421", False),
        ("tcp://bus.localhost:7421", True),
        ("tcp://[::1]:7421", False),
        ("tcp://[::ffff:127.0.0.1]:7421", False),
        ("tcp://[::ffff:10.0.0.1]:7421", True),
        ("tcp://*:7421", True),
        ("tcp://0.0.0.0:7421", True),
        ("tcp://[::]:7421", True),
        ("tcp://10.0.0.1:7421", True),
        ("tcp://eth0:7421", True),
        ("tcp://localhost.example.com:7421", True),
        ("ipc:///run/ether/b.sock", False),
        ("inproc://here", False),
    ],
)  # fmt: skip
def test_an_address_is_exposed_unless_it_certainly_stays_on_the_machine(endpoint: str, exposed: bool):
    assert is_exposed(endpoint) is exposed
