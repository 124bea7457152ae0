"""The sending side of a node's connection to its broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ether_broker.transport.link import Link
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["SendCall", "Sender"]


class SendCall(Protocol):
    """The signature of `Link.send`."""

    def __call__(self, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:
        """As `Link.send`."""
        ...


class Sender:
    """The sending side of a node's link, up to BYE.

    Args:
        link: open or not yet.
    """

    __slots__ = ("flush", "last_words", "link", "send", "send_last")

    def __init__(self, link: Link) -> None:
        self.link: Link = link
        self.send: SendCall = link.send
        """As `Link.send`, until BYE has been said: nothing follows it."""
        self.send_last: Callable[[bytes], None] = link.send_last
        """As `Link.send_last`, likewise."""
        self.flush: Callable[[], None] = link.flush
        """Send what has been kept back."""
        self.last_words: list[bytes] = []
        """BYE when it has been said, which is said again in a new session."""

    def send_now(self, envelope: bytes) -> None:
        """Send an envelope, and what has been kept back."""
        self.send(envelope)
        self.flush()

    def say_bye(self) -> None:
        """Say that this is the last word, now."""
        bye = pack_envelope(Kind.BYE)
        self.last_words = [bye]  # first: a session that begins at this moment says it too
        self.send = self.send_last = _say_nothing
        self.link.send(bye)
        self.flush()


def _say_nothing(envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:
    """Drop what comes after BYE."""
