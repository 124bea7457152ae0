"""Dask: an actor in a worker process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ether.lab.bench.baselines.caller import Caller, Echo, library
from ether.lab.harness.role import Info

__all__ = ["DaskCaller"]


class DaskCaller(Caller):
    """A client of Dask's, which asks one actor."""

    def start(self) -> Info:
        """Start a scheduler, a worker and the actor.

        Raises:
            MissingExtra: distributed is not installed.
        """
        distributed = library("distributed")
        cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
        client = self.enter_context(distributed.Client(self.enter_context(cluster)))
        self._actor = client.submit(Echo, actor=True).result()
        return {}

    def ask(self, body: Any) -> Callable[[], Any]:
        """Call the actor."""
        result: Callable[[], Any] = self._actor.reply(body).result
        return result
