"""A program on a host that has not the others' files: `python -m tests.network.other_machine URL FOLDER SIZE`.

It has a file made in the folder on another host and reads it, has one of its own read there, and says what it found, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

from ether import Runtime


def main() -> None:
    url, folder, size = sys.argv[1:]
    with Runtime.connect(url, name="other") as bus:
        made = (
            bus.delegate("archive.make", {"path": f"{folder}/there", "size": int(size)}, timeout=60.0).result().unwrap()
        )
        artifact = made.artifacts[0]
        with artifact.open() as file:
            fetched = hashlib.sha256(file.read()).hexdigest()
        mine = Path(folder, "here")
        mine.write_bytes(os.urandom(int(size)))
        outcome = bus.delegate("archive.digest", {"file": bus.artifact(mine)}, timeout=60.0).result().unwrap()
        print(json.dumps({
            "is_here": Path(artifact.path).exists(), "fetched": fetched, "sealed": artifact.sha256, "read_there": outcome.data,
            "mine": hashlib.sha256(mine.read_bytes()).hexdigest(),
        }))  # fmt: skip


if __name__ == "__main__":
    main()
