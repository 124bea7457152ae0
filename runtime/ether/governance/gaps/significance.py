"""Significance: whether counts are more than chance, one alone and among many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

__all__ = ["discoveries", "upper_tail"]

_NEGLIGIBLE: Final = 1e-17
"""A term that adds so little to the sum ends it."""


def upper_tail(successes: int, trials: int, chance: float) -> float:
    """The probability of so many successes or more, if each trial is one by `chance`: the exact one-sided binomial test.

    Args:
        successes: 0 to `trials`.
        trials: 0 and more.
        chance: above 0, below 1.
    """
    if successes <= 0:
        return 1.0
    if successes <= trials * chance:  # the lower tail is the shorter sum
        return 1.0 - upper_tail(trials - successes + 1, trials, 1.0 - chance)
    log_term = (
        math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
        + successes * math.log(chance) + (trials - successes) * math.log1p(-chance)
    )  # fmt: skip
    term = total = 1.0
    odds = chance / (1.0 - chance)
    for count in range(successes, trials):
        term *= (trials - count) / (count + 1) * odds
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(1.0, math.exp(log_term + math.log(total)))


def discoveries(probabilities: Sequence[float], level: float) -> list[bool]:
    """Which of many tests are discoveries, of which a part of `level` are false on average (Benjamini and Hochberg 1995)."""
    ranked = sorted(probabilities)
    bound = max((p for rank, p in enumerate(ranked, 1) if p <= level * rank / len(ranked)), default=-1.0)
    return [p <= bound for p in probabilities]
