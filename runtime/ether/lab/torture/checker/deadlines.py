"""The rule on deadlines (G4): an outcome within 250 ms of them, TIMEOUT never before, expired work not started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.history.history import Evidence
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind

__all__ = ["early", "expired", "overdue"]

RULING_WINDOW: Final = 0.25
"""Seconds after the deadline in which the supervisor rules."""
_CLOCK: Final = 0.05
"""Seconds by which a node may take the broker's clock to be behind: its messages were under way."""
_MEMORY: Final = 20.0
"""Seconds for which a node may go by an old reading of the broker's clock."""


def overdue(evidence: Evidence) -> Iterator[Violation]:
    """By the broker's clock, an outcome passes within the window; time in which the broker was stopped does not count.

    So a TIMEOUT falls between the deadline and its end. What reaches the broker after its deadline ends there and then.
    """
    for message_log in evidence.message_logs:
        deadlines: dict[str, float] = {}
        accepted: dict[str, float] = {}
        for message in message_log.messages:
            if message.kind == Kind.DELEGATION:
                deadlines[message.id], accepted[message.id] = message.more, message.at
                continue
            deadline = deadlines.get(message.id, 0.0)
            if not message.is_outcome or not deadline:
                continue
            late = message.at - deadline
            if late < 0 and message.status == Status.TIMEOUT.code:
                yield Violation("early", f"TIMEOUT passed {-late:.3f} s before the deadline", message.id)
            due = max(deadline, accepted[message.id])
            allowed = RULING_WINDOW + evidence.outages.stopped(due, message.at, "broker", "disk")
            if message.at - due > allowed:
                said = Status.of_code(message.status)
                text = f"{said} passed {late:.3f} s after the deadline, {allowed:.3f} s allowed"
                yield Violation("overdue", text, message.id)


def early(evidence: Evidence) -> Iterator[Violation]:
    """By the delegator's own clock too, TIMEOUT does not come before the time that it gave."""
    for ending in evidence.answers:
        op = evidence.ops.get(ending.id)
        if op is None or op.parent or ending.status != "TIMEOUT":
            continue  # the deadline of a sub-delegation is its parent's, which only the handler knows
        short = op.at + op.timeout - ending.at
        allowed = _CLOCK + evidence.outages.stopped(op.at - _MEMORY, ending.at, "broker", op.by)
        if short > allowed:
            text = f"{op.by} was told TIMEOUT {short:.3f} s early, {allowed:.3f} s allowed"
            yield Violation("early", text, op.id)


def expired(evidence: Evidence) -> Iterator[Violation]:
    """No handler starts after the deadline."""
    for op in evidence.ops.values():
        for run in evidence.runs.get(op.id, ()):
            late = run.at - (op.at + op.timeout)
            allowed = RULING_WINDOW + evidence.outages.stopped(op.at - _MEMORY, run.at, "broker", run.node, op.by)
            if late > allowed:
                text = f"{op.capability} was started {late:.3f} s after the deadline on {run.node}"
                yield Violation("expired", text, op.id)
