"""Findings told once: of those that are alike the first, which names the lines of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import RULES

__all__ = ["once"]

_LINES: Final = 5
"""Lines of a file that are named beside the first one."""


def once(findings: Iterable[Finding]) -> list[Finding]:
    """Of the findings of one rule in one file that are no errors only the first, with the lines of the others."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in sorted(dict.fromkeys(findings), key=lambda one: one.order):
        place = (str(finding.line), str(finding.column)) if finding.severity is Severity.ERROR else ()
        alike.setdefault((finding.path, finding.rule, *place), []).append(finding)
    return [_with_others(first, others) for first, *others in alike.values()]


def _with_others(finding: Finding, others: list[Finding]) -> Finding:
    lines = sorted({one.line for one in others} - {finding.line})
    if not lines:
        return finding
    more = f" and {len(lines) - _LINES} more" if lines[_LINES:] else ""
    told = f"{'lines' if lines[1:] else 'line'} {', '.join(map(str, lines[:_LINES]))}{more}"
    what, colon, why = finding.message.rpartition(f": {RULES[finding.rule].why}")
    return replace(finding, message=f"{what} (also in {told}){colon}{why}")
