"""Dead letters: envelopes that could change nothing any more, kept to be looked at and sent again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, unique

from ether_broker.errors import UnknownDeadLetter

__all__ = ["DeadLetter", "DeadLetters", "Reason"]


@unique
class Reason(StrEnum):
    """The reasons for which an envelope is kept as a dead letter."""

    UNKNOWN_AGENT = "unknown_agent"
    """A delegation to an agent that is not there."""
    NO_HOLDER = "no_holder"
    """A delegation of a capability that nobody holds."""
    EXPIRED = "expired"
    """A delegation whose deadline passed before it was started."""
    NODE_LOST = "node_lost"
    """A delegation that was with a node that went down, and may not run twice."""
    OVERLOAD = "overload"
    """A delegation past a bound; the sender was told."""
    DUPLICATE = "duplicate"
    """A delegation or outcome that came before; it folded into the first."""
    LATE = "late"
    """A response to a delegation that had ended."""
    UNKNOWN_REQUEST = "unknown_request"
    """A response or cancellation of something that was never asked, or long ago."""
    NOT_THE_SPECIALIST = "not_the_specialist"
    """A response from an agent that the delegation was not given to."""
    FORGED = "forged"
    """An envelope in the name of an agent that the connection did not register (G6)."""
    FORBIDDEN = "forbidden"
    """A delegation that the access list does not have."""
    ILLEGAL = "illegal"
    """An envelope that its state or kind does not allow."""
    UNREACHABLE = "unreachable"
    """A response whose delegator is gone."""

    @property
    def can_redrive(self) -> bool:
        """Whether sending it again has a meaning: it is a delegation that was not worked on."""
        return self in _REDRIVABLE


_REDRIVABLE = frozenset(
    {Reason.UNKNOWN_AGENT, Reason.NO_HOLDER, Reason.EXPIRED, Reason.NODE_LOST, Reason.OVERLOAD}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An envelope that could change nothing any more, with the reason."""

    number: int
    """Rises from 1; never used twice by one broker."""
    reason: Reason
    time: float
    """Seconds since 1970 in UTC."""
    node: str
    """The node it came from."""
    envelope: bytes
    detail: str = ""


class DeadLetters:
    """The store of the newest dead letters, bounded in count and in bytes; the oldest make room."""

    def __init__(self, *, count: int = 10_000, size: int = 64 << 20) -> None:
        self._letters: OrderedDict[int, DeadLetter] = OrderedDict()
        self._count = count
        self._size = size
        self._bytes = 0
        self._last = 0
        self.totals: dict[Reason, int] = {}
        """How many there ever were: {reason: count}."""

    def __len__(self) -> int:
        return len(self._letters)

    def keep(self, reason: Reason, envelope: bytes, *, node: str, time: float, detail: str = "") -> DeadLetter:
        """Keep an envelope."""
        self._last += 1
        letter = DeadLetter(self._last, reason, time, node, envelope, detail)
        self._letters[letter.number] = letter
        self._bytes += _size(letter)
        self.totals[reason] = self.totals.get(reason, 0) + 1
        while len(self._letters) > self._count or (self._bytes > self._size and len(self._letters) > 1):
            self._bytes -= _size(self._letters.popitem(last=False)[1])
        return letter

    def below(self, number: int | None = None) -> Iterator[tuple[int, DeadLetter | None]]:
        """Those with numbers below one, or all, the newest first; None for each that was taken out."""
        newest = self._last if number is None else min(number - 1, self._last)
        oldest = next(iter(self._letters), newest + 1)
        return ((each, self._letters.get(each)) for each in range(newest, oldest - 1, -1))

    def get(self, number: int) -> DeadLetter:
        """The dead letter of that number.

        Raises:
            UnknownDeadLetter: there is none, or it has made room for newer ones.
        """
        letter = self._letters.get(number)
        if letter is None:
            held = f"{next(iter(self._letters))} to {self._last}" if self._letters else "none"
            raise UnknownDeadLetter(f"There is no dead letter {number} (held: {held}).")
        return letter

    def discard(self, number: int) -> DeadLetter:
        """Take a dead letter out, as when it has been redriven.

        Raises:
            UnknownDeadLetter: as `get`.
        """
        letter = self.get(number)
        del self._letters[number]
        self._bytes -= _size(letter)
        return letter


def _size(letter: DeadLetter) -> int:
    return len(letter.envelope) + len(letter.detail)
