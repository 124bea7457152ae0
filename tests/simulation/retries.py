"""The invariants of retries: what is tried again, how often and until when, and one outcome of it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ether_actors.backoff import Backoff
from ether_actors.delegator.handle import Handle
from ether_actors.delegator.retry import Retry
from ether_broker.envelope.ids import to_bytes, to_text
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status

if TYPE_CHECKING:
    from tests.simulation.member import Life, Member
    from tests.simulation.workload import Plan
    from tests.simulation.world import World

__all__ = ["ENDINGS", "Retries", "draw_policy"]

ENDINGS: Final = ("", "fail", "busy", "overloaded", "overloaded", "crash", "hang", "stubborn")
"""How attempts go, besides what the world's other delegations do."""
_NAMED: Final = (
    "TIMEOUT", "FAILED_EXECUTION", "REJECTED_CAPABILITY", "node_lost", "broker_lost", "agent_crash", "agent_restarted",
    "exception",
)  # fmt: skip
_SAME: Final = ("from_agent", "to_agent", "capability", "params", "priority", "parent", "durability", "fallback")
"""What attempts have in common."""
_ROUNDING: Final = 1e-6
_LOOK: Final = 0.4
"""Seconds after which a node has seen that an attempt is due, and a little."""
_ENDED: Final = frozenset({Status.COMPLETED, Status.CANCELLED})
_OWN_WORD: Final = {"busy": Status.FAILED_EXECUTION, "overloaded": Status.REJECTED_OVERLOAD}
"""{behaviour: status} with which agents themselves say that it may be tried again."""


def draw_policy(chance: Random) -> Retry:
    """A retry policy."""
    initial = chance.choice((0.0, 0.05, 0.5))
    return Retry(
        attempts=chance.choice((1, 2, 3, 3, 6)), backoff=Backoff(initial=initial, maximum=max(initial, 1.0)),
        timeout=chance.choice((None, None, 0.3, 1.0)), on=chance.sample(_NAMED, chance.choice((0, 1, 3, 5))),
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class _Retried:
    """One delegation with a policy, as the world knows it."""

    policy: Retry
    life: Life
    deadline: float
    """Of all attempts, by its node's clock."""
    plans: list[Plan] = field(default_factory=list)
    """One for each attempt."""
    handles: list[Handle] = field(default_factory=list)
    """Likewise."""
    ended: float = 0.0
    """When the last of them ended, by the node's clock."""
    ended_at: float = 0.0
    """The same by the timeline."""
    handle: Handle | None = None
    """The delegator's."""
    is_cancelled: bool = False
    ends: int = 0

    @property
    def ids(self) -> list[bytes]:
        """Of its attempts, each once."""
        return list(dict.fromkeys(handle.key for handle in self.handles))


class Retries:
    """Who sees every attempt, and what delegators are told of all of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all: list[_Retried] = []
        self._attempts: dict[bytes, tuple[_Retried, int]] = {}
        """{request id: (whose attempt it is, which)}."""

    def retry(  # noqa: PLR0917  as `OutgoingDelegations.retry`
        self, life: Life, retry: Callable[..., Handle], policy: Retry, first: Callable[[Any], Handle],
        again: Callable[[Any], Handle], timeout: float | None, *, is_named: bool,
    ) -> Handle:  # fmt: skip
        """See a delegation with a policy be made; as `OutgoingDelegations.retry`, which is `retry`."""
        assert timeout is not None
        retried = _Retried(policy, life, life.member.clock.monotonic() + timeout)

        def noted(make: Callable[[Any], Handle]) -> Callable[[Any], Handle]:
            def made(argument: Any) -> Handle:
                handle = make(argument)
                self._attempted(retried, handle)
                return handle

            return made

        handle = retried.handle = retry(policy, noted(first), noted(again), timeout, is_named=is_named)
        handle.listen(lambda update: self._ended(retried) if update is None else None)
        chance = self._world.retrying
        if chance.random() < 0.1:
            life.after(chance.uniform(0.0, timeout), lambda: _cancel(retried))
        return handle

    # -- attempts ------------------------------------------------------------------------------------------------

    def _attempted(self, retried: _Retried, handle: Handle) -> None:
        """See an attempt be made."""
        world, plans = self._world, retried.plans
        if plans:
            self._judge(retried, handle)
        else:
            self._all.append(retried)  # not before: a handler that has returned delegates nothing
        before = self._attempts.get(handle.key)
        self._attempts[handle.key] = retried, len(plans)
        retried.handles.append(handle)
        if before is None:
            plan = world.attempt(plans[0], retried.life) if plans else world.plans[handle.delegation.params["plan"]]
            plans.append(plan)
            world.asked(plan, handle)
        else:
            plan = before[0].plans[before[1]]
            plans.append(plan)
            is_said_again = before[0].life is not retried.life or (len(plans) > 1 and _is_untaken(retried.handles[-2]))
            if not (plan.is_named and is_said_again):
                self._fail(f"{self._name(retried)} has the id of another attempt")
            world.auditor.said_again.add(handle.key)
            handle.add_done_callback(lambda done: world.auditor.ended(plan, retried.life.number, done))

        self._check_ids(retried)
        self._check_time(retried, handle)

        def hear(update: object) -> None:
            if update is None:
                retried.ended, retried.ended_at = retried.life.member.clock.monotonic(), world.timeline.now

        handle.listen(hear)

    def _check_ids(self, retried: _Retried) -> None:
        """Judge that a delegator has the same ids in each of its lives, if it has chosen the first."""
        ids = retried.ids
        for other in self._all:
            if other.ids[0] == ids[0] and any(mine != theirs for mine, theirs in zip(ids, other.ids, strict=False)):
                self._fail(
                    f"attempt {len(retried.handles)} of {self._name(retried)} has another id than in an earlier life"
                )

    def _judge(self, retried: _Retried, handle: Handle) -> None:
        """Judge that a further attempt is made."""
        before, number, policy = retried.handles[-1], len(retried.plans) + 1, retried.policy
        name, now = f"attempt {number} of {self._name(retried)}", retried.life.member.clock.monotonic()
        first, made = retried.plans[0], handle.delegation
        if number > policy.attempts:
            self._fail(f"{name} is one too many")
        if now >= retried.deadline or handle.deadline > retried.deadline + _ROUNDING:
            self._fail(
                f"{name} goes from {now:.3f} to {handle.deadline:.3f}, and all have until {retried.deadline:.3f}"
            )
        if retried.is_cancelled or retried.ends:
            self._fail(f"{name} is made after the end of it all")
        if made.extensions.get("retry") != {"attempt": number, "first": to_text(first.request_id)}:
            self._fail(f"{name} says that it is {made.extensions.get('retry')}")
        if any(getattr(made, field) != getattr(before.delegation, field) for field in _SAME):
            self._fail(f"{name} is another delegation than the one before")
        if first.is_child and made.parent is not None and not self._world.by_id[to_bytes(made.parent)].runs:
            self._fail(f"{name} is made, and what it is made for has ended")
        if not before.done:
            self._fail(f"{name} is made before the end of the one before")
            return
        outcome = before.outcome()
        if now < retried.ended + (outcome.retry_after or 0.0) - _ROUNDING:
            self._fail(f"{name} is made {now - retried.ended:.3f} s after an outcome that says {outcome.retry_after}")
        backoff, waited = policy.backoff, now - retried.ended
        most = min(backoff.maximum, backoff.initial * backoff.factor ** (number - 2))
        if waited < most * (1.0 - backoff.jitter) - _ROUNDING:
            self._fail(f"{name} is made after {waited:.3f} s, sooner than its policy has it")
        if self._was_awake(retried) and waited > max(most, outcome.retry_after or 0.0) + _LOOK:
            self._fail(f"{name} is made after {waited:.3f} s, later than its policy has it")
        is_said_again = handle.key == before.key  # which `_attempted` judges
        if not is_said_again and (why := _why_not(policy, retried.plans[-1], outcome)):
            self._fail(f"{name} is made after {_said(outcome)}: {why}")

    def _check_time(self, retried: _Retried, handle: Handle) -> None:
        """Judge how much time an attempt has."""
        now, seconds = retried.life.member.clock.monotonic(), retried.policy.timeout
        due = retried.deadline if seconds is None else min(retried.deadline, now + seconds)
        is_within_another = handle.delegation.parent is not None  # which may end sooner
        if handle.deadline > due + _ROUNDING or (handle.deadline < due - _ROUNDING and not is_within_another):
            self._fail(
                f"an attempt of {self._name(retried)} has {handle.deadline - now:.3f} s, and not {due - now:.3f}"
            )

    @staticmethod
    def _was_awake(retried: _Retried) -> bool:
        """Whether its process has not stood still since the last attempt ended, nor waited for a journal that is far behind."""
        life = retried.life
        is_slow = "ahead" in life.member.world.scenario.draws
        return not is_slow and not life.is_frozen and life.thawed < retried.ended_at

    def started(self, plan: Plan) -> None:
        """See a handler begin an attempt, perhaps after the next was made."""
        retried, place = self._attempts.get(plan.request_id, (None, 0))
        if retried is None or place + 1 == len(retried.plans):
            return
        outcome = retried.handles[place].outcome()
        if why := _why_not(retried.policy, plan, outcome):
            self._fail(
                f"attempt {place + 1} of {self._name(retried)} begins after {_said(outcome)} and the next: {why}"
            )

    def unended(self, member: Member) -> list[Plan]:
        """What a delegator says again, under the ids that it has chosen: its lives before had no outcome of it."""
        open_: dict[int, _Retried] = {}
        for one in self._all:
            if one.life.member is member and one.plans[0].is_named:
                open_[one.plans[0].number] = one
        return [
            one.plans[0] for one in open_.values() if not one.ends and not any(
                code for plan in one.plans for _, _, code in plan.ends  # what was refused outside the journal is not known
            )
        ]  # fmt: skip

    # -- the end of all ------------------------------------------------------------------------------------------

    def _ended(self, retried: _Retried) -> None:
        """See a delegator get the outcome of all attempts."""
        handle, last = retried.handle, retried.handles[-1]
        assert handle is not None
        name, outcome = self._name(retried), handle.outcome()
        earlier = [response.request_id for response in handle.earlier]
        ids = [attempt.request_id for attempt in retried.handles]
        self._world.note("ended with", retried.plans[-1].number, len(ids), outcome.status.value)
        retried.ends += 1
        if retried.ends > 1:
            self._fail(f"{name} ended a second time")
        if last.done and outcome.status is Status.CANCELLED and outcome != last.outcome():
            ids.append("")  # it waited for an attempt that there will not be
        elif not last.done or outcome != last.outcome():
            self._fail(f"{name} ended with {_said(outcome)}, which is not the outcome of its last attempt")
        now = retried.life.member.clock.monotonic()
        if self._was_awake(retried) and now > max(retried.ended, retried.deadline) + _LOOK:
            self._fail(f"{name} ended {now - retried.deadline:.3f} s after its deadline")
        if earlier != ids[:-1] or handle.request_id != retried.handles[-1].request_id:
            self._fail(f"{name} was told of {len(earlier)} attempts before the last, and there were {len(ids) - 1}")
        self._check_patience(retried, outcome)

    def _check_patience(self, retried: _Retried, outcome: Response) -> None:
        """Judge that there is no further attempt: where one was possible, there has to be one."""
        policy, life = retried.policy, retried.life
        is_over = (
            retried.is_cancelled or life.is_leaving or len(retried.plans) == policy.attempts or outcome.status in _ENDED
        )
        if is_over or retried.plans[0].is_child or life.member.clock.monotonic() >= retried.deadline:
            return
        pause = max(policy.backoff.maximum, outcome.retry_after or 0.0)
        code = outcome.error.code if outcome.error is not None else ""
        is_passing = outcome.status is Status.REJECTED_OVERLOAD or code in {"agent_down", "expired"}
        is_own_word = code == "exception" and outcome.error is not None and outcome.error.retryable
        is_wanted = is_passing or is_own_word or {outcome.status.value, code} & set(policy.on)
        if is_wanted and retried.ended + pause < retried.deadline:
            self._fail(f"{self._name(retried)} was given up after {len(retried.plans)} attempts with {_said(outcome)}")

    def left(self, life: Life) -> None:
        """Judge that nobody waits in a process that has been closed."""
        for retried in self._all:
            if retried.life is life and not retried.ends and not life.is_dead and not life.is_frozen:
                self._fail(f"{self._name(retried)} goes on in a runtime that is closed")

    def unrest(self) -> str:
        """What is still to come; empty at rest."""
        open_ = [one for one in self._all if not one.ends and not one.life.is_dead]
        return f"{self._name(open_[0])} waits for its next attempt" if open_ else ""

    def finish(self) -> None:
        """Compare what is left when the world is at rest."""
        for retried in self._all:
            if not retried.ends and not retried.life.is_dead:
                self._fail(f"{self._name(retried)} never ended")
        for member in self._world.members:
            if member.life is not None and member.life.node.outgoing._retried:
                self._fail(f"{member.name} keeps what has ended")

    def _name(self, retried: _Retried) -> str:
        return self._world.auditor.name(retried.plans[0].request_id)

    def _fail(self, message: str) -> None:
        self._world.auditor.fail("retries", message)


def _cancel(retried: _Retried) -> None:
    assert retried.handle is not None
    if not retried.handle.done:
        retried.is_cancelled = True
        retried.handle.cancel()


def _is_untaken(handle: Handle) -> bool:
    """Whether it was refused without regard to what became of its id before."""
    outcome = handle.outcome()
    code = outcome.error.code if outcome.error is not None else ""
    return outcome.status is Status.REJECTED_OVERLOAD and code in {"journal_unavailable", "link_full"}


def _why_not(policy: Retry, plan: Plan, outcome: Response) -> str:
    """Why an outcome must not be tried again, by what has happened in truth; empty if it may be."""
    status, error = outcome.status, outcome.error
    code = "" if error is None else error.code
    if status in _ENDED:
        return "that is final"
    if {status.value, code} & set(policy.on):
        return ""
    if plan.runs:
        return "its handler still works"
    if _OWN_WORD.get(plan.behaviour) is status and code in {"exception", ""}:
        return ""
    if plan.starts:
        return "a part of it was done"
    is_passing = status is Status.REJECTED_OVERLOAD or code == "expired" or (error is not None and error.retryable)
    return "" if is_passing else "nothing says that it may go better"


def _said(outcome: Response) -> str:
    return f"{outcome.status} {outcome.error.code if outcome.error is not None else ''}".strip()
