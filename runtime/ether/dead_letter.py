"""A dead letter as its reader sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.response import Response
from ether_broker.errors import UnknownDeadLetter, UsageError
from ether_broker.wire.codec import read_delegation
from ether_broker.wire.frame import Kind, read_header

__all__ = ["DeadLetterView"]


class DeadLetterView:
    """A dead letter as `bus.dead_letters` lists it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        """Everything as the broker tells it; JSON-able but for `envelope`."""
        self.number: int = fields["number"]
        self.reason: str = fields["reason"]
        self.capability: str = fields["capability"]
        self.request_id: str = fields["request_id"]
        self.can_redrive: bool = fields["can_redrive"]

    @classmethod
    def of(cls, ask: Callable[[int], Response]) -> Self:
        """Read what the broker answers, which is a part of the envelope at a time.

        Args:
            ask: gives the answer that begins at this byte of the envelope.

        Raises:
            UnknownDeadLetter: there is none of that number, or not any more.
        """
        envelope = b""
        while True:
            response = ask(len(envelope))
            if response.error is not None and response.error.code == UnknownDeadLetter.code:
                raise UnknownDeadLetter(response.error.message)
            fields = dict(response.unwrap().data)
            envelope += fields.pop("envelope")
            if len(envelope) >= fields["size"]:
                del fields["offset"]
                return cls({**fields, "envelope": envelope})

    @property
    def delegation(self) -> Delegation:
        """The delegation that died.

        Raises:
            UsageError: it is no delegation, or was listed without its envelope.
        """
        envelope = self.fields.get("envelope")
        header = None if envelope is None else read_header(envelope)
        if header is None or header.kind != Kind.DELEGATION:
            raise UsageError(f"Dead letter {self.number} is a {self.fields['kind'].lower()}, not a delegation.")
        assert envelope is not None
        return read_delegation(header, envelope)

    def again(self, request_id: str, timeout: float | None) -> Delegation:
        """The same work as a new delegation.

        Raises:
            UsageError: sending it again has no meaning.
        """
        if not self.can_redrive:
            msg = f"Dead letter {self.number} ({self.reason}) cannot be redriven: only work that was not done can."
            raise UsageError(msg)
        changes: dict[str, Any] = {
            "request_id": request_id,
            "parent": None,
            "attempt": 1,
            "from_agent": None,
            "timestamp": None,
        }
        if timeout is not None:
            changes["timeout"] = timeout
        return self.delegation.model_copy(update=changes)

    def __repr__(self) -> str:
        return f"<DeadLetter {self.number} {self.reason} {self.capability} {self.request_id}>"
