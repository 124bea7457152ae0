"""A node whose agent scales: `python -m tests.network.scaled_node URL`, until stdin ends.

It says `true` when its first instance is up.
"""

from __future__ import annotations

import sys

from ether import Runtime, Scale
from tests.network.agents import Single

MOST = 3


def main() -> None:
    with Runtime.connect(sys.argv[1], name="scaled") as bus:
        bus.start_many(Single, scale=Scale(min=1, max=MOST, per=2, cooldown=1.0))
        print("true", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
