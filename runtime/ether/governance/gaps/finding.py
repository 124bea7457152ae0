"""Findings: a gap with its cause and evidence, and advice about a name."""

from __future__ import annotations

from dataclasses import dataclass

from ether.governance.gaps.rules import Cause

__all__ = ["Advice", "GapFinding"]


@dataclass(frozen=True, slots=True)
class GapFinding:
    """A capability that is missing or does not suffice, why, and what shows it.

    Example:
        finding = GapFinding("text.translate", Cause.UNSERVED, opened=20_003, first=20_001, last=20_003, affected=12, asked=12,
                          days=3, delegators=2)
        assert finding.sentence.startswith("text.translate: no agent has it")
    """

    capability: str
    cause: Cause
    opened: int
    """The day on which the rule had held for long enough."""
    first: int
    """The first day of the window that showed it."""
    last: int
    """The last one."""
    affected: int
    """Delegations in it that ended so."""
    asked: int
    """Delegations in it that could have."""
    days: int
    """Days with any of them."""
    delegators: int
    """Delegators of them."""

    @property
    def sentence(self) -> str:
        """What it says, in one sentence."""
        words = {
            Cause.UNSERVED: "no agent has it",
            Cause.REFUSED: "its agents refuse what they are asked for, or do a part of it",
            Cause.UNCLEAR: "its agents ask back, or miss context",
            Cause.SLOW: "it is slower than its weight says",
        }[self.cause]
        share = self.affected / self.asked if self.asked else 0.0
        by = f"{self.delegators} delegator{'s' if self.delegators != 1 else ''}"
        return (
            f"{self.capability}: {words}: {self.affected:,} of {self.asked:,} delegations ({share:.0%}) by {by},"
            f" on {self.days} of {self.last - self.first + 1} days."
        )


@dataclass(frozen=True, slots=True)
class Advice:
    """A name that one delegator asks for, and that is a misspelt one of a capability.

    Example:
        advice = Advice("text.translat", "text.translate", "editor", 7)
        assert advice.sentence == "editor asks for text.translat (7 delegations), which no agent has: text.translate is meant?"
    """

    capability: str
    meant: str
    delegator: str
    affected: int

    @property
    def sentence(self) -> str:
        """What it says, in one sentence."""
        many = f"{self.affected:,} delegation{'s' if self.affected != 1 else ''}"
        return f"{self.delegator} asks for {self.capability} ({many}), which no agent has: {self.meant} is meant?"
