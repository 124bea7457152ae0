"""`ether top` on a terminal: the whole screen, drawn about each second, until somebody presses q."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from ether.cli.common.output import seconds
from ether.cli.common.table import Column, drawn_table
from ether.cli.top.rates import Reading
from ether.text_io.terminal import console
from ether_broker.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


__all__ = ["draw", "show"]

_LEAVE: Final = frozenset(b"qQ\x03\x04")
"""q, Ctrl-C and Ctrl-D, as they come when the terminal sends keys at once."""
_COLOURS: Final = {"up": "green", "restarting": "yellow", "moving": "yellow", "draining": "yellow", "down": "red"}
_COLUMNS: Final = (
    *map(Column, ("agent", "node", "condition")),
    *(Column(name, right=True) for name in ("queued", "running", "rate/s", "done", "not done", "p50", "p99")),
)
_FRAME: Final = 7
"""Lines round the table of agents."""
_TITLE: Final = 500
"""Characters of what the title says at most; an error may quote anything."""


def show(
    first: Reading, read: Callable[[], Reading | str], interval: float, url: str, iterations: int | None
) -> None:  # fmt: skip
    """Draw readings until q is pressed, or so many times.

    Args:
        first: is drawn at once.
        read: gives another reading, or says why there is none.
        interval: seconds between two.
        url: the bus, for the title.
        iterations: of those after the first; None is until somebody leaves.
    """
    from rich.live import Live

    screen = console()
    with _keys() as pressed, Live(console=screen, screen=True, auto_refresh=False) as live:
        live.update(draw(first, url, screen.height), refresh=True)
        rounds = itertools.count() if iterations is None else range(iterations)
        for _ in rounds:
            if pressed(interval):
                return
            found = read()
            drawn = _title(url, found) if isinstance(found, str) else draw(found, url, screen.height)
            live.update(drawn, refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Take single keys; gives a function that waits so many seconds and says whether it was one to leave by."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda timeout: _is_leaving(descriptor, timeout)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _sleep(timeout: float) -> bool:
    sleep(timeout)
    return False


def _is_leaving(descriptor: int, timeout: float) -> bool:
    limit = monotonic() + timeout
    while select.select([descriptor], [], [], max(0.0, limit - monotonic()))[0]:
        pressed = os.read(descriptor, 64)
        if not pressed or not _LEAVE.isdisjoint(pressed):
            return True
    return False


def draw(reading: Reading, url: str, height: int) -> RenderableType:
    """One picture of the bus, for a screen of so many lines."""
    from rich.console import Group
    from rich.text import Text

    totals = (
        f"accepted {reading.accepted_rate:.1f}/s   ended {reading.ended_rate:.1f}/s   open {reading.open}   "
        f"queued {reading.queued}   dead letters {reading.dead_letters}"
    )
    outcomes = "   ".join(f"{name} {count}" for name, count in sorted(reading.outcomes.items())) or "none yet"
    places = max(1, height - _FRAME)
    lines: list[Any] = [
        _title(url, f"{len(reading.agents)} agents on {reading.nodes} nodes"),
        Text(totals),
        Text(printable(f"outcomes: {outcomes}")),
        Text(),
        _table(reading, places),
    ]
    if len(reading.agents) > places:
        lines.append(Text(f"and {len(reading.agents) - places} more", style="dim"))
    return Group(*lines)


def _title(url: str, text: str) -> Any:
    from rich.text import Text

    return Text.assemble(("ether top", "bold"), f"   {url}   {printable(text, _TITLE)}   ", ("q leaves", "dim"))


def _table(reading: Reading, places: int) -> Any:
    from rich.text import Text

    table = drawn_table(_COLUMNS, no_wrap=True)
    table.columns[0].max_width, table.columns[1].max_width = 32, 24
    for agent in reading.agents[:places]:
        table.add_row(
            Text(printable(agent.agent)),
            Text(printable(agent.node)),
            Text(printable(agent.condition), style=_COLOURS.get(agent.condition, "")),
            str(agent.queued),
            str(agent.running),
            f"{agent.rate:.1f}",
            str(agent.completed),
            str(agent.ended - agent.completed),
            seconds(agent.p50) or "-",
            seconds(agent.p99) or "-",
        )
    return table
