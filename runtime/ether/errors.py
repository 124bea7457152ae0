"""The errors of the top layer.

    EtherError
    └── Unavailable
        └── ProcessFailed          a process of a cluster did not come up, or was given up

`ether_broker.errors` has the tree that this hangs in; `ether` exports both.
"""

from __future__ import annotations

from ether_broker.errors import Unavailable

__all__ = ["ProcessFailed"]


class ProcessFailed(Unavailable):
    """The error that a process of a cluster did not come up, or ended too often.

    Attributes:
        process: its name in the cluster.
        exit: its exit code; below zero the signal that killed it; None while it still ran.
        output: the last lines that it wrote.
    """

    code = "process_failed"

    def __init__(
        self, message: str, process: str = "", *, exit: int | None = None, output: tuple[str, ...] = ()  # noqa: A002
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.process = process
        self.exit = exit
        self.output = output
