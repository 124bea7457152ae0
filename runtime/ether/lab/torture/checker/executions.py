"""The rule on executions (G3): what must not run twice does not, and what is said to be done was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.fault_plan import Action
from ether.lab.torture.history.history import Evidence

MAX_ATTEMPTS: Final = 5
"""As docs/guarantees.md has it."""
_LEFT: Final = 15.0
"""Seconds before an outcome in which an agent may have left for good, that of a node which the nemesis restarted: it left with
what waited to be run again (G3)."""

__all__ = ["contradicted", "given_up", "invented", "same_attempt", "twice", "unasked"]


def twice(evidence: Evidence) -> Iterator[Violation]:
    """A capability that is not idempotent is started at most once for a delegation."""
    for request_id, runs in evidence.runs.items():
        if len(runs) > 1 and not runs[0].capability.endswith("again"):
            where = ", ".join(f"{run.node} (process {run.pid}, attempt {run.attempt})" for run in runs)
            yield Violation("twice", f"{runs[0].capability} was started {len(runs)} times: {where}", request_id)


def same_attempt(evidence: Evidence) -> Iterator[Violation]:
    """Each further run of an idempotent capability has an attempt number of its own."""
    for request_id, runs in evidence.runs.items():
        for attempt, count in Counter(run.attempt for run in runs).items():
            if count > 1 and runs[0].capability.endswith("again"):
                text = f"{runs[0].capability} was started {count} times as attempt {attempt}"
                yield Violation("attempt", text, request_id)


def invented(evidence: Evidence) -> Iterator[Violation]:
    """COMPLETED means that a run of that attempt has returned."""
    for ending in evidence.answers:
        returned = [run for run in evidence.runs.get(ending.id, ()) if run.how == "returned"]
        if ending.status == "COMPLETED" and not returned:
            yield Violation("invented", "the delegator was told COMPLETED, and no run has returned", ending.id)


def contradicted(evidence: Evidence) -> Iterator[Violation]:
    """What was refused before any work, or expired before it began, has not been started."""
    for ending in evidence.answers:
        runs = evidence.runs.get(ending.id, ())
        is_unstarted = ending.code == "expired" or ending.status.startswith("REJECTED_")
        if is_unstarted and len(runs) == 1 and runs[0].attempt == ending.attempt:
            yield Violation("contradicted", f"{ending.status} {ending.code}, and it ran on {runs[0].node}", ending.id)


def given_up(evidence: Evidence) -> Iterator[Violation]:
    """An idempotent delegation is run again when its node is lost, until it has had its attempts, or its agent leaves."""
    restarts = [outage for outage in evidence.outages.of("node") if outage.action is Action.RESTART]
    for ending in evidence.told:
        op = evidence.ops.get(ending.id)
        if op is None or not op.idempotent or ending.code != "node_lost" or ending.attempt >= MAX_ATTEMPTS:
            continue
        if ending.attempt == 1 or not any(ending.at - _LEFT < outage.begin < ending.at for outage in restarts):
            yield Violation("given-up", f"node_lost after {ending.attempt} attempts, and it may run again", ending.id)


def unasked(evidence: Evidence) -> Iterator[Violation]:
    """Nothing runs that nobody has asked for."""
    for request_id, runs in evidence.runs.items():
        if request_id not in evidence.ops:
            text = f"{runs[0].capability} ran on {runs[0].node} and nobody had asked for it"
            yield Violation("unasked", text, request_id)
