"""What an observer's process runs: it writes down the number and the digest of every message that it is shown."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Final

from ether.lifeline import Lifeline, end
from ether.node_process import join
from ether.stopping import Stopping
from ether.torture.diary import Diary
from ether.torture.outcome import mark_of
from ether_actors.observer import Observer
from ether_broker.codec import read_response
from ether_broker.errors import EtherError
from ether_broker.payload import unpack
from ether_broker.status import Status
from ether_broker.tap import ReadBatch
from ether_broker.wire import Kind, read_header

__all__ = ["Witness", "digest_of", "main", "passed"]

_JOIN: Final = 60.0
_SETTLE: Final = 20.0
_RUNNING: Final = frozenset({Status.ACCEPTED, Status.PROGRESS})


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
    elif header.kind == Kind.RESPONSE and header.status not in _RUNNING:
        try:
            more = mark_of(read_response(header, envelope))
        except EtherError as error:
            more = error.code
    elif header.kind == Kind.EVENT:
        more = dict(unpack(envelope[header.body :])).get("event")
    return [number, header.kind, header.request_id.hex(), header.status, digest_of(envelope), more]


class Witness(Observer):
    """Writes down what it sees.

    Args:
        diary: of all lives of the process.
    """

    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def observe(self, batch: ReadBatch) -> None:
        """Write down a batch, and before it what was missed."""
        super().observe(batch)
        messages = [passed(number, envelope) for number, envelope in batch.envelopes]
        self._diary.write("batch", first=batch.first, next=batch.next, time=batch.time, messages=messages)

    def on_gap(self, first: int, last: int) -> None:
        """Write down what was missed."""
        self._diary.write("gap", first=first, last=last)


def main() -> None:
    """Observe as a child of a campaign; SIGINT is the end, when the delegators have left."""
    lifeline = Lifeline()
    request = lifeline.request
    diary = Diary(Path(request["folder"], "observed", f"{request['name']}.jsonl"))
    with Stopping(lambda number: os._exit(128 + number)) as stopping:
        bus = join(request["url"], request["name"], 2, 0.0, _JOIN)
        diary.write("life", since=0)
        witness = bus.observe(Witness(diary))
        lifeline.ready()
        reason = stopping.wait()
        if reason == "SIGINT":
            diary.write("settled", whole=bus.settle(witness, _SETTLE), next=witness.position)
        bus.close()
    end(0)


if __name__ == "__main__":
    main()
