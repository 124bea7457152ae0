"""The subscriptions of this node: observers, which see what passes, and monitors, which wait for an end."""

from __future__ import annotations

from typing import Final

from ether.node.connection.control_calls import ControlCalls, refusal
from ether.node.connection.sender import Sender
from ether.node.monitor import Monitor
from ether_actors.execution.resources import Resources
from ether_actors.observers.observer import Observer
from ether_actors.observers.observer_thread import ObserverThread
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.errors import EtherError, InvalidEnvelope, UsageError
from ether_broker.text import printable
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["Subscriptions"]

_MOST_SAID: Final = 1_000
"""Characters of why an agent is down."""


class Subscriptions:
    """The observers and monitors of one node."""

    def __init__(self, sender: Sender, control_calls: ControlCalls, resources: Resources) -> None:
        self._sender = sender
        self._control_calls = control_calls
        self._resources = resources
        self._observer_thread: dict[bytes, ObserverThread] = {}
        self._monitors: dict[bytes, Monitor] = {}

    def observe(self, observer: Observer, start: int) -> ObserverThread:
        """Attach an observer from a number on; 0 is from now on.

        Raises:
            BrokerUnavailable: the broker did not answer.
            AccessDenied: the access list does not let this node observe.
        """
        token = new_id()
        observing = self._resources.make_observing(observer, lambda position: self._acknowledge(token, position))
        observer.position = start  # what is asked again, if the broker dies before it answers
        self._observer_thread[token] = observing
        try:
            reply = self._control_calls.ask([_wish(token, observer, start)], [token])[0]
            if reply.kind == Kind.ERROR:
                raise refusal(reply.body, UsageError)
        except EtherError:
            self.unobserve(observer)
            raise
        following = reply.body.get("next")
        if type(following) is not int or following < 1:
            self.unobserve(observer)
            raise InvalidEnvelope("The broker's answer to OBSERVE does not say from which number on.")
        observing.start(following)
        return observing

    def _acknowledge(self, token: bytes, position: int) -> None:
        self._sender.send_now(pack_envelope(Kind.TAP_ACK, request_id=token, body=position.to_bytes(8)))

    def unobserve(self, observer: Observer) -> None:
        """Detach an observer; what is under way to it is still handled."""
        for token, observing in list(self._observer_thread.items()):
            if observing.observer is observer:
                del self._observer_thread[token]
                self._sender.send_now(pack_envelope(Kind.OBSERVE, request_id=token, body=pack({"stop": True})))
                observing.stop()

    def observing(self, observer: Observer) -> ObserverThread | None:
        """Where an observer runs."""
        return next((found for found in self._observer_thread.values() if found.observer is observer), None)

    @property
    def all_observing(self) -> list[ObserverThread]:
        """Where each observer runs, in the order in which they came."""
        return list(self._observer_thread.values())

    def monitor(self, target: str) -> Monitor:
        """Watch an agent, or `node:NAME`."""
        token = new_id()
        monitor = self._monitors[token] = Monitor(target, self._resources.wait, lambda: self._unmonitor(token, target))
        self._sender.send_now(_watch(token, target))
        return monitor

    def _unmonitor(self, token: bytes, target: str) -> None:
        if self._monitors.pop(token, None) is not None:
            self._sender.send_now(_watch(token, target, body=pack({"stop": True})))

    # -- what comes ----------------------------------------------------------------------------------------------

    def passed(self, header: Header, envelope: bytes) -> None:
        """Hand a batch of the tap to its observer."""
        observing = self._observer_thread.get(header.request_id)
        if observing is not None:
            observing.post(envelope[header.body :])

    def went_down(self, header: Header, envelope: bytes) -> None:
        """Fire a monitor."""
        monitor = self._monitors.pop(header.request_id, None)
        if monitor is not None:
            body = read_map(envelope[header.body :], CONTROL)
            self._resources.run(lambda: monitor.fire(printable(body.get("reason", ""), _MOST_SAID)))

    # -- another broker, and the end -----------------------------------------------------------------------------

    def begin_again(self) -> None:
        """Count from 1 after what is here: another broker numbers what comes."""
        for observing in self.all_observing:
            observing.begin_again()

    def wishes(self, *, monitors: bool) -> list[bytes]:
        """What a broker has to be asked again that knows of no observer of ours, nor, with `monitors`, of a monitor."""
        wanted = [_wish(token, item.observer, item.following) for token, item in list(self._observer_thread.items())]
        if monitors:
            wanted += [_watch(token, monitor.target) for token, monitor in list(self._monitors.items())]
        return wanted

    def lose_monitors(self, reason: str) -> None:
        """Fire all monitors, as OTP's `noconnection`: nobody knows how their targets are."""
        monitors, self._monitors = self._monitors, {}
        for monitor in monitors.values():
            self._resources.run(lambda lost=monitor: lost.fire(reason))  # type: ignore[misc]  # its default is its only argument

    def close(self) -> None:
        """End the observers after what is there."""
        for observing in self.all_observing:
            observing.stop()


def _wish(token: bytes, observer: Observer, start: int) -> bytes:
    body = pack({"from": start, "topics": list(observer.topics)})
    return pack_envelope(Kind.OBSERVE, request_id=token, body=body)


def _watch(token: bytes, target: str, body: bytes = b"") -> bytes:
    return pack_envelope(Kind.MONITOR, request_id=token, target=target.encode(), body=body)
