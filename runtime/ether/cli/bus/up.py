"""`ether up`, `ether reload` and `ether node`: run a bus, change it while it runs, and join one with agents."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ether.cli.common.bus_options import BusOptions
from ether.cli.common.connection import wait_for
from ether.cli.common.exit_code import ExitCode
from ether.cli.common.listening import is_listening, others
from ether.cli.common.options import SettingsOptions, with_options
from ether.cli.common.output import Output
from ether.cluster.cluster_spec import DRAIN, ClusterSpec, agent_specs
from ether.cluster.file.file_schema import ClusterSection
from ether_broker.errors import AddressInUse, BrokerUnavailable, UsageError
from ether_broker.transport.endpoint import default_endpoint

__all__ = ["node", "reload", "up"]

_CLUSTER: Final = SettingsOptions(
    ClusterSection, "name", "bind", "advertise", "drain", "durability", "journal", before="the file's, or "
)


@with_options
def up(
    *,
    what: Annotated[
        list[str], typer.Argument(metavar="FILE|MODULE:CLASS...", help="A cluster file, or the agents themselves.")
    ],
    cluster: Annotated[dict[str, Any], _CLUSTER],
    nodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes, each with these agents.", show_default="1")
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            envvar="ETHER_KEYS",
            help="The folder of keys: TCP is encrypted, and only keys that it allows get in.",
            show_default="the file's",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Bind an address that other machines reach, without keys.")
    ] = False,
    out: Output,
) -> None:
    """Run a bus on this machine, until SIGTERM or Ctrl-C: a broker with its supervisor, and nodes with agents.

    Prints the bus's URL on stdout once all agents are up. The first signal drains, a second one ends it at once.
    """
    overrides = {f"cluster.{name}": value for name, value in cluster.items()}
    overrides |= {"security.keys": keys, "security.insecure": insecure or None}
    spec, file = _spec(what, nodes, overrides)
    own = default_endpoint(spec.name)
    if spec.bind is None and is_listening(own):
        raise AddressInUse(
            f"A bus of yours named {spec.name!r} runs already, at {own}: use that one, stop it, or give this one another "
            "name (`ether up --name NAME …`, and --name NAME to the commands that ask it)."
        )
    from ether.cluster.cluster import up as run
    from ether.cluster.file.file_loader import load

    read = partial(load, overrides=overrides)
    raise typer.Exit(run(spec, on_event=out.note, on_up=lambda url: _print_url(out, url), file=file, read=read))


@with_options
def reload(
    *,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", help="The changed cluster file.", show_default="the one that the cluster has read last"
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            envvar="ETHER_CLUSTER__NAME",
            help="Of the cluster.",
            show_default="the file's, or default",
        ),
    ] = None,
    out: Output,
) -> None:
    """Have a cluster that `ether up` runs take its changed file: what has changed starts, drains and stops, nothing else does.

    Waits until that is done, and prints what was started, restarted, stopped and left unchanged. A file that is not valid, or
    that changes more than `nodes`, is refused as a whole. Exit code 1: something did not start.
    """
    from ether.cluster.file.file_loader import load
    from ether.cluster.reloading.reload_requests import request_reload

    if file is not None:
        name = load(file, {"cluster.name": name}).name
    name = name or "default"
    try:
        report = request_reload(name, None if file is None else str(Path(file).absolute()))
    except BrokerUnavailable as error:
        found = others(default_endpoint(name))
        there = f" These buses are there: {', '.join(found)}." if found else ""
        raise BrokerUnavailable(f"{error} Start it with `ether up FILE`, or name it with --name.{there}") from None
    out.value(report.as_dict(), "\n".join(report.lines()))
    if not report.is_complete:
        raise typer.Exit(ExitCode.FAILED)


@with_options
def node(
    *,
    agents: Annotated[list[str], typer.Argument(metavar="MODULE:CLASS...", help="The agents.")],
    name: Annotated[
        str | None, typer.Option(help="Of the node, unique on the bus.", show_default="host, process and chance")
    ] = None,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Handlers of plain methods at a time.")] = 4,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="For running work, when it is told to end.")
    ] = DRAIN,
    escalate: Annotated[
        bool, typer.Option("--escalate", help="End with exit code 70 when an agent has crashed too often.")
    ] = False,
    bus: BusOptions,
    out: Output,
) -> None:
    """Join a bus with agents, until SIGTERM or Ctrl-C; the bus may be on another machine.

    Prints the bus's URL on stdout once the agents are up. The first signal drains, a second one ends it at once.
    """
    from ether.cli.common.agent_loader import load_agent
    from ether.cluster.node_main import serve

    for text in agents:
        load_agent(text)
    code = serve(
        wait_for(bus, bus.wait),
        [replace(spec, escalate=escalate) for spec in agent_specs(agents)],
        name=name,
        threads=threads,
        drain=drain,
        on_event=out.note,
        on_up=lambda url: _print_url(out, url),
        keys=bus.keys,
        server_key=bus.server_key,
    )
    raise typer.Exit(code)


def _spec(what: Sequence[str], nodes: int | None, overrides: Mapping[str, Any]) -> tuple[ClusterSpec, str | None]:
    """The cluster of a command line, and its file, if it has one.

    Options count more than the environment, and that more than the file.

    Raises:
        UsageError: a file and agents, or two files; or a file and `--nodes`.
        InvalidSpec, InvalidEndpoint: the file, a variable or an option says what cannot be.
    """
    from ether.cluster.file.file_loader import load, of_agents

    files = [word for word in what if ":" not in word or Path(word).suffix in {".yaml", ".yml"}]
    if not files:
        return of_agents(what, nodes or 1, overrides), None
    if len(what) > 1:
        raise UsageError(f"{files[0]} is a file, and says everything: name it alone, or agents as module:Class.")
    if ":" not in files[0] and not Path(files[0]).suffix and not Path(files[0]).exists():
        raise UsageError(f"{files[0]} is no file; an agent is module:Class, as in {files[0]}:Reader.")
    if nodes is not None:
        raise UsageError(f"--nodes goes with agents: {files[0]} says itself which nodes there are.")
    return load(files[0], overrides), str(Path(files[0]).absolute())


def _print_url(out: Output, url: str) -> None:
    """Print it, and go on where nobody reads it: the bus is there for others too."""
    with contextlib.suppress(OSError):
        out.value({"url": url}, url)
