"""A broker's stand-in on a real socket, which says WELCOME and then next to nothing."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import zmq

from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import Kind, join_frame, pack_envelope, read_frame, read_header

__all__ = ["TerseBroker"]


class TerseBroker:
    """A ROUTER socket that says WELCOME with the given fields, and nothing else but, every 30 ms, one message.

    Args:
        folder: where it listens.
        timing: fields of WELCOME.
        babble: the message; empty says nothing.
    """

    def __init__(self, folder: Path, timing: dict[str, Any], babble: bytes = b"") -> None:
        self.endpoint = f"ipc://{folder}/terse.sock"
        self.heard: Counter[Kind] = Counter()
        self._timing = timing
        self._babble = babble
        self._joined: bytes | None = None
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.bind(self.endpoint)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while not self._is_over.is_set():
            if self._joined is not None and self._babble:
                self._socket.send_multipart([self._joined, self._babble])
            if not self._socket.poll(30):
                continue
            routing_id, message = self._socket.recv_multipart()
            for envelope in read_frame(message).envelopes:
                header = read_header(envelope)
                self.heard[Kind(header.kind)] += 1
                if header.kind == Kind.HELLO and self.heard[Kind.HELLO] == 1:
                    body = pack({
                        "broker": "b", "session": 1, "journal": "", "clock": time.monotonic(), "wall": time.time(),
                        "max_payload": 1 << 20, "default_timeout": 60.0, "protocol": 2, "schema_version": "1.0",
                        **self._timing,
                    })  # fmt: skip
                    welcome = pack_envelope(Kind.WELCOME, request_id=header.request_id, body=body)
                    self._socket.send_multipart([routing_id, join_frame([welcome])])
                    self._joined = routing_id

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close(0)
        self._context.term()
