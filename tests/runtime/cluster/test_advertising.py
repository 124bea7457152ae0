from __future__ import annotations

import sys
from contextlib import closing

import pytest

from ether import Cluster
from ether.cluster.advertising import advertise
from ether_broker.discovery.addresses import own_addresses
from ether_broker.errors import InvalidEndpoint, MissingExtra


@pytest.mark.parametrize("bound", ["tcp://127.0.0.1:7421", "tcp://192.0.2.254:7421", "tcp://no-such-host.invalid:7421"])
def test_an_address_that_others_do_not_reach_is_refused_with_one_that_they_do(bound: str):
    with pytest.raises(InvalidEndpoint, match=r"--bind 'tcp://\*:7421'"):
        advertise("lab", bound, is_up=lambda: True, on_event=print)


def test_a_broker_that_is_down_is_not_advertised():
    if not own_addresses():
        pytest.skip("this machine has no network")
    events: list[str] = []

    with closing(advertise("lab", "tcp://*:7421", is_up=lambda: False, on_event=events.append)) as advertiser:
        assert advertiser.advert is None

    assert events[0].startswith("not advertised: ")


def test_without_the_extra_nothing_is_started(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    cluster = Cluster(1, bind="tcp://*:*", advertise=True)

    with pytest.raises(MissingExtra, match=r"agent-ether\[lan\]"):
        cluster.open()
    cluster.close()
