"""The state of a node's session with a broker, as the node's parts share it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.envelope.payload import MAX_PAYLOAD
from ether_broker.errors import InvalidEnvelope
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.heartbeat import LATEST_CLOCK

__all__ = ["SessionState", "Welcome"]


class Welcome(BaseModel):
    """A broker's WELCOME, checked: nobody has shown yet that it is a broker."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    broker: Annotated[str, Field(max_length=256)]
    session: Annotated[int, Field(gt=0, lt=1 << 64)]
    clock: Annotated[float, Field(ge=0, le=LATEST_CLOCK)]
    journal: Annotated[str, Field(max_length=256)]
    max_payload: Annotated[int, Field(gt=0)]
    default_timeout: Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT)]
    timing: Timing

    @classmethod
    def read(cls, said: Any) -> Welcome:
        """What a broker says.

        Raises:
            InvalidEnvelope: a field is missing, of another type, or cannot be.
        """
        if not isinstance(said, dict):
            raise InvalidEnvelope("The broker's WELCOME is no map.")
        try:
            return cls.model_validate({**said, "timing": Timing.of_welcome(said)})
        except ValidationError as error:
            [first, *_] = error.errors(include_url=False)
            where = ".".join(map(str, first["loc"]))
            raise InvalidEnvelope(f"The broker's WELCOME cannot be followed: {where}: {first['msg']}.") from None


class SessionState:
    """The state of a node's session: what WELCOME said, when the broker was last heard, whether the node is leaving.

    The session writes it, and the node, which hears everything; the other parts read it.
    """

    __slots__ = (
        "broker", "default_timeout", "heard", "is_draining", "journal", "limit", "number", "timing", "trouble",
    )  # fmt: skip

    def __init__(self) -> None:
        self.broker: str = ""
        """The broker's incarnation."""
        self.number: int = 0
        """The id that it gave the session."""
        self.journal: str = ""
        """The identity of its journal; empty when what it knows dies with it."""
        self.limit: int = MAX_PAYLOAD
        """Bytes that a payload may have."""
        self.default_timeout: float = 60.0
        """Seconds that a delegation has when nothing else is said."""
        self.timing: Timing = DEFAULT_TIMING
        """How often both show that they live, and for how long each waits for the other."""
        self.trouble: str = ""
        """Why its journal cannot be written now, as it said last; empty when it can."""
        self.heard: float = 0.0
        """When something last came from it, by this node's clock."""
        self.is_draining: bool = False
        """Whether the node takes and begins nothing new."""

    def begin(self, welcome: Welcome) -> None:
        """Take over what a WELCOME says."""
        self.timing = welcome.timing
        self.broker, self.number, self.journal = welcome.broker, welcome.session, welcome.journal
        self.trouble = ""
        self.limit = welcome.max_payload
        self.default_timeout = welcome.default_timeout

    def goes_on(self, welcome: Welcome) -> bool:
        """Whether the broker that says this knows what we had with the one before: it is the same, or has its journal."""
        return welcome.broker == self.broker or (self.journal != "" and welcome.journal == self.journal)

    def is_heard(self, now: float) -> bool:
        """Whether the broker has not been silent for so long that it must be gone."""
        return now - self.heard < self.timing.silence
