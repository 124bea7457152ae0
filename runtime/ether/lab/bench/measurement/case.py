"""A case: what is run and which figures come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ether.lab.bench.measurement.result import Figure, Row
from ether.lab.bench.measurement.settings import Settings

__all__ = ["Case", "Findings"]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a case found."""

    figures: tuple[Figure, ...]
    rows: tuple[Row, ...] = ()


class Case(Protocol):
    """Something that can be measured by itself."""

    name: str
    """By which it is chosen."""
    about: str
    """One line for people."""
    systems: frozenset[str]
    """The systems that it starts."""

    def run(self, settings: Settings) -> Findings:
        """Start what is needed, measure, and stop it."""
