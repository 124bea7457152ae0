"""A message that passed the broker, and an outcome, as a log has them; whoever writes them does so in the same way."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from ether.lab.torture.history.log import LogWriter
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import INTERIM
from ether_broker.errors import EtherError
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind, read_header

__all__ = ["Message", "Rolling", "mark_of", "note_outcome", "passed"]


class Message(NamedTuple):
    """A message that passed the broker, as a log or the journal has it."""

    number: int
    kind: int
    id: str
    """Of the delegation, hexadecimal."""
    status: int
    digest: str
    """Of all its bytes."""
    more: Any
    """A delegation's deadline by the broker's clock, an outcome's mark, an event's name."""
    at: float
    """When it passed, by the broker's clock, which on one machine is everybody's."""

    @property
    def is_outcome(self) -> bool:
        """Whether it ends a delegation."""
        return self.kind == Kind.RESPONSE and self.status not in INTERIM


class Rolling:
    """A running digest of all messages so far; the same as `JournalReader.digest` makes of the same numbers."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b()

    def add(self, envelopes: Iterable[bytes]) -> None:
        """Go on with these."""
        for envelope in envelopes:
            self._digest.update(struct.pack(">I", len(envelope)))
            self._digest.update(envelope)

    @property
    def text(self) -> str:
        """As it stands."""
        return self._digest.hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def mark_of(response: Response) -> str:
    """A short digest of what the response says; equal for equal outcomes, whatever way they went."""
    parts = (
        response.request_id, response.status.name, response.from_agent, response.attempt, response.summary,
        response.error.code if response.error else "", response.data_payload.digest(),
    )  # fmt: skip
    return _digest(repr(parts).encode())


def note_outcome(log: LogWriter, name: str, response: Response, **more: object) -> None:
    """Write down as much of an outcome as tells whether two of them are the same.

    It is *ok* if the bus said it, *unknown* if the process of that `name` only gave up waiting. A link that was full is
    neither: what never left has certainly not been accepted.
    """
    code = response.error.code if response.error else ""
    event = "ok" if response.from_agent != name else "fail" if code == "link_full" else "unknown"
    known = {"status": response.status.name, "code": code, "attempt": response.attempt, "mark": mark_of(response)}
    log.write(event, id=response.request_id, **known, **more)


def passed(number: int, envelope: bytes, at: float) -> Message:
    """A message with what the checker asks of its kind."""
    header = read_header(envelope)
    more: object = None
    if header.kind == Kind.DELEGATION:
        more = header.deadline
    elif header.kind == Kind.RESPONSE and header.status not in INTERIM:
        try:
            more = mark_of(read_response(header, envelope))
        except EtherError as error:
            more = error.code
    elif header.kind == Kind.EVENT:
        more = dict(unpack(envelope[header.body :])).get("event")
    return Message(number, header.kind, header.request_id.hex(), header.status, _digest(envelope), more, at)
