"""A broker's stand-in with a journal of its own: `python -m tests.cli.appender PATH` appends what stdin says.

Each line is the name of an event; `+` alone appends a thousand at once. It says `ready` at first, and after each line
the number that comes next, once what was appended is committed.
"""

from __future__ import annotations

import sys
import threading
import time

from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.frame import Kind, pack_envelope


def main() -> None:
    journal = SqliteJournal(sys.argv[1])
    committed = threading.Event()
    journal.on_commit = committed.set
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        names = [f"event_{place}" for place in range(1000)] if name == "+" else [name]
        bodies = [pack({"event": name, "node": "desk"}) for name in names]
        envelopes = [pack_envelope(Kind.EVENT, request_id=new_id(), source=b"ether", body=body) for body in bodies]
        ticket = journal.append(journal.next, time.monotonic(), time.time(), envelopes)
        while journal.committed < ticket:
            committed.wait(1.0)
            committed.clear()
        print(journal.next, flush=True)
    journal.close()


if __name__ == "__main__":
    main()
