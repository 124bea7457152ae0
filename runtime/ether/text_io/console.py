"""A rich console on which only its own escapes reach the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ether_broker.text import printable_lines

__all__ = ["SafeConsole"]


class SafeConsole(Console):
    """A console that writes out what is not printable in any text that it draws; its own colours are no text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something that is drawn; every text that is printed passes here."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable_lines(text), style, control)
