"""A cluster with a journal: its broker is killed with work open, and the work ends as if nothing had happened.

counting begins
the broker is killed
COMPLETED {'counted': 10}
the broker was started 2 times
"""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path

from ether import Agent, Cluster, Runtime, Status, Task, capability


class Counter(Agent):
    """Counts slowly."""

    @capability("numbers.count", idempotent=True)
    def count(self, to: int, task: Task) -> dict[str, int]:
        """Take a tenth of a second for each number."""
        for number in range(1, to + 1):
            task.progress(number / to, data=number)
            time.sleep(0.1)
        return {"counted": to}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(nodes=1, agents=[Counter], journal=str(Path(folder, "bus.db")))
        with cluster, Runtime.connect(cluster.url) as bus:
            handle = bus.delegate("numbers.count", {"to": 10}, timeout=60)
            next(update for update in handle.stream() if update.status is Status.PROGRESS)
            print("counting begins")
            cluster.signal("broker", signal.SIGKILL)
            print("the broker is killed")
            response = handle.result()
            print(response.status, response.data)
            starts = {process.name: 1 + process.restarts for process in cluster.statistics()}
            print("the broker was started", starts["broker"], "times")
