"""The process that asks the actors or tasks of another library, of which each has a module beside this one.

None of these libraries keeps what the bus keeps: a ledger, deadlines, one outcome whatever dies, observers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ether.lab.harness.role import Info, Role, pipelined, serial
from ether.lab.harness.workload import body_of
from ether_broker.errors import MissingExtra

__all__ = ["Caller", "Echo", "library", "missing"]


def library(name: str) -> Any:
    """A module of a library.

    Raises:
        MissingExtra: the library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing(error.name or name) from None


def missing(what: str) -> MissingExtra:
    """The error of who lacks what a library needs."""
    return MissingExtra(f"{what} is not installed: `pip install 'agent-ether[peers]'`, or leave it out with --without.")


class Echo:
    """An actor that returns what it is given."""

    def reply(self, body: Any) -> Any:
        """Return it."""
        return body


class Caller(Role):
    """A process that asks what it has started."""

    def ask(self, body: Any) -> Callable[[], Any]:
        """Ask; returns what waits for the answer."""
        raise NotImplementedError

    def work(self, body: str, window: int, seconds: float, **_options: object) -> Info:
        """Ask for so many seconds with so many questions open."""
        asked = body_of(body)
        if window == 1:
            return serial(lambda: self.ask(asked)(), seconds)  # noqa: PLW0108  each asks anew
        return pipelined(lambda: self.ask(asked), window, seconds)
