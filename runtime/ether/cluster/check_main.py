"""The main function of a process that only says whether agents can be made, for a node whose own process is still to come."""

from __future__ import annotations

from ether.cluster.start_check import check
from ether.process.parent_link import ParentLink, end
from ether.process.signals import Stopping

__all__ = ["main"]


def main() -> None:
    """Say which agents cannot be made, as a child of a cluster, and wait to be ended."""
    parent_link = ParentLink()
    failed = check(parent_link.request["check"], parent_link.request["patience"])
    with Stopping() as stopping:
        parent_link.ready(failed=failed)
        stopping.wait()
    end(0)


if __name__ == "__main__":
    main()
