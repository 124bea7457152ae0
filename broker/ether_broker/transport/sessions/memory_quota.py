"""The memory for what nodes have at the broker beside delegations, such as leases, monitors and what waits. Sans-IO."""

from __future__ import annotations

import sys
from typing import Final

from ether_broker.transport.sessions.account import Account

__all__ = ["MemoryQuota"]

_LEAST_SHIFT: Final = 10


class MemoryQuota:
    """The bytes that may be taken beside delegations: an account has half at most, and a 1,024th also when the rest is taken.

    What was taken within the bound has room again after a restart, in whatever order the nodes come back; what was taken above
    it, by the 1,024ths, may have none.

    Args:
        most: bytes.
    """

    def __init__(self, most: int = sys.maxsize) -> None:
        self._most = most
        self.size: int = 0
        """Bytes that it takes, of all accounts."""

    def has_room(self, account: Account, size: int) -> bool:
        """Whether an account may have so many bytes more."""
        own = (account.into or account).kept + size
        return own <= self._most >> 1 and (self.size + size <= self._most or own <= self._most >> _LEAST_SHIFT)

    def add(self, account: Account, size: int) -> None:
        """Count some bytes more, or fewer, of an account, also above what it may have."""
        self.size += size
        account.kept += size
        if account.into is not None:
            account.into.kept += size
