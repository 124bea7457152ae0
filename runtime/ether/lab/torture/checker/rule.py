"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ether.lab.torture.history.history import Evidence

__all__ = ["Rule", "Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    rule: str
    """A stable word."""
    text: str
    """What, where and when."""
    id: str = ""
    """The delegation that it is about."""


Rule: TypeAlias = Callable[[Evidence], Iterable[Violation]]
