"""The metrics endpoint of a node: an HTTP server that gives Prometheus what a metrics observer counts."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ether_broker.errors import AddressInUse, InvalidSpec
from ether_broker.name_hint import hint_fields

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

    from ether_actors.observers.metrics.metrics import Metrics

__all__ = ["MetricsEndpoint", "MetricsSpec"]

_PATH: Final = "/metrics"
_MOST: Final = 65_535
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  it is compared with
_SILENCE: Final = 10.0
"""Seconds that a client has for its request and for the reading of the answer."""
_CLIENTS: Final = 8
"""Clients at a time; one more takes the place of the one that has been there longest."""
_KEPT: Final = 1.0
"""Seconds for which a text is given again."""
_LOOK: Final = 0.5
"""Seconds until a server that nobody asks looks whether it is to end."""
_AGAIN: Final = 0.1
"""Seconds until it tries again to listen where another process does."""
_PACE: Final = 0.01
"""Seconds until the next client is let in: each takes a thread."""


@hint_fields
@dataclass(frozen=True, slots=True)
class MetricsSpec:
    """The address of a node's metrics endpoint: `http://HOST:PORT/metrics`, text for Prometheus.

    Example:
        from ether.cluster import MetricsSpec

        node = NodeSpec("watch", metrics=MetricsSpec(port=9464))
        assert node.metrics.host == "127.0.0.1"

    Raises:
        InvalidSpec: a field has a value that it cannot have.
    """

    port: int
    """1 to 65535; 0 takes a free one, which the node's log names."""
    host: str = "127.0.0.1"
    """The address to listen at; anything but a loopback address lets other machines read the metrics, without a key."""

    def __post_init__(self) -> None:
        """Check."""
        if not isinstance(self.port, int) or isinstance(self.port, bool) or not 0 <= self.port <= _MOST:
            raise InvalidSpec(f"metrics.port is {self.port!r}: give a port, 0 to {_MOST}.")
        if not isinstance(self.host, str) or not self.host:
            raise InvalidSpec(f"metrics.host is {self.host!r}: give an address, as in '127.0.0.1' or '0.0.0.0'.")
        if self.host.startswith("["):
            raise InvalidSpec(f"metrics.host is {self.host!r}: give it without brackets, {self.host.strip('[]')!r}.")

    @property
    def in_url(self) -> str:
        """Its host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def overlaps(self, other: MetricsSpec | None) -> bool:
        """Whether two endpoints cannot both listen, as far as can be told without asking the system."""
        if other is None or self.port != other.port or not self.port:
            return False
        return self.host == other.host or not _EVERYWHERE.isdisjoint((self.host, other.host))

    def as_dict(self) -> dict[str, Any]:
        """Its fields as a request carries them; the class takes them again."""
        return asdict(self)


class _KeptText:
    """The text of the metrics, which is made once for all that ask within a second."""

    def __init__(self, make: Callable[[], str], clock: Callable[[], float]) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._text = b""
        self._until = 0.0

    def get(self) -> bytes:
        with self._lock:  # those that come meanwhile wait for the same text
            if not self._text or self._clock() >= self._until:
                self._text = self._make().encode()
                self._until = self._clock() + _KEPT
            return self._text


class MetricsEndpoint:
    """An HTTP server in a thread of its own.

    Args:
        spec: where it listens.
        metrics: what it gives, as of the last second.
        clock: which tells seconds.
        may_wait: whether it listens later, if it cannot now: as soon as another process has given the address up.

    Raises:
        AddressInUse: it cannot listen there.
    """

    def __init__(
        self, spec: MetricsSpec, metrics: Metrics, clock: Callable[[], float] = monotonic, *, may_wait: bool = False
    ) -> None:  # fmt: skip
        self._spec = spec
        self._make_server = _server(spec, _KeptText(metrics.to_prometheus, clock))
        self._closing = threading.Event()
        self._is_listening = threading.Event()
        self._failure = ""
        """Why it could not listen when it last tried."""
        self._may_be_free = True
        """Whether that may be over some time."""
        server = self._listen()
        if server is None and not (may_wait and self._may_be_free):
            raise self._unserved()
        self.url: str = f"http://{spec.in_url}:{spec.port if server is None else server.server_address[1]}{_PATH}"
        """Where the metrics are."""
        self._thread = threading.Thread(target=self._serve, args=(server,), name="ether-metrics", daemon=True)
        self._thread.start()

    @property
    def is_listening(self) -> bool:
        """Whether it listens by now."""
        return self._is_listening.is_set()

    def check_listening(self, timeout: float) -> None:
        """Wait until it listens.

        Args:
            timeout: seconds.

        Raises:
            AddressInUse: it could not in that time, and goes on trying.
        """
        if not self._is_listening.wait(timeout):
            raise self._unserved()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        self._thread.join(2.0)

    def _listen(self) -> ThreadingHTTPServer | None:
        try:
            server = self._make_server()
        except OSError as error:
            self._failure, self._may_be_free = str(error), error.errno == errno.EADDRINUSE
            return None
        self._is_listening.set()
        return server

    def _serve(self, server: ThreadingHTTPServer | None) -> None:
        while server is None:
            if self._closing.wait(_AGAIN):
                return
            server = self._listen()
        with server:
            while not self._closing.is_set():
                server.handle_request()

    def _unserved(self) -> AddressInUse:
        where = f"{self._spec.in_url}:{self._spec.port}"
        return AddressInUse(f"The metrics cannot be served at {where} ({self._failure}): choose another port or host.")


def _server(spec: MetricsSpec, text: _KeptText) -> Callable[[], ThreadingHTTPServer]:
    """What listens, and raises an OSError where it cannot."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    from ether_actors.observers.metrics.prometheus import CONTENT_TYPE

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64
        address_family = socket.AF_INET6 if ":" in spec.host else socket.AF_INET
        timeout = _LOOK
        clients: ClassVar[dict[socket.socket, None]] = {}
        lock = threading.Lock()

        def process_request(self, request: Any, client_address: Any) -> None:
            """Answer in a thread; if there are as many as there may be, the one that has been there longest is cut off."""
            with self.lock:
                if len(self.clients) >= _CLIENTS:
                    oldest = next(iter(self.clients))
                    del self.clients[oldest]
                    _cut_off(oldest)
                self.clients[request] = None
            super().process_request(request, client_address)
            sleep(_PACE)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            """Answer; who has not asked in time is cut off."""
            limit = threading.Timer(_SILENCE, _cut_off, (request,))
            limit.daemon = True
            limit.start()
            try:
                super().process_request_thread(request, client_address)
            finally:
                limit.cancel()
                with self.lock:
                    self.clients.pop(request, None)

        def handle_error(self, *_args: object) -> None:
            """Say nothing: a client that has gone away is no news."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _SILENCE

        def do_GET(self) -> None:
            """Answer a scrape."""
            if self.path.partition("?")[0] != _PATH:
                self.send_error(404, f"the metrics are at {_PATH}")
                return
            answer = text.get()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args: object) -> None:
            """Say nothing: a scrape every few seconds is no news."""

    return partial(Server, (spec.host, spec.port), Handler)


def _cut_off(request: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        request.shutdown(socket.SHUT_RDWR)
