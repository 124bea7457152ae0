"""The account of one owner: what the broker keeps of the delegations that its nodes asked for."""

from __future__ import annotations

__all__ = ["Account"]


class Account:
    """The bytes of one owner's delegations: of all nodes of a key, or of one node where there are no keys."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size: int = 0
        """Bytes of its delegations, as the ledger counts them."""
