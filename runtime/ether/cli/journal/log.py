"""`ether log`: what passed the bus, from the journal; in a list, in full, and as it comes."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ether.cli.common.completion import complete_agents, complete_capabilities
from ether.cli.common.options import with_options
from ether.cli.common.output import Format, Output
from ether.cli.common.table import Column, Lines
from ether.cli.journal import maintenance
from ether.cli.journal.entry_details import cards
from ether.cli.journal.source import JournalOptions, complete_requests
from ether.cli.journal.timestamps import moment_text, parse_moment
from ether.text_io.terminal import is_drawn
from ether_broker.envelope.status import Status
from ether_broker.errors import UsageError
from ether_broker.name_hint import choice, nearest
from ether_broker.wire.frame import Kind

if TYPE_CHECKING:
    from ether.audit.entry import AuditEntry
    from ether.audit.filter import EntryFilter
    from ether.audit.trail import Trail

__all__ = ["group"]

_PAUSE: Final = 0.2
"""Seconds between two looks at a journal that is followed."""
_CHUNK: Final = 1000
"""Entries that are put into columns together."""
_KINDS: Final = {kind.name.lower(): kind for kind in (Kind.DELEGATION, Kind.RESPONSE, Kind.EVENT)}


def complete_statuses(incomplete: str) -> list[str]:
    """The names of the statuses, in the case that was begun with."""
    return [status.name.lower() if incomplete.islower() else status.name for status in Status]


def complete_kinds() -> list[str]:
    """The kinds of envelopes that a journal has."""
    return list(_KINDS)


group: typer.Typer = typer.Typer(
    help="List, show, follow and check what passed the bus, from its journal.", invoke_without_command=True
)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The filters of a list: those of different kinds have to fit all, those of one kind any."""

    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="From this agent, to it, or about it.", autocompletion=complete_agents),
    ] = None
    capability: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="About this capability, or one below it.", autocompletion=complete_capabilities
        ),
    ] = None
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="Responses of this status.", autocompletion=complete_statuses),
    ] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="delegation, response or event.", autocompletion=complete_kinds),
    ] = None
    event: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Events of this name, such as dead_letter.")
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this time on: 2026-11-22T10:30, 10:30, or 10m (ago).")
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")] = None
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also what the bus was asked about itself (`ether.*`).")
    ] = False

    def selection(self) -> EntryFilter:
        """What they select.

        Raises:
            UsageError: a status, a kind or a time is none.
        """
        from ether.audit.filter import EntryFilter, asks_for_queries

        statuses = {status.name: status for status in Status}
        always = EntryFilter()
        return EntryFilter(
            agents=frozenset(self.agent or ()),
            capabilities=tuple(self.capability or ()),
            statuses=frozenset(choice(name.upper(), statuses, "status") for name in self.status or ()),
            kinds=frozenset(choice(name.lower(), _KINDS, "kind") for name in self.kind or ()),
            events=frozenset(self.event or ()),
            since=always.since if self.since is None else parse_moment(self.since, "--since"),
            until=always.until if self.until is None else parse_moment(self.until, "--until"),
            queries=self.everything or asks_for_queries(self.capability or ()),
        )


@group.callback()
@with_options
def log(
    ctx: typer.Context,
    *,
    filters: Filters,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    source: JournalOptions,
    out: Output,
) -> None:
    """List what passed the bus, the newest last, from its journal; the bus need not run.

    Filters of different kinds have to fit all, of one kind any.
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = ctx.find_root().obj  # `-o` counts before the other command's name too
        _refuse_options(ctx)
        return
    wanted = filters.selection()
    if follow and filters.until is not None:
        raise UsageError("--until ends a list and --follow goes on with it: give one of them.")
    with source.opened(out) as trail:
        _list(trail, wanted, limit, out, follow=follow)


@group.command()
@with_options
def show(
    *,
    which: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A number of the list, or the begin of a request id.", autocompletion=complete_requests
        ),
    ],
    source: JournalOptions,
    out: Output,
) -> None:
    """Show a delegation whole: every envelope about it, with what is in them.

    ID is the number of any of them, the delegation's request id, or its begin. The number of an event that is about
    no delegation shows that event.
    """
    with source.opened(out) as trail:
        entries = trail.story(which)
    if out.is_text:
        out.value(None, cards(entries))
    else:
        out.rows((entry.whole() for entry in entries), ())


def _refuse_options(ctx: typer.Context) -> None:
    """Options of the list before the name of another command would be without effect.

    Raises:
        UsageError: there are some.
    """
    given = [
        f"--{name.replace('_', '-')}"
        for name in ctx.params
        if name != "output_format" and getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        msg = f"{', '.join(given)} before `{ctx.invoked_subcommand}` would do nothing: options stand behind the name."
        raise UsageError(msg)


def _list(trail: Trail, wanted: EntryFilter, limit: int, out: Output, *, follow: bool) -> None:
    last = trail.last
    page = trail.newest(wanted, limit)
    lines = Lines(_columns(trail), coloured="what")
    if out.format is Format.JSON and not follow:
        out.value([entry.row() for entry in page.entries])
        return
    with contextlib.suppress(KeyboardInterrupt) if follow else contextlib.nullcontext():
        _print(page.entries, lines, out)
        if page.left_out:
            out.note(f"{page.left_out} of the bus's own (ether.*) are left out; --all lists them")
        if follow:
            _follow(trail, wanted, last, lines, out)
    if not page.entries and not follow:
        out.note(f"nothing to list{_meant(trail, wanted)}")


def _meant(trail: Trail, wanted: EntryFilter) -> str:
    """What may be meant by agents and events that the journal has nothing of."""
    if not wanted.agents and not wanted.events:
        return ""
    agents, events = trail.newest_names()
    hints = [
        f": there is no {what} {name!r}.{nearest(name, known)}"
        for what, names, known in (("agent", wanted.agents, agents), ("event", wanted.events, events))
        for name in sorted(names - known)
    ]
    return "".join(hints)


def _follow(trail: Trail, wanted: EntryFilter, after: int, lines: Lines, out: Output) -> None:
    while True:
        last = trail.last
        if last == after:
            trail.check_place()
            time.sleep(_PAUSE)
            continue
        entries = trail.between(after, last, wanted)
        while chunk := list(itertools.islice(entries, _CHUNK)):
            _print(chunk, lines, out)
        after = last


def _print(entries: Sequence[AuditEntry], lines: Lines, out: Output) -> None:
    if out.is_text:
        lines.add(entries)
    else:  # what goes on is never one document
        Output(Format.JSONL).rows((entry.row() for entry in entries), ())


def _columns(trail: Trail) -> Sequence[Column]:
    is_short = is_drawn(sys.stdout)

    return (
        Column("number", lambda entry: entry.number, right=True),
        Column("time", lambda entry: moment_text(entry.wall, now=time.time() if is_short else None)),
        Column("what", lambda entry: entry.what),
        Column("from", lambda entry: entry.from_agent),
        Column("to", lambda entry: entry.to_agent),
        Column("capability", lambda entry: entry.about_capability),
        Column("request", lambda entry: None if entry.about is None else trail.short(entry.about)),
        Column("summary", lambda entry: entry.summary),
    )


for _command in (maintenance.verify, maintenance.gc):
    group.command()(_command)
