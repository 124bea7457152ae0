"""Bugs planted on purpose, one or more for each invariant: a simulator that does not find them proves nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ether_actors.deadlines import SLOT, Deadlines
from ether_actors.delivery import Delivery
from ether_actors.ended import Ended
from ether_actors.leases import Leases
from ether_actors.reassignment import Reassignment
from ether_actors.rulings import Rulings
from ether_broker.mailbox import Mailbox, Offer
from ether_broker.router import Router
from ether_broker.wire import Kind

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True)
class Mutation:
    """A bug and what ought to find it."""

    name: str
    invariants: frozenset[str]
    """Which of them it breaks."""
    owner: type
    method: str
    make: Callable[[Any], Any]
    """The method with the bug, from the one without."""

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """With the bug."""
        before = getattr(self.owner, self.method)
        setattr(self.owner, self.method, self.make(before))
        try:
            yield
        finally:
            setattr(self.owner, self.method, before)


def _release_early(release: Any) -> Any:
    """Receipts and outcomes leave before the commit that holds what they tell of."""

    def mutated(self: Router, ticket: int) -> None:
        release(self, 1 << 60)

    return mutated


def _run_again(lost: Any) -> Any:
    """What had been sent to a node that is lost is given to another, whatever it is."""

    def mutated(self: Reassignment, agent: Any, *more: Any) -> None:
        for entry in agent.work:
            entry.idempotent = True
        lost(self, agent, *more)

    return mutated


def _forget_ended(delegation: Any) -> Any:
    """A delegation that is sent again after its outcome is taken for a new one."""

    def mutated(self: Rulings, session: Any, header: Any, envelope: bytes) -> None:
        records = self._records
        ended, records.ended = records.ended, Ended()  # the bug
        try:
            delegation(self, session, header, envelope)
        finally:
            records.ended = ended

    return mutated


def _late_slot(set_: Any) -> Any:
    """A deadline is noticed five slots late."""

    def mutated(self: Deadlines[Any], key: bytes, at: float, item: Any) -> int:
        return set_(self, key, at + 5 * SLOT, item)  # type: ignore[no-any-return]

    return mutated


def _early_slot(set_: Any) -> Any:
    """A deadline is noticed two slots early."""

    def mutated(self: Deadlines[Any], key: bytes, at: float, item: Any) -> int:
        return set_(self, key, at - 2 * SLOT, item)  # type: ignore[no-any-return]

    return mutated


def _wrong_end(_put_back: Any) -> Any:
    """What comes back into a mailbox has to wait behind what came after it."""
    return Mailbox.restore


def _tap_at_once(send: Any) -> Any:
    """Observers see what is not durable; after a crash the same numbers are another's."""

    def mutated(self: Router, session: Any, envelope: bytes) -> None:
        if envelope[0] == Kind.TAP:
            self.send_aside(session, envelope)
        else:
            send(self, session, envelope)

    return mutated


def _no_bound(offer: Any) -> Any:
    """A full mailbox takes more."""

    def mutated(self: Mailbox[Any], letter: Any) -> Offer:
        found = offer(self, letter)
        if found is Offer.FULL:
            self.restore(letter)
            return Offer.QUEUED
        return found  # type: ignore[no-any-return]

    return mutated


def _leaky_credit(forget: Any) -> Any:
    """The credit of work that ended without its node is never given back."""
    return lambda self: None


def _forget_leases(_restore: Any) -> Any:
    """A broker that is started anew knows nothing of the leases that are held."""
    return lambda self, *lease: None


def _keep_children(_end_children: Any) -> Any:
    """What ends leaves its sub-delegations running."""
    return lambda self, entry, message="": None


MUTATIONS: Final = (
    Mutation("receipts before the commit", frozenset({"no loss", "complete tap"}), Router, "release", _release_early),
    Mutation("node loss runs everything again", frozenset({"at most once"}), Reassignment, "lost", _run_again),
    Mutation("ended delegations are forgotten", frozenset({"one outcome"}), Rulings, "delegation", _forget_ended),
    Mutation("deadlines five slots late", frozenset({"deadline"}), Deadlines, "set", _late_slot),
    Mutation("deadlines two slots early", frozenset({"deadline"}), Deadlines, "set", _early_slot),
    Mutation("put back at the wrong end", frozenset({"order"}), Mailbox, "put_back", _wrong_end),
    Mutation("observers before the commit", frozenset({"complete tap"}), Router, "send", _tap_at_once),
    Mutation("mailboxes without a bound", frozenset({"bounded queues"}), Mailbox, "offer", _no_bound),
    Mutation("credit is never given back", frozenset({"liveness", "accounting"}), Mailbox, "release", _leaky_credit),
    Mutation("leases forgotten in a restart", frozenset({"lease exclusion"}), Leases, "restore", _forget_leases),
    Mutation("sub-delegations outlive their parent", frozenset({"one outcome"}), Delivery, "end_children", _keep_children),
)  # fmt: skip
