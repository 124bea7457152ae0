"""A task: one delegation as its handler sees it."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from ether_actors.delegator.mapped import WINDOW, Mapped
from ether_actors.delegator.options import DelegateOptions, check_each, check_keywords
from ether_actors.delegator.retry import Retry, check_retry
from ether_actors.task.amount import is_amount
from ether_actors.task.budget import BudgetAccount
from ether_actors.task.lease import Lease, resource_of
from ether_actors.task.permissions import narrowed
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Budget, Delegation
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import BudgetExceeded, Closed, NotPermitted, UsageError
from ether_broker.name_hint import misses
from ether_broker.number import is_number
from ether_broker.unread_log import warn_unread
from ether_broker.wire.codec import read_delegation
from ether_broker.wire.frame import Header

if TYPE_CHECKING:
    from ether_actors.delegator.handle import Handle
    from ether_broker.envelope.fields import DelegationFields, ResponseFields

__all__ = ["NOT_YOURS", "RUNNING", "Task", "TaskServices", "running_task"]

logger: logging.Logger = logging.getLogger("ether.unwatched")

PROGRESS_INTERVAL: Final = 0.02
"""Seconds between two progress responses without data; of those that come faster, the newest is sent later."""
MAX_PROGRESS_DATA: Final = 10_000
"""Progress responses with data that one task may send."""
_MOST_LOOKED_AT: Final = 8
"""Sub-delegations of one handler that are looked at as it returns, the newest."""
_OF_ERROR: Final = ErrorInfo.model_fields.keys()
_ELSEWHERE: Final = {
    "publish": "self.bus.publish(topic, …)",
    "after": "self.bus.after(seconds, …)",
    "broadcast": "task.delegate(…, to=NAME) for each",
    "ask": "task.delegate(…).result() waits for the outcome",
}
"""{what is looked for here: what to write instead}"""
_OFF_THE_BUS: Final = (
    "This task runs off the bus (Agent.execute), so there is nobody to {}: start the agent in a Runtime."
)


class TaskServices(Protocol):
    """The interface of the services that a node gives to its tasks."""

    def delegate(self, delegation: Delegation, deadline: float | None) -> Handle:
        """Send a sub-delegation; `deadline` is in seconds by the node's monotonic clock."""

    def send(self, delegation: Delegation) -> Handle:
        """Send a sub-delegation whose timeout begins now."""

    def check_may_wait(self) -> None:
        """Raise UsageError if the calling thread must not wait."""

    def retry(
        self, policy: Retry, first: Callable[[float | None], Handle], again: Callable[[Delegation], Handle],
        timeout: float | None, *, is_named: bool,
    ) -> Handle:  # fmt: skip
        """Delegate by a retry policy: `first` makes the first attempt, `again` each other, all within `timeout` seconds."""

    def progress(self, task: Task, response: Response) -> None:
        """Send a PROGRESS response."""

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the pool after some seconds."""

    def offer(self, path: str | os.PathLike[str]) -> Artifact:
        """Seal a file of this machine, and let others fetch it."""

    def sign(self, artifact: Artifact, found: os.stat_result) -> Artifact:
        """Let others fetch a file that is sealed, and was this one then."""

    def monotonic(self) -> float:
        """The node's clock in seconds."""

    def wall(self) -> float:
        """Seconds since 1970 in UTC."""

    def new_id(self) -> str:
        """A request id."""


class ReceivedDelegation(Protocol):
    """A delegation as it came, known to be valid; read when a handler asks for it."""

    header: Header
    envelope: bytes


class Task:
    """A delegation as its handler sees it: what is asked, how long there is, and the way to ask others.

    Safe to use from any thread of the handler's. After the handler has returned, `delegate` and `progress` raise Closed.

    Example:
        class Editor(Agent):
            @capability("edit")
            def edit(self, text: str, task: Task):
                words = task.delegate("text.count", {"text": text}).result().unwrap().data
                return task.respond(data=words, confidence=0.8, summary=f"{words} words, edited.")

        bus.start(Editor)
        assert bus.delegate("edit", {"text": "two words"}).result().summary == "2 words, edited."
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise misses(self, name, _ELSEWHERE)

    __slots__ = (
        "_budget",
        "_cancelled",
        "_children",
        "_closed",
        "_delegation",
        "_last_progress",
        "_log",
        "_progress_lock",
        "_sent_data",
        "_services",
        "_waiting_progress",
        "agent",
        "attempt",
        "deadline",
        "started",
    )  # fmt: skip

    def __init__(
        self, delegation: Delegation | ReceivedDelegation, agent: str, services: TaskServices | None, deadline: float | None
    ) -> None:  # fmt: skip
        self._delegation = delegation
        self.agent: str = agent
        """The name of the agent whose handler this is."""
        self.attempt: int = delegation.attempt if isinstance(delegation, Delegation) else delegation.header.attempt
        """1 for the first run; above that the node of an earlier run was lost (G3)."""
        self.deadline: float | None = deadline
        """Seconds by `time.monotonic()` of this process; None off the bus."""
        self._services = services
        self.started: float = services.monotonic() if services is not None else time.monotonic()
        self._cancelled = False
        self._closed = False
        self._children: deque[Handle] | None = None
        """The newest sub-delegations."""
        self._budget: BudgetAccount | None = None
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._last_progress = 0.0
        self._waiting_progress: tuple[float, str] | None = None
        self._progress_lock = threading.Lock()
        """Held while progress is sent, so that what waited goes neither after newer progress nor after the outcome."""
        self._sent_data = 0

    @property
    def delegation(self) -> Delegation:
        """The request, whole."""
        if not isinstance(self._delegation, Delegation):
            self._delegation = read_delegation(self._delegation.header, self._delegation.envelope)
        return self._delegation

    @property
    def request_id(self) -> str:
        """The delegation's id."""
        return self.delegation.request_id

    @property
    def cancelled(self) -> bool:
        """Whether the delegation has ended without this handler: by its delegator, its deadline or an ancestor's end.

        A plain handler should check it regularly, and return; its result is then a dead letter `late`. An `async def`
        is cancelled at its next await.
        """
        return self._cancelled

    @property
    def is_over(self) -> bool:
        """Whether the handler has returned, or the delegation has ended without it."""
        return self._closed or self._cancelled

    @property
    def remaining(self) -> float:
        """Seconds to the deadline, never below 0; infinity off the bus."""
        if self.deadline is None:
            return float("inf")
        return max(0.0, self.deadline - self._now())

    @property
    def elapsed(self) -> float:
        """Seconds since the handler began."""
        return self._now() - self.started

    @property
    def budget(self) -> BudgetAccount:
        """What the work may use, and what of it is left."""
        if self._budget is None:
            self._budget = BudgetAccount(self.delegation.budget, lambda: self.elapsed)
        return self._budget

    @property
    def is_bound(self) -> bool:
        """Whether more is asked of its answer than the data: by an id of another vocabulary, a budget or a contract."""
        delegation = self._delegation
        return self._budget is not None or (isinstance(delegation, Delegation) and (
            delegation.budget or delegation.output_contract or delegation.external_id
        ) is not None)  # fmt: skip

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger (`ether.agent.NAME`) whose records carry the request id."""
        if self._log is None:
            self._log = _TaskLog(logging.getLogger(f"ether.agent.{self.agent}"), {"request_id": self.request_id})
        return self._log

    def progress(self, fraction: float, message: str = "", data: Any = None) -> None:
        """Tell the delegator how far the work is; `handle.stream()` gives it there.

        Of the responses without data that come faster than every 20 ms, the newest is sent within some 0.1 s, unless
        the handler has returned by then; one that says 1 is sent at once.

        Args:
            fraction: 0 to 1.
            message: for people.
            data: partial output; each one is sent, at most 10,000 for a task. The bus forwards 256 or 1 MiB a second,
                and 1,024 or 4 MiB in a burst; further ones are merged into the newest, whose `metadata["folded"]` has
                their number.

        Raises:
            UsageError: `fraction` is not a number from 0 to 1, or the task sent too many responses with data.
            Closed: the handler has returned.
        """
        if not is_amount(fraction, 1.0):
            msg = f"progress({fraction!r:.40}): the part done is a number from 0 to 1."
            raise UsageError(msg)
        services = self._open_services("progress")
        if services is None or self._cancelled:
            return
        if data is not None:
            self._sent_data += 1
            if self._sent_data > MAX_PROGRESS_DATA:
                msg = f"More than {MAX_PROGRESS_DATA:,} progress responses with data: return the data, or send less often."
                raise UsageError(msg)
        with self._progress_lock:
            left = self._last_progress + PROGRESS_INTERVAL - services.monotonic()
            if data is not None or fraction >= 1.0 or left <= 0.0:
                self._send_progress(services, fraction, message, data)
                return
            is_first = self._waiting_progress is None
            self._waiting_progress = fraction, message
        if is_first:
            services.call_after(left, self._send_waiting_progress)

    def _send_waiting_progress(self) -> None:
        with self._progress_lock:
            if self._waiting_progress is not None and self._services is not None and not self.is_over:
                self._send_progress(self._services, *self._waiting_progress, None)

    def _send_progress(self, services: TaskServices, fraction: float, message: str, data: Any) -> None:
        self._waiting_progress = None  # this is newer
        if data is None:
            self._last_progress = services.monotonic()
        services.progress(self, Response(
            request_id=self.request_id, status=Status.PROGRESS, from_agent=self.agent, summary=message,
            progress=fraction, data=data, attempt=self.attempt, timestamp=services.wall(),
            external_id=self.delegation.external_id,
        ))  # fmt: skip

    def delegate(
        self,
        capability: str,
        params: Any = None,
        *,
        to: str | None = None,
        timeout: float | None = None,
        budget: Budget | None = None,
        objective: str = "",
        context: Any = None,
        retry: Retry | None = None,
        **fields: Unpack[DelegationFields],
    ) -> Handle:
        """Delegate a part of the work; the deadline and the budget are never more than what is left of this task's.

        The sub-delegation ends with this task: when the handler returns or is cancelled, a running sub-delegation is
        CANCELLED. Wait for the handle (`.result()` in a plain handler, `await` in an `async def`).

        Args:
            capability: what is asked for.
            params: its arguments.
            to: the agent; None lets the registry choose.
            timeout: seconds; None is the remaining time.
            budget: None reserves all of the remaining budget. For several sub-delegations at a time, call
                `part = task.budget.part(4)` once, before the first, and give it to each.
            objective: the aim in words.
            context: the context slice.
            retry: what outcomes are tried again, within the same timeout; each attempt takes its part of the budget.
            fields: as of `Runtime.delegate`, such as `priority`. Permissions are never more than this task's: of each, the
                lesser value of the two counts (False, the smaller number, what stands in both lists).

        Raises:
            UsageError: off the bus, a field is not valid, `timeout` is no number above 0, or `parent` is another delegation.
            BudgetExceeded: a limit of the budget is used up, or set aside for others that run.
            NotPermitted: the permissions have `can_delegate` false, or another value of one than is given here, and nobody can
                say which is less (two texts).
            Closed: the handler has returned.
        """
        try:
            return self._delegate(
                capability, params, to=to, timeout=timeout, budget=budget, objective=objective, context=context, retry=retry,
                **fields,
            )  # fmt: skip
        except BudgetExceeded as refusal:
            self.budget.note(refusal)
            raise

    def _delegate(
        self, capability: str, params: Any, *, to: str | None, timeout: float | None = None, budget: Budget | None = None,
        objective: str = "", context: Any = None, retry: Retry | None = None, **fields: Unpack[DelegationFields],
    ) -> Handle:  # fmt: skip
        """As `delegate`; a refusal of the budget is not noted."""
        if budget is not None and not isinstance(budget, Budget):
            budget = Budget.parse(budget)
        services = self._open_services("delegate")
        if services is None:
            raise UsageError(_OFF_THE_BUS.format("delegate to"))
        if retry is not None:
            left = float("inf") if self.deadline is None else self.remaining
            limit = left if timeout is None else min(left, _checked(timeout))
            return services.retry(
                check_retry(retry),
                lambda timeout: self._delegate(
                    capability, params, to=to, timeout=timeout, budget=budget, objective=objective, context=context,
                    **fields,
                ),
                lambda delegation: self._delegate_again(delegation, budget),
                None if limit == float("inf") else limit, is_named="request_id" in fields,
            )  # fmt: skip
        self._check_permission("can_delegate", "delegate")
        check_keywords(fields)
        if fields.get("parent", self.request_id) != self.request_id:
            raise UsageError("parent= is this task's delegation, and is set by itself: leave it out.")
        if timeout is not None:
            _checked(timeout)
        parent = self.delegation
        account = None if parent.budget is None else self.budget
        given = budget if account is None else account.reserve(budget)
        left = self.remaining
        deadline = self.deadline if timeout is None else min(self._now() + timeout, self.deadline or float("inf"))
        try:
            delegation = Delegation.parse({
                "request_id": services.new_id(), "from_agent": self.agent, "to_agent": to, "capability": capability,
                "objective": "" if objective is None else objective, "params": params, "context_slice": context,
                "timeout": max(1e-6, min(left, left if timeout is None else timeout)) if self.deadline is not None else timeout,
                "budget": given, "timestamp": services.wall(), "workflow": parent.workflow,
                "conversation": parent.conversation, "traceparent": parent.traceparent, "criticality": parent.criticality,
                "priority": parent.priority, **fields,
                "parent": self.request_id, "permissions": self._permissions(fields.get("permissions", {})),
            })  # fmt: skip
            handle = services.delegate(delegation, deadline)
        except BaseException:  # also what an iterable of the user's raises
            if account is not None:
                account.charge(given)
            raise
        if account is not None:
            account.follow(handle, given)
        if self._children is None:
            self._children = deque(maxlen=_MOST_LOOKED_AT)
        self._children.append(handle)
        return handle

    def _delegate_again(self, delegation: Delegation, budget: Budget | None) -> Handle:
        """Send a copy of a sub-delegation as a further attempt, which takes its part of the budget."""
        services = self._open_services("delegate")
        assert services is not None
        if self.delegation.budget is None:
            return services.send(delegation)
        account = self.budget
        try:
            given = account.reserve(budget)
        except BudgetExceeded as refusal:
            if not refusal.retryable:
                account.note(refusal)
            raise
        try:
            handle = services.send(delegation.model_copy(update={"budget": given}))
        except BaseException:
            account.charge(given)
            raise
        account.follow(handle, given)
        return handle

    def map(
        self, capability: str, items: Iterable[Any], *, window: int = WINDOW, to: str | None = None,
        **options: Unpack[DelegateOptions],
    ) -> Mapped:  # fmt: skip
        """Delegate a part of the work for each of many items; as `Runtime.map`, and each as `delegate`.

        With a budget, give each its part: `budget=task.budget.part(n)`, n being those that are open at a time.
        """
        services = self._open_services("map")
        if services is None:
            raise UsageError(_OFF_THE_BUS.format("delegate to"))
        check_each(options, "map", capability, to)
        return Mapped(
            lambda params: self._delegate(capability, params, to=to, **options), items, window, services.check_may_wait,
            lambda refusal: self.budget.note(refusal, for_good=True),
        )  # fmt: skip

    def lease(
        self, path: str | os.PathLike[str] | None = None, *, resource: str | None = None, wait: float | None = None
    ) -> Lease:  # fmt: skip
        """The right to be the only writer of a file, or of what else has a name; enter it by `with` or `async with`.

        One delegation on the bus holds it at a time; the others wait in a queue. See `Lease`.

        Args:
            path: of the file; a relative one starts at this process's working directory. All agents that write the file
                must use the same path: the bus compares paths, not files.
            resource: the name of something that is no file, such as `database:customers`.
            wait: seconds to wait for the lease; 0 does not wait, None waits until the delegation's deadline.

        Raises:
            UsageError: off the bus; both or neither of path and resource; `wait` is negative, or no number.
            NotPermitted: a path, and the permissions have `can_modify_files` false.
            Closed: the handler has returned.
        """
        if self._open_services("lease") is None:
            raise UsageError(_OFF_THE_BUS.format("give leases"))
        if (path is None) == (resource is None):
            msg = "task.lease: give either a path, as in task.lease('report.md'), or resource='NAME'."
            raise UsageError(msg)
        if wait is not None and (isinstance(wait, bool) or not is_amount(wait, math.inf)):
            msg = (
                f"task.lease(wait={wait!r:.40}): seconds of patience, 0 or more; None is as long as the delegation has."
            )
            raise UsageError(msg)
        if path is not None:
            self._check_permission("can_modify_files", f"write {path!r}")
            return Lease(self, *resource_of(path), wait)
        return Lease(self, str(resource), None, wait)

    def artifact(self, path: str | os.PathLike[str]) -> Artifact:
        """Seal a file of this machine as it is now, so that who gets it in an envelope can open it, on other machines too.

        Reads all of the file. Others read it from this node as long as the node is on the bus and the file is not changed.
        Whoever has the artifact can read the file: its delegator, whoever gets it from that, and all observers.

        Off the bus (Agent.execute) nobody can fetch it.

        Args:
            path: of the file; a relative one starts at this process's working directory.

        Raises:
            OSError: it cannot be read, or is no regular file.
            UsageError: it is no path, or its name is no text that can travel.
            Closed: the handler has returned.
        """
        services = self._open_services("artifact")
        return Artifact.of(os.path.realpath(path)) if services is None else services.offer(path)

    def sign(self, artifact: Artifact, found: os.stat_result) -> Artifact:
        """Let others fetch a file of this machine that is sealed, as `artifact`."""
        return artifact if self._services is None else self._services.sign(artifact, found)

    def ask_bus(self, capability: str, params: dict[str, Any], timeout: float | None) -> Handle:
        """Delegate to the bus itself for this task: costs nothing of its budget.

        Raises:
            Closed: the handler has returned.
        """
        services = self._open_services(capability)
        assert services is not None
        left = self.remaining if timeout is None else min(timeout, self.remaining)
        delegation = Delegation.parse({
            "request_id": services.new_id(), "from_agent": self.agent, "capability": capability, "params": params,
            "parent": self.request_id, "timestamp": services.wall(), "timeout": max(1e-6, left),
        })  # fmt: skip
        return services.delegate(delegation, self._now() + left)

    def respond(
        self, status: Status | str = Status.COMPLETED, data: Any = None, **fields: Unpack[ResponseFields]
    ) -> Response:
        """Make the response that the handler returns, where there is more to say than the data.

        Args:
            status: COMPLETED, PARTIAL, NEEDS_INPUT, a rejection or FAILED_EXECUTION; its word is taken too.
            data: the result.
            fields: any other field of `Response`, as in `summary`, `confidence`, `unresolved`, `questions`.

        Raises:
            UsageError: it is no status, or one of the bus's own (ACCEPTED, PROGRESS, TIMEOUT, CANCELLED); or `artifacts` is one
                artifact without a list; or a field is one of `error`, such as `retryable`.
            InvalidEnvelope: a field is not valid.
        """
        if not isinstance(status, str) or status not in Status.__members__:
            msg = f"respond({status!r}): the first is a Status, as in Status.PARTIAL; what was found goes as data={status!r}."
            raise UsageError(msg)
        status = Status(status)
        if status in NOT_YOURS:
            msg = f"A handler does not answer {status.name}; the bus does."
            raise UsageError(msg)
        if isinstance(fields.get("artifacts"), Artifact):
            raise UsageError("respond: artifacts is one artifact: give a list, as in artifacts=[task.artifact(path)].")
        if stray := sorted(fields.keys() & _OF_ERROR):
            msg = f"respond: {stray[0]} is of the error: error={{'code': 'busy', 'message': '…', 'retryable': True}}."
            raise UsageError(msg)
        known = {
            "request_id": self.request_id, "external_id": self.delegation.external_id, "from_agent": self.agent,
            "attempt": self.attempt,
        }  # fmt: skip
        return Response.parse({**known, "status": status, "data": data, **fields})

    # -- the node's side -----------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Note that the delegation has ended without this handler."""
        self._cancelled = True

    def close(self, *, has_failed: bool = False) -> float:
        """Note that the handler has returned; the seconds that it took.

        Sub-delegations of which nobody has asked for the outcome, and which end with it, are told, unless it has failed.
        """
        with self._progress_lock:
            self._closed = True
        if self._children and not (has_failed or self._cancelled):
            for handle in tuple(self._children):  # a thread of the handler may be about to append
                if not handle.is_followed:
                    message = (
                        f"{self.agent}: the handler of {self.delegation.capability} returned before {handle.capability} had "
                        "ended, which is cancelled with it: `await` the handle, or handle.result()."
                    )
                    logger.warning("%s", message)
                    warn_unread(logger, message)
        self._children = None
        return (time.monotonic() if self._services is None else self._services.monotonic()) - self.started

    def _now(self) -> float:
        return self._services.monotonic() if self._services is not None else time.monotonic()

    def _open_services(self, what: str) -> TaskServices | None:
        if self._closed:
            msg = f"The handler of {self.request_id} has returned: {what} came too late."
            raise Closed(msg)
        return self._services

    def _permissions(self, wanted: Any) -> Any:
        """A sub-delegation's permissions; what is no dict is told by the envelope's validation."""
        return narrowed(self.delegation.permissions, wanted) if isinstance(wanted, Mapping) else wanted

    def _check_permission(self, name: str, what: str) -> None:
        if self.delegation.permissions.get(name) is False:
            msg = f"{self.agent} was delegated this with {name} false, and may not {what}."
            raise NotPermitted(msg)


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"[{self.extra['request_id'][:8]}] {msg}" if self.extra else msg, kwargs  # type: ignore[index]


def _checked(timeout: float) -> float:
    """Seconds that a sub-delegation has.

    Raises:
        UsageError: it is no number above 0.
    """
    if not is_number(timeout) or timeout <= 0:
        raise UsageError(f"timeout={timeout!r:.40}: seconds above 0; None takes all that is left.")
    return timeout


RUNNING: Final[ContextVar[Task]] = ContextVar("RUNNING")
"""The task in whose handler something runs, or was begun; unset elsewhere."""


def running_task() -> Task | None:
    """The task whose handler calls this and has not returned; None for what it began and left behind, and elsewhere."""
    task = RUNNING.get(None)
    return None if task is None or task._closed else task  # noqa: SLF001  of this module


NOT_YOURS: Final = frozenset({Status.ACCEPTED, Status.PROGRESS, Status.TIMEOUT, Status.CANCELLED})
"""What the bus alone answers."""
