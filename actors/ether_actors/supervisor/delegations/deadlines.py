"""The end of delegations whose deadline has passed, a share in each step. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_actors.supervisor.state.ledger import Entry, State, owner_of
from ether_actors.supervisor.state.round_robin import RoundRobin
from ether_broker.envelope.status import Status

__all__ = ["Deadlines"]

_NOTICED: Final = 4_096
"""Passed deadlines that one step takes from the timing wheel."""
_DUE: Final = 128
"""Of them those that one step ends, so that a hundred thousand do not hold up other work."""
_UNWRITTEN: Final = 192
"""Uncommitted endings above which a step ends only `_BEHIND` more."""
_BEHIND: Final = 4
"""Endings of a step while the journal is behind; owners of whom nothing waited go first."""


class Deadlines:
    """The part of the supervisor that ends the delegations whose deadline has passed.

    Args:
        end_question: ends a delegation of `ether.*`.
    """

    def __init__(self, state: BrokerState, delivery: Delivery, end_question: Callable[[Entry], None]) -> None:
        self._state = state
        self._delivery = delivery
        self._end_question = end_question
        self._waiting: RoundRobin[str, Entry] = RoundRobin(_DUE)
        """By whose it is (`owner_of`)."""
        self.job: Job = Job(state.schedule, self._end)
        state.ledger.deadlines.on_earlier = self.job.wake

    def _end(self) -> float:
        """End a share of what has passed its deadline."""
        state, job, passed = self._state, self.job, self._waiting
        for entry in state.ledger.deadlines.due(state.now, _NOTICED):
            passed.put(owner_of(entry), entry)
        is_ahead = job.unwritten > _UNWRITTEN and state.journal.trouble is None
        later: list[Entry] = []
        for entry in passed.take(_BEHIND if is_ahead else None):
            if entry.is_over:
                continue  # it ended with its parent, a moment ago
            if self._may_be_answered(entry):
                later.append(entry)
                continue
            if entry.agent is state.bus:
                self._end_question(entry)
            elif entry.state is State.QUEUED:
                self._delivery.expire(entry)
            else:
                message = f"{entry.agent.manifest.agent} had not answered after {state.now - entry.opened:.1f} s."
                self._delivery.rule(entry, Status.TIMEOUT, "deadline", message)
        for entry in later:
            passed.put(owner_of(entry), entry)
        if passed.owners and not (is_ahead or later):
            return 0.0
        if passed.owners:
            job.pause()
        return state.ledger.deadlines.next()

    def _may_be_answered(self, entry: Entry) -> bool:
        """Whether an answer that came in time may wait behind what its node has caused and the journal has still to write."""
        session, now = entry.agent.session, self._state.now
        return (
            entry.state is not State.QUEUED
            and session.input.is_held_back
            and now < entry.deadline + self._state.session_table.timing.silence
        )
