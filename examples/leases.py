"""Leases: of many agents that write one file, one is its writer at a time, and nothing that was written is lost.

8 lines by 8 writers
the artifact is what was sealed: True
ArtifactMismatch: the file was changed since
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ether import Agent, ArtifactMismatch, Response, Runtime, Task, capability


class Writer(Agent):
    """Adds a line to a file that others write too."""

    @capability("log.add")
    def add(self, file: str, line: str, task: Task) -> Response:
        """Read, change and replace the file, as its only writer meanwhile."""
        with task.lease(file, wait=10.0) as lease:
            before = lease.path.read_text() if lease.path.exists() else ""
            artifact = lease.write(f"{before}{line}\n")
        return task.respond(data=lease.token, artifacts=[artifact])


if __name__ == "__main__":
    with Runtime() as bus, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "log.txt")
        bus.start_many(Writer, 8)
        handles = [bus.delegate("log.add", {"file": str(file), "line": f"line {n}"}) for n in range(8)]
        responses = [handle.result().unwrap() for handle in handles]
        writers = {response.from_agent for response in responses}
        print(len(file.read_text().splitlines()), "lines by", len(writers), "writers")

        newest = max(responses, key=lambda response: int(response.data))  # tokens rise with each grant
        print("the artifact is what was sealed:", newest.artifacts[0].read() == file.read_bytes())
        file.write_text("changed by somebody without a lease")
        try:
            newest.verify()
        except ArtifactMismatch as error:
            print(f"{type(error).__name__}: the file was changed since")
