"""The observers that are attached at this node: each in a thread of its own, asked for at the broker."""

from __future__ import annotations

import logging

from ether.node.connection.control_calls import ControlCalls, refusal
from ether.node.connection.sender import Sender
from ether_actors.execution.resources import Resources
from ether_actors.observers.observer import Observer
from ether_actors.observers.observer_thread import ObserverThread
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.errors import EtherError, InvalidEnvelope, TooMuch, UsageError
from ether_broker.unread_log import warn_unread
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["AttachedObservers"]

logger: logging.Logger = logging.getLogger("ether.node")


class AttachedObservers:
    """The observers of one node."""

    def __init__(self, sender: Sender, control_calls: ControlCalls, resources: Resources) -> None:
        self._sender = sender
        self._control_calls = control_calls
        self._resources = resources
        self._threads: dict[bytes, ObserverThread] = {}
        self._refused: set[bytes] = set()
        """Those that a broker has no room for, which is asked again."""
        self._told: set[bytes] = set()
        """Those of which was said that they see nothing, and that have seen nothing since."""

    def observe(self, observer: Observer, start: int) -> ObserverThread:
        """Attach an observer from a number on; 0 is from now on.

        Raises:
            BrokerUnavailable: the broker did not answer.
            AccessDenied: the access list does not let this node observe.
            UsageError: this node has as many observers as it may, or no room for one more.
        """
        token = new_id()
        observing = self._resources.make_observing(observer, lambda position: self._acknowledge(token, position))
        observer.position = start  # what is asked again, if the broker dies before it answers
        self._threads[token] = observing
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
        for token, observing in list(self._threads.items()):
            if observing.observer is observer:
                del self._threads[token]
                self._told.discard(token)
                self._sender.send_now(pack_envelope(Kind.OBSERVE, request_id=token, body=pack({"stop": True})))
                observing.stop()

    def observing(self, observer: Observer) -> ObserverThread | None:
        """Where an observer runs."""
        return next((found for found in self._threads.values() if found.observer is observer), None)

    @property
    def all_observing(self) -> list[ObserverThread]:
        """Where each observer runs, in the order in which they came."""
        return list(self._threads.values())

    def passed(self, header: Header, envelope: bytes) -> None:
        """Hand a batch of the tap to its observer."""
        observing = self._threads.get(header.request_id)
        self._told.discard(header.request_id)
        if observing is not None:
            observing.post(envelope[header.body :])

    def begin_again(self) -> None:
        """Count from 1 after what is here: another broker numbers what comes."""
        for observing in self.all_observing:
            observing.begin_again()

    def wishes(self) -> list[bytes]:
        """What a broker has to be asked again that knows of no observer of ours."""
        return [_wish(token, item.observer, item.following) for token, item in list(self._threads.items())]

    def refused(self, token: bytes, code: object, reason: str) -> bool:
        """Take the refusal of a broker that was asked again; it is asked once more if it has no room now.

        Returns:
            Whether it is of an observer of ours.
        """
        observing = self._threads.get(token)
        if observing is None:
            return False
        if code == TooMuch.code:
            self._refused.add(token)
        if token not in self._told:
            self._told.add(token)
            told = f"the observer {type(observing.observer).__name__} sees nothing: {reason}"
            logger.warning("%s", told)
            warn_unread(logger, told)
        return True

    def ask_again(self) -> None:
        """Ask the broker again for the observers that it had no room for."""
        refused, self._refused = self._refused, set()
        for token in refused:
            observing = self._threads.get(token)
            if observing is not None:
                self._sender.send(_wish(token, observing.observer, observing.following))

    def close(self) -> None:
        """End the observers after what is there."""
        for observing in self.all_observing:
            observing.stop()


def _wish(token: bytes, observer: Observer, start: int) -> bytes:
    body = pack({"from": start, "topics": list(observer.capabilities)})
    return pack_envelope(Kind.OBSERVE, request_id=token, body=body)
