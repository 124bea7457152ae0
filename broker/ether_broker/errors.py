"""The errors of Ether, by whose fault they are.

EtherError
├── UsageError                 you called it wrongly; nothing was sent
│   ├── InvalidEnvelope        an envelope that cannot be made or read
│   │   ├── Unserialisable     a value that msgpack cannot carry
│   │   └── PayloadTooLarge    a body over the limit
│   ├── InvalidManifest        a manifest or capability declaration that contradicts itself
│   ├── DuplicateAgent         the name is taken by a living agent
│   ├── UnknownAgent           no agent of that name
│   ├── UnknownDeadLetter      no dead letter of that number
│   ├── UnknownJournal         no journal where one was named
│   ├── UnknownEntry           nothing in the journal is meant
│   ├── InvalidEndpoint        not an address that a broker can have
│   ├── InvalidSpec            a child spec, cluster file or option that cannot be
│   ├── UntrustedBroker        a broker shows a key that is not known here
│   ├── InvalidKey             a key, or a file or folder of keys, that cannot be used
│   ├── InsecureEndpoint       an address that other machines reach, without keys
│   └── MissingExtra           an optional dependency is not installed
├── InvalidState               the state of an agent cannot be saved, or read
├── Closed                     you closed it: runtime, handle, mailbox, observer
├── Unavailable                the world broke it; trying again may help
│   ├── BrokerUnavailable      nobody answers at the broker's address
│   ├── DiscoveryUnavailable   the local network cannot be asked for brokers
│   ├── AddressInUse           the broker's address is taken
│   ├── NodeRefused            the broker does not let this node in
│   │   └── NameTaken          another node has its name
│   ├── MailboxFull            a bounded queue has no room
│   ├── JournalUnavailable     the journal cannot be written or read now
│   │   ├── JournalFull        its disk has no room
│   │   ├── JournalReadOnly    it may not be written
│   │   └── JournalLocked      another process has it
│   ├── LeaseHeld              another delegation holds the lease
│   ├── TooManyLeases          an agent has as many leases as it may
│   ├── ArtifactUnavailable    the bytes of an artifact cannot be fetched now
│   └── TooMuch                a node asks for more than one node may have
├── JournalCorrupt             the journal's bytes are not what was written
├── LeaseLost                  the lease is not yours, or not yours any more
├── LeaseDeadlock              the lease would be waited for in a circle
├── ArtifactMismatch           a file is not what the response sealed
├── ArtifactTooLarge           an artifact has more bytes than are to be read
├── BudgetExceeded             a limit of the delegation's budget is used up
├── NotPermitted               the delegation's permissions do not have it
├── Forbidden                  who you are does not allow it: a key or an access list has to change first
│   ├── AuthenticationFailed   broker and node do not accept each other's keys
│   └── AccessDenied           the cluster's access list does not have it
├── ProtocolError              a peer broke the wire protocol
│   ├── NoSession              the broker does not know the connection
│   ├── MalformedFrame         bytes that are not a frame
│   └── IncompatibleVersion    a newer major version of protocol or schema
│       └── JournalTooNew      a newer Ether wrote the journal
├── OutcomeError               a delegation ended otherwise than COMPLETED (`Response.unwrap`)
│   ├── Rejected               REJECTED_CAPABILITY, REJECTED_CONTEXT, REJECTED_OVERLOAD
│   ├── TimedOut               TIMEOUT
│   ├── Cancelled              CANCELLED
│   ├── Failed                 FAILED_EXECUTION
│   └── Unfinished             PARTIAL or NEEDS_INPUT
├── WaitTimeout                the waiter's patience ended; the delegation goes on
├── AgentCrash                 a handler asks for its agent to be restarted
└── InternalError              we have a bug
"""

from __future__ import annotations

import copyreg
import re
from typing import Any, Protocol

__all__ = [
    "AccessDenied",
    "AddressInUse",
    "AgentCrash",
    "ArtifactMismatch",
    "ArtifactTooLarge",
    "ArtifactUnavailable",
    "AuthenticationFailed",
    "BrokerUnavailable",
    "BudgetExceeded",
    "Cancelled",
    "Closed",
    "DiscoveryUnavailable",
    "DuplicateAgent",
    "EtherError",
    "Failed",
    "Forbidden",
    "IncompatibleVersion",
    "InsecureEndpoint",
    "InternalError",
    "InvalidEndpoint",
    "InvalidEnvelope",
    "InvalidKey",
    "InvalidManifest",
    "InvalidSpec",
    "InvalidState",
    "JournalCorrupt",
    "JournalFull",
    "JournalLocked",
    "JournalReadOnly",
    "JournalTooNew",
    "JournalUnavailable",
    "LeaseDeadlock",
    "LeaseHeld",
    "LeaseLost",
    "MailboxFull",
    "MalformedFrame",
    "MissingExtra",
    "NameTaken",
    "NoSession",
    "NodeRefused",
    "NotPermitted",
    "OutcomeError",
    "PayloadTooLarge",
    "ProtocolError",
    "Rejected",
    "TimedOut",
    "TooManyLeases",
    "TooMuch",
    "Unavailable",
    "Unfinished",
    "UnknownAgent",
    "UnknownDeadLetter",
    "UnknownEntry",
    "UnknownJournal",
    "Unserialisable",
    "UntrustedBroker",
    "UsageError",
    "WaitTimeout",
]


class EtherError(Exception):
    """The base of every error that Ether raises on purpose."""

    code: str = "error"
    """A stable word for programs; the message is for people. It is the class's name in small letters, as `lease_held`, without
    an `Error` at its end; a class of another module has that of its base, unless it says one."""
    retryable: bool = False
    """Whether the same call may succeed later without a change."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.__module__ == __name__:
            cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__.removesuffix("Error")).lower()

    def __reduce__(self) -> tuple[object, ...]:
        """Copying and pickling make the same one with its attributes, whatever its class is made of."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # as pickle does


class UsageError(EtherError):
    """The call was wrong; nothing was sent and nothing changed."""


class InvalidEnvelope(UsageError):
    """An envelope that cannot be made or read: a field is missing, unknown or of the wrong type."""


class Unserialisable(InvalidEnvelope):
    """A value that msgpack cannot carry; the message names where it is."""


class InvalidState(EtherError):
    """A state of an agent that cannot be saved, or that was saved and cannot be read."""

    code = "invalid_state"


class PayloadTooLarge(InvalidEnvelope):
    """A body over the limit of the bus.

    Attributes:
        size: bytes that were to be sent.
        limit: bytes that the bus takes.
        state: bytes of them that are the state which the answer saves.
    """

    def __init__(self, size: int, limit: int, state: int = 0) -> None:
        part = f", of which the agent's changed state has {state:,}," if state else ""
        super().__init__(
            f"The envelope has {size:,} bytes{part} and the bus takes {limit:,}: write it to a file, and pass "
            "bus.artifact(path) or task.artifact(path) instead."
        )
        self.size = size
        self.limit = limit
        self.state = state


class InvalidManifest(UsageError):
    """A manifest or a capability declaration that contradicts itself or the rules for names."""


class DuplicateAgent(UsageError):
    """The name is taken by a living agent."""


class UnknownAgent(UsageError):
    """No agent has that name."""


class UnknownDeadLetter(UsageError):
    """No dead letter has that number, or it has been dropped for newer ones."""


class UnknownJournal(UsageError):
    """No journal is where one was named."""


class UnknownEntry(UsageError):
    """Nothing in the journal has that number or request id, or more than one thing has."""


class InvalidEndpoint(UsageError):
    """Not an address that a broker can have."""


class InvalidSpec(UsageError):
    """A child spec, a cluster file or an option with a value that cannot be."""


class UntrustedBroker(UsageError):
    """A broker that was found on the network shows another key than the one known here, or a key and none is known."""


class InvalidKey(UsageError):
    """A key, or a file or folder of keys, that cannot be used; the message says which, and the fix."""


class InsecureEndpoint(UsageError):
    """An address that other machines reach was to be bound without keys."""


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class Closed(EtherError):
    """You closed it: the runtime, the mailbox or the observer takes nothing more."""


class Unavailable(EtherError):
    """The world broke it; trying again may help."""

    retryable = True


class BrokerUnavailable(Unavailable):
    """Nobody answers at the broker's address."""


class DiscoveryUnavailable(Unavailable):
    """The system does not let us ask the local network for brokers, or tell it of one."""


class AddressInUse(Unavailable):
    """The address that the broker was to bind is taken."""


class NodeRefused(Unavailable):
    """The broker does not let this node in; the message is the broker's reason."""


class NameTaken(NodeRefused):
    """Another node, or an agent of one, has the name; that a node has died, the broker notices after 3 s at the latest."""


class MailboxFull(Unavailable):
    """A bounded queue has no room, in count or in bytes."""


class JournalUnavailable(Unavailable):
    """The journal cannot be written or read now; what was committed is safe, and it goes on when the cause is gone."""


class JournalFull(JournalUnavailable):
    """The disk under the journal has no room."""


class JournalReadOnly(JournalUnavailable):
    """The journal, its folder or its file system may not be written."""


class JournalLocked(JournalUnavailable):
    """Another process has the journal: a journal has one writer."""


class JournalCorrupt(EtherError):
    """The bytes of the journal are not what was written, or the file is no journal."""

    following = 0
    """The number of the first message behind what is damaged; 0 where that is not known."""


class LeaseHeld(Unavailable):
    """Another delegation holds the lease, and did so until the patience for it ended."""


class TooManyLeases(Unavailable):
    """An agent has as many leases, and waits for as many, as it may; or as many wait for the lease as may."""


class ArtifactUnavailable(Unavailable):
    """The bytes of an artifact cannot be fetched: its node is gone, stands still or has them no more; or there is no room."""


class TooMuch(Unavailable):
    """A node asks for more than one node may have, or for more at a time than the broker reads."""


class LeaseLost(EtherError):
    """The lease is not yours, or not yours any more: its delegation has ended, or a newer one has been granted.

    Nothing was written.
    """


class LeaseDeadlock(EtherError):
    """The lease would be waited for in a circle: whoever holds it waits, in the end, for the one that asks."""


class ArtifactMismatch(EtherError):
    """A file is not what its response sealed (G5): changed, gone, or never sealed.

    Attributes:
        path: the artifact's.
        expected: the sealed SHA-256 in hex; None when there is none.
        found: that of the file; None when it was not read to its end.
        found_size: bytes of the file; None when there is none that can be read.
    """

    def __init__(
        self, message: str, path: str = "", expected: str | None = None, found: str | None = None,
        found_size: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.path = path
        self.expected = expected
        self.found = found
        self.found_size = found_size


class ArtifactTooLarge(EtherError):
    """An artifact has more bytes than are to be read (`max_bytes`)."""


class BudgetExceeded(EtherError):
    """A limit of the delegation's budget is used up, so nothing more is delegated for it (G4).

    Uncaught, it ends the delegation PARTIAL.
    """


class NotPermitted(EtherError):
    """The delegation's permissions do not have it, such as `can_modify_files`; nothing was done."""


class Forbidden(EtherError):
    """Who you are does not allow it: a key or an access list has to change before the same call can succeed."""


class AuthenticationFailed(Forbidden):
    """Broker and node do not accept each other's keys; the message says whose, and the fix."""


class AccessDenied(Forbidden):
    """The cluster's access list does not have it."""


class ProtocolError(EtherError):
    """A peer broke the wire protocol."""


class NoSession(ProtocolError):
    """The broker does not know this connection, or not any more: it has to say HELLO, as after a restart of the broker."""


class MalformedFrame(ProtocolError):
    """Bytes that are not a frame.

    Attributes:
        data: the first 64 of the offending bytes.
    """

    def __init__(self, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        self.data = bytes(data[:64])


class IncompatibleVersion(ProtocolError):
    """A peer or a document speaks a newer major version."""


class JournalTooNew(IncompatibleVersion):
    """A newer Ether wrote the journal; this one leaves it as it is."""


class _Outcome(Protocol):
    """A terminal `Response`; the errors are below the envelopes and do not import them."""

    @property
    def error(self) -> Any:
        """What went wrong, with its code; None where that is not said."""
        ...

    def explain(self) -> str:
        """One sentence."""


class OutcomeError(EtherError):
    """A delegation ended otherwise than COMPLETED; `Response.unwrap` raises it.

    Attributes:
        response: the terminal response, whole.
        code: that of the response's error, such as `journal_unavailable`; of one without it, the class's.
        retryable: as the response's error says.
    """

    code: str
    retryable: bool

    def __init__(self, response: _Outcome) -> None:
        super().__init__(response.explain())
        self.response: Any = response
        if response.error is not None:
            self.code = response.error.code
            self.retryable = response.error.retryable


class Rejected(OutcomeError):
    """REJECTED_CAPABILITY, REJECTED_CONTEXT or REJECTED_OVERLOAD: no work was begun."""


class TimedOut(OutcomeError):
    """TIMEOUT: the deadline passed."""


class Cancelled(OutcomeError):
    """CANCELLED: the delegator, or an ancestor's end, cancelled it."""


class Failed(OutcomeError):
    """FAILED_EXECUTION: the handler raised, or its node was lost."""


class Unfinished(OutcomeError):
    """PARTIAL or NEEDS_INPUT: there is an answer, but not the whole of it."""


class WaitTimeout(EtherError, TimeoutError):
    """The waiter's patience ended; the delegation goes on and can be waited for again."""

    retryable = True


class AgentCrash(EtherError):
    """Raise it in a handler whose agent's state is broken: the agent is restarted by its child spec.

    The delegation in hand ends FAILED_EXECUTION; any other exception ends it so too, but leaves the agent running.
    """


class InternalError(EtherError):
    """We have a bug; the message says what was found."""
