"""A lease as its handler sees it: enter it, write under it, leave it."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from ether_actors.delegator.handle import Handle
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.response import Response
from ether_broker.errors import Closed, LeaseDeadlock, LeaseHeld, LeaseLost, TooManyLeases, UsageError

if TYPE_CHECKING:
    from ether_actors.task.working_file import WorkingFile

__all__ = ["Lease", "Owner", "resource_of"]

_REPLY: Final = 10.0
"""Seconds that the supervisor may take to answer what needs no waiting."""
_ERRORS: Final = {error.code: error for error in (LeaseHeld, TooManyLeases, LeaseDeadlock)}


class Owner(Protocol):
    """The interface of the task that holds a lease."""

    attempt: int

    @property
    def is_over(self) -> bool:
        """Whether the handler has returned, or its delegation has ended without it."""

    def ask_bus(self, capability: str, params: dict[str, Any], timeout: float | None) -> Handle:
        """Delegate to the bus itself."""

    def sign(self, artifact: Artifact, found: os.stat_result) -> Artifact:
        """Let others fetch a file that is sealed."""


class Lease:
    """The right to be the only writer of a file, or of whatever else has a name (G5); `task.lease` makes it.

        class Writer(Agent):
            @capability("report.add")
            def add(self, line: str, task: Task):
                with task.lease("report.md", wait=5.0) as lease:  # async with, in an async def
                    before = lease.path.read_text() if lease.path.exists() else ""
                    return task.respond(artifacts=[lease.write(before + line)])

        bus.start(Writer)
        assert bus.delegate("report.add", {"line": "found"}).result().artifacts[0].read() == b"found"

    Promises: while a delegation holds it, no other delegation on the bus does. Its token is higher than that of every
    lease granted before. It ends when the block is left, or with the delegation, and never otherwise. `write` of a
    lease that is no longer the newest changes nothing, however long its process was stopped.

    Does not promise: to stop writers that do not acquire the lease or do not use `write`; send the `token` to such a
    resource and let it refuse lower ones. `is_held` is this node's knowledge: a node without a connection to the broker
    learns late that it was declared lost. A lease belongs to a path: a file with two hard links has two leases.
    """

    __slots__ = ("_file", "_is_released", "_owner", "_path", "_token", "_wait", "resource")

    def __init__(self, owner: Owner, resource: str, path: Path | None, wait: float | None) -> None:
        self._owner = owner
        self.resource: str = resource
        """Its name on the bus; of a file its absolute path without symbolic links."""
        self._path = path
        self._wait = wait
        self._token = 0
        self._is_released = False
        self._file: WorkingFile | None = None

    @property
    def path(self) -> Path:
        """The file, absolute.

        Raises:
            UsageError: it is a lease on something else.
        """
        if self._path is None:
            msg = f"The lease on {self.resource!r} is on no file: write task.lease(PATH) for that."
            raise UsageError(msg)
        return self._path

    @property
    def token(self) -> int:
        """Its fencing token: whatever it guards may refuse a lower one than it has seen.

        Raises:
            UsageError: the lease has not been entered.
        """
        if not self._token:
            msg = f"The lease on {self.resource!r} is entered by `with` or `async with`; until then it has no token."
            raise UsageError(msg)
        return self._token

    @property
    def is_held(self) -> bool:
        """Whether it was granted and, as far as this node knows, has not ended; `check` asks the supervisor."""
        return self._token > 0 and not self._is_released and not self._owner.is_over

    def write(self, data: str | bytes) -> Artifact:
        """Replace the file whole, and return it as `task.artifact` does; it takes as long as the disk does.

        A reader sees the old file or the new one, never a part. The file keeps its permissions.

        Args:
            data: text is written as UTF-8.

        Raises:
            LeaseLost: it has ended, or a newer one was entered; nothing was written.
            UsageError: it is on no file, or has not been entered; or `data` is neither text nor bytes.
            OSError: the disk does not take it.
        """
        path, _ = self.path, self.token
        if not self.is_held:
            raise self._lost()
        assert self._file is not None
        if not isinstance(data, str | bytes | bytearray | memoryview):
            msg = f"lease.write takes text or bytes, such as json.dumps(…), and this is a {type(data).__name__}."
            raise UsageError(msg)
        body = data.encode() if isinstance(data, str) else bytes(data)
        written = self._file.replace(body)
        artifact = Artifact(path=str(path), sha256=hashlib.sha256(body).hexdigest(), size=len(body))
        return self._owner.sign(artifact, written)

    def check(self) -> None:
        """Ask the supervisor whether the lease is held; in an `async def`, `await lease.check_async()`.

        The answer was true when the supervisor sent it. Without another fence, check directly before each step that
        must not be done twice.

        Raises:
            LeaseLost: it is not.
            OutcomeError: the supervisor did not answer.
        """
        if self.is_held:
            self._take_check(self._ask_whether().result())
        else:
            raise self._lost()

    async def check_async(self) -> None:
        """As `check`."""
        if self.is_held:
            self._take_check(await self._ask_whether())
        else:
            raise self._lost()

    def _ask_whether(self) -> Handle:
        return self._owner.ask_bus("ether.leases", {"resource": self.resource}, _REPLY)

    def _take_check(self, response: Response) -> None:
        held = response.unwrap().data["items"]
        if not held or held[0]["token"] != self._token:
            raise self._lost()

    def _lost(self) -> LeaseLost:
        how = "was released" if self._is_released else "has ended with its delegation"
        return LeaseLost(f"The lease on {self.resource!r} {how}: nothing is written under it any more.")

    # -- entering ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Wait for the lease.

        Raises:
            LeaseHeld: another delegation held it for all of `wait`.
            LeaseDeadlock: whoever holds it waits for this delegation.
            TooManyLeases: the agent has 1,000 already.
            LeaseLost: while it was entered, it ended.
            Cancelled: the delegation ended meanwhile.
            OSError: of a file, the directory cannot be written.
        """
        handle = self._claim()
        try:
            self._granted(handle.result())
            if self._file is not None:
                self._file.enter()
        except BaseException:
            self._give_up(handle)
            raise
        return self

    async def __aenter__(self) -> Self:
        """As `__enter__`."""
        handle = self._claim()
        try:
            self._granted(await handle)
            if self._file is not None:
                await _enter(self._file)
        except BaseException:
            self._give_up(handle)
            raise
        return self

    def _claim(self) -> Handle:
        if self._token or self._is_released:
            msg = f"The lease on {self.resource!r} has been entered before: make another with task.lease(...)."
            raise UsageError(msg)
        params: dict[str, Any] = {"resource": self.resource, "attempt": self._owner.attempt}
        if self._wait is None:
            return self._owner.ask_bus("ether.lease", params, None)
        return self._owner.ask_bus("ether.lease", {**params, "wait": self._wait}, self._wait + _REPLY)

    def _granted(self, response: Response) -> None:
        if not response.ok:
            known = _ERRORS.get(response.error.code) if response.error is not None else None
            if known is not None and response.error is not None:
                raise known(response.error.message)
            response.unwrap()
        self._token = response.data["token"]
        if self._path is not None:
            from ether_actors.task.working_file import WorkingFile

            self._file = WorkingFile(self._path, self._token)

    def _give_up(self, handle: Handle) -> None:
        """Let nobody wait for a lease that nobody enters; if it is granted all the same, give it back."""
        self._is_released = True
        handle.cancel()
        handle.add_done_callback(self._give_back)

    def _give_back(self, handle: Handle) -> None:
        response = handle.outcome()
        if response.ok and not self._owner.is_over:
            self._send_release(response.data["token"])

    # -- leaving -------------------------------------------------------------------------------------------------

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        """Release the lease; another delegation may hold it when this returns."""
        handle = self._release()
        if handle is not None:
            handle.result()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        """As `__exit__`."""
        handle = self._release()
        if handle is not None:
            await handle

    def _release(self) -> Handle | None:
        if not self.is_held:
            return None  # it has gone with its delegation
        self._is_released = True
        return self._send_release(self._token)

    def _send_release(self, token: int) -> Handle | None:
        try:
            return self._owner.ask_bus("ether.release", {"token": token}, _REPLY)
        except Closed:  # the handler has returned meanwhile: the lease goes with its delegation
            return None

    def __repr__(self) -> str:
        state = "held" if self.is_held else "over" if self._token else "not entered"
        return f"<Lease {self.resource} {state}>"


def resource_of(path: str | os.PathLike[str]) -> tuple[str, Path]:
    """The name of a file on the bus: its absolute path without symbolic links.

    Raises:
        UsageError: it is no name that a file can have.
    """
    try:
        real = os.path.realpath(os.fsdecode(path) or "\0")  # an empty name would be the working directory
        real.encode()
    except (ValueError, TypeError) as error:
        msg = f"task.lease({path!r}): {error}. Give a path, or resource='NAME' for what is no file."
        raise UsageError(msg) from None
    if not Path(real).name:
        msg = f"task.lease({path!r}): {real} is a directory, and a lease is on one file."
        raise UsageError(msg)
    return str(real), Path(real)


async def _enter(file: WorkingFile) -> None:
    import asyncio

    from ether_actors.task.working_file import PATIENCE, PAUSE

    limit = time.monotonic() + PATIENCE
    while not file.try_enter():
        if time.monotonic() >= limit:
            raise file.stuck()
        await asyncio.sleep(PAUSE)
