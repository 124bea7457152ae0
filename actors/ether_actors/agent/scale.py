"""The scale of an agent: how many instances it may have."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from ether_actors.number_check import check_number, is_count
from ether_broker.errors import InvalidSpec
from ether_broker.name_hint import hint_fields

__all__ = ["Scale"]

_MOST: Final = 1_000


@hint_fields
@dataclass(frozen=True, slots=True)
class Scale:
    """The bounds within which the instances of an agent come and go with what waits and runs.

    Instances are added at once when more delegations wait or run than `per` for each of them. One is taken away when one fewer
    would have been enough for `cooldown` seconds, and then the next after as long again.

    Example:
        with Runtime() as bus:
            bus.start_many(Counter, scale=Scale(max=8, per=2))
            assert [response.data for response in bus.map("text.count", [{"text": "two words"}] * 3)] == [2, 2, 2]

    Raises:
        InvalidSpec: a value is out of its range, or `min` is above `max`.
    """

    max: int
    """Instances at most, up to 1,000."""
    min: int = 1
    """Instances at least, 1 or more: nobody can delegate to an agent that has none."""
    per: int = 4
    """Delegations that wait or run for each instance before there is another."""
    cooldown: float = 30.0
    """Seconds in which one instance fewer has to have been enough without a break before one is taken away; while the node
    hears of no broker, nobody knows."""

    def __post_init__(self) -> None:
        """Check the values."""
        low = ": a delegation to an agent without an instance has no holder" if self.min == 0 else ""
        check_number("Scale", "min", self.min, f"a whole number of instances, 1 or more{low}", is_count)
        wanted = f"a whole number of instances, 1 to {_MOST:,}"
        check_number("Scale", "max", self.max, wanted, lambda value: is_count(value) and value <= _MOST)
        check_number("Scale", "per", self.per, "a whole number of delegations, 1 or more", is_count)
        check_number("Scale", "cooldown", self.cooldown, "seconds above 0", lambda value: 0 < value < inf)
        if self.min > self.max:
            raise InvalidSpec(f"Scale: min is {self.min} and max is {self.max}; give a min of {self.max} or less.")
