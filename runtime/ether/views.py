"""The envelopes in the words of the spec's documents; each view converts both ways without loss."""

from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput
from ether_broker.envelope.views.handoff import RequestEnvelope, ResponseEnvelope
from ether_broker.envelope.views.notation import canonical_id as foreign_id
from ether_broker.envelope.views.registry import AgentInfo, CapabilityManifest, RegistryEntry
from ether_broker.envelope.views.subgoal import AgentResponse, SubgoalRequest
from ether_broker.envelope.views.suggestion import Justification, SuggestionRecord

__all__ = [
    "AgentInfo",
    "AgentInput",
    "AgentOutput",
    "AgentResponse",
    "CapabilityManifest",
    "Justification",
    "RegistryEntry",
    "RequestEnvelope",
    "ResponseEnvelope",
    "SubgoalRequest",
    "SuggestionRecord",
    "foreign_id",
]
