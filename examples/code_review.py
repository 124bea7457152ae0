"""Review several code bases at once: each directory × structure, bugs, documentation, over several processes.

    python examples/code_review.py DIR… [--output DIR] [--processes N] [--timeout SECONDS]

Progress goes to standard error; `review.md` and `review.json` go to the folder of `--output` (default: here).
The exit code is 0 when every task completed, 1 when one failed or nothing could be done.
"""

from __future__ import annotations

import argparse
import sys

from ether import EtherError
from ether.review.job import DEFAULT_TIMEOUT, review


def main() -> int:
    """Read the arguments and run the review."""
    parser = argparse.ArgumentParser(description="Review code bases with a swarm of Scout agents.")
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a code base to review")
    parser.add_argument("--output", default=".", metavar="DIR", help="where review.md and review.json go")
    parser.add_argument("--processes", type=int, metavar="N", help="nodes; 0 runs in this process")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, metavar="S", help="seconds a task")
    given = parser.parse_args()
    try:
        done = review(given.directories, given.output, processes=given.processes, timeout=given.timeout)
    except EtherError as error:
        sys.exit(str(error))
    print(done)
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
