"""A report as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ether.lab.soak.report import Report

__all__ = ["render"]

_MIB = 1 << 20
_HEAD = ("process", "first MiB", "last MiB", "KiB/min", "in 10 min MiB", "grown MiB", "allowed MiB", "fds", "")


def render(report: Report) -> str:
    """The report for people: what is out of its bounds first of all."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield "flat" if not report.problems else f"not flat: {len(report.problems)}"
    yield from (f"  {problem}" for problem in report.problems)
    maximum = "" if report.maximum is None else f", the maximum being {report.maximum:,.0f}"
    yield f"\n{report.sent:,} delegations in {report.seconds:,.0f} s: {report.rate:,.0f} a second{maximum}"
    yield "outcomes   " + ", ".join(f"{name} {count:,}" for name, count in report.statuses.items())
    yield f"disturbed  a node stopped {report.stops} times, an observer still for {report.stalled:.0f} s"
    yield f"journal    {report.stored / _MIB:,.0f} MiB, {report.stored / max(report.sent, 1):,.0f} bytes a delegation"
    yield f"load       {report.load[0]:.1f}, {report.load[1]:.1f} and {report.load[2]:.1f} over 1, 5 and 15 minutes"
    yield ""
    yield from _table([_HEAD, *(_cells(size.plain()) for size in report.sizes)])
    yield f"\np99  {report.p99_first * 1e3:.1f} ms in the first third, {report.p99_last * 1e3:.1f} ms in the last"
    yield ""
    rows = [(f"{e.time:.0f}", f"{e.count:,}", f"{e.p50 * 1e3:.1f}", f"{e.p99 * 1e3:.1f}") for e in report.latencies]
    yield from _table([("until s", "outcomes", "p50 ms", "p99 ms"), *rows])


def _cells(size: dict[str, float]) -> tuple[str, ...]:
    return (
        str(size["process"]),
        f"{size['first_bytes'] / _MIB:.1f}",
        f"{size['last_bytes'] / _MIB:.1f}",
        f"{size['slope_kib_per_minute']:+.1f}",
        f"{size['slope_bytes_per_10_minutes'] / _MIB:+.2f}",
        f"{size['grown_bytes'] / _MIB:+.2f}",
        f"{size['allowed_bytes'] / _MIB:.1f}",
        f"{size['first_descriptors']:.0f} → {size['last_descriptors']:.0f}",
        "flat" if size["flat"] else "grows",
    )


def _table(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        first, *others = zip(line, widths, strict=True)
        yield "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()
