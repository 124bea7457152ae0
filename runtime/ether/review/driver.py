"""The driver of a review: delegates its tasks, follows them, delegates the reduction."""

from __future__ import annotations

import asyncio
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
from ether_actors.delegator.handle import Handle
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
    is cancelled.

    Args:
        bus: where the agents are.
        tasks: what to do.
        progress: told of each task, in the caller's thread; in another one if an event loop runs in that.
        timeout: seconds for each task.
        window: tasks under way at a time.

    Returns:
        One outcome a task, in the order of `tasks`.
    """
    following = _follow_all(bus, tasks, progress, timeout, window)
    if not _is_in_event_loop():
        return asyncio.run(following)
    with ThreadPoolExecutor(1) as executor:  # as in a notebook
        return executor.submit(asyncio.run, following).result()


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _follow_all(
    bus: Runtime, tasks: Sequence[ReviewTask], progress: Progress, timeout: float, window: int
) -> list[Outcome]:
    turns = asyncio.Semaphore(window)

    async def follow(task: ReviewTask) -> Outcome:
        async with turns:
            outcome = await _follow(bus, task, progress, timeout)
        progress.finished(outcome)
        return outcome

    return await asyncio.gather(*map(follow, tasks))


async def _follow(bus: Runtime, task: ReviewTask, progress: Progress, timeout: float) -> Outcome:
    """Delegate one task, show what happens to it, and give its outcome, whatever happens; when cancelled, call it off."""
    params = {"path": str(task.target.path), "passes": [task.pass_name.value]}
    try:
        handle = bus.delegate("scout.explore_directory", params, timeout=timeout)
        try:
            return await _outcome(task, handle, progress)
        except BaseException:
            handle.cancel()
            raise
    except Exception as error:  # noqa: BLE001  a bug in following one task stops no other
        known = error if isinstance(error, EtherError) else InternalError(f"{type(error).__name__}: {error}")
        return Outcome.undelivered(task, known)


async def _outcome(task: ReviewTask, handle: Handle, progress: Progress) -> Outcome:
    is_shown = False
    async for response in handle.stream():
        if response.status.is_terminal:
            return Outcome.of(task, response)
        if not is_shown:  # ACCEPTED is also the heartbeat of long work, and comes again and again
            progress.started(task, handle.id)
        is_shown = True
        if response.progress is not None:
            progress.progressed(task, handle.id, response.progress, response.summary)
    raise InternalError("The stream ended without an outcome.")


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
