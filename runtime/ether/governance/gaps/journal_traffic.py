"""The traffic that a journal shows, as gap scoring reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ether.governance.gaps.daily_traffic import DailyTraffic
from ether.governance.gaps.outcomes import Outcome
from ether_broker.envelope.names import BUS_PREFIX
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import BY_CODE, Status
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import Kind, read_header

__all__ = ["journal_outcomes", "journal_traffic"]

_DAY: Final = 86_400.0
_BUS: Final = "ether"
_NOBODY: Final = frozenset({"no_holder", "unknown_agent"})
"""Codes of a refusal as nobody had the capability, or nobody had the name that it was asked for by."""
_OWN: Final = BUS_PREFIX.decode()
_EVENT, _DELEGATION, _RESPONSE = int(Kind.EVENT), int(Kind.DELEGATION), int(Kind.RESPONSE)


def journal_traffic(reader: JournalReader) -> DailyTraffic:
    """The daily traffic of a journal, with what its agents have declared.

    Raises:
        JournalCorrupt, JournalUnavailable: it cannot be read.
    """
    manifests = _Manifests()
    traffic = DailyTraffic(journal_outcomes(reader, manifests))
    traffic.declared |= manifests.declared
    return traffic


def journal_outcomes(reader: JournalReader, manifests: _Manifests | None = None) -> Iterator[Outcome]:
    """The outcomes of delegations, in their order; those of the bus's own capabilities (`ether.*`) are left out.

    The time of one is that from its first ACCEPTED, or from its DELEGATION if there was none, to its outcome, by the
    broker's wall clock. One whose DELEGATION is not in the journal any more has none.

    Raises:
        JournalCorrupt, JournalUnavailable: while iterating.
    """
    begun: dict[bytes, float] = {}
    manifests = manifests or _Manifests()
    for row in reader.headers():
        if row.kind == _EVENT:
            manifests.note(reader, row.number)
        elif row.kind == _DELEGATION:
            begun[row.request_id] = row.wall
        elif row.kind == _RESPONSE and (status := BY_CODE.get(row.status)) is not None:
            if not status.is_terminal:
                if status is Status.ACCEPTED:
                    begun[row.request_id] = row.wall
                continue
            since = begun.pop(row.request_id, None)
            if row.capability.startswith(_OWN) or row.target == _BUS:
                continue
            by_bus = row.source == _BUS and status is not Status.TIMEOUT
            is_held = not (by_bus and status is Status.REJECTED_CAPABILITY and _code(reader, row.number) in _NOBODY)
            pace = None
            weight = manifests.weight(row.source, row.capability)
            if since is not None and row.wall >= since and weight > 0:
                pace = (row.wall - since) / weight
            yield Outcome(int(row.wall // _DAY), row.capability, row.target, status, is_held, by_bus and is_held, pace)


class _Manifests:
    """Declarations of agents that came, and the weights in them."""

    def __init__(self) -> None:
        self.declared: set[str] = set()
        """Capabilities that some agent had."""
        self._weights: dict[str, dict[str, float]] = {}
        """{agent: {capability: latency weight}}"""

    def weight(self, agent: str, capability: str) -> float:
        """The weight of an agent for a capability: 1.0 if it has declared none."""
        return self._weights.get(agent, {}).get(capability, 1.0)

    def note(self, reader: JournalReader, number: int) -> None:
        """Note what an event says of an agent that came."""
        body = _body(reader, number)
        if body.get("event") != "agent_up":
            return
        if "like" in body:
            self._weights[body["agent"]] = self._weights.get(body["like"], {})
            return
        manifest: dict[str, Any] = unpack(body["manifest"])
        weights = {one["name"]: float(one.get("latency_weight", 1.0)) for one in manifest.get("capabilities", ())}
        self._weights[body["agent"]] = weights
        self.declared |= weights.keys()


def _code(reader: JournalReader, number: int) -> str | None:
    error = _body(reader, number).get("error")
    return error.get("code") if isinstance(error, dict) else None


def _body(reader: JournalReader, number: int) -> dict[str, Any]:
    record = reader.record(number)
    if record is None:  # it was removed meanwhile
        return {}
    body: dict[str, Any] = unpack(record.envelope[read_header(record.envelope).body :])
    return body
