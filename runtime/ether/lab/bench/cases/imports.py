"""The import benchmark: the time that `import ether` takes, beside the libraries that it cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from ether.lab.bench.case import case
from ether.lab.bench.rounds import interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import pinned
from ether.lab.report import Report, at_most, ratio

__all__ = ["imports"]

LIBRARIES = "import pykka, zmq, ormsgpack; from pydantic import BaseModel, TypeAdapter"
"""`import pydantic` alone loads next to nothing of it; the names are what makes it load."""
_TIMED = "import time; start = time.process_time(); {}; print(time.process_time() - start)"


@case("imports", "`import ether` beside its four libraries: time")
def imports(settings: BenchSettings) -> Report:
    """CPU time of ours against theirs, each in a fresh interpreter."""
    with pinned(settings.pin), tempfile.TemporaryDirectory(prefix="ether-bench-") as folder:
        turns = {statement: partial(_import, statement, folder) for statement in (LIBRARIES, "import ether")}
        interleave(turns, 1)  # the first compiles
        theirs, ours = interleave(turns, settings.rounds).values()
    return Report((ratio("imports", "time of import, ether / libraries", ours, theirs, at_most(1.3)),))


def _import(statement: str, compiled: str) -> float:
    """Time an import whose modules are compiled, as they are once installed, whatever the environment says."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _TIMED.format(statement)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
