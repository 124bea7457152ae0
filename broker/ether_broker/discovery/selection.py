"""The selection of one of the advertised brokers, and whether it may be connected to. Sans-IO.

    is there one?  ──►  does it show the key that is known?  ──►  is it the only one?  ──►  does it speak our protocol?
    BrokerUnavailable   UntrustedBroker                           UsageError                IncompatibleVersion

A fingerprint that is advertised is a claim. It says which broker to try, and the encrypted connection then proves the
key or fails; so nothing that an advert says ever makes a key known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ether_broker.discovery.advert import Advert
from ether_broker.envelope.version import PROTOCOL_MAJOR
from ether_broker.errors import BrokerUnavailable, IncompatibleVersion, UntrustedBroker, UsageError
from ether_broker.name_hint import nearest

__all__ = ["choose", "is_conclusive"]


def choose(
    found: Sequence[Advert], name: str | None = None, known: Collection[str] = (), *, seconds: float = 0.0
) -> Advert:
    """The broker that is meant.

    Args:
        found: what is advertised.
        name: of the advert, or of its cluster; an advert's own name goes before. None: whichever is the only one.
        known: fingerprints of keys that are trusted to be the broker's, from where they are trusted: the broker must
            show one of them. Empty: no key is known, and only a broker that shows none will do.
        seconds: how long was listened, for the message.

    Raises:
        BrokerUnavailable: there is none, or none of that name.
        UntrustedBroker: it shows another key than the one that is known, or a key and none is known.
        UsageError: several could be meant.
        IncompatibleVersion: it speaks another major version of the protocol.
    """
    named = _bearing(found, name)
    if not named:
        raise BrokerUnavailable(_none(found, name, seconds))
    trusted = _trusted(named, known)
    if not trusted:
        shown = "; ".join(f"{_place(advert)} shows {advert.fingerprint or 'no key'}" for advert in named)
        raise UntrustedBroker(
            f"The key that is known here is {' or '.join(sorted(known))}, and {shown}. It is another broker, its key was "
            "changed, or somebody pretends: ask whoever runs it before you trust another key."
        )
    meant = [advert for advert in trusted if advert.name == name] or trusted
    if len(meant) > 1:
        listed = ", ".join(map(_place, meant))
        raise UsageError(f"Several brokers are meant: {listed}. Name one, as in `--discover {meant[0].name}`.")
    [chosen] = meant
    if chosen.protocol != PROTOCOL_MAJOR:
        older = "here" if chosen.protocol > PROTOCOL_MAJOR else f"on {chosen.host or chosen.name}"
        raise IncompatibleVersion(
            f"{_place(chosen)} speaks protocol {chosen.protocol} and this Ether {PROTOCOL_MAJOR}: "
            f"upgrade agent-ether {older}."
        )
    if chosen.fingerprint and not known:
        raise UntrustedBroker(
            f"{_place(chosen)} is encrypted and shows the key {chosen.fingerprint}. Anybody on this network can show "
            "that, so it is not trusted for being shown: compare it with the one that `ether up` told on that machine, "
            "and say here that this is the broker's key."
        )
    return chosen


def is_conclusive(found: Sequence[Advert], name: str | None, known: Collection[str] = ()) -> bool:
    """Whether what is found so far is enough to choose, so that listening any longer would change nothing."""
    trusted = _trusted(_bearing(found, name), known)
    return bool(trusted) if known else any(advert.name == name for advert in trusted)


def _bearing(found: Sequence[Advert], name: str | None) -> list[Advert]:
    """Those of that name, be it the advert's own or its cluster's."""
    return [advert for advert in found if name in (None, advert.name, advert.cluster)]


def _trusted(adverts: Sequence[Advert], known: Collection[str]) -> list[Advert]:
    """Those that show a known key, so that nobody keeps us from it by taking its name first; all where none is known."""
    return [advert for advert in adverts if advert.fingerprint in known] if known else list(adverts)


def _place(advert: Advert) -> str:
    return f"{advert.name} ({advert.url or 'no address'})"


def _none(found: Sequence[Advert], name: str | None, seconds: float) -> str:
    waited = f" within {seconds:g} s" if seconds else ""
    if found:
        hint = nearest(name or "", [advert.name for advert in found])
        return f"No broker {name!r} is advertised on this network{waited}.{hint}"
    what = "No broker" if name is None else f"No broker {name!r}, nor any other,"
    return (
        f"{what} is advertised on this network{waited}: start one with `ether up --advertise`. If one runs, a firewall "
        "on either machine (UDP port 5353, multicast) or another subnet keeps it from being heard: "
        "name its address, as in `--connect tcp://HOST:PORT`."
    )
