"""The work item of a cell: a delegation at its specialist's node."""

from __future__ import annotations

import threading
from typing import Any

from ether_actors.task.parameter_errors import ParameterError
from ether_actors.task.task import Task
from ether_broker.envelope.delegation import Delegation
from ether_broker.wire.codec import read_delegation
from ether_broker.wire.frame import Header
from ether_broker.wire.saved_state import BroughtState

__all__ = ["Work", "check_seal"]

_ending = threading.Lock()


class Work:
    """A delegation at its specialist's node, from its arrival to its answer."""

    __slots__ = (
        "accepted_at", "cancelled", "cancelled_at", "envelope", "external_id", "header", "is_disowned", "is_orphaned",
        "is_place_free", "keeper", "runner", "state", "task",
    )  # fmt: skip

    def __init__(self, header: Header, envelope: bytes) -> None:
        self.header: Header = header
        self.envelope: bytes = envelope
        self.external_id: str | None = None
        """The id that the delegator's own vocabulary has for it, once it has been read."""
        self.task: Task | None = None
        self.keeper: Any = None
        """What keeps the state of the agent's incarnation that works on it, if that has one."""
        self.state: BroughtState | None = None
        """What of its agent is to be saved with its outcome."""
        self.accepted_at: float = 0.0
        """Seconds by the node's clock, when ACCEPTED was last said; 0.0 is never."""
        self.runner: Any = None
        """The asyncio task of an `async def` handler."""
        self.cancelled: bool = False
        """Whether its delegation has ended without it."""
        self.cancelled_at: float = 0.0
        self.is_orphaned: bool = False
        """Whether its agent crashed while it ran: it belongs to an incarnation that is no more."""
        self.is_disowned: bool = False
        """Whether it was asked for by a broker that was lost, and nothing is said of it."""
        self.is_place_free: bool = False
        """Whether its place is free again: its handler has ended, or was given up."""

    @property
    def has_begun(self) -> bool:
        """Whether an incarnation of the agent has it, if only to check its parameters."""
        return self.task is not None or self.keeper is not None

    def end(self) -> bool:
        """Note that it is over; whether the caller is the first to do so."""
        with _ending:
            was, self.is_place_free = self.is_place_free, True
        return not was

    def read(self) -> Delegation:
        """What is asked, whole.

        Raises:
            ParameterError: the context slice is not the one that the delegator sealed (G5).
            EtherError: it cannot be read.
        """
        request = read_delegation(self.header, self.envelope)
        self.external_id = request.external_id
        check_seal(request)
        return request


def check_seal(request: Delegation) -> None:
    """Check that the context slice is the one that the delegator sealed (G5).

    Raises:
        ParameterError: it is not.
    """
    if request.context_sha256 is not None:
        digest = request.context_payload.digest()
        if request.context_sha256 != digest:
            message = f"the context slice has digest {digest} and the delegator sealed {request.context_sha256}"
            raise ParameterError(message, unexpected=("context_slice",))
