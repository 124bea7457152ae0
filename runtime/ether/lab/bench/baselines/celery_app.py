"""The application of Celery's that its worker and its caller share: one task, with Redis as its broker and for its results."""

from __future__ import annotations

import os
from typing import Any, Final

from ether.lab.bench.baselines.caller import library

__all__ = ["REDIS", "app", "echo"]

REDIS: Final = "ETHER_BENCH_REDIS"
"""The variable of the environment with Redis' address."""
app: Any = library("celery").Celery("bench", broker=os.environ[REDIS], backend=os.environ[REDIS])


def _echo(body: Any) -> Any:
    return body


echo: Any = app.task(_echo, name="bench.echo")
