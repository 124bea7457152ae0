"""The outcomes of delegations from before this session, for which a node asks the broker."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Container
from math import inf
from typing import Final

from ether.node.connection.sender import Sender
from ether_actors.supervisor.registry.quota import MOST_RESUMED
from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["COLLECT", "AwaitedOutcomes"]

_SETTLED: Final = 3
"""Ticks after which what another thread was about to send as a session began is at the broker, and not unknown there."""
COLLECT: Final = 10.0
"""Seconds in which the outcome of what has ended must have come, from then on and from each other outcome that comes."""
_AGAIN: Final = 50
"""Ticks after which a RESUME that was refused is said again."""


class AwaitedOutcomes:
    """The outcomes that a node has asked for by RESUME, and those for which it is to ask.

    Args:
        sender: the way to the broker.
        make_id: makes request ids.
        pending: the request ids that have no outcome here.
    """

    def __init__(self, sender: Sender, make_id: Callable[[], bytes], pending: Container[bytes]) -> None:
        self._sender = sender
        self._make_id = make_id
        self._pending = pending
        self._owed: list[bytes] = []
        """What is to be asked for."""
        self._pause = 0
        """Ticks until then; they pass only while this process runs."""
        self._asked: dict[bytes, list[bytes]] = {}
        """{token of a RESUME of this session: its request ids}; those that have all come are forgotten now and then."""
        self.missing: set[bytes] = set()
        """Request ids of what has been asked for and has not come."""
        self._came_at = -inf
        """When the last of them came."""
        self._ticks = 0
        self._lock = threading.Lock()
        """Of what is owed and asked: any thread may ask, as for `collect`."""

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to be asked for in the next ticks."""
        return bool(self._owed)

    def begin(self, request_ids: list[bytes]) -> None:
        """Ask for them soon, and again for what was asked for before: a session has begun."""
        with self._lock:
            again = itertools.chain(request_ids, self._owed, *self._asked.values())
            self._owed = [request_id for request_id in dict.fromkeys(again) if request_id in self._pending]
            self._asked, self._pause = {}, _SETTLED
            self.missing.update(self._owed)

    def ask(self, request_ids: list[bytes]) -> None:
        """Ask for them now."""
        self.missing.update(request_ids)
        for first in range(0, len(request_ids), MOST_RESUMED):
            token, part = self._make_id(), request_ids[first : first + MOST_RESUMED]
            with self._lock:
                self._asked[token] = part
            self._sender.send(pack_envelope(Kind.RESUME, request_id=token, body=pack({"awaiting": part})))

    def came(self, request_id: bytes, now: float) -> None:
        """Note that an outcome is here."""
        if request_id in self.missing:
            self.missing.discard(request_id)
            self._came_at = now

    def gave_up(self, request_id: bytes) -> None:
        """Note that nobody waits for an outcome any more."""
        self.missing.discard(request_id)

    def may_come(self, request_id: bytes, now: float) -> bool:
        """Whether the broker may be about to send an outcome: it was asked for, and others of those have just come."""
        return request_id in self.missing and now < self._came_at + COLLECT

    def refused(self, token: bytes) -> bool:
        """Ask again later for what a RESUME asked: the node waits for too much.

        Returns:
            Whether that was a RESUME of this session that is not forgotten.
        """
        with self._lock:
            part = self._asked.pop(token, None)
            if part is None:
                return False
            self._owed += part
            self._pause = _AGAIN
        return True

    def ticked(self) -> None:
        """Ask for what is to be asked for, if it is time; forget what has its outcome."""
        self._ticks += 1
        pending, owed = self._pending, list[bytes]()
        with self._lock:
            if self._asked and self._ticks % _AGAIN == 0:
                self.missing.difference_update([one for one in list(self.missing) if one not in pending])
                self._asked = {
                    token: part for token, part in self._asked.items() if any(one in pending for one in part)
                }
            if self._owed:
                self._pause -= 1
                if self._pause <= 0:
                    owed, self._owed = self._owed, []
        self.ask([request_id for request_id in owed if request_id in pending])
