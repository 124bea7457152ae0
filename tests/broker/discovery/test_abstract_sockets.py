"""Sockets without a file: which there are, and whose."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from uuid import uuid4

import pytest

from ether_broker.discovery.abstract_sockets import abstract_names, is_own, name_digest

SPEAK = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect("\\0" + sys.argv[1])
    asking.recv(1)
"""


@pytest.fixture
def name() -> str:
    return f"ether-test-{uuid4().hex}-x"


def test_a_name_is_listed_while_its_socket_is_open(name: str) -> None:
    prefix = name.removesuffix("x")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        assert abstract_names(prefix) == [name]
    assert abstract_names(prefix) == []


@pytest.mark.parametrize(
    "user",
    [
        os.getuid(),
        pytest.param(
            65534, marks=pytest.mark.skipif(os.getuid() != 0, reason="only root may start another user's process")
        ),
    ],
)
def test_whose_the_other_end_is_is_the_kernels_word(name: str, user: int) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        with subprocess.Popen([sys.executable, "-c", SPEAK, name, str(user)]) as other:
            connection, _ = listening.accept()
            with connection:
                assert is_own(connection) is (user == os.getuid())
            assert other.wait(10.0) == 0


def test_a_digest_has_as_many_digits_as_asked_for() -> None:
    assert len(name_digest("a", 16)) == 16
    assert name_digest("a", 32).startswith(name_digest("a", 16))
    assert name_digest("a", 16) != name_digest("b", 16)
