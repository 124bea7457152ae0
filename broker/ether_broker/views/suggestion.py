"""Spec 2 §8.3: the record of a gap in the capabilities and of the agent that would fill it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from ether_broker.model import AgentName, CapabilityName, Model

__all__ = ["THRESHOLD", "Justification", "SuggestionRecord"]

THRESHOLD: Final = 0.55
"""The lowest score that is worth a suggestion (§8.2); below it is gap spam (§16)."""

Ratio = Annotated[float, Field(ge=0)]
"""0 and more; over 1 when it is measured against a baseline. The score clamps each to 1."""
_ROUNDING: Final = 0.01
"""By how much a score may differ from that of its ratios: the spec's own example, 0.61 for 0.618, cuts the third digit."""


class Justification(Model):
    """The figures behind a suggestion (§8.2); the ratios are raw, so that they can be judged."""

    rejection_rate: Ratio
    latency_penalty_ratio: Ratio
    clarification_cycles_ratio: Ratio
    score: Annotated[float, Field(ge=0, le=1)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        ratios = (self.rejection_rate, self.latency_penalty_ratio, self.clarification_cycles_ratio)
        expected = sum(weight * min(ratio, 1.0) for weight, ratio in zip((0.4, 0.3, 0.3), ratios, strict=True))
        if not abs(self.score - expected) < _ROUNDING:
            weighed = "0.4 x rejections + 0.3 x latency + 0.3 x clarifications, each at most 1"
            msg = f"score {self.score:g} is not that of its ratios: {weighed}, is {expected:.3f}"
            raise ValueError(msg)
        return self


class SuggestionRecord(Model):
    """A structured proposal to create or extend an agent; it enters governance."""

    suggestion_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The same id is the same suggestion: said again, it counts once."""
    proposed_agent: AgentName
    capabilities: tuple[CapabilityName, ...]
    justification: Justification
    impact_expectation: str = ""
    rfc_reference: str | None = None
    submitted_by: AgentName

    def document(self) -> dict[str, Any]:
        """The record as the spec writes it, in plain values."""
        return self.model_dump(mode="json")
