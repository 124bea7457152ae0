"""Options that several commands share, and how a command finds its output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

import typer

from ether.cli.common.completion import complete_agents, complete_capabilities, complete_endpoints
from ether.cli.common.discover_option import CONNECT, DISCOVER
from ether.cli.common.output import Format, Output
from ether_broker.transport.endpoint import IPC

__all__ = [
    "AgentArgument",
    "AgentClasses",
    "BudgetOption",
    "CapabilityArgument",
    "ConnectOption",
    "ContextOption",
    "FallbackOption",
    "FormatOption",
    "GlobalOptions",
    "KeysOption",
    "NameOption",
    "ObjectiveOption",
    "PairOption",
    "ParamsOption",
    "PermissionOption",
    "RequestIdOption",
    "ServerKeyOption",
    "StreamOption",
    "TimeoutOption",
    "WaitOption",
    "named",
    "output_of",
    "settings_of",
]

_BUS: Final = "Bus"

FormatOption = Annotated[
    Format | None,
    typer.Option("--format", "-o", help="How data is printed.", show_default="text", envvar="ETHER_FORMAT"),
]
ConnectOption = Annotated[
    str | None,
    typer.Option(
        CONNECT,
        DISCOVER,
        metavar="URL",
        envvar="ETHER_CONNECT",
        help="The bus, as tcp://HOST:PORT or ipc:///PATH; or --discover [NAME], which looks for it on the network.",
        show_default="this user's own, as `ether up` binds it",
        rich_help_panel=_BUS,
        autocompletion=complete_endpoints,
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="BUS",
        help="The bus that this user has started by `ether up --name BUS`; counts more than --connect.",
        rich_help_panel=_BUS,
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0.0,
        envvar="ETHER_WAIT",
        help="Wait so long for a bus that is not there yet; `exec` and `delegate` also for the agent.",
        rich_help_panel=_BUS,
    ),
]
KeysOption = Annotated[
    str | None,
    typer.Option(
        "--keys",
        metavar="DIR",
        envvar="ETHER_KEYS",
        help="The folder with our keys, for TCP; `ether keys` makes it.",
        rich_help_panel=_BUS,
    ),
]
ServerKeyOption = Annotated[
    str | None,
    typer.Option(
        "--server-key",
        metavar="KEY|FILE",
        envvar="ETHER_SERVER_KEY",
        help="The broker's public key; with commas between several.",
        show_default="the one in --keys",
        rich_help_panel=_BUS,
    ),
]
AgentClasses = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="MODULE:CLASS",
        help="Start this agent on a bus of the command's own, instead of connecting; several times for several.",
        rich_help_panel=_BUS,
    ),
]
AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", autocompletion=complete_agents)]
CapabilityArgument = Annotated[str, typer.Argument(metavar="CAPABILITY", autocompletion=complete_capabilities)]
PairOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", metavar="NAME=VALUE", help="A parameter; VALUE is JSON where it can be, and text else."
    ),
]
ParamsOption = Annotated[
    str | None,
    typer.Option("--params", metavar="JSON|@FILE|-", help="All parameters as a JSON object; `-` reads stdin."),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", help="To the deadline.", show_default="max_time_sec of --budget, or 60"
    ),
]
StreamOption = Annotated[bool, typer.Option("--stream", help="Show progress while it runs.")]
ObjectiveOption = Annotated[str, typer.Option("--objective", metavar="TEXT", help="The aim in words.")]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="JSON|@FILE|-", help="The context slice of the work."),
]


def named(name: str | None) -> str | None:
    """What `--connect` would be for this user's bus of that name; None for None."""
    return None if name is None else f"{IPC}{name}"


BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        metavar="LIMIT=NUMBER",
        help="What it may use: max_cost, max_tokens, max_time_sec or max_iterations; several times for several.",
    ),
]
PermissionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--permission",
        metavar="NAME=VALUE",
        help="What it may do, such as can_modify_files=false; several times for several.",
    ),
]
RequestIdOption = Annotated[
    str | None,
    typer.Option(
        "--request-id", metavar="UUID", help="Name this request: the same id later gets its outcome.",
        show_default="a new one",
    ),
]  # fmt: skip
FallbackOption = Annotated[
    bool, typer.Option("--fallback", help="Another may have it where AGENT is not there, does not take it, or leaves.")
]


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options that stand before every subcommand."""

    format: Format = Format.TEXT
    quiet: bool = False
    debug: bool = False


def settings_of(ctx: typer.Context) -> GlobalOptions:
    """The global options of a command's run."""
    found = ctx.find_object(GlobalOptions)
    return found if found is not None else GlobalOptions()


def output_of(ctx: typer.Context, output_format: Format | None = None) -> Output:
    """Where a command prints: its own `-o` counts more than the one before the command's name."""
    settings = settings_of(ctx)
    if output_format is not None:
        # An error is said in the format of the command, and the root's settings are where it looks.
        ctx.find_root().obj = settings = replace(settings, format=output_format)
    return Output(settings.format, verbose=not settings.quiet)
