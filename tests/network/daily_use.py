"""A program on a host whose specialists are on another: `python -m tests.network.daily_use URL`.

It uses what a program reaches for first, says what it found as JSON, waits for a line on stdin, and does the rest.
"""

from __future__ import annotations

import json
import sys
import threading

from ether import Agent, Backoff, Event, Retry, Runtime, as_completed, on_event

ENTRIES = 5


class Reader(Agent):
    """Hears of the entries and of the ticks of the other host."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self.ticks = 0
        self.has_all = threading.Event()
        self.has_ticks = threading.Event()

    @on_event("ledger.entry")
    def note(self, event: Event) -> None:
        self.entries.append(event.data["n"])
        if len(self.entries) == ENTRIES:
            self.has_all.set()

    @on_event("ledger.tick")
    def tick(self, event: Event) -> None:
        self.ticks += 1
        if self.ticks == 2:
            self.has_ticks.set()


def _orders(bus: Runtime) -> list[str]:
    """The order in which an agent that is busy begins what waits: urgent work before what came earlier."""
    held = bus.delegate("ledger.hold", {"name": "held", "seconds": 1.0})
    for _ in held.stream():
        break  # it has begun
    waiting = [bus.delegate("ledger.hold", {"name": f"low {n}", "seconds": 0.01}, priority="low") for n in range(3)]
    waiting.append(bus.delegate("ledger.hold", {"name": "high", "seconds": 0.01}, priority="high"))
    return [handle.result().unwrap().data for handle in as_completed(waiting)]


def main() -> None:
    with Runtime.connect(sys.argv[1], name="program") as bus:
        reader = Reader()
        bus.start(lambda: reader, name="reader")
        for n in range(ENTRIES):
            bus.publish("ledger.entry", {"n": n}).result().unwrap()
        heard = reader.has_all.wait(20.0) and reader.has_ticks.wait(20.0)
        mapped = [outcome.unwrap().data for outcome in bus.map("ledger.double", [{"n": n} for n in range(50)])]
        holders = {name: handle.result().unwrap().data for name, handle in bus.broadcast("ledger.name").items()}
        print(json.dumps({
            "heard": heard, "entries": reader.entries, "mapped": mapped, "holders": holders, "order": _orders(bus),
            "total": bus.delegate("ledger.total").result().unwrap().data,
        }), flush=True)  # fmt: skip

        sys.stdin.readline()  # the ledger's node is killed by now
        retry = Retry(attempts=100, backoff=Backoff(initial=0.2, factor=1.0))
        again = bus.delegate("ledger.total", timeout=60.0, retry=retry).result().unwrap()
        print(json.dumps({"total": again.data, "attempt": again.attempt}), flush=True)


if __name__ == "__main__":
    main()
