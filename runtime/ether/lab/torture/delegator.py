"""The main function of a delegator's process: delegates its share of the work, and logs what it asks and is told.

A life that was killed is followed by another under the same name: it collects what the earlier ones had asked and not been
told, and goes on with the next piece of its share. When that is done, it collects once more what it gave up waiting for.
Without a journal there is nothing to collect: what a dead life had open stays *unknown*.
"""

from __future__ import annotations

import sched
import time
from pathlib import Path
from typing import Any, Final

from ether.cluster.node_main import join
from ether.lab.torture.history.log import LogWriter, read_log
from ether.lab.torture.history.message import note_outcome
from ether.lab.torture.workload import Job, make_job
from ether.process.parent_link import ParentLink, end
from ether.process.signals import Stopping
from ether.runtime import Runtime
from ether_actors.delegator.handle import Handle
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError
from ether_broker.wire.codec import read_response

__all__ = ["Delegator", "main"]

MOST_OPEN: Final = 64
"""Delegations that are open at a time."""
_TICK: Final = 0.005
_JOIN: Final = 60.0
_COLLECT: Final = 20.0


class Delegator:
    """The loop of one life.

    Args:
        bus: joined under the delegator's name.
        path: of the log of all its lives.
        log: it.
        request: the name, the seed, the share, the rate, and when the load began.
        index: of the next piece of the share.
    """

    def __init__(self, bus: Runtime, path: Path, log: LogWriter, request: dict[str, Any], index: int) -> None:
        self._bus = bus
        self._path = path
        self._log = log
        self._request = request
        self._index = index
        self._open: set[str] = set()
        """Request ids of what waits for its outcome; changed by whole calls, each of which is atomic."""
        self._cancels = sched.scheduler(time.monotonic)

    @property
    def finished(self) -> bool:
        """Whether the whole share is asked, and everything that this life asked is answered."""
        return self._index >= self._request["share"] and not self._open

    def turn(self) -> None:
        """Ask for what is due, as far as the window allows, and cancel what is to be cancelled."""
        now = time.monotonic()
        due = min(self._request["share"], int((now - self._request["began"]) * self._request["rate"]) + 1)
        while self._index < due and len(self._open) < MOST_OPEN:
            self._ask(make_job(self._request["seed"], self._bus.name, self._index))
            self._index += 1
        self._cancels.run(blocking=False)

    def _ask(self, job: Job) -> None:
        request_id = to_text(new_id())
        self._log.write(
            "invoke", id=request_id, index=self._index, capability=job.capability, timeout=job.timeout, by=self._bus.name
        )  # fmt: skip
        try:
            handle = self._bus.delegate(job.capability, job.params, timeout=job.timeout, request_id=request_id)
        except EtherError as error:
            self._log.write("fail", id=request_id, code=error.code)
            return
        self._open.add(handle.id)
        if job.cancel_after is not None:
            self._cancels.enter(job.cancel_after, 0, handle.cancel)
        progress = Progress()
        handle.listen(progress.take)
        handle.add_done_callback(lambda done: self._told(done, progress))

    def collect(self) -> bool:
        """Ask for what no life of this name was told; False when there is nothing like that."""
        missing = unanswered(self._path) if self._request["durability"] != "memory" else []
        if not missing:
            return False
        try:
            handles = self._bus.collect(missing, timeout=_COLLECT)
        except EtherError as error:
            self._log.write("trouble", code=error.code, message=str(error))
            return True
        self._log.write("collect", missing=len(missing), found=len(handles))
        wanted = set(missing)
        for handle in handles:
            if handle.id in wanted:
                self._open.add(handle.id)
                handle.add_done_callback(self._told_late)
        return True

    def _told_late(self, handle: Handle) -> None:
        response = handle.outcome()
        if response.error is not None and response.error.code == "broker_lost":  # the broker knows nothing of it
            self._log.write("unheard", id=handle.id)
        else:
            note_outcome(self._log, self._bus.name, response, collected=True)
        self._open.discard(handle.id)

    def _told(self, handle: Handle, progress: Progress) -> None:
        note_outcome(
            self._log, self._bus.name, handle.outcome(), progress=progress.count, disordered=progress.disordered
        )
        self._open.discard(handle.id)


class Progress:
    """The progress that a delegator is told of one delegation before its outcome."""

    def __init__(self) -> None:
        self.count: int = 0
        self.disordered: int = 0
        """Steps that did not come after those before them, in one run."""
        self._last = (0, -1)

    def take(self, update: Any) -> None:
        """Take an update; None is the end."""
        if update is None:
            return
        header, envelope = update
        if header.status != Status.PROGRESS.code:
            return
        self.count += 1
        step = (header.attempt, read_response(header, envelope).data["step"])
        self.disordered += step <= self._last
        self._last = step


def unanswered(path: Path) -> list[str]:
    """The request ids in a log that may have an outcome which it does not tell."""
    asked: dict[str, None] = {}
    for line in read_log(path):
        match line["event"]:
            case "invoke":
                asked[line["id"]] = None
            case "ok" | "fail" | "unheard":
                asked.pop(line["id"], None)
    return list(asked)


def main() -> None:
    """Delegate as a child of a campaign."""
    parent_link = ParentLink()
    request = parent_link.request
    path = Path(request["folder"], "history", f"{request['name']}.jsonl")
    index = sum(line["event"] == "invoke" for line in read_log(path))
    log = LogWriter(path)
    with Stopping() as stopping:
        bus = join(lambda: Runtime.connect(request["url"], name=request["name"], threads=2, drain=0.0, timeout=_JOIN))
        log.write("life", index=index)
        parent_link.ready()
        delegator = Delegator(bus, path, log, request, index)
        delegator.collect()
        is_told = False
        while stopping.wait(_TICK) is None:
            delegator.turn()
            if delegator.finished and not is_told and not delegator.collect():
                is_told = True
                log.write("finished")
        log.write("leaving")
        bus.close()
    end(0)


if __name__ == "__main__":
    main()
