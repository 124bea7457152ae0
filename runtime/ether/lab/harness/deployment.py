"""The processes of one contender, started in order and stopped in reverse."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self

from ether.lab.harness.peer import Peer
from ether.lab.harness.role import Info
from ether.lab.harness.sample import Sample

__all__ = ["SYSTEMS", "Deployment", "pinned"]

SYSTEMS: Final = {
    "raw": ("raw-worker", "raw-client"),
    "proxy": ("proxy", "proxy-worker", "raw-client"),
    "nats": ("nats-server", "nats-worker", "nats-client"),
    "ether": ("broker", "worker", "observer", "client"),
    "idle": ("broker", "host"),
    "filling": ("broker", "worker", "client", "host"),
    "crowd": ("crowd",),
    "restart": ("restarter",),
    "kill": ("killer",),
}
"""{system: roles of its processes, the one that takes the orders last}."""


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep this process on one core, and whatever it starts meanwhile; None leaves everything as it is."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Deployment:
    """One system running on the loopback; a context manager.

    Args:
        system: a key of `SYSTEMS`.
        transport: `tcp` or `ipc`; NATS speaks tcp only.
        options: for the processes, such as `agents`.
    """

    def __init__(self, system: str, transport: str, **options: Any) -> None:
        self.system = system
        self.peers: dict[str, Peer] = {}
        self._stack = contextlib.ExitStack()
        self._options: Info = {"transport": transport, **options}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ether-bench-"))
            options: Info = {**self._options, "folder": folder}
            for role in SYSTEMS[self.system]:
                peer = self.peers[role] = stack.enter_context(Peer(role, options))
                options.update(peer.info)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self._stack.close()

    @property
    def client(self) -> Peer:
        """The process that takes the orders."""
        return self.peers[SYSTEMS[self.system][-1]]

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that each process has used: {role: seconds}."""
        return {role: peer.cpu() for role, peer in self.peers.items()}

    def measure(self, **order: Any) -> Sample:
        """Have the client work, and read what everybody used meanwhile."""
        before = self.cpu()
        said = self.client.order(**order)
        used = {role: seconds - before[role] for role, seconds in self.cpu().items()}
        return Sample(
            count=said["count"], seconds=said["seconds"], cpu=used, p50=said.get("p50"), p99=said.get("p99")
        )  # fmt: skip
