"""The account of one owner: what the broker keeps for its nodes, and of the delegations that they asked for or hold."""

from __future__ import annotations

__all__ = ["Account"]


class Account:
    """The bytes that are kept for one owner: for all nodes of a key, or for one node where there are no keys."""

    __slots__ = ("held", "into", "kept", "progress", "size", "unwritten")

    def __init__(self) -> None:
        self.size: int = 0
        """Bytes of its delegations, as the ledger counts them, and `held`."""
        self.held: int = 0
        """Bytes of what has ended and its nodes have not answered, whoever asked for it."""
        self.kept: int = 0
        """Bytes that its nodes take of the `MemoryQuota`."""
        self.unwritten: int = 0
        """Bytes that its nodes caused and the journal has not committed."""
        self.progress: int = 0
        """Bytes of progress that its nodes told and that need not be in the journal yet."""
        self.into: Account | None = None
        """The account of the same owner that counts this one's bytes too, since the owner is known."""

    @property
    def is_used(self) -> bool:
        """Whether it counts anything that is still there."""
        return bool(self.size or self.kept or self.unwritten)

    def add(self, size: int) -> None:
        """Count some bytes more, or fewer."""
        self.size += size
        if self.into is not None:
            self.into.size += size
