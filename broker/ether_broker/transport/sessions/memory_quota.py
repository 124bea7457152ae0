"""The memory for what nodes have at the broker beside delegations, such as leases, monitors and what waits. Sans-IO."""

from __future__ import annotations

import sys

from ether_broker.transport.sessions.account import Account

__all__ = ["MemoryQuota"]


class MemoryQuota:
    """The bytes that all of it may take, of which an account may have half of what the others leave.

    Args:
        most: bytes.
    """

    def __init__(self, most: int = sys.maxsize) -> None:
        self._most = most
        self.size: int = 0
        """Bytes that it takes, of all accounts."""

    def has_room(self, account: Account, size: int) -> bool:
        """Whether an account may have so many bytes more."""
        own = (account.into or account).kept
        return 2 * (own + size) <= self._most - (self.size - own)

    def add(self, account: Account, size: int) -> None:
        """Count some bytes more, or fewer, of an account, also above what it may have."""
        self.size += size
        account.kept += size
        if account.into is not None:
            account.into.kept += size
