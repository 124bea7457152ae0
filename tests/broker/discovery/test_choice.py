from __future__ import annotations

import pytest

from ether_broker.discovery.advert import Advert
from ether_broker.discovery.selection import choose, is_conclusive
from ether_broker.envelope.version import PROTOCOL_MAJOR
from ether_broker.errors import BrokerUnavailable, IncompatibleVersion, UntrustedBroker, UsageError


def advert(name: str, cluster: str | None = None, key: str | None = None, protocol: int = PROTOCOL_MAJOR) -> Advert:
    port = 7000 + len(name)
    return Advert(name, cluster or name.partition("@")[0], port, ("10.0.0.5",), "beta", "0.1.0", protocol, key)


LAB, OTHER, SECOND = advert("lab"), advert("press"), advert("lab@beta")
SEALED, FALSE = advert("safe", key="aaaa"), advert("safe@evil", key="bbbb")


def test_the_only_broker_is_meant_when_no_name_is_said():
    assert choose([LAB]) is LAB


def test_a_name_chooses():
    assert choose([OTHER, LAB], "lab") is LAB


def test_the_name_of_the_advert_goes_before_that_of_the_cluster():
    assert choose([LAB, SECOND], "lab") is LAB
    assert choose([LAB, SECOND], "lab@beta") is SECOND


def test_the_name_of_a_cluster_will_do_where_one_broker_has_it():
    assert choose([OTHER, SECOND], "lab") is SECOND


@pytest.mark.parametrize("name", [None, "lab"])
def test_several_are_told_by_name_and_not_guessed_among(name: str | None):
    with pytest.raises(UsageError, match=r"lab@alpha \(tcp://10\.0\.0\.5:\d+\), lab@beta .*`--discover lab@alpha`"):
        choose([advert("lab@alpha"), SECOND], name)


def test_none_at_all_names_the_ways_out():
    with pytest.raises(BrokerUnavailable, match=r"within 3 s: .*--advertise.* firewall .*--connect") as raised:
        choose([], "lab", seconds=3)
    assert "'lab'" in str(raised.value)


def test_none_of_that_name_names_the_nearest():
    with pytest.raises(BrokerUnavailable, match=r"No broker 'lap' .* Did you mean 'lab'\?"):
        choose([LAB, OTHER], "lap")


def test_a_fingerprint_that_is_only_shown_is_never_trusted():
    with pytest.raises(UntrustedBroker, match=r"shows the key aaaa\. .*compare it"):
        choose([SEALED], "safe")


def test_of_those_of_a_name_the_one_with_the_known_key_is_chosen():
    assert choose([FALSE, SEALED], known={"aaaa"}) is SEALED
    assert (
        choose([advert("safe", key="bbbb"), advert("safe@b", "safe", "aaaa")], "safe@b", {"aaaa", "cccc"}).name
        == "safe@b"
    )


@pytest.mark.parametrize("pretender", [advert("safe", key="bbbb"), advert("safe")], ids=["another key", "no key"])
def test_a_broker_without_the_known_key_is_refused(pretender: Advert):
    with pytest.raises(UntrustedBroker, match=r"key that is known here is aaaa, and safe \(.* shows (bbbb|no key)"):
        choose([pretender], "safe", {"aaaa"})


def test_who_takes_the_name_first_cannot_keep_us_from_the_known_key():
    pretender, real = advert("safe", key="bbbb"), advert("safe@b", "safe", "aaaa")

    assert choose([pretender, real], "safe", {"aaaa"}) is real


def test_two_brokers_with_the_known_key_are_told_apart_by_name_only():
    twins = [advert("safe@a", key="aaaa"), advert("safe@b", key="aaaa")]

    with pytest.raises(UsageError, match="Several"):
        choose(twins, "safe", {"aaaa"})
    assert choose(twins, "safe@b", {"aaaa"}) is twins[1]


@pytest.mark.parametrize(
    ("protocol", "said"), [(PROTOCOL_MAJOR + 1, "upgrade agent-ether here"), (PROTOCOL_MAJOR + 98, "here")]
)
def test_a_broker_of_another_protocol_is_told(protocol: int, said: str):
    with pytest.raises(IncompatibleVersion, match=said):
        choose([advert("lab", protocol=protocol)])


def test_listening_ends_only_when_nothing_more_could_matter():
    assert is_conclusive([LAB], "lab")
    assert not is_conclusive([LAB], None)
    assert not is_conclusive([SECOND], "lab")
    assert is_conclusive([FALSE, SEALED], None, {"aaaa"})
    assert not is_conclusive([FALSE], "safe", {"aaaa"})
