"""The nemesis: it does to the processes what the plan says, and writes down what it did and who was down when."""

from __future__ import annotations

import sched
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable
from typing import Final, Protocol, Self

from ether.lab.torture.disk import Disk
from ether.lab.torture.fault_plan import Action, FaultPlan, Strike
from ether.lab.torture.history.log import LogWriter
from ether.process.process_supervisor import ProcessStatistics
from ether_actors.restarts.tree import Lifecycle

__all__ = ["Nemesis", "TargetProcesses"]

_LOOK: Final = 0.02
_STALL: Final = 0.05
"""Seconds by which a look may be late before it counts: then the machine was busy, and nobody's clock is to blame."""
_RETRY: Final = 0.5
_TRIES: Final = 10
_SIGNALS: Final = {Action.KILL: signal.SIGKILL, Action.PAUSE: signal.SIGSTOP, Action.RESTART: signal.SIGTERM}


class TargetProcesses(Protocol):
    """The interface of the processes that the nemesis strikes."""

    def signal(self, name: str, number: int) -> int | None:
        """Send a signal to a process; None when it is between two lives."""

    def statistics(self) -> list[ProcessStatistics]:
        """How each process stands."""


class Nemesis:
    """Executes a plan in a thread of its own; a context manager. Whoever it has paused goes on when it ends.

    Args:
        target: where the processes are.
        plan: what is to be done.
        began: when the load began; the plan's times count from there.
        log: where it says what it did.
        disk: under the journal.
        faults: what goes wrong with that.
    """

    def __init__(
        self, target: TargetProcesses, plan: Iterable[Strike], began: float, log: LogWriter, *, disk: Disk | None = None,
        faults: Iterable[FaultPlan] = (),
    ) -> None:  # fmt: skip
        self._disk = disk
        self._target = target
        self._log = log
        self._events = sched.scheduler(time.monotonic)
        self._paused: list[str] = []
        self._up: dict[str, int] = {}
        self._ended: set[int] = set()
        """Processes that were told to end, and may not have yet."""
        self._stop = threading.Event()
        self.done: threading.Event = threading.Event()
        """Set when the whole plan is executed and nobody is paused any more."""
        self.struck: int = 0
        """Strikes so far."""
        for strike in plan:
            self._events.enterabs(began + strike.at, 0, self._strike, (strike, strike.names, _TRIES))
        for fault in faults:
            self._events.enterabs(began + fault.at, 0, self._break_disk, (fault,))
        self._thread = threading.Thread(target=self._run, name="ether-nemesis", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for name in self._paused:
            self._continue(name)
        if self._disk is not None:
            self._disk.mend()

    def _run(self) -> None:
        expected = time.monotonic() + _LOOK
        while not self._stop.wait(max(0.0, expected - time.monotonic())):
            now = time.monotonic()
            if now - expected > _STALL:
                self._log.write("stall", seconds=now - expected)
            self._look()
            self._events.run(blocking=False)
            if self._events.empty():
                self.done.set()
            expected = time.monotonic() + _LOOK

    def _look(self) -> None:
        """Write down who came up and who went down since the last look."""
        for seen in self._target.statistics():
            pid = seen.pid if seen.state is Lifecycle.RUNNING else None
            before = self._up.get(seen.name)
            if pid == before:
                continue
            if before is not None:
                self._log.write("down", name=seen.name, pid=before)
                del self._up[seen.name]
            if pid is not None:
                self._log.write("up", name=seen.name, pid=pid)
                self._ended.discard(pid)
                self._up[seen.name] = pid

    def _strike(self, strike: Strike, names: tuple[str, ...], tries: int) -> None:
        """Strike the named ones; who is not up just now is tried again, for a while."""
        known = {"number": strike.number, "action": strike.action, "victim": strike.victim}
        missing: tuple[str, ...] = ()
        for name in names:
            at = time.monotonic()
            is_up = name in self._up and self._up[name] not in self._ended
            pid = self._target.signal(name, _SIGNALS[strike.action]) if is_up else None
            if pid is None:
                missing += (name,)
                continue
            self._log.write("strike", **known, name=name, pid=pid, begin=at, seconds=strike.seconds)
            if strike.action is Action.PAUSE:
                self._paused.append(name)
                self._events.enterabs(at + strike.seconds, 0, self._resume, (name,))
            else:
                self._ended.add(pid)
        if missing and tries:
            self._events.enter(_RETRY, 0, self._strike, (strike, missing, tries - 1))
            return
        self.struck += 1
        for name in missing:
            self._log.write("missed", **known, name=name)

    def _break_disk(self, plan: FaultPlan) -> None:
        assert self._disk is not None
        at = time.monotonic()
        if self._disk.is_broken:  # the plan's times have all come at once, as when the processes were long in coming up
            self._events.enter(_RETRY, 0, self._break_disk, (plan,))
            return
        try:
            self._disk.break_by(plan.fault)
        except (OSError, sqlite3.Error) as error:  # such as a lock that the broker has, or a journal that is not there
            self._log.write("missed", number=plan.number, action=plan.fault, victim="disk", name=str(error))
            return
        self._log.write("fault", number=plan.number, fault=plan.fault, begin=at, seconds=plan.seconds)
        self._events.enterabs(at + plan.seconds, 0, self._mend_disk, (plan,))

    def _mend_disk(self, plan: FaultPlan) -> None:
        assert self._disk is not None
        self._disk.mend()
        self._log.write("mended", number=plan.number)

    def _resume(self, name: str) -> None:
        self._paused.remove(name)
        if name not in self._paused:
            self._continue(name)

    def _continue(self, name: str) -> None:
        pid = self._target.signal(name, signal.SIGCONT)
        self._log.write("continue", name=name, pid=pid)
