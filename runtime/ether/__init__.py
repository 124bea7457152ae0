"""Ether: an actor message bus for AI agents.

General layout, from the ground up; imports point down only:

    ether_broker    what travels and how: envelopes, wire, routing, sockets
    ether_actors    who acts: Agent, supervisor, registry, restarts, observers
    ether           what you import and run: Runtime, nodes, clusters, the command line

Everything for users is here, and in `ether.cluster`, `ether.errors`, `ether.observers`, `ether.testing` and `ether.views`.
"""

import logging as _logging
from typing import TYPE_CHECKING

from ether.agent_ref import AgentRef
from ether.node.monitor import Monitor
from ether.runtime import Runtime
from ether.version import __version__
from ether_actors.agent.agent import Agent, AsyncAgent, ThreadedAgent
from ether_actors.agent.agent_bus import AgentBus
from ether_actors.agent.composable import ComposableAgent
from ether_actors.agent.declarations.capability import capability
from ether_actors.agent.declarations.event_handler import on_event
from ether_actors.agent.declarations.schedule import cron, every
from ether_actors.agent.delayed import Delayed
from ether_actors.agent.scale import Scale
from ether_actors.delegator.completions import Completions, as_completed
from ether_actors.delegator.handle import Handle, Stream
from ether_actors.delegator.mapped import Mapped
from ether_actors.delegator.retry import Retry
from ether_actors.observers.observer import Observation, Observer
from ether_actors.task.budget import BudgetAccount
from ether_actors.task.event import Event
from ether_actors.task.lease import Lease
from ether_actors.task.task import Task
from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Budget, Criticality, Delegation, OutputContract
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.manifest.subscription import Subscription
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import AgentStatus, Status
from ether_broker.errors import (
    AccessDenied,
    AddressInUse,
    AgentCrash,
    ArtifactMismatch,
    ArtifactTooLarge,
    ArtifactUnavailable,
    AuthenticationFailed,
    BrokerUnavailable,
    BudgetExceeded,
    Cancelled,
    Closed,
    DiscoveryUnavailable,
    DuplicateAgent,
    EtherError,
    Failed,
    Forbidden,
    IncompatibleVersion,
    InsecureEndpoint,
    InvalidEndpoint,
    InvalidEnvelope,
    InvalidKey,
    InvalidManifest,
    InvalidSpec,
    InvalidState,
    LeaseDeadlock,
    LeaseHeld,
    LeaseLost,
    MailboxFull,
    MissingExtra,
    NameTaken,
    NodeRefused,
    NotPermitted,
    OutcomeError,
    PayloadTooLarge,
    Rejected,
    TimedOut,
    TooManyLeases,
    Unavailable,
    Unfinished,
    UnknownAgent,
    UnknownDeadLetter,
    Unserialisable,
    UntrustedBroker,
    UsageError,
    WaitTimeout,
)
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import Timing

if TYPE_CHECKING:
    from ether.cluster.cluster import AgentSpec, Cluster, ClusterSpec, NodeSpec
    from ether.errors import ProcessFailed
    from ether_actors.backoff import Backoff
    from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, Strategy, SupervisorSpec
    from ether_broker.discovery.advert import Advert
    from ether_broker.discovery.browser import discover


__all__ = [  # noqa: RUF022  grouped by subject
    # Running
    "Advert", "AgentRef", "AgentSpec", "Cluster", "ClusterSpec", "Limits", "NodeSpec", "Runtime", "Timing",
    "discover",
    # Agents
    "Agent", "AgentBus", "AsyncAgent", "BudgetAccount", "ComposableAgent", "Delayed", "Event", "Lease", "Scale",
    "Task", "ThreadedAgent", "capability", "cron", "every", "on_event",
    # Delegations
    "AgentStatus", "Artifact", "Budget", "Capability", "Completions", "Criticality", "Delegation", "ErrorInfo", "Handle",
    "Manifest", "Mapped", "OutputContract", "Response", "Retry", "Status", "Stream", "Subscription", "as_completed",
    "thaw",
    # Supervision
    "Backoff", "ChildSpec", "Monitor", "Restart", "Strategy", "SupervisorSpec",
    # Observers
    "Observation", "Observer",
    # Errors
    "AccessDenied", "AddressInUse", "AgentCrash", "ArtifactMismatch", "ArtifactTooLarge", "ArtifactUnavailable",
    "AuthenticationFailed",
    "BrokerUnavailable", "BudgetExceeded", "Cancelled", "Closed", "DiscoveryUnavailable", "DuplicateAgent", "EtherError",
    "Failed", "Forbidden", "IncompatibleVersion", "InsecureEndpoint", "InvalidEndpoint", "InvalidEnvelope", "InvalidKey",
    "InvalidManifest", "InvalidSpec", "InvalidState", "LeaseDeadlock", "LeaseHeld", "LeaseLost", "MailboxFull", "MissingExtra",
    "NameTaken", "NodeRefused", "NotPermitted", "OutcomeError", "PayloadTooLarge", "ProcessFailed", "Rejected",
    "TimedOut", "TooManyLeases", "Unavailable", "Unfinished", "UnknownAgent", "UnknownDeadLetter", "Unserialisable",
    "UntrustedBroker", "UsageError", "WaitTimeout", "__version__",
]  # fmt: skip

_LATER = {
    "Advert": "ether_broker.discovery.advert",
    **dict.fromkeys(("AgentSpec", "Cluster", "ClusterSpec", "NodeSpec"), "ether.cluster"),
    "ProcessFailed": "ether.errors",
    "discover": "ether_broker.discovery.browser",
    "Backoff": "ether_actors.backoff",
    **dict.fromkeys(("ChildSpec", "Restart", "Strategy", "SupervisorSpec"), "ether_actors.restarts.supervisor_spec"),
}
"""Names that are imported when first used: not everybody starts processes or supervision trees, or has a network."""


def __getattr__(name: str) -> object:
    """Import what not every user needs (PEP 562)."""
    if name not in _LATER:
        raise AttributeError(f"module 'ether' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    """List what is imported later too, for completion and documentation (PEP 562)."""
    return sorted({*globals(), *_LATER})


_logging.getLogger("ether").addHandler(_logging.NullHandler())
