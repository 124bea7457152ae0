"""The addresses of this user's clusters that are not at the default one of their name."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ether_broker.discovery import abstract_sockets, own_clusters
from ether_broker.discovery.own_clusters import ClusterAddress, addresses_beside, told_elsewhere

URL = "tcp://127.0.0.1:7493"


@pytest.fixture
def default(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/shop.sock"


def test_the_address_is_told_to_each_who_asks_until_the_end(default: str) -> None:
    other = default.replace("shop", "other")
    with ClusterAddress(default, URL), ClusterAddress(other, "tcp://127.0.0.1:7494"):
        assert [told_elsewhere(default) for _ in range(20)] == [URL] * 20
        assert sorted(addresses_beside(default)) == [URL, "tcp://127.0.0.1:7494"]
        assert addresses_beside(default.replace("/shop", "/deeper/shop")) == []
        assert told_elsewhere(default.replace("shop", "sho")) is None
        assert told_elsewhere(URL) is None

    assert told_elsewhere(default) is None
    assert addresses_beside(default) == []


def test_one_that_is_there_keeps_the_name(default: str) -> None:
    with ClusterAddress(default, URL), ClusterAddress(default, "tcp://127.0.0.1:7494"):
        assert told_elsewhere(default) == URL


def test_another_user_is_neither_told_nor_believed(default: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ClusterAddress(default, URL):
        monkeypatch.setattr(own_clusters, "is_own", lambda _connection: False)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(own_clusters._socket_name(default))
            assert asking.recv(1) == b""
        assert told_elsewhere(default) is None
        assert addresses_beside(default) == []


def test_one_that_says_nothing_or_no_text_is_not_there(default: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_clusters, "_GLANCE", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(own_clusters._socket_name(default))
        silent.listen()
        assert told_elsewhere(default) is None
    with ClusterAddress(default, "") as telling:
        telling._url = b"\xff"
        assert told_elsewhere(default) is None


def test_without_a_list_of_sockets_none_is_found(default: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(abstract_sockets, "_ALL", tmp_path / "none")
    with ClusterAddress(default, URL):
        assert addresses_beside(default) == []
        assert told_elsewhere(default) == URL
