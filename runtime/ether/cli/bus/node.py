"""`ether node`: join a bus with agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ether.cli.common.bus_options import BusOptions
from ether.cli.common.connection import wait_for
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cluster.cluster_spec import DRAIN, agent_specs

__all__ = ["node"]


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
        on_up=out.url,
        keys=bus.keys,
        server_key=bus.server_key,
    )
    raise typer.Exit(code)
