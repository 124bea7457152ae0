"""The processes of one contender, started in order and stopped in reverse, and what is measured of them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ether.lab.harness.peer import Peer
from ether.lab.harness.procfs import cpu_seconds, tree_bytes
from ether.lab.harness.role import Info

__all__ = ["SYSTEMS", "Deployment", "Sample", "deployed", "pinned"]

SYSTEMS: Final = {
    "raw": ("raw-worker", "raw-client"),
    "proxy": ("proxy", "proxy-worker", "raw-client"),
    "nats": ("nats-server", "nats-worker", "nats-client"),
    "ray": ("ray",),
    "dask": ("dask",),
    "celery": ("celery",),
    "autogen": ("autogen",),
    "ether": ("broker", "worker", "observer", "client"),
    "idle": ("broker", "host"),
    "filling": ("broker", "worker", "client", "host"),
    "crowd": ("crowd",),
    "redis": ("redis",),
    "event-bus": ("event-bus",),
    "artifact": ("broker", "file-server", "file-client"),
    "one-process": ("one-process",),
    "restart": ("restarter",),
    "kill": ("killer",),
    "soak": ("observer", "laggard", "delegator"),
}
"""{system: roles of its processes, the one that takes the orders last}."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one contender in one round."""

    count: int
    """Round trips: a request and its response each."""
    seconds: float
    cpu: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds that each process used meanwhile, read from outside: {role: seconds}."""
    p50: float | None = None
    """Median seconds of a round trip; None unless they were made one after the other."""
    p99: float | None = None
    """99th percentile, likewise."""

    @property
    def rate(self) -> float:
        """Round trips a second."""
        return self.count / self.seconds

    def cpu_per_envelope(self, role: str) -> float:
        """CPU seconds of a process for each envelope; a round trip is two of them."""
        return self.cpu[role] / (2 * self.count) if self.count else float("inf")


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


@contextlib.contextmanager
def deployed(system: str, transport: str, **options: Any) -> Iterator[Deployment]:
    """Run one system on the loopback.

    Args:
        system: a key of `SYSTEMS`.
        transport: `tcp` or `ipc`; NATS speaks tcp only.
        options: for the processes, such as `agents`.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ether-lab-"))
        told: Info = {"transport": transport, **options, "folder": folder}
        peers: dict[str, Peer] = {}
        for role in SYSTEMS[system]:
            peers[role] = stack.enter_context(contextlib.closing(Peer(role, told)))
            told.update(peers[role].info)
        yield Deployment(peers)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The processes of one system under measurement."""

    peers: Mapping[str, Peer]
    """{role: the process that plays it}, in the order in which they were started."""

    @property
    def client(self) -> Peer:
        """The process that takes the orders."""
        return list(self.peers.values())[-1]

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that each process has used: {role: seconds}."""
        return {role: cpu_seconds(peer.pid) for role, peer in self.peers.items()}

    def memory(self) -> int:
        """Bytes that its processes, and those that they have started, hold in RAM."""
        return tree_bytes(peer.pid for peer in self.peers.values())

    def measure(self, **order: Any) -> Sample:
        """Have the client `work`, and read what everybody used meanwhile."""
        before = self.cpu()
        said = self.client.order("work", **order)
        used = {role: seconds - before[role] for role, seconds in self.cpu().items()}
        return Sample(said["count"], said["seconds"], used, said.get("p50"), said.get("p99"))
