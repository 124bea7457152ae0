"""A message that passed the broker, and an outcome, as a log has them; whoever writes them does so in the same way."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

from ether_broker.envelope.payload import unpack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import INTERIM
from ether_broker.errors import EtherError
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind, read_header

__all__ = ["Rolling", "mark_of", "outcome_fields", "passed"]


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


def outcome_fields(response: Response) -> dict[str, Any]:
    """What a log says of an outcome: as much as tells whether two of them are the same."""
    return {
        "status": response.status.name,
        "code": response.error.code if response.error else "",
        "attempt": response.attempt,
        "mark": mark_of(response),
    }


def passed(number: int, envelope: bytes) -> list[Any]:
    """A message in a log: number, kind, request id, status, digest, and what else the checker asks of its kind.

    That is the deadline of a delegation, the mark of an outcome, and what an event says happened.
    """
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
    return [number, header.kind, header.request_id.hex(), header.status, _digest(envelope), more]
