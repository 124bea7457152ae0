"""A judgement of a scan: what it found of the gaps that simulated months have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from ether.governance.gaps.scan import Scan
from ether.governance.gaps.simulator.month import Gap, Month

__all__ = ["Judgement"]

_LEAST: Final = 8
"""Affected delegations of a gap that has to be found."""
_ENOUGH: Final = 30
"""Those of one that has to be found nearly always."""


@dataclass(slots=True)
class Judgement:
    """Right and wrong findings over months.

    Example:
        judgement = Judgement.of([1, 2])
        assert 0.0 <= judgement.precision <= 1.0
    """

    found: list[tuple[Gap, int]] = field(default_factory=list)
    """(gap, days from its first to the finding)."""
    missed: list[Gap] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    """{what was taken for a gap: how often}."""
    small: int = 0
    """Findings of gaps that affected too few to count, for or against."""

    @classmethod
    def of(cls, seeds: Iterable[int]) -> Judgement:
        """Judge the scans of the months of some seeds."""
        judgement = cls()
        for seed in seeds:
            judgement.add(Month(seed))
        return judgement

    def add(self, month: Month) -> None:
        """Judge the scan of a month."""
        scan = Scan(month.traffic)
        first = {finding.capability: finding for finding in reversed(scan.findings)}
        gaps = {gap.capability: gap for gap in month.gaps}
        for capability, gap in gaps.items():
            finding = first.pop(capability, None)
            if gap.affected < _LEAST:
                self.small += finding is not None
            elif finding is None:
                self.missed.append(gap)
            else:
                self.found.append((gap, finding.opened - gap.first))
        for capability, finding in first.items():
            self.wrong[f"{month.innocent.get(capability, 'ordinary')}: {finding.cause}"] += 1

    @property
    def precision(self) -> float:
        """The part of the findings that are gaps."""
        right = len(self.found)
        return right / (right + self.wrong.total()) if right else 0.0

    def recall(self, least: int = _LEAST) -> float:
        """The part of the gaps of so many affected delegations and more that were found."""
        found = sum(gap.affected >= least for gap, _ in self.found)
        missed = sum(gap.affected >= least for gap in self.missed)
        return found / (found + missed) if found + missed else 0.0

    def summary(self) -> dict[str, object]:
        """Its figures, in plain values."""
        return {
            "gaps_found": len(self.found),
            "gaps_missed": dict(Counter(gap.kind for gap in self.missed).most_common()),
            "wrong": dict(self.wrong.most_common()),
            "precision": self.precision,
            "recall": self.recall(),
            f"recall_of_{_ENOUGH}_and_more": self.recall(_ENOUGH),
            "days_to_detection": self.days_to_detection,
        }

    @property
    def days_to_detection(self) -> float | None:
        """The median; None if nothing was found."""
        return median(days for _, days in self.found) if self.found else None
