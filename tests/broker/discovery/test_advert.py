from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.discovery.advert import MAX_LABEL, Advert
from ether_broker.envelope.version import PROTOCOL_MAJOR
from ether_broker.errors import InvalidSpec

LAB = Advert("lab@beta", "lab", 7421, ("10.0.0.5", "fd00::5"), "beta", "0.1.0", fingerprint="ab12-cd34")


def received(advert: Advert, **changes: str | None) -> Advert:
    fields = {**advert.txt, **changes}
    txt = {key.encode(): value.encode() for key, value in fields.items() if value is not None}
    return Advert.read(advert.name, advert.port, advert.addresses, txt)


def test_what_is_advertised_is_what_is_read():
    assert received(LAB) == LAB
    assert received(Advert("lab", "lab", 1)) == Advert("lab", "lab", 1)


def test_each_address_has_a_url_and_ipv6_stands_in_brackets():
    assert LAB.urls == ("tcp://10.0.0.5:7421", "tcp://[fd00::5]:7421")
    assert (LAB.url, Advert("lab", "lab", 1).url) == ("tcp://10.0.0.5:7421", "")


def test_addresses_that_mean_nothing_to_others_are_left_out():
    texts = ("fe80::1", "0.0.0.0", "224.0.0.251", "nonsense", "10.0.0.5", "10.0.0.5")

    assert Advert("lab", "lab", 1, texts).addresses == ("10.0.0.5",)


def test_keys_of_a_later_version_are_ignored():
    assert received(LAB, colour="green") == LAB


def test_the_protocol_of_the_broker_is_read():
    assert received(LAB, proto="7").protocol == 7
    assert LAB.protocol == PROTOCOL_MAJOR


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "\x1b[31mlab"},
        {"cluster": None},
        {"cluster": "lab\n"},
        {"cluster": "x" * (MAX_LABEL + 1)},
        {"host": "beta\x07"},
        {"version": "1" * 65},
        {"fp": "a b"},
        {"fp": ""},
        {"proto": "two"},
        {"proto": None},
        {"txtvers": "2"},
    ],
    ids=str,
)
def test_what_a_stranger_could_do_harm_with_is_refused(changes: dict[str, str | None]):
    with pytest.raises(InvalidSpec):
        received(LAB, **changes)


@pytest.mark.parametrize("fields", [{"port": 0}, {"port": 65536}, {"name": "a b"}, {"cluster": ""}], ids=str)
def test_a_broker_that_cannot_be_is_not_advertised(fields: dict[str, Any]):
    with pytest.raises(InvalidSpec):
        Advert(**{"name": "lab", "cluster": "lab", "port": 1, **fields})


@given(
    st.text(),
    st.integers(),
    st.lists(st.text() | st.ip_addresses().map(str)),
    st.dictionaries(
        st.binary() | st.sampled_from([b"txtvers", b"proto", b"cluster", b"host", b"version", b"fp"]),
        st.none() | st.binary() | st.sampled_from([b"1", b"lab"]),
    ),
)
def test_anything_that_is_received_is_an_advert_fit_to_print_or_is_refused(name, port, addresses, txt):
    try:
        advert = Advert.read(name, port, addresses, txt)
    except InvalidSpec:
        return
    words = (advert.name, advert.cluster, advert.host, advert.version, advert.fingerprint or "", *advert.urls)
    assert all(word.isascii() and word.isprintable() and len(word) <= 128 for word in words)
