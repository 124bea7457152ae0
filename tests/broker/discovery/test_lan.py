"""Advertiser and browser with each other, by real multicast on the loopback interface.

Another run of these tests on this machine hears ours, and we hear it: the names are this process's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from zeroconf import ServiceInfo
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from ether_broker.discovery.advert import SERVICE_TYPE, Advert
from ether_broker.discovery.advertiser import Advertiser
from ether_broker.discovery.browser import browse
from ether_broker.discovery.locate import locate, located
from ether_broker.discovery.mdns import LOOPBACK, require
from ether_broker.errors import (
    BrokerUnavailable,
    DiscoveryUnavailable,
    InvalidEndpoint,
    MissingExtra,
    UntrustedBroker,
)
from tests.support import wait_until

pytestmark = pytest.mark.slow

LAB = f"lab-{os.getpid()}"
KEY, FALSE_KEY = f"aaaa-{os.getpid()}", f"bbbb-{os.getpid()}"


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody takes connections, as a broker does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def advertised(port: int, host: str = "alpha", **more: str) -> Advertiser:
    return Advertiser(Advert(LAB, LAB, port, host=host, version="0.1.0", **more), lambda: LOOPBACK, look=0.2)


def is_ours(advert: Advert) -> bool:
    return str(os.getpid()) in advert.name


def found(timeout: float, count: int = 1) -> list[Advert]:
    """Ours, as soon as there are so many."""
    heard = browse(timeout, enough=lambda some: len(list(filter(is_ours, some))) >= count, interfaces=LOOPBACK)
    return list(filter(is_ours, heard))


def test_a_broker_is_found_as_it_is_advertised_and_gone_when_it_says_goodbye(port: int):
    with advertised(port, fingerprint="ab12-cd34") as advertiser:
        [advert] = found(5.0)
        assert advert == advertiser.advert
        assert advert == Advert(LAB, LAB, port, LOOPBACK, "alpha", "0.1.0", fingerprint="ab12-cd34")
    assert advertiser.advert is None
    assert found(0.7) == []


def test_who_listens_hears_a_broker_leave(port: int):
    advertiser = advertised(port).open()
    leaving = threading.Timer(0.0, advertiser.close)
    seen: list[list[str]] = []

    def watch(some: Sequence[Advert]) -> bool:
        names = [advert.name for advert in some if is_ours(advert)]
        if names and not seen:
            leaving.start()
        seen.extend([names] if names or seen else [])
        return len(seen) > 1 and not names

    left = browse(10.0, enough=watch, interfaces=LOOPBACK)
    leaving.join()

    assert seen[0] == [LAB]
    assert [advert for advert in left if is_ours(advert)] == []


def test_a_second_broker_of_a_name_is_told_apart_by_its_host(port: int):
    with advertised(port) as first, advertised(port, host="beta") as second, advertised(port, host="beta") as third:
        expected = {LAB, f"{LAB}@beta", f"{LAB}@beta-2"}
        wait_until(lambda: {one.advert.name for one in (first, second, third) if one.advert} == expected)
        adverts = found(5.0, 3)
        assert first.advert is not None
        assert first.advert.name == LAB
    assert {advert.name for advert in adverts} == expected
    assert {advert.cluster for advert in adverts} == {LAB}


def test_brokers_that_start_at_the_same_moment_end_up_with_different_names(port: int):
    advertisers = [advertised(port, host=f"host{number}") for number in range(3)]
    threads = [threading.Thread(target=one.open) for one in advertisers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: len({one.advert.name for one in advertisers if one.advert}) == 3, what="three names")
    finally:
        for one in advertisers:
            one.close()


@contextlib.contextmanager
def announced(info: ServiceInfo) -> Iterator[None]:
    """A stranger who announces without asking whether the name is free."""
    ready, ending = threading.Event(), threading.Event()

    async def announce() -> None:
        mdns = AsyncZeroconf(interfaces=list(LOOPBACK))
        await (await mdns.async_register_service(info, cooperating_responders=True))
        ready.set()
        while not ending.is_set():
            await asyncio.sleep(0.02)
        await mdns.async_close()

    thread = threading.Thread(target=lambda: asyncio.run(announce()))
    thread.start()
    try:
        assert ready.wait(10.0)
        yield
    finally:
        ending.set()
        thread.join()


def strange(name: str, port: int = 1, server: str = "stranger.local.", **txt: str) -> AsyncServiceInfo:
    return AsyncServiceInfo(
        SERVICE_TYPE, f"{name}.{SERVICE_TYPE}", port=port, addresses=[b"\x7f\0\0\1"], properties=txt, server=server
    )


def test_of_two_that_took_one_name_unheard_the_later_one_gives_way(port: int):
    with advertised(port) as ours, announced(strange(LAB, server="a.local.", txtvers="1", proto="1", cluster=LAB)):
        wait_until(lambda: ours.advert and ours.advert.name == f"{LAB}@alpha", what="it has given way")


def test_of_two_that_took_one_name_unheard_the_earlier_one_keeps_it(port: int):
    with advertised(port) as ours, announced(strange(LAB, server="z.local.", txtvers="1", proto="1", cluster=LAB)):
        assert found(5.0)
        assert ours.advert is not None
        assert ours.advert.name == LAB


def test_what_is_no_ether_broker_is_not_found(port: int):
    bad = strange(f"{LAB}-evil", txtvers="1", proto="1", cluster="\x1b[2Jlab")
    with announced(bad), announced(strange(f"{LAB}-printer", server="printer.local.")), advertised(port):
        assert [advert.name for advert in found(2.0, count=2)] == [LAB]


def test_a_broker_is_advertised_only_while_it_has_an_address(port: int):
    addresses: list[str] = []
    events: list[str] = []
    advertiser = Advertiser(Advert(LAB, LAB, port), lambda: addresses, on_event=events.append, look=0.05)
    with advertiser:
        assert advertiser.advert is None
        addresses.append("127.0.0.1")
        wait_until(lambda: advertiser.advert, what="it is advertised")
        assert found(5.0)
        addresses.clear()
        wait_until(lambda: advertiser.advert is None, what="it is withdrawn")
        assert found(0.7) == []
    assert [event.partition(" ")[0] for event in events] == ["not", "advertised", "not"]
    assert events[1] == f"advertised on the network as {LAB} at tcp://127.0.0.1:{port}"


def test_a_network_that_goes_wrong_later_is_told_and_tried_again(port: int):
    addresses: list[str] = ["127.0.0.1"]
    events: list[str] = []
    with Advertiser(Advert(LAB, LAB, port), lambda: addresses, on_event=events.append, look=0.05) as advertiser:
        addresses[:] = ["192.0.2.254"]  # nobody's; the interface has gone
        wait_until(lambda: advertiser.advert is None or "192.0.2.254" in events[-1], what="it was noticed")
        addresses[:] = ["127.0.0.1"]
        wait_until(lambda: advertiser.advert and advertiser.advert.addresses == LOOPBACK, what="it is back")


def test_the_address_that_takes_connections_is_given(port: int):
    with advertised(port):
        assert locate(LAB, interfaces=LOOPBACK).url == f"tcp://127.0.0.1:{port}"


def test_a_broker_that_takes_no_connections_is_told_with_its_addresses():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with (
        advertised(port),
        pytest.raises(BrokerUnavailable, match=rf"{LAB} is advertised at tcp://127.0.0.1:{port}, .*firewall"),
    ):
        locate(LAB, interfaces=LOOPBACK)


def test_none_is_told_after_the_timeout_and_not_before():
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="No broker 'nobody'"):
        locate("nobody", timeout=0.5, interfaces=LOOPBACK)
    assert time.monotonic() - started >= 0.5


def test_the_known_key_leads_past_a_pretender(port: int):
    with (
        advertised(port, fingerprint=FALSE_KEY) as pretender,
        advertised(port, host="beta", fingerprint=KEY),
    ):
        assert pretender.advert is not None
        assert pretender.advert.name == LAB
        real = locate(known={KEY}, interfaces=LOOPBACK)
        assert real.advert is not None
        assert (real.advert.name, real.url) == (f"{LAB}@beta", f"tcp://127.0.0.1:{port}")
        assert locate(LAB, known={KEY}, interfaces=LOOPBACK) == real
        with pytest.raises(UntrustedBroker):
            locate(LAB, timeout=2.5, known={"cccc"}, interfaces=LOOPBACK)


def test_an_address_is_its_own_location_and_a_bad_name_is_refused():
    assert located("tcp://host:1") == ("tcp://host:1", None)
    with pytest.raises(InvalidEndpoint, match="lan://NAME"):
        located("lan://a b")


def test_it_works_where_an_event_loop_runs(port: int):
    async def inside() -> str:
        return locate(LAB, interfaces=LOOPBACK).url

    with advertised(port):
        assert asyncio.run(inside()) == f"tcp://127.0.0.1:{port}"


def test_a_machine_that_does_not_let_us_is_told_with_a_way_out():
    with pytest.raises(DiscoveryUnavailable, match="--connect"):
        browse(0.5, interfaces=("203.0.113.7",))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "zeroconf", None)

    with pytest.raises(MissingExtra, match=r"needs zeroconf: pip install 'agent-ether\[lan\]'"):
        require()
