"""The client's side of a transport: a link to the broker, and who receives what it brings.

Another kind: docs/design.md, "Another transport, journal or clock".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ether_broker.errors import EtherError
from ether_broker.timing import DEFAULT_TIMING, Timing

__all__ = ["LINK_LIMIT", "REFUSED", "Link", "Receiver"]

LINK_LIMIT: Final = 64 << 20
"""Bytes that may wait to be sent or acknowledged before what starts new work is refused (G8)."""
REFUSED: Final = f"{LINK_LIMIT:,} bytes wait to be sent to the broker, or for its receipt: it does not take them."
"""What is said of that."""


class Receiver(Protocol):
    """The interface of what receives from a link; called in the link's one receiving thread."""

    def received(self, envelopes: list[bytes]) -> None:
        """Envelopes from the broker, in order and each once, but for those of `Link.greet`'s answers."""

    def ticked(self) -> float:
        """Do what is due; returns the seconds after which it is to be called again at the latest.

        What the link receives meanwhile changes nothing of that, so it is short while there is work.
        """


class Link(Protocol):
    """The interface of a node's link to the broker.

    Within a session nothing is lost, doubled or out of order, though connections break: see `ether_broker.transport.channel`.
    """

    endpoint: str
    """The broker's address."""

    def open(self, receiver: Receiver) -> None:
        """Begin to receive."""

    def greet(self, envelope: bytes) -> None:
        """Send from the listening side, outside the count: HELLO only, which tells the broker where we listen.

        In the receiving thread, or before `open`. It may be lost: who is not answered says it again.
        """

    def first(self, timeout: float) -> list[bytes]:
        """Wait up to `timeout` seconds for the first envelopes, before `open`; empty when there are none by then."""

    def begin(self, session: int, renew: Callable[[list[bytes]], list[bytes]], timing: Timing = DEFAULT_TIMING) -> None:
        """Begin a session; before the first one nothing that was sent leaves.

        Args:
            session: the id that WELCOME gave.
            timing: what WELCOME says.
            renew: gets the envelopes that no earlier session acknowledged, in order, and returns those that are sent
                first in this one. It must not send by itself.
        """

    def explain(self) -> EtherError | None:
        """Why no connection comes about, where that is known: the keys; before `open`."""

    @property
    def is_receiving_thread(self) -> bool:
        """Whether the caller is the receiving thread, which must not wait for what it would receive."""

    def call(self, call: Callable[[], object]) -> None:
        """Have something called where a user's callbacks are: in the receiving thread, at once if this is it.

        A link whose receiver is called in no other thread calls it at once.
        """

    @property
    def kept_bytes(self) -> int:
        """Bytes that wait to be sent or acknowledged."""

    @property
    def is_full(self) -> bool:
        """Whether more than `LINK_LIMIT` bytes wait to be sent or acknowledged: who can do without saying something does."""

    def send(self, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:
        """Send now, in the order of the calls of each thread; any thread may call it.

        What starts new work may be refused, before it is taken. All else is owed, such as the outcome of work that was
        taken, and always kept, so what is kept is bounded by what is taken: of each agent the broker's `window` of
        delegations, with the largest outcome of each and its newest progress, beside `LINK_LIMIT` and a little of control.

        Args:
            envelope: what to send.
            more_follows: at once, as far as the caller knows: keep it for the same frame. Another thread sends it as
                soon as it can run, so nothing is lost if nothing follows; `flush` sends it now.
            is_new: it starts new work.

        Raises:
            MailboxFull: the link is full, and it would start new work.
        """

    def send_last(self, envelope: bytes) -> None:
        """Send at the end of a turn: the caller holds no lock, and has nothing of a user's on its stack.

        So its thread may do the work of a broker of the same process.
        """

    def show_life(self) -> None:
        """Show that this node lives, outside the count and before all that waits; in the receiving thread.

        It says nothing else, and is lost when nobody is connected.
        """

    def flush(self) -> None:
        """Send what waits, now."""

    def close(self, linger: float) -> None:
        """Send what waits within `linger` seconds, and end."""
