"""The restart machine: OTP's supervisor as a state machine without clock, thread or actor.

    effects = tree.step(event, now)

The shell tells what happened (`ether_actors.restarts.events` has the events) and does what is answered; each
effect that asks for an answer gets it as a later event. The semantics are those of OTP's `supervisor.erl`:

- Children start one after the other; when one does not come up at the supervisor's own start, those before it
  are stopped and the supervisor's start has failed.
- A child's end is judged by its restart type; a restart takes siblings along by the supervisor's strategy.
  Events that come while a group is being restarted wait for their turn, and what a sibling's restart has
  overtaken by then is ignored.
- More than `intensity` restarts within `period` seconds, and the supervisor stops its children and itself;
  its own supervisor sees that as the end of a child, and at the root it is Escalate.
- A failed restart counts as one more and is queued, never tried again in the same breath.

Where it differs, and why:

- Restarts of one child wait longer and longer (`Backoff`). The siblings that go with it are stopped at once
  and wait with it, and so does a child that is added meanwhile. OTP has no such wait.
- Under one_for_one a slow start holds up nobody else: siblings there do not depend on each other.
- A supervisor that gave up has crashed, so that also a transient one is started again. OTP's exits with
  `shutdown`, and a transient one would be left ended in silence.
- A child that ended of what was asked of it from outside (`Exit.ASKED`) is started again outside its budget and its
  backoff: whoever asks has to bound how often. OTP's supervisor asks its children nothing.
- Stop does not wait for starts: a child that is starting is told to stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ether_actors.restarts.events import (
    Add,
    ChildExited,
    ChildPath,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    Effect,
    Escalate,
    Event,
    Exit,
    Remove,
    Start,
    Stop,
    TimerFired,
)
from ether_actors.restarts.lifecycle_transitions import STOPPED, Transitions
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, Strategy, SupervisorSpec
from ether_actors.restarts.tree import (
    Child,
    Lifecycle,
    Plan,
    SupervisorState,
    TreeStatistics,
    make,
    survey,
    walk,
)
from ether_actors.restarts.tree_lookup import accepting, find, find_worker, text
from ether_broker.errors import InvalidSpec, UsageError

if TYPE_CHECKING:
    from random import Random

__all__ = ["RestartMachine"]


class RestartMachine:
    """The state machine of one supervision tree: takes events, and returns the effects to carry out.

    Not thread-safe: one thread calls it, or a lock does. It holds no reference to agents, only to their
    specs.

    Args:
        spec: the root's.
        random: where the jitter of backoffs comes from; seed it, and the same events give the same effects.
    """

    def __init__(self, spec: SupervisorSpec, random: Random) -> None:
        self._root = SupervisorState(spec, None)
        self._random = random
        self._transitions = Transitions()

    def step(self, event: Event, now: float) -> tuple[Effect, ...]:
        """Take in what happened and say what is to be done, in this order.

        Reports about children that are not known, not alive, or alive again in a later incarnation change
        nothing.

        Args:
            event: what happened.
            now: seconds, never less than at the step before.

        Raises:
            UsageError: Start comes a second time; as InvalidSpec, when Add names a supervisor that is not there,
                or a child that is. Nothing has changed.
            Unavailable: Add names a supervisor that is not up; later it may be.
            Closed: Add comes to a tree that is stopping or has ended.
        """
        moves = self._transitions
        moves.now = now
        self._hear(event)
        while moves.agenda:
            self._advance(moves.agenda.popleft())
        effects = tuple(moves.effects)
        moves.effects.clear()
        return effects

    def state(self, path: ChildPath) -> Lifecycle | None:
        """Where a child or supervisor stands; None if it is not known."""
        child = find(self._root, path)
        return child.state if child else None

    def statistics(self) -> TreeStatistics:
        """Where everything stands; O(children)."""
        return survey(self._root)

    # Hearing events

    def _hear(self, event: Event) -> None:
        match event:
            case Start():
                self._start()
            case ChildStarted(path, incarnation):
                self._started(path, incarnation)
            case ChildStartFailed(path, reason, incarnation):
                self._exited(path, incarnation, Exit.UNSTARTED, reason)
            case ChildExited(path, reason, detail, incarnation):
                self._exited(path, incarnation, reason, detail)
            case ChildStopped(path, incarnation):
                self._stopped(path, incarnation)
            case TimerFired(token):
                self._transitions.fired(token)
            case Add(path, spec):
                self._add(path, spec)
            case Remove(path):
                self._remove(path)
            case Stop():
                self._stop()
            case _:
                assert_never(event)

    def _start(self) -> None:
        if self._root.state is not Lifecycle.PENDING:
            raise UsageError(f"The tree {self._root.id!r} has been started already; make a new RestartMachine.")
        self._transitions.begin(self._root)

    def _started(self, path: ChildPath, incarnation: int | None) -> None:
        child = find_worker(self._root, path, incarnation)
        if child and child.state is Lifecycle.STARTING:
            self._transitions.up(child)

    def _exited(self, path: ChildPath, incarnation: int | None, reason: Exit, detail: str) -> None:
        if child := find_worker(self._root, path, incarnation):
            # An end before ChildStarted is a failed start, as an exit within OTP's `init` is.
            self._ended(child, Exit.UNSTARTED if child.state is Lifecycle.STARTING else reason, detail)

    def _stopped(self, path: ChildPath, incarnation: int | None) -> None:
        child = find_worker(self._root, path, incarnation)
        if child and child.state is Lifecycle.STOPPING:
            self._ended(child, Exit.SHUTDOWN, STOPPED)

    def _add(self, path: ChildPath, spec: ChildSpec | SupervisorSpec) -> None:
        supervisor = accepting(self._root, path)
        if spec.id in supervisor.children:
            raise InvalidSpec(f"{text(path)} has a child {spec.id!r} already; choose another id.")
        child = supervisor.children[spec.id] = make(spec, supervisor)
        child.fresh = True
        supervisor.removed.discard(spec.id)
        self._transitions.queue(child)

    def _remove(self, path: ChildPath) -> None:
        child = find(self._root, path)
        if child is None or child.parent is None:
            return
        supervisor = child.parent
        is_up = supervisor.state in {Lifecycle.STARTING, Lifecycle.RUNNING}
        is_awaited = is_up and child.state is Lifecycle.BACKOFF and supervisor.spec.strategy is not Strategy.ONE_FOR_ONE
        group = supervisor.group(child) if is_awaited else []
        for each in reversed(list(walk(child))):
            if each.state.is_alive:
                self._transitions.end(each, Exit.SHUTDOWN, STOPPED)
        self._transitions.drop(child)
        supervisor.removed.add(child.id)
        if group:
            supervisor.plan = supervisor.plan or Plan()
            supervisor.plan.starts.extend(id_ for id_ in group if id_ != child.id)
        self._transitions.agenda.append(supervisor)

    def _stop(self) -> None:
        match self._root.state:
            case Lifecycle.PENDING:
                self._transitions.forget(self._root)
            case Lifecycle.STARTING | Lifecycle.RUNNING:
                self._transitions.tell_to_stop(self._root)
            case _:  # it has ended, or is about to
                pass

    # Deciding

    def _advance(self, supervisor: SupervisorState) -> None:
        """Do what can be done for a supervisor without waiting for an answer."""
        while True:
            plan = supervisor.plan
            if plan is None:
                if not supervisor.queue:
                    return
                self._attend(supervisor, supervisor.queue.popleft())
            elif plan.stops:
                if not self._transitions.next_is_stopped(supervisor, plan):
                    return
            elif plan.starts:
                if not self._transitions.next_is_started(supervisor, plan):
                    return
            else:
                self._finish_plan(supervisor)

    def _attend(self, supervisor: SupervisorState, child: Child) -> None:
        """Decide what has waited for a decision, if nothing has overtaken it."""
        if supervisor.children.get(child.id) is not child:
            return
        match child.state:
            case Lifecycle.ENDED:
                self._judge(supervisor, child)
            case Lifecycle.BACKOFF if child.timer is None:
                self._restart_group(supervisor, child, start=True)
            case Lifecycle.PENDING if child.fresh and not _is_group_waiting(supervisor):
                self._transitions.begin(child)
            case _:  # a sibling's restart has taken it along, or will
                pass

    def _judge(self, supervisor: SupervisorState, child: Child) -> None:
        """Decide what follows an end: the table of OTP's `do_restart`."""
        match child.restart, child.exit:
            case _, Exit.ASKED:
                self._restart_group(supervisor, child, start=True)
            case _, Exit.UNSTARTED:  # a restart has failed, and is tried again
                self._restart(supervisor, child)
            case Restart.PERMANENT, _:
                self._restart(supervisor, child)
            case Restart.TRANSIENT, Exit.CRASH:
                self._restart(supervisor, child)
            case Restart.TRANSIENT, _:
                self._transitions.forget(child)
            case _:  # a temporary child, whatever its end
                self._transitions.drop(child)

    def _restart(self, supervisor: SupervisorState, child: Child) -> None:
        """Restart a child now or after its backoff, if the budget bears it."""
        spec = supervisor.spec
        if not supervisor.window.admit(self._transitions.now):
            budget = f"more than {spec.intensity} restarts in {spec.period:g} s"
            detail = f"{budget}; the last to end was {text(child.path)}: {child.detail}"
            self._transitions.halt(supervisor, Exit.CRASH, detail)
            return
        child.attempt += 1
        delay = spec.backoff.delay(child.attempt, self._random)
        if delay > 0.0:
            self._transitions.back_off(child, delay)
        self._restart_group(supervisor, child, start=delay == 0.0)

    def _restart_group(self, supervisor: SupervisorState, child: Child, *, start: bool) -> None:
        """Stop the siblings that go with a child that is down; with `start`, then start them all."""
        if supervisor.spec.strategy is not Strategy.ONE_FOR_ONE:
            group = supervisor.group(child)
            if start:
                child.move(Lifecycle.PENDING)
            supervisor.plan = Plan((id_ for id_ in group if id_ != child.id), group if start else ())
        elif start:
            self._transitions.begin(child)

    # Plans

    def _finish_plan(self, supervisor: SupervisorState) -> None:
        supervisor.plan = None
        if supervisor.state is Lifecycle.STARTING:
            self._transitions.up(supervisor)
        elif supervisor.state is Lifecycle.STOPPING:
            supervisor.queue.clear()  # whatever was to be decided: its own supervisor decides now
            self._ended(supervisor, *supervisor.verdict)

    def _ended(self, child: Child, reason: Exit, detail: str) -> None:
        self._transitions.end(child, reason, detail)
        if child.parent:
            self._bring_before(child.parent, child)
            return
        self._transitions.forget(child)
        if reason is not Exit.SHUTDOWN:
            self._transitions.effects.append(Escalate(child.path, detail))

    def _bring_before(self, supervisor: SupervisorState, child: Child) -> None:
        """Tell a supervisor of the end of a child."""
        self._transitions.agenda.append(supervisor)
        plan = supervisor.plan
        if child.since is not None and self._transitions.now - child.since >= supervisor.spec.period:
            child.attempt = 0
        if plan and child.id in plan.stops:
            pass  # it was to be stopped anyway, and the plan goes on
        elif child.fresh:
            self._transitions.drop(child)
        elif child.exit is Exit.UNSTARTED and plan and plan.initial:
            self._transitions.halt(supervisor, Exit.UNSTARTED, f"{text(child.path)} did not start: {child.detail}")
        else:
            if child.exit is Exit.UNSTARTED and plan:
                plan.starts.clear()  # those after it wait until it is up
            supervisor.queue.append(child)


def _is_group_waiting(supervisor: SupervisorState) -> bool:
    """Whether whoever is added now is to be started with the others, when the wait of one of them is over."""
    is_group = supervisor.spec.strategy is not Strategy.ONE_FOR_ONE
    return is_group and any(child.state is Lifecycle.BACKOFF for child in supervisor.children.values())
