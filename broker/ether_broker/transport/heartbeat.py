"""The broker's HEARTBEAT: its clock, what it has received and sent, and what is wrong with its journal."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

from ether_broker.encoding.bounded import Bounds, read_map
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidEnvelope
from ether_broker.text import printable
from ether_broker.wire.frame import Kind, pack_envelope, read_header

__all__ = ["LATEST_CLOCK", "BrokerHeartbeat"]

LATEST_CLOCK: Final = 1e10
"""Seconds that a broker's clock may show, some 300 years: deadlines by it are exact to 2 µs."""
_BOUNDS: Final = Bounds(64 << 10, 1_024, 8)
_MOST_SAID: Final = 1_000
"""Characters of `trouble` that are kept."""


class BrokerHeartbeat(NamedTuple):
    """The content of a HEARTBEAT that a broker sends."""

    clock: float
    """Seconds that its clock shows."""
    received: int
    """Number of the last frame of the node that it has taken, committed or not."""
    sent: int
    """Number of the last frame that it has sent to the node."""
    trouble: str = ""
    """Why its journal cannot be written now; empty when it can."""

    def pack(self) -> bytes:
        """The envelope."""
        body = self._asdict()
        if not self.trouble:
            del body["trouble"]
        return pack_envelope(Kind.HEARTBEAT, body=pack(body))

    @classmethod
    def read(cls, envelope: bytes) -> Self:
        """What an envelope says, checked: nobody has shown yet that its sender is a broker.

        Raises:
            InvalidEnvelope: a field is missing, of another type, or cannot be.
        """
        body = read_map(envelope[read_header(envelope).body :], _BOUNDS)
        clock, trouble = body.get("clock"), body.get("trouble") or ""
        received, sent = body.get("received", 0), body.get("sent", 0)
        if type(clock) not in {float, int} or not 0 <= clock <= LATEST_CLOCK:  # type: ignore[operator]
            raise _invalid("clock", clock)
        for name, number in (("received", received), ("sent", sent)):
            if type(number) is not int or not 0 <= number < 1 << 64:
                raise _invalid(name, number)
        if type(trouble) is not str:
            raise _invalid("trouble", trouble)
        return cls(clock, received, sent, printable(trouble, _MOST_SAID))  # type: ignore[arg-type]


def _invalid(name: str, value: Any) -> InvalidEnvelope:
    return InvalidEnvelope(f"The broker's HEARTBEAT cannot be followed: {name} is {repr(value)[:40]}.")
