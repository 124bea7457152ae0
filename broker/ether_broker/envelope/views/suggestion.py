"""The suggestion record: a gap in the capabilities, and the agent that would fill it (spec 2 §8.3)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from ether_broker.envelope.model import AgentName, CapabilityName, Model

__all__ = ["THRESHOLD", "Justification", "SuggestionRecord", "gap_score"]

THRESHOLD: Final = 0.55
"""The lowest score that is worth a suggestion (§8.2); below it is gap spam (§16)."""

Rate = Annotated[float, Field(ge=0, le=1, strict=True)]
Ratio = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
"""0 and more; over 1 when it is measured against a baseline. The score clamps each to 1."""
_ROUNDING: Final = 0.01
"""By how much a score may differ from that of its ratios: the spec's own example, 0.61 for 0.618, cuts the third digit."""


def gap_score(rejection_rate: float, latency_penalty_ratio: float, clarification_cycles_ratio: float) -> float:
    """The score of three ratios, each clamped to 1 (spec 2 §8.2)."""
    ratios = (rejection_rate, latency_penalty_ratio, clarification_cycles_ratio)
    score = sum(weight * min(ratio, 1.0) for weight, ratio in zip((0.4, 0.3, 0.3), ratios, strict=True))
    return round(score, 9)


class Justification(Model):
    """The ratios that justify a suggestion, and their score (spec 2 §8.2).

    The ratios are raw, so that they can be judged.

    Example:
        why = Justification(
            rejection_rate=0.5, latency_penalty_ratio=0.8, clarification_cycles_ratio=0.6, score=0.62
        )
        assert why.weighed == 0.62  # 0.4 x 0.5 + 0.3 x 0.8 + 0.3 x 0.6
    """

    rejection_rate: Rate
    latency_penalty_ratio: Ratio
    clarification_cycles_ratio: Ratio
    score: Rate
    """As it was written down, to two digits or more."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not abs(self.score - self.weighed) < _ROUNDING:
            formula = "0.4 x rejections + 0.3 x latency + 0.3 x clarifications, each at most 1"
            raise ValueError(f"score {self.score:g} is not that of its ratios: {formula}, is {self.weighed:.3f}")
        return self

    @property
    def weighed(self) -> float:
        """The score that the ratios give; this one decides whether it is worth a suggestion."""
        return gap_score(self.rejection_rate, self.latency_penalty_ratio, self.clarification_cycles_ratio)


class SuggestionRecord(Model):
    """A structured proposal to create or extend an agent (spec 2 §8.3).

    Example:
        why = Justification(
            rejection_rate=0.5, latency_penalty_ratio=0.8, clarification_cycles_ratio=0.6, score=0.62
        )
        record = SuggestionRecord(
            suggestion_id="s-1", proposed_agent="translator", capabilities=("text.translate",),
            justification=why, submitted_by=bus.name,
        )
        bus.suggest(record)
        assert record.document()["proposed_agent"] == "translator"
    """

    suggestion_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The same id is the same suggestion: said again, it counts once."""
    proposed_agent: AgentName
    capabilities: Annotated[tuple[CapabilityName, ...], Field(min_length=1)]
    justification: Justification
    impact_expectation: str = ""
    rfc_reference: str | None = None
    submitted_by: AgentName

    def document(self) -> dict[str, Any]:
        """The record as the spec writes it, in plain values."""
        return self.model_dump(mode="json")
