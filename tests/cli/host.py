"""A bus with the test agents in a process of its own, until stdin ends: `python -m tests.cli.host URL`."""

from __future__ import annotations

import sys

from ether import Runtime
from tests.cli.agents import Counter, Greeter


def main() -> None:
    with Runtime(bind=sys.argv[1], name="host", drain=0.0) as bus:
        bus.start(Greeter)
        bus.start(Counter)
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
