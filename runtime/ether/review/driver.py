"""Drive a review: delegate its tasks, follow them, delegate the reduction."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, Protocol

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask
from ether.review.progress import Display
from ether.review.scout.findings.truncation import size_of
from ether_broker.envelope.response import Response
from ether_broker.errors import EtherError, InternalError

__all__ = ["Bus", "Following", "reduce_outcomes", "run_tasks"]

_REDUCE_BYTES: Final = 700_000
"""What the reduction is sent at most: a bus takes 1 MiB an envelope."""


class Following(Protocol):
    """What a review needs of a handle."""

    @property
    def id(self) -> str:
        """The request id."""

    def stream(self) -> Iterable[Response]:
        """What happens, and last the outcome."""

    def cancel(self) -> None:
        """Call it off."""


class Bus(Protocol):
    """What a review needs of a `Runtime`."""

    def delegate(self, capability: str, params: Any = None, *, timeout: float | None = None) -> Following:
        """Delegate."""


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that a follower saw; the main thread shows it."""

    task: ReviewTask
    request_id: str
    response: Response | None = None
    """A response of work that goes on."""
    outcome: Outcome | None = None


def run_tasks(bus: Bus, tasks: Sequence[ReviewTask], display: Display, *, timeout: float, window: int) -> list[Outcome]:
    """Delegate every task and wait for every outcome; one that fails stops no other.

    At most `window` are under way at a time, so that a task's timeout counts from when an agent is about to
    be free for it, and not from the start of a long queue. When the caller is interrupted, what is under way
    is called off.

    Args:
        bus: where the agents are.
        tasks: what to do.
        display: told from this thread only.
        timeout: seconds for each task.
        window: tasks under way at a time.

    Returns:
        One outcome a task, in the order of `tasks`.
    """
    waiting = deque(tasks)
    outcomes: dict[ReviewTask, Outcome] = {}
    shown: set[ReviewTask] = set()
    followers = _Followers(bus, timeout)
    with ThreadPoolExecutor(max_workers=window, thread_name_prefix="ether-review") as threads:
        try:
            for _ in range(min(window, len(waiting))):
                threads.submit(followers.follow, waiting.popleft())
            while len(outcomes) < len(tasks):
                event = followers.events.get()
                _show(event, display, shown)
                if event.outcome is not None:
                    outcomes[event.task] = event.outcome
                    if waiting:
                        threads.submit(followers.follow, waiting.popleft())
        except BaseException:
            followers.call_off()
            raise
    return [outcomes[task] for task in tasks]


class _Followers:
    """What the threads share that follow one task each."""

    def __init__(self, bus: Bus, timeout: float) -> None:
        self._bus = bus
        self._timeout = timeout
        self._under_way: dict[ReviewTask, Following] = {}
        self._over = threading.Event()
        self.events: SimpleQueue[_Event] = SimpleQueue()

    def follow(self, task: ReviewTask) -> None:
        """Delegate one task and pass on what happens to it; puts one outcome, whatever happens."""
        params = {"path": str(task.target.path), "passes": [task.pass_name.value]}
        request_id = ""
        outcome: Outcome | None = None
        try:
            handle = self._bus.delegate("scout.explore_directory", params, timeout=self._timeout)
            request_id = handle.id
            self._under_way[task] = handle
            if self._over.is_set():  # set before `call_off` looks: one of the two sees the other
                handle.cancel()
            for response in handle.stream():
                if response.status.is_terminal:
                    outcome = Outcome.of(task, response)
                else:
                    self.events.put(_Event(task, request_id, response))
        except EtherError as error:
            outcome = Outcome.undelivered(task, error)
        except Exception as error:  # noqa: BLE001  in this thread it would go unheard, and the review wait for ever
            outcome = Outcome.undelivered(task, InternalError(f"{type(error).__name__}: {error}"))
        self._under_way.pop(task, None)
        outcome = outcome or Outcome.undelivered(task, InternalError("The stream ended without an outcome."))
        self.events.put(_Event(task, request_id, outcome=outcome))

    def call_off(self) -> None:
        """Cancel what is under way, and what a thread is just about to delegate."""
        self._over.set()
        for handle in list(self._under_way.values()):
            handle.cancel()


def _show(event: _Event, display: Display, shown: set[ReviewTask]) -> None:
    if event.outcome is not None:
        display.finished(event.outcome)
        return
    if event.task not in shown:  # ACCEPTED is also the heartbeat of long work, and comes again and again
        shown.add(event.task)
        display.started(event.task, event.request_id)
    if event.response is not None and event.response.progress is not None:
        display.progressed(event.task, event.request_id, event.response.progress, event.response.summary)


def reduce_outcomes(bus: Bus, outcomes: Sequence[Outcome], *, timeout: float) -> Response | EtherError:
    """Have the findings of all tasks summarised; the bus's own refusal is a value here too.

    If they are too many for one envelope, the least grave of the largest groups stay behind; their counts do
    not.
    """
    try:
        handle = bus.delegate("scout.summarize_findings", {"groups": groups_of(outcomes)}, timeout=timeout)
        *_, response = handle.stream()
    except EtherError as error:
        return error
    return response


def groups_of(outcomes: Sequence[Outcome], limit: int = _REDUCE_BYTES) -> list[dict[str, Any]]:
    """The findings of each directory and pass as `summarize_findings` takes them, at most `limit` bytes of JSON."""
    groups: list[dict[str, Any]] = []
    for outcome in outcomes:
        if outcome.has_result:
            result = outcome.data["passes"][outcome.task.pass_name.value]
            groups.append({
                "source": outcome.task.target.name,
                "findings": list(result["findings"]),
                "counts": result["counts"],
                "by_rule": result["by_rule"],
            })  # fmt: skip
    while size_of(groups) > limit:
        longest = max(groups, key=lambda group: len(group["findings"]))
        if not longest["findings"]:
            break
        del longest["findings"][len(longest["findings"]) // 2 :]
    return groups
