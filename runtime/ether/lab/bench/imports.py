"""How long `import ether` takes, beside the libraries that it cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from ether.lab.bench.rounds import findings, interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import pinned
from ether.lab.harness.sample import Sample
from ether.lab.report import Report, at_most, ratio

__all__ = ["Imports"]

LIBRARIES = "import pykka, zmq, ormsgpack; from pydantic import BaseModel, TypeAdapter"
"""`import pydantic` alone loads next to nothing of it; the names are what makes it load."""
_TIMED = "import time; start = time.process_time(); {}; print(time.process_time() - start)"


class Imports:
    """CPU time of imports, each in a fresh interpreter."""

    name = "imports"
    about = "`import ether` beside its four libraries: time"
    systems: frozenset[str] = frozenset[str]()

    def run(self, settings: BenchSettings) -> Report:
        """Time of ours against theirs."""
        with pinned(settings.pin), tempfile.TemporaryDirectory(prefix="ether-bench-") as folder:
            statements = {"libraries": LIBRARIES, "ether": "import ether"}
            turns = {name: partial(_import, statement, folder) for name, statement in statements.items()}
            for turn in turns.values():
                turn()  # the first compiles
            samples = interleave(turns, settings.rounds)
        ours, theirs = ([sample.seconds for sample in samples[name]] for name in ("ether", "libraries"))
        figure = ratio(self.name, "time of import, ether / libraries", ours, theirs, at_most(1.5))
        return findings(self.name, [figure], samples)


def _import(statement: str, compiled: str) -> Sample:
    """Time an import whose modules are compiled, as they are once installed, whatever the environment says."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _TIMED.format(statement)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return Sample(count=1, seconds=float(done.stdout))
