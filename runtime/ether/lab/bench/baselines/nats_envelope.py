"""The envelopes of the NATS contender: packed and validated as the bus does it, or passed as they are.

The codec, the models and the handler's checks are the bus's, so that the difference is the way between the two ends.
"""

from __future__ import annotations

import time
from typing import Any, Final

from ether.lab.harness.workload import OPAQUE, EchoAgent, body_of, capability_of
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.wire.codec import pack_delegation, pack_response, read_delegation, read_response
from ether_broker.wire.frame import read_header

__all__ = ["PLAIN", "Envelopes", "Notation", "notation_of"]

PLAIN: Final = "plain"
"""The kind of body that is no envelope at all: the 1 KB of bytes as they are."""
_TIMEOUT: Final = 60.0


class Notation:
    """The encoding that both ends of the contender use: here no envelope, so what NATS itself costs."""

    subject: str = f"bench.{PLAIN}"

    def ask(self) -> bytes:
        """Write a question."""
        body: bytes = body_of(OPAQUE)
        return body

    def answer(self, question: bytes) -> bytes:
        """Read a question, do the work, and write the answer."""
        return question

    def check(self, answer: bytes) -> None:
        """Read an answer."""


class Envelopes(Notation):
    """The bus's envelopes: made and validated at the delegator's, read and validated at the specialist's, and back."""

    def __init__(self, kind: str) -> None:
        self._capability = capability_of(kind)
        self.subject: str = self._capability
        self._body: Any = body_of(kind)
        self._agent = object.__new__(EchoAgent)  # its methods need no actor
        self._handler = EchoAgent.handlers()[self._capability]

    def ask(self) -> bytes:
        """A delegation with everything that `Runtime.delegate` puts in."""
        wall = time.time()
        delegation = Delegation.parse({
            "request_id": to_text(new_id()), "from_agent": "bench-client", "capability": self._capability,
            "params": self._body, "timestamp": wall, "timeout": _TIMEOUT,
        })  # fmt: skip
        return pack_delegation(delegation, deadline=wall + _TIMEOUT)

    def answer(self, question: bytes) -> bytes:
        """Validate the delegation and its params, run the handler, validate its result, make a response."""
        started = time.monotonic()
        header = read_header(question)
        delegation = read_delegation(header, question)
        arguments = self._handler.arguments(delegation.params_payload.packed)
        data = self._handler.result(self._handler.function(self._agent, **arguments))
        response = Response(
            request_id=delegation.request_id, status=Status.COMPLETED, from_agent="bench-worker", data=data,
            elapsed=time.monotonic() - started, attempt=delegation.attempt, timestamp=time.time(),
        )  # fmt: skip
        return pack_response(response, capability=header.capability, target=header.source)

    def check(self, answer: bytes) -> None:
        """Validate the response."""
        response = read_response(read_header(answer), answer)
        assert response.ok


def notation_of(kind: str) -> Notation:
    """The notation for bodies of that kind."""
    return Notation() if kind == PLAIN else Envelopes(kind)
