"""The monitors of this node, which wait for the end of an agent or of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ether.node.connection.sender import Sender
from ether.node.monitor import Monitor
from ether_actors.execution.resources import Resources
from ether_actors.threads.latch import Waitable
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.errors import UsageError
from ether_broker.text import printable
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["Monitors"]

_MUST_NOT: Final = (
    "monitor.wait would stop this thread, which runs an event loop or a callback of a handle: use monitor.add_callback(…), "
    "or await asyncio.to_thread(monitor.wait)."
)
_MOST_SAID: Final = 1_000
"""Characters of why an agent is down."""


class Monitors:
    """The monitors of one node."""

    def __init__(self, sender: Sender, resources: Resources, check_may_wait: Callable[[], None]) -> None:
        self._sender = sender
        self._check_may_wait = check_may_wait
        self._resources = resources
        self._monitors: dict[bytes, Monitor] = {}
        self._is_closed = False

    def monitor(self, target: str) -> Monitor:
        """Watch an agent, or `node:NAME`."""
        token = new_id()
        said = _watch(token, target)
        monitor = self._monitors[token] = Monitor(target, self._wait, lambda: self._unmonitor(token, target))
        self._sender.send_now(said)
        if self._is_closed:
            monitor.end()
        return monitor

    def _wait(self, fired: Waitable, timeout: float | None) -> bool:
        try:
            self._check_may_wait()
        except UsageError:
            raise UsageError(_MUST_NOT) from None
        return self._resources.wait(fired, timeout)

    def _unmonitor(self, token: bytes, target: str) -> None:
        if self._monitors.pop(token, None) is not None:
            self._sender.send_now(_watch(token, target, body=pack({"stop": True})))

    def went_down(self, header: Header, envelope: bytes) -> None:
        """Fire a monitor."""
        monitor = self._monitors.pop(header.request_id, None)
        if monitor is not None:
            body = read_map(envelope[header.body :], CONTROL)
            monitor.fire(printable(body.get("reason", ""), _MOST_SAID))
            self._resources.run(monitor.call_back)

    def wishes(self) -> list[bytes]:
        """What a broker has to be asked again that knows of no monitor of ours."""
        return [_watch(token, monitor.target) for token, monitor in list(self._monitors.items())]

    def take(self) -> list[Monitor]:
        """Take out all."""
        monitors, self._monitors = self._monitors, {}
        return list(monitors.values())

    def lose(self, monitors: list[Monitor], reason: str) -> None:
        """Fire some, as OTP's `noconnection`: nobody knows how their targets are."""
        for monitor in monitors:
            monitor.fire(reason)
            self._resources.run(monitor.call_back)

    def close(self) -> None:
        """End all, and those that are yet to be made: nobody is told anything any more."""
        self._is_closed = True  # first: a thread that makes one from now on ends it itself
        for monitor in self.take():
            monitor.end()


def _watch(token: bytes, target: str, body: bytes = b"") -> bytes:
    return pack_envelope(Kind.MONITOR, request_id=token, target=target.encode(), body=body)
