"""Bounds on results: what does not fit is left out from the least important end, and counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ether.review.scout.findings.finding import Finding, Severity

__all__ = ["bounded_findings", "fit", "shorten", "size_of", "table"]


def bounded_findings(findings: Iterable[Finding], limit: int) -> dict[str, Any]:
    """Findings as JSON, gravest first and at most `limit`, with counts of all of them.

    Returns:
        `counts` ({severity: number}) and `by_rule` ({rule: number}) of all findings, `findings`, and
        `findings_omitted`: how many are counted but not shown.
    """
    ranked = sorted(findings, key=lambda finding: finding.order)
    severities = Counter(finding.severity for finding in ranked)
    rules = Counter(finding.rule for finding in ranked)
    return {
        "counts": {severity.value: severities[severity] for severity in Severity},
        "by_rule": dict(sorted(rules.items(), key=lambda item: (-item[1], item[0]))),
        "findings": [finding.to_json() for finding in ranked[:limit]],
        "findings_omitted": max(0, len(ranked) - limit),
    }


def size_of(value: Any) -> int:
    """Bytes as JSON in UTF-8; an upper bound, for all practical data, of what msgpack makes of it."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def table(rows: Iterable[dict[str, Any]], limit: int) -> dict[str, Any]:
    """The first `limit` rows, with `total` and `omitted` beside them."""
    every = list(rows)
    return {"rows": every[:limit], "total": len(every), "omitted": max(0, len(every) - limit)}


def shorten(parts: Sequence[dict[str, Any]], whole: Any, limit: int) -> bool:
    """Leave the less grave half of the longest `findings` out, again and again, until the whole has at most `limit` bytes.

    Args:
        parts: in `whole`; how many are left out is added to `findings_omitted` of each.
        whole: JSON.
        limit: bytes.

    Returns:
        Whether it has so few; if not, no findings are left.
    """
    while size_of(whole) > limit:
        longest = max(parts, key=lambda one: len(one["findings"]), default=None)
        if not longest or not longest["findings"]:
            return False
        keep = len(longest["findings"]) // 2
        longest["findings_omitted"] += len(longest["findings"]) - keep
        longest["findings"] = longest["findings"][:keep]
    return True


def fit(result: dict[str, Any], limit: int) -> dict[str, Any]:
    """Shorten a result of `explore` until it has at most `limit` bytes; what is left out is counted in it.

    The longest list of findings is halved first; once no findings are left, notes go, then the tables.
    """
    if not shorten([*result["passes"].values()], result, limit):
        result["notes_omitted"] += len(result["notes"])
        result["notes"] = []
    if size_of(result) > limit:
        for one in result["passes"].values():
            one["data"] = {"omitted": f"The tables alone are over {limit:,} bytes."}
    return result
