"""The agents of this node: they come, register, take what is asked of them, and go.

broker ──► Node.received ──► take ──► Cell.post
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from ether.node.agents.begun_work import MOST_BEGUN, pack_begun
from ether.node.agents.scalable import check_scalable
from ether.node.connection.control_calls import PATIENCE, ControlCalls, refusal
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether.node.node_services import NodeServices
from ether.node.responder import Responder
from ether_actors.agent.agent import Agent
from ether_actors.agent.agent_bus import NamedAgent
from ether_actors.execution.cell import Cell, CellState
from ether_actors.execution.dispatcher import Dispatcher, LoopDispatcher
from ether_actors.execution.resources import Resources
from ether_actors.supervisor.registry.quota import at_a_time
from ether_actors.task.work_item import Work
from ether_broker import errors
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError
from ether_broker.name_hint import nearest
from ether_broker.text import error_text
from ether_broker.transport.link import REFUSED
from ether_broker.unread_log import warn_unread
from ether_broker.wire.frame import DRAINS, Flag, Header, Kind, pack_envelope
from ether_broker.wire.saved_state import SavedState

__all__ = ["AgentHost", "NotStarted", "warn_of_own_states"]

logger: logging.Logger = logging.getLogger("ether.node")

_RESENT: Final = int(Flag.RESENT)
_VOLATILE: Final = int(Flag.VOLATILE)
_EARLY: Final = 0.01
"""Seconds by which a heartbeat may come early."""
_AT_A_TIME: Final = 4
"""REGISTERs whose answers are waited for at a time."""
_PAUSE: Final = 0.05
"""Seconds between two tries to reach a broker that does not answer."""
_ALL: Final = b""
"""Instead of an agent's name: all of the node's."""


class NotStarted(Exception):
    """The error that an agent did not start: its `__init__` or its `on_start` raised, not the registry.

    Attributes:
        error: what was raised.
        stopped: the agents that were stopped while they, or others with them, started.
    """

    def __init__(self, error: BaseException, stopped: Collection[str] = ()) -> None:
        super().__init__(error_text(error))
        self.error: BaseException = error
        self.stopped: Collection[str] = stopped


def warn_of_own_states(cells: Iterable[Cell], base: str) -> None:
    """Warn of each agent with a state that was given a number behind the name it was to have: it shares no state with that."""
    for cell in cells:
        if cell.keeper is not None and cell.name != base:
            msg = f"{cell.name} has a state of its own, beside that of {base}: give it a `name` if that is meant."
            logger.warning(msg)
            warn_unread(logger, msg)


class AgentHost:
    """The cells of one node.

    Args:
        name: of the node; no agent of it can have it.
        sender: the way to the broker.
        control_calls: make the calls when an agent is registered.
        responder: answers for them.
        services: of the cells.
        resources: what the node runs on.
        session_state: with the broker.
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, name: str, sender: Sender, control_calls: ControlCalls, responder: Responder, services: NodeServices,
        resources: Resources, session_state: SessionState,
    ) -> None:  # fmt: skip
        self._name = name
        self._sender = sender
        self._control_calls = control_calls
        self._responder = responder
        self._services = services
        self._resources = resources
        self._session_state = session_state
        self._cells: dict[bytes, Cell] = {}
        self._classes: dict[tuple[str, str], type] = {}
        """{(module, qualified name): the class of agents that was started last under it}."""
        self._busy: dict[bytes, Cell] = {}
        """Those of the cells that may have work."""
        self._leaving: set[bytes] = set()
        """Agents that take nothing new."""
        self._giving_way: dict[bytes, bytes] = {}
        """{agent whose name another is to take: what says to the broker that it comes back}."""
        self.scaled: set[str] = set()
        """Those that are instances of agents that scale."""

    @property
    def cells(self) -> list[Cell]:
        """The cells, in the order in which they came."""
        return list(self._cells.values())

    def warn_of_redefined(self, started: Cell) -> None:
        """Warn of an agent whose class was defined again, as by a cell of a notebook, beside one of the class before."""
        cls = type(started.agent)
        name = cls.__module__, cls.__qualname__
        if getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls:
            return  # one within a function is made anew each time
        before, self._classes[name] = self._classes.get(name, cls), cls
        if before is cls:
            return
        for cell in self.cells:
            other = type(cell.agent)
            if other is not cls and (other.__module__, other.__qualname__) == name:
                msg = (
                    f"{started.name} is of a class {cls.__qualname__} that was defined again, and {cell.name}, of the one"
                    f" before, goes on beside it: stop that first, as by bus.stop({cell.name!r}, timeout=0)."
                )
                logger.warning(msg)
                warn_unread(logger, msg)
                return

    @property
    def agent_names(self) -> set[str]:
        """The agents of this node."""
        return {cell.name for cell in self.cells}

    def is_open(self, agent: NamedAgent) -> bool | None:
        """Whether an agent of this node takes turns, so that the bus knows it; None if it has ended."""
        cell = self._cells.get(agent.agent_name.encode())
        if cell is None or cell.agent is not agent or cell.state is CellState.STOPPED or agent.actor_stopped.is_set():
            return None
        return cell.state is CellState.RUNNING

    def cell(self, name: str) -> Cell:
        """An agent's cell.

        Raises:
            UnknownAgent: it is not on this node.
        """
        cell = self._cells.get(name.encode())
        if cell is None:
            hint = nearest(name, (key.decode() for key in self._cells))
            raise errors.UnknownAgent(f"There is no agent {name!r} on this node.{hint}")
        return cell

    # -- coming --------------------------------------------------------------------------------------------------

    def start_agents(self, names: list[str], make: Callable[[], Any], cls: type[Agent] | None) -> list[Cell]:
        """Start agents of one kind, each on its own: a crash of one restarts that one.

        Returns:
            Those that were not stopped meanwhile.

        Raises:
            DuplicateAgent, InvalidManifest, BrokerUnavailable: the registry did not take them.
            NotStarted: `__init__` or `on_start` raised; none of them is left running.
            Closed: all were stopped meanwhile.
        """
        cells: list[Cell] = []
        try:
            self._start(names, make, cls, cells)
        except BaseException:
            for cell in cells:
                if cell.agent is None:  # nobody knows it
                    self._forget(cell)
                else:
                    self.leave(cell, "it did not start")
            raise
        started = [cell for cell in cells if cell.state is CellState.NEW]
        for cell in started:
            cell.open()
        return started

    def _start(self, names: list[str], make: Callable[[], Any], cls: type[Agent] | None, cells: list[Cell]) -> None:
        """Boot and register agents; what was begun is in `cells`, also when one of them cannot be started."""
        for name in names:  # all before the first is booted: who is to stop one that has to wait finds it
            if name == self._name:
                msg = (
                    f"{name!r} is the name of this node, and nodes and agents share their names: rename one of the two."
                )
                raise errors.DuplicateAgent(msg)
            if name.encode() in self._cells:
                raise errors.DuplicateAgent(f"An agent named {name!r} lives on this node: choose another name.")
            cells.append(self.make_cell(name, make, cls))
        for cell in cells:
            if (error := self.boot(cell)) is not None:
                raise NotStarted(error, {cell.name for cell in cells if cell.is_stopped})
        booted = [cell for cell in cells if cell.state is CellState.NEW]
        self._announce(booted)
        for cell in booted:
            if cell.is_stopped:  # before it was announced, perhaps
                self.leave(cell, "stopped")
        if all(cell.is_stopped for cell in cells):
            raise errors.Closed(f"The agent {names[0]!r} was stopped while it started.")

    @staticmethod
    def boot(cell: Cell) -> BaseException | None:
        """Boot a cell and return what failed, unless it is stopped before or meanwhile, and so not to start any more."""
        error = cell.boot() if cell.state is CellState.NEW else None
        if not cell.is_stopped:
            return error
        if cell.agent is not None and error is None:
            cell.dismiss()
        return None

    def _forget(self, cell: Cell) -> None:
        if self._cells.get(cell.name.encode()) is cell:
            del self._cells[cell.name.encode()]

    def make_cell(self, name: str, make: Callable[[], Any], cls: type[Agent] | None) -> Cell:
        """A new cell under that name; its turns run where its class says."""
        resources = self._resources
        dispatch = "pool" if cls is None else cls.dispatch
        dispatcher: Dispatcher = resources.pool
        if dispatch == "thread":
            dispatcher = resources.make_pool(cls.max_concurrency if cls else 1, f"ether-agent-{name}")
        elif dispatch == "loop":
            dispatcher = LoopDispatcher(resources.loop)
        cell = self._cells[name.encode()] = Cell(name, make, self._services, dispatcher)
        self._leaving.discard(name.encode())
        return cell

    def announce(self, cell: Cell) -> BaseException | None:
        """Register a cell's agent and wait for the answer; returns what was refused."""
        try:
            self._announce([cell])
        except EtherError as error:
            return error
        return None

    def _announce(self, cells: list[Cell]) -> None:
        wanted = list(self._registrations(cells))
        for first in range(0, len(wanted), _AT_A_TIME):  # so that what else this node says does not stand behind it all
            part = wanted[first : first + _AT_A_TIME]
            for reply in self._control_calls.ask(
                [envelope for _, _, envelope in part],
                [token for token, _, _ in part],
                {token: partial(_note_registered, some) for token, some, _ in part},
            ):
                if reply.kind == Kind.ERROR:
                    raise refusal(reply.body, errors.UsageError)

    def registrations(self, but: Container[str] = ()) -> list[bytes]:
        """REGISTER of every agent but some, for a broker that does not know them any more, and then which of them drain.

        An agent that may not be registered any more keeps no other from it. One that starts says REGISTER itself.
        """
        for cell in self.cells:
            cell.outstanding = cell.most_outstanding = 0  # it is told anew
        present = [
            cell for cell in self.cells if cell.agent is not None and cell.is_registered and cell.name not in but
        ]
        draining = [_ALL] if self._session_state.is_draining else list(self._leaving)
        conditions = [*map(_drains, draining), *self._giving_way.values()]
        return [*(envelope for _, _, envelope in self._registrations(present, is_partial=True)), *conditions]

    @property
    def is_at_work(self) -> bool:
        """Whether anything was asked of an agent and is not answered."""
        return any(cell.works for cell in self.cells)

    def holding(self) -> dict[str, dict[bytes, int]]:
        """What each agent has and has not answered: {agent: {request id: attempt}}."""
        return {
            cell.name: {request_id: work.header.attempt for request_id, work in list(cell.works.items())}
            for cell in self.cells
        }

    # -- what is asked of them -----------------------------------------------------------------------------------

    def take(self, header: Header, envelope: bytes) -> None:
        """Give a delegation to its agent; what cannot be taken is refused or handed back.

        One that comes again after its broker was restarted, and is answered or at work here, is not taken twice. While
        the link is full, work that does not wait for the journal is refused: it would come as fast as it is answered,
        whereas other work comes when the outcomes before it have been acknowledged.
        """
        if header.flags & _RESENT and self._responder.has_answered(header):
            return
        cell = self._cells.get(header.target)
        try:
            if cell is None or self._session_state.is_draining or header.target in self._leaving:
                raise errors.Closed  # noqa: TRY301  one way out for all
            if header.flags & _VOLATILE and self._sender.link.is_full:
                raise errors.MailboxFull(REFUSED)  # noqa: TRY301
            if not cell.works:
                self._busy[header.target] = cell
            cell.post(header, envelope)
        except errors.MailboxFull as error:
            self._responder.refuse(header, Status.REJECTED_OVERLOAD, error, retry_after=1.0)
        except errors.Closed:
            self._responder.hand_back([Work(header, envelope)])

    def run_here(self, turn: Callable[[], None], request_id: bytes) -> None:
        """Run a delegation in this thread if the turn is its agent's, which has nothing else; else the turn in a pool."""
        cell = getattr(turn, "__self__", None)  # a cell submits its bound method
        if not (isinstance(cell, Cell) and cell.run_only(request_id)):
            self._resources.pool.submit(turn)

    def cancel(self, header: Header) -> None:
        """Cancel what has ended without its handler."""
        cell = self._cells.get(header.target)
        if cell is None or not cell.cancel(header.request_id, header.attempt):
            self._responder.confirm(header)

    def shift_deadlines(self, ahead: float) -> None:
        """Read what waits here by another clock: the broker's is so many seconds ahead of the one it came by."""
        for cell in self.cells:
            for work in list(cell.works.values()):
                if work.header.deadline:
                    work.header = work.header._replace(deadline=work.header.deadline + ahead)

    def reset_state(self, agent: bytes, saved: SavedState | None, refused: bytes) -> None:
        """Have an agent go on with what is saved of it, if the refused state was of the incarnation that it is."""
        cell = self._cells.get(agent)
        if cell is not None and cell.keeper is not None:
            cell.keeper.reset(saved, refused)

    def note_outstanding(self, outstanding: Mapping[str, int], most: Mapping[str, int]) -> None:
        """Take note of how much instances of agents that scale have to do, as the broker knows it.

        Args:
            outstanding: of each instance.
            most: that all that do its work had together at a moment since it was told last, if they have less now.
        """
        for name, count in outstanding.items():
            cell = self._cells.get(name.encode())
            if cell is not None:
                cell.outstanding = count
                cell.most_outstanding = max(cell.most_outstanding, most.get(name, 0))

    def call_off(self) -> None:
        """Cancel everything that was asked by a broker that was lost; nothing is said of it. States are saved anew."""
        for cell in self.cells:
            for request_id, work in list(cell.works.items()):
                work.is_disowned = True  # it must not be taken for another broker's answer
                cell.cancel(request_id, work.header.attempt)
            if cell.keeper is not None:
                cell.keeper.forget_saved()  # now: no answer before it brings a state that looks new

    def say_accepted(self) -> bool:
        """Say ACCEPTED for what has been at work for half a heartbeat, and then each heartbeat; called each half.

        So the first comes within one heartbeat. Short work is over before it would be worth a message. It waits while the
        link is full; when that has room again, so does the progress that waited.

        Returns:
            Whether anything was said.
        """
        is_said = self._responder.tell_progress()
        if self._sender.link.is_full:
            return is_said
        now, beat = self._resources.monotonic(), self._session_state.timing.heartbeat - _EARLY
        for cell in self.busy_cells():
            for work in list(cell.works.values()):
                task = work.task
                if task is None or work.cancelled:
                    continue
                if now - work.accepted_at >= beat if work.accepted_at else now - task.started >= beat / 2:
                    work.accepted_at = now
                    self._responder.accept(work)
                    is_said = True
        return is_said

    def busy_cells(self) -> Iterator[Cell]:
        """The cells that have work."""
        for name, cell in list(self._busy.items()):
            if cell.works and self._cells.get(name) is cell:
                yield cell
            else:
                del self._busy[name]

    # -- going ---------------------------------------------------------------------------------------------------

    def restarting(self, cell: Cell, reason: str) -> None:
        """Tell the broker that the agent comes back, unless none of this node's does."""
        if self._session_state.is_draining:
            return
        self._tell_condition(cell, {"condition": "restarting", "reason": reason})

    def leave(self, cell: Cell, reason: str, *, comes_back: bool = False, moves: bool = False) -> None:
        """Stop a cell for good and tell the broker, which answers for what runs before its handlers are cancelled.

        Args:
            cell: the agent's.
            reason: why.
            comes_back: whether another process will have the agent soon: the broker keeps its name and its mailbox.
            moves: whether another node will, while this one goes on: the broker keeps them too.
        """
        self._responder.hand_back(cell.take_unstarted())
        if self._cells.get(cell.name.encode(), cell) is cell:  # else another has the name by now
            said: dict[str, object] = {"condition": "restarting" if comes_back else "gone", "reason": reason}
            if moves:
                said["moves"] = True
            works = list(cell.works.items())[:MOST_BEGUN]
            begun = pack_begun((request_id, work.header.attempt) for request_id, work in works)
            self._tell_condition(cell, {**said, "begun": begun} if begun else said)
        self._sender.flush()
        cell.stop()
        for work in list(cell.works.values()):  # begun, and not to be begun again by who takes the name next
            self._responder.remember(work.header)
        if self._cells.get(cell.name.encode()) is cell:
            del self._cells[cell.name.encode()]
            self._giving_way.pop(cell.name.encode(), None)
            self._leaving.discard(cell.name.encode())
            self.scaled.discard(cell.name)

    def await_left(self) -> None:
        """Wait until the broker knows of the agents that have left, so that another node can take their names.

        It may be restarted meanwhile, and is waited for as long as for the answer to REGISTER.
        """
        end = time.monotonic() + PATIENCE
        while not self._control_calls.await_deliveries() and time.monotonic() < end:
            time.sleep(_PAUSE)

    def begin_giving_way(self, cells: Collection[Cell], reason: str) -> None:
        """Begin nothing more of agents whose names others are to take; the broker keeps what comes for them.

        What is here and was not begun stays here until they have given way: so it comes before that, and in its order.
        """
        for cell in cells:
            said = _condition(cell, {"condition": "restarting", "reason": reason})
            self._giving_way[cell.name.encode()] = said
            if cell.inbox is not None:
                cell.inbox.pause()
            self._sender.send(said)
        self._control_calls.await_deliveries()

    def give_way(self, cell: Cell) -> bool:
        """Stop a cell whose name another is to take, for which the broker keeps it, and what waits.

        Returns:
            Whether a handler still ran: its delegation has failed.
        """
        self._responder.hand_back(cell.take_unstarted())
        was_cut_off = cell.cut_off(f"{cell.name} was replaced before it had ended.")
        self._responder.hand_back(cell.stop())
        self._sender.flush()
        self._forget(cell)
        self._giving_way.pop(cell.name.encode(), None)
        return was_cut_off

    def _tell_condition(self, cell: Cell, body: Mapping[str, object]) -> None:
        self._sender.send(_condition(cell, body))

    def begin_draining(self, cells: Collection[Cell]) -> None:
        """Give agents nothing new; what was not started goes back to the broker."""
        for cell in cells:
            name = cell.name.encode()
            if self._cells.get(name) is cell:
                self._sender.send(_drains(name))  # first: what comes is handed back from now on, and would come again
            self._leaving.add(name)
            if self._cells.get(name) is not cell:  # it has left meanwhile, and its name is free
                self._leaving.discard(name)
                continue
            self._responder.hand_back(cell.take_unstarted())
        self._control_calls.await_deliveries()

    def is_draining(self, cell: Cell) -> bool:
        """Whether an agent is given nothing new."""
        name = cell.name.encode()
        return self._session_state.is_draining or name in self._leaving or name in self._giving_way

    def await_idle(self, cell: Cell, timeout: float) -> bool:
        """Wait until what runs of an agent has ended, `timeout` seconds at most; whether it has."""
        return cell.inbox is None or self._resources.wait(cell.inbox.idle(), timeout)

    def say_draining(self) -> None:
        """Tell the broker that no agent takes anything new."""
        if self._cells:  # else those that gave way would drain, and are to come back
            self._sender.send(_drains(_ALL))

    def hand_back(self) -> bool:
        """Give back what was not started, now that nothing new is taken; whether the broker answered that it knows."""
        self.say_draining()
        for cell in self.cells:
            self._responder.hand_back(cell.take_unstarted())
        return self._control_calls.await_deliveries()

    def wait_idle(self, end: float) -> bool:
        """Wait until no agent has work, but not beyond `end` by `time.monotonic()`; whether none has."""
        inboxes = [cell.inbox for cell in self.cells if cell.inbox is not None]
        idle = [self._resources.wait(inbox.idle(), max(0.0, end - time.monotonic())) for inbox in inboxes]
        return all(idle)

    def _registrations(
        self, cells: list[Cell], *, is_partial: bool = False
    ) -> Iterator[tuple[bytes, list[Cell], bytes]]:  # fmt: skip
        """(token, agents, REGISTER) of the agents, those of one class together: their manifest travels once.

        Args:
            cells: of the agents.
            is_partial: whether those of them are to be registered that may be; else all or none of one REGISTER.
        """
        kinds: dict[tuple[type[Agent], bool], list[Cell]] = {}
        for cell in cells:
            assert cell.agent is not None
            kinds.setdefault((type(cell.agent), cell.name in self.scaled), []).append(cell)
        for (kind, scales), of_kind in kinds.items():
            if scales:
                check_scalable(kind)
            manifest, most = kind.packed_manifest(), at_a_time(kind.manifest().declared)
            for first in range(0, len(of_kind), most):
                some, token = of_kind[first : first + most], self._resources.make_id()
                source, body = some[0].name.encode(), manifest
                if scales or is_partial or len(some) > 1:
                    said = {name: True for name, is_so in (("scales", scales), ("partial", is_partial)) if is_so}
                    names = [cell.name for cell in some]
                    source, body = b"", pack({"agents": names, "manifest": manifest, **said})
                yield token, some, pack_envelope(Kind.REGISTER, request_id=token, source=source, body=body)

    def close(self) -> None:
        """Stop the agents; nothing is said of them any more."""
        for cell in self.cells:
            cell.stop()


def _condition(cell: Cell, body: Mapping[str, object]) -> bytes:
    return pack_envelope(Kind.UNREGISTER, source=cell.name.encode(), body=pack(body))


def _note_registered(cells: list[Cell]) -> None:
    for cell in cells:
        cell.is_registered = True


def _drains(name: bytes) -> bytes:
    """UNREGISTER of an agent that takes nothing new."""
    return pack_envelope(Kind.UNREGISTER, flags=DRAINS, source=name)
