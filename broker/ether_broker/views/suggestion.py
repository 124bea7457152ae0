"""Spec 2 §8.3: the record of a gap in the capabilities and of the agent that would fill it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from ether_broker.model import AgentName, CapabilityName, Model

__all__ = ["THRESHOLD", "Justification", "SuggestionRecord"]

THRESHOLD: Final = 0.55
"""The lowest score that is worth a suggestion (§8.2); below it is gap spam (§16)."""

Ratio = Annotated[float, Field(ge=0)]
"""0 and more; over 1 when it is measured against a baseline. The score clamps each to 1."""


class Justification(Model):
    """The figures behind a suggestion (§8.2); the ratios are raw, so that they can be judged."""

    rejection_rate: Ratio
    latency_penalty_ratio: Ratio
    clarification_cycles_ratio: Ratio
    score: Annotated[float, Field(ge=0, le=1)]


class SuggestionRecord(Model):
    """A structured proposal to create or extend an agent; it enters governance."""

    suggestion_id: str
    proposed_agent: AgentName
    capabilities: tuple[CapabilityName, ...]
    justification: Justification
    impact_expectation: str = ""
    rfc_reference: str | None = None
    submitted_by: AgentName

    def document(self) -> dict[str, Any]:
        """The record as the spec writes it, in plain values."""
        return self.model_dump(mode="json")
