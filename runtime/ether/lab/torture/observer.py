"""The main function of an observer's process: logs the number and the digest of every message that it is shown.

With a journal, a life goes on with the number that the one before it waited for. Without one it begins with what passes now:
another broker may have begun to count from zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ether.cluster.node_main import join
from ether.lab.torture.history.log import LogWriter, read_log
from ether.lab.torture.history.message import Rolling, passed
from ether.process.parent_link import ParentLink, end
from ether.process.signals import Stopping
from ether.runtime import Runtime
from ether_actors.observers.observer import Observer
from ether_broker.tap import ReadBatch

__all__ = ["RecordingObserver", "main"]

_JOIN: Final = 60.0
_SETTLE: Final = 20.0


class RecordingObserver(Observer):
    """An observer that writes down each message that it sees.

    Args:
        log: of all lives of the process.
    """

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._rolling = Rolling()

    def observe(self, batch: ReadBatch) -> None:
        """Write down a batch, and before it what was missed."""
        if batch.first < self.position:
            self._rolling = Rolling()  # another broker, which counts from zero
        super().observe(batch)
        self._rolling.add(envelope for _, _, envelope in batch.envelopes)
        messages = [passed(number, envelope, time) for number, time, envelope in batch.envelopes]
        self._log.write("batch", first=batch.first, next=batch.next, rolling=self._rolling.text, messages=messages)

    def on_gap(self, first: int, last: int) -> None:
        """Write down what was missed."""
        self._log.write("gap", first=first, last=last)


def main() -> None:
    """Observe as a child of a campaign; SIGINT is the end, when the delegators have left."""
    parent_link = ParentLink()
    request = parent_link.request
    path = Path(request["folder"], "observed", f"{request['name']}.jsonl")
    seen = [line["next"] for line in read_log(path) if line["event"] == "batch"]
    since = 0 if request["durability"] == "memory" else max(seen, default=1)
    log = LogWriter(path)
    with Stopping() as stopping:
        bus = join(lambda: Runtime.connect(request["url"], name=request["name"], threads=2, drain=0.0, timeout=_JOIN))
        log.write("life", since=since)
        recorder = bus.observe(RecordingObserver(log), since=since)
        parent_link.ready()
        reason = stopping.wait()
        if reason == "SIGINT":
            log.write("settled", whole=bus.settle(recorder, _SETTLE), next=recorder.position)
        bus.close()
    end(0)


if __name__ == "__main__":
    main()
