"""`ether gaps`: capabilities that are missing or do not suffice, from a journal; and how well the rules find known ones."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether.cli.journal.source import JournalOptions

if TYPE_CHECKING:
    from ether.governance.gaps.finding import GapFinding
    from ether.governance.gaps.scan import Scan

__all__ = ["group"]

_WEEK: Final = 7
"""Days of a journal from which a rule has its shorter window whole."""
_SECONDS: Final = 86_400

group: typer.Typer = typer.Typer(
    help="Find capabilities that are missing or do not suffice, from a journal.", no_args_is_help=True
)


@group.command()
@with_options
def scan(*, source: JournalOptions, out: Output) -> None:
    """Find the gaps that a journal shows: which capability, why, and what shows it; the bus need not run.

    A cause is told once it has held for days, so a new journal has none yet. SCORE is that of the specification's formula
    over the same days; the causes decide.
    """
    from ether.governance.gaps.formula import justification
    from ether.governance.gaps.journal_traffic import journal_traffic
    from ether.governance.gaps.scan import Scan
    from ether_broker.journal.sqlite.reader import JournalReader

    path = source.path()
    with JournalReader(path) as reader:
        traffic = journal_traffic(reader)
    found = Scan(traffic)
    rows = []
    for finding in sorted(found.open.values(), key=lambda one: -one.affected):
        why = justification(traffic, finding.capability, range(finding.first, finding.last + 1))
        rows.append(_row(finding) | {"score": why.score, "justification": why.model_dump()})
    if out.is_text:
        out.rows(rows, _COLUMNS)
        _notes(found, out)
    else:
        advice = [asdict(one) | {"sentence": one.sentence} for one in found.advice]
        out.value({"days": len(traffic.days), "gaps": rows, "advice": advice})


@group.command()
@with_options
def simulate(
    *,
    months: Annotated[int, typer.Option(metavar="N", min=1, help="Months of traffic.")] = 10,
    seed: Annotated[int, typer.Option(metavar="SEED", min=0, help="Of the first month; the others follow.")] = 0,
    out: Output,
) -> None:
    """Judge the rules by simulated months, whose gaps are known: what was found, missed and taken for one.

    Each month has 40 capabilities, of which some have a gap and some only look so; the same seed gives the same months.
    """
    from ether.governance.gaps.simulator.judgement import Judgement

    judged = Judgement.of(range(seed, seed + months))
    summary = judged.summary()
    text = "\n".join(f"{name.replace('_', ' ')}  {_figure(value)}" for name, value in summary.items())
    out.value(summary, text)


def _figure(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return f"{value:.3f}" if isinstance(value, float) else "unknown" if value is None else str(value)


def _notes(found: Scan, out: Output) -> None:
    for advice in found.advice:
        out.note(advice.sentence)
    days = len(found.traffic.days)
    if days < _WEEK:
        out.note(f"not enough yet: {days} of {_WEEK} days")


def _row(finding: GapFinding) -> dict[str, Any]:
    return asdict(finding) | {
        "cause": finding.cause.value,
        "opened": _date(finding.opened),
        "first": _date(finding.first),
        "last": _date(finding.last),
        "sentence": finding.sentence,
    }


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * _SECONDS, UTC).date().isoformat()


_COLUMNS: Final = (
    Column("capability", lambda row: row["capability"]),
    Column("cause", lambda row: row["cause"]),
    Column("since", lambda row: row["opened"]),
    Column("affected", lambda row: row["affected"], right=True),
    Column("asked", lambda row: row["asked"], right=True),
    Column("days", lambda row: row["days"], right=True),
    Column("delegators", lambda row: row["delegators"], right=True),
    Column("score", lambda row: f"{row['score']:.2f}", right=True),
)
