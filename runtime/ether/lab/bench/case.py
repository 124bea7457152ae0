"""A case: what is run and which figures come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ether.lab.bench.settings import BenchSettings
from ether.lab.report import Report

__all__ = ["Case", "case"]


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark that can be run by itself."""

    name: str
    """By which it is chosen."""
    about: str
    """One line for people."""
    systems: frozenset[str]
    """The systems that it starts."""
    run: Callable[[BenchSettings], Report]
    """Starts what is needed, measures, and stops it."""
    is_extra: bool = False
    """Whether it runs only when it is named, because it needs what few have installed."""


def case(name: str, about: str, *systems: str) -> Callable[[Callable[[BenchSettings], Report]], Case]:
    """Make a function the `run` of a case."""
    return lambda run: Case(name, about, frozenset(systems), run)
