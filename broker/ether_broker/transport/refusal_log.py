"""The log of refusals: all are counted, and few are logged."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Final

from ether_broker.text import printable

__all__ = ["RefusalLog"]

logger = logging.getLogger("ether.broker")

_MOST_PAIRS: Final = 1_000
"""Pairs of peer and reason that are counted apart; of peers beyond that only the reasons are."""
_ORDINARY: Final = frozenset({"no_session", "name_taken"})
"""What each node meets when its broker was restarted, or itself before its end was noticed: told, and no warning."""
_DETAIL: Final = 300
"""Characters of what is told of one."""


class RefusalLog:
    """A counter of refusals by reason, which logs the 1st, 2nd, 4th, 8th … of each peer and reason.

    They are warnings, and those of what ordinary use brings INFO.

    Any thread may use it.

    So a peer that sends a million bad messages writes twenty lines, and a thousand peers that send one each cannot
    fill the memory.
    """

    def __init__(self) -> None:
        self.total: int = 0
        """How many there were."""
        self.by_reason: Counter[str] = Counter()
        """{reason: how many}"""
        self._counts: Counter[tuple[str, str, bool]] = Counter()
        self._lock = threading.Lock()

    def note(self, peer: str, reason: str, detail: object, *, is_ordinary: bool = False) -> bool:
        """Count a refusal; returns whether it was logged too.

        Args:
            peer: who was refused, as far as that is known and not of the peer's own choosing; else "".
            reason: a stable word, such as an error's code.
            detail: for the log; of a text that a peer made, 300 characters at most, and no line breaks.
            is_ordinary: whether this one is no warning, whatever others of the reason are.
        """
        is_ordinary |= reason in _ORDINARY
        with self._lock:
            self.total += 1
            self.by_reason[reason] += 1
            key = (peer, reason, is_ordinary)
            if key not in self._counts and len(self._counts) >= _MOST_PAIRS:
                key = ("", reason, is_ordinary)
            self._counts[key] += 1
            count = self._counts[key]
        if count.bit_count() == 1:
            times = f" ({count:,} times by now)" if count > 1 else ""
            level = logging.INFO if is_ordinary else logging.WARNING
            logger.log(level, "refused %s of %s%s: %s", reason, key[0] or "a peer", times, printable(detail, _DETAIL))
            return True
        return False
