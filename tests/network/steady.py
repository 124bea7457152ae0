"""A program that delegates without pause to an agent of another host: `python -m tests.network.steady URL`, until stdin ends.

It says each word of the agent that it had not heard before, as JSON, and at the end what became of all that it had sent.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter, deque

from ether import Handle, Runtime

OPEN = 16


def main() -> None:
    end = threading.Event()

    def read() -> None:
        sys.stdin.read()
        end.set()

    thread = threading.Thread(target=read)
    thread.start()
    statuses: Counter[str] = Counter()
    words: list[str] = []
    sent, refused = 0, list[str]()
    with Runtime.connect(sys.argv[1], name="steady") as bus:
        handles: deque[Handle] = deque()
        while handles or not end.is_set():
            while len(handles) < OPEN and not end.is_set():
                to = "desk" if sent % 2 else None
                handles.append(bus.delegate("desk.word", {"key": f"{sent}"}, to=to, timeout=30.0))
                sent += 1
            outcome = handles.popleft().result()
            statuses[outcome.status] += 1
            if not outcome.ok:
                refused.append(str(outcome.error))
            elif outcome.data not in words[-1:]:
                words.append(outcome.data)
                print(json.dumps(outcome.data), flush=True)
    thread.join()
    print(json.dumps({"sent": sent, "statuses": statuses, "refused": refused, "words": words}), flush=True)


if __name__ == "__main__":
    main()
