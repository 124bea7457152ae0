"""`ether top`: the bus as it runs."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import asdict
from time import sleep
from typing import Annotated, Final

import typer

from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.connection import joined
from ether.cli.common.options import with_options
from ether.cli.common.output import Format, Output, seconds
from ether.cli.top.rates import Reading, Sample
from ether.runtime import Runtime
from ether.text_io.terminal import is_drawn, put
from ether_broker.errors import EtherError
from ether_broker.text import printable
from ether_broker.transport.endpoint import default_endpoint

__all__ = ["top"]

_LEAST: Final = 0.05
"""Seconds between two samples, at least: the supervisor answers them in its own turn."""


@with_options
def top(
    *,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=_LEAST, metavar="SECONDS", help="Between two.")
    ] = 1.0,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", "-n", min=1, help="Leave after so many readings.", show_default="none; 1 with -o json"
        ),
    ] = None,
    bus: NamedBusOptions,
    out: Output,
) -> None:
    """Watch the bus: agents, queues, rates, latencies, outcomes.

    On a terminal it takes the screen, and q or Ctrl-C leaves it. Elsewhere, and with `-o jsonl`, it prints a reading
    for each interval.
    """
    with joined(bus, bus.wait) as found:
        if out.is_text and is_drawn(sys.stdout):
            _on_screen(found, interval, iterations, bus.url or default_endpoint())
        elif out.is_text:
            for reading in _readings(found, interval, iterations):
                put(_text(reading))
        else:
            least = 1 if out.format is Format.JSON else None
            out.rows(map(asdict, _readings(found, interval, iterations or least)), ())


def _readings(bus: Runtime, interval: float, iterations: int | None) -> Iterator[Reading]:
    before = Sample.take(bus)
    for _ in itertools.count() if iterations is None else range(iterations):
        sleep(interval)
        after = Sample.take(bus)
        yield Reading.between(before, after)
        before = after


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


def _text(reading: Reading) -> str:
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
    return "\n".join(lines)


def _short(value: float | None) -> str:
    return (seconds(value) or "-").replace(" ", "")
