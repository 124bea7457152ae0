"""`ether publish`: publish an event, and print how many agents it was given to."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import typer

from ether.cli.bus.outcome import print_outcome
from ether.cli.bus.params import read_value
from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.connection import joined
from ether.cli.common.exit_code import code_of_status
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.runtime import Runtime
from ether_broker.errors import EtherError
from ether_broker.name_hint import nearest

__all__ = ["publish"]

_LOOKED_AT: Final = 1_000
"""Agents whose subscriptions a hint goes by."""


@with_options
def publish(
    *,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Such as orders.new.")],
    data: Annotated[
        str | None,
        typer.Argument(metavar="[JSON|TEXT|@FILE|-]", help="What the event says: JSON where it can be, and text else."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="That each subscriber has to handle it.", show_default="60"),
    ] = None,
    bus: NamedBusOptions,
    out: Output,
) -> None:
    """Publish an event to all agents that subscribe to TOPIC, and print how many they are.

    It ends when the bus has given them the event; what they do with it, `ether log --capability ether.event` shows.
    """
    value = None if data is None else read_value(data, "DATA")
    if isinstance(value, str) and value == data and value.startswith(("{", "[")) and not out.quiet:
        out.note(f"DATA is no JSON, so it is published as a text: {value:.60}")
    with joined(bus, bus.wait) as found:
        response = found.publish(topic, value, timeout=timeout).result()
        if response.ok and not out.quiet and not response.data["subscribers"] and not response.data["refused"]:
            out.note(_nobody(found, topic))
    print_outcome(response, out)
    raise typer.Exit(code_of_status(response.status))


def _nobody(bus: Runtime, topic: str) -> str:
    """That nobody subscribes to a topic, and to what somebody does, as far as it may be known."""
    try:
        known = {pattern for agent in islice(bus.iter_agents(), _LOOKED_AT) for pattern in agent["subscriptions"]}
    except EtherError:
        known = set()
    return f"Nobody subscribes to {topic!r}.{nearest(topic, sorted(known))}"
