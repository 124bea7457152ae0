"""The origin of the journal of clusters without a name: the folder of the cluster that used it last.

All clusters of a user that are given no name are called `default`, and so have one journal. It keeps its origin in a file
beside it, so that one folder's cluster does not go on with the delegations of another's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from ether.cluster.cluster_spec import ClusterSpec
from ether_broker.errors import InvalidSpec
from ether_broker.journal.location import default_journal

__all__ = ["JournalOrigin"]

_FILE = "origin"


class JournalOrigin:
    """The origin of a cluster's journal, to be checked and then taken over by this cluster.

    Args:
        spec: of the cluster. Unless its journal is the one of all clusters without a name, nothing is checked or kept.
        folder: of its file, or where it was started.
        on_event: told in words that the journal was used by a cluster in another folder.
    """

    def __init__(self, spec: ClusterSpec, folder: Path, on_event: Callable[[str], None]) -> None:
        journal = default_journal()
        self._journal = journal if spec.journal == str(journal) else None
        self._file = journal.with_name(_FILE)
        self._folder = str(folder.resolve())
        self._on_event = on_event

    def take_over(self, unended: int) -> None:
        """Make this cluster's folder the origin, unless the journal has delegations without an outcome from another one.

        Args:
            unended: how many it has.

        Raises:
            InvalidSpec: it has some.
        """
        if self._journal is None:
            return
        try:
            origin = self._file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            origin = ""
        if origin and origin != self._folder:
            said = f"{self._journal}, the journal of clusters without a name, was last used by the one in {origin}"
            if unended:
                fix = (
                    "Give this cluster a name (--name NAME, or `name` under `cluster` in its file), or start that one again "
                    f"there. If both are the same one: rm {self._file}"
                )
                raise InvalidSpec(f"{said}; its delegations without an outcome: {unended:,}. {fix}")
            self._on_event(f"{said}; give this one a name (--name NAME) to tell the two apart")
        with contextlib.suppress(OSError):  # a disk that is full: the journal says so
            self._file.write_text(self._folder, encoding="utf-8")
