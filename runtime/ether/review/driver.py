"""The driver of a review: delegates its tasks, follows them, delegates the reduction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pydantic import TypeAdapter

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask
from ether.review.progress import Progress
from ether.review.scout.findings.truncation import shorten
from ether.review.scout.summary import Group, summarise
from ether.runtime import Runtime
from ether_actors.task.handle import Handle
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, InternalError

__all__ = ["groups_of", "reduce_outcomes", "run_tasks"]

_REDUCE_BYTES: Final = 700_000
"""What the reduction is sent at most: a bus takes 1 MiB an envelope."""
_REDUCE_TIMEOUT: Final = 60.0


def run_tasks(
    bus: Runtime, tasks: Sequence[ReviewTask], progress: Progress, *, timeout: float, window: int
) -> list[Outcome]:
    """Delegate every task and wait for every outcome; one that fails stops no other.

    At most `window` are under way at a time, so that a task's timeout counts from when an agent is about to
    be free for it, and not from the start of a long queue. When the caller is interrupted, what is under way
    is called off.

    Args:
        bus: where the agents are.
        tasks: what to do.
        progress: told of each task by one thread at a time.
        timeout: seconds for each task.
        window: tasks under way at a time.

    Returns:
        One outcome a task, in the order of `tasks`.
    """
    followers = _Followers(bus, progress, timeout)
    with ThreadPoolExecutor(max_workers=window, thread_name_prefix="ether-review") as threads:
        try:
            return list(threads.map(followers.follow, tasks))
        except BaseException:
            followers.call_off()
            raise


class _Followers:
    """The state that the threads share which follow one task each."""

    def __init__(self, bus: Runtime, progress: Progress, timeout: float) -> None:
        self._bus = bus
        self._progress = progress
        self._timeout = timeout
        self._under_way: dict[ReviewTask, Handle] = {}
        self._over = threading.Event()
        self._lock = threading.Lock()
        """Held while the progress is told of something."""

    def follow(self, task: ReviewTask) -> Outcome:
        """Delegate one task, show what happens to it, and give its outcome, whatever happens."""
        params = {"path": str(task.target.path), "passes": [task.pass_name.value]}
        try:
            handle = self._bus.delegate("scout.explore_directory", params, timeout=self._timeout)
            self._under_way[task] = handle
            if self._over.is_set():  # set before `call_off` looks: one of the two sees the other
                handle.cancel()
            outcome = self._followed(task, handle)
        except Exception as error:  # noqa: BLE001  a bug in following one task stops no other
            known = error if isinstance(error, EtherError) else InternalError(f"{type(error).__name__}: {error}")
            outcome = Outcome.undelivered(task, known)
        self._under_way.pop(task, None)
        with self._lock:
            self._progress.finished(outcome)
        return outcome

    def _followed(self, task: ReviewTask, handle: Handle) -> Outcome:
        is_shown = False
        for response in handle.stream():
            if response.status.is_terminal:
                return Outcome.of(task, response)
            with self._lock:
                if not is_shown:  # ACCEPTED is also the heartbeat of long work, and comes again and again
                    self._progress.started(task, handle.id)
                is_shown = True
                if response.progress is not None:
                    self._progress.progressed(task, handle.id, response.progress, response.summary)
        raise InternalError("The stream ended without an outcome.")

    def call_off(self) -> None:
        """Cancel what is under way, and what a thread is just about to delegate."""
        self._over.set()
        for handle in list(self._under_way.values()):
            handle.cancel()


def reduce_outcomes(bus: Runtime, outcomes: Sequence[Outcome]) -> tuple[dict[str, Any], str]:
    """Have the findings of all tasks summarised.

    If they are too many for one envelope, the least grave of the largest groups stay behind; their counts do not.

    Returns:
        The summary, and why it was made here if no agent made it: a review without one would be worth little.
    """
    groups = groups_of(outcomes)
    try:
        handle = bus.delegate("scout.summarize_findings", {"groups": groups}, timeout=_REDUCE_TIMEOUT)
        *_, response = handle.stream()
        if response.status is Status.COMPLETED:
            return response.data_payload.thawed(), ""
        problem = response.explain()
    except EtherError as error:
        problem = str(error)
    summary = summarise(TypeAdapter(list[Group]).validate_python(groups))
    return summary, f"The summary was made without an agent: {problem}"


def groups_of(outcomes: Sequence[Outcome], limit: int = _REDUCE_BYTES) -> list[dict[str, Any]]:
    """The findings of each directory and pass as `summarize_findings` takes them, at most `limit` bytes of JSON."""
    told = ("findings", "counts", "by_rule", "findings_omitted")
    groups = [
        {"source": outcome.task.target.name, **{name: outcome.result[name] for name in told}}
        for outcome in outcomes
        if outcome.has_result
    ]
    shorten(groups, groups, limit)
    return groups
