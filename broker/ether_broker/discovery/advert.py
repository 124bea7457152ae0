"""The advertisement of a broker on the local network.

    instance   lab                          the cluster's name; lab@beta where another had it first
    SRV        port, and a target of its own for each start
    A, AAAA    addresses
    TXT        txtvers=1  cluster=lab  host=beta  version=0.1.0  proto=2  fp=…    fp only if the broker has a key

Nothing of it is authenticated: who can send to the network can say all of it, another's fingerprint too.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from ether_broker.envelope.names import NAME_PATTERN
from ether_broker.envelope.version import PROTOCOL_MAJOR
from ether_broker.errors import InvalidSpec

__all__ = ["MAX_LABEL", "SERVICE_TYPE", "Advert"]

SERVICE_TYPE: Final = "_ether._tcp.local."
MAX_LABEL: Final = 63
"""Bytes of an instance's name: one label of DNS (RFC 6763, 4.1.1)."""
_TXT_VERSION: Final = "1"
_MOST_ADDRESSES: Final = 16
_NAME: Final = re.compile(NAME_PATTERN)
_WORD: Final = re.compile(r"[A-Za-z0-9._+-]{0,64}")
_FINGERPRINT: Final = re.compile(r"[A-Za-z0-9+/=:_.-]{1,128}")
_PROTOCOL: Final = re.compile(r"[1-9][0-9]{0,2}")


@dataclass(frozen=True, slots=True)
class Advert:
    """The advertisement of a broker on the local network, as `discover` lists it.

    Its text is safe to print. What it says is not authenticated and may be false.

    Example:
        advert = Advert(name="lab", cluster="lab", port=7421, addresses=("192.0.2.7",))
        assert advert.url == "tcp://192.0.2.7:7421"
        assert advert.fingerprint is None  # the broker has no key

    Raises:
        InvalidSpec: a field has a value that it cannot have, so that no control character or endless text of a
            stranger gets any further.
    """

    name: str
    """Unique on the network: the cluster's name, or `CLUSTER@HOST` where another broker had that first."""
    cluster: str
    """The name of the cluster."""
    port: int
    addresses: tuple[str, ...] = ()
    """Of the broker's machine, IPv4 and IPv6, nearest first."""
    host: str = ""
    """The name of the broker's machine."""
    version: str = ""
    """Of the broker's Ether."""
    protocol: int = PROTOCOL_MAJOR
    """The major version of the wire protocol."""
    fingerprint: str | None = None
    """Of the key that the broker says it has; None: it has none, and nothing is encrypted. Never proof by itself."""

    def __post_init__(self) -> None:
        """Check; an address without a meaning to others (loopback excepted, for tests of one machine) is left out."""
        object.__setattr__(self, "addresses", _reachable(self.addresses))
        for what, name in (("The broker's name on the network", self.name), ("A cluster", self.cluster)):
            if not _NAME.fullmatch(name) or len(name) > MAX_LABEL:
                raise InvalidSpec(f"{what} is {name[:80]!r}: use up to {MAX_LABEL} letters, digits and _ . : @ / -")
        if not 0 < self.port < 1 << 16:
            raise InvalidSpec(f"The port of {self.name} is {self.port}: give one of 1 to 65535.")
        for what, word in (("host", self.host), ("version", self.version)):
            if not _WORD.fullmatch(word):
                raise InvalidSpec(f"The {what} of {self.name} is {word[:80]!r}: use letters, digits and . _ + -")
        if self.fingerprint is not None and not _FINGERPRINT.fullmatch(self.fingerprint):
            raise InvalidSpec(f"The key fingerprint of {self.name} is {self.fingerprint[:80]!r}, which is none.")

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it may be reached, one URL an address; not each needs to be reachable from here."""
        return tuple(f"tcp://[{text}]:{self.port}" if ":" in text else f"tcp://{text}:{self.port}"
                     for text in self.addresses)  # fmt: skip

    @property
    def url(self) -> str:
        """The first of `urls`; "" if there is none."""
        return next(iter(self.urls), "")

    @property
    def txt(self) -> dict[str, str]:
        """The TXT record."""
        fields = {
            "txtvers": _TXT_VERSION,
            "cluster": self.cluster,
            "host": self.host,
            "version": self.version,
            "proto": str(self.protocol),
        }
        return fields if self.fingerprint is None else {**fields, "fp": self.fingerprint}

    @classmethod
    def read(cls, name: str, port: int, addresses: Iterable[str], txt: Mapping[bytes, bytes | None]) -> Self:
        """Make sense of what was received; keys that we do not know are ignored.

        Raises:
            InvalidSpec: it makes none.
        """
        said = {key.decode("ascii", "replace").lower(): (value or b"").decode("utf-8", "replace")
                for key, value in txt.items()}  # fmt: skip
        protocol = said.get("proto", "")
        if said.get("txtvers") != _TXT_VERSION or not _PROTOCOL.fullmatch(protocol):
            raise InvalidSpec(f"{name[:80]!r} is not advertised as an Ether broker is (txtvers, proto).")
        return cls(
            name, said.get("cluster", ""), port, tuple(addresses), said.get("host", ""), said.get("version", ""),
            int(protocol), said.get("fp"),
        )  # fmt: skip


def _reachable(texts: Iterable[str]) -> tuple[str, ...]:
    """The addresses that mean the same machine to everybody on the network, each once.

    A link-local IPv6 address means nothing without the reader's own interface, and a URL has no place for that.
    """
    found: dict[str, None] = {}
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        is_scoped = address.version == 6 and address.is_link_local  # noqa: PLR2004
        if not (is_scoped or address.is_multicast or address.is_unspecified):
            found[str(address)] = None
    return tuple(found)[:_MOST_ADDRESSES]
