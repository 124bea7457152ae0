"""A cluster: a broker and its nodes, each a process of its own on this machine; the face is `Cluster` and its specifications.

Users import from `ether` or from here.

May import: `cluster.file`, `cluster.reloading`, `errors`, `node`, `node.agents`, `process`, `runtime`,
`runtime_arguments`, `text_io`, `version`, the layers below.
Used by: `ether`, `cli.bus`, `cli.common`, `cluster.file`, `cluster.reloading`, `lab.bench.roles`, `lab.soak`, `lab.torture`,
`review`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ether.cluster.cluster import GAVE_UP, Cluster, up
    from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NodeSpec, ObserverSpec
    from ether.cluster.file.file_loader import load
    from ether.cluster.metrics_endpoint import MetricsSpec
    from ether.cluster.reloading.reload_report import ReloadReport

__all__ = [
    "GAVE_UP",
    "AgentSpec",
    "Cluster",
    "ClusterSpec",
    "MetricsSpec",
    "NodeSpec",
    "ObserverSpec",
    "ReloadReport",
    "load",
    "up",
]

_MODULES = {
    **dict.fromkeys(("GAVE_UP", "Cluster", "up"), "ether.cluster.cluster"),
    **dict.fromkeys(("AgentSpec", "ClusterSpec", "NodeSpec", "ObserverSpec"), "ether.cluster.cluster_spec"),
    "MetricsSpec": "ether.cluster.metrics_endpoint",
    "load": "ether.cluster.file.file_loader",
    "ReloadReport": "ether.cluster.reloading.reload_report",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: a broker's or a node's process needs neither (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ether.cluster' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List what is imported later too, for completion and documentation (PEP 562)."""
    return sorted({*globals(), *_MODULES})
