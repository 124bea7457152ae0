"""A report as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ether.lab.torture.report import Report, Spread
from ether_broker.text import one_line

__all__ = ["render"]

_SHOWN = 5


def render(report: Report) -> str:
    """The report for people: what broke first of all, then what it was found in."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    settings = report.settings
    yield f"{_verdict(report)}  seed {settings['seed']}, durability {settings['durability']}"
    if report.folder is not None:
        yield f"diaries in {report.folder}"
    for rule, count in Counter(violation.rule for violation in report.violations).items():
        yield f"\n{rule}: {count:,}"
        shown = [violation for violation in report.violations if violation.rule == rule][:_SHOWN]
        for violation in shown:
            yield f"  {one_line(violation.text)}{f' ({one_line(violation.id)})' if violation.id else ''}"
        if count > _SHOWN:
            yield f"  and {count - _SHOWN:,} more; -o json has all"
    yield from _table("outcomes", report.outcomes)
    yield from _table("strikes", report.strikes)
    yield ""
    yield f"delegations  {report.delegations:,} and {report.sub_delegations:,} sub-delegations in {report.seconds:.1f} s"
    yield f"runs         {report.runs:,}, of them {report.reruns:,} again after a lost node"
    yield f"observed     {report.messages:,} messages; {report.gaps:,} reported as missed"
    yield f"node killed to outcome at the caller     {_spread(report.node_recovery)}"
    yield f"broker killed to the first new outcome   {_spread(report.broker_recovery)}"
    yield f"broker up again to the same              {_spread(report.broker_reached)}"
    if settings.get("journal_faults"):
        yield f"disk well again to the first COMPLETED   {_spread(report.disk_recovery)}"


def _verdict(report: Report) -> str:
    return "no promise was broken" if report.ok else f"{len(report.violations):,} broken promises"


def _table(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield f"\n{title}"
    width = max(map(len, counts), default=0)
    for name, count in counts.items():
        yield f"  {one_line(name).ljust(width)}  {count:>7,}"


def _spread(spread: Spread) -> str:
    if spread.p50 is None or spread.highest is None:
        return "none"
    return f"p50 {spread.p50:.2f} s, max {spread.highest:.2f} s, of {spread.count:,}"
