"""The order in which sessions have their envelopes handled: each has a queue, and turns by their cost. Sans-IO.

    socket ── put(queue, frame) ──► frames wait in their queues, each in the order in which they came
    step   ── take() ─────────────► envelopes of the queue that has cost least, QUANTUM points at a time, STEP in all

This is start-time fair queueing (Goyal, Vin and Cheng, 1996). A queue's *tag* rises by what its envelopes cost; the
lowest tag is next, and a queue in which something begins to wait starts at the tag that is being served. So whoever
costs much waits for the others and never the others for it: when n queues have something waiting, at most
(n - 1) · (QUANTUM + the dearest envelope) points pass between two turns of one. A queue that is alone is served all the
time: nothing is held back on an idle broker.

An envelope that is read, such as a REGISTER, may cost many steps, which is known only when it has been handled. So its turn is
as much later as it may cost (`cost.possible`): those whose envelopes cost little do not wait for the dear ones of all others.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

from ether_broker.transport.address import NOWHERE, Address
from ether_broker.transport.cost import FRAME_SHIFT, PER_8_KIB, PRICES, SMALL, possible
from ether_broker.wire.frame import MAX_FRAME_BYTES, read_envelopes

__all__ = ["FRAME_OVERHEAD", "MOST_WAITING", "QUANTUM", "STEP", "InputQueue", "Turns"]

STEP: Final = 256
"""Points of one step, and what the last envelope is above them; see `ether_broker.transport.cost`."""
QUANTUM: Final = 32
"""Points of one turn, and what its last envelope is above them."""
MOST_WAITING: Final = 256 << 20
"""Bytes that may wait in all queues; beyond it the longest queue loses its newest frames, which then come again."""
SESSION_QUEUE: Final = 64 << 20
"""Bytes that may wait of a session. A link that keeps more, as outcomes that are owed, says again what found no room."""
FRAME_OVERHEAD: Final = 256
"""Bytes that a waiting frame takes beside its own."""
_S = TypeVar("_S")


class InputQueue(Generic[_S]):
    """A queue of received frames that await their turn: of one session, or of all peers of a key without a session.

    Args:
        session: whose frames they are; None for peers without a session.
        limit: bytes that may wait.
    """

    __slots__ = (
        "address",
        "ahead",
        "blocked",
        "envelopes",
        "frames",
        "is_waiting",
        "limit",
        "number",
        "opened",
        "session",
        "size",
        "tag",
    )

    def __init__(self, session: _S | None = None, limit: int = SESSION_QUEUE) -> None:
        self.session: _S | None = session
        self.limit: int = limit
        self.frames: deque[tuple[Address, int, bytes]] = deque()
        """(address, number, message); of those that are outside the count the number is 0."""
        self.size: int = 0
        """Bytes that wait, those of the frame that is being handled included."""
        self.tag: int = 0
        """Points that it has cost, by the clock that all queues share."""
        self.ahead: int = 0
        """Points that its next envelope may cost, if it was given back its turn for that; else 0."""
        self.is_waiting: bool = False
        """Whether it has a place among those that are served."""
        self.address: Address = NOWHERE
        """Whose frame is being handled."""
        self.number: int = 0
        """Its number."""
        self.opened: int = 0
        """Its bytes."""
        self.envelopes: list[bytes] = []
        """What is left of it, the next one last."""
        self.blocked: Callable[[], bool] | None = None
        """Says whether the next envelope may be given now; None: it may."""

    @property
    def is_served(self) -> bool:
        """Whether something waits in it and gets its turn, as it is not blocked."""
        return self.is_waiting and self.blocked is None

    def spend(self, points: int) -> None:
        """Charge what handling an envelope turned out to cost beside what could be seen of it before."""
        self.tag += points

    def block(self, envelope: bytes, is_free: Callable[[], bool]) -> None:
        """Have the envelope that is being handled given again, and nothing else of this queue before; it costs a turn.

        Args:
            envelope: that was given last, and changed nothing.
            is_free: asked once in each step from the next one on, until it says so.
        """
        self.envelopes.append(envelope)
        self.blocked = is_free
        self.tag += QUANTUM


class Turns(Generic[_S]):
    """The queues in which something waits.

    Args:
        open_other: takes apart what has no session or is no frame: (queue, address, message) → envelopes.
    """

    def __init__(self, open_other: Callable[[InputQueue[_S], Address, bytes], list[bytes]]) -> None:
        self._open_other = open_other
        self.handled: dict[_S, int] = {}
        """{session: number of the last of its frames that was handled whole}, until who reads it clears it."""
        self.waiting: list[tuple[int, int, InputQueue[_S]]] = []
        """The queues in which something waits, as a heap: (tag + ahead, order, queue)."""
        self.blocked: list[InputQueue[_S]] = []
        """Those whose next envelope may not be given yet."""
        self._order = itertools.count()
        self._tag = 0
        """The highest tag of a queue that was served, before it was."""
        self._last = 0
        """The highest tag of any queue so far."""
        self.size: int = 0
        """Bytes that wait in all queues."""

    def put(self, queue: InputQueue[_S], address: Address, number: int, message: bytes) -> None:
        """Let a frame wait for its turn; whether there is room was asked before."""
        size = len(message) + FRAME_OVERHEAD
        queue.frames.append((address, number, message))
        queue.size += size
        self.size += size
        if not queue.is_waiting:
            queue.is_waiting = True
            queue.tag = max(queue.tag, self._tag)
            heappush(self.waiting, (queue.tag, next(self._order), queue))

    def take(self) -> Iterator[tuple[InputQueue[_S], bytes]]:  # noqa: C901, PLR0912  no call for each envelope
        """What this step handles: (queue, envelope), each asked for when the one before has been handled."""
        heap = self.waiting
        left = STEP
        if self.blocked:
            self._let_go_on()
        while heap and left > 0:
            before, _, queue = heap[0]
            if queue.tag + queue.ahead > before:  # it was charged for something while it waited
                heapreplace(heap, (queue.tag + queue.ahead, next(self._order), queue))
                continue
            heappop(heap)  # what is handled may let others in, before it
            start, envelopes = queue.tag, queue.envelopes
            self._tag = max(self._tag, start)
            until = start + QUANTUM
            while queue.tag < until:
                if not envelopes:
                    if not queue.frames:
                        break
                    queue.address, queue.number, message = queue.frames.popleft()
                    queue.opened = len(message) + FRAME_OVERHEAD
                    found = None if queue.session is None else read_envelopes(message)
                    queue.envelopes = envelopes = found or self._open_other(queue, queue.address, message)
                    envelopes.reverse()
                    queue.tag += 1 + (len(envelopes) >> FRAME_SHIFT)
                if envelopes:
                    envelope = envelopes[-1]
                    if len(envelope) > SMALL and heap and not queue.ahead and (ahead := possible(envelope)):
                        queue.ahead = ahead
                        break
                    envelopes.pop()
                    queue.ahead = 0
                    queue.tag += PRICES[envelope[0] if envelope else 0] + (len(envelope) >> PER_8_KIB)
                    yield queue, envelope
                if not envelopes:
                    queue.size -= queue.opened
                    self.size -= queue.opened
                    queue.opened = 0
                    if queue.number and queue.session is not None:
                        self.handled[queue.session] = queue.number
            left -= queue.tag - start
            if queue.blocked is None and (envelopes or queue.frames):
                heappush(heap, (queue.tag + queue.ahead, next(self._order), queue))
            else:
                queue.is_waiting = queue.blocked is not None
                if queue.is_waiting:
                    self.blocked.append(queue)
            self._last = max(self._last, queue.tag)
        if not heap:
            self._tag = self._last  # nothing waits, so all are equal again: whoever comes first is first

    def _let_go_on(self) -> None:
        blocked, self.blocked = self.blocked, []
        for queue in blocked:
            if queue.blocked is not None and not queue.blocked():
                self.blocked.append(queue)
                continue
            queue.blocked = None
            queue.tag = max(queue.tag, self._tag)
            heappush(self.waiting, (queue.tag, next(self._order), queue))

    def clear(self, queue: InputQueue[_S]) -> None:
        """Forget what waits in a queue; its place is given up when its turn comes."""
        self.size -= queue.size
        queue.size = queue.opened = queue.ahead = 0
        queue.frames.clear()
        queue.envelopes.clear()
        queue.blocked = None

    def shed(self) -> tuple[InputQueue[_S], int | None] | None:
        """Make the longest queue lose the newer half of its frames, if more waits in all than may.

        A session that is blocked may have nothing but the frame that is being handled, and nobody knows when that is. It counts
        too if that is larger than a node of ours sends one, or if no queue has another frame.

        Returns:
            Which it was, and the number of the first frame that it lost: 0 if they were outside the count, and None if there
            is none that it could lose. None if there is no such queue.
        """
        if self.size <= MOST_WAITING:
            return None
        blocked = [queue for queue in self.blocked if queue.session is not None and queue.blocked is not None]
        queues = [queue for queue in blocked if queue.opened > MAX_FRAME_BYTES]
        queues += [queue for queue in (*self.blocked, *(queue for _, _, queue in self.waiting)) if queue.frames]
        queue = max(queues or blocked, key=lambda queue: queue.size, default=None)
        if queue is None:
            return None
        if not queue.frames:
            return queue, None
        keep, first = queue.size // 2, 0
        while queue.frames and queue.size > keep:
            _, number, message = queue.frames.pop()
            queue.size -= len(message) + FRAME_OVERHEAD
            self.size -= len(message) + FRAME_OVERHEAD
            first = number or first
        return queue, first
