"""The rule on processes: none ends unless struck, all come back, and an outcome blames a loss only where one was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.fault_plan import Action
from ether.lab.torture.history.history import Ending, Evidence

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
        text = f"{crash.name} (process {crash.pid}) ended at {crash.at:.3f}, and nobody had struck it"
        yield Violation("crashed", text)


def unfinished(evidence: Evidence) -> Iterator[Violation]:
    """Once the faults stop, every delegator gets through its share."""
    for name, lives in evidence.lives.items():
        if not any(lives[-1:]):
            yield Violation("unfinished", f"{name} did not get through its share")


def orphans(evidence: Evidence) -> Iterator[Violation]:
    """Nothing is left: no process, no socket, no file."""
    for kind, found in evidence.left.items():
        for what in found:
            yield Violation("orphan", f"left behind, of the {kind}: {what}")


def unexpected(evidence: Evidence) -> Iterator[Violation]:
    """No outcome but those that such work can have."""
    for ending in evidence.told:
        if ending.event in {"ok", "unknown"} and (ending.status, ending.code) not in _EXPECTED:
            yield Violation("unexpected", f"{ending.status} {ending.code}", ending.id)


def unfounded(evidence: Evidence) -> Iterator[Violation]:
    """What blames a loss is said where somebody was away for long enough, and nowhere else."""
    for ending in evidence.told:
        op = evidence.ops.get(ending.id)
        if op is None:
            continue
        near_deadline = op.at + op.timeout - _BACK
        if (ending.status, ending.code) == _UNWRITTEN:
            if not _was_troubled(evidence, near_deadline, ending):
                yield Violation("unfounded", "journal_unavailable, and nothing was wrong with the disk", ending.id)
        elif ending.code == "broker_lost" and evidence.has_journal:
            yield Violation("unfounded", "broker_lost, and there is a journal", ending.id)
        elif ending.code in _BLAMING:
            names = ("broker", "node") if ending.code == "node_lost" else ("broker", op.by)
            is_late = ending.code == "broker_unreachable"  # which is said near the deadline only
            if is_late and _was_troubled(evidence, near_deadline, ending):
                continue
            if not _was_away(evidence, near_deadline if is_late else op.at - _NOTICED, ending, names):
                yield Violation("unfounded", f"{ending.code}, and none of {', '.join(names)} had been away", ending.id)


def _was_away(evidence: Evidence, since: float, ending: Ending, names: tuple[str, ...]) -> bool:
    pause = _GRACE if ending.code == "broker_unreachable" else _SILENCE
    return any(
        outage.overlaps(since, ending.at)
        and outage.end - outage.begin > (pause if outage.action is Action.PAUSE else 0.0)
        for outage in evidence.outages.of(*names)
    )


def _was_troubled(evidence: Evidence, since: float, ending: Ending) -> bool:
    """Whether the broker had an outcome, and could not say so because its disk did not take it."""
    return any(fault.overlaps(since, ending.at) for fault in evidence.outages.disk)
