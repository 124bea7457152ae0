"""A broker with its supervisor and its journal, in a thread of this process."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Iterator
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import pykka

from ether.node.backends import (
    Context,
    addressing,
    make_clock,
    make_guard,
    make_private_server,
    make_server,
    open_journal,
)
from ether.node.inline import Inline
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.transport.sessions.backlog import Backlog

if TYPE_CHECKING:
    from ether_actors.supervisor.journal.journal_maintenance import JournalMaintenance
    from ether_actors.supervisor.supervisor import Supervisor
    from ether_actors.threads.pool import Pool
    from ether_broker.security.access_list import Access
    from ether_broker.security.keyring import Keyring
    from ether_broker.transport.link import Link
    from ether_broker.transport.server import Server, SharedServer

__all__ = ["EmbeddedBroker"]

logger: logging.Logger = logging.getLogger("ether.runtime")

_PATIENCE: Final = 5.0


class EmbeddedBroker:
    """A broker in a thread of this process, from when it is made until `stop`.

    Args:
        bind: its address; None is none: nobody can join but by `link`.
        context: whose socket it has; it needs none without an address.
        limits: bounds of the agents' mailboxes.
        journal: the file in which everything is kept; None keeps nothing.
        keyring: its own keys, and whom it lets in over TCP; None has no keys.
        insecure: whether it may listen where other machines reach it, without keys.
        access: who may do what; None is everybody everything.
        create: whether the journal is made where there is none.
        timing: which it and its nodes keep.

    Raises:
        InsecureEndpoint: other machines could reach it, and there are no keys.
        AddressInUse, InvalidEndpoint: it cannot listen there.
        JournalLocked, JournalCorrupt, JournalTooNew, JournalUnavailable: the journal cannot be used.
    """

    def __init__(
        self, bind: str | None, context: Context | None, limits: Limits | None,
        journal: str | PathLike[str] | None = None, *, keyring: Keyring | None = None, insecure: bool = False,
        access: Access | None = None, create: bool = True, timing: Timing = DEFAULT_TIMING,
    ) -> None:  # fmt: skip
        # Imported here: a runtime that joins a bus needs none of it.
        from ether_actors.supervisor.supervisor import Supervisor
        from ether_actors.supervisor.supervisor_actor import TAP_INTERVAL, SupervisorActor

        self.keyring: Keyring | None = keyring
        """Whose keys are let in."""
        self.link: Link | None = None
        """The only one that there can be to a broker without an address."""
        self._private: SharedServer | None = None
        self.inline: Inline | None = None
        """How a thread that delegates steps it itself; None where it cannot."""
        clock = make_clock()
        with _no_collection():
            opened = open_journal(journal, create=create)
        try:
            guard = make_guard(keyring, bind)
            supervisor = Supervisor(
                limits=limits, tap_interval=TAP_INTERVAL, journal=opened, timing=timing.over(bind or ""), guard=guard,
                access=access, addressing=addressing(is_private=bind is None),
            )  # fmt: skip
            with _no_collection():
                supervisor.recover(clock.monotonic(), clock.wall(), clock.boot)
            self.recovered: int = sum(
                entry.deadline > supervisor.state.now for entry in supervisor.state.ledger.running
            )
            """Delegations of the journal that have no outcome and go on."""
            refusals = supervisor.state.session_table.refusals
            server: Server
            if bind is None or context is None:
                server = self._private = make_private_server()
                self.link = link = self._private.connect()
                self.inline = Inline(link.put, self._step) if journal is None else None
            else:
                server = make_server(bind, context, guard, refusals, insecure=insecure)
        except BaseException:
            opened.close()
            raise
        self.supervisor: Any = SupervisorActor.start(server, supervisor, clock)
        """Its pykka ref."""
        self.refusals: RefusalLog = refusals
        """What it refused; any thread may look at it, and add to it."""
        self.backlog: Backlog = supervisor.state.session_table.backlog
        """What it keeps for its nodes."""
        self.endpoint: str = server.endpoint
        """The address that it listens at."""
        self._maintenance = None if journal is None else self._keep_up(opened, supervisor)

    def _step(self) -> None:
        assert self._private is not None
        self._private.on_turn_end()

    def step_in(self, pool: Pool) -> None:
        """Without an address: step in an idle thread of a pool when something comes, which then runs the handler too."""
        server = self._private
        if server is not None:
            server.on_sent = partial(pool.submit_first, server.on_turn_end)

    def _keep_up(self, journal: Any, supervisor: Supervisor) -> JournalMaintenance:
        from ether_actors.supervisor.journal.checkpoint_process import fold
        from ether_actors.supervisor.journal.journal_maintenance import JournalMaintenance

        maintenance = JournalMaintenance(journal, self.supervisor, fold=partial(fold, journal.path))
        supervisor.journal_gc.attach(maintenance)  # before anybody knows the address
        maintenance.start()
        return maintenance

    def stop(self) -> None:
        """End it, waiting at most 5 s; if it has not ended by then, it does by itself."""
        if self._maintenance is not None:
            self._maintenance.end()
        try:
            self.supervisor.stop(block=True, timeout=_PATIENCE)
        except pykka.Timeout:
            if self._maintenance is not None:
                logger.warning("the broker has not ended yet, and has its journal until what holds it up lets go")
        if self._maintenance is not None:
            self._maintenance.join(_PATIENCE)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Hold off the garbage collector: a recovery makes very many objects and no garbage; with it, it takes twice as long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
