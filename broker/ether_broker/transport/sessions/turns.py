"""The order in which sessions have their envelopes handled: each has a queue, and turns by their cost. Sans-IO.

    socket ── put(queue, frame) ──► frames wait in their queues, each in the order in which they came
    step   ── take() ─────────────► envelopes of the queue that has cost least, QUANTUM points at a time, STEP in all

This is start-time fair queueing (Goyal, Vin and Cheng, 1996). A queue's *tag* rises by what its envelopes cost; the
lowest tag is next, and a queue in which something begins to wait starts at the tag that is being served. So whoever
costs much waits for the others and never the others for it: when n queues have something waiting, at most
(n - 1) · (QUANTUM + the dearest envelope) points pass between two turns of one. A queue that is alone is served all the
time: nothing is held back on an idle broker.

An envelope that is read, such as a REGISTER, may cost many steps (`cost.possible`). Sessions whose next one may cost more than
`DEAR` share the turns of one session, one envelope a turn, the cheapest first. So others wait for one such envelope at a time,
however many send them; and each pays for its own.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

from ether_broker.transport.address import NOWHERE, Address
from ether_broker.transport.sessions.cost import FRAME_SHIFT, PER_8_KIB, PRICES, possible
from ether_broker.wire.frame import MAX_FRAME_BYTES, Frame, Message, read_envelopes

__all__ = ["DEAR", "FRAME_OVERHEAD", "MOST_WAITING", "QUANTUM", "STEP", "InputQueue", "Turns"]

STEP: Final = 256
"""Points of one step, and what the last envelope is above them; see `ether_broker.transport.sessions.cost`."""
QUANTUM: Final = 32
"""Points of one turn, and what its last envelope is above them."""
DEAR: Final = 64
"""Points above which an envelope that waits beside others is dear."""
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
        "address", "blocked", "envelopes", "frames", "given", "is_brief", "is_dear", "is_waiting", "limit", "number", "opened",
        "session", "size", "tag",
    )  # fmt: skip

    def __init__(self, session: _S | None = None, limit: int = SESSION_QUEUE) -> None:
        self.session: _S | None = session
        self.limit: int = limit
        self.frames: deque[tuple[Address, int, Message, int]] = deque()
        """(address, number, message, its bytes); of those that are outside the count the number is 0."""
        self.size: int = 0
        """Bytes that wait, those of the frame that is being handled included."""
        self.tag: int = 0
        """Points that it has cost, by the clock that all queues share."""
        self.is_waiting: bool = False
        """Whether it has a place among those that are served."""
        self.is_dear: bool = False
        """Whether that place is among those whose next envelope is dear."""
        self.address: Address = NOWHERE
        """Whose frame is being handled."""
        self.number: int = 0
        """Its number."""
        self.opened: int = 0
        """Its bytes."""
        self.envelopes: list[bytes] = []
        """What is left of it, the next one last."""
        self.given: int = -1
        """Agents that its last events were given to, the earlier ones less and less; -1 before the first."""
        self.blocked: Callable[[], bool] | None = None
        """Says whether the next envelope may be given now; None: it may."""
        self.is_brief: bool = False
        """Whether what blocks it ends with the journal's next commits."""

    @property
    def is_held_back(self) -> bool:
        """Whether it is blocked for no longer than the journal takes."""
        return self.blocked is not None and self.is_brief

    @property
    def is_served(self) -> bool:
        """Whether something waits in it and gets its turn, as it is not blocked, or not for long."""
        return self.is_waiting and (self.blocked is None or self.is_brief)

    def spend(self, points: int) -> None:
        """Charge what handling an envelope turned out to cost beside what could be seen of it before."""
        self.tag += points

    def block(self, envelope: bytes, is_free: Callable[[], bool], *, is_brief: bool = False) -> None:
        """Have the envelope that is being handled given again, and nothing else of this queue before; it costs a turn.

        Args:
            envelope: that was given last, and changed nothing.
            is_free: asked once in each step from the next one on, until it says so.
            is_brief: whether that is with the journal's next commits.
        """
        self.envelopes.append(envelope)
        self.blocked, self.is_brief = is_free, is_brief
        self.tag += QUANTUM


class Turns(Generic[_S]):
    """The queues in which something waits.

    Args:
        open_other: takes apart what has no session or is no frame: (queue, address, message) → envelopes.
    """

    def __init__(self, open_other: Callable[[InputQueue[_S], Address, Message], list[bytes]]) -> None:
        self._open_other = open_other
        self.handled: dict[_S, int] = {}
        """{session: number of the last of its frames that was handled whole}, until who reads it clears it."""
        self.waiting: list[tuple[int, int, InputQueue[_S]]] = []
        """The queues in which something waits, as a heap: (tag, order, queue). One stands for all in `_dear`."""
        self.blocked: list[InputQueue[_S]] = []
        """Those whose next envelope may not be given yet."""
        self._dear: list[tuple[int, int, InputQueue[_S]]] = []
        """Those whose next envelope is dear, as a heap: (its price and that of the one served before, order, queue)."""
        self._dear_turn: InputQueue[_S] = InputQueue()
        """Has the tag of all of them."""
        self._dear_tag = 0
        self._order = itertools.count()
        self._tag = 0
        """The highest tag of a queue that was served, before it was."""
        self._last = 0
        """The highest tag of any queue so far."""
        self.size: int = 0
        """Bytes that wait in all queues."""
        self.subscribers: int = 0
        """Agents that one event may be given to, of a session that has published none."""

    def queues(self) -> Iterator[InputQueue[_S]]:
        """The queues in which something waits, blocked or not."""
        yield from self.blocked
        for _, _, queue in (*self.waiting, *self._dear):
            if queue is not self._dear_turn:
                yield queue

    def put(self, queue: InputQueue[_S], address: Address, number: int, message: Message, size: int) -> None:
        """Let a frame wait for its turn; whether there is room for its bytes was asked before."""
        size += FRAME_OVERHEAD
        queue.frames.append((address, number, message, size))
        queue.size += size
        self.size += size
        if not queue.is_waiting:
            queue.is_waiting = True
            queue.tag = max(queue.tag, self._tag)
            heappush(self.waiting, (queue.tag, next(self._order), queue))

    def take(self) -> Iterator[tuple[InputQueue[_S], bytes]]:  # noqa: C901, PLR0912, PLR0915  no call for each envelope
        """What this step handles: (queue, envelope), each asked for when the one before has been handled."""
        heap = self.waiting
        left = STEP
        if self.blocked:
            self._let_go_on()
        while heap and left > 0:
            before, _, queue = heap[0]
            if queue.tag > before:  # it was charged for something while it waited
                heapreplace(heap, (queue.tag, next(self._order), queue))
                continue
            heappop(heap)  # what is handled may let others in, before it
            self._tag = max(self._tag, queue.tag)
            is_dear = queue is self._dear_turn
            if is_dear:
                queue.is_waiting = False
                self._dear_tag, _, queue = heappop(self._dear)
                queue.is_dear = False
                queue.tag = max(queue.tag, self._tag)  # it has waited, and is owed nothing for that
            start, envelopes = queue.tag, queue.envelopes
            until = start + (1 if is_dear else QUANTUM)
            while queue.tag < until:
                if not envelopes:
                    if not queue.frames:
                        break
                    queue.address, queue.number, message, queue.opened = queue.frames.popleft()
                    if queue.session is None:
                        found = None
                    else:
                        found = message.envelopes[:] if isinstance(message, Frame) else read_envelopes(message)
                    queue.envelopes = envelopes = found or self._open_other(queue, queue.address, message)
                    envelopes.reverse()
                    queue.tag += 1 + (len(envelopes) >> FRAME_SHIFT)
                if envelopes:
                    envelope = envelopes[-1]
                    if heap and not is_dear:  # else nobody waits for it
                        given = self.subscribers if queue.given < 0 else queue.given
                        if (price := possible(envelope, given)) > DEAR:
                            self._put_dear(queue, price)
                            break
                    envelopes.pop()
                    queue.tag += PRICES[envelope[0] if envelope else 0] + (len(envelope) >> PER_8_KIB)
                    yield queue, envelope
                if not envelopes:
                    queue.size -= queue.opened
                    self.size -= queue.opened
                    queue.opened = 0
                    if queue.number and queue.session is not None:
                        self.handled[queue.session] = queue.number
            left -= queue.tag - start
            if is_dear:
                self._dear_turn.tag += min(queue.tag - start, QUANTUM)  # each pays the rest itself
                self._give_dear_turn()
            if queue.is_dear:
                pass
            elif queue.blocked is None and (envelopes or queue.frames):
                heappush(heap, (queue.tag, next(self._order), queue))
            else:
                queue.is_waiting = queue.blocked is not None
                if queue.is_waiting:
                    self.blocked.append(queue)
            self._last = max(self._last, queue.tag)
        if not heap:
            self._tag = self._last  # nothing waits, so all are equal again: whoever comes first is first

    def _put_dear(self, queue: InputQueue[_S], price: int) -> None:
        """Let a queue wait among those whose next envelope is dear."""
        queue.is_dear = True
        heappush(self._dear, (self._dear_tag + price, next(self._order), queue))
        if len(self._dear) == 1:
            self._dear_turn.tag = max(self._dear_turn.tag, self._tag)
            self._give_dear_turn()

    def _give_dear_turn(self) -> None:
        if self._dear and not self._dear_turn.is_waiting:
            self._dear_turn.is_waiting = True
            heappush(self.waiting, (self._dear_turn.tag, next(self._order), self._dear_turn))

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
        queue.size = queue.opened = 0
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
        queues += [queue for queue in self.queues() if queue.frames]
        queue = max(queues or blocked, key=lambda queue: queue.size, default=None)
        if queue is None:
            return None
        if not queue.frames:
            return queue, None
        keep, first = queue.size // 2, 0
        while queue.frames and queue.size > keep:
            _, number, _, size = queue.frames.pop()
            queue.size -= size
            self.size -= size
            first = number or first
        return queue, first
