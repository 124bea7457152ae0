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
_LEVELS: Final = {"no_session": logging.INFO, "progress_folded": logging.INFO, "name_taken": logging.DEBUG}
"""Of what ordinary use brings, such as a restart of the broker or of a node: no warnings."""
_DETAIL: Final = 300
"""Characters of what is told of one."""


class RefusalLog:
    """A counter of refusals by reason, which logs the 1st, 2nd, 4th, 8th … of each peer and reason.

    They are warnings, unless ordinary use brings them too.

    Any thread may use it.

    So a peer that sends a million bad messages writes twenty lines, and a thousand peers that send one each cannot
    fill the memory.
    """

    def __init__(self) -> None:
        self.total: int = 0
        """How many there were."""
        self.by_reason: Counter[str] = Counter()
        """{reason: how many}"""
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._lock = threading.Lock()

    def note(self, peer: str, reason: str, detail: object, level: int = logging.WARNING) -> bool:
        """Count a refusal; returns whether it was logged too.

        Args:
            peer: who was refused, as far as that is known and not of the peer's own choosing; else "".
            reason: a stable word, such as an error's code.
            detail: for the log; of a text that a peer made, 300 characters at most, and no line breaks.
            level: at which this one is logged; those of other levels are counted apart for that.
        """
        level = _LEVELS.get(reason, level)
        with self._lock:
            self.total += 1
            self.by_reason[reason] += 1
            key = (peer, reason, level)
            if key not in self._counts and len(self._counts) >= _MOST_PAIRS:
                key = ("", reason, level)
            self._counts[key] += 1
            count = self._counts[key]
        if count.bit_count() == 1:
            times = f" ({count:,} times by now)" if count > 1 else ""
            logger.log(level, "refused %s of %s%s: %s", reason, key[0] or "a peer", times, printable(detail, _DETAIL))
            return True
        return False
