"""The life of a node's session: joining a broker, heartbeats, joining again, leaving.

                                ┌─ it knows what we had with it ──► _resume   goes on with everything
HELLO ──► broker ── WELCOME ──► welcomed
                                └─ it knows nothing of it ────────► _restart  registers again; what was owed is lost
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Container
from itertools import dropwhile
from typing import Any, Final

from ether.node.agents.agent_host import AgentHost
from ether.node.agents.begun_work import read_begun
from ether.node.artifacts.artifact_fetcher import ArtifactFetcher
from ether.node.attached_observers import AttachedObservers
from ether.node.connection.broker_clock import BrokerClock
from ether.node.connection.control_calls import ControlCalls, refusal
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState, Welcome
from ether.node.delegations.outgoing import OutgoingDelegations
from ether.node.monitor import Monitor
from ether.node.monitors import Monitors
from ether.version import __version__
from ether_actors.delegator.handle import Handle
from ether_actors.execution.resources import Resources
from ether_actors.supervisor.registry.quota import MOST_RESUMED
from ether_actors.threads.latch import Latch
from ether_broker import errors
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import INTERIM
from ether_broker.envelope.version import SCHEMA_VERSION
from ether_broker.text import printable
from ether_broker.transport.link import Receiver
from ether_broker.unread_log import warn_unread
from ether_broker.wire.frame import Flag, Header, Kind, mark, pack_envelope, read_header, rehead

__all__ = ["NodeSession"]

logger: logging.Logger = logging.getLogger("ether.node")

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.2
_LOADS: Final = 500
"""Agents of whose load one HEARTBEAT tells."""
_SAID: Final = 1_000
"""Characters that are logged of what the broker says."""
_MARKED: Final = frozenset({int(Kind.DELEGATION), int(Kind.RESPONSE), int(Kind.CANCEL)})
_KEPT: Final = frozenset({int(Kind.REGISTER), int(Kind.UNREGISTER)})


class NodeSession:
    """One node's standing with its broker.

    Args:
        name: of the node.
        sender: whose link is not yet open.
        resources: what the node runs on.
        session_state: kept up to date here.
        broker_clock: kept up to date here.
        agent_host: registered again at a broker that does not know us.
        observers: asked for again there.
        monitors: asked for again there.
        outgoing: ended there, as far as it was owed by the one before.
        control_calls: said again in a new session, as far as they have no answer.
        artifact_fetcher: asks again there.
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, name: str, sender: Sender, resources: Resources, session_state: SessionState, broker_clock: BrokerClock,
        agent_host: AgentHost, observers: AttachedObservers, monitors: Monitors, outgoing: OutgoingDelegations,
        control_calls: ControlCalls, artifact_fetcher: ArtifactFetcher,
    ) -> None:  # fmt: skip
        self._name = name
        self._sender = sender
        self._resources = resources
        self._session_state = session_state
        self._broker_clock = broker_clock
        self._agent_host = agent_host
        self._observers = observers
        self._monitors = monitors
        self._outgoing = outgoing
        self._control_calls = control_calls
        self._artifact_fetcher = artifact_fetcher
        self._farewell = Latch()
        self._said_anew: frozenset[bytes] = frozenset()
        self._greet_at = 0.0
        self._pause = _FIRST_PAUSE

    # -- joining -------------------------------------------------------------------------------------------------

    def join(self, receiver: Receiver, timeout: float) -> None:
        """Say HELLO until the broker answers, then begin to receive.

        Raises:
            BrokerUnavailable: nobody answered within `timeout` seconds.
            AuthenticationFailed: nobody answered, because broker and node do not accept each other's keys.
            NodeRefused, IncompatibleVersion: the broker does not let us in.
            InvalidEnvelope: what it says cannot be followed.
        """
        link = self._sender.link
        end = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            self._greet()  # lost while the socket still connects: said again soon, then less often
            for envelope in link.first(min(pause, max(0.001, end - time.monotonic()))):
                header = read_header(envelope)
                if header.kind == Kind.WELCOME:
                    self._begin(Welcome.read(read_map(envelope[header.body :], CONTROL)))
                    self._begin_link(lambda left: [self._registration(), *left])
                    link.open(receiver)
                    return
                if header.kind == Kind.ERROR:
                    raise refusal(read_map(envelope[header.body :], CONTROL), errors.NodeRefused)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if time.monotonic() >= end:
                msg = f"No broker answers at {link.endpoint} (waited {timeout:g} s): start one with `ether up`."
                raise link.explain() or errors.BrokerUnavailable(msg)

    def _greet(self) -> None:
        info = {
            "node": self._name, "pid": os.getpid(), "host": os.uname().nodename, "schema_version": SCHEMA_VERSION,
            "version": __version__,
        }  # fmt: skip
        self._sender.link.greet(pack_envelope(Kind.HELLO, request_id=self._resources.make_id(), body=pack(info)))

    def _begin(self, welcome: Welcome) -> None:
        now = self._resources.monotonic()
        is_known = welcome.broker == self._session_state.broker
        self._session_state.heard = now
        self._session_state.begin(welcome)
        self._pause = _FIRST_PAUSE
        (self._broker_clock.note if is_known else self._broker_clock.begin)(welcome.clock, now)

    def _begin_link(self, renew: Callable[[list[bytes]], list[bytes]]) -> None:
        self._sender.link.begin(self._session_state.number, renew, self._session_state.timing)

    def _registration(self) -> bytes:
        body = pack({"role": "delegator"})
        return pack_envelope(Kind.REGISTER, request_id=self._resources.make_id(), source=self._name.encode(), body=body)

    # -- staying -------------------------------------------------------------------------------------------------

    def show_life(self, loads: dict[str, dict[str, object]]) -> None:
        """Send a heartbeat with the agents' loads, in parts if there are many; of a link that is full only that we live.

        The loads are news that can wait; that we live is told whatever waits.
        """
        if self._sender.link.is_full:
            self._sender.link.show_life()
            return
        told = list(loads.items())
        last = max(0, len(told) - 1) // _LOADS
        for part in range(last + 1):
            body: dict[str, Any] = {"agents": dict(told[part * _LOADS : (part + 1) * _LOADS])}
            if part < last:
                body["more"] = True
            self._sender.send(pack_envelope(Kind.HEARTBEAT, body=pack(body)), more_follows=part < last)
        self._sender.flush()

    def seek(self) -> None:
        """Say HELLO again to a broker that has been silent for too long, unless it has let us go."""
        if not self._session_state.is_heard(self._resources.monotonic()) and not self._farewell.is_set():
            self._greet()

    def refused(self, header: Header, body: dict[str, Any]) -> None:
        """Take an ERROR that answers nothing that was asked: the broker may have forgotten us.

        A RESUME of more outcomes than a node may wait for at a time is said again later.

        HELLO is said again with growing pauses, of which chance takes up to half, so that many nodes do not come at once.
        """
        if body.get("code") == errors.TooMuch.code and self._outgoing.awaited.refused(header.request_id):
            return
        if body.get("code") != errors.NoSession.code:
            if self._observers.refused(header.request_id, body.get("code"), printable(body.get("message"), _SAID)):
                return
            reason, agents = printable(body.get("message"), _SAID), body.get("agents")
            if isinstance(agents, list):
                names = printable(", ".join(map(str, agents)), _SAID)
                told = f"agents that run on, but not on the bus: {names}. Stop them (bus.stop), and start them again. {reason}"
                logger.warning("%s", told)
                warn_unread(logger, told)
            else:
                logger.warning("the broker refused a message: %s", reason)
            return
        now = self._resources.monotonic()
        if now >= self._greet_at and not self._farewell.is_set():
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._greet_at = now + self._pause * (1.0 - self._resources.random.random() / 2)
            self._greet()

    def welcomed(self, welcome: Welcome) -> None:
        """Begin a new session, after the broker was restarted or had given us up."""
        session_state = self._session_state
        before, offset = (session_state.broker, session_state.number), self._broker_clock.offset
        goes_on = session_state.goes_on(welcome)
        self._begin(welcome)
        if (session_state.broker, session_state.number) == before:
            return  # we had said HELLO twice
        if goes_on:
            ahead = self._broker_clock.offset - offset
            self._agent_host.shift_deadlines(ahead)
            self._begin_link(lambda left: self._resume(left, ahead))
        else:
            self._restart()
        self._artifact_fetcher.begin_again()

    def _resume(self, left: list[bytes], ahead: float) -> list[bytes]:
        """What is said first to a broker that knows us: what we hold, who we are, what it may have missed.

        In this order: it compares what an agent holds when that agent is registered. One that left is not registered before it
        hears that: what it had begun was not begun by who has its name now.

        Args:
            left: what no session before acknowledged.
            ahead: seconds that its clock is ahead of the clock of the broker for which that was made.
        """
        holding = self._agent_host.holding()
        awaiting = [handle.key for handle in self._outgoing.pending]
        owed = frozenset(awaiting)
        again = [
            _once_more(envelope, ahead)
            for envelope in self._older(left)
            if _is_kept(envelope) and (envelope[0] != Kind.DELEGATION or read_header(envelope).request_id in owed)
        ]  # what has ended here, refused while there was no journal or cancelled, must not be begun after all
        left_agents = set[str]()
        for envelope in again:
            header = read_header(envelope)
            name = header.source.decode()
            if header.kind == Kind.RESPONSE and header.status not in INTERIM:
                held = holding.setdefault(name, {})
                held[header.request_id] = max(
                    held.get(header.request_id, 0), header.attempt
                )  # a later one may be at work
            elif header.kind == Kind.UNREGISTER and len(envelope) > header.body:
                said = unpack(envelope[header.body :])
                holding.setdefault(name, {}).update(read_begun(said.get("begun", b"")))
                if said.get("condition") == "gone":
                    left_agents.add(name)
        self._outgoing.awaited.begin(awaiting)
        logger.warning("the broker is back: %d delegations are waited for", len(awaiting))
        return [
            *self._anew(_chunks(holding), but=left_agents, monitors=self._monitors.wishes()),
            *again,
            *self._asked_before(left),
            *self._sender.last_words,
        ]

    def _restart(self) -> None:
        """Register at a broker that knows nothing of us; what was owed to us ends, and what we did for it is cancelled.

        REGISTER goes out before the handles end: who delegates again at once is known there by then.
        """
        owed: list[Handle] = []
        monitors: list[Monitor] = []

        def renew(left: list[bytes]) -> list[bytes]:
            owed.extend(self._outgoing.pending)
            monitors.extend(self._monitors.take())  # what is made from now on, the new broker watches
            older = self._older(left)
            control = [envelope for envelope in older if _is_kept(envelope) and envelope[0] not in _MARKED]
            self._observers.begin_again()
            return [*self._anew(), *control, *self._asked_before(left), *self._sender.last_words]

        self._agent_host.call_off()
        self._begin_link(renew)
        what = f"{len(owed)} delegations" if owed else "nothing"
        logger.warning("the broker was lost, and with it %s that this node waited for", what)
        self._outgoing.lose(owed)
        self._monitors.lose(monitors, "broker_lost")

    def _anew(
        self, resume: Collection[bytes] = (), *, but: Container[str] = (), monitors: Collection[bytes] = ()
    ) -> list[bytes]:  # fmt: skip
        """What each session begins with: RESUME, who we are, our agents, and what we wish to hear."""
        registrations = [self._registration(), *self._agent_host.registrations(but=but)]
        anew = [*resume, *registrations, *self._observers.wishes(), *monitors]
        self._said_anew = frozenset(anew)
        return anew

    def _older(self, left: list[bytes]) -> list[bytes]:
        """What no session acknowledged, but for what the session before began with: this one begins with its own.

        Else a node whose sessions are ended before they acknowledge anything says what it once said again in each.
        """
        return list(dropwhile(self._said_anew.__contains__, left))

    def _asked_before(self, left: list[bytes]) -> list[bytes]:
        """The REGISTERs that the broker before had taken and not answered; what observers ask is among their wishes."""
        said = frozenset(left)
        return [envelope for envelope in self._control_calls.unanswered(Kind.REGISTER) if envelope not in said]

    # -- leaving -------------------------------------------------------------------------------------------------

    def leave(self, wait: float) -> None:
        """Say BYE, and give the broker so many seconds to say it too: it may be restarting, and is told again then."""
        self._sender.say_bye()
        self._resources.wait(self._farewell, wait)

    def dismissed(self) -> None:
        """Take the broker's BYE."""
        self._farewell.set()


def _chunks(holding: dict[str, dict[bytes, int]]) -> list[bytes]:
    """RESUME for what is held, as many envelopes as it takes."""
    held = [(name, item) for name, items in holding.items() for item in items.items()]
    chunks = []
    for first in range(0, len(held), MOST_RESUMED):
        by_agent: dict[str, list[tuple[bytes, int]]] = {}
        for name, item in held[first : first + MOST_RESUMED]:
            by_agent.setdefault(name, []).append(item)
        chunks.append(pack_envelope(Kind.RESUME, body=pack({"holding": by_agent})))
    return chunks


def _once_more(envelope: bytes, ahead: float) -> bytes:
    """An envelope as it is sent again, a delegation with its deadline by the clock of the broker that now reads it."""
    if envelope[0] not in _MARKED:
        return envelope
    header = read_header(envelope)
    if header.kind == Kind.DELEGATION and header.deadline:  # of a PROGRESS it says how many were folded
        envelope = rehead(header, envelope, deadline=header.deadline + ahead)
    return mark(envelope, Flag.RESENT)


def _is_kept(envelope: bytes) -> bool:
    """Whether an envelope that was not acknowledged has a meaning in a new session; the rest is said again there."""
    kind = envelope[0]
    return kind in _MARKED or kind in _KEPT or (kind == Kind.MONITOR and read_header(envelope).target == b"node:")
