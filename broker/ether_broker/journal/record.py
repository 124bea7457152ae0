"""One envelope as somebody who reads the journal sees it."""

from __future__ import annotations

from dataclasses import dataclass

from ether_broker.wire.frame import Header, read_header

__all__ = ["Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """An envelope with its number and its times."""

    number: int
    wall: float
    """Unix time at which it passed, by the broker's host."""
    clock: float
    """The same in seconds by the clock of the broker that wrote it, which begins anew with each broker."""
    envelope: bytes
    """Byte for byte as it passed, large bodies restored."""

    @property
    def header(self) -> Header:
        """The header and the names, read anew each time.

        Raises:
            MalformedFrame: the envelope is shorter than its own header says; a broker lets no such pass.
        """
        return read_header(self.envelope)
