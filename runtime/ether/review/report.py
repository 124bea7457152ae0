"""The report of a review as data: what `review.json` holds, and all that `review.md` shows.

    {schema, generated, summary, rules, top_findings, hot_files, directories, failures, limits}

`directories` has, for each, what every pass found; `failures` names the tasks that did not end COMPLETED;
`limits` says in sentences what was left out, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTarget
from ether.review.scout.files.words import plural
from ether_broker.envelope.status import Status

__all__ = ["SCHEMA", "build"]

SCHEMA: Final = "ether.review/2.0"
"""The form of the report; the first number grows when a field goes or changes its meaning."""

_SHOWN_NOTES: Final = 5
"""Notes of one task that `limits` quotes; the JSON of its directory has more."""


def build(
    outcomes: Sequence[Outcome],
    targets: Sequence[ReviewTarget],
    reduction: dict[str, Any],
    *,
    reduction_problem: str = "",
    generated: datetime | None = None,
    wall_seconds: float = 0.0,
    processes: int = 0,
) -> dict[str, Any]:
    """Put the report together.

    Args:
        outcomes: of all tasks.
        targets: the directories, in the order in which they are reported.
        reduction: what `scout.summarize_findings` gave.
        reduction_problem: why it was made here and not by an agent; empty when an agent made it.
        generated: when; now unless given.
        wall_seconds: how long the review took.
        processes: nodes that it ran on; 0 for this process only.
    """
    directories = [_directory(target, outcomes) for target in targets]
    failures = [_failure(outcome) for outcome in outcomes if not outcome.ok]
    if reduction_problem:
        failures.append({
            "directory": "all", "pass": "summary", "status": "FAILED_EXECUTION", "code": "reduction",
            "message": reduction_problem, "request_id": "",
        })  # fmt: skip
    return {
        "schema": SCHEMA,
        "generated": (generated or datetime.now(UTC)).isoformat(timespec="seconds"),
        "summary": {
            **_summary(outcomes, directories, reduction),
            "wall_seconds": round(wall_seconds, 3),
            "processes": processes,
        },
        "rules": reduction["by_rule"],
        "top_findings": reduction["top_findings"],
        "hot_files": reduction["hot_files"],
        "directories": directories,
        "failures": failures,
        "limits": _limits(outcomes, reduction),
    }


def _summary(
    outcomes: Sequence[Outcome], directories: Sequence[dict[str, Any]], reduction: dict[str, Any]
) -> dict[str, Any]:
    statuses = Counter(outcome.status for outcome in outcomes)
    return {
        "sentence": reduction["summary"],
        "directories": len(directories),
        "files": sum(directory["files"] for directory in directories),
        "lines": sum(directory["lines"] for directory in directories),
        "tasks": {
            "total": len(outcomes),
            "completed": statuses[Status.COMPLETED],
            "partial": statuses[Status.PARTIAL],
            "failed": sum(1 for outcome in outcomes if not outcome.has_result),
        },
        "findings": {"total": reduction["total_findings"], **reduction["counts"]},
        "cost_usd": round(sum(outcome.cost for outcome in outcomes), 6),
        "work_seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
    }


def _directory(target: ReviewTarget, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    mine = [outcome for outcome in outcomes if outcome.task.target == target]
    read = next((outcome.data for outcome in mine if outcome.has_result), {})
    return {
        "name": target.name,
        "path": str(target.path),
        "files": read.get("files_read", 0),
        "lines": read.get("lines", 0),
        "skipped": read.get("skipped", {}),
        "structure": read.get("structure", {}),
        "passes": {outcome.task.pass_name.value: _pass(outcome) for outcome in mine},
    }


def _pass(outcome: Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {
        "status": outcome.status.name,
        "agent": outcome.agent,
        "request_id": outcome.request_id,
        "attempt": outcome.attempt,
        "seconds": round(outcome.seconds, 3),
        "cost_usd": outcome.cost,
    }
    if not outcome.has_result:
        return {**told, "error": {"code": outcome.code, "message": outcome.message}}
    return {**told, **outcome.result, "notes": outcome.data["notes"], "notes_omitted": outcome.data["notes_omitted"]}


def _failure(outcome: Outcome) -> dict[str, Any]:
    return {
        "directory": outcome.task.target.name,
        "pass": outcome.task.pass_name.value,
        "status": outcome.status.name,
        "code": outcome.code,
        "message": outcome.reason,
        "request_id": outcome.request_id,
    }


def _limits(outcomes: Sequence[Outcome], reduction: dict[str, Any]) -> list[str]:
    """What the report does not show, each with where and how much; once, as each pass reads the files again."""
    told: list[str] = []
    for outcome in (outcome for outcome in outcomes if outcome.has_result):
        name, data = outcome.task.target.name, outcome.data
        if omitted := outcome.result["findings_omitted"]:
            label = f"{name}, {outcome.task.pass_name.value}"
            told.append(f"{label}: {plural(omitted, 'finding')} of the least grave are counted and not shown.")
        told += [f"{name}: {note}" for note in data["notes"][:_SHOWN_NOTES]]
        if more := len(data["notes"][_SHOWN_NOTES:]) + data["notes_omitted"]:
            told.append(f"{name}: {plural(more, 'further note')} in the JSON or past its bounds.")
        told += [f"{name}: {count:,} left out ({reason})." for reason, count in data["skipped"].items()]
    unseen = reduction["total_findings"] - reduction["findings_seen"]
    if unseen:
        told.append(f"The ranking rests on {reduction['findings_seen']:,} findings; {unseen:,} are only counted.")
    return list(dict.fromkeys(told))
