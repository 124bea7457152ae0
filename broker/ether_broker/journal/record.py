"""The record of one envelope, as readers of the journal see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ether_broker.envelope.status import INTERIM
from ether_broker.wire.frame import REQUEST_ID, Header, Kind, read_header

__all__ = ["Record", "is_outcome"]

_RESPONSE: Final = int(Kind.RESPONSE)


@dataclass(frozen=True, slots=True)
class Record:
    """An envelope of the journal with its number and its times."""

    number: int
    wall: float
    """Unix time at which it passed, by the broker's host."""
    clock: float
    """The same in seconds by the clock of the broker that wrote it, which starts again with each broker."""
    envelope: bytes
    """Byte for byte as it passed, large bodies restored."""

    @property
    def header(self) -> Header:
        """The header and the names, read again each time.

        Raises:
            MalformedFrame: the envelope is shorter than its own header says; a broker lets no such pass.
        """
        return read_header(self.envelope)


def is_outcome(envelope: bytes) -> bool:
    """Whether an envelope is a terminal RESPONSE, by the first two bytes of its header."""
    return len(envelope) >= REQUEST_ID.stop and envelope[0] == _RESPONSE and envelope[1] not in INTERIM
