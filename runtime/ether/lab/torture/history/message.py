"""A message that passed the broker, as a diary has it; an observer and the checker write it the same way."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

from ether.lab.torture.history.outcome import mark_of
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import INTERIM
from ether_broker.errors import EtherError
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind, read_header

__all__ = ["Rolling", "digest_of", "passed"]


class Rolling:
    """The digest of all messages so far; the same as `JournalReader.digest` makes of the same numbers."""

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


def digest_of(envelope: bytes) -> str:
    """A short digest of an envelope's bytes."""
    return hashlib.sha256(envelope).hexdigest()[:16]


def passed(number: int, envelope: bytes) -> list[Any]:
    """A message in a diary: number, kind, request id, status, digest, and what else the checker asks of its kind.

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
    return [number, header.kind, header.request_id.hex(), header.status, digest_of(envelope), more]
