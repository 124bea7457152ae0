"""The summary of a review's findings: its reduce step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import RULES

__all__ = ["Group", "summarise"]

_MAX_TOP: Final = 30
_ALIKE_INFO: Final = 3
"""Findings of one rule of the lowest severity among the top ones."""
_PLACES: Final = 3
"""Places named for each rule."""
_WEIGHTS: Final = {Severity.ERROR: 100, Severity.WARNING: 10, Severity.INFO: 1}
"""What a finding adds to the weight of its file."""


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one source, such as one directory under one pass."""

    source: str
    """Where they come from; it stands in front of their paths."""
    findings: tuple[Finding, ...] = ()
    """As `explore_directory` and `analyze_file` give them."""
    counts: dict[str, int] = field(default_factory=dict)
    """{severity: number} of all findings of the source; those in `findings` are counted if it is empty."""
    by_rule: dict[str, int] = field(default_factory=dict)
    """{rule: number}, likewise."""
    findings_omitted: int = 0
    """How many are counted there and not among `findings`; told by those who give them, and not used."""


def summarise(groups: Sequence[Group], top: int = _MAX_TOP) -> dict[str, Any]:
    """Bring findings of several sources together.

    Args:
        groups: what was found.
        top: findings and files named, each at most so many.

    Returns:
        A JSON object: `summary` (a sentence), `total_findings`, `counts` ({severity: number}), `by_rule`
        ([{rule, severity, count, why, fix, places}], the gravest and most frequent first), `top_findings` (with
        `source`), `hot_files` ([{source, path, findings, errors, warnings}]), and `findings_seen`: how many of
        the total the ranking rests on.
    """
    counts: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for group in groups:
        counts.update(group.counts or Counter(finding.severity.value for finding in group.findings))
        rules.update(group.by_rule or Counter(finding.rule for finding in group.findings))
    # What is equally grave and sure: bugs before documents and structure.
    ranked = sorted(
        ((finding, group.source) for group in groups for finding in group.findings),
        key=lambda pair: (*pair[0].order[:2], _is_no_bug(pair[0]), pair[1], *pair[0].order[2:]),
    )
    total = sum(counts.values())
    return {
        "summary": _sentence(counts, total),
        "total_findings": total,
        "findings_seen": len(ranked),
        "counts": {severity.value: counts[severity.value] for severity in Severity},
        "by_rule": _rule_rows(rules, ranked),
        "top_findings": [{"source": source, **finding.to_json()} for finding, source in _spread(ranked, top)],
        "hot_files": _hot_files(ranked, top),
    }


def _sentence(counts: Counter[str], total: int) -> str:
    if not total:
        return "Nothing was found."
    parts = ", ".join(plural(counts[severity.value], severity.value) for severity in Severity)
    return f"{plural(total, 'finding')}: {parts}."


def _is_no_bug(finding: Finding) -> bool:
    return finding.rule not in RULES or RULES[finding.rule].group != "bugs"


def _rule_rows(rules: Counter[str], ranked: list[tuple[Finding, str]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, count in rules.items():
        known = RULES.get(name)
        found = [(finding, source) for finding, source in ranked if finding.rule == name]  # the gravest first
        severity = found[0][0].severity if found else known.severity if known else Severity.INFO
        places = [{"source": source, "path": one.path, "line": one.line} for one, source in found[:_PLACES]]
        why, fix = (known.why, known.fix) if known else ("", "")
        rows.append({
            "rule": name, "severity": severity.value, "count": count, "why": why, "fix": fix, "places": places
        })  # fmt: skip
    return sorted(rows, key=lambda row: (Severity(row["severity"]).rank, -row["count"], row["rule"]))


def _spread(ranked: list[tuple[Finding, str]], top: int) -> list[tuple[Finding, str]]:
    """The first findings by rank, but few of each rule, so that a frequent one hides no other."""
    taken: Counter[tuple[str, Severity]] = Counter()
    chosen = []
    for finding, source in ranked:
        key = (finding.rule, finding.severity)
        taken[key] += 1
        if taken[key] <= (_ALIKE_INFO if finding.severity is Severity.INFO else max(_ALIKE_INFO, top // 3)):
            chosen.append((finding, source))
    return chosen[:top]


def _hot_files(ranked: list[tuple[Finding, str]], top: int) -> list[dict[str, Any]]:
    severities: dict[tuple[str, str], Counter[Severity]] = defaultdict(Counter)
    for finding, source in ranked:
        severities[source, finding.path][finding.severity] += 1
    weighed = sorted(
        severities.items(),
        key=lambda item: (-sum(_WEIGHTS[one] * count for one, count in item[1].items()), item[0]),
    )
    return [
        {
            "source": source,
            "path": path,
            "findings": sum(one.values()),
            "errors": one[Severity.ERROR],
            "warnings": one[Severity.WARNING],
        }
        for (source, path), one in weighed[:top]
    ]
