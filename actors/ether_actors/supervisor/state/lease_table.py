"""Leases: who may write what at the moment (G5). A state machine without sockets or clocks.

    claim ──► granted, with a token above every other ──► released, or its delegation ended ──► the next in line
       ├────► refused at once: held (and no wait), a deadlock, too many
       └────► waits in line ──► granted, or withdrawn: its delegation ended; or cancelled, as when it is late

A lease is on a resource, a text that says nothing to the machine, and belongs to one delegation: it ends with that.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ether_broker.errors import LeaseDeadlock, LeaseHeld, TooManyLeases
from ether_broker.sorted_keys import SortedKeys
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.memory_quota import MemoryQuota

__all__ = [
    "MOST_LEASES",
    "MOST_WAITING",
    "Claim",
    "Effect",
    "Granted",
    "Held",
    "LeaseTable",
    "Released",
    "Withdrawn",
]

MOST_LEASES: Final = 1_000
"""Leases that one agent may hold and wait for at a time, over all its delegations."""
_OVERHEAD: Final = 2 << 10
"""Bytes of one beside its resource's name."""
MOST_WAITING: Final = 4_096
"""Claims that may wait for one lease; and leases and claims that are looked through for a circle of waiting."""


@dataclass(eq=False, slots=True)
class Claim:
    """A delegation that asks for a lease."""

    ask: bytes
    """Request id of the asking itself."""
    resource: str
    agent: str
    holder: bytes
    """Request id of the delegation that is to hold it."""
    deadline: float
    """Seconds by the broker's clock: past it the claim is not granted; who made it withdraws it then."""
    account: Account = field(default_factory=Account)
    """Of the key or node that answers for the memory of what is granted."""
    since: float = 0.0
    """When it came, by the same clock."""
    ahead: Claim | None = None
    """Its neighbours in line; None at the ends."""
    behind: Claim | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that is held."""

    resource: str
    agent: str
    holder: bytes
    """Request id of the delegation that holds it."""
    token: int
    """Above that of every lease granted before, on any resource."""
    since: float
    account: Account = field(default_factory=Account)
    """As of its claim."""

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, about."""
        return _size(self.resource)


@dataclass(frozen=True, slots=True)
class Granted:
    """The event that a claim was granted."""

    claim: Claim
    held: Held


@dataclass(frozen=True, slots=True)
class Released:
    """The event that a lease is not held any more."""

    held: Held
    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The event that a claim waits no more, and was not granted."""

    claim: Claim
    reason: str
    """Why its delegation left."""


Effect = Granted | Released | Withdrawn


@dataclass(slots=True)
class _Line:
    """The claims that wait for one resource."""

    first: Claim
    last: Claim
    length: int = 1


@dataclass(slots=True)
class _Stake:
    """The leases that one delegation holds, and those that it waits for."""

    held: dict[str, Held] = field(default_factory=dict)
    waiting: dict[bytes, Claim] = field(default_factory=dict)


class LeaseTable:
    """The table of leases that are held, and of the claims that wait for them, first come first served.

    Promises: at most one holder a resource; tokens rise with each grant; a waiting claim is granted or withdrawn, and
    never forgotten; when a delegation has left, it is granted nothing, and what it has is taken from it as it is asked for.
    Does not notice that a delegation waits for something else than leases and its own sub-delegations, such as a place in a
    mailbox. A claim whose deadline has passed stays in line until its delegation ends, and is passed over.

    Args:
        parent_of: the request id of the delegation that an open one was made for; None without one.
        most: leases that one agent may hold and wait for.
        memory: counts the leases that are held; a claim for a free one is refused if its account has no room for it.
    """

    def __init__(
        self, parent_of: Callable[[bytes], bytes | None], *, most: int = MOST_LEASES, memory: MemoryQuota | None = None
    ) -> None:  # fmt: skip
        self._parent_of = parent_of
        self._most = most
        self._memory = MemoryQuota() if memory is None else memory
        self._held: dict[str, Held] = {}
        self._granted: dict[int, Held] = {}
        self._tokens: SortedKeys[int] = SortedKeys()
        self._lines: dict[str, _Line] = {}
        self._claims: dict[bytes, Claim] = {}
        self._counts: dict[str, int] = {}
        self.stakes: dict[bytes, _Stake] = {}
        """The delegations that hold or wait for something, by request id."""
        self.ending: OrderedDict[bytes, None] = OrderedDict()
        """Those of them that have left and still have something that is to be taken from them."""
        self.bound: Final[set[bytes]] = set()
        """Their request ids, and those of the claims that wait: call `left` when one of them ends."""
        self.token: int = 0
        """The highest that was granted."""
        self.looked_at: int = 0
        """Leases and claims that were looked through for the last claim, or passed over for the last releases."""

    # -- looking -------------------------------------------------------------------------------------------------

    def holder(self, resource: str) -> Held | None:
        """The lease on a resource, if it is held."""
        return self._held.get(resource)

    def line(self, resource: str) -> Iterator[Claim]:
        """The claims that wait for a resource, first come first."""
        line = self._lines.get(resource)
        claim = None if line is None else line.first
        while claim is not None:
            yield claim
            claim = claim.behind

    def waiting(self, ask: bytes) -> Claim | None:
        """The claim of that request id, if it waits."""
        return self._claims.get(ask)

    def weight(self, holder: bytes) -> int:
        """Leases that a delegation holds and waits for."""
        stake = self.stakes.get(holder)
        return 0 if stake is None else len(stake.held) + len(stake.waiting)

    def after(self, token: int) -> Iterator[Held]:
        """The leases whose tokens are above one, in the order in which they were granted; above 0 are all."""
        return map(self._granted.__getitem__, self._tokens.after(token))

    # -- claims --------------------------------------------------------------------------------------------------

    def claim(self, claim: Claim, now: float, *, may_wait: bool = True) -> list[Effect]:
        """Grant a lease, or let the claim wait: then nothing comes back.

        Raises:
            LeaseHeld: somebody holds it, and the claim may not wait.
            LeaseDeadlock: whoever holds it waits for the one that asks.
            TooManyLeases: its agent has as many as it may, or too many wait for the lease, or for what the claim's own
                delegation holds.
        """
        assert claim.ask not in self._claims
        self.looked_at = 0
        if self._counts.get(claim.agent, 0) >= self._most:
            msg = (
                f"{claim.agent} holds and waits for {self._most:,} leases, as many as an agent may: release some first."
            )
            raise TooManyLeases(msg)
        held = self._held.get(claim.resource)
        claim.since = now
        if held is None:
            self._check_room(claim)
            return [self._grant(claim, now)]
        if not may_wait:
            raise LeaseHeld(f"{_who(held)} holds the lease on {claim.resource!r}.")
        line = self._lines.get(claim.resource)
        if line is not None and line.length >= MOST_WAITING:
            raise TooManyLeases(f"{line.length:,} claims wait for the lease on {claim.resource!r}, as many as may.")
        self._check_circle(claim, held.holder if line is None else line.last.holder, held)
        self._wait(claim, line)
        return []

    def _check_room(self, claim: Claim) -> None:
        if not self._memory.has_room(claim.account, _size(claim.resource)):
            raise TooManyLeases(
                f"The leases that {claim.agent} and others of its key or node hold take as much memory as they may, with the "
                "monitors and observers there: release some first, or give the broker more (`total_bytes`, `memory_bytes`)."
            )

    def _grant(self, claim: Claim, now: float) -> Granted:
        assert claim.resource not in self._held, "a second writer"
        self.token += 1
        held = Held(claim.resource, claim.agent, claim.holder, self.token, now, claim.account)
        self._hold(held)
        return Granted(claim, held)

    def _hold(self, held: Held) -> None:
        self._held[held.resource] = self._granted[held.token] = held
        self._tokens.add(held.token)
        self._memory.add(held.account, held.size)
        self.stakes.setdefault(held.holder, _Stake()).held[held.resource] = held
        self.bound.add(held.holder)
        self._count(held.agent, 1)

    def _let_go(self, held: Held) -> None:
        del self._held[held.resource], self._granted[held.token]
        self._tokens.remove(held.token)
        self._memory.add(held.account, -held.size)
        del self.stakes[held.holder].held[held.resource]
        self._tidy(held.holder, held.agent)

    def _wait(self, claim: Claim, line: _Line | None) -> None:
        if line is None:
            self._lines[claim.resource] = _Line(claim, claim)
        else:
            line.last.behind, claim.ahead = claim, line.last
            line.last = claim
            line.length += 1
        self._claims[claim.ask] = claim
        self.stakes.setdefault(claim.holder, _Stake()).waiting[claim.ask] = claim
        self._count(claim.agent, 1)
        self.bound.update((claim.ask, claim.holder))

    def _check_circle(self, claim: Claim, ahead: bytes, held: Held) -> None:
        """Refuse to wait behind a delegation that waits for the claim.

        A delegation waits for its sub-delegations, for the lease that it claims, and so for everybody ahead in that line.
        The search follows those who wait for the claim, so it needs each delegation's parent, and no list of its children.
        """
        seen = {claim.holder}
        found = [claim.holder]
        while found:
            holder = found.pop()
            if holder == ahead:
                raise LeaseDeadlock(_circle(claim, held))
            stake = self.stakes.get(holder)
            self.looked_at += 1 if stake is None else len(stake.held) + len(stake.waiting)
            if self.looked_at > MOST_WAITING:
                raise TooManyLeases(
                    f"More than {MOST_WAITING:,} leases and claims hang on what this delegation of {claim.agent} holds: "
                    "release some before it waits."
                )
            for waiter in self._waiting_for(holder):
                if waiter not in seen:
                    seen.add(waiter)
                    found.append(waiter)

    def _waiting_for(self, holder: bytes) -> Iterator[bytes]:
        parent = self._parent_of(holder)
        if parent is not None:
            yield parent
        stake = self.stakes.get(holder)
        if stake is None:
            return
        for resource in stake.held:
            line = self._lines.get(resource)
            if line is not None:
                yield line.first.holder
        for claim in stake.waiting.values():
            if claim.behind is not None:
                yield claim.behind.holder

    # -- endings -------------------------------------------------------------------------------------------------

    def release(self, holder: bytes, token: int, now: float) -> list[Effect]:
        """Release a lease for the delegation that holds it; one that it does not hold is no error."""
        self.looked_at = 0
        held = self._granted.get(token)
        return [] if held is None or held.holder != holder else self._release(held, "released", now)

    def left(self, holder: bytes, reason: str, now: float, most: int = sys.maxsize) -> list[Effect]:
        """Release at most `most` leases of a delegation that has ended or runs again elsewhere, and its own claim.

        While it has more, it is in `ending`.
        """
        claim = self._claims.get(holder)
        if claim is not None:
            self._forget(claim)
        stake = self.stakes.get(holder)
        self.looked_at = 0
        if stake is None:
            return []
        self.ending[holder] = None
        effects: list[Effect] = []
        for claim in list(islice(stake.waiting.values(), most)):
            self._forget(claim)
            effects.append(Withdrawn(claim, reason))
        for held in list(islice(stake.held.values(), most - len(effects))):
            effects += self._release(held, reason, now)
        return effects

    def _release(self, held: Held, reason: str, now: float) -> list[Effect]:
        """Give a lease to the first in line that may have it: those who are late, or have left, are ended elsewhere."""
        self._let_go(held)
        for claim in self.line(held.resource):
            if claim.deadline > now and claim.holder not in self.ending:
                self._forget(claim)
                return [Released(held, reason), self._grant(claim, now)]
            self.looked_at += 1
        return [Released(held, reason)]

    def _forget(self, claim: Claim) -> None:
        """Take a claim out of its line."""
        del self._claims[claim.ask]
        self.bound.discard(claim.ask)
        self._step_out(claim)
        del self.stakes[claim.holder].waiting[claim.ask]
        self._tidy(claim.holder, claim.agent)

    def _step_out(self, claim: Claim) -> None:
        ahead, behind, line = claim.ahead, claim.behind, self._lines[claim.resource]
        line.length -= 1
        if ahead is not None:
            ahead.behind = behind
        elif behind is not None:
            line.first = behind
        else:
            del self._lines[claim.resource]
        if behind is not None:
            behind.ahead = ahead
        elif ahead is not None:
            line.last = ahead
        claim.ahead = claim.behind = None

    def _tidy(self, holder: bytes, agent: str) -> None:
        stake = self.stakes[holder]
        if not stake.held and not stake.waiting:
            del self.stakes[holder]
            self.bound.discard(holder)
            self.ending.pop(holder, None)
        self._count(agent, -1)

    def _count(self, agent: str, change: int) -> None:
        count = self._counts.get(agent, 0) + change
        assert count >= 0
        if count:
            self._counts[agent] = count
        else:
            del self._counts[agent]

    # -- recovery ------------------------------------------------------------------------------------------------

    def restore(
        self, resource: str, agent: str, holder: bytes, token: int, *, since: float = 0.0, account: Account | None = None
    ) -> None:  # fmt: skip
        """Enter a lease that was held before a restart, one for a resource; tokens go on above it."""
        self._hold(Held(resource, agent, holder, token, since, account or Account()))
        self.begin_above(token)

    def begin_above(self, token: int) -> None:
        """Let every token from now on be above this one."""
        self.token = max(self.token, token)


def _size(resource: str) -> int:
    size = len(resource.encode())  # `sys.getsizeof` says more once msgpack has left this form in the text
    return _OVERHEAD + (size if resource.isascii() else 2 * size)


def _who(held: Held) -> str:
    return f"{held.agent} (delegation {held.holder.hex()[:8]}, token {held.token})"


def _circle(claim: Claim, held: Held) -> str:
    if held.holder == claim.holder:
        return f"This delegation holds the lease on {claim.resource!r} already, and would wait for itself."
    return (
        f"{_who(held)} holds the lease on {claim.resource!r} and waits for this delegation of {claim.agent}, "
        "if only by others: release it before you delegate, and take leases in one order everywhere."
    )
