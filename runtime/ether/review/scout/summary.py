"""Summarise findings: the reduce step of a review."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import RULES

__all__ = ["Group", "summarise"]

_MAX_TOP: Final = 30
_ALIKE_INFO: Final = 3
"""Findings of one rule of the lowest severity among the top ones."""
_PLACES: Final = 3
"""Places named for each recommendation."""
_WEIGHTS: Final = {Severity.ERROR: 100, Severity.WARNING: 10, Severity.INFO: 1}
"""What a finding adds to the weight of its file."""


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one source, such as one directory under one pass."""

    source: str
    """Where they come from; it stands in front of their paths."""
    findings: Sequence[Finding]
    counts: Mapping[str, int]
    """{severity: number} of all findings of the source, those that are not in `findings` included."""
    by_rule: Mapping[str, int]


def summarise(groups: Sequence[Group], top: int = _MAX_TOP) -> dict[str, Any]:
    """Bring findings of several sources together.

    Args:
        groups: what was found.
        top: findings, files and recommendations named, each at most so many.

    Returns:
        A JSON object: `summary` (a sentence), `total_findings`, `counts` ({severity: number}), `by_rule`
        ([{rule, severity, count, why, fix}], the gravest and most frequent first), `top_findings` (with
        `source`), `hot_files` ([{source, path, findings, errors, warnings}]), `recommendations` ([{rule,
        count, advice, places}]), and `findings_seen`: how many of the total the ranking rests on.
    """
    counts: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for group in groups:
        counts.update(group.counts)
        rules.update(group.by_rule)
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
        "recommendations": _recommendations(rules, ranked, top),
    }


def _sentence(counts: Counter[str], total: int) -> str:
    if not total:
        return "Nothing was found."
    parts = ", ".join(plural(counts[severity.value], severity.value) for severity in Severity)
    return f"{plural(total, 'finding')}: {parts}."


def _is_no_bug(finding: Finding) -> bool:
    return finding.rule not in RULES or RULES[finding.rule].group != "bugs"


def _severity(rule: str, ranked: list[tuple[Finding, str]]) -> Severity:
    """The gravest severity that a rule was told with; its own where no finding of it was passed on."""
    told = [finding.severity for finding, _ in ranked if finding.rule == rule]
    known = RULES.get(rule)
    return min(told, key=lambda one: one.rank, default=known.severity if known else Severity.INFO)


def _rule_rows(rules: Counter[str], ranked: list[tuple[Finding, str]]) -> list[dict[str, Any]]:
    rows: list[tuple[int, int, str, dict[str, Any]]] = []
    for name, count in rules.items():
        known = RULES.get(name)
        severity = _severity(name, ranked)
        why, fix = (known.why, known.fix) if known else ("", "")
        row = {"rule": name, "severity": severity.value, "count": count, "why": why, "fix": fix}
        rows.append((severity.rank, -count, name, row))
    return [row for *_, row in sorted(rows, key=lambda entry: entry[:3])]


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


def _recommendations(rules: Counter[str], ranked: list[tuple[Finding, str]], top: int) -> list[dict[str, Any]]:
    """What to do first: for each rule its fix and the first places, the gravest first."""
    by_rule: dict[str, list[tuple[Finding, str]]] = {}
    for finding, source in ranked:  # in order of gravity, and so are the rules
        by_rule.setdefault(finding.rule, []).append((finding, source))
    return [
        {
            "rule": name,
            "count": rules[name] or len(found),
            "why": RULES[name].why if name in RULES else "",
            "advice": found[0][0].fix,
            "places": [{"source": source, "path": one.path, "line": one.line} for one, source in found[:_PLACES]],
        }
        for name, found in list(by_rule.items())[:top]
    ]
