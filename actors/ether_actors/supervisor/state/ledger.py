"""The ledger: every delegation from acceptance to its one outcome (G1). A state machine without sockets or clocks."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ether_actors.supervisor.state.numbered import SPARE, following
from ether_actors.supervisor.state.timing_wheel import TimingWheel
from ether_broker.envelope.priority import NORMAL, NOT_NORMAL, priority_of
from ether_broker.wire.frame import Flag

if TYPE_CHECKING:
    from ether_actors.supervisor.registry.registration import Choice, Registration
    from ether_actors.supervisor.state.progress_limiter import ProgressLimiter
    from ether_broker.transport.sessions.account import Account
    from ether_broker.transport.sessions.session import Life, Session
    from ether_broker.wire.frame import Header

__all__ = ["ENTRY_OVERHEAD", "Entry", "Ledger", "State"]


class State(IntEnum):
    """The states of a delegation in the ledger; docs/guarantees.md draws them."""

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
_ROUTED: Final = int(Flag.ROUTED)
_FLAGS: Final = 3
"""Where an envelope has them."""
ENTRY_OVERHEAD: Final = 768
"""Bytes that an entry takes beside its envelope."""
_QUESTIONS_SHIFT: Final = 6
"""A 64th of all bytes is kept free for questions to the bus."""
_HELD_SHIFT: Final = 2
"""A quarter of all bytes is the most that an owner's nodes may leave unanswered when it has ended."""
_ALLOWED: Final = (
    (_SENT, _ENDED),
    (_RUNNING, _ENDED, _QUEUED),
    (_RUNNING, _ENDED, _QUEUED),
    (),
)
"""The steps from each state; a tuple, because hashing an Enum's member is a call into Python."""


class Entry:
    """The ledger's record of one delegation.

    An entry is made for each delegation that passes, so it has slots and no dataclass machinery.
    """

    __slots__ = (
        "account", "agent", "asked_from", "asking_session", "attempt", "capability", "chain_length", "children", "deadline",
        "envelope", "holds_credit", "idempotent", "is_volatile", "number", "opened", "parent", "pinned", "priority", "progress",
        "request_id", "returns", "size", "slot", "source", "state",
    )  # fmt: skip

    request_id: bytes
    source: bytes
    """The delegator's agent name."""
    asking_session: Session
    """Of the delegator's node, which gets the outcome."""
    asked_from: Life | None
    """The process that asked first; None if a broker before this one took it and does not say."""
    account: Account
    """Of whoever caused it: the delegator's, or of an event's publisher; when it has ended, the specialist's."""
    agent: Registration
    """The specialist that it is given to."""
    capability: bytes
    """As declared in the specialist's manifest."""
    idempotent: bool
    pinned: bool
    """Whether nobody else may have it: the delegator named the agent, without FALLTHROUGH."""
    priority: int
    """Its class, as of `priority_of`."""
    progress: ProgressLimiter | None
    """What it may still tell of itself, once it has told something."""
    parent: Entry | None
    """The open delegation whose handler made this one; it ends this one with itself. None for a root, and after the end."""
    children: dict[Entry, None] | None
    """The open delegations that its handler made, oldest first."""
    chain_length: int
    """1 for a root, one more than the parent's for others."""
    number: int
    """Rises with each delegation that the ledger accepts."""
    deadline: float
    slot: int
    opened: float
    attempt: int
    returns: int
    """How often it was handed back."""
    envelope: bytes
    """As it goes to the specialist; kept for redelivery and dead letters, and empty after the end."""
    size: int
    """Bytes that it takes."""
    state: State
    holds_credit: bool
    """Whether the specialist's node still has it, ended or not."""
    is_volatile: bool
    """Whether it does not wait for the journal."""

    def __init__(
        self, header: Header, envelope: bytes, asking_session: Session, choice: Choice, *, parent: Entry | None = None,
        account: Account | None = None, pinned: bool, deadline: float, now: float,
    ) -> None:  # fmt: skip
        self.request_id = header.request_id
        self.source = header.source
        self.asking_session = asking_session
        self.asked_from = asking_session.life
        self.account = asking_session.account if account is None else account
        self.agent = choice.agent
        self.capability = choice.name
        self.idempotent = choice.idempotent
        self.pinned = pinned
        self.parent = parent
        self.children = None
        self.progress = None
        self.chain_length = 1 if parent is None else parent.chain_length + 1
        self.number = 0
        self.deadline = deadline
        self.slot = 0
        self.opened = now
        self.attempt = header.attempt
        self.returns = 0
        self.envelope = envelope
        self.size = len(envelope) + ENTRY_OVERHEAD
        self.state = _QUEUED
        self.holds_credit = False
        self.is_volatile = bool(header.flags & _VOLATILE)
        self.priority = priority_of(header.flags) if header.flags & NOT_NORMAL else NORMAL

    @property
    def is_over(self) -> bool:
        """Whether it has its outcome."""
        return self.state is _ENDED

    @property
    def is_movable(self) -> bool:
        """Whether any instance of an agent that scales may have it: its delegator named none, and none has handed it back."""
        return not self.returns and bool(self.envelope[_FLAGS] & _ROUTED)

    def ancestors(self) -> Iterator[Entry]:
        """The delegation and those that it was made for, nearest first."""
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent


def owner_of(entry: Entry) -> str:
    """Whose deadlines and sub-delegations wait for each other: the delegator's key, or its node where there are no keys.

    Of an event, which the bus itself delegates, it is the subscriber's.
    """
    return entry.asking_session.principal or entry.agent.session.principal


class Ledger:
    """The record of every delegation without an outcome, and of those with one that their nodes still hold.

    Each is also entered with its agent (`Registration.work`, `Registration.ended_at_node`), with its parent and with its
    delegator, so that ending any of them costs what it holds.

    Args:
        most: bytes that all together may take.
    """

    def __init__(self, most: int = sys.maxsize) -> None:
        self.most: int = most
        self._open: dict[bytes, Entry] = {}
        self.get: Callable[[bytes], Entry | None] = self._open.get
        """The delegation of an id, if it has no outcome yet: called for each envelope, so without a frame of its own."""
        self._asked: defaultdict[bytes, dict[int, Entry]] = defaultdict(dict)
        self._numbers: defaultdict[bytes, list[int]] = defaultdict(list)
        """{delegator: {number: what it asked for}}, and the numbers in order, with some of what has ended."""
        self._number = 0
        self.size: int = 0
        """Bytes of the delegations that have no outcome, and of those that their nodes have not answered."""
        self.deadlines: TimingWheel[Entry] = TimingWheel()
        self.bound: Container[bytes] = ()
        """Delegations that something hangs on; `on_left` is told when one of them ends, or goes back into a mailbox."""
        self.on_left: Callable[[Entry], None] = lambda _entry: None
        self.most_held: int = most >> _HELD_SHIFT
        """Bytes that the nodes of one owner may leave unanswered."""
        self.much_held: dict[Account, None] = {}
        """The owners whose nodes leave more."""

    def __len__(self) -> int:
        """Delegations without an outcome."""
        return len(self._open)

    @property
    def running(self) -> list[Entry]:
        """The delegations without an outcome, oldest first."""
        return list(self._open.values())

    def asked_by(self, source: bytes, after: int = 0) -> Iterator[tuple[int, Entry | None]]:
        """The delegations of one delegator with numbers above one, oldest first; None for some of those that have ended."""
        return following(self._asked.get(source, {}), self._numbers.get(source, ()), after)

    def open(self, entry: Entry, state: State = _QUEUED) -> None:
        """Accept a delegation; from now on it gets exactly one outcome.

        Args:
            entry: the new one.
            state: QUEUED, or SENT if it is sent at once.
        """
        request_id, source, parent = entry.request_id, entry.source, entry.parent
        assert request_id not in self._open
        self._open[request_id] = entry
        entry.state = state
        self._number = entry.number = number = self._number + 1
        self.size += entry.size
        entry.account.size += entry.size
        entry.slot = self.deadlines.set(request_id, entry.deadline, entry)
        entry.agent.work[entry] = None
        self._asked[source][number] = entry
        self._numbers[source].append(number)
        if parent is not None:
            assert parent.state is not _ENDED
            if parent.children is None:
                parent.children = {}
            parent.children[entry] = None

    def advance(self, entry: Entry, state: State) -> None:
        """Move a delegation one allowed step; but for `open` and `end`, the only place where its state changes.

        Raises:
            AssertionError: the step is not allowed: a bug here, never a peer's fault.
        """
        assert state in _ALLOWED[entry.state], f"{entry.state} -> {state}"
        if state is _ENDED:
            self.end(entry)
            return
        entry.state = state
        if self.bound and state is _QUEUED and entry.request_id in self.bound:
            self.on_left(entry)

    def end(self, entry: Entry) -> None:
        """Move an open delegation to ENDED, which each state but that allows."""
        assert entry.state is not _ENDED
        entry.state = _ENDED
        request_id, source, parent = entry.request_id, entry.source, entry.parent
        del self._open[request_id]
        if (due := self.deadlines.slots.get(entry.slot)) is not None:
            due.pop(request_id, None)
        del entry.agent.work[entry]
        asked = self._asked[source]
        del asked[entry.number]
        if not asked:
            del self._asked[source], self._numbers[source]
        elif len(numbers := self._numbers[source]) > len(asked) + (len(asked) >> 3) + SPARE:
            numbers[:] = asked
        if parent is not None:
            if parent.children:
                parent.children.pop(entry, None)
            entry.parent = None
        entry.envelope = b""  # whoever still has the entry keeps nothing that is not counted
        if entry.holds_credit and not entry.agent.session.lost:
            entry.agent.ended_at_node[request_id] = entry
            self._hold(entry)
        else:  # as `_release`
            self.size -= entry.size
            account = entry.account
            account.size -= entry.size
            if account.into is not None:
                account.into.size -= entry.size
        if self.bound and request_id in self.bound:
            self.on_left(entry)

    def shorten_deadline(self, entry: Entry, deadline: float) -> None:
        """Give an open delegation an earlier deadline."""
        self.deadlines.clear(entry.request_id, entry.slot)
        entry.deadline = min(deadline, entry.deadline)
        entry.slot = self.deadlines.set(entry.request_id, entry.deadline, entry)

    def move(self, entry: Entry, choice: Choice) -> None:
        """Give a waiting delegation to another agent."""
        assert entry.state is _QUEUED
        del entry.agent.work[entry]
        entry.agent, entry.capability, entry.idempotent = choice.agent, choice.name, choice.idempotent
        entry.agent.work[entry] = None

    def forget(self, entry: Entry) -> None:
        """Forget an ended delegation that its node still has: now the node has answered."""
        if entry.agent.ended_at_node.pop(entry.request_id, None) is not None:
            self._let_go(entry)

    def forget_ended_at_node(self, agent: Registration) -> None:
        """Forget the ended delegations that the agent's node still has: the node is gone."""
        for entry in agent.ended_at_node.values():
            self._let_go(entry)
        agent.ended_at_node.clear()

    def _hold(self, entry: Entry) -> None:
        """Count what is kept of an ended delegation for the node that has not answered, and no more for who asked."""
        self._release(entry)
        entry.size, entry.account = ENTRY_OVERHEAD, entry.agent.session.account
        self.size += ENTRY_OVERHEAD
        entry.account.add(ENTRY_OVERHEAD)
        entry.account.held += ENTRY_OVERHEAD
        if entry.account.held > self.most_held:
            self.much_held[entry.account] = None

    def _let_go(self, entry: Entry) -> None:
        entry.account.held -= entry.size
        if self.much_held and entry.account.held <= self.most_held:
            self.much_held.pop(entry.account, None)
        self._release(entry)

    def _release(self, entry: Entry) -> None:
        self.size -= entry.size
        entry.account.add(-entry.size)

    def has_room(self, account: Account, size: int, *, of_question: bool = False) -> bool:
        """Whether more bytes may be kept for an owner: it may have as much as is free, so that nobody takes all.

        A question to the bus may have a little more, so that whoever is at that bound can ask what takes its part.
        """
        most = self.most + (self.most >> _QUESTIONS_SHIFT) if of_question else self.most
        return self.size + account.size + size <= most and self.size + size <= self.most
