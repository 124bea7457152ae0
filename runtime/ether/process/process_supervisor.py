"""The process supervisor: keeps the processes of a cluster running, by the decisions of the restart machine.

    Cluster ── add, stop ──► ProcessSupervisor ── step(event) ──► RestartMachine  one supervisor a process, each with
                                │   ▲                                 │           a restart budget of its own
                                │   └──────────── effects ────────────┘
                                ├── event loop        what is due, and when: asyncio's
                                ├── Process           start, signal, reap
                                └── OutputReader      what they print

One thread owns it all and starts every process, because the kernel ties a child to the thread that started it
(`ether.process.parent_link`). A process that has spent its budget is given up, and the others go on. All are ended if it
is to `escalate`, or if none is left but the one that ends last.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Final

from ether.errors import ProcessFailed
from ether.process.child import Process, describe_exit
from ether.process.output_reader import OutputReader
from ether.process.start_failure import error_of, unexplained
from ether_actors.backoff import Backoff
from ether_actors.restarts.events import (
    Add,
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
    SetTimer,
    Start,
    StartChild,
    Stop,
    StopChild,
    TimerFired,
)
from ether_actors.restarts.restart_machine import RestartMachine
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle
from ether_broker import errors
from ether_broker.errors import EtherError
from ether_broker.unread_log import warn_unread

__all__ = ["ProcessSpec", "ProcessStatistics", "ProcessSupervisor"]

logger: logging.Logger = logging.getLogger("ether.cluster")

GRACE: Final = 5.0
"""Seconds from the end of a process's drain to SIGKILL: it says goodbye to the broker and joins its threads."""
_ROOT: Final = "cluster"
_PATIENCE: Final = 5.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The specification of a process that is kept running."""

    name: str
    module: str
    """What `python -m` runs."""
    request: Callable[[], Mapping[str, Any]]
    """What it is asked; called at each start."""
    drain: float
    """Seconds that it takes to end when it is told to."""
    start_timeout: float
    """Seconds that it has to come up."""
    last: bool = False
    """Whether it ends only when all others have."""
    backoff: Backoff | None = None
    """The delays between its restarts; None: the process supervisor's."""
    escalate: bool = False
    """Whether all others end when it is given up."""


@dataclass(frozen=True, slots=True)
class ProcessStatistics:
    """The state of one process of a cluster, and how often it was started again."""

    name: str
    pid: int | None
    """None while there is none, as between two restarts."""
    state: Lifecycle
    """DONE for one that was given up, after more restarts than are allowed."""
    restarts: int
    """How often it was started again; 0 for one that was given up."""


@dataclass(slots=True, eq=False)
class _Life:
    """One incarnation of a process."""

    spec: ProcessSpec
    process: Process
    path: ChildPath
    incarnation: int
    is_up: bool = False
    waits: bool = False
    """Whether it has said that it takes longer, through no fault of its own."""
    exit_expected: bool = False
    """Whether it has been told to end."""
    failure: EtherError | None = None
    """What it said of its failed start."""
    asked: set[int] = field(default_factory=set)
    """Numbers of what it was asked and has not answered."""


class ProcessSupervisor:
    """A thread that keeps processes running by the rules of the restart machine.

    Args:
        intensity: restarts of one process within `period` that are allowed; not counted are those after it was asked something
            (`ask`) and went down before it had answered.
        period: seconds.
        backoff: the delays between restarts of one process.
        on_event: told in words what happens; it must not wait for the process supervisor. What it raises is logged and stops
            nothing: it may be that nobody reads it any more.
        on_output: gets each line that a process prints, with its name; as `on_event`.
        on_failed: told once why the process supervisor gave up; as `on_event`.
    """

    def __init__(
        self,
        *,
        intensity: int,
        period: float,
        backoff: Backoff,
        on_event: Callable[[str], None],
        on_output: Callable[[str, str], None],
        on_failed: Callable[[ProcessFailed], None],
    ) -> None:
        self._budget: dict[str, Any] = {"intensity": intensity, "period": period, "backoff": backoff}
        self._on_event = _guarded(on_event)
        self._on_output = _guarded(on_output)
        self._on_failed = _guarded(on_failed)
        self._tree = RestartMachine(SupervisorSpec(_ROOT, intensity=0), random.Random())  # noqa: S311  jitter
        self._specs: dict[str, ProcessSpec] = {}
        self._lives: dict[str, _Life] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._failures: dict[str, EtherError] = {}
        self._last_ends: dict[str, tuple[int | None, str]] = {}
        self._backoff_timers: dict[str, int] = {}
        """{process in backoff: the token of its timer}."""
        self._given_up: dict[str, ProcessFailed] = {}
        """{process that has spent its budget: what that means}."""
        self._deferring = 0
        """Blocks under way in which all are not ended for want of a process."""
        self._numbers = count(1)
        self._answers: dict[int, dict[str, Any] | None] = {}
        """{number of what is asked: what was answered}, while somebody waits for it."""
        self._changed = threading.Condition()
        self._lock = threading.Lock()
        """Held while the tree makes a step, or is looked at."""
        self._over = False
        self._announced_end = False
        self.failed: ProcessFailed | None = None
        """Why it gave up; None while it has not."""

    # -- from any thread -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread, with no process yet."""
        self._output_reader = OutputReader(self._on_output)
        self._event_loop = asyncio.new_event_loop()
        self._post(lambda: self._tell(Start()))
        self._thread = threading.Thread(target=self._run, name="ether-process-supervisor", daemon=True)
        self._thread.start()

    def add(self, spec: ProcessSpec) -> None:
        """Start a process and keep it running from when it first was up; `wait_up` says whether it came up."""
        self._specs[spec.name] = spec
        for known in (self._facts, self._failures, self._given_up):  # of an earlier one of that name
            known.pop(spec.name, None)
        child = ChildSpec(spec.name, f"{spec.module}:main", shutdown=spec.drain)
        tree = SupervisorSpec(
            spec.name, children=(child,), restart=Restart.PERMANENT if spec.escalate else Restart.TEMPORARY,
            **{**self._budget, "backoff": spec.backoff or self._budget["backoff"]},
        )  # fmt: skip
        self._post(lambda: self._add(tree))

    def _add(self, tree: SupervisorSpec) -> None:
        try:
            self._tell(Add((_ROOT,), tree))
        except EtherError as error:  # all are being stopped: `wait_up` says so
            self._failures[tree.id] = error

    def remove(self, name: str, *, at_once: bool = False) -> None:
        """End a process for good, and wait until it has ended; one that is not there is no error.

        Args:
            name: of the process.
            at_once: whether it is killed, without its drain.
        """
        self._post(lambda: self._remove(name, at_once=at_once))
        with self._changed:
            self._changed.wait_for(lambda: self._over or (name not in self._lives and name not in self._specs))

    def _remove(self, name: str, *, at_once: bool) -> None:
        for known in (self._specs, self._facts, self._failures, self._given_up, self._backoff_timers):
            known.pop(name, None)
        self._tell(Remove((_ROOT, name)))
        life = self._lives.get(name)
        if life is not None:
            self._ask_to_end(life)
            if at_once:
                life.process.kill()

    @contextmanager
    def defer_end(self) -> Iterator[None]:
        """Do not end all for want of a process before this block ends, as one may be between two lives in it."""
        self._post(partial(self._defer, 1))
        try:
            yield
        finally:
            self._post(partial(self._defer, -1))

    def _defer(self, number: int) -> None:
        self._deferring += number
        self._fail_if_last()

    def why_given_up(self, name: str) -> ProcessFailed | None:
        """Why a process was given up; None while it was not."""
        return self._given_up.get(name)

    def is_up(self, name: str) -> bool:
        """Whether a process is up: it has started, and has not ended since."""
        life = self._lives.get(name)
        return life is not None and life.is_up

    def end_backoffs(self, timeout: float) -> None:
        """Start at once all processes in backoff, and wait until they, and what is starting already, are up or have failed.

        Args:
            timeout: seconds.
        """
        started: list[_Life] = []
        told = threading.Event()
        self._post(partial(self._fire_backoff_timers, started, told))

        def are_settled() -> bool:
            return all(life.is_up or self._lives.get(life.spec.name) is not life for life in started)

        with self._changed:
            self._changed.wait_for(lambda: self._over or (told.is_set() and are_settled()), timeout)

    def _fire_backoff_timers(self, started: list[_Life], told: threading.Event) -> None:
        for token in list(self._backoff_timers.values()):
            self._tell(TimerFired(token))
        started += self._lives.values()
        told.set()
        with self._changed:
            self._changed.notify_all()

    def is_kept(self, name: str) -> bool:
        """Whether a process is kept running: it was added, came up the first time, and was not removed."""
        with self._lock:
            return (_ROOT, name, name) in self._tree.statistics().children

    def ask(self, name: str, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Ask a process something as soon as it is up, and return its answer.

        If it goes down before it has answered, it is started again, and that does not count towards `intensity`.

        Args:
            name: of the process.
            request: what its `ParentLink.serve` gets.
            timeout: seconds.

        Raises:
            WaitTimeout: it did not come up, or did not answer, in time.
            ProcessFailed: it went down before it had answered, or was given up.
            Closed: nothing runs any more.
            EtherError: what it answered.
        """
        number, end = next(self._numbers), time.monotonic() + timeout
        self._answers[number] = None

        def wait(condition: Callable[[], Any]) -> Any:
            with self._changed:
                found = self._changed.wait_for(
                    lambda: self._over or name in self._given_up or condition(), end - time.monotonic()
                )
            if self._over:
                raise errors.Closed("The cluster has ended.")
            if name in self._given_up:
                raise self._given_up[name]
            if not found:
                raise errors.WaitTimeout(f"{name} did not answer within {timeout:g} s.")
            return found

        try:
            life = wait(lambda: (life := self._lives.get(name)) and life.is_up and life)
            self._post(partial(self._ask, life, {**request, "number": number}))
            wait(lambda: self._answers[number] or self._lives.get(name) is not life)
            answer = self._answers[number]
            if answer is not None and answer.get("error", {}).get("code") == errors.Closed.code:  # it ends
                wait(lambda: self._lives.get(name) is not life)
                answer = None
        finally:
            del self._answers[number]
        if answer is None:
            code, how = self._last_ends.get(name, (None, "it is not known how"))
            raise ProcessFailed(f"{name} went down before it had answered: {how}", name, exit=code)
        if "error" in answer:
            raise error_of(name, answer["error"])
        return answer

    def _ask(self, life: _Life, request: Mapping[str, Any]) -> None:
        if self._lives.get(life.spec.name) is life:
            life.asked.add(request["number"])
            life.process.ask(request)

    def facts(self, name: str) -> dict[str, Any]:
        """What a process reported when it last came up; empty before that."""
        return self._facts.get(name, {})

    def wait_up(self, name: str) -> dict[str, Any]:
        """Wait until a process has come up for the first time, and return what it reported.

        Raises:
            EtherError: it did not; its own error where it had one, else ProcessFailed.
        """
        with self._changed:
            self._changed.wait_for(lambda: name in self._facts or name in self._failures or self._over)
            if name in self._facts:
                return self._facts[name]
            raise self._failures.get(name) or self.failed or errors.Closed(f"{name} was stopped while it started.")

    def stop(self, timeout: float | None = None) -> bool:
        """Tell all processes to end, and wait until they have; False when `timeout` seconds were not enough."""
        self._post(lambda: self._tell(Stop()))
        return self.wait(timeout)

    def kill(self, *, but_last: bool = False) -> None:
        """End all processes at once, or all but those that end last, which end in order; returns before they have."""
        self._post(lambda: self._tell(Stop()))
        self._post(lambda: self._kill_all(but_last=but_last))

    def signal(self, name: str, number: int) -> int | None:
        """Send a signal to a process, to that one alone and never to another that got its id meanwhile.

        Returns:
            Its process id; None when there is none at the moment.
        """
        if self._over:
            return None
        told: SimpleQueue[int | None] = SimpleQueue()
        self._post(lambda: told.put(self._signal(name, number)))
        with contextlib.suppress(Empty):  # the process supervisor has ended meanwhile, and all processes with it
            return told.get(timeout=_PATIENCE)
        return None

    def _signal(self, name: str, number: int) -> int | None:
        life = self._lives.get(name)
        if life is None:
            return None
        life.process.tell(number)
        return life.process.pid

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs any more, because of `stop` or because the process supervisor gave up."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over, timeout)

    def close(self) -> None:
        """End the thread, when nothing runs any more."""
        self._thread.join()

    def statistics(self) -> list[ProcessStatistics]:
        """How each process stands, in the order in which they were added."""
        with self._lock:
            seen = self._tree.statistics().children
        found = []
        for name, spec in list(self._specs.items()):
            child = seen.get((_ROOT, spec.name, spec.name))
            life = self._lives.get(name)
            state = child.state if child else Lifecycle.DONE
            found.append(
                ProcessStatistics(name, life.process.pid if life else None, state, child.restarts if child else 0)
            )
        return found

    def _post(self, call: Callable[[], None]) -> None:
        with self._changed:
            if not self._over:
                self._event_loop.call_soon_threadsafe(call)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._event_loop.run_forever()
        finally:
            self._end()

    def _tell(self, event: Event) -> None:
        with self._lock:
            effects = self._tree.step(event, time.monotonic())
        for effect in effects:
            self._perform(effect)
        if self._tree.state((_ROOT,)) is Lifecycle.STOPPING and not self._announced_end:
            self._announced_end = True
            for life in list(self._lives.values()):  # side by side: one after the other, drains would add up
                if not life.spec.last:
                    self._ask_to_end(life)
        with self._changed:
            self._changed.notify_all()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartChild(path, spec, incarnation):
                self._start_process(path, spec.id, incarnation)
            case StopChild(path, spec, _, incarnation):
                life = self._lives.get(spec.id)
                if life is None:
                    self._tell(ChildStopped(path, incarnation))
                else:
                    self._ask_to_end(life)
            case SetTimer(token, at, (*_, name)):
                self._backoff_timers[name] = token
                self._event_loop.call_at(at, self._tell, TimerFired(token))
            case Down((_, name), Exit.CRASH, _):  # a process's own supervisor has spent its budget
                self._give_up(name)
            case Escalate():
                self._fail(next(reversed(self._given_up)))
            case Gone(path):
                if path == (_ROOT,):
                    self._event_loop.stop()
            case _:  # other Down, and Restarted: told when they happened
                pass

    # -- processes -----------------------------------------------------------------------------------------------

    def _start_process(self, path: ChildPath, name: str, incarnation: int) -> None:
        self._backoff_timers.pop(name, None)
        spec = self._specs[name]
        try:
            process = Process(name, spec.module, spec.request())
        except (EtherError, OSError) as error:
            failure = error if isinstance(error, EtherError) else ProcessFailed(f"{name} cannot start: {error}", name)
            self._failures.setdefault(name, failure)
            self._tell(ChildStartFailed(path, str(failure), incarnation))
            return
        life = self._lives[name] = _Life(spec, process, path, incarnation)
        self._output_reader.connect(name, process.output)
        self._event_loop.add_reader(process.channel, self._hear, life)
        self._event_loop.add_reader(process.exit, self._ended, life)
        self._event_loop.call_later(spec.start_timeout, self._too_late, life)

    def _hear(self, life: _Life) -> None:
        reports = life.process.reports()
        if reports is None:
            self._event_loop.remove_reader(life.process.channel)
            return
        for report in reports:
            if "ready" in report:
                life.is_up = True
                again = life.spec.name in self._facts
                self._facts[life.spec.name] = report["ready"]
                self._on_event(f"{life.spec.name} {'is up again' if again else 'is up'} (pid {life.process.pid})")
                self._tell(ChildStarted(life.path, life.incarnation))
            elif "answered" in report:
                life.asked.discard(report["answered"]["number"])
                with self._changed:
                    if report["answered"]["number"] in self._answers:
                        self._answers[report["answered"]["number"]] = report["answered"]
                    self._changed.notify_all()
            elif "waits" in report:
                life.waits = True
                self._on_event(f"{life.spec.name} waits: {report['waits']}")
            elif "failed" in report:
                life.failure = error_of(life.spec.name, report["failed"])

    def _too_late(self, life: _Life) -> None:
        if self._lives.get(life.spec.name) is life and not life.is_up and not life.waits:
            message = f"{life.spec.name} was not up after {life.spec.start_timeout:g} s."
            life.failure = life.failure or ProcessFailed(message, life.spec.name)
            life.process.kill()

    def _ask_to_end(self, life: _Life) -> None:
        """SIGTERM once, since a second one means at once; SIGKILL when its time is up.

        SIGINT tells one that ends last that all others have; before it is up it need not know what that means.
        """
        if life.exit_expected:
            return
        life.exit_expected = True
        life.process.tell(signal.SIGINT if life.spec.last and life.is_up else signal.SIGTERM)
        self._event_loop.call_later(life.spec.drain + GRACE, self._kill, life)

    def _kill(self, life: _Life) -> None:
        if self._lives.get(life.spec.name) is life:
            self._on_event(f"{life.spec.name} did not end in time; it is killed")
            life.process.kill()

    def _kill_all(self, *, but_last: bool) -> None:
        for life in list(self._lives.values()):
            if not (but_last and life.spec.last):
                life.process.kill()

    def _ended(self, life: _Life) -> None:
        name, process = life.spec.name, life.process
        self._hear(life)  # its last words may lie there still
        code = process.reap()
        output = self._output_reader.disconnect(process.output)
        for descriptor in (process.channel, process.exit):
            self._event_loop.remove_reader(descriptor)
        process.close()
        how = describe_exit(code)
        self._last_ends[name] = (code, how)
        del self._lives[name]
        if life.exit_expected:
            self._on_event(f"{name} has ended ({how})")
            self._tell(ChildStopped(life.path, life.incarnation))
        elif life.is_up:
            self._on_event(f"{name} went down ({how})")
            reason = Exit.ASKED if life.asked else Exit.CRASH if code else Exit.NORMAL
            self._tell(ChildExited(life.path, reason, how, life.incarnation))
        else:
            failure = life.failure or unexplained(name, code, output)
            self._last_ends[name] = (code, str(failure))
            self._failures.setdefault(name, failure)
            if name in self._facts:  # else `wait_up` raises it
                self._on_event(f"{name} did not start: {failure}")
            self._tell(ChildStartFailed(life.path, str(failure), life.incarnation))

    # -- the end -------------------------------------------------------------------------------------------------

    def _give_up(self, name: str) -> None:
        """Start a process no more; if it escalates, or was the last but the one that ends last, all end."""
        code, how = self._last_ends.get(name, (None, "it never came up"))
        budget = f"{self._budget['intensity']} times in {self._budget['period']:g} s"
        often = f"ended more than {budget}, the last time with: {how}"
        self._given_up[name] = ProcessFailed(f"{name} {often}", name, exit=code)
        if self._specs[name].escalate:
            return  # as Escalate follows
        if self._fail_if_last():
            return
        said = f"{name} gave up, and the others go on: it {often}"
        logger.warning("%s", said)
        warn_unread(logger, said)
        self._on_event(said)

    def _fail_if_last(self) -> bool:
        """End all, if a process was given up, none is left but those that end last, and that is not deferred."""
        if not self._given_up or self._deferring or self.failed is not None or self._announced_end:
            return False
        if any(self.is_kept(other) for other, spec in list(self._specs.items()) if not spec.last):
            return False
        self._fail(next(reversed(self._given_up)))
        self._tell(Stop())
        return True

    def _fail(self, name: str) -> None:
        failure = self._given_up[name]
        self.failed = ProcessFailed(f"The cluster gave up: {failure}", name, exit=failure.exit)
        self._on_event(str(self.failed))

    def _end(self) -> None:
        for life in list(self._lives.values()):  # none, unless a step of ours failed
            life.process.kill()
            life.process.reap()
            self._output_reader.disconnect(life.process.output)
            life.process.close()
        self._output_reader.close()
        with self._changed:
            self._over = True
            self._event_loop.close()
            self._changed.notify_all()
        if self.failed is not None:
            self._on_failed(self.failed)


def _guarded(callback: Callable[..., None]) -> Callable[..., None]:
    """A callback that may raise: what it raises is logged."""

    def call(*args: object) -> None:
        try:
            callback(*args)
        except Exception:
            logger.exception("what the cluster tells was not taken")

    return call
