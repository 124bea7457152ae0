"""The ledger: every delegation from acceptance to its one outcome (G1). A state machine without sockets or clocks."""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ether_actors.deadlines import Deadlines
from ether_broker.ids import NO_ID
from ether_broker.wire import Flag

if TYPE_CHECKING:
    from ether_actors.registry import Choice, Registration
    from ether_broker.router import Session
    from ether_broker.wire import Header

__all__ = ["Entry", "Ledger", "State"]


class State(IntEnum):
    """The life of a delegation; docs/guarantees.md draws it."""

    QUEUED = 0
    """Accepted; waits in the specialist's mailbox."""
    SENT = 1
    """With the specialist's node; nobody knows yet whether it was started."""
    RUNNING = 2
    """The specialist has said ACCEPTED or PROGRESS."""
    ENDED = 3
    """Has its one outcome; nothing changes it."""


_QUEUED, _SENT, _RUNNING, _ENDED = State
_VOLATILE: Final = int(Flag.VOLATILE)
_ALLOWED: Final = (
    (_SENT, _ENDED),
    (_RUNNING, _ENDED, _QUEUED),
    (_RUNNING, _ENDED, _QUEUED),
    (),
)
"""The steps from each state; a tuple, because hashing an Enum's member is a call into Python."""


class Entry:
    """One delegation.

    An entry is made for each delegation that passes, so it has slots and no dataclass machinery.
    """

    __slots__ = (
        "agent", "attempt", "capability", "children", "deadline", "delegator", "envelope", "holds_credit",
        "idempotent", "is_volatile", "opened", "parent", "pinned", "request_id", "size", "slot", "source", "state",
    )  # fmt: skip

    request_id: bytes
    source: bytes
    """The delegator's agent name."""
    delegator: Session
    """The node that gets the outcome."""
    agent: Registration
    """The specialist that it is given to."""
    capability: bytes
    """As declared in the specialist's manifest."""
    idempotent: bool
    pinned: bool
    """Whether the delegator named the agent."""
    parent: bytes
    children: list[bytes] | None
    """Request ids of sub-delegations that were made for it."""
    deadline: float
    slot: int
    opened: float
    attempt: int
    envelope: bytes
    """As it goes to the specialist; kept for redelivery and dead letters."""
    size: int
    state: State
    holds_credit: bool
    """Whether the specialist's node still has it, ended or not."""
    is_volatile: bool
    """Whether it does not wait for the journal."""

    def __init__(
        self, header: Header, envelope: bytes, delegator: Session, choice: Choice, *, pinned: bool, deadline: float,
        now: float,
    ) -> None:  # fmt: skip
        self.request_id = header.request_id
        self.source = header.source
        self.delegator = delegator
        self.agent = choice.agent
        self.capability = choice.name
        self.idempotent = choice.idempotent
        self.pinned = pinned
        self.parent = header.parent
        self.children = None
        self.deadline = deadline
        self.slot = 0
        self.opened = now
        self.attempt = header.attempt
        self.envelope = envelope
        self.size = len(envelope)
        self.state = _QUEUED
        self.holds_credit = False
        self.is_volatile = bool(header.flags & _VOLATILE)

    @property
    def is_over(self) -> bool:
        """Whether it has its outcome."""
        return self.state is _ENDED


class Ledger:
    """Every delegation that has no outcome yet, and for a while the ids of those that have.

    Args:
        remembered: how many ended ids are told apart from unknown ones at least.
    """

    def __init__(self, *, remembered: int = 65_536) -> None:
        self._open: dict[bytes, Entry] = {}
        self._held: dict[bytes, Entry] = {}
        self._ended: dict[bytes, bytes] = {}
        self._ended_before: dict[bytes, bytes] = {}
        self._remembered = remembered
        self.size = 0
        """Bytes of the delegations that have no outcome, and of those that their nodes have not answered."""
        self.deadlines: Deadlines[Entry] = Deadlines()
        self.bound: Container[bytes] = ()
        """Delegations that something hangs on; `on_left` is told when one of them ends, or goes back into a mailbox."""
        self.on_left: Callable[[Entry], None] = lambda _entry: None

    def __len__(self) -> int:
        """Delegations without an outcome."""
        return len(self._open)

    @property
    def running(self) -> list[Entry]:
        """The delegations without an outcome, oldest first."""
        return list(self._open.values())

    def get(self, request_id: bytes) -> Entry | None:
        """The delegation of that id, if it has no outcome yet."""
        return self._open.get(request_id)

    def has_ended(self, request_id: bytes) -> bool:
        """Whether a delegation of that id ended not long ago."""
        return request_id in self._ended or request_id in self._ended_before

    def ended_by(self, request_id: bytes) -> bytes:
        """The agent that gave an ended delegation its outcome; empty for the supervisor, and for what is not known."""
        return self._ended.get(request_id) or self._ended_before.get(request_id, b"")

    def open(self, entry: Entry) -> None:
        """Accept a delegation; from now on it gets exactly one outcome."""
        assert entry.request_id not in self._open
        self._open[entry.request_id] = entry
        self.size += entry.size
        entry.slot = self.deadlines.set(entry.request_id, entry.deadline, entry)
        if entry.parent != NO_ID:
            parent = self._open.get(entry.parent)
            if parent is not None:
                if parent.children is None:
                    parent.children = []
                parent.children.append(entry.request_id)

    def advance(self, entry: Entry, state: State, by: bytes = b"") -> None:
        """Move a delegation one allowed step; the only place where its state changes.

        Args:
            entry: the delegation.
            state: its next.
            by: the agent whose outcome ends it; empty for the supervisor.

        Raises:
            AssertionError: the step is not allowed: a bug here, never a peer's fault.
        """
        assert state in _ALLOWED[entry.state], f"{entry.state} -> {state}"
        entry.state = state
        if state is _ENDED:
            self._end(entry, by)
        if self.bound and (state is _ENDED or state is _QUEUED) and entry.request_id in self.bound:
            self.on_left(entry)

    def _end(self, entry: Entry, by: bytes) -> None:
        request_id = entry.request_id
        del self._open[request_id]
        self.deadlines.clear(request_id, entry.slot)
        if entry.holds_credit:
            self._held[request_id] = entry
        else:
            self.size -= entry.size
        ended = self._ended
        ended[request_id] = by
        if len(ended) >= self._remembered:
            self._ended_before, self._ended = ended, {}

    def remember(self, request_id: bytes, by: bytes) -> None:
        """Note that a delegation of that id has ended."""
        self._ended[request_id] = by
        if len(self._ended) >= self._remembered:
            self._ended_before, self._ended = self._ended, {}

    def held(self, request_id: bytes) -> Entry | None:
        """The ended delegation of that id whose node has not answered yet."""
        return self._held.get(request_id)

    def forget(self, entry: Entry) -> None:
        """Forget an ended delegation whose node had not answered: now it has."""
        if self._held.pop(entry.request_id, None) is not None:
            self.size -= entry.size

    def forget_held(self, *agents: Registration) -> None:
        """Forget the ended delegations that the agents' node still had: the node is gone."""
        gone = set(agents)
        for request_id in [key for key, entry in self._held.items() if entry.agent in gone]:
            self.size -= self._held.pop(request_id).size

    def chain(self, request_id: bytes) -> list[Entry]:
        """The delegation of that id and its ancestors without an outcome, nearest first."""
        found: list[Entry] = []
        entry = self._open.get(request_id)
        while entry is not None:
            found.append(entry)
            entry = self._open.get(entry.parent)
        return found
