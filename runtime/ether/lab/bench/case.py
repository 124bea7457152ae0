"""A case: what is run and which figures come of it."""

from __future__ import annotations

from typing import Protocol

from ether.lab.bench.settings import BenchSettings
from ether.lab.report import Report

__all__ = ["Case"]


class Case(Protocol):
    """A benchmark that can be run by itself."""

    name: str
    """By which it is chosen."""
    about: str
    """One line for people."""
    systems: frozenset[str]
    """The systems that it starts."""

    def run(self, settings: BenchSettings) -> Report:
        """Start what is needed, measure, and stop it."""
