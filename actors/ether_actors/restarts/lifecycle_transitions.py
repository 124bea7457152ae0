"""The moves of children through their lifecycle, and what each asks of the shell.

No move decides which comes next: that is done in `ether_actors.restarts.restart_machine`.
"""

from __future__ import annotations

from collections import deque
from itertools import count

from ether_actors.restarts.events import Down, Effect, Exit, Gone, Restarted, SetTimer, StartChild, StopChild
from ether_actors.restarts.supervisor_spec import Restart
from ether_actors.restarts.tree import Child, Lifecycle, Plan, SupervisorState, Worker, walk

__all__ = ["STOPPED", "Transitions"]

STOPPED = "stopped by its supervisor"
"""The detail of Down for a child that was told to stop."""


class Transitions:
    """The moves of one tree's children: the effects of a step, and the timers from step to step."""

    __slots__ = ("_numbers", "_timers", "agenda", "effects", "now")

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds, of the step that is being made."""
        self.effects: list[Effect] = []
        """Of the step that is being made."""
        self.agenda: deque[SupervisorState] = deque()
        """Supervisors for whom something has changed. They are looked at one after the other, so that neither
        a deep tree nor a chain of failures becomes a deep recursion."""
        self._numbers = count(1)
        """Gives incarnations and tokens, so that no number of either is ever used twice."""
        self._timers: dict[int, Child] = {}
        """{token: who waits for it}; a token that is not here means nothing any more."""

    # Up

    def begin(self, child: Child) -> None:
        """Start it: an agent by the shell, a supervisor by a plan that starts its children."""
        child.move(Lifecycle.STARTING)
        child.since = None
        if isinstance(child, Worker):
            child.incarnation = next(self._numbers)
            self.effects.append(StartChild(child.path, child.spec, child.incarnation))
            return
        for lost in child.rebuild():
            self.forget(lost)
        child.plan = Plan(starts=child.children, initial=True)
        self.agenda.append(child)

    def up(self, child: Child) -> None:
        """It has started."""
        child.move(Lifecycle.RUNNING)
        child.since = self.now
        child.fresh = False
        child.ups += 1
        if child.ups > 1:
            self.effects.append(Restarted(child.path, child.attempt))
        if child.parent:
            self.agenda.append(child.parent)

    # Down

    def tell_to_stop(self, child: Child) -> None:
        """Stop it, though it may still be starting."""
        if isinstance(child, SupervisorState):
            self.halt(child, Exit.SHUTDOWN, STOPPED)
            return
        child.move(Lifecycle.STOPPING)
        self.effects.append(StopChild(child.path, child.spec, child.spec.shutdown, child.incarnation))

    def halt(self, supervisor: SupervisorState, reason: Exit, detail: str) -> None:
        """Begin to stop the children of a supervisor and then itself, which will have ended with `reason`."""
        supervisor.move(Lifecycle.STOPPING)
        supervisor.verdict = (reason, detail)
        supervisor.plan = Plan(stops=supervisor.children)
        self.agenda.append(supervisor)

    def end(self, child: Child, reason: Exit, detail: str) -> None:
        """Nothing of it runs any more."""
        child.move(Lifecycle.ENDED)
        child.exit, child.detail = reason, detail
        self.effects.append(Down(child.path, reason, detail))

    # Waiting

    def back_off(self, child: Child, delay: float) -> None:
        """Let it wait for a timer."""
        child.move(Lifecycle.BACKOFF)
        child.timer = next(self._numbers)
        self._timers[child.timer] = child
        self.effects.append(SetTimer(child.timer, self.now + delay, child.path))

    def fired(self, token: int) -> None:
        """A timer is due: its child, if one still waits for it, is queued for a decision."""
        if child := self._timers.pop(token, None):
            child.timer = None
            self.queue(child)

    def queue(self, child: Child) -> None:
        """Let its supervisor decide about it when there is no plan."""
        assert child.parent
        child.parent.queue.append(child)
        self.agenda.append(child.parent)

    def lay_aside(self, child: Child) -> None:
        """It is down and goes with its group: to start in its turn again, or never if it is temporary."""
        self._ignore_timer(child)
        if child.restart is Restart.TEMPORARY:
            self.drop(child)
        else:
            child.move(Lifecycle.PENDING)

    # Plans

    def next_is_stopped(self, supervisor: SupervisorState, plan: Plan) -> bool:
        """Whether the last of `plan.stops` is down, and struck off; if not, it has been told to stop."""
        id_, _ = plan.stops.popitem()
        child = supervisor.children.get(id_)
        if child and child.state.is_alive:
            plan.stops[id_] = None
            if child.state is not Lifecycle.STOPPING:
                self.tell_to_stop(child)
            return False
        if child and child.state in {Lifecycle.ENDED, Lifecycle.BACKOFF}:
            self.lay_aside(child)
        return True

    def next_is_started(self, supervisor: SupervisorState, plan: Plan) -> bool:
        """Whether the first of `plan.starts` is up or is to stay down, and struck off; if not, it starts."""
        child = supervisor.children.get(plan.starts[0])
        if child and child.state in {Lifecycle.STARTING, Lifecycle.STOPPING}:
            return False
        if child and child.state in {Lifecycle.PENDING, Lifecycle.DONE}:
            self.begin(child)
            return False
        plan.starts.popleft()
        return True

    # Gone

    def forget(self, root: Child) -> None:
        """Neither it nor anything below it will be started again, unless with a sibling; its record stays."""
        for child in reversed(list(walk(root))):
            self._ignore_timer(child)
            if child.state is not Lifecycle.DONE:
                child.move(Lifecycle.DONE)
                self.effects.append(Gone(child.path))

    def drop(self, child: Child) -> None:
        """Forget it, record and all."""
        self.forget(child)
        assert child.parent
        del child.parent.children[child.id]

    def _ignore_timer(self, child: Child) -> None:
        if child.timer is not None:
            del self._timers[child.timer]
            child.timer = None
