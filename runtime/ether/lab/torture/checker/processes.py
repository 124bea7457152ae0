"""Processes: nobody ends unless struck, all come back, nothing is left; and an outcome blames a loss only where one was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ether.lab.torture.checker.rule import Violation
from ether.lab.torture.history.history import Ending, Evidence
from ether.lab.torture.plan.fault_plan import Action

__all__ = ["crashed", "orphans", "unexpected", "unfinished", "unfounded"]

_SILENCE: Final = 2.5
"""Seconds of a pause after which a node may be given up; the bus says 3, counted from its last heartbeat."""
_GRACE: Final = 1.5
"""Seconds of a pause over a deadline after which the outcome may be too late for who waits: 2 and a little less."""
_NOTICED: Final = 10.0
"""Seconds within which a loss is known to everybody whom it concerns."""
_BACK: Final = 4.0
"""Seconds that a delegator takes to find a broker that is up again, at most."""
_BLAMING: Final = frozenset({"node_lost", "broker_lost", "broker_unreachable"})
_UNWRITTEN: Final = "TIMEOUT", "journal_unavailable"
_EXPECTED: Final = frozenset({
    ("COMPLETED", ""), ("FAILED_EXECUTION", "exception"), ("FAILED_EXECUTION", "node_lost"),
    ("FAILED_EXECUTION", "broker_lost"), ("TIMEOUT", "deadline"), ("TIMEOUT", "expired"),
    ("TIMEOUT", "broker_unreachable"), ("CANCELLED", "cancelled"), ("CANCELLED", "parent_ended"), ("CANCELLED", "closed"),
    ("CANCELLED", ""), ("REJECTED_CAPABILITY", "no_holder"), ("REJECTED_CAPABILITY", "agent_down"),
    ("REJECTED_CAPABILITY", "agent_gone"), ("REJECTED_OVERLOAD", "mailbox_full"), ("REJECTED_OVERLOAD", "link_full"),
    ("REJECTED_OVERLOAD", "journal_unavailable"), _UNWRITTEN,
})  # fmt: skip
"""What can become of the work of a campaign: (status, code)."""


def crashed(evidence: Evidence) -> Iterator[Violation]:
    """A process ends because it was struck, and for no other reason."""
    for crash in evidence.outages.crashes:
        yield Violation(
            "crashed", f"{crash.name} (process {crash.pid}) ended at {crash.at:.3f}, and nobody had struck it"
        )


def unfinished(evidence: Evidence) -> Iterator[Violation]:
    """Once the faults stop, every delegator gets through its share."""
    for name, lives in evidence.lives.items():
        if not lives or not lives[-1].finished:
            yield Violation("unfinished", f"{name} did not get through its share")


def orphans(evidence: Evidence) -> Iterator[Violation]:
    """Nothing is left: no process, no socket, no file."""
    for kind, found in evidence.left.items():
        for what in found:
            yield Violation("orphan", f"left behind, of the {kind}: {what}")


def unexpected(evidence: Evidence) -> Iterator[Violation]:
    """No outcome but those that such work can have."""
    for request_id, endings in evidence.endings.items():
        for ending in endings:
            if ending.kind in {"ok", "unknown"} and (ending.status, ending.code) not in _EXPECTED:
                yield Violation("unexpected", f"{ending.status} {ending.code}", request_id)


def unfounded(evidence: Evidence) -> Iterator[Violation]:
    """What blames a loss is said where somebody was away for long enough, and nowhere else."""
    for request_id, endings in evidence.endings.items():
        op = evidence.ops.get(request_id)
        for ending in endings:
            if op is not None and (ending.status, ending.code) == _UNWRITTEN:
                if not _was_troubled(evidence, op.at + op.timeout - _BACK, ending):
                    yield Violation("unfounded", "journal_unavailable, and nothing was wrong with the disk", request_id)
                continue
            if op is None or ending.code not in _BLAMING:
                continue
            if ending.code == "broker_lost" and evidence.has_journal:
                yield Violation("unfounded", "broker_lost, and there is a journal", request_id)
                continue
            names = ("broker", "node") if ending.code == "node_lost" else ("broker", op.by)
            since = op.at - _NOTICED
            if ending.code == "broker_unreachable":  # which is said near the deadline only
                since = op.at + op.timeout - _BACK
            if ending.code == "broker_unreachable" and _was_troubled(evidence, since, ending):
                continue
            if not _was_away(evidence, since, ending, names):
                yield Violation("unfounded", f"{ending.code}, and none of {', '.join(names)} had been away", request_id)


def _was_away(evidence: Evidence, since: float, ending: Ending, names: tuple[str, ...]) -> bool:
    return any(
        outage.begin < ending.at
        and outage.end > since
        and outage.end - outage.begin > _shortest(outage.action, ending.code)
        for outage in evidence.outages.of(*names)
    )


def _was_troubled(evidence: Evidence, since: float, ending: Ending) -> bool:
    """Whether the broker had an outcome, and could not say so because its disk did not take it."""
    return any(fault.begin < ending.at and fault.end > since for fault in evidence.outages.disk)


def _shortest(action: Action, code: str) -> float:
    if action is not Action.PAUSE:
        return 0.0
    return _GRACE if code == "broker_unreachable" else _SILENCE
