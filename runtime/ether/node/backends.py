"""The backends of a runtime and of its embedded broker: which kind of journal, of transport and of clock they use.

Their other modules use the interfaces. A context and a guard belong to the transport: who makes one hands it on, and calls
nothing of a context but `destroy`. What works on a journal's file without its broker (`ether.audit`, `ether log gc`, the lab,
and the process that makes a broker's checkpoints) uses SQLite's modules directly.

Another kind: docs/design.md, "Another transport, journal or clock".
"""

from __future__ import annotations

import itertools
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeAlias

import zmq

from ether_broker.clock import Clock, SystemClock
from ether_broker.transport.zeromq.link import ZmqLink

if TYPE_CHECKING:
    from ether_broker.journal.journal import Journal
    from ether_broker.security.credentials import Credentials
    from ether_broker.security.keyring import Keyring
    from ether_broker.transport.address import Addressing
    from ether_broker.transport.in_process.server import InProcessServer
    from ether_broker.transport.link import Link
    from ether_broker.transport.refusal_log import RefusalLog
    from ether_broker.transport.server import Server
    from ether_broker.transport.zeromq.curve_server import CurveGuard

__all__ = [
    "Context",
    "addressing",
    "make_clock",
    "make_context",
    "make_guard",
    "make_link",
    "make_private_server",
    "make_server",
    "open_journal",
]

_numbers: Final = itertools.count(1)
Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"
"""What the connections of a process share."""


def make_context() -> Context:
    """A context for this process's connections; whoever made it destroys it."""
    return zmq.Context()


def make_clock() -> Clock:
    """The clock of this machine."""
    return SystemClock()


def make_link(url: str, context: Context, credentials: Credentials | None) -> Link:
    """A node's side of the transport; not connected yet.

    Raises:
        InvalidEndpoint: not an address.
    """
    return ZmqLink(url, context, security=credentials)


def make_guard(keyring: Keyring | None, bind: str | None) -> CurveGuard | None:
    """The check of a broker's peers by their keys; None without keys, and for all but TCP: the rest stays on the machine."""
    if keyring is None or not (bind or "").startswith("tcp://"):
        return None
    from ether_broker.transport.zeromq.curve_server import CurveGuard

    return CurveGuard(keyring)


def make_private_server() -> InProcessServer:
    """The broker's side of a transport that only this process reaches."""
    from ether_broker.transport.in_process.server import InProcessServer

    return InProcessServer(f"inproc://ether-{next(_numbers)}")


def addressing(*, is_private: bool) -> Addressing:
    """How the broker's side of the transport, or of the private one, tells whose an address is."""
    if is_private:
        from ether_broker.transport.in_process.server import InProcessServer

        return InProcessServer.addressing
    from ether_broker.transport.zeromq.server import ZmqServer

    return ZmqServer.addressing


def make_server(
    endpoint: str, context: Context, guard: CurveGuard | None, refusals: RefusalLog, *, insecure: bool
) -> Server:  # fmt: skip
    """The broker's side of the transport, which listens.

    Raises:
        InsecureEndpoint: other machines could reach it, and there are no keys.
        AddressInUse, InvalidEndpoint: it cannot listen there.
    """
    from ether_broker.transport.zeromq.server import ZmqServer

    return ZmqServer(endpoint, context, security=guard, insecure=insecure, refusals=refusals)


def open_journal(path: str | PathLike[str] | None, *, create: bool) -> Journal:
    """The journal in a file; without a path one that keeps nothing.

    Raises:
        JournalLocked, JournalCorrupt, JournalTooNew, JournalUnavailable: it cannot be used.
    """
    if path is None:
        from ether_broker.journal.null import NullJournal

        return NullJournal()
    from ether_broker.journal.sqlite.journal import SqliteJournal

    return SqliteJournal(path, create=create)
