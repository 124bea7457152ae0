"""`ether top`: the bus as it runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from time import sleep
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ether.cli.common.connection import joined
from ether.cli.common.options import (
    ConnectOption,
    FormatOption,
    KeysOption,
    NameOption,
    ServerKeyOption,
    WaitOption,
    named,
    output_of,
)
from ether.cli.common.output import Format, Output, seconds
from ether.cli.top.rates import Reading, Sample
from ether.text_io.terminal import is_drawn
from ether_broker.errors import EtherError
from ether_broker.text import printable
from ether_broker.transport.endpoint import default_endpoint

if TYPE_CHECKING:
    from ether.runtime import Runtime

__all__ = ["add_to"]

_LEAST: Final = 0.05
"""Seconds between two samples, at least: the supervisor answers them in its own turn."""

Iterations = Annotated[
    int | None,
    typer.Option(
        "--iterations", "-n", min=1, help="Leave after so many readings.", show_default="none; 1 with -o json"
    ),
]
Interval = Annotated[float, typer.Option("--interval", "-i", min=_LEAST, metavar="SECONDS", help="Between two.")]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(top)


def top(
    ctx: typer.Context,
    *,
    interval: Interval = 1.0,
    iterations: Iterations = None,
    connect: ConnectOption = None,
    bus_name: NameOption = None,
    wait: WaitOption = 0.0,
    keys: KeysOption = None,
    server_key: ServerKeyOption = None,
    output_format: FormatOption = None,
) -> None:
    """Watch the bus: agents, queues, rates, latencies, outcomes.

    On a terminal it takes the screen, and q or Ctrl-C leaves it. Elsewhere, and with `-o jsonl`, it prints a reading
    for each interval.
    """
    out = output_of(ctx, output_format)
    with joined(named(bus_name) or connect, wait, keys=keys, server_key=server_key) as bus:
        if out.is_text and is_drawn(sys.stdout):
            _on_screen(bus, interval, iterations, named(bus_name) or connect or default_endpoint())
        elif out.format is Format.JSON:
            out.value([reading.as_row() for reading in _readings(bus, interval, iterations or 1)])
        else:
            for reading in _readings(bus, interval, iterations):
                _print(reading, out)


def _readings(bus: Runtime, interval: float, iterations: int | None) -> Iterator[Reading]:
    before = Sample.take(bus)
    done = 0
    while iterations is None or done < iterations:
        sleep(interval)
        after = Sample.take(bus)
        yield Reading.between(before, after)
        before = after
        done += 1


def _on_screen(bus: Runtime, interval: float, iterations: int | None, url: str) -> None:
    from ether.cli.top.screen import show

    before = Sample.take(bus)
    first = Reading.between(before, before)

    def read() -> Reading | str:
        nonlocal before
        try:
            after = Sample.take(bus)
        except EtherError as error:
            return f"no answer: {error}"
        reading, before = Reading.between(before, after), after
        return reading

    with contextlib.suppress(KeyboardInterrupt):
        show(first, read, interval, url, iterations)


def _print(reading: Reading, out: Output) -> None:
    if not out.is_text:
        out.value(reading.as_row())
        return
    outcomes = " ".join(printable(f"{name}={count}") for name, count in sorted(reading.outcomes.items()))
    lines = [
        f"accepted/s={reading.accepted_rate:.1f} ended/s={reading.ended_rate:.1f} open={reading.open} "
        f"queued={reading.queued} dead-letters={reading.dead_letters} agents={len(reading.agents)} "
        f"nodes={reading.nodes} {outcomes}".rstrip()
    ]
    lines += [
        printable(
            f"  {agent.agent} node={agent.node} {agent.condition} queued={agent.queued} running={agent.running} "
            f"rate/s={agent.rate:.1f} completed={agent.completed} other={agent.ended - agent.completed} "
            f"p50={_short(agent.p50)} p99={_short(agent.p99)}"
        )
        for agent in reading.agents
    ]
    out.value(None, "\n".join(lines))


def _short(value: float | None) -> str:
    return (seconds(value) or "-").replace(" ", "")
