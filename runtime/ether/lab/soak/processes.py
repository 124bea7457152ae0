"""The processes of a soak."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ether.cluster.cluster import Cluster
from ether.lab.harness.peer import Peer
from ether.lab.harness.procfs import open_descriptors, resident_bytes
from ether.lab.harness.role import Info
from ether.lab.harness.workload import EchoAgent
from ether.lab.soak.settings import Settings

__all__ = ["STALLED", "Stage"]

STALLED: Final = "node-2"
"""The node that is stopped."""
_NODES: Final = 2


class Stage:
    """A cluster with a journal, and beside it a delegator and two observers; a context manager.

    The observer `laggard` is the one that stands still for a while.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = contextlib.ExitStack()
        self._stopped: int | None = None
        self.pids: dict[str, int] = {}
        """{process: its id}"""
        self.journal: Path = Path()

    def __enter__(self) -> Self:
        settings = self._settings
        with contextlib.ExitStack() as stack:
            own = stack.enter_context(tempfile.TemporaryDirectory(prefix="ether-soak-"))
            folder = settings.folder or Path(own)
            self.journal = folder / "journal.db"
            bind = "tcp://127.0.0.1:*" if settings.transport == "tcp" else None
            cluster = stack.enter_context(
                Cluster(_NODES, [EchoAgent], bind=bind, journal=str(self.journal), drain=0.0, on_event=settings.tell)
            )
            options: Info = {"endpoint": cluster.url}
            self.observer: Peer = stack.enter_context(Peer("observer", options))
            self.laggard: Peer = stack.enter_context(Peer("observer", options))
            self.delegator: Peer = stack.enter_context(Peer("pacer", options))
            self.pids = {entry.name: entry.pid for entry in cluster.statistics() if entry.pid is not None}
            peers = {"observer": self.observer, "laggard": self.laggard, "delegator": self.delegator}
            self.pids |= {name: peer.pid for name, peer in peers.items()}
            stack.callback(self.go_on)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self._stack.close()

    def stop_node(self) -> None:
        """Stop a node's process in its tracks."""
        self._stopped = self.pids[STALLED]
        os.kill(self._stopped, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on, if it is stopped."""
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """{process: (bytes in RAM, open descriptors)}.

        Raises:
            FileNotFoundError: a process has ended.
        """
        return {name: (resident_bytes(pid), open_descriptors(pid)) for name, pid in self.pids.items()}

    def stored(self) -> int:
        """Bytes of the journal's files."""
        return sum(file.stat().st_size for file in self.journal.parent.glob(f"{self.journal.name}*"))
