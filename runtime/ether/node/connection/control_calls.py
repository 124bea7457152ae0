"""Control calls: envelopes to the broker that it answers.

ask ── token ──► broker ── the same token ──► Node.received ──► answered ──► whoever asked wakes

That the broker does not know the session is no answer: the session starts again, and there says `unanswered` again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether_actors.execution.resources import Resources
from ether_actors.threads.latch import Latch
from ether_broker import errors
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.ids import new_id
from ether_broker.errors import EtherError
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["PATIENCE", "ControlCalls", "Reply", "refusal"]

PATIENCE: Final = 10.0
"""Seconds in which the broker must have answered."""
_LAST_PATIENCE: Final = 1.0
_NOBODY: Final[Mapping[bytes, Callable[[], None]]] = MappingProxyType({})
_LEFT: Final = "The node has left the bus: the broker answers it nothing any more."
_CODES: Final = {
    error.code: error
    for error in (
        errors.DuplicateAgent, errors.InvalidEnvelope, errors.InvalidManifest, errors.IncompatibleVersion,
        errors.MalformedFrame, errors.AccessDenied, errors.AuthenticationFailed, errors.NameTaken,
    )
}  # fmt: skip


class Reply:
    """The answer to a control envelope, once it is there."""

    __slots__ = ("body", "envelope", "event", "kind", "on_taken")

    def __init__(self, envelope: bytes, on_taken: Callable[[], None] | None = None) -> None:
        self.envelope: bytes = envelope
        """What was asked."""
        self.on_taken: Callable[[], None] | None = on_taken
        """Called in the receiving thread, before anything else is read, when the answer is there and is no ERROR."""
        self.event: Latch = Latch()
        """Set when the answer is there."""
        self.kind: int = 0
        self.body: dict[str, Any] = {}


def refusal(body: dict[str, Any], default: type[EtherError]) -> EtherError:
    """The error that an ERROR envelope's body tells of."""
    return _CODES.get(str(body.get("code")), default)(str(body.get("message", "the broker said no more")))


class ControlCalls:
    """The control calls of a node that wait for the broker's answer: {token: reply}."""

    def __init__(self, sender: Sender, resources: Resources, session_state: SessionState) -> None:
        self._sender = sender
        self._resources = resources
        self._session_state = session_state
        self._open: dict[bytes, Reply] = {}
        self._is_closed = False

    def close(self) -> None:
        """Let nobody wait any more: the node has left, and the broker answers nothing."""
        self._is_closed = True
        for reply in list(self._open.values()):
            reply.event.set()

    def ask(
        self, envelopes: list[bytes], tokens: list[bytes], on_taken: Mapping[bytes, Callable[[], None]] = _NOBODY
    ) -> list[Reply]:
        """Send control envelopes and wait for their answers; each has the token of its place as its request id.

        Args:
            envelopes: what is asked.
            tokens: of each of them.
            on_taken: {token: `Reply.on_taken`}.

        Raises:
            BrokerUnavailable: an answer did not come within 10 s, in which the broker may have been restarted.
            Closed: the node has left.
        """
        replies = [Reply(envelope, on_taken.get(token)) for envelope, token in zip(envelopes, tokens, strict=True)]
        self._open.update(zip(tokens, replies, strict=True))
        try:
            if self._is_closed:
                raise errors.Closed(_LEFT)
            for envelope in envelopes:
                self._sender.link.send(envelope, more_follows=True)
            self._sender.flush()
            end = time.monotonic() + PATIENCE
            for reply in replies:
                if not self._resources.wait(reply.event, max(0.0, end - time.monotonic())):
                    msg = f"The broker did not answer within {PATIENCE:g} s; it may be restarting: try again."
                    raise errors.BrokerUnavailable(msg)
                if self._is_closed and not reply.kind:
                    raise errors.Closed(_LEFT)
        finally:
            for token in tokens:
                self._open.pop(token, None)
        return replies

    def await_deliveries(self) -> bool:
        """Wait until everything is here that the broker sent before it read our last word; False if it does not answer.

        The broker answers a monitor of nobody at once, and the answer comes behind all that was under way.
        """
        if self._sender.link.is_receiving_thread or not self._session_state.is_heard(self._resources.monotonic()):
            return False
        token = new_id()
        reply = self._open[token] = Reply(pack_envelope(Kind.MONITOR, request_id=token, target=b"node:"))
        self._sender.send_now(reply.envelope)
        self._resources.wait(reply.event, _LAST_PATIENCE)
        self._open.pop(token, None)
        return reply.event.is_set()

    def unanswered(self, kind: Kind) -> list[bytes]:
        """The envelopes of a kind whose answers are waited for."""
        open_ = [reply.envelope for reply in list(self._open.values()) if not reply.event.is_set()]
        return [envelope for envelope in open_ if envelope[0] == kind]

    def answered(self, header: Header, envelope: bytes) -> bool:
        """Take an envelope that may be an answer; whether somebody waits for it."""
        reply = self._open.get(header.request_id)
        if reply is None:
            return False
        body = read_map(envelope[header.body :], CONTROL)
        if header.kind == Kind.ERROR and body.get("code") == errors.NoSession.code:
            return False
        reply.kind, reply.body = header.kind, body
        if reply.on_taken is not None and header.kind != Kind.ERROR:
            reply.on_taken()
        reply.event.set()
        return True
