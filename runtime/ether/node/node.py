"""A node: one process's place on the bus. It hosts agents, keeps the handles of what it delegates, and has one link.

Runtime ── delegate ──► OutgoingDelegations ── link ──► broker                  delegations to other agents
broker ── link ──► Node.received ─┬─► AgentHost ─► Cell.post                    delegations to its agents
                                  ├─► OutgoingDelegations ─► Handle.deliver     responses to its delegations
                                  ├─► AttachedObservers ─► ObserverThread       observed messages
                                  ├─► Monitors ─► Monitor                       DOWN
                                  ├─► ControlCalls                              answers to control envelopes
                                  ├─► ArtifactServer, ArtifactFetcher           bytes of files, there and here
                                  └─► NodeSession                               WELCOME, ERROR and BYE

Its parts call each other downwards only:

    Node             ─► NodeSession, AgentScaling, AgentSupervision, EventLoopWatch, HangingHandlers, and those below
    NodeSession      ─► AgentHost, AttachedObservers, Monitors, OutgoingDelegations, ControlCalls, ArtifactFetcher
    AgentSupervision ─► AgentHost, DueCalls
    AgentScaling     ─► AgentSupervision, AgentHost, Sender
    AgentSchedules   ─► NodeServices, DueCalls, UnwatchedFailures
    EventLoopWatch   ─► AgentHost
    HangingHandlers  ─► AgentHost
    AgentHost        ─► ControlCalls, NodeServices, Responder
    AttachedObservers ─► ControlCalls
    Monitors         ─► OutgoingDelegations
    NodeServices     ─► Responder, OutgoingDelegations, ArtifactServer, UnwatchedFailures
    Responder        ─► UnwatchedFailures
    ControlCalls, OutgoingDelegations, and each other part that sends ─► Sender ─► link

All of them stand on Resources (threads, loop, clock), SessionState (what the broker said) and BrokerClock. What happens in a
cell and concerns its supervision tree, a crash or a request to stop, comes up through the node.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Final

from ether.node.agents.agent_host import AgentHost
from ether.node.agents.agent_scaling import AgentScaling
from ether.node.agents.agent_schedules import AgentSchedules
from ether.node.agents.event_loop_watch import EventLoopWatch
from ether.node.agents.hanging_handlers import HangingHandlers
from ether.node.agents.supervision import AgentSupervision
from ether.node.artifacts.artifact_fetcher import ArtifactFetcher
from ether.node.artifacts.artifact_server import ArtifactServer
from ether.node.attached_observers import AttachedObservers
from ether.node.connection.broker_clock import BrokerClock
from ether.node.connection.control_calls import ControlCalls
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState, Welcome
from ether.node.delegations.outgoing import OutgoingDelegations
from ether.node.monitors import Monitors
from ether.node.node_services import NodeServices
from ether.node.node_session import NodeSession
from ether.node.responder import Responder
from ether.node.unwatched_failures import UnwatchedFailures
from ether_actors.agent.agent_bus import NamedAgent
from ether_actors.delegator.handle import Handle
from ether_actors.execution.cell import Cell
from ether_actors.execution.due_calls import DueCalls
from ether_actors.execution.resources import Resources
from ether_broker.artifacts.fetching import FETCHERS
from ether_broker.encoding.bounded import CONTROL, STATE, read_map
from ether_broker.errors import EtherError
from ether_broker.transport.heartbeat import BrokerHeartbeat
from ether_broker.transport.link import Link
from ether_broker.wire.frame import Header, Kind, read_header
from ether_broker.wire.saved_state import SavedState

__all__ = ["Node"]

logger: logging.Logger = logging.getLogger("ether.node")

_RESPONSE: Final = int(Kind.RESPONSE)  # a member of an Enum costs a look-up each time that it is named
_DELEGATION: Final = int(Kind.DELEGATION)
_TICK: Final = 0.1
"""Seconds between two looks at what runs."""
_CALM: Final = 0.3
"""Seconds between two looks where nothing does: what begins otherwise than by the link is looked after so soon."""
_FAREWELL: Final = 1.0
"""Seconds in which the broker must have said BYE to a node without work; one with work has the rest of its `drain`."""


class Node:
    """A node: one process's place on the bus, with its agents, its delegations and one link to the broker.

    Args:
        name: unique on the bus; also the name of the agent that delegates from plain code.
        link: not yet open.
        resources: what it runs on; closed with the node.
        secret: of which the keys of the artifacts that it offers are made; default: one of this life of it.
    """

    def __init__(self, name: str, link: Link, resources: Resources, secret: bytes | None = None) -> None:
        self.name = name
        self.resources = resources
        self._link = link
        self._session_state = SessionState()
        self._broker_clock = BrokerClock()
        self._due_calls = DueCalls()
        sender = Sender(link)
        session_state, broker_clock = self._session_state, self._broker_clock
        self._control_calls = ControlCalls(sender, resources, session_state)
        self.observers: AttachedObservers = AttachedObservers(sender, self._control_calls, resources)
        """Its observers."""
        self.outgoing: OutgoingDelegations = OutgoingDelegations(
            name, sender, resources, session_state, broker_clock, self._due_calls.add
        )
        """What it asks of others."""
        self.monitors: Monitors = Monitors(sender, resources, self.outgoing.check_may_wait)
        """Its monitors."""
        self.artifacts: ArtifactServer = ArtifactServer(
            name, secret or os.urandom(32), sender, resources, self._due_calls.add
        )  # fmt: skip
        """The files that it offers."""
        self._artifact_fetcher = ArtifactFetcher(sender, resources, session_state)
        unwatched = UnwatchedFailures(session_state, resources.monotonic)
        responder = Responder(sender, resources, session_state, broker_clock, unwatched)
        self._services = NodeServices(
            sender, responder, self.outgoing, resources, broker_clock, artifacts=self.artifacts, unwatched=unwatched,
            crashed=self._crashed, stop_requested=self._stop_requested, start_schedules=self._start_schedules,
            is_open=self._is_open, call_at=self._due_calls.add,
        )  # fmt: skip
        self.agent_host: AgentHost = AgentHost(
            name, sender, self._control_calls, responder, self._services, resources, session_state
        )  # fmt: skip
        """Its agents."""
        self.supervision: AgentSupervision = AgentSupervision(self.agent_host, resources, self._due_calls)
        """Their supervision trees."""
        self.scaling: AgentScaling = AgentScaling(
            self.agent_host, self.supervision, sender, resources, session_state
        )  # fmt: skip
        """Those of them that come and go with what waits and runs."""
        self._agent_schedules = AgentSchedules(resources, self._due_calls.add, self._delegate_to_itself, unwatched)
        self._session = NodeSession(
            name, sender, resources, session_state, broker_clock, self.agent_host, self.observers, self.monitors, self.outgoing,
            self._control_calls, self._artifact_fetcher,
        )  # fmt: skip
        self._loop_watch = EventLoopWatch(self.agent_host, resources)
        self._hanging_handlers = HangingHandlers(self.agent_host, resources, crashed=self._crashed)
        self._sender = sender
        self._next_accepted = self._next_beat = 0.0

    @property
    def endpoint(self) -> str:
        """The broker's address."""
        return self._link.endpoint

    def _crashed(self, cell: Cell, error: BaseException) -> None:
        self.supervision.crashed(cell, error)

    def _start_schedules(self, cell: Cell) -> None:
        self._agent_schedules.start(cell)

    def _is_open(self, agent: NamedAgent) -> bool | None:
        return self.agent_host.is_open(agent)

    def _delegate_to_itself(self, cell: Cell, capability: str, timeout: float | None) -> Handle | None:
        if cell.agent is None or self.agent_host.is_draining(cell):
            return None
        return self._services.delegate_as(cell.agent, capability, None, cell.name, {"timeout": timeout})

    def _stop_requested(self, cell: Cell) -> None:
        self.resources.run(lambda: self.supervision.remove(cell))

    # -- joining and leaving -------------------------------------------------------------------------------------

    def join(self, timeout: float) -> None:
        """Say HELLO until the broker answers, then begin to receive.

        Raises:
            BrokerUnavailable: nobody answered within `timeout` seconds.
            AuthenticationFailed: nobody answered, because broker and node do not accept each other's keys.
            NodeRefused, IncompatibleVersion: the broker does not let us in.
            InvalidEnvelope: what it says cannot be followed.
        """
        self._session.join(self, timeout)
        FETCHERS[self._artifact_fetcher] = None

    def close(self, drain: float) -> None:
        """Leave the bus: no new work; what runs has `drain` seconds, what was not started is handed back.

        What still runs after that is answered for by the broker (G3), before its handler is cancelled. What has ended by
        then is delivered, also to a broker that is restarted meanwhile.
        """
        if self._session_state.is_draining:
            return
        has_work = self.agent_host.is_at_work
        self.agent_host.say_draining()  # first: what comes is handed back from now on, and would come again
        self._session_state.is_draining = True
        patience = _FAREWELL if self.agent_host.hand_back() else 0.0
        end = time.monotonic() + drain
        is_idle = self.agent_host.wait_idle(end)
        if has_work:
            patience = max(patience, end - time.monotonic())
        if not self.supervision.is_process_ending:  # else it is a node that died
            self._session.leave(patience)
        self.supervision.close(end)
        self.agent_host.close()
        self.observers.close()
        self.outgoing.close()
        self.monitors.close()
        self._stop_fetching()
        self._control_calls.close()
        self._link.close(1.0)
        self.resources.close(2.0 if is_idle else 0.2)  # what has not ended in its time will not in two seconds more

    def abandon(self) -> None:
        """End without a word, as if the process had died: what runs is cancelled, and nobody is told."""
        self._session_state.is_draining = True
        self.monitors.close()
        self._stop_fetching()
        self._control_calls.close()
        self.resources.close(0.0)
        self.observers.close()

    def _stop_fetching(self) -> None:
        FETCHERS.pop(self._artifact_fetcher, None)
        self._artifact_fetcher.close()

    # -- what comes ----------------------------------------------------------------------------------------------

    def received(self, envelopes: list[bytes]) -> None:
        """Take envelopes from the link."""
        self._session_state.heard = self.resources.monotonic()
        for envelope in envelopes:
            try:
                header = read_header(envelope)
                kind = header.kind
                if kind == _RESPONSE:
                    self.outgoing.deliver(header, envelope)
                elif kind == _DELEGATION:
                    self.agent_host.take(header, envelope)
                else:
                    self._control(header, envelope)
            except EtherError as error:  # the others of the frame are taken all the same: it is acknowledged
                logger.warning("an envelope of the broker was not taken: %s", error)
            except Exception:
                logger.exception("an envelope of the broker broke the node's step; it is dropped")

    def _control(self, header: Header, envelope: bytes) -> None:  # noqa: C901, PLR0912  a case for each kind
        match header.kind:
            case Kind.CANCEL:
                self.agent_host.cancel(header)
            case Kind.HEARTBEAT:
                told = BrokerHeartbeat.read(envelope)
                self._session_state.trouble = told.trouble
                self._broker_clock.note(told.clock, self.resources.monotonic())
            case Kind.TAP:
                self.observers.passed(header, envelope)
            case Kind.REGISTERED | Kind.OBSERVE:
                self._control_calls.answered(header, envelope)
            case Kind.FETCH:
                self.artifacts.serve(header, envelope)
            case Kind.CHUNK:
                self._artifact_fetcher.answered(header, envelope)
            case Kind.ERROR:
                if not (
                    self._control_calls.answered(header, envelope) or self._artifact_fetcher.answered(header, envelope)
                ):
                    self._session.refused(header, read_map(envelope[header.body :], CONTROL))
            case Kind.WELCOME:
                self._session.welcomed(Welcome.read(read_map(envelope[header.body :], CONTROL)))
                self._next_accepted = self._next_beat = 0.0  # the new broker's heartbeats may be shorter
            case Kind.DOWN:
                self._control_calls.answered(header, envelope)
                self.monitors.went_down(header, envelope)
            case Kind.BYE:
                self._session.dismissed()
            case Kind.STATE:
                state = read_map(envelope[header.body :], STATE)
                self.agent_host.reset_state(header.target, SavedState.of(state["saved"]), state["refused"])
            case Kind.SCALE:
                load = read_map(envelope[header.body :], CONTROL)
                self.agent_host.note_outstanding(load["outstanding"], load.get("most", {}))

    # -- time ----------------------------------------------------------------------------------------------------

    def ticked(self) -> float:
        """Show life, say that long work goes on, make the calls that are due, and end what the broker will not end any more.

        Returns:
            Seconds after which it is to be called again: 0.1 while the node has work, and 0.3 at most.
        """
        resources = self.resources
        now = resources.monotonic()
        self.outgoing.awaited.ticked()
        resources.relieve()
        if self._loop_watch.ticked(now):
            self._show_life(now)
        for call in self._due_calls.take_due(now):
            resources.run(call)
        self.scaling.ticked(now)
        heartbeat = self._session_state.timing.heartbeat
        if now >= self._next_accepted:
            self._next_accepted = _next(self._next_accepted, heartbeat / 2, now)
            if self.agent_host.say_accepted():
                self._sender.flush()
        if now >= self._next_beat:
            self._next_beat = _next(self._next_beat, heartbeat, now)
            self._show_life(now)
            self.outgoing.end_overdue(now)
            self._session.seek()
            self.observers.ask_again()
        if (
            self.outgoing.awaited.is_waiting
            or not resources.is_idle
            or next(self.agent_host.busy_cells(), None) is not None
        ):
            return _TICK
        return max(0.001, min(_CALM, self._next_beat - now, self._due_calls.next_due() - now))

    def _show_life(self, now: float) -> None:
        """Tell the broker the loads of the agents that work, and give up what hangs of them."""
        loads: dict[str, dict[str, object]] = {}
        for cell in self.agent_host.busy_cells():
            loads[cell.name] = cell.load()
            self._hanging_handlers.give_up(cell, now)
        self._loop_watch.tell(loads, now)
        self._session.show_life(loads)

    def next_tick(self) -> float:
        """When `ticked` has something to do, by this node's clock."""
        return min(self._next_accepted, self._next_beat, self._due_calls.next_due())


def _next(at: float, interval: float, now: float) -> float:
    """When what was due at a time is due again; that it is a little late now does not make the following ones late."""
    return at + interval if at + interval > now else now + interval
