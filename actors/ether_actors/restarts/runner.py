"""The runner of a supervision tree: keeps its agents running, by the decisions of the restart machine.

Each step runs under the guardian's lock and its effects in the node's pool, because starting and stopping an agent runs
the user's code, which may take time. An agent that was started alone gets its tree only when it first crashes: ten
thousand idle agents have no tree.
"""

from __future__ import annotations

import importlib
import logging
import random
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ether_actors.agent.agent import Agent
from ether_actors.agent.composable_adapter import is_agent
from ether_actors.execution.cell import Cell
from ether_actors.restarts.events import (
    ChildExited,
    ChildPath,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    Down,
    Effect,
    Escalate,
    Event,
    Exit,
    Gone,
    Remove,
    Restarted,
    SetTimer,
    Start,
    StartChild,
    Stop,
    StopChild,
    TimerFired,
)
from ether_actors.restarts.restart_machine import RestartMachine
from ether_actors.restarts.source_files import note_source
from ether_actors.restarts.supervisor_spec import ChildSpec, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle
from ether_actors.threads.latch import Waitable
from ether_broker.errors import EtherError, InvalidSpec
from ether_broker.name_hint import nearest
from ether_broker.text import error_text, error_with_class

__all__ = ["SupervisionHost", "SupervisionRunner", "load_class", "resolve"]

logger = logging.getLogger("ether.restarts")


class SupervisionHost(Protocol):
    """The interface of the node of a supervision tree."""

    random: random.Random
    """Where the jitter of restarts comes from."""

    def monotonic(self) -> float:
        """The node's clock in seconds."""

    def run(self, call: Callable[[], None]) -> None:
        """Run a callable in the pool."""

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """Wait for an event; False when `timeout` seconds were not enough."""

    def call_at(self, at: float, call: Callable[[], None]) -> None:
        """Run a callable in the pool at a time by the node's clock."""

    def make_cell(self, name: str, make: Callable[[], Any], cls: type[Agent] | None) -> Cell:
        """A new cell under that name."""

    def announce(self, cell: Cell) -> BaseException | None:
        """Register the cell's agent with the broker and wait for the answer; returns what was refused."""

    def restarting(self, cell: Cell, reason: str) -> None:
        """Tell the broker that the agent comes back."""

    def leave(self, cell: Cell, reason: str, *, gave_up: bool = False) -> None:
        """Tell the broker that the agent does not come back, and answer for what it left.

        Args:
            cell: the agent's.
            reason: why.
            gave_up: whether the whole tree goes, since it gave up.
        """

    def escalated(self, runner: SupervisionRunner, reason: str) -> None:
        """Nothing of the tree runs any more."""


def resolve(start: Callable[..., Agent] | str) -> Callable[..., Agent]:
    """What makes the agent of a child spec; a text names a class, and nothing else that a module may have.

    Raises:
        InvalidSpec: there is no such module or name, or it is no class of an agent.
    """
    return load_class(start, is_agent, "Agent") if isinstance(start, str) else start


def load_class(start: str, fits: Callable[[Any], bool], kind: str) -> type[Any]:
    """The class that a text names, `module:Class`.

    Args:
        start: the text.
        fits: whether a class is one of the kind that is wanted.
        kind: that kind, as it is called in `ether`.

    Raises:
        InvalidSpec: there is no such module or name, or it is no class of the kind.
    """
    module_name, _, name = start.partition(":")
    known: dict[str, object] = {}
    try:
        found: object = importlib.import_module(module_name)
        known = vars(found)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        hint = nearest(name, [key for key, value in known.items() if isinstance(value, type) and fits(value)])
        advice = _is_newer(module_name, name) or f"{hint} Write module:Class, with the module importable from here."
        raise InvalidSpec(f"{start!r} cannot be started: {error}.{advice}") from error
    if not isinstance(found, type) or not fits(found):
        what = "" if isinstance(found, type) else f" (it is a {type(found).__name__})"
        msg = f"{start} is not an {kind}{what}: derive it from ether.{kind}."
        raise InvalidSpec(msg)
    note_source(start, found)
    return found


def _is_newer(module_name: str, name: str) -> str:
    """What to do if the file of a module that was imported has a class that it had not then; "" if that is not so."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    try:
        text = "" if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    if re.search(rf"^class {re.escape(name)}\b", text, re.MULTILINE) is None:
        return ""
    return f" {file} has it now, but this process imported {module_name} before that: start it in a new process."


class SupervisionRunner:
    """The shell that runs one supervision tree: starts and stops agents as the restart machine decides.

    Args:
        spec: the tree.
        host: the node.
        adopted: cells of agents that run already: {child id: cell}.
    """

    def __init__(self, spec: SupervisorSpec, host: SupervisionHost, adopted: dict[str, Cell] | None = None) -> None:
        self.spec = spec
        self._host = host
        self._tree = RestartMachine(spec, host.random)
        self._cells: dict[str, Cell] = dict(adopted or {})
        self._adopting = adopted is not None
        self._incarnations: dict[str, tuple[ChildPath, int]] = {}
        self._starting: dict[str, threading.Event] = {}
        """{child id: set when the start that is under way has ended}."""
        self._lock = threading.RLock()
        self._transition_ended = threading.Event()
        self.failure: BaseException | None = None
        """What the first start that failed raised."""
        self.is_refused: bool = False
        """Whether that was the registry's word, and not the agent's own."""
        self.reason: str = ""
        """Why the tree gave up; empty while it has not."""

    @property
    def cells(self) -> list[Cell]:
        """The cells of the tree's agents."""
        return list(self._cells.values())

    def start(self, timeout: float) -> bool:
        """Start all agents in order and wait until they run or have failed; whether they run."""
        self.tell(Start())
        return self._host.wait(self._transition_ended, timeout) and not self.reason and self.failure is None

    def adopt(self) -> None:
        """Take over agents that run already."""
        self.tell(Start())
        self._adopting = False

    def crashed(self, cell: Cell, error: BaseException, *, normal: bool = False) -> None:
        """Take note that an agent ended by itself; its turns have stopped."""
        path, incarnation = self._incarnations[cell.name]
        detail = error_with_class(error)
        self.tell(ChildExited(path, Exit.NORMAL if normal else Exit.CRASH, detail, incarnation))

    def start_failed(self, cell: Cell, error: BaseException) -> None:
        """Take note that an agent that was taken over did not start: it is started again as after a crash."""
        path, incarnation = self._incarnations[cell.name]
        self.tell(ChildExited(path, Exit.UNSTARTED, error_with_class(error), incarnation))

    def stop(self) -> None:
        """Stop all agents in reverse order; returns before they have."""
        self._transition_ended.clear()
        self.tell(Stop())

    def await_start(self, name: str, timeout: float) -> None:
        """Wait until the start of an agent that is under way has ended, if there is one."""
        with self._lock:
            starting = self._starting.get(name)
        if starting is not None:
            self._host.wait(starting, timeout)

    def remove(self, cell: Cell) -> bool:
        """Let an agent go for good: nothing starts it again, and a start of it that is under way opens nothing.

        What runs of it is for the caller to stop.

        Returns:
            Whether the tree has no agents any more.
        """
        with self._lock:
            path, _ = self._incarnations[cell.name]
            self._cells.pop(cell.name, None)
            self.tell(Remove(path))
            self._note_started()
            return len(self._tree.statistics().children) == 1

    def wait(self, timeout: float) -> bool:
        """Wait until a stop has ended, or a start."""
        return self._host.wait(self._transition_ended, timeout)

    def tell(self, event: Event) -> None:
        """Step the machine and do what it wants."""
        with self._lock:
            effects = self._tree.step(event, self._host.monotonic())
            for effect in effects:  # its agents go for that reason, and it is told last
                if isinstance(effect, Escalate):
                    self.reason = effect.reason
            for effect in effects:
                self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartChild(path, spec, incarnation):
                self._incarnations[spec.id] = (path, incarnation)
                if self._adopting:
                    self.tell(ChildStarted(path, incarnation))
                else:
                    self._host.run(lambda: self._start_child(path, spec, incarnation))
            case StopChild(path, spec, timeout, incarnation):
                self._host.run(lambda: self._stop_child(path, spec, timeout, incarnation))
            case SetTimer(token, at, _):
                self._host.call_at(at, lambda: self.tell(TimerFired(token)))
            case Down(path, reason, detail):
                self._down(path, reason, detail)
            case Restarted(path, attempt):
                if path == (self.spec.id,) or attempt:
                    logger.info("%s runs again, restart %d", "/".join(path), attempt)
            case Gone(path):
                self._gone(path)
            case Escalate(path, reason):
                logger.error("%s gave up: %s", "/".join(path), reason)
                self._transition_ended.set()
                self._host.run(lambda: self._host.escalated(self, reason))

    def _start_child(self, path: ChildPath, spec: ChildSpec, incarnation: int) -> None:
        ended = threading.Event()
        with self._lock:
            if not self._is_wanted(path, incarnation):
                return
            self._starting[spec.id] = ended
        try:
            self._bring_up(path, spec, incarnation, ended)
        finally:
            with self._lock:
                if self._starting.get(spec.id) is ended:
                    del self._starting[spec.id]
            ended.set()

    def _is_wanted(self, path: ChildPath, incarnation: int) -> bool:
        """Whether a start is to go on: the agent was not stopped meanwhile, nor taken out, nor started once more."""
        is_last = self._incarnations[path[-1]] == (path, incarnation)
        return is_last and self._tree.state(path) is Lifecycle.STARTING

    def _bring_up(self, path: ChildPath, spec: ChildSpec, incarnation: int, ended: threading.Event) -> None:
        cell: Cell | None = None
        error: BaseException | None
        is_announced = False
        try:
            cell = self._cell_for(path, spec, incarnation)
            error = cell.boot() if cell is not None else None
            if cell is not None and error is None and self._is_wanted(path, incarnation):
                is_announced = True
                error = self._host.announce(cell)
        except Exception as raised:  # noqa: BLE001  whatever it is, the machine has to hear of it
            error = raised
        with self._lock:
            is_wanted = self._is_wanted(path, incarnation)
            if is_wanted and cell is not None and error is None:
                cell.open()
        if not is_wanted:
            if cell is not None and error is None and self._starting.get(spec.id) is ended:
                self._discard(cell, is_announced=is_announced)
            return
        if error is not None:
            if self.failure is None:
                self.failure, self.is_refused = error, is_announced
            logger.error(
                "%s did not start: %s",
                "/".join(path),
                error_text(error),
                exc_info=None if isinstance(error, EtherError) else error,
            )
            self.tell(ChildStartFailed(path, error_with_class(error), incarnation))
            return
        self.tell(ChildStarted(path, incarnation))
        self._note_started()

    def _cell_for(self, path: ChildPath, spec: ChildSpec, incarnation: int) -> Cell | None:
        """The agent's cell, made at its first start; None when the start is not wanted any more."""
        if (cell := self._cells.get(spec.id)) is not None:
            return cell
        make = resolve(spec.start)
        cls = make if isinstance(make, type) and issubclass(make, Agent) else None
        with self._lock:
            if not self._is_wanted(path, incarnation):
                return None
            cell = self._cells[spec.id] = self._host.make_cell(spec.id, lambda: make(*spec.args, **spec.kwargs), cls)
            return cell

    def _discard(self, cell: Cell, *, is_announced: bool) -> None:
        """End an agent that came up when nobody wanted it any more: it takes no turn."""
        cell.dismiss()
        if is_announced and self._cells.get(cell.name) is cell:
            self._host.restarting(cell, "stopped with its supervisor's children")
        elif is_announced:
            self._host.leave(cell, "stopped")

    def _note_started(self) -> None:
        if all(child.state is Lifecycle.RUNNING for child in self._tree.statistics().children.values()):
            self._transition_ended.set()

    def _stop_child(self, path: ChildPath, spec: ChildSpec, timeout: float, incarnation: int) -> None:
        self.await_start(spec.id, timeout)  # it opens nothing: the agent is not wanted any more
        cell = self._cells.get(spec.id)
        if cell is not None:
            self._host.restarting(cell, "stopped with its supervisor's children")
            cell.rest(timeout)
        self.tell(ChildStopped(path, incarnation))

    def _down(self, path: ChildPath, reason: Exit, detail: str) -> None:
        cell = self._cells.get(path[-1])
        if cell is not None and reason is Exit.CRASH:
            self._host.restarting(cell, detail)

    def _gone(self, path: ChildPath) -> None:
        cell = self._cells.pop(path[-1], None)
        if cell is not None:
            reason = self.reason or "its supervisor does not start it again"
            self._host.leave(cell, reason, gave_up=bool(self.reason))
        if path == (self.spec.id,):
            self._transition_ended.set()
