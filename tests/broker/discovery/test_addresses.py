from __future__ import annotations

import ipaddress

import pytest

from ether_broker.discovery.addresses import (
    LocalAddress,
    bound_addresses,
    interfaces,
    nearest_first,
    own_addresses,
)


def interface(name: str, text: str) -> LocalAddress:
    whole = ipaddress.ip_interface(text)
    return LocalAddress(name, whole.ip, whole.network)


HERE = [interface("eth0", "192.168.1.10/24"), interface("docker0", "172.17.0.1/16"), interface("eth0", "fd00::10/64")]


def test_a_broker_on_all_interfaces_is_reached_at_all_addresses_but_loopback():
    assert bound_addresses("*") == bound_addresses("[::]") == own_addresses()
    assert not any(ipaddress.ip_address(text).is_loopback for text in own_addresses())


def test_a_broker_on_all_ipv4_interfaces_has_no_ipv6_address():
    assert bound_addresses("0.0.0.0") == tuple(text for text in own_addresses() if ":" not in text)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "192.0.2.254", "no-such-host.invalid", "lo"])
def test_a_broker_that_is_not_bound_to_this_machines_network_is_reached_nowhere(host: str):
    assert bound_addresses(host) == ()


def test_a_broker_on_one_address_is_reached_there():
    for one in interfaces():
        assert bound_addresses(str(one.address)) == (str(one.address),)
        assert bound_addresses(one.name) != ()


def test_addresses_in_a_network_of_ours_are_tried_first():
    assert nearest_first(["10.0.0.5", "fd00::5", "192.168.1.7"], HERE) == ["fd00::5", "192.168.1.7", "10.0.0.5"]


def test_an_address_that_is_ours_too_is_tried_last():
    assert nearest_first(["172.17.0.1", "10.0.0.5", "192.168.1.7"], HERE) == ["192.168.1.7", "10.0.0.5", "172.17.0.1"]
