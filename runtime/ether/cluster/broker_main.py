"""The main function of the broker's process: the broker's socket and the supervisor, and no agent's code.

SIGTERM lets the nodes leave first, because a service manager tells all processes of a cluster at the same time;
SIGINT, or a second signal, ends it at once. Either way the socket's file goes with it.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import resource
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ether.node.backends import Context, make_context
from ether.node.embedded_broker import EmbeddedBroker
from ether.process.memory_limit import MemoryLimit
from ether.process.parent_link import ParentLink, end
from ether.process.signals import Stopping
from ether.text_io.terminal import log_to_stderr
from ether_broker.errors import EtherError, JournalUnavailable
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access
from ether_broker.timing import Timing

if TYPE_CHECKING:
    from ether_broker.security.keyring import Keyring

__all__ = ["main"]

logger: logging.Logger = logging.getLogger("ether.broker")

BROKEN: Final = 70
"""Exit code when the supervisor has ended by itself."""
_OLDEST: Final = 2
"""The generation of objects that a full collection looks at."""
_LOOK: Final = 0.5
_PATIENCE: Final = 10.0
"""Seconds that the supervisor has for a change."""
_RETRY: Final = 0.5
"""Seconds between two tries to open the journal."""
_SWITCH_INTERVAL: Final = 1e-4
"""Seconds after which the journal's thread gets the interpreter from a busy supervisor: with Python's 5 ms a commit waits more
than it works."""


def main() -> None:
    """Serve until told to end."""
    parent_link = ParentLink(on_orphaned=_clean, death_signal=0)
    request = parent_link.request
    log_to_stderr(logging.INFO)
    _raise_descriptor_limit()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with Stopping(lambda _number: None) as stopping, make_context() as context:
        try:
            host = _host(parent_link, stopping, context)
        except EtherError as error:
            parent_link.failed(error.code, str(error))
            sys.exit(2)
        if host is None:
            end(0)
        freeze_what_survives()
        parent_link.serve(partial(_take_over, host))
        parent_link.ready(endpoint=host.endpoint, unended=host.recovered)
        watch = MemoryLimit(host.endpoint, request["limits"]["memory_bytes"], host.refusals.note, host.backlog)
        code = _serve(stopping, host.supervisor, request["drain"])
        host.stop()
        watch.close()
        context.destroy(linger=1000)
    end(code)


def _host(parent_link: ParentLink, stopping: Stopping, context: Context) -> EmbeddedBroker | None:
    """The broker, as soon as its journal can be used; None when it is told to end before.

    One that is started for the first time says at once what is wrong with its journal. One that takes another's place waits,
    as what was accepted is in that very file.
    """
    request = parent_link.request
    said = ""
    while True:
        try:
            return EmbeddedBroker(
                request["bind"], context, Limits(**request["limits"]), request["journal"],
                keyring=_keyring(request["security"]), insecure=request["security"]["insecure"],
                access=Access.of(request["access"]), create=not request["again"],
                timing=Timing(**request["timing"]),
            )  # fmt: skip
        except JournalUnavailable as error:
            if not request["again"]:
                raise
            if said != error.code:
                said = error.code
                parent_link.waits(str(error))
        if stopping.wait(_RETRY) is not None:
            return None


def _take_over(host: EmbeddedBroker, request: dict[str, Any]) -> dict[str, object]:
    """Let the nodes of a cluster that has changed in, with their agents."""
    if host.keyring is not None:
        host.keyring.allow_beside(request["members"])
    access = Access.of(request["access"])
    host.supervisor.ask(lambda running: running.state.access.take_over(access), timeout=_PATIENCE)
    return {}


def freeze_what_survives() -> None:
    """Freeze what survives each full garbage collection, so that the next one skips it; for a process that is only a broker.

    A broker with 100,000 agents has millions of objects, and scanning them all stops it for a third of a second. The
    broker makes no reference cycles, so whatever it drops is freed without the collector.
    """

    def freeze(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == _OLDEST:
            gc.freeze()

    gc.freeze()
    gc.callbacks.append(freeze)


def _keyring(security: dict[str, Any]) -> Keyring | None:
    """The cluster's keyring, and the pairs that the cluster made for its own nodes."""
    if security["keys"] is None:
        return None
    from ether_broker.security.keyring import Keyring

    return Keyring(security["keys"], extra=security["members"])


def _serve(stopping: Stopping, supervisor: Any, drain: float) -> int:
    """Wait for the end: a signal, or that the supervisor is there no more."""
    while (reason := stopping.wait(_LOOK)) is None:
        if not supervisor.is_alive():
            logger.error("the supervisor has ended by itself")
            return BROKEN
    limit = time.monotonic() + drain
    while reason != "SIGINT" and stopping.signals < 2 and time.monotonic() < limit:  # noqa: PLR2004  the second
        if not supervisor.ask(lambda running: len(running.state.session_table.sessions), timeout=5.0):
            break
        reason = stopping.wait(0.1) or reason
    return 0


def _raise_descriptor_limit() -> None:
    """Two sockets a node: the usual soft limit of 1,024 would let in some 500."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _clean(request: dict[str, Any]) -> None:
    """Remove what the parent, which has died, would have removed."""
    if request["folder"] is not None:
        shutil.rmtree(request["folder"], ignore_errors=True)
    elif request["bind"].startswith("ipc://"):
        Path(request["bind"].removeprefix("ipc://")).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
