"""A node that says nothing in which a terminal would not find something to obey."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import Any, Final

import zmq

from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Header, Kind, pack_envelope, read_frame, read_header
from ether_broker.wire.saved_state import BroughtState, join_state
from tests.hostile_text import HOSTILE
from tests.runtime.raw_peer import RawPeer

__all__ = ["ANSWERS", "WRITTEN", "HostileNode", "outcome"]

NODE: Final = "mallory"
_BEAT: Final = 0.5
_EVIL: Final = HOSTILE.encode()[:200]
_ERROR: Final = {"code": HOSTILE, "message": HOSTILE, "traceback": f"Traceback:\n{HOSTILE}"}
ANSWERS: Final[dict[str, tuple[Status, dict[str, Any]]]] = {
    "evil.done": (Status.COMPLETED, {"data": pack({HOSTILE: [HOSTILE]}), "artifacts": [{"path": HOSTILE, "sha256": "0" * 64}]}),
    "evil.text": (Status.COMPLETED, {"data": pack(HOSTILE), "metadata": {HOSTILE: HOSTILE}, "tools_used": [HOSTILE]}),
    "evil.part": (Status.PARTIAL, {"unresolved": [HOSTILE], "data": pack([HOSTILE])}),
    "evil.asks": (Status.NEEDS_INPUT, {"questions": [HOSTILE]}),
    "evil.fails": (Status.FAILED_EXECUTION, {"error": _ERROR}),
    "evil.refuses": (Status.REJECTED_CONTEXT, {"error": _ERROR, "required_fields": [HOSTILE, f"--{HOSTILE}"]}),
    "evil.numbers": (Status.COMPLETED, {"elapsed": 1e308, "timestamp": -1e308, "metrics": {"cost": 1e308}}),
    "evil.later": (Status.REJECTED_OVERLOAD, {"retry_after": 1e308, "elapsed": math.inf, "timestamp": math.inf}),
    "evil.state": (Status.COMPLETED, {"data": pack({b"evil": HOSTILE})}),
    "evil.data": (Status.COMPLETED, {"data": b"\xd6\xff\x00\x00\x00\x01"}),
    "evil.names": (Status.REJECTED_CAPABILITY, {"error": _ERROR, "alternative_agent": HOSTILE}),
    "evil.odd": (Status.COMPLETED, {HOSTILE: HOSTILE, "confidence": HOSTILE}),
}  # fmt: skip
"""{capability: what it is answered}; the last two are no valid responses."""

WRITTEN: Final = {HOSTILE: [HOSTILE, math.nan], b"evil": HOSTILE, 7: HOSTILE.encode()[:20]}
"""What it saves as its state, and publishes."""


def outcome(capability: str) -> dict[str, Any]:
    """The body of its outcome."""
    return {"summary": HOSTILE, "elapsed": 0.5, **ANSWERS[capability][1]}


class HostileNode:
    """Registers agents, answers what they are asked, and sends signs of life, in a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        self._peer = RawPeer(endpoint)
        self._peer.hello(NODE, host=HOSTILE, pid=HOSTILE, python=HOSTILE, version=HOSTILE)
        capabilities = [
            {"name": name, "description": HOSTILE, "constraints": [HOSTILE],
             "params_schema": {"title": HOSTILE, "properties": {HOSTILE: {"default": HOSTILE}}}}
            for name in ANSWERS
        ]  # fmt: skip
        manifest = {"role": HOSTILE, "description": HOSTILE, "capabilities": capabilities}
        self._register(b"mallory", manifest)
        self._register(b"x" + _EVIL, manifest)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _register(self, agent: bytes, manifest: dict[str, Any]) -> None:
        self._peer.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=agent, body=pack(manifest)))
        self._peer.expect(Kind.REGISTERED, Kind.ERROR)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._peer.__exit__(None, None, None)

    def _run(self) -> None:
        self._delegate()
        beat = 0.0
        while not self._ended.is_set():
            if time.monotonic() > beat:
                beat = time.monotonic() + _BEAT
                self._peer.send(pack_envelope(Kind.HEARTBEAT, body=pack({"agents": {HOSTILE: {"running": HOSTILE}}})))
            if self._peer.listen.poll(50):
                for envelope in read_frame(self._peer.listen.recv()).envelopes:
                    header = read_header(envelope)
                    if header.kind == Kind.DELEGATION:
                        self._answer(header)

    def _delegate(self) -> None:
        """Delegations that are refused leave dead letters, and their bytes in the journal."""
        body = pack({"params": pack({HOSTILE: HOSTILE}), "objective": HOSTILE, "workflow": HOSTILE})
        for source, target, capability in (
            (b"mallory", b"", _EVIL), (b"mallory", _EVIL, b"evil.done"), (b"mallory", b"nobody", b"evil.done"),
            (_EVIL, b"", b"evil.done"), (b"stranger", b"", b"evil.done"), (b"mallory", b"mallory", b"evil.nothing"),
            (b"mallory", b"", b"evil.done"), (b"mallory", b"", b"nobody.can"),
        ):  # fmt: skip
            self._peer.send(
                pack_envelope(
                    Kind.DELEGATION, request_id=new_id(), source=source, target=target, capability=capability, body=body
                )
            )
        event = pack({"params": pack({"topic": "evil.event", "data": pack(WRITTEN)})})
        self._peer.send(
            pack_envelope(
                Kind.DELEGATION, request_id=new_id(), source=b"mallory", capability=b"ether.publish", body=event
            )
        )
        for topics in ([HOSTILE], HOSTILE):
            self._peer.send(pack_envelope(Kind.OBSERVE, request_id=new_id(), body=pack({"topics": topics})))
        self._peer.send(pack_envelope(Kind.MONITOR, request_id=new_id(), target=_EVIL))
        with contextlib.suppress(zmq.Again):
            self._peer.talk.send(HOSTILE.encode(), zmq.NOBLOCK)

    def _answer(self, header: Header) -> None:
        capability = header.capability.decode()
        status, _ = ANSWERS[capability]

        def response(status: Status, body: dict[str, Any]) -> bytes:
            return pack_envelope(
                Kind.RESPONSE, status=status, request_id=header.request_id, source=header.target, target=b"somebody",
                capability=b"some.thing", body=pack(body), attempt=header.attempt,
            )  # fmt: skip

        progress = {"summary": HOSTILE, "progress": 0.5, "data": pack({HOSTILE: HOSTILE})}
        answer = response(status, outcome(capability))
        if capability == "evil.state":
            answer = join_state(answer, BroughtState(0, b"", new_id(), 1, pack(WRITTEN)))
        self._peer.send(response(Status.PROGRESS, progress), answer)
        self._peer.send(response(Status.COMPLETED, {"summary": HOSTILE}))  # comes too late, and is a dead letter
