"""`ether trace`: the tree of a delegation, with its sub-delegations and where the time went."""

from __future__ import annotations

from typing import Annotated

import typer

from ether.cli.common.options import with_options
from ether.cli.common.output import Output, seconds
from ether.cli.journal.source import JournalOptions, complete_requests

__all__ = ["trace"]


@with_options
def trace(
    *,
    which: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A delegation of the tree: a number of `ether log`, or the begin of a request id.",
            autocompletion=complete_requests,
        ),
    ],
    subtree: Annotated[
        bool, typer.Option("--subtree", help="Only ID and what is below it, not the whole tree from its root.")
    ] = False,
    depth: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Levels below the root.", show_default="all")
    ] = None,
    source: JournalOptions,
    out: Output,
) -> None:
    """Draw the tree of a delegation, from the journal: who did what for whom, and where the time went.

    The bar has the time of the whole tree: `·` queued, `█` in the handler, `░` lost with a node, `▒` unknown.
    """
    from ether.cli.journal.trace_tree import print_tree

    with source.opened(out) as trail:
        marked = trail.resolve(which)
        root = trail.span(marked, whole=not subtree)
    print_tree(root, marked, out, depth)
    spans = list(root.walk())
    count = f"{len(spans)} delegation{'s' if len(spans) > 1 else ''}"
    open_ones = sum(span.outcome is None for span in spans)
    still = f" ({open_ones} without an outcome)" if open_ones else ""
    out.note(f"{count}{still} in {seconds(root.duration)}, for {root.entry.from_agent}")
