"""Ray: an actor in a worker process."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from typing import Any

from ether.lab.bench.baselines.caller import Caller, Echo, library
from ether.lab.harness.role import Info

__all__ = ["RayCaller"]


class RayCaller(Caller):
    """A driver of Ray's, which asks one actor."""

    def start(self) -> Info:
        """Start Ray on this machine, and the actor.

        Raises:
            MissingExtra: Ray is not installed.
        """
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        ray = self._ray = library("ray")
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix="ether-ray-", ignore_cleanup_errors=True))
        ray.init(
            num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, _temp_dir=folder,
            object_store_memory=100 << 20,
        )  # fmt: skip
        self.callback(ray.shutdown)
        self._actor = ray.remote(Echo).remote()
        ray.get(self._actor.reply.remote(b""))
        return {}

    def ask(self, body: Any) -> Callable[[], Any]:
        """Call the actor."""
        reference = self._actor.reply.remote(body)
        return lambda: self._ray.get(reference)
