"""`ether dead-letters`: look at what could change nothing any more, and send it again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from ether.cli.bus.outcome import print_outcome, record
from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.connection import joined
from ether.cli.common.exit_code import ExitCode, code_of_status
from ether.cli.common.options import TimeoutOption, with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether.dead_letter import DeadLetterView
from ether.runtime import Runtime
from ether_broker.dead_letters import Reason
from ether_broker.envelope.response import Response
from ether_broker.errors import UsageError

__all__ = ["group"]

_MOST: Final = 10_000
"""As many as a broker keeps."""

_EARLIER: Final = (
    "They are in the broker's memory: those from before its start, a journal has (ether log --event dead_letter)."
)

ReasonOption = Annotated[Reason | None, typer.Option(help="Only those that died of it.")]

group: typer.Typer = typer.Typer(help="List, show and redrive what could not be delivered.", no_args_is_help=True)


@group.command("list")
@with_options
def list_letters(
    *,
    reason: ReasonOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many.")] = 100,
    bus: NamedBusOptions,
    out: Output,
) -> None:
    """List dead letters, the newest first."""
    with joined(bus, bus.wait) as found:
        letters = found.dead_letters(limit=limit, reason=reason.value if reason else None)
    out.rows([letter.fields for letter in letters], _LETTERS)
    if not letters:
        out.note(_EARLIER)


@group.command()
@with_options
def show(*, number: Annotated[int, typer.Argument(metavar="NUMBER", min=1)], bus: NamedBusOptions, out: Output) -> None:
    """Show one dead letter whole, with the delegation that died if it is one."""
    with joined(bus, bus.wait) as found:
        out.value(_whole(found.dead_letter(number)))


@group.command()
@with_options
def redrive(
    *,
    numbers: Annotated[list[int] | None, typer.Argument(metavar="[NUMBER]...", min=1)] = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="All that can be, or all of a --reason.")] = False,
    reason: ReasonOption = None,
    timeout: TimeoutOption = None,
    bus: NamedBusOptions,
    out: Output,
) -> None:
    """Delegate the work of dead letters again, under new request ids, and wait for what becomes of it.

    A redriven letter is taken out; if its work dies again, that is a new letter.
    """
    if bool(numbers) == all_of_them or (reason and not all_of_them):
        msg = "Say which: numbers, as in `ether dead-letters redrive 3 4`, or --all with or without --reason."
        raise UsageError(msg)
    with joined(bus, bus.wait) as found:
        chosen = _checked(found, numbers) if numbers else _redrivable(found, reason)
        handles = [(number, found.redrive(number, timeout=timeout)) for number in chosen]
        responses = [(number, handle.result()) for number, handle in handles]
    if numbers and len(numbers) == 1:
        response = responses[0][1]
        print_outcome(response, out)
        raise typer.Exit(code_of_status(response.status))
    _print_all(responses, out)
    raise typer.Exit(ExitCode.OK if all(response.ok for _, response in responses) else ExitCode.FAILED)


def _checked(bus: Runtime, numbers: Sequence[int]) -> Sequence[int]:
    """The numbers, if each is of a letter that can be redriven; otherwise none of them is."""
    for number in numbers:
        letter = bus.dead_letter(number)
        letter.again(letter.request_id, None)
    return numbers


def _redrivable(bus: Runtime, reason: Reason | None) -> list[int]:
    letters = bus.dead_letters(limit=_MOST, reason=reason.value if reason else None)
    return sorted(letter.number for letter in letters if letter.can_redrive)


def _print_all(responses: Sequence[tuple[int, Response]], out: Output) -> None:
    rows = [{"number": number, **record(response)} for number, response in responses]
    out.rows(rows, _REDRIVEN)
    done = sum(response.ok for _, response in responses)
    out.note(f"{done} of {len(responses)} redriven and done")


def _whole(letter: DeadLetterView) -> dict[str, Any]:
    fields = {name: value for name, value in letter.fields.items() if name != "envelope"}
    if fields["kind"] == "DELEGATION":
        delegation = letter.delegation
        fields["delegation"] = delegation.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return fields


def _when(row: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(row["time"], tz=UTC).astimezone()
    return moment.isoformat(sep=" ", timespec="seconds")


_LETTERS: Final = (
    Column("number", right=True),
    Column("when", _when),
    Column("reason"),
    Column("kind", lambda row: row["kind"].lower()),
    Column("from", lambda row: row["from_agent"]),
    Column("to", lambda row: row["to_agent"]),
    Column("capability"),
    Column("redrive", lambda row: "yes" if row["can_redrive"] else "no"),
    Column("detail"),
)
_REDRIVEN: Final = (
    Column("number", right=True),
    Column("status"),
    Column("by", lambda row: row.get("from_agent")),
    Column("summary"),
)
