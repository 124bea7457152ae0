"""What a node says to its broker."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Protocol

from ether_broker.errors import EtherError
from ether_broker.transport.link import Link
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["Sender"]

logger: logging.Logger = logging.getLogger("ether.node")


class SendCall(Protocol):
    """The signature of `Link.send`."""

    def __call__(self, envelope: bytes, *, hold: bool = False) -> None:
        """As `Link.send`."""
        ...


class Sender:
    """The sending side of a link, up to BYE.

    Args:
        link: open or not yet.
    """

    __slots__ = ("flush", "last_words", "link", "send")

    def __init__(self, link: Link) -> None:
        self.link: Link = link
        self.send: SendCall = link.send
        """Send what the caller answers for: it raises as `Link.send`."""
        self.flush: Callable[[], None] = link.flush
        """Send what has been kept back."""
        self.last_words: list[bytes] = []
        """BYE when it has been said, which is said again in a new session; nothing follows it."""

    def tell(self, envelope: bytes, *, hold: bool = False) -> None:
        """Send what nobody here can help: a failure is logged. Nothing follows BYE."""
        if self.last_words:
            return
        try:
            self.send(envelope, hold=hold)
        except EtherError as error:
            logger.warning("could not tell the broker: %s", error)

    def say_bye(self) -> None:
        """Say that this is the last word, now."""
        bye = pack_envelope(Kind.BYE)
        self.last_words = [bye]  # first: a session that begins at this moment says it too
        with contextlib.suppress(EtherError):
            self.send(bye)
        self.flush()
