"""How a node joins a broker, shows that it lives, joins again, and leaves.

HELLO ──► broker ── WELCOME ──► welcomed ──► registered again, and what is lost ends    the broker knows nothing of us
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import Any, Final

from ether.broker_clock import BrokerClock
from ether.delegating import Delegating
from ether.hosting import Hosting
from ether.machinery import Machinery
from ether.questions import refusal
from ether.stay import Stay
from ether.uplink import Uplink
from ether.watching import Watching
from ether_broker import errors
from ether_broker.ids import new_id
from ether_broker.link import Receiver
from ether_broker.payload import pack, unpack
from ether_broker.version import SCHEMA_VERSION
from ether_broker.wire import Kind, pack_envelope, read_header

__all__ = ["Session"]

logger = logging.getLogger("ether.node")

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1
_FAREWELL: Final = 1.0


class Session:
    """One node's standing with its broker.

    Args:
        name: of the node.
        uplink: whose link is not yet open.
        machinery: what the node runs on.
        stay: kept up to date here.
        broker_clock: kept up to date here.
        hosting: registered again at a broker that does not know us.
        watching: asked for again there.
        delegating: ended there, as far as it was owed by the one before.
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, name: str, uplink: Uplink, machinery: Machinery, stay: Stay, broker_clock: BrokerClock,
        hosting: Hosting, watching: Watching, delegating: Delegating,
    ) -> None:  # fmt: skip
        self._name = name
        self._uplink = uplink
        self._machinery = machinery
        self._stay = stay
        self._broker_clock = broker_clock
        self._hosting = hosting
        self._watching = watching
        self._delegating = delegating
        self._farewell = threading.Event()

    # -- joining -------------------------------------------------------------------------------------------------

    def join(self, receiver: Receiver, timeout: float) -> None:
        """Say HELLO until the broker answers, then begin to receive.

        Raises:
            BrokerUnavailable: nobody answered within `timeout` seconds.
            NodeRefused, IncompatibleVersion: the broker does not let us in.
        """
        link = self._uplink.link
        end = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            self._greet()  # lost while the socket still connects: said again soon, then less often
            for envelope in link.first(min(pause, max(0.001, end - time.monotonic()))):
                header = read_header(envelope)
                if header.kind == Kind.WELCOME:
                    self._begin(unpack(envelope[header.body :]))
                    link.open(receiver)
                    self._register()
                    return
                if header.kind == Kind.ERROR:
                    raise refusal(unpack(envelope[header.body :]), errors.NodeRefused)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if time.monotonic() >= end:
                msg = f"No broker answers at {link.endpoint} (waited {timeout:g} s): start one with `ether up`."
                raise errors.BrokerUnavailable(msg)

    def _greet(self) -> None:
        info = {
            "node": self._name, "pid": os.getpid(), "host": os.uname().nodename, "schema_version": SCHEMA_VERSION,
            "python": sys.version.partition(" ")[0],
        }  # fmt: skip
        self._uplink.link.greet(pack_envelope(Kind.HELLO, request_id=new_id(), body=pack(info)))

    def _begin(self, welcome: dict[str, Any]) -> None:
        now = self._machinery.monotonic()
        self._stay.heard = now
        self._stay.begin(welcome)
        self._broker_clock.begin(welcome["clock"], now)

    def _register(self) -> None:
        body = pack({"role": "delegator"})
        self._uplink.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=self._name.encode(), body=body))

    # -- staying -------------------------------------------------------------------------------------------------

    def show_life(self, loads: dict[str, dict[str, object]]) -> None:
        """Send a heartbeat with the agents' loads."""
        self._uplink.tell(pack_envelope(Kind.HEARTBEAT, body=pack({"agents": loads})))
        self._uplink.flush()

    def seek(self) -> None:
        """Say HELLO again to a broker that has been silent for too long."""
        if not self._stay.is_heard(self._machinery.monotonic()) and not self._stay.is_draining:
            self._greet()

    def refused(self, body: dict[str, Any]) -> None:
        """Take an ERROR that answers nothing that was asked: the broker may have forgotten us."""
        logger.warning("the broker refused a message: %s", body.get("message"))
        if "HELLO" in str(body.get("message")) and not self._stay.is_draining:
            self._greet()

    def welcomed(self, welcome: dict[str, Any]) -> None:
        """Register again; a broker that was started anew, or has given us up, knows nothing of what was before.

        REGISTER goes out before the handles end: who delegates again at once is known there by then. What waited in the
        link until now goes ahead of it, and so is not taken for something new.
        """
        stay = self._stay
        broker, number = stay.broker, stay.number
        self._begin(welcome)
        if (stay.broker, stay.number) == (broker, number):
            return  # we had said HELLO twice
        owed = self._delegating.pending
        self._register()
        self._hosting.announce_again()
        logger.warning("the broker was lost, and %d delegations with it", len(owed))
        self._hosting.call_off()
        self._watching.observe_again(is_new_broker=stay.broker != broker)
        self._delegating.lose(owed)
        self._watching.lose_monitors("broker_lost")

    # -- leaving -------------------------------------------------------------------------------------------------

    def leave(self, *, wait: bool) -> None:
        """Say BYE; with `wait`, give the broker a second to say it too."""
        self._uplink.say_bye()
        if wait:
            self._machinery.wait(self._farewell, _FAREWELL)

    def dismissed(self) -> None:
        """Take the broker's BYE."""
        self._farewell.set()
