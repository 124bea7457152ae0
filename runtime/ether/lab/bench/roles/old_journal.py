"""The journal of a broker that worked for long and was killed: written by the real journal, with envelopes as they pass."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from ether.lab.harness.workload import OPAQUE, EchoAgent, body_of, capability_of
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.payload import pack
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.codec import pack_outcome, pack_plain_delegation
from ether_broker.wire.frame import Kind, pack_envelope, read_header

__all__ = ["AGENTS", "OPEN", "write_past"]

AGENTS: Final = 100
"""Agents that are up in the end, on two nodes; as many came and went."""
OPEN: Final = 1_000
"""Delegations that have no outcome in the end, about."""
_STEP: Final = 64
"""Envelopes of one turn of the broker."""
_QUEUED: Final = 8 << 20
_ID: Final = slice(16, 32)
_PAUSE: Final = 0.001
_LIVES: Final = 3600.0


def write_past(path: Path, rows: int) -> int:
    """Write a journal of so many envelopes.

    Args:
        path: the file; it is made.
        rows: envelopes; at least those of the agents and of what is open.

    Returns:
        The delegations that have no outcome in it.
    """
    passed, open_ = islice(_passed(rows), rows), 0
    with closing(SqliteJournal(path)) as journal:
        while step := list(islice(passed, _STEP)):
            while journal.queued_bytes > _QUEUED:
                time.sleep(_PAUSE)
            journal.append(journal.next, time.monotonic(), time.time(), step)
            kinds = [envelope[0] for envelope in step]
            open_ += kinds.count(Kind.DELEGATION) - kinds.count(Kind.RESPONSE)
    return open_


def _passed(rows: int) -> Iterator[bytes]:
    """Agents that came and went, agents that stay, and then delegations, of which the last ones have no outcome."""
    chance = random.Random(rows)  # noqa: S311  the same past each time
    yield from _comings()
    still = min(OPEN, rows // 4)
    envelopes = [_asked_and_answered(f"echo-{number}".encode()) for number in range(AGENTS)]
    running: deque[tuple[bytes, bytes]] = deque()
    while True:
        request_id = new_id()
        asked, answered = chance.choice(envelopes)
        yield _about(request_id, asked)
        running.append((request_id, answered))
        if len(running) > still:
            yield _about(*running.popleft())


def _about(request_id: bytes, envelope: bytes) -> bytes:
    return b"".join((envelope[: _ID.start], request_id, envelope[_ID.stop :]))


def _asked_and_answered(name: bytes) -> tuple[bytes, bytes]:
    body = pack(body_of(OPAQUE))
    asked = pack_plain_delegation(
        new_id(), b"desk", name, capability_of(OPAQUE).encode(), body, timeout=_LIVES, timestamp=time.time(),
        deadline=time.monotonic() + _LIVES,
    )  # fmt: skip
    return asked, pack_outcome(read_header(asked), body, elapsed=0.01, timestamp=time.time())


def _comings() -> Iterator[bytes]:
    manifest, silent = EchoAgent.packed_manifest(), pack({"capabilities": []})
    lives = [new_id(), new_id()]
    yield _event("agent_up", agent="desk", node="desks", version="1", incarnation=new_id(), manifest=silent)
    for number in range(AGENTS):
        node = f"node-{number % 2}"
        came = {"node": node, "version": "1", "incarnation": lives[number % 2], "manifest": manifest}
        yield _event("agent_up", agent=f"early-{number}", **came)
        yield _event("agent_up", agent=f"echo-{number}", **came)
        yield _event("agent_down", agent=f"early-{number}", node=node, reason="left")


def _event(name: str, **fields: object) -> bytes:
    body = pack({"event": name, **fields})
    return pack_envelope(Kind.EVENT, request_id=new_id(), source=SUPERVISOR.encode(), body=body)
