"""What the broker's process does about its own memory."""

from __future__ import annotations

import subprocess
import sys

from tests.support import child_environment

GROWS: str = """
import gc
from ether.cluster.broker_main import freeze_what_survives

looked_at = []
gc.callbacks.append(lambda phase, info: looked_at.append(len(gc.get_objects())) if phase == "start" else None)
freeze_what_survives()
kept = [[] for _ in range(1_000_000)]
print(max(looked_at), gc.get_freeze_count() > 900_000)

class Circle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("freed")

Circle()
gc.collect(0)
"""


def test_a_full_collection_looks_only_at_what_was_made_since_the_last_one():
    done = subprocess.run(
        [sys.executable, "-c", GROWS], env=child_environment(), capture_output=True, text=True, check=True, timeout=60
    )

    (looked_at, is_frozen), freed = done.stdout.splitlines()[0].split(), done.stdout.splitlines()[1:]
    assert (int(looked_at) < 200_000, is_frozen, freed) == (True, "True", ["freed"])
