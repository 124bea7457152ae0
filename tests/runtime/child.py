"""A child process that only stays: `python -m tests.runtime.child NAME`, started by `ether.process.Process`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

from ether.process.parent_link import ParentLink, end


def main() -> None:
    folder = os.environ.get("CHILD_FOLDER")
    parent_link = ParentLink(
        on_orphaned=lambda request: Path(request["folder"], "orphaned").touch(),
        death_signal=int(os.environ.get("CHILD_DEATH_SIGNAL", "9")),
    )
    request = parent_link.request
    match request["does"]:
        case "stay":
            parent_link.ready(pid=os.getpid(), folder=folder, path=sys.path)
            threading.Event().wait()
        case "fail":
            parent_link.failed("invalid_spec", "not like this", "a traceback")
            sys.exit(2)
        case "print":
            sys.stdout.write("one\ntwo\nthr")
            sys.stderr.write("ee\n" + "x" * 100_000)
        case "hang":  # neither up nor failed, and deaf
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("deaf")
            threading.Event().wait()
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            parent_link.ready()
            threading.Event().wait()
        case "segfault":
            ctypes.string_at(0)
        case "read":
            parent_link.ready(rest=sys.stdin.read())
        case "linger":  # a thread that does not end
            threading.Thread(target=threading.Event().wait).start()
            end(7)


if __name__ == "__main__":
    main()
