"""Progress and cancellation: the delegator follows the work, and cancels it when it has seen enough.

10 %: page 1
20 %: page 2
30 %: page 3
CANCELLED by ether: cancelled: The delegator cancelled it.
the reader stopped before page 10: True
"""

from __future__ import annotations

import threading
import time

from ether import Agent, Runtime, Status, Task, capability

ENOUGH = 3


class Reader(Agent):
    """Reads a book, page by page."""

    def __init__(self, stopped: threading.Event) -> None:
        super().__init__()
        self.stopped = stopped

    @capability("book.read")
    def read(self, pages: int, task: Task) -> int:
        """Tell each page; return at once when nobody waits any more."""
        for page in range(1, pages + 1):
            if task.cancelled:
                self.stopped.set()
                return page
            task.progress(page / pages, f"page {page}", data=page)
            time.sleep(0.1)
        return pages


if __name__ == "__main__":
    stopped = threading.Event()
    with Runtime() as bus:
        bus.start(Reader, stopped)
        handle = bus.delegate("book.read", {"pages": 10}, timeout=30)
        for update in handle.stream():
            if update.status is Status.PROGRESS:
                print(f"{update.progress:.0%}: {update.summary}".replace("%", " %"))
                if update.data == ENOUGH:
                    handle.cancel()
        print(handle.result().explain())
        print("the reader stopped before page 10:", stopped.wait(5))
