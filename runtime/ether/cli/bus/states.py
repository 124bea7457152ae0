"""`ether states`: list and show the states that agents have saved, and forget those of agents that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.connection import joined
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether.runtime import Runtime
from ether_broker.envelope.payload import readable
from ether_broker.errors import UnknownAgent, UnknownJournal
from ether_broker.name_hint import nearest

__all__ = ["group"]

_PATIENCE: Final = 15.0
"""Seconds in which the bus has to answer."""

_JournalOption = Annotated[
    Path | None,
    typer.Option(
        "--journal", metavar="PATH", help="The journal's file of a cluster that does not run, instead of a bus."
    ),
]

group: typer.Typer = typer.Typer(
    help="List and show the states that agents have saved, and forget those of agents that are gone.",
    no_args_is_help=True,
)


@group.command("list")
@with_options
def list_states(*, journal: _JournalOption = None, bus: NamedBusOptions, out: Output) -> None:
    """List the agents that have saved a state, also those that are not on the bus."""
    with _found(bus, journal) as found:
        out.rows(found.states(), _STATES)


@group.command()
@with_options
def show(
    *,
    agent: Annotated[str, typer.Argument(metavar="AGENT")],
    journal: _JournalOption = None,
    bus: NamedBusOptions,
    out: Output,
) -> None:
    """Show what an agent has saved as its state, as JSON; for who may host the agent."""
    with _found(bus, journal) as found:
        saved = found.delegate("ether.state", {"agent": agent}).answer(_PATIENCE).unwrap().data
        if saved is None:
            raise _unknown(agent, found)
    out.value(readable(saved["state"]))


@group.command()
@with_options
def forget(
    *,
    agent: Annotated[str, typer.Argument(metavar="AGENT")],
    journal: _JournalOption = None,
    bus: NamedBusOptions,
    out: Output,
) -> None:
    """Forget the state of an agent that is not on the bus; one that starts under its name begins anew.

    With --journal, first end nodes that outlived their broker: the next change of an agent there is refused (`state_stale`).
    """
    with _found(bus, journal) as found:
        params = {"agent": agent, "expected": journal is not None}
        if not found.delegate("ether.forget-state", params).answer(_PATIENCE).unwrap().data["forgotten"]:
            raise _unknown(agent, found)
    out.note(f"the state of {agent} is forgotten")


def _found(bus: NamedBusOptions, journal: Path | None) -> Runtime:
    """The bus; or a runtime of its own on the journal of one that does not run.

    Raises:
        UnknownJournal: there is none at that path.
        EtherError: as `joined`.
    """
    if journal is None:
        return joined(bus, bus.wait)
    if not journal.is_file():
        raise UnknownJournal(f"There is no journal at {journal}.")
    return Runtime(journal=journal)


def _unknown(agent: str, bus: Runtime) -> UnknownAgent:
    names = [row["agent"] for row in bus.states()]
    return UnknownAgent(f"No agent {agent!r} has saved a state.{nearest(agent, names)}")


_STATES: Final = (
    Column("agent"),
    Column("version", right=True),
    Column("bytes", right=True),
    Column("number", right=True),
)
