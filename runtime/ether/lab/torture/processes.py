"""The processes of a campaign, each started under its name and started again when it dies.

    Cluster ── broker, node-1 … node-N       ProcessSupervisor ── delegator-1 …, observer-1 …

All carry a mark in their environment, by which the leak check finds them whoever their parent is by then.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self
from unittest import mock

from ether.cluster.cluster import Cluster
from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NodeSpec
from ether.lab.harness.leak_check import MARK
from ether.lab.torture.disk import Disk
from ether.lab.torture.fault_plan import BROKER, delegator_names, node_names, observer_names
from ether.lab.torture.settings import TortureSettings
from ether.process.process_supervisor import ProcessSpec, ProcessStatistics, ProcessSupervisor
from ether_actors.backoff import Backoff

__all__ = ["JOURNAL", "Processes"]

JOURNAL: Final = "journal.db"
"""The broker's journal, in the folder of the campaign."""
_DRAIN: Final = 2.0
_LEAVE: Final = 25.0
_START: Final = 90.0
_ENDLESS: Final = 1_000_000
_DOWN: Final = Backoff(initial=1.5, factor=1.0, maximum=1.5, jitter=1.0)
"""A process stays down for up to 1.5 s, as chance will have it."""


class Processes:
    """The processes of one campaign; a context manager.

    Args:
        settings: of the campaign.
        folder: where the processes write their logs.
        on_output: gets each line that one of them prints.
    """

    def __init__(self, settings: TortureSettings, folder: Path, on_output: Callable[[str, str], None]) -> None:
        self._settings = settings
        self._folder = folder
        self._on_output = on_output
        self._stack = contextlib.ExitStack()
        self._clients: ProcessSupervisor | None = None
        self._began = 0.0
        self.mark: str = uuid.uuid4().hex
        """The value of the mark."""
        self.disk: Disk | None = None
        """Under the journal, where that is to fail."""
        self.scratch: Path = Path()
        """A folder for what the processes may leave, such as the broker's socket; none of it may be left."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            scratch = tempfile.TemporaryDirectory(prefix="ether-torture-", ignore_cleanup_errors=True)
            self.scratch = Path(stack.enter_context(scratch))
            variables = {MARK: self.mark, "TMPDIR": str(self.scratch)}
            stack.enter_context(mock.patch.dict(os.environ, variables))  # which takes them back, too
            if self._settings.journal_faults:
                self.disk = stack.enter_context(Disk(self._folder, JOURNAL))
            self.cluster: Cluster = stack.enter_context(Cluster(self._spec(), on_output=self._on_output))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self) -> float:
        """Start the observers and the delegators; returns when the load began."""
        self._clients = clients = ProcessSupervisor(
            intensity=_ENDLESS, period=1.0, backoff=_DOWN, on_event=_ignore, on_output=self._on_output, on_failed=_ignore
        )  # fmt: skip
        clients.start()
        for kind, names, patience in (
            ("observer", observer_names(self._settings), _LEAVE), ("delegator", delegator_names(self._settings), _DRAIN),
        ):  # fmt: skip
            self._began = time.monotonic()
            for name in names:
                module, is_last = f"ether.lab.torture.{kind}", kind == "observer"
                clients.add(ProcessSpec(name, module, self._request(name), patience, _START, last=is_last))
            for name in names:
                clients.wait_up(name)
        return self._began

    def end(self, *, at_once: bool = False) -> None:
        """End the delegators, then the observers, then the cluster; what does not end is killed, or all of it `at_once`."""
        if self._clients is not None:
            (self._clients.kill if at_once else self._clients.stop)()
            self._clients.close()
            self._clients = None
        self.cluster.close(0.0 if at_once else None)

    def signal(self, name: str, number: int) -> int | None:
        """Send a signal to a process; returns its id, or None when it is between two lives."""
        where = self.cluster if name in {BROKER, *node_names(self._settings)} else self._clients
        return where.signal(name, number) if where is not None else None

    def statistics(self) -> list[ProcessStatistics]:
        """How each process stands."""
        clients = self._clients.statistics() if self._clients is not None else []
        return [*self.cluster.statistics(), *clients]

    def _spec(self) -> ClusterSpec:
        settings = self._settings
        bind = f"ipc://{self.scratch}/broker.sock" if settings.transport == "ipc" else "tcp://127.0.0.1:*"
        nodes = tuple(
            NodeSpec(name, tuple(
                AgentSpec(
                    f"ether.lab.torture.specialists:{kind}", f"{kind.lower()}-{name}",
                    kwargs={"folder": str(self._folder), "node": name},
                )
                for kind in ("ThreadWorker", "AsyncWorker")
            ))
            for name in node_names(settings)
        )  # fmt: skip
        path = self._folder / JOURNAL if self.disk is None else self.disk.journal
        journal = str(path) if settings.durability == "journal" else None
        return ClusterSpec(
            nodes, bind=bind, journal=journal, drain=_DRAIN, start_timeout=_START, log_level="warning",
            intensity=_ENDLESS, period=1.0, backoff=_DOWN,
        )  # fmt: skip

    def _request(self, name: str) -> Callable[[], dict[str, Any]]:
        settings = self._settings
        names = delegator_names(settings)
        share, rest = divmod(settings.delegations, len(names))
        number = names.index(name) if name in names else len(names)
        return lambda: {
            "url": self.cluster.url, "name": name, "folder": str(self._folder), "began": self._began, "seed": settings.seed,
            "durability": settings.durability, "share": share + (number < rest),
            "rate": settings.delegations / len(names) / settings.seconds,
        }  # fmt: skip


def _ignore(*_: object) -> None:
    pass
