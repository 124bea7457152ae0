"""What users may import: the public modules, and of each the names. Whoever changes this changes what others rely on."""

from __future__ import annotations

from typing import Final

__all__ = ["PUBLIC"]

_NAMES: Final = {
    "ether": """
        AccessDenied AddressInUse Advert Agent AgentBus AgentCrash AgentRef AgentSpec AgentStatus Artifact
        ArtifactMismatch ArtifactTooLarge ArtifactUnavailable AsyncAgent AuthenticationFailed Backoff BrokerUnavailable Budget
        BudgetAccount
        BudgetExceeded Cancelled Capability ChildSpec Closed Cluster ClusterSpec Completions ComposableAgent Criticality
        Delayed Delegation DiscoveryUnavailable DuplicateAgent ErrorInfo EtherError Event Failed Forbidden Handle
        IncompatibleVersion InsecureEndpoint InvalidEndpoint InvalidEnvelope InvalidKey InvalidManifest
        InvalidSpec InvalidState Lease LeaseDeadlock LeaseHeld LeaseLost Limits MailboxFull Manifest Mapped MissingExtra Monitor
        NameTaken NodeRefused NodeSpec NotPermitted Observation Observer OutcomeError OutputContract
        PayloadTooLarge ProcessFailed Rejected Response Restart Retry Runtime Scale Status Strategy Stream Subscription
        SupervisorSpec Task ThreadedAgent TimedOut Timing TooManyLeases Unavailable Unfinished UnknownAgent
        UnknownDeadLetter Unserialisable UntrustedBroker UsageError WaitTimeout __version__ as_completed
        capability cron discover every on_event thaw
    """,
    "ether.cluster": """
        AgentSpec Cluster ClusterSpec GAVE_UP MetricsSpec NodeSpec ObserverSpec ReloadReport load up
    """,
    "ether.errors": """
        ProcessFailed
    """,
    "ether.observers": """
        CONTENT_TYPE DEFINITIONS Definition EXTENSION_METRICS Figures Log Metrics MetricsStatistics
        PairTotals Probe Target Turnaround Verdict WindowStatistics
    """,
    "ether.testing": """
        ManualClock MemoryBroker MemoryLink Probe Stalled TestRuntime
    """,
    "ether.views": """
        AgentInfo AgentInput AgentOutput AgentResponse CapabilityManifest Justification RegistryEntry
        RequestEnvelope ResponseEnvelope SubgoalRequest SuggestionRecord foreign_id
    """,
}
PUBLIC: Final = {module: frozenset(names.split()) for module, names in _NAMES.items()}
"""{module: its names}"""
