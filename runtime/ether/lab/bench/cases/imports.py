"""How long `import ether` takes, beside the libraries that it cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import interleave, ratio, row
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import pinned
from ether.lab.harness.sample import Sample

__all__ = ["Imports"]

LIBRARIES = "import pykka, zmq, ormsgpack; from pydantic import BaseModel, TypeAdapter"
"""`import pydantic` alone loads next to nothing of it; the names are what makes it load."""
_TIMED = "import time; start = time.process_time(); {}; print(time.process_time() - start)"


class Imports:
    """CPU time of imports, each in a fresh interpreter."""

    name = "imports"
    about = "`import ether` beside its four libraries: time"
    systems: frozenset[str] = frozenset[str]()

    def run(self, settings: Settings) -> Findings:
        """Time of ours against theirs."""
        with pinned(settings.pin), tempfile.TemporaryDirectory(prefix="ether-bench-") as folder:
            turns = {
                "libraries": partial(_import, LIBRARIES, folder),
                "ether": partial(_import, "import ether", folder),
            }
            for turn in turns.values():
                turn()  # the first compiles
            samples = interleave(turns, settings.rounds)
        times = {name: [sample.seconds for sample in found] for name, found in samples.items()}
        bound = Bound(1.5, at_least=False)
        return Findings(
            (ratio(self.name, "time of import, ether / libraries", times["ether"], times["libraries"], bound),),
            tuple(row(self.name, name, found) for name, found in samples.items()),
        )


def _import(statement: str, compiled: str) -> Sample:
    """Time an import whose modules are compiled, as they are once installed, whatever the environment says."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", _TIMED.format(statement)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return Sample(count=1, seconds=float(done.stdout))
