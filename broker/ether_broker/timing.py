"""Timing: how often a broker and its nodes show that they live, and for how long each waits for the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from ether_broker.errors import InvalidEnvelope, InvalidSpec
from ether_broker.name_hint import hint_fields
from ether_broker.number import is_number

__all__ = ["DEFAULT_TIMING", "Timing"]

_SHORTEST: Final = 0.2
"""Seconds between two heartbeats at least: a node looks at its clock each 0.1 s."""
_LONGEST: Final = 3600.0
"""Seconds that each may be: a client keeps what any broker tells it."""
_RECLAIM: Final = 10.0


@hint_fields
@dataclass(frozen=True, slots=True)
class Timing:
    """The durations that a broker and all of its nodes keep, in seconds.

    Only the broker is configured: its WELCOME has the values, and each node and client that joins uses them.
    docs/clusters.md, "Timing", explains each field. None is longer than an hour.

        slow = Timing(heartbeat=5.0, silence=15.0)  # for a bus over a slow network
        with Runtime(timing=slow) as bus:
            bus.start(Counter)
            assert bus.delegate("text.count", {"text": "two words"}).result().ok

    Raises:
        InvalidSpec: a value is out of its bounds; the message names the field and the bound.
    """

    heartbeat: float = 1.0
    """The interval between two heartbeats; 0.2 or more."""
    silence: float = 3.0
    """The longest time without a message from the other side; more than two heartbeats."""
    patience: float | None = None
    """The time to reconnect after a connection broke; 0 to `silence`. None is two heartbeats over TCP and 0 elsewhere."""
    grace: float = 2.0
    """The time after a deadline in which a delegator waits for the broker's TIMEOUT; 0 or more."""
    max_backoff: float = 8.0
    """The longest pause between two retries; 0.25 or more."""

    def __post_init__(self) -> None:
        """Check."""
        for field in fields(self):
            least = {"heartbeat": _SHORTEST, "max_backoff": 0.25}.get(field.name, 0.0)
            self._check(field.name, least)
        if self.silence <= 2 * self.heartbeat:
            raise InvalidSpec(
                f"timing.silence is {self.silence:g} s and timing.heartbeat {self.heartbeat:g} s: a silence has to be longer "
                f"than two heartbeats, here {2 * self.heartbeat:g} s, or one that comes late ends a session."
            )
        if self.patience is not None and self.patience > self.silence:
            raise InvalidSpec(
                f"timing.patience is {self.patience:g} s and timing.silence {self.silence:g} s: a node without a "
                f"connection is silent, so it is lost after the silence. Give {self.silence:g} s or less."
            )

    def _check(self, name: str, least: float) -> None:
        value: object = getattr(self, name)
        if value is None and name == "patience":
            return
        if not is_number(value) or not least <= value <= _LONGEST:
            raise InvalidSpec(f"timing.{name} is {repr(value)[:40]}: give seconds, {least:g} to {_LONGEST:g}.")

    @property
    def reclaim(self) -> float:
        """The time that nodes have to return to a restarted broker: 10, or three silences if those are longer."""
        return max(_RECLAIM, 3 * self.silence)

    def over(self, endpoint: str) -> Timing:
        """The same durations, with the `patience` of connections to this address if it is None."""
        if self.patience is not None:
            return self
        return replace(self, patience=2 * self.heartbeat if endpoint.startswith("tcp://") else 0.0)

    def as_dict(self) -> dict[str, Any]:
        """The fields, as WELCOME has them."""
        return asdict(self)

    @classmethod
    def of_welcome(cls, welcome: Mapping[str, Any]) -> Timing:
        """The values in a broker's WELCOME, with the default for each that it does not name.

        Raises:
            InvalidEnvelope: a value is out of its bounds.
        """
        try:
            return cls(**{field.name: welcome[field.name] for field in fields(cls) if field.name in welcome})
        except InvalidSpec as error:
            raise InvalidEnvelope(f"The broker's WELCOME cannot be followed: {error}") from None


DEFAULT_TIMING: Final = Timing()
"""The defaults of all fields."""
